//! `musterd bootstrap`: makes of the node what its document says, once.
//!
//! A oneshot behind `muster-claimed.target`. Exit 0: it is built, was built, or nothing says what it shall be; 1: not, and the next
//! boot or the next document starts over. The marker is written last, so that a run that was killed at any point begins again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use muster_cluster::{Distribution, Plan};
use muster_core::UtcTime;
use muster_document::Document;
use muster_sys::file::NOT_WRITABLE_BY_OTHERS;
use muster_sys::state::{Durability, StateDir};
use serde_json::json;

use crate::core::disk::Disk;
use crate::core::gate::{self, Gate};
use crate::core::hold;
use crate::places::Places;

/// What stands on the command line.
#[derive(Args, Debug, Clone, Default)]
pub struct Options {
    /// A folder that stands for `/`: for trying it out
    #[arg(long, value_name = "DIR")]
    state_root: Option<PathBuf>,
}

/// Runs it.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    let places = options.state_root.clone().map_or_else(Places::system, Places::below);
    let now = UtcTime::from_unix(muster_sys::clock::unix_seconds());
    match build(&places, &muster_cluster::None, now) {
        Ok(said) => {
            // It is built, whoever hears of it.
            let _ = crate::printed(&said);
            ExitCode::SUCCESS
        }
        Err(why) => {
            crate::say::ends(&why);
            ExitCode::FAILURE
        }
    }
}

/// Builds the node by a distribution, if it may be built. One line of what became of it.
///
/// # Errors
/// One line.
pub fn build(places: &Places, distribution: &dyn Distribution, now: UtcTime) -> Result<String, String> {
    let disk = Disk::open(places)?;
    let document = match gate::pass(&disk)? {
        Gate::Built => return Ok("this node is built already".to_owned()),
        Gate::Nothing => return Ok("no document says what this node shall be".to_owned()),
        Gate::Waits(why) => return Err(format!("this node waits: {why}")),
        Gate::Go(document) => document,
    };
    let done = make(&disk, &document, distribution, now);
    hold::end_building(&disk);
    done
}

fn make(
    disk: &Disk,
    document: &Document,
    distribution: &dyn Distribution,
    now: UtcTime,
) -> Result<String, String> {
    let plan = Plan::of(document).map_err(|e| e.to_string())?;
    name_the_node(disk, document)?;
    distribution.build(&plan).map_err(|e| e.to_string())?;
    let mut record = json!({
        "role": plan.role.as_str(),
        "cluster": plan.cluster,
        "distribution": distribution.name(),
        "bootstrappedAt": now.to_string(),
    });
    if let (Some(endpoint), Some(members)) = (&plan.endpoint, record.as_object_mut()) {
        members.insert("endpoint".to_owned(), endpoint.clone().into());
    }
    gate::built(disk, &record)?;
    Ok(format!(
        "built as {} of cluster {} (distribution {})",
        plan.role.as_str(),
        plan.cluster,
        distribution.name()
    ))
}

/// Names that a machine has because nobody gave it one.
const NO_NAME: &[&str] = &["", "(none)", "fedora", "localhost", "localhost.localdomain"];

/// Gives the node its name before anything is built under it: the document's, else the one that it has, else one of its machine id.
fn name_the_node(disk: &Disk, document: &Document) -> Result<(), String> {
    let root = disk.root()?;
    let text = |path: &str| {
        let bytes = root.read_with(Path::new(path), 4096, NOT_WRITABLE_BY_OTHERS).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    };
    let has = text("/proc/sys/kernel/hostname");
    let name = match &document.node.name {
        Some(name) => name.clone(),
        None if !NO_NAME.contains(&has.as_str()) => return Ok(()),
        None => {
            let id = text("/etc/machine-id");
            let head = id.get(..8).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
            format!("muster-{}", head.ok_or("the node has no name, and no machine id to make one of")?)
        }
    };
    let etc = StateDir::open_or_make_shared(disk.root()?, Path::new("/etc")).map_err(|e| e.to_string())?;
    if text("/etc/hostname") != name {
        let line = format!("{name}\n");
        etc.replace_shared("hostname", line.as_bytes(), Durability::Durable).map_err(|e| e.line())?;
    }
    if has != name && disk.places().root() == Path::new("/") {
        muster_sys::system::set_host_name(&name).map_err(|e| e.line())?;
    }
    Ok(())
}
