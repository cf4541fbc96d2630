//! Host keys that the operator has pinned, in the state folder: `host-keys`, one key a line, and `host-keys.log`, one change a
//! line. Config says where a host is; whom it must prove to be is state that only `muster host add` and `rotate-key` change.
//!
//! A line is `NAME ENDPOINT KEY`: the inventory's name, `address:port` (IPv6 in brackets), and `SHA256:…` or type and base64. All
//! of name, address and port must be those of the host: an inventory that points a name at another address has no pin for it.
//! Whom a line trusts never comes from the network. What a login proved may only spell it out: a fingerprint becomes the key
//! that it is the fingerprint of, so that the host is asked for that kind of key at once. A line that is not understood refuses the whole file.

use crate::codes::Own;
use crate::fault::Fault;
use crate::inventory::{Endpoint, HostKey};
use crate::locks::{self, Held};
use crate::state;
use muster_core::UtcTime;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "host-keys";
const MAX_FILE: usize = 16 << 20;
const HEAD: &str =
    "# Host keys pinned with `muster host add` and `muster host rotate-key`: name, address:port, key.\n";

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    name: String,
    place: String,
    key: HostKey,
}

/// The pins, as they were when they were read.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    lines: Vec<Line>,
}

/// The state folder's part about host keys.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// `address:port`, with brackets where an IPv6 literal needs them.
pub fn place(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

impl Pins {
    /// The keys pinned for an endpoint.
    pub fn of(&self, end: &Endpoint) -> Vec<HostKey> {
        let place = place(&end.address, end.port);
        let mine = self.lines.iter().filter(|l| l.name == end.name && l.place == place);
        mine.map(|l| l.key.clone()).collect()
    }

    /// Other addresses that the same name is pinned at: worth saying when there is no pin.
    pub fn elsewhere(&self, end: &Endpoint) -> Vec<String> {
        let place = place(&end.address, end.port);
        let mut out: Vec<String> = self
            .lines
            .iter()
            .filter(|l| l.name == end.name && l.place != place)
            .map(|l| l.place.clone())
            .collect();
        out.dedup();
        out
    }

    /// Reads the file's text; `file` names it in messages.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Fault> {
        let mut lines = Vec::new();
        for (n, line) in (1usize..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.splitn(3, ' ');
            let (name, place, key) = (words.next(), words.next(), words.next());
            let read = key.and_then(HostKey::parse);
            let (Some(name), Some(place), Some(key)) = (name, place, read) else {
                return Err(
                    Fault::new(Own::StateUnusable, "the line is not `NAME ADDRESS:PORT KEY`").at(file, n)
                );
            };
            lines.push(Line { name: name.to_owned(), place: place.to_owned(), key });
        }
        Ok(Self { lines })
    }

    /// The text, which [`Pins::parse`] reads back to the same.
    pub fn render(&self) -> String {
        let mut out = HEAD.to_owned();
        for l in &self.lines {
            out.push_str(&format!("{} {} {}\n", l.name, l.place, l.key.text()));
        }
        out
    }
}

