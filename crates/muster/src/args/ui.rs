//! `muster ui`

use super::node::{Caller, Pace, Select};
use clap::Args;

/// A dashboard of nodes on this terminal, by keyboard alone; `?` shows the keys.
///
/// It shows the nodes that `muster node list` knows, asks each again and again, and opens one to its services, its followed journal and its audit record.
/// What ends something is shown first and wants the node's name typed, as the commands do.
#[derive(Debug, Args)]
pub struct Ui {
    /// Which nodes; all of them when nothing is said.
    #[command(flatten)]
    pub select: Select,
    /// How often each node is asked.
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    pub every: String,
    /// Who calls.
    #[command(flatten)]
    pub caller: Caller,
    /// How.
    #[command(flatten)]
    pub pace: Pace,
}
