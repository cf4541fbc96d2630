//! Reboot and power off: the answer goes out first.

use std::time::Duration;

use muster_api::Fault;
use muster_api::lifecycle::Status;

use super::{Done, Request, tools};
use crate::places::Places;

/// What the answer has to get from the core to the client.
const GRACE: Duration = Duration::from_millis(500);

/// `POST /v1/lifecycle/reboot`.
pub(super) fn reboot(request: &Request<'_>) -> Result<Done, Fault> {
    Ok(Done::status(202, &Status::of("rebooting"))?.and_then(reboot_now(request.places)))
}

/// `POST /v1/lifecycle/shutdown`.
pub(super) fn shutdown(request: &Request<'_>) -> Result<Done, Fault> {
    let places = request.places.clone();
    Ok(Done::status(202, &Status::of("shutting down"))?.and_then(move || go_down(&places, "poweroff")))
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
        return;
    }
    record(&format!("systemctl {verb} did not work; going down without stopping units"));
    let hard = tools::systemctl(places).arg("--force").arg(verb).deadline(deadline);
    if let Err(fault) = tools::must(hard, verb) {
        record(&format!("the node does not go down: {}", fault.error));
    }
}

/// A line of the journal, for what nobody is there to be told any more.
pub(super) fn record(message: &str) {
    let mut entry = muster_sys::journal::Entry::new();
    entry.field("MESSAGE", message).field("PRIORITY", "3").field("SYSLOG_IDENTIFIER", "musterd");
    if entry.send().is_err() {
        // Standard error is the journal, or somebody's terminal.
        eprintln!("musterd: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::Fake;

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
