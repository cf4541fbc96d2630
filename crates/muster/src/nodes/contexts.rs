//! Contexts: which nodes, called as whom. `contexts.yaml` in the configuration folder says what there is; which one is in use
//! is state (`context` in the state folder), so that choosing one never rewrites a file that somebody keeps.
//!
//! ```yaml
//! muster-contexts: 1
//! contexts:
//!   lab:
//!     inventory: lab/inventory.yaml
//!     client: lab/pki/clients/alice.pem      # and its key beside it, or key: FILE
//!     authority: lab/pki/operator-ca.pem
//! ```

use super::identity::Caller;
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::yaml::walk::Walk;
use crate::{files, state, yaml};
use std::path::{Path, PathBuf};

/// The file in the configuration folder.
pub const FILE: &str = "contexts.yaml";
/// The file in the state folder.
const CURRENT: &str = "context";
const MAX_NAME: usize = 256;

/// One context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// Which nodes there are.
    pub inventory: Option<PathBuf>,
    /// Who calls.
    pub caller: Caller,
    /// The authority that a claim hands over.
    pub authority: Option<PathBuf>,
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// In its order.
    pub all: Vec<Context>,
    file: PathBuf,
}

impl Contexts {
    /// Reads what there is; no file is no contexts.
    pub fn read(config: Option<&Path>, home: Option<&Path>) -> Result<Self, Faults> {
        let Some(file) = config.map(|c| c.join(FILE)) else { return Ok(Self::default()) };
        if files::is_absent(&file) {
            return Ok(Self { file, ..Self::default() });
        }
        Self::parse(&files::read_text(&file, yaml::MAX_BYTES)?, &file, home)
    }

    /// Reads a text; `file` names it and is what its paths are relative to.
    pub fn parse(text: &str, file: &Path, home: Option<&Path>) -> Result<Self, Faults> {
        let root = yaml::parse(text, file)?;
        let mut walk = Walk::new(file);
        let all = read(&mut walk, &root, file.parent().unwrap_or(Path::new("")), home);
        Faults::check(walk.finish())?;
        Ok(Self { all, file: file.to_owned() })
    }

    /// One by name.
    pub fn get(&self, name: &str) -> Result<&Context, Fault> {
        self.all.iter().find(|c| c.name == name).ok_or_else(|| {
            let fault =
                Fault::new(Own::ContextUnknown, format!("no context {name:?} in {}", self.file.display()));
            match yaml::nearest(name, self.all.iter().map(|c| c.name.as_str())) {
                Some(near) => fault.fix(format!("Did you mean {near:?}?")),
                None => fault,
            }
        })
    }
}

fn read(walk: &mut Walk<'_>, root: &yaml::Node, folder: &Path, home: Option<&Path>) -> Vec<Context> {
    let Some(top) = walk.fields(root, "the contexts", &["muster-contexts", "contexts"]) else {
        return Vec::new();
    };
    if let Some(n) = top.get("muster-contexts") {
        walk.value(n, "muster-contexts", "1, the only version there is", |t| (t == "1").then_some(()));
    }
    let path = |text: String| match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folder.join(&text),
    };
    let mut all = Vec::new();
    let entries = top.get("contexts").and_then(|n| walk.entries(n, "contexts")).unwrap_or_default();
    for entry in entries {
        let at = format!("contexts.{}", entry.key);
        if !super::pins::is_name(&entry.key) {
            let fix = Some("Use letters, digits, `.`, `_`, `-`.".into());
            walk.fault(Own::ConfigValue, entry.line, format!("{at} is no name for a context"), fix);
            continue;
        }
        let Some(f) = walk.fields(&entry.value, &at, &["inventory", "client", "key", "authority"]) else {
            continue;
        };
        let mut text = |key: &str| f.get(key).and_then(|n| walk.text(n, &f.at(key))).map(path);
        all.push(Context {
            name: entry.key.clone(),
            inventory: text("inventory"),
            caller: Caller { client: text("client"), key: text("key") },
            authority: text("authority"),
        });
    }
    all
}

/// The name of the one in use.
pub fn current(folder: Option<&Path>) -> Result<Option<String>, Fault> {
    let Some(folder) = folder else { return Ok(None) };
    let name = state::read(folder, CURRENT, MAX_NAME)?;
    Ok(name.map(|n| n.trim_end().to_owned()).filter(|n| !n.is_empty()))
}

/// Uses this one from now on.
pub fn choose(folder: Option<&Path>, name: &str) -> Result<(), Fault> {
    let store = super::pins::Store::at(folder)?;
    let held = state::hold(store.folder(), CURRENT, store.patience)?;
    state::write(&held, store.folder(), CURRENT, format!("{name}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_with_their_paths_and_every_fault_has_its_line() {
        let text = "muster-contexts: 1\ncontexts:\n  lab:\n    inventory: lab/i.yaml\n    client: ~/c.pem\n  prod: {authority: /a.pem}\n";
        let read = Contexts::parse(text, Path::new("cfg/contexts.yaml"), Some(Path::new("/home/o"))).unwrap();
        let lab = read.get("lab").unwrap();
        assert_eq!(lab.inventory.as_deref(), Some(Path::new("cfg/lab/i.yaml")));
        assert_eq!(lab.caller.client.as_deref(), Some(Path::new("/home/o/c.pem")));
        assert_eq!(read.get("prod").unwrap().authority.as_deref(), Some(Path::new("/a.pem")));
        assert!(read.get("prd").unwrap_err().to_string().contains("Did you mean \"prod\"?"));
        for (text, want) in [
            ("contexts: {a: {clent: x}}\n", "unknown key \"clent\""),
            ("contexts: {a/b: {}}\n", "is no name for a context"),
            ("muster-contexts: 2\n", "muster-contexts is \"2\""),
        ] {
            let faults = Contexts::parse(text, Path::new("c"), None).unwrap_err();
            assert!(faults.iter().any(|f| f.to_string().contains(want)), "{text}: {faults:?}");
        }
    }
}
