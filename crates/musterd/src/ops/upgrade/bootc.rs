//! Images by way of `bootc`, as it is documented: bootc(8), bootc-switch(8), bootc-rollback(8), bootc-status(8), and the schema
//! `org.containers.bootc/v1` of its status.
//!
//! It was not run on a bootc host from here: what it prints is taken from that schema, and its arguments from those pages.
//!
//! Its commands run in units of their own (systemd-run(1)), not below the core: they make mount namespaces and write where
//! the core may not. `--pipe` gives them the core's end of a pipe, `--wait` the core their code.

use std::time::Duration;

use muster_api::Fault;
use muster_api::upgrade::Image;
use muster_sys::command::{Command, Errors, Running, Tied};
use serde_json::Value;

use super::super::tools;
use super::{ImageBackend, Images, Reference};
use crate::places::Places;

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

    /// `bootc` with these arguments, in a unit of its own that ends after so long.
    fn command(&self, unit: Option<&str>, longest: Duration, args: &[&str]) -> Command {
        let command = Command::new(self.places.at("/usr/bin/systemd-run"))
            .args(["--quiet", "--collect", "--pipe", "--wait", "--service-type=exec"])
            .args(unit.map(|u| format!("--unit={u}")))
            .arg(format!("--property=RuntimeMaxSec={}", longest.as_secs()))
            // With a home, a policy of root's own would come before the machine's, which is the one that was asked.
            .arg("--setenv=HOME=/nonexistent")
            .arg("--")
            .arg(self.places.at(PROGRAM));
        // The unit's own end comes first, so that what it left is its own and not ours.
        command.args(args).deadline(longest + Duration::from_secs(5))
    }
}

impl ImageBackend for Bootc {
    fn images(&self) -> Result<Images, Fault> {
        let command = self.command(None, Duration::from_secs(20), &["status", "--format=json"]);
        let output = tools::must(command.keep_output(MAX_STATUS), "bootc status")?;
        if output.cut {
            return Err(Fault::failed("tool", "`bootc status` printed more than a status is long"));
        }
        parse(&output.stdout).map_err(|e| Fault::failed("tool", format!("`bootc status`: {e}")))
    }

    fn pull(&self, image: &Reference, longest: Duration) -> Result<Running, Fault> {
        // Never `--apply`: what boots the image is another operation, with another role.
        let command = self.command(Some(PULL_UNIT), longest, &["switch", image.as_str()]);
        command
            .start(Errors::Merged, Tied::ToThread)
            .map_err(|e| Fault::failed("tool", format!("`bootc switch` cannot be run: {}", e.line())))
    }

    fn roll_back(&self) -> Result<(), Fault> {
        let command = self.command(None, Duration::from_secs(20), &["rollback"]);
        tools::must(command, "bootc rollback").map(drop)
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
    Ok(Images { booted: entry("booted"), staged: entry("staged"), rollback: entry("rollback") })
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
        let none = parse(include_bytes!("bootc/not-a-host.json")).unwrap();
        assert_eq!(none, Images::default());
        let other = parse(br#"{"status":{"booted":{"image":null,"incompatible":true},"staged":7}}"#).unwrap();
        assert_eq!(other.booted, Some(Image::default()), "it runs, and from no image");
        assert_eq!(other.staged, None);
    }

    #[test]
    fn what_is_no_status_is_an_error_without_its_content() {
        for bad in ["", "{", "[]", "{}", r#"{"status":"s3cret"}"#, r#"{"status":null}"#] {
            let error = parse(bad.as_bytes()).expect_err(bad);
            assert!(!error.contains("s3cret") && !error.contains('\n'), "{error}");
        }
    }
}
