//! `muster host …`

use super::InventoryFile;
use crate::codes::Own;
use crate::fault::Fault;
use crate::inventory::Selection;
use clap::{Args, Subcommand};

/// Hosts reached over SSH.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// List the inventory's hosts.
    List(List),
}

/// Which hosts.
#[derive(Clone, Debug, Default, Args)]
pub struct Select {
    /// Hosts by name.
    pub names: Vec<String>,
    /// Hosts by label, pool or name: key=value, key!=value, key, !key, joined by commas.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Every host of the inventory.
    #[arg(long, conflicts_with_all = ["names", "selector"])]
    pub all: bool,
    /// Where the inventory is.
    #[command(flatten)]
    pub inventory: InventoryFile,
}

impl Select {
    /// As a plain value.
    pub fn selection(&self) -> Result<Selection, Fault> {
        let parse = |text: &String| {
            text.parse().map_err(|why: String| Fault::new(Own::SelectorForm, format!("-l {text:?}: {why}")))
        };
        Ok(Selection {
            names: self.names.clone(),
            selector: self.selector.as_ref().map(parse).transpose()?,
            all: self.all,
        })
    }
}

/// List the inventory's hosts.
#[derive(Debug, Args)]
pub struct List {
    /// Which; all of them when nothing is said.
    #[command(flatten)]
    pub select: Select,
}
