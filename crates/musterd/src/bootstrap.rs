//! `musterd bootstrap`: makes of the node what its document says, once.
//!
//! A oneshot behind `muster-claimed.target`. Exit 0: it is built, was built, or nothing says what it shall be; 1: not, and the next
//! boot or the next document starts over. The marker is written last, so that a run that was killed at any point begins again.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use muster_cluster::{Distribution, Plan};
use muster_core::UtcTime;
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
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("musterd: {why}");
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
    document: &muster_document::Document,
    distribution: &dyn Distribution,
    now: UtcTime,
) -> Result<String, String> {
    let plan = Plan::of(document).map_err(|e| e.to_string())?;
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
