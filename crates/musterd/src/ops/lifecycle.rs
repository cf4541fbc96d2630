//! Reboot and power off: the answer goes out first.
//!
//! What was promised stands in a file of this boot, so that a core that is killed between its answer and its deed leaves the deed to
//! the next one.

use std::time::Duration;

use muster_api::Fault;
use muster_api::lifecycle::Status;

use muster_core::Operation;
use muster_sys::clock::this_boot;
use muster_sys::state::Durability;
use serde::{Deserialize, Serialize};

use super::{Done, Request, tools};
use crate::core::disk::{self, Disk};
use crate::places::Places;

/// The file of [`GOING_DOWN`](crate::places::GOING_DOWN), in its folder.
const PROMISE: &str = "going-down.json";

/// What the answer has to get from the core to the client.
const GRACE: Duration = Duration::from_millis(500);

/// That the machine goes down, and by whose word.
#[derive(Serialize, Deserialize)]
struct Promise {
    op: String,
    verb: String,
    boot: String,
}

/// `POST /v1/lifecycle/reboot`.
pub(super) fn reboot(request: &Request<'_>) -> Result<Done, Fault> {
    Ok(Done::status(202, &Status::of("rebooting"))?.and_then(promised(request, "reboot")))
}

/// `POST /v1/lifecycle/shutdown`.
pub(super) fn shutdown(request: &Request<'_>) -> Result<Done, Fault> {
    Ok(Done::status(202, &Status::of("shutting down"))?.and_then(promised(request, "poweroff")))
}

/// Writes down, before the answer, that the machine goes down after it.
pub(super) fn promised(request: &Request<'_>, verb: &'static str) -> impl FnOnce() + Send + 'static {
    let places = request.places.clone();
    let op = request.ask.operation().row().name.to_owned();
    let write = || {
        let boot = this_boot().map_err(|e| e.line())?;
        let promise = Promise { op, verb: verb.to_owned(), boot };
        disk::write_json(&Disk::open(&places)?.run, PROMISE, &promise, Durability::Volatile)
    };
    if let Err(e) = write() {
        // Where nothing can be written, this is what makes room: it goes on without.
        record(&format!("that the node goes down cannot be written down: {e}"));
    }
    move || go_down(&places, verb)
}

/// Goes on with what the core before this one answered and did not do, on a thread of its own. `told` is called first where there is
/// such a thing, with the operation.
pub fn resume(places: &Places, told: impl FnOnce(Operation)) {
    let Ok(disk) = Disk::open(places) else { return };
    let Ok(Some(promise)) = disk::read_json::<Promise>(&disk.run, PROMISE) else { return };
    let verb = match promise.verb.as_str() {
        "reboot" => "reboot",
        "poweroff" => "poweroff",
        _ => return,
    };
    let Some(op) = Operation::ALL.iter().copied().find(|o| o.row().name == promise.op) else { return };
    if this_boot().is_ok_and(|boot| boot == promise.boot) {
        told(op);
        let places = places.clone();
        let spawned =
            std::thread::Builder::new().name("down".to_owned()).spawn(move || go_down(&places, verb));
        if let Err(e) = spawned {
            record(&format!("the node does not go down: no thread: {e}"));
        }
    }
}

/// Reboots, after the answer.
pub(super) fn reboot_now(places: &Places) -> impl FnOnce() + Send + 'static {
    let places = places.clone();
    move || go_down(&places, "reboot")
}

/// Asks systemd for it. Where systemd cannot take the request, the harder way: units are not stopped, file systems are.
fn go_down(places: &Places, verb: &str) {
    std::thread::sleep(GRACE);
    let deadline = Duration::from_secs(20);
    let soft = tools::run(tools::systemctl(places).arg(verb).deadline(deadline), verb);
    if soft.as_ref().is_ok_and(muster_sys::command::Output::ok) {
        // systemd has it now. If somebody cancels that, the node is not to go down at the next start of the core.
        return forget(places);
    }
    record(&format!("systemctl {verb} did not work; going down without stopping units"));
    let hard = tools::systemctl(places).arg("--force").arg(verb).deadline(deadline);
    if let Err(fault) = tools::must(hard, verb) {
        record(&format!("the node does not go down: {}", fault.error));
        // Nor is it to at the next start of the core, for no reason that anybody would see.
        forget(places);
    }
}

fn forget(places: &Places) {
    if let Ok(disk) = Disk::open(places) {
        let _ = disk.run.remove(PROMISE);
    }
}

/// A line of the journal, for what nobody is there to be told any more.
pub(super) fn record(message: &str) {
    crate::say::error(message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::Fake;

    fn promise(fake: &Fake, boot: &str) {
        let disk = Disk::open(&fake.places).unwrap();
        let promise = Promise { op: "upgrade-apply".into(), verb: "reboot".into(), boot: boot.into() };
        disk::write_json(&disk.run, PROMISE, &promise, Durability::Volatile).unwrap();
    }

    #[test]
    fn what_was_answered_and_not_done_is_done_by_the_next_start_in_the_same_boot_and_once() {
        let fake = Fake::new();
        fake.program("/usr/bin/systemctl", "exit 1");
        resume(&fake.places, |op| panic!("{op:?}: nothing was promised"));
        promise(&fake, "another boot");
        resume(&fake.places, |op| panic!("{op:?} was of another boot"));
        promise(&fake, &this_boot().unwrap());
        let mut told = None;
        resume(&fake.places, |op| told = Some(op));
        assert_eq!(told, Some(Operation::UpgradeApply));
        let begun = std::time::Instant::now();
        while fake.places.at(crate::places::GOING_DOWN).exists() {
            assert!(begun.elapsed().as_secs() < 30, "what cannot be done is not tried for ever");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(fake.called().iter().any(|c| c.ends_with("[--force] [reboot]")));
        resume(&fake.places, |op| panic!("{op:?} a second time"));
    }

    #[test]
    fn systemd_is_asked_once_and_only_forced_when_it_could_not() {
        let fake = Fake::new();
        fake.program("/usr/bin/systemctl", "exit 0");
        go_down(&fake.places, "reboot");
        assert_eq!(fake.called(), ["systemctl [--no-pager] [--no-ask-password] [reboot]"]);
        fake.program("/usr/bin/systemctl", "[[ $3 == --force ]]");
        go_down(&fake.places, "poweroff");
        assert_eq!(
            fake.called(),
            [
                "systemctl [--no-pager] [--no-ask-password] [poweroff]",
                "systemctl [--no-pager] [--no-ask-password] [--force] [poweroff]"
            ]
        );
    }
}
