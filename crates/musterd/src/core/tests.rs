//! Ownership on a real disk, below a folder that stands for `/`; systemctl is a script that writes down what it was asked.

mod bootstrap_tests;
mod claim_tests;
mod control_tests;
mod crash_tests;
mod kept_tests;
mod lock_tests;
mod modes_tests;
mod ops_tests;
mod revocation_tests;
mod rotation_tests;
mod source_tests;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use muster_core::{Role, UtcTime};
use muster_pairing::message::{Answer, ClaimBody, Request, Started};
use muster_pairing::{Claim, Code, Operator, Outcome};
use muster_tls::{Authority, Lifetime, Revoked};
use sha2::{Digest, Sha256};

use super::owner::{CannotOpen, Enrolment, Opened, Owner};
use crate::places::Places;

/// 2027-01-01.
pub(super) const NOW: u64 = 1_798_761_600;

/// A node.
pub(super) struct Node {
    root: PathBuf,
    _held: Option<tempfile::TempDir>,
    now: Arc<AtomicU64>,
}

pub(super) fn node() -> Node {
    let held = tempfile::tempdir().expect("a folder");
    let root = held.path().to_owned();
    let node = Node { root, _held: Some(held), now: Arc::new(AtomicU64::new(NOW)) };
    node.write("/usr/bin/systemctl", "");
    node.systemctl("exit 0");
    node.write("/etc/hostname", "edge-1\n");
    node.write("/proc/sys/kernel/hostname", "edge-1\n");
    node.write("/dev/console", "");
    node
}

impl Node {
    /// The same folder, for another process.
    pub(super) fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), _held: None, now: Arc::new(AtomicU64::new(NOW)) }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    pub(super) fn systemctl(&self, ending: &str) {
        let program = self.at("/usr/bin/systemctl");
        let log = self.at("/systemctl.log");
        let text = format!("#!/bin/sh\necho \"$@\" >> '{}'\n{ending}\n", log.display());
        // By another process: a file that this one has open for writing, or a child of another thread still has, cannot be run.
        let put = "cat > \"$1.new\" && chmod 755 \"$1.new\" && mv \"$1.new\" \"$1\"";
        let done =
            muster_sys::command::Command::new("/bin/sh").args(["-c", put, "sh"]).arg(&program).stdin(text);
        assert!(done.run().expect("it ran").ok());
    }

    /// Whether the bootstrap was let go.
    pub(super) fn released(&self) -> bool {
        self.read("/systemctl.log").contains("muster-bootstrap.service")
    }

    pub(super) fn document(&self, text: &str) {
        self.write("/etc/muster/config.yaml", text);
    }

    pub(super) fn opened(&self) -> Result<Opened, CannotOpen> {
        let now = Arc::clone(&self.now);
        let clock = Arc::new(move || UtcTime::from_unix(now.load(Ordering::SeqCst)));
        let patience = |d| {
            std::thread::sleep(d);
            true
        };
        Owner::open_at(&Places::below(&self.root), clock, &patience)
    }

    pub(super) fn open(&self) -> Owner {
        match self.opened() {
            Ok(Opened::Wanted(owner)) => owner,
            Ok(Opened::NotWanted(why)) => panic!("not wanted: {why}"),
            Ok(Opened::Ended) => panic!("ended"),
            Err(e) => panic!("{e}"),
        }
    }

    pub(super) fn refused(&self) -> String {
        match self.opened() {
            Err(e) => e.to_string(),
            Ok(Opened::NotWanted(why)) => panic!("not wanted: {why}"),
            Ok(Opened::Wanted(_) | Opened::Ended) => panic!("opened"),
        }
    }

    pub(super) fn not_wanted(&self) -> String {
        match self.opened() {
            Ok(Opened::NotWanted(why)) => why,
            Ok(Opened::Wanted(_) | Opened::Ended) => panic!("opened"),
            Err(e) => panic!("{e}"),
        }
    }

    pub(super) fn later(&self, secs: u64) {
        self.now.fetch_add(secs, Ordering::SeqCst);
    }

    pub(super) fn earlier(&self, secs: u64) {
        self.now.fetch_sub(secs, Ordering::SeqCst);
    }

    /// As a boot does it: what is volatile is gone.
    pub(super) fn reboot(&self) {
        fs::remove_dir_all(self.at("/run")).expect("removed");
        let _ = fs::remove_file(self.at("/systemctl.log"));
    }

    /// The code as the console shows it.
    pub(super) fn code(&self) -> Code {
        let text = self.read("/dev/console");
        let codes = text.lines().rev().filter_map(|l| l.trim().strip_prefix("pairing code"));
        codes.filter_map(|c| Code::parse(c).ok()).next().expect("the console shows a code")
    }
}

