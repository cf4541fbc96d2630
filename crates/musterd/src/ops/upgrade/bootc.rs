//! Images by way of `bootc`, as it is documented: bootc(8), bootc-switch(8), bootc-upgrade(8), bootc-rollback(8), bootc-status(8), and the schema
//! `org.containers.bootc/v1` of its status.
//!
//! It was not run on a bootc host from here: what it prints is taken from that schema, and its arguments from those pages.
//!
//! Its commands run in units of their own (systemd-run(1)), not below the core: they make mount namespaces and write where
//! the core may not. `--pipe` gives them the core's end of a pipe, `--wait` the core their code.
//!
//! A pull has neither: its unit writes to a file and stays to be asked (`--remain-after-exit`, systemctl(1) `show`), so that it
//! outlives the core that began it, and the next core finds it.

use std::time::Duration;

use muster_api::Fault;
use muster_api::upgrade::Image;
use muster_sys::command::{Command, Outcome};
use serde_json::Value;

use super::super::tools;
use super::{ImageBackend, Images, Reference, Stands};
use crate::places::{self, Places};

/// Where it is.
const PROGRAM: &str = "/usr/bin/bootc";
/// Bytes of the longest status.
const MAX_STATUS: usize = 1 << 20;
/// The unit that a pull runs in: one at a time on a machine, also across restarts of the core.
const PULL_UNIT: &str = "muster-upgrade-stage";

/// The back end of a machine that `bootc` installed.
pub(super) struct Bootc {
    places: Places,
}

impl Bootc {
    /// Where the machine has one.
    pub(super) fn find(places: &Places) -> Option<Self> {
        places.at(PROGRAM).is_file().then(|| Self { places: places.clone() })
    }

    /// A unit of its own that ends after so long, for `bootc` with these arguments.
    fn unit(&self, how: &[String], longest: Duration, args: &[&str]) -> Command {
        Command::new(self.places.at("/usr/bin/systemd-run"))
            .args(["--quiet", "--service-type=exec"])
            .args(how)
            .arg(format!("--property=RuntimeMaxSec={}", longest.as_secs()))
            // With a home, a policy of root's own would come before the machine's, which is the one that was asked.
            .arg("--setenv=HOME=/nonexistent")
            .arg("--")
            .arg(self.places.at(PROGRAM))
            .args(args)
    }

    /// `bootc` with these arguments, to its end.
    fn command(&self, longest: Duration, args: &[&str]) -> Command {
        let how = ["--collect", "--pipe", "--wait"].map(str::to_owned);
        // The unit's own end comes first, so that what it left is its own and not ours.
        self.unit(&how, longest, args).deadline(longest + Duration::from_secs(5))
    }
}

impl ImageBackend for Bootc {
    fn images(&self) -> Result<Images, Fault> {
        let command = self.command(Duration::from_secs(20), &["status", "--format=json"]);
        let output = tools::must(command.keep_output(MAX_STATUS), "bootc status")?;
        if output.cut {
            return Err(Fault::failed("tool", "`bootc status` printed more than a status is long"));
        }
        parse(&output.stdout).map_err(|e| Fault::failed("tool", format!("`bootc status`: {e}")))
    }

    fn pull(&self, image: &Reference, anew: bool, longest: Duration) -> Result<(), Fault> {
        let log = self.places.at(places::STAGE_LOG).display().to_string();
        let how = [
            format!("--unit={PULL_UNIT}"),
            "--remain-after-exit".to_owned(),
            format!("--property=StandardOutput=append:{log}"),
            format!("--property=StandardError=append:{log}"),
        ];
        // Never `--apply`: what boots the image is another operation, with another role. A switch to what is followed already
        // would look at nothing.
        let args: &[&str] = if anew { &["upgrade"] } else { &["switch", image.as_str()] };
        let begun = tools::must(self.unit(&how, longest, args), "bootc").map(drop);
        // One that fails at once is no start for systemd-run; what it said is in the log all the same.
        if begun.is_err() && matches!(self.stands(), Ok(Stands::Ended(_))) { Ok(()) } else { begun }
    }

    fn stands(&self) -> Result<Stands, Fault> {
        let show = ["show", "--property=ActiveState,SubState,Result,ExecMainStatus", "--", PULL_UNIT];
        let output = tools::must(tools::systemctl(&self.places).args(show), "systemctl show")?;
        Ok(stands(&String::from_utf8_lossy(&output.stdout)))
    }

    fn forget(&self) -> Result<(), Fault> {
        // One of them finds it: the first one that went well, the second one that did not.
        for verb in ["stop", "reset-failed"] {
            let _ = tools::run(tools::systemctl(&self.places).args([verb, "--", PULL_UNIT]), verb)?;
        }
        Ok(())
    }

    fn roll_back(&self) -> Result<(), Fault> {
        let command = self.command(Duration::from_secs(20), &["rollback"]);
        tools::must(command, "bootc rollback").map(drop)
    }
}

