//! The certificates of nodes that the operator has pinned, in the state folder: `node-pins`, one node a line:
//! `NAME ADDRESS:PORT SHA256:…`.
//!
//! A pin belongs to a name and a place: an inventory that points a name at another address has no pin for it. What is pinned
//! comes from a pairing, or from a fingerprint that somebody compared; never from the network alone. A line that is not
//! understood refuses the whole file.

use crate::codes::Own;
use crate::fault::Fault;
use crate::locks::{self, Held};
use crate::state;
use muster_client::Endpoint;
use muster_tls::Fingerprint;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "node-pins";
const MAX_FILE: usize = 16 << 20;
/// More than a line has: a name, a name of a host, a port and a fingerprint.
const LONGEST: usize = 1024;
const HEAD: &str = "# Certificates of nodes, pinned with `muster node claim` and `muster node pin`: name, address:port, fingerprint.\n";

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Its name here.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Its certificate.
    pub certificate: Fingerprint,
}

/// The pins, as they were when they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins(Vec<Pin>);

/// What a name is: one word that a file, a shell and a table can take.
pub fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:[]%".contains(&b))
        && !text.starts_with(['-', '.', '#'])
}

impl Pins {
    /// All, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.0.iter()
    }

    /// What is pinned for a node at this place.
    pub fn of(&self, name: &str, endpoint: &Endpoint) -> Option<Fingerprint> {
        self.0.iter().find(|p| p.name == name && p.endpoint == *endpoint).map(|p| p.certificate)
    }

    /// Reads the file's text; `file` names it in messages.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Fault> {
        let (mut pins, mut names) = (Vec::new(), std::collections::HashSet::new());
        for (n, line) in (1usize..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let read = match words.as_slice() {
                [name, endpoint, certificate] if is_name(name) => {
                    Some((*name).to_owned()).zip(endpoint.parse().ok()).zip(certificate.parse().ok())
                }
                _ => None,
            };
            let Some(((name, endpoint), certificate)) = read else {
                let what = "the line is not `NAME ADDRESS:PORT SHA256:…`";
                return Err(Fault::new(Own::StateUnusable, what).at(file, n));
            };
            // One name, one node: which of two lines was meant nobody here knows.
            if !names.insert(name.clone()) {
                return Err(Fault::new(
                    Own::StateUnusable,
                    format!("{name} is pinned by a line before this one"),
                )
                .at(file, n)
                .fix("Keep the line that is right: compare it with the node's console."));
            }
            pins.push(Pin { name, endpoint, certificate });
        }
        Ok(Self(pins))
    }

    /// The text, which [`Pins::parse`] reads back to the same.
    pub fn render(&self) -> String {
        let line = |p: &Pin| format!("{} {} {}\n", p.name, p.endpoint, p.certificate);
        HEAD.to_owned() + &self.0.iter().map(line).collect::<String>()
    }
}

/// The state folder's part about nodes.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// How long is waited for who else writes there.
    pub patience: Duration,
}

impl Store {
    /// The store in a state folder, which need not exist yet.
    pub fn at(state: Option<&Path>) -> Result<Self, Fault> {
        let folder = state.ok_or_else(|| {
            Fault::new(Own::StateUnusable, "there is no place for state").fix("Set HOME or XDG_STATE_HOME.")
        })?;
        Ok(Self { folder: folder.to_owned(), patience: locks::STATE })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is pinned now.
    pub fn read(&self) -> Result<Pins, Fault> {
        match state::read(&self.folder, FILE, MAX_FILE)? {
            Some(text) => Pins::parse(&text, &self.folder.join(FILE)),
            None => Ok(Pins::default()),
        }
    }

    fn lock(&self) -> Result<Held, Fault> {
        state::hold(&self.folder, FILE, self.patience)
    }

    /// Whether one more pin could be written now: asked before something is done that cannot be done again.
    pub fn ready(&self) -> Result<(), Fault> {
        let held = self.lock()?;
        state::try_write(&held, &self.folder, FILE, self.read()?.render().len() + LONGEST)
    }

    /// Pins a node's certificate; another one that is there already is replaced only where that was said.
    pub fn set(&self, pin: Pin, replace: bool) -> Result<(), Fault> {
        let held = self.lock()?;
        let mut pins = self.read()?;
        let conflict = pins.of(&pin.name, &pin.endpoint).filter(|there| *there != pin.certificate);
        if let (Some(there), false) = (conflict, replace) {
            let what = format!("{} at {} is pinned to {there} already", pin.name, pin.endpoint);
            return Err(Fault::new(Own::NodePinConflict, what).why(format!("now it is {}", pin.certificate)));
        }
        // One name, one node: a pin at the place where it was before is of no use to anybody.
        pins.0.retain(|p| p.name != pin.name);
        pins.0.push(pin);
        self.write(&held, &pins)
    }

    /// Takes a node's pins out; says whether there were any.
    pub fn forget(&self, name: &str) -> Result<bool, Fault> {
        let held = self.lock()?;
        let mut pins = self.read()?;
        let before = pins.0.len();
        pins.0.retain(|p| p.name != name);
        let gone = pins.0.len() < before;
        if gone {
            self.write(&held, &pins)?;
        }
        Ok(gone)
    }

    fn write(&self, held: &Held, pins: &Pins) -> Result<(), Fault> {
        state::write(held, &self.folder, FILE, pins.render().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(name: &str, place: &str, of: &[u8]) -> Pin {
        Pin { name: name.into(), endpoint: place.parse().unwrap(), certificate: Fingerprint::of(of) }
    }

    #[test]
    fn a_pin_belongs_to_a_name_and_a_place_and_is_replaced_only_when_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(Some(&dir.path().join("s"))).unwrap();
        assert_eq!(store.read().unwrap(), Pins::default());
        store.set(pin("edge-1", "[2001:db8::1]:7443", b"a"), false).unwrap();
        store.set(pin("edge-2", "b", b"b"), false).unwrap();
        store.set(pin("edge-2", "b", b"b"), false).unwrap();
        let fault = store.set(pin("edge-2", "b", b"c"), false).unwrap_err();
        assert_eq!(fault.code, Own::NodePinConflict.into());
        let pins = store.read().unwrap();
        assert_eq!(pins.of("edge-1", &"2001:db8::1".parse().unwrap()), Some(Fingerprint::of(b"a")));
        assert_eq!(pins.of("edge-2", &"b".parse().unwrap()), Some(Fingerprint::of(b"b")));
        assert_eq!(pins.of("edge-2", &"c".parse().unwrap()), None);
        assert_eq!(Pins::parse(&pins.render(), Path::new("p")).unwrap(), pins);
        store.set(pin("edge-2", "b", b"c"), true).unwrap();
        assert!(store.forget("edge-1").unwrap() && !store.forget("edge-1").unwrap());
        assert_eq!(store.read().unwrap().iter().count(), 1);
    }

    #[test]
    fn a_line_that_is_not_understood_refuses_the_file() {
        let print = Fingerprint::of(b"a");
        for bad in [
            "a b",
            &format!("a b {print} c"),
            &format!("a  b {print}"),
            &format!("a b:0 {print}"),
            "a b SHA256:x",
            &format!("-a b {print}"),
            &format!("a/b b {print}"),
            &format!("a b {print}\na b {print}"),
            &format!("a b {print}\nb c {print}\na d {print}"),
        ] {
            assert!(Pins::parse(bad, Path::new("p")).is_err(), "{bad}");
        }
    }
}