/// What operators hold.
pub(super) struct Operators {
    pub(super) authority: Authority,
    pub(super) pem: String,
}

pub(super) fn operators(name: &str) -> Operators {
    let serial = [u8::try_from(name.len()).expect("short"); 16];
    let (authority, issued) =
        Authority::make(name, Lifetime::AUTHORITY, UtcTime::from_unix(NOW), serial).expect("made");
    Operators { authority, pem: issued.certificate }
}

/// A client's certificate, PEM, its key, PEM, and its serial number.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) serial: String,
}

impl Operators {
    pub(super) fn issue(&self, name: &str, role: Role) -> Issued {
        let mut serial = [7; 16];
        serial[..name.len().min(16)].copy_from_slice(&name.as_bytes()[..name.len().min(16)]);
        let now = UtcTime::from_unix(NOW);
        let issued = self.authority.issue(name, role, Lifetime::CLIENT, now, serial).expect("issued");
        Issued { certificate: issued.certificate, key: issued.key.to_string(), serial: issued.serial }
    }

    pub(super) fn der(&self) -> Vec<u8> {
        self.authority.ca().der().to_vec()
    }

    pub(super) fn list(&self, revoked: &[&Issued], number: u64, ends: Option<u64>) -> String {
        let at = UtcTime::from_unix(NOW);
        let all: Vec<Revoked> = revoked.iter().map(|i| Revoked { serial: i.serial.clone(), at }).collect();
        let now = UtcTime::from_unix(NOW);
        self.authority.revoke(&all, number, ends.map(UtcTime::from_unix), now).expect("a list")
    }
}

pub(super) fn der_of(certificate: &str) -> Vec<u8> {
    muster_tls::one_certificate(certificate).expect("one certificate").to_vec()
}

pub(super) fn parse(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body).expect("JSON")
}

/// The operator's first step.
pub(super) fn step_one(owner: &Owner, code: &Code, from: &str) -> Result<(Operator, Started), Enrolment> {
    let operator = Operator::start(code, &owner.serve().certificate, [3; 64]);
    let answer = owner.enroll(Request::Start { share: operator.share() }.render().as_bytes(), from);
    if answer.status != 200 {
        return Err(answer);
    }
    let started = Started::parse(&answer.body).expect("the node's first step");
    Ok((operator, started))
}

/// Claims a node and checks the node's own proof where it gives one.
pub(super) fn claim_with(owner: &Owner, code: &Code, body: ClaimBody, from: &str) -> Enrolment {
    let (operator, started) = match step_one(owner, code, from) {
        Ok(begun) => begun,
        Err(answer) => return answer,
    };
    let certificate = owner.serve().certificate;
    let ca = der_of(&body.operator_ca);
    let claim = Claim {
        node_certificate: &certificate,
        operator_ca: &ca,
        document: body.document.as_ref().map(|d| Sha256::digest(d.as_bytes()).into()),
        acknowledge: body.acknowledge,
    };
    let (confirm, awaiting) =
        operator.claim(&started.session, &started.share, &claim).expect("a sound share");
    let request = Request::Confirm { session: started.session, confirm, claim: body };
    let answer = owner.enroll(request.render().as_bytes(), from);
    if let Ok(told) = Answer::parse(&answer.body)
        && let Some(confirm) = told.confirm
    {
        awaiting.check(&told.outcome, &confirm).expect("the node confirms what it says");
        assert_eq!(answer.claimed, matches!(told.outcome, Outcome::Enrolled { .. }));
    }
    answer
}

pub(super) fn body(operators: &Operators, document: Option<&str>) -> ClaimBody {
    ClaimBody {
        operator_ca: operators.pem.clone(),
        document: document.map(str::to_owned),
        acknowledge: false,
    }
}

/// Claims with the right code and no document.
pub(super) fn claim(node: &Node, owner: &Owner, operators: &Operators) -> Enrolment {
    claim_with(owner, &node.code(), body(operators, None), "10.0.0.9:4000")
}

/// Another code than this.
pub(super) fn wrong(code: &Code) -> Code {
    let text = code.expose();
    let other = if text.starts_with('0') { "1" } else { "0" };
    Code::parse(&format!("{other}{}", &text[1..])).expect("a code")
}

/// Two lines that turn mode C on.
pub(super) const MAINTENANCE: &str = "api: {enabled: true}\n";
/// A document that says all that is needed.
pub(super) const COMPLETE: &str = "role: init\napi: {enabled: true}\n";
