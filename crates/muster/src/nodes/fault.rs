//! What a node or the way to it did wrong, as this program tells it.

use crate::codes::Own;
use crate::fault::Fault;
use muster_api::Kind;
use muster_client::{Error, Turned};
use muster_core::{Danger, Operation};

/// Of a call of this operation on the node of this name.
pub fn told(name: &str, operation: Option<Operation>, error: &Error) -> Fault {
    let reads = operation.is_some_and(|o| o.row().danger == Danger::Reads);
    let what = format!("{name}: {error}");
    match error {
        Error::Unreachable { .. } => Fault::new(Own::NodeUnreachable, what),
        Error::NoAddress { .. } => Fault::new(Own::NodeUnreachable, what)
            .fix("Check how the name is spelled and what this machine asks for names, or give the node's address."),
        Error::NotANode { .. } | Error::Call(_) => Fault::new(Own::NodeAnswer, what),
        Error::OtherCertificate { .. } => Fault::new(Own::NodeCertificate, what),
        Error::TurnedAway { why: Turned::Ended, .. } => {
            Fault::new(Own::NodeTurnedAway, what).why(why_turned(Turned::Ended)).fix(
                "Compare the node's clock with this machine's, or issue another certificate: `muster pki issue`.",
            )
        }
        Error::TurnedAway { why: Turned::Revoked, .. } => {
            Fault::new(Own::NodeTurnedAway, what).why(why_turned(Turned::Revoked)).fix(REVOKED)
        }
        Error::TurnedAway { why, .. } => Fault::new(Own::NodeTurnedAway, what).why(why_turned(*why)),
        Error::Fault(fault) => of_node(name, operation, fault),
        Error::Answer { .. } if reads => Fault::new(Own::NodeAnswer, what),
        _ if reads => Fault::new(Own::NodeUnreachable, what),
        // It may have been done.
        _ => Fault::new(Own::OutcomeUnknown, what)
            .fix(format!("Ask the node what became of it: `muster node status {name}`.")),
    }
}

/// What is left to whose certificate was revoked.
const REVOKED: &str = "It stays revoked: who keeps the authority can issue another certificate, `muster pki issue`, if it was not meant.";

fn why_turned(why: Turned) -> String {
    match why {
        Turned::NoCertificate => "it wants a certificate and got none".into(),
        Turned::OtherAuthority => {
            "the certificate is not of the authority that the node obeys, or not for clients".into()
        }
        Turned::Ended => "the certificate has ended, or has not begun by the node's clock".into(),
        Turned::Revoked => "the certificate was revoked".into(),
        Turned::Alert(n) => format!("TLS alert {n}"),
    }
}

