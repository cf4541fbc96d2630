//! `muster context …`

use clap::Subcommand;

/// Contexts: which nodes, called as whom.
#[derive(Debug, Subcommand)]
pub enum Context {
    /// List the contexts.
    List,
    /// Use a context from now on.
    Use {
        /// Its name.
        name: String,
    },
    /// Show the context in use, or another one.
    Show {
        /// Its name.
        name: Option<String>,
    },
}
