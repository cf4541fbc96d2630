//! Whether the bootstrap may begin: the last look before a node is built, by the process that builds it.
//!
//! The unit is started by a target that the core reaches; this asks again, from the disk alone. Without an owner nothing is built
//! unless the API is off, whoever started the unit.

use muster_core::machine::Membership;
use muster_document::{Document, Mode};

use super::disk::Disk;
use super::documents::{self, Judged};
use super::{hold, record};

/// What is found.
pub enum Gate {
    /// It is built already.
    Built,
    /// Nothing says what it shall be.
    Nothing,
    /// It waits. For what.
    Waits(String),
    /// It may be built as this, and this process has said that it does.
    Go(Box<Document>),
}

/// Looks, and says that this process builds the node where it may.
///
/// # Errors
/// One line: state or documents that cannot be read, or another bootstrap.
pub fn pass(disk: &Disk) -> Result<Gate, String> {
    let _lock = hold::lock(disk)?;
    match hold::membership(disk)? {
        Membership::Member => return Ok(Gate::Built),
        Membership::Leaving => return Ok(Gate::Waits("the node is being taken apart".to_owned())),
        Membership::Building => return Err("another bootstrap runs".to_owned()),
        Membership::None => {}
    }
    if record::is_pending(disk) {
        // By the document that lies there now it might become what its owner did not ask for.
        return Ok(Gate::Waits("a claim is not complete; restarting musterd-core completes it".to_owned()));
    }
    let owner = record::authority(disk)?;
    let Some(found) = documents::find(disk, Judged::Read)? else { return Ok(Gate::Nothing) };
    let document = found.document;
    if document.mode() != Mode::Disabled && owner.is_none() {
        return Ok(Gate::Waits("nobody owns the node".to_owned()));
    }
    if document.role.is_none() {
        return Err(format!(
            "{} names no role, so there is nothing to build; apply one that does",
            found.from
        ));
    }
    if document.mode() != Mode::Disabled && document.holds_for_document() && !hold::is_described(disk) {
        return Ok(Gate::Waits("the document asks for another one (api.awaitConfig)".to_owned()));
    }
    hold::begin_building(disk)?;
    Ok(Gate::Go(Box::new(document)))
}

/// Writes down that the node is built, the marker last: without it the next boot begins again.
///
/// # Errors
/// One line.
pub fn built(disk: &Disk, record: &serde_json::Value) -> Result<(), String> {
    use muster_sys::state::Durability;
    let line = |e: muster_sys::SysError| e.line();
    super::step::reached("built");
    disk.state
        .replace_shared("node.json", record.to_string().as_bytes(), Durability::Durable)
        .map_err(line)?;
    super::step::reached("node");
    disk.state.replace("bootstrapped", b"", Durability::Durable).map_err(line)?;
    super::step::reached("bootstrapped");
    Ok(())
}
