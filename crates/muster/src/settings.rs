//! From the command line, the environment and the defaults to plain values.
//!
//! This is the only place that reads the environment, and it reads it once.

use crate::args;
use crate::codes::Own;
use crate::fault::Fault;
use crate::printer::{Format, Looks};
use crate::yaml::walk::duration;
use muster_core::UtcTime;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// What is true of this machine and this moment.
#[derive(Clone, Debug)]
pub struct World {
    /// The one `now` of this command.
    pub now: UtcTime,
    /// The operator's home.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME/muster`
    pub config: Option<PathBuf>,
    /// `$XDG_STATE_HOME/muster`
    pub state: Option<PathBuf>,
    /// `SSH_AUTH_SOCK`
    pub agent: Option<PathBuf>,
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// stdout is a terminal.
    pub out_terminal: bool,
    /// stderr is a terminal.
    pub err_terminal: bool,
    /// stdin and stdout are a terminal that can be drawn on.
    pub screen: bool,
    /// The terminal is not one of those that are known to have no colours.
    pub colours: bool,
    /// Columns of the terminal.
    pub width: Option<u16>,
}

impl World {
    /// Looks around once.
    pub fn look(now: UtcTime) -> Self {
        let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = path("HOME").filter(|p| p.is_absolute());
        let xdg = |name: &str, rest: &str| {
            let folder = path(name).filter(|p| p.is_absolute());
            folder.or_else(|| home.as_ref().map(|h| h.join(rest))).map(|p| p.join("muster"))
        };
        let term = std::env::var("TERM").unwrap_or_default();
        let dumb = term == "dumb";
        let out = std::io::stdout();
        let width = rustix::termios::tcgetwinsize(&out).ok().map(|w| w.ws_col).filter(|w| *w > 0);
        Self {
            now,
            config: xdg("XDG_CONFIG_HOME", ".config"),
            state: xdg("XDG_STATE_HOME", ".local/state"),
            agent: path("SSH_AUTH_SOCK"),
            no_color: path("NO_COLOR").is_some(),
            out_terminal: out.is_terminal() && !dumb,
            err_terminal: std::io::stderr().is_terminal() && !dumb,
            screen: out.is_terminal() && std::io::stdin().is_terminal() && !dumb,
            colours: !monochrome(&term),
            width,
            home,
        }
    }

    /// How output looks.
    pub fn looks(&self, global: &args::Global) -> Looks {
        let colour = |terminal: bool| match global.color {
            args::When::Always => true,
            args::When::Never => false,
            args::When::Auto => terminal && !self.no_color,
        };
        Looks {
            format: match global.output {
                args::Output::Table => Format::Table,
                args::Output::Json => Format::Json,
                args::Output::Yaml => Format::Yaml,
                args::Output::Name => Format::Name,
            },
            colour_out: colour(self.out_terminal),
            colour_err: colour(self.err_terminal),
            live: self.err_terminal && !global.quiet,
            quiet: global.quiet,
            width: self.width.filter(|_| self.out_terminal),
        }
    }
}

/// By the names that terminfo(5) has for terminals without colours: those of DEC, and `-m` and `-mono` at the end of others.
fn monochrome(term: &str) -> bool {
    let dec = ["vt52", "vt100", "vt102", "vt220", "vt320", "vt420"];
    dec.iter().any(|t| term == *t || term.strip_prefix(t).is_some_and(|rest| rest.starts_with('-')))
        || term.ends_with("-m")
        || term.ends_with("-mono")
}

/// Reads a time of the command line.
pub fn time(option: &str, text: &str) -> Result<UtcTime, Fault> {
    UtcTime::parse(text).map_err(|e| {
        Fault::new(Own::Usage, format!("{option} {text:?} is {e}")).fix("Write 2026-11-29T00:00:00Z.")
    })
}

/// Reads a duration of the command line, in seconds.
pub fn span(option: &str, text: &str) -> Result<u64, Fault> {
    duration(text).filter(|d| *d > 0).ok_or_else(|| {
        Fault::new(Own::Usage, format!("{option} {text:?} is not a duration"))
            .fix("Write a number and s, m, h or d, such as 90s or 30d.")
    })
}

/// A path shown to the operator.
pub fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The whole environment, for the one program that stands in our place (`muster ssh-keygen`).
pub fn inherited() -> Vec<(String, std::ffi::OsString)> {
    std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v))).collect()
}
