//! The folders of a node's own state, and the few rules that all of it keeps: folders judged, files replaced whole.

use std::path::Path;

use muster_sys::file::{Fault, Root, Unsafe};
use muster_sys::state::{Durability, StateDir};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::places::{self, Places};

/// Longest file of state that we wrote ourselves, in bytes: a document of 1 MiB as a JSON string.
const MAX_STATE: u64 = 8 << 20;

/// Open folders, below one root.
pub struct Disk {
    places: Places,
    /// [`places::API`]: root's alone.
    pub api: StateDir,
    /// [`places::STATE`]: others may enter.
    pub state: StateDir,
    /// [`places::VOLATILE`].
    pub run: StateDir,
    /// The folder of [`places::DOCUMENT`].
    pub etc: StateDir,
}

impl Disk {
    /// Opens all of them, making what is missing.
    ///
    /// # Errors
    /// One line: a folder that others may write to, or the system's word.
    pub fn open(places: &Places) -> Result<Self, String> {
        let root = || trusted(places);
        if places.root() != Path::new("/") {
            // A node has these; a folder that stands for one gets them.
            for path in ["/var/lib", "/run", "/etc"] {
                let path = places.at(path);
                std::fs::create_dir_all(&path).map_err(|e| format!("make {}: {e}", path.display()))?;
            }
        }
        let shared =
            |path: &str| StateDir::open_or_make_shared(root()?, Path::new(path)).map_err(|e| advice(&e));
        let state = shared(places::STATE)?;
        let run = shared(places::VOLATILE)?;
        let etc = shared("/etc/muster")?;
        let api = StateDir::open_or_make(root()?, Path::new(places::API)).map_err(|e| advice(&e))?;
        Ok(Self { places: places.clone(), api, state, run, etc })
    }

    /// Where everything is.
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Whether what lies in [`places::VOLATILE`] goes with the boot. What stands for a node is not asked.
    ///
    /// # Errors
    /// The system does not say.
    pub fn is_volatile(&self) -> Result<bool, String> {
        let on_a_node = self.places.root() == Path::new("/");
        Ok(!on_a_node
            || muster_sys::system::is_volatile(&self.places.at(places::VOLATILE)).map_err(|e| e.line())?)
    }

    /// Who is trusted for files.
    ///
    /// # Errors
    /// The folder that stands for `/` cannot be opened.
    pub fn root(&self) -> Result<Root, String> {
        trusted(&self.places)
    }
}

/// Who is trusted for the files of these places: root, and below a folder that stands for `/` whoever runs this too.
///
/// # Errors
/// The folder cannot be opened.
pub fn trusted(places: &Places) -> Result<Root, String> {
    let root = if places.root() == Path::new("/") { Root::system() } else { Root::below(places.root()) };
    root.map_err(|e| e.line())
}

fn advice(fault: &Unsafe) -> String {
    match fault.fault {
        Fault::Mode(..) | Fault::Owner(_) => format!(
            "{fault}; state of the node that others could change is not used: give it to root and take the access from others"
        ),
        _ => fault.to_string(),
    }
}

/// A private JSON file, if it is there.
///
/// # Errors
/// It cannot be read, may not be trusted, or is not what it should be.
pub fn read_json<T: DeserializeOwned>(dir: &StateDir, name: &str) -> Result<Option<T>, String> {
    let shown = dir.path().join(name);
    match dir.read(name, MAX_STATE) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            // serde's own words can quote what is in the file.
            .map_err(|e| {
                format!("{} is damaged (line {}, column {})", shown.display(), e.line(), e.column())
            }),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

/// Replaces a private JSON file.
///
/// # Errors
/// The system's word.
pub fn write_json(dir: &StateDir, name: &str, value: &impl Serialize, d: Durability) -> Result<(), String> {
    let text = serde_json::to_vec(value).map_err(|e| e.to_string())?;
    dir.replace(name, &text, d).map_err(|e| e.line())
}

/// A private text file, if it is there.
///
/// # Errors
/// It cannot be read, may not be trusted, or is no text.
pub fn read_text(dir: &StateDir, name: &str, max: u64) -> Result<Option<String>, String> {
    text_of(dir.read(name, max), &dir.path().join(name).display().to_string())
}

/// What was read as text; `None` where there was nothing to read.
///
/// # Errors
/// As [`read_text`].
pub fn text_of(read: Result<Vec<u8>, Unsafe>, shown: &str) -> Result<Option<String>, String> {
    match read {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| format!("{shown} is no text (UTF-8)")),
        Err(e) if e.is_missing() => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}
