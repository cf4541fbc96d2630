//! `muster audit …`

use super::node::calls::{On, Those};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The record that each node keeps of what it was asked.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Verify that records hold together, and that what was seen of them is in them.
    Verify(Verify),
    /// Show the newest records, and those that come.
    Tail(Tail),
}

/// Verify records.
#[derive(Debug, Args)]
pub struct Verify {
    /// Which nodes.
    #[command(flatten)]
    pub on: On,
    /// Read files of a chain instead of asking a node, the oldest first.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "selector", "all"])]
    pub file: Vec<PathBuf>,
    /// A head that was handed out, SEQ:HASH, which the files must have.
    #[arg(long, value_name = "HEAD", requires = "file")]
    pub head: Vec<String>,
    /// Read only from the head on that is known of a node; it must be there.
    #[arg(long, conflicts_with = "file")]
    pub since_known: bool,
}

/// Show records.
#[derive(Debug, Args)]
pub struct Tail {
    /// Which node.
    #[command(flatten)]
    pub on: Those,
    /// The newest records.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub lines: u64,
    /// Go on with what comes, for an hour at most.
    #[arg(short, long)]
    pub follow: bool,
}