/// How the unit of a pull stands, by its properties: org.freedesktop.systemd1(5), systemd.exec(5) for `Result`.
fn stands(properties: &str) -> Stands {
    let of = |name: &str| {
        let line = properties.lines().find_map(|l| l.split_once('=').filter(|(n, _)| *n == name));
        line.map_or("", |(_, value)| value)
    };
    let status = || of("ExecMainStatus").parse().unwrap_or(-1);
    match (of("ActiveState"), of("SubState"), of("Result")) {
        ("active", "exited", _) => Stands::Ended(Outcome::Exited(0)),
        ("failed", _, "timeout") => Stands::Ended(Outcome::TimedOut),
        ("failed", _, "signal" | "core-dump") => Stands::Ended(Outcome::Signaled(status())),
        ("failed", ..) => Stands::Ended(Outcome::Exited(status())),
        ("inactive", ..) => Stands::Nothing,
        _ => Stands::Runs,
    }
}

/// Reads a status. Members that are not known are passed over, and what is not there is not known: the schema grows.
///
/// # Errors
/// It is no JSON, or not of a bootc host.
pub fn parse(text: &[u8]) -> Result<Images, String> {
    let status: Value = serde_json::from_slice(text)
        .map_err(|e| format!("no JSON: {:?} at line {}, column {}", e.classify(), e.line(), e.column()))?;
    let Some(status) = status.get("status").filter(|s| s.is_object()) else {
        return Err("there is no `status` in it".to_owned());
    };
    let entry = |name: &str| status.get(name).and_then(image);
    let source = ["staged", "booted"].iter().find_map(|n| status.get(*n).filter(|e| e.is_object()));
    let source = source.and_then(|e| e.get("image")?.get("image"));
    let registry = |i: &&Value| i.get("transport").and_then(Value::as_str) == Some("registry");
    Ok(Images {
        booted: entry("booted"),
        staged: entry("staged"),
        rollback: entry("rollback"),
        rollback_queued: status.get("rollbackQueued").and_then(Value::as_bool).unwrap_or(false),
        followed: source.filter(registry).and_then(|i| Some(tools::line(i.get("image")?.as_str()?, 512))),
    })
}

/// An entry of the boot loader; `None` where it is null, and an empty image where it is not from an image.
fn image(entry: &Value) -> Option<Image> {
    let entry = entry.as_object()?;
    let text = |value: Option<&Value>| {
        let text = tools::line(value?.as_str()?, 512);
        Some(text).filter(|t| !t.is_empty())
    };
    let image = entry.get("image");
    let of = |name: &str| image.and_then(|i| i.get(name));
    Some(Image {
        image: text(of("image").and_then(|i| i.get("image"))),
        digest: text(of("imageDigest")),
        version: text(of("version")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_the_schema_is_read_and_what_is_not_there_is_not_known() {
        let found = parse(include_bytes!("bootc/staged.json")).unwrap();
        let staged = found.staged.unwrap();
        assert_eq!(staged.image.as_deref(), Some("registry.example.com/os/node:2"));
        assert!(staged.digest.is_some_and(|d| d.len() == 71));
        assert_eq!(staged.version, None, "null is not known");
        assert_eq!(found.booted.unwrap().version.as_deref(), Some("41.20261101.0"));
        assert_eq!(found.rollback, None);
        assert_eq!(found.followed.as_deref(), Some("registry.example.com/os/node:2"), "what is staged");
        let none = parse(include_bytes!("bootc/not-a-host.json")).unwrap();
        assert_eq!(none, Images::default());
        let other = parse(br#"{"status":{"booted":{"image":null,"incompatible":true},"staged":7}}"#).unwrap();
        assert_eq!(other.followed, None);
        let local = br#"{"status":{"booted":{"image":{"image":{"image":"a.b/c:1","transport":"containers-storage"}}}}}"#;
        assert_eq!(parse(local).unwrap().followed, None, "not a registry's");
        assert_eq!(other.booted, Some(Image::default()), "it runs, and from no image");
        assert_eq!(other.staged, None);
    }

    #[test]
    fn a_unit_is_told_by_its_properties_and_what_is_not_known_goes_on() {
        for (properties, wanted) in [
            ("Result=success\nExecMainStatus=0\nActiveState=active\nSubState=running", Stands::Runs),
            ("ActiveState=activating\nSubState=start\nResult=success", Stands::Runs),
            ("ActiveState=deactivating\nSubState=stop-sigterm\nResult=timeout", Stands::Runs),
            ("ActiveState=active\nSubState=exited\nResult=success", Stands::Ended(Outcome::Exited(0))),
            ("ActiveState=failed\nSubState=failed\nResult=timeout", Stands::Ended(Outcome::TimedOut)),
            ("ActiveState=failed\nResult=signal\nExecMainStatus=9", Stands::Ended(Outcome::Signaled(9))),
            ("ActiveState=failed\nResult=exit-code\nExecMainStatus=3", Stands::Ended(Outcome::Exited(3))),
            ("ActiveState=failed\nResult=resources", Stands::Ended(Outcome::Exited(-1))),
            ("ActiveState=inactive\nSubState=dead\nResult=success", Stands::Nothing),
            ("", Stands::Runs),
        ] {
            assert_eq!(stands(properties), wanted, "{properties}");
        }
    }

    #[test]
    fn what_is_no_status_is_an_error_without_its_content() {
        for bad in ["", "{", "[]", "{}", r#"{"status":"s3cret"}"#, r#"{"status":null}"#] {
            let error = parse(bad.as_bytes()).expect_err(bad);
            assert!(!error.contains("s3cret") && !error.contains('\n'), "{error}");
        }
    }
}
