//! Images: stage, apply, roll back.
//!
//! Before a pull the name is read in its one spelling ([`Reference`]) and the node's own signing policy asked ([`Policy`]); both
//! are refusals with a status. Then a stream begins whose last line is the outcome. The pull itself goes on to its own deadline
//! when the client leaves, or edge or core end, and a second call for the same image reads along.

pub mod bootc;
pub mod policy;
mod pull;
pub mod reference;

use std::time::Duration;

use muster_api::lifecycle::Status;
use muster_api::upgrade::{Image, StageRequest};
use muster_api::{Fault, Kind};
use muster_sys::command::Outcome;

use super::{Done, Ended, Request, Works, lifecycle, tools};
use crate::places::Places;
use policy::{Policy, Verdict};
pub(super) use pull::Slot;
use reference::Reference;

/// The images of a machine. What is not known is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// That runs.
    pub booted: Option<Image>,
    /// That the next boot takes.
    pub staged: Option<Image>,
    /// That a rollback makes the next.
    pub rollback: Option<Image>,
    /// It is the next already.
    pub rollback_queued: bool,
    /// The name in a registry that what is staged, or else what runs, was pulled by.
    pub followed: Option<String>,
}

/// How a pull stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// There is none.
    Nothing,
    /// It goes on.
    Runs,
    /// It ended so, and was not forgotten yet.
    Ended(Outcome),
}

/// What can change the image that a machine boots.
pub(super) trait ImageBackend: Send {
    /// Which images there are.
    fn images(&self) -> Result<Images, Fault>;
    /// Begins to pull an image and to stage it, without booting it. It ends itself after so long, and not with this process; what
    /// it prints is added to [`places::STAGE_LOG`](crate::places::STAGE_LOG). With `anew` it is what the machine takes its images
    /// from already, and what is behind that name now is wanted.
    fn pull(&self, image: &Reference, anew: bool, longest: Duration) -> Result<(), Fault>;
    /// How the one pull that there may be stands.
    fn stands(&self) -> Result<Stands, Fault>;
    /// Forgets one that ended.
    fn forget(&self) -> Result<(), Fault>;
    /// Makes the image before this one the next to boot, without booting it.
    fn roll_back(&self) -> Result<(), Fault>;
}

/// The back end of this machine, where it has one.
pub(super) fn backend(places: &Places) -> Option<Box<dyn ImageBackend>> {
    Some(Box::new(bootc::Bootc::find(places)?))
}

fn needed(places: &Places) -> Result<Box<dyn ImageBackend>, Fault> {
    backend(places).ok_or_else(|| {
        Fault::state("no-image", "this node does not boot from an image: it has no bootc")
            .fix("Upgrade its packages the way that it was installed.")
    })
}

/// `POST /v1/upgrade/stage`.
pub(super) fn stage(request: &Request<'_>) -> Result<Done, Fault> {
    let StageRequest { image } = super::body(request)?;
    let pull = begin(request.places, &request.works.pull, &image, pull::LONGEST, request.ended.clone())?;
    let images = request.works.images.clone();
    Ok(Done::Stream(Box::new(move |client| {
        let watched = pull.watch(client);
        images.forget();
        watched
    })))
}

fn begin(
    places: &Places,
    slot: &Slot,
    image: &str,
    longest: Duration,
    ended: Ended,
) -> Result<std::sync::Arc<pull::Pull>, Fault> {
    let image = Reference::parse(image).map_err(|e| Fault::bad("image", e.to_string()))?;
    let backend = needed(places)?;
    permit(places, &image)?;
    slot.pull(places, &image, backend, longest, ended)
}

/// Follows a pull that the core before this one began, if there is one. `told` is called when it has ended.
pub fn adopt(places: &Places, works: &Works, told: impl FnOnce(bool, &str) + Send + 'static) -> bool {
    let Some(backend) = backend(places) else { return false };
    let images = works.images.clone();
    works.pull.adopt(places, backend, move |staged, words| {
        images.forget();
        told(staged, words);
    })
}

/// The policy of the machine. One of root's own, below its home, would come before it: [`bootc`] runs its tools without one.
const POLICY: &str = "/etc/containers/policy.json";