/// The node's own words.
pub fn of_node(name: &str, operation: Option<Operation>, fault: &muster_api::Fault) -> Fault {
    let reads = operation.is_some_and(|o| o.row().danger == Danger::Reads);
    // Its core ended over the call, or is not done with it: what became of it the node does not know either.
    let unknown = matches!(fault.reason.as_str(), "core-lost" | "deadline");
    let code = match fault.kind {
        Kind::TooMany | Kind::Busy => Own::NodeBusy,
        Kind::Failed if unknown && !reads => Own::OutcomeUnknown,
        Kind::Failed => Own::NodeFailed,
        _ if fault.reason == "would-bootstrap" => Own::WouldBootstrap,
        // A node says over HTTP what TLS has no time for: the handshake was good, and the certificate is not.
        Kind::Unproven if fault.reason == "revoked" => Own::NodeTurnedAway,
        _ => Own::NodeRefused,
    };
    let doing = operation.map(|o| format!("{}: ", o.row().name)).unwrap_or_default();
    let mut told = Fault::new(code, format!("{name}: {doing}{}: {}", fault.reason, fault.error));
    if let Some(left) = fault.tries_left {
        told = told.why(match left {
            0 => "no try is left: `musterd pairing renew` on the console or a reboot gives a new code"
                .to_owned(),
            1 => "one try is left".to_owned(),
            n => format!("{n} tries are left"),
        });
    }
    match (&fault.fix, fault.retry_after) {
        (Some(fix), _) => told.fix(fix.clone()),
        (None, Some(secs)) => told.fix(format!("Try again in {secs} s.")),
        (None, None) if code == Own::NodeTurnedAway => told.fix(REVOKED),
        (None, None) => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_lost_call_that_changes_something_is_an_unknown_outcome_and_one_that_reads_is_not() {
        let lost = || Error::Lost { endpoint: "a".parse().unwrap(), why: "x".into() };
        for operation in Operation::ALL {
            let exit = told("edge-1", Some(*operation), &lost()).exit();
            let reads = operation.row().danger == Danger::Reads;
            assert_eq!(exit, if reads { Exit::Unreachable } else { Exit::OutcomeUnknown }, "{operation:?}");
        }
        let deadline = Error::Deadline { endpoint: "a".parse().unwrap(), secs: 35 };
        assert_eq!(told("edge-1", Some(Operation::Drain), &deadline).exit(), Exit::OutcomeUnknown);
        for reason in ["core-lost", "deadline"] {
            let fault = || Error::Fault(Box::new(muster_api::Fault::failed(reason, "x")));
            let exit = |o| told("edge-1", Some(o), &fault()).exit();
            assert_eq!(exit(Operation::Reset), Exit::OutcomeUnknown, "{reason}");
            assert_eq!(exit(Operation::NodeState), Exit::Failed, "{reason}");
        }
        let away = Error::TurnedAway { endpoint: "a".parse().unwrap(), why: Turned::Revoked };
        assert_eq!(told("edge-1", Some(Operation::Reset), &away).exit(), Exit::Unreachable);
    }

    #[test]
    fn a_name_that_leads_nowhere_is_no_matter_of_the_nodes_firewall() {
        let error = Error::NoAddress { endpoint: "a.invalid".parse().unwrap(), why: "x".into() };
        let fault = told("edge-1", Some(Operation::Reset), &error);
        assert_eq!(fault.exit(), Exit::Unreachable, "nothing was sent");
        assert!(
            fault.to_string().contains("how the name is spelled") && !fault.to_string().contains("firewall")
        );
    }

    #[test]
    fn who_was_revoked_is_not_sent_to_look_for_another_authority() {
        let of_tls = Error::TurnedAway { endpoint: "a".parse().unwrap(), why: Turned::Revoked };
        let of_http = muster_api::Fault::new(Kind::Unproven, "revoked", "it was revoked");
        for error in [of_tls, Error::Fault(Box::new(of_http))] {
            let fault = told("edge-1", Some(Operation::NodeState), &error);
            assert_eq!((fault.code, fault.exit()), (Own::NodeTurnedAway.into(), Exit::Unreachable));
            assert!(fault.to_string().ends_with(REVOKED), "{fault}");
        }
    }

    #[test]
    fn a_nodes_fault_keeps_its_reason_and_its_advice() {
        let fault = muster_api::Fault::role(muster_core::Role::Admin, Some(muster_core::Role::Operator));
        let fault = told("edge-1", Some(Operation::Reboot), &Error::Fault(Box::new(fault)));
        assert_eq!(
            fault.to_string(),
            "edge-1: reboot: role: this needs the role muster:admin, and the certificate has muster:operator. \
             Issue one with it: `muster pki issue --role admin`."
        );
        assert_eq!(fault.exit(), Exit::HostRefused);
        let mut busy = muster_api::Fault::new(Kind::TooMany, "pause", "wrong codes slow the next one down");
        busy.retry_after = Some(4);
        let busy = told("a", None, &Error::Fault(Box::new(busy)));
        assert_eq!((busy.exit(), busy.fix.as_deref()), (Exit::Busy, Some("Try again in 4 s.")));
    }
}
