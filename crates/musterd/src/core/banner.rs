//! What a machine tells whoever stands before it: who owns it and by which certificate it is known; or, where nobody does, address,
//! pairing code, fingerprint, and what to type.
//!
//! What is for a machine without an owner is on every console, in the journal, and above each login prompt (agetty(8), whose `\4` stands for the address that the machine
//! has by then). agetty reads `/run/issue.d` only where there is no `/etc/issue`; for where there is, the package has a link in
//! `/etc/issue.d`. Removed when the machine has an owner; the code is worth nothing after that.

use std::net::IpAddr;

use muster_pairing::Code;
use muster_sys::command::Command;
use muster_sys::state::{Durability, StateDir};
use muster_tls::Fingerprint;
use std::path::Path;
use std::time::Duration;

use super::disk::Disk;
use crate::say;

const FOLDER: &str = "/run/issue.d";
const FILE: &str = "muster.issue";
/// What the consoles were told of an owned machine, in this boot.
const TOLD: &str = "told";
const MAX_TOLD: u64 = 4096;
/// The port that nobody needs to type.
const PORT: u16 = 7443;

/// What there is to tell.
pub(super) struct Notice<'n> {
    /// Absent where the node asks for none.
    pub code: Option<&'n Code>,
    /// Wrong codes that are still taken.
    pub tries: u8,
    /// Who typed wrong ones.
    pub spent: &'n [IpAddr],
    /// Of the node's certificate.
    pub fingerprint: Fingerprint,
    /// Where it listens.
    pub port: u16,
    /// Where it can be reached, IPv4 first.
    pub addresses: &'n [IpAddr],
}

impl Notice<'_> {
    fn text(&self, address: &str) -> String {
        let place = if self.port == PORT { address.to_owned() } else { format!("{address}:{}", self.port) };
        let mut out = String::from(
            "\nThis machine has no owner. It waits to be claimed, and builds nothing until then.\n\n",
        );
        let mut row = |name: &str, value: &str| out.push_str(&format!("  {name:<13} {value}\n"));
        row("address", &place);
        match self.code {
            Some(_) if self.tries == 0 => {
                row("pairing code", "none: too many wrong ones were typed");
                row("a new one", "reboot, or as root: musterd pairing renew");
            }
            Some(code) => row("pairing code", &code.expose()),
            None => {}
        }
        row("fingerprint", &self.fingerprint.to_string());
        // What is typed says where its trust comes from: the code, or else the fingerprint that stands here.
        let by = match self.code {
            Some(_) => String::new(),
            None => format!(" --no-code --fingerprint {}", self.fingerprint),
        };
        row("claim it", &format!("muster node claim {place}{by}"));
        if !self.spent.is_empty() {
            let who: Vec<String> = self.spent.iter().map(ToString::to_string).collect();
            row("wrong codes", &format!("{} tries left; typed from {}", self.tries, who.join(", ")));
        }
        if self.code.is_none() {
            out.push_str("\n  WARNING: api.insecure is set. NO CODE IS ASKED FOR:\n  whoever reaches this machine first owns it.\n");
        }
        out.push('\n');
        out
    }
}

/// Shows it everywhere. What does not work is told to the journal; the code may still be read in another place.
pub(super) fn show(disk: &Disk, notice: &Notice<'_>) {
    let (shown, at_login) = match notice.addresses.first() {
        Some(IpAddr::V4(a)) => (a.to_string(), "\\4"),
        Some(IpAddr::V6(a)) => (format!("[{a}]"), "[\\6]"),
        None => ("ADDRESS".to_owned(), "\\4"),
    };
    let text = notice.text(&shown);
    text.lines().filter(|l| !l.is_empty()).for_each(say::info);
    if muster_sys::console::say(disk.places().root(), &text) == 0 {
        say::warning("no console takes the pairing code; it is in the journal and at the login prompt");
    }
    // Not for every reader of the machine: agetty reads it as root.
    let written = folder(disk).and_then(|dir| {
        dir.replace(FILE, notice.text(at_login).as_bytes(), Durability::Volatile).map_err(|e| e.line())
    });
    if let Err(e) = written {
        say::warning(&format!("the login prompt does not show the pairing code: {e}"));
    }
    prompt_anew(disk);
}

/// Takes it away.
pub(super) fn remove(disk: &Disk) {
    if let Err(e) = folder(disk).and_then(|dir| dir.remove(FILE).map_err(|e| e.line())) {
        say::warning(&format!("the login prompt goes on showing a pairing code that is worth nothing: {e}"));
    }
    prompt_anew(disk);
}

/// What an owned machine is known by: in the journal each time, and on the consoles once a boot, or when it changed. It is all that somebody
/// needs who would pin a machine that was claimed by its document, and stands on no disk that others read.
pub(super) fn owned(disk: &Disk, certificate: Fingerprint, authority: Fingerprint) {
    say::info(&format!(
        "this machine's own certificate has the fingerprint {certificate}: by it `muster node pin` knows the machine"
    ));
    let text = format!(
        "\nThis machine has an owner, and its API is known by a certificate of its own.\n\n  \
         {:<13} {certificate}\n  {:<13} {authority}\n\n",
        "fingerprint", "authority"
    );
    // The folder may outlive the boot, in a container.
    let boot = muster_sys::clock::this_boot().unwrap_or_default();
    let mark = format!("{boot}\n{text}");
    if disk.run.read(TOLD, MAX_TOLD).is_ok_and(|told| told == mark.as_bytes()) {
        return;
    }
    muster_sys::console::say(disk.places().root(), &text);
    if let Err(e) = disk.run.replace(TOLD, mark.as_bytes(), Durability::Volatile) {
        say::warning(&format!("the consoles are told again at the next start: {}", e.line()));
    }
}

/// A prompt that stands already was made of what there was before.
fn prompt_anew(disk: &Disk) {
    let agetty = disk.places().at("/usr/sbin/agetty");
    if !agetty.exists() {
        return;
    }
    // Nobody who is judged meanwhile waits for it.
    let reload = move || match Command::new(agetty).arg("--reload").deadline(Duration::from_secs(5)).run() {
        Ok(out) if out.ok() => {}
        Ok(out) => say::warning(&format!("agetty --reload: {:?}", out.outcome)),
        Err(e) => say::warning(&format!("agetty --reload: {}", e.line())),
    };
    if let Err(e) = std::thread::Builder::new().name("prompt".to_owned()).spawn(reload) {
        say::warning(&format!("agetty --reload: no thread: {e}"));
    }
}

fn folder(disk: &Disk) -> Result<StateDir, String> {
    StateDir::open_or_make_shared(disk.root()?, Path::new(FOLDER)).map_err(|e| e.to_string())
}