fn permit(places: &Places, image: &Reference) -> Result<(), Fault> {
    let forbidden = |reason: &str, error: String| Fault::new(Kind::Forbidden, reason, error);
    let how = "Name the registry or repository with a `sigstoreSigned` or `signedBy` requirement there: \
               containers-policy.json(5).";
    let text = match bounded(places, POLICY) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(
                forbidden("policy-missing", format!("the node has no signing policy, {POLICY}")).fix(how)
            );
        }
        Err(e) => return Err(Fault::failed("policy", format!("{POLICY} cannot be read: {e}"))),
    };
    let policy = Policy::parse(&text).map_err(|e| {
        forbidden("policy-broken", format!("{POLICY} is {e}; the container tools would not take it either"))
            .fix(how)
    })?;
    match policy.judge(image) {
        Verdict::Signed => Ok(()),
        Verdict::Unsigned => {
            Err(forbidden("unsigned", format!("{POLICY} would let {} in without a signature", image.name()))
                .fix(how))
        }
        Verdict::Rejected => {
            Err(forbidden("rejected", format!("{POLICY} rejects {}", image.name())).fix(how))
        }
    }
}

fn bounded(places: &Places, path: &str) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    std::fs::File::open(places.at(path))?.take(policy::MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > policy::MAX {
        return Err(std::io::Error::other("it is longer than 1 MiB"));
    }
    Ok(text)
}

/// `POST /v1/upgrade/apply`.
pub(super) fn apply(request: &Request<'_>) -> Result<Done, Fault> {
    quiet(&request.works.pull)?;
    let images = needed(request.places)?.images()?;
    if images.staged.is_none() {
        return Err(Fault::state("nothing-staged", "no image is staged")
            .fix("Stage one first: `muster node upgrade`."));
    }
    let status = Status::of("applying").note("The node reboots into the staged image now.");
    Ok(Done::status(202, &status)?.and_then(lifecycle::promised(request, "reboot")))
}

/// `POST /v1/upgrade/rollback`.
pub(super) fn rollback(request: &Request<'_>, drop_staged: bool) -> Result<Done, Fault> {
    quiet(&request.works.pull)?;
    let status = rolled_back(needed(request.places)?.as_ref(), drop_staged);
    request.works.images.forget();
    Done::json(&status?)
}

fn rolled_back(backend: &dyn ImageBackend, drop_staged: bool) -> Result<Status, Fault> {
    let images = backend.images()?;
    let Some(before) = images.rollback else {
        return Err(Fault::state("nothing-to-roll-back-to", "the node has no image before this one"));
    };
    // A rollback throws it away: whoever staged it may be another one, who is about to boot it.
    if let Some(staged) = images.staged.filter(|_| !drop_staged) {
        let digest = |i: &Image| i.digest.clone().unwrap_or_else(|| "an image without a digest".to_owned());
        let (staged, before) = (digest(&staged), digest(&before));
        let error = format!("{staged} is staged, and would be dropped for a rollback to {before}");
        return Err(Fault::state("staged", error)
            .fix("Boot it, or drop it: `?discard=true`, `muster node upgrade --rollback --drop-staged`."));
    }
    backend.roll_back()?;
    Ok(Status::of("rolled back")
        .note("The next reboot takes the image before this one. /var stays as it is."))
}

/// The images of the machine for its state, where they can be known; not asked for more than once in two seconds.
pub(super) fn images(places: &Places, works: &Works) -> Images {
    let places = places.clone();
    let ask = move || backend(&places).and_then(|b| b.images().ok()).unwrap_or_default();
    works.images.get(Duration::from_secs(2), ask)
}

/// Nothing is being pulled.
fn quiet(slot: &Slot) -> Result<(), Fault> {
    match slot.running() {
        None => Ok(()),
        Some(image) => {
            Err(Fault::state("staging", format!("the node is pulling {}", tools::line(&image, 400)))
                .fix("Wait until it is done."))
        }
    }
}

#[cfg(test)]
#[path = "upgrade/tests.rs"]
mod tests;