impl Store {
    /// The store in a state folder, which need not exist yet.
    pub fn at(state: Option<&Path>) -> Result<Self, Fault> {
        let folder = state.ok_or_else(|| {
            Fault::new(Own::StateUnusable, "there is no place for state").fix("Set HOME or XDG_STATE_HOME.")
        })?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// What is pinned now.
    pub fn read(&self) -> Result<Pins, Fault> {
        match state::read(&self.folder, FILE, MAX_FILE)? {
            Some(text) => Pins::parse(&text, &self.folder.join(FILE)),
            None => Ok(Pins::default()),
        }
    }

    fn lock(&self) -> Result<Held, Fault> {
        state::hold(&self.folder, FILE, locks::STATE)
    }

    /// Pins keys for an endpoint that has none. The same keys again are fine; others are a conflict. Returns whether
    /// something was written.
    pub fn add(&self, end: &Endpoint, keys: &[HostKey], now: UtcTime) -> Result<bool, Fault> {
        let held = self.lock()?;
        let mut pins = self.read()?;
        let there = pins.of(end);
        if !there.is_empty() {
            if keys.iter().all(|k| there.iter().any(|t| t.fingerprint() == k.fingerprint())) {
                return Ok(false);
            }
            let what = format!(
                "{} at {} is pinned to {} already",
                end.name,
                place(&end.address, end.port),
                list(&there)
            );
            return Err(Fault::new(Own::PinConflict, what));
        }
        let place = place(&end.address, end.port);
        let new = keys.iter().map(|k| Line { name: end.name.clone(), place: place.clone(), key: k.clone() });
        pins.lines.extend(new);
        self.log(&format!("{now} add {} {place} {}", end.name, list(keys)))?;
        state::write(&held, &self.folder, FILE, pins.render().as_bytes())?;
        Ok(true)
    }

    /// Writes the key where its bare fingerprint is pinned: the same trust, which now says its kind. Returns whether something
    /// was written.
    pub fn spell_out(&self, key: &HostKey) -> Result<bool, Fault> {
        let HostKey::Key(_) = key else { return Ok(false) };
        let bare = HostKey::Fingerprint(key.fingerprint());
        // Read without the lock first: hosts by the hundred have nothing to write.
        if !self.read()?.lines.iter().any(|l| l.key == bare) {
            return Ok(false);
        }
        let held = self.lock()?;
        let mut pins = self.read()?;
        for line in pins.lines.iter_mut().filter(|l| l.key == bare) {
            line.key = key.clone();
        }
        state::write(&held, &self.folder, FILE, pins.render().as_bytes())?;
        Ok(true)
    }

    /// Puts other keys in the place of the ones that are pinned; returns what was pinned.
    pub fn rotate(&self, end: &Endpoint, keys: &[HostKey], now: UtcTime) -> Result<Vec<HostKey>, Fault> {
        let held = self.lock()?;
        let mut pins = self.read()?;
        let before = pins.of(end);
        let place = place(&end.address, end.port);
        pins.lines.retain(|l| l.name != end.name);
        let new = keys.iter().map(|k| Line { name: end.name.clone(), place: place.clone(), key: k.clone() });
        pins.lines.extend(new);
        self.log(&format!("{now} rotate {} {place} from {} to {}", end.name, list(&before), list(keys)))?;
        state::write(&held, &self.folder, FILE, pins.render().as_bytes())?;
        Ok(before)
    }

    /// Takes back what [`Store::add`] did, when what should have followed did not.
    pub fn take_back(&self, end: &Endpoint, now: UtcTime) -> Result<(), Fault> {
        let held = self.lock()?;
        let mut pins = self.read()?;
        let place = place(&end.address, end.port);
        pins.lines.retain(|l| l.name != end.name || l.place != place);
        self.log(&format!("{now} remove {} {place}", end.name))?;
        state::write(&held, &self.folder, FILE, pins.render().as_bytes())
    }

    /// Written before the change, so that no change is without its line.
    fn log(&self, line: &str) -> Result<(), Fault> {
        let path = self.folder.join("host-keys.log");
        let open = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let done =
            open.and_then(|mut f| f.write_all(format!("{line}\n").as_bytes()).and_then(|()| f.sync_data()));
        done.map_err(|e| Fault::io(&path, "write", &e))
    }
}

/// Fingerprints, joined.
pub fn list(keys: &[HostKey]) -> String {
    match keys {
        [] => "nothing".to_owned(),
        keys => keys.iter().map(HostKey::fingerprint).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Inventory;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn end(address: &str) -> Endpoint {
        let text = format!("hosts: {{edge-1: {{ssh: {{address: \"{address}\"}}}}}}\n");
        Inventory::parse(&text, Path::new("i.yaml"), None).unwrap().hosts.remove(0).ssh
    }

    fn one(key: &HostKey) -> &[HostKey] {
        std::slice::from_ref(key)
    }

    #[test]
    fn st5_a_pin_changes_only_by_rotation_and_both_keys_are_on_record() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(Some(&dir.path().join("state"))).unwrap();
        let now = UtcTime::from_unix(1_800_000_000);
        let [old, new] =
            [HostKey::parse(KEY).unwrap(), HostKey::parse(&format!("SHA256:{}", "A".repeat(43))).unwrap()];
        let host = end("2001:db8::1");
        assert!(store.read().unwrap().of(&host).is_empty());
        assert!(store.add(&host, one(&old), now).unwrap());
        assert!(!store.add(&host, one(&old), now).unwrap(), "the same again");
        assert_eq!(store.add(&host, one(&new), now).unwrap_err().code, Own::PinConflict.into());
        assert_eq!(store.read().unwrap().of(&host), one(&old));
        let moved = end("10.0.0.1");
        assert!(store.read().unwrap().of(&moved).is_empty(), "a pin is for one address");
        assert_eq!(store.read().unwrap().elsewhere(&moved), ["[2001:db8::1]:22"]);
        assert_eq!(store.rotate(&host, one(&new), now).unwrap(), one(&old));
        assert_eq!(store.read().unwrap().of(&host), one(&new));
        let log = std::fs::read_to_string(dir.path().join("state/host-keys.log")).unwrap();
        let last = log.lines().last().unwrap();
        assert!(last.contains(&old.fingerprint()) && last.contains(&new.fingerprint()), "{log}");
    }

    #[test]
    fn st1_a_fingerprint_is_spelled_out_and_nothing_else_changes() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(Some(dir.path())).unwrap();
        let now = UtcTime::from_unix(1_800_000_000);
        let key = HostKey::parse(KEY).unwrap();
        let bare = HostKey::parse(&key.fingerprint()).unwrap();
        let other = HostKey::parse(&format!("SHA256:{}", "A".repeat(43))).unwrap();
        let host = end("10.0.0.1");
        store.add(&host, &[bare.clone(), other.clone()], now).unwrap();
        assert!(!store.spell_out(&bare).unwrap(), "a fingerprint spells nothing out");
        assert!(store.spell_out(&key).unwrap());
        assert_eq!(store.read().unwrap().of(&host), [key.clone(), other]);
        assert!(!store.spell_out(&key).unwrap(), "once is enough");
    }

    #[test]
    fn a_line_that_is_not_understood_refuses_the_file_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("host-keys"), format!("# c\na b:22 {KEY}\na b:22 what\n")).unwrap();
        let fault = Store::at(Some(dir.path())).unwrap().read().unwrap_err();
        assert_eq!(fault.place.as_ref().unwrap().line, 3);
    }
}
