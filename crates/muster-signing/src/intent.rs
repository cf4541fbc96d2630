//! The intent: what is signed for envelope 2. Its grammar and limits are in `docs/formats.md`.
//!
//! Invariants: an [`Intent`] was read from bytes by the letter of the grammar, and its digest is
//! of those bytes; nothing is ever signed or compared after being written anew. An unknown, missing
//! or repeated line refuses: an old reader must not pass over a restriction that it does not know.

mod check;
mod draft;
mod grammar;

use crate::UtcTime;
pub use check::check_pattern;
pub use draft::Draft;
use muster_core::{HostName, Phase, PoolName, ProfileName};

/// A whole intent.
pub const MAX_BYTES: usize = 65_536;
/// A line, without its LF.
pub const MAX_LINE: usize = 4096;
/// `target` lines.
pub const MAX_TARGETS: usize = 256;
/// `value` and `param` lines together.
pub const MAX_NAMES: usize = 128;
/// A pattern, in bytes.
pub const MAX_PATTERN: usize = 1024;
/// A decoded constant, and a parameter's value.
pub const MAX_VALUE: usize = 65_536;
/// Seconds.
pub const MAX_DEADLINE: u32 = 86_400;

/// For whom an intent is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// `*`: every host that trusts the signer.
    Any,
    /// `host=NAME`
    Host(HostName),
    /// `pool=NAME`
    Pool(PoolName),
}

impl core::fmt::Display for Target {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Host(name) => write!(f, "host={name}"),
            Self::Pool(name) => write!(f, "pool={name}"),
        }
    }
}

impl core::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(name) = text.strip_prefix("host=") {
            return HostName::new(name).map(Self::Host).map_err(|e| e.to_string());
        }
        if let Some(name) = text.strip_prefix("pool=") {
            return PoolName::new(name).map(Self::Pool).map_err(|e| e.to_string());
        }
        Err("a target is *, host=NAME or pool=NAME".to_owned())
    }
}

/// A signed constant: exported by the shim, refused when also sent as a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueLine {
    /// `(MUSTER|KPSSH)_[A-Za-z0-9_]{1,120}`
    pub name: String,
    /// 1 to 65,536 bytes without NUL and LF, as far as the line's bound allows.
    pub value: Vec<u8>,
}

/// A parameter that may or must be sent, and the pattern that its whole value must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamLine {
    /// `(MUSTER|KPSSH)_[A-Za-z0-9_]{1,120}`
    pub name: String,
    /// Written `NAME?`.
    pub optional: bool,
    /// regex-lite syntax, 1 to 1024 bytes.
    pub pattern: String,
}

/// What becomes of a run whose peer goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It is ended.
    #[default]
    End,
    /// It goes on to its end or its deadline.
    Finish,
}

/// A well-formed intent. Well-formed is not signed. Only [`Intent::parse`] makes one, from the bytes
/// that its digest is of.
///
/// ```compile_fail,E0451
/// use muster_signing::intent::{Draft, Intent};
/// fn forge(fields: Draft) -> Intent {
///     Intent { fields, digest: [0; 32] }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    fields: Draft,
    digest: [u8; 32],
}

impl Intent {
    /// Every field, as read.
    pub fn fields(&self) -> &Draft {
        &self.fields
    }

    /// The profile.
    pub fn profile(&self) -> &ProfileName {
        &self.fields.profile
    }

    /// The phase; never `Probe`.
    pub fn phase(&self) -> Phase {
        self.fields.phase
    }

    /// SHA-256 of the script; `None` for the phase `floor` alone.
    pub fn script_sha256(&self) -> Option<&[u8; 32]> {
        self.fields.script_sha256.as_ref()
    }

    /// For whom it is; at least one.
    pub fn targets(&self) -> &[Target] {
        &self.fields.targets
    }

    /// The signed constants, ascending by name.
    pub fn values(&self) -> &[ValueLine] {
        &self.fields.values
    }

    /// The declared parameters, ascending by name.
    pub fn params(&self) -> &[ParamLine] {
        &self.fields.params
    }

    /// 1 to 4,294,967,295.
    pub fn epoch(&self) -> u32 {
        self.fields.epoch
    }

    /// Valid from this second on.
    pub fn not_before(&self) -> UtcTime {
        self.fields.not_before
    }

    /// Valid until before this second.
    pub fn not_after(&self) -> UtcTime {
        self.fields.not_after
    }

    /// Seconds from fork to the end of the run; 1 to 86,400.
    pub fn deadline(&self) -> u32 {
        self.fields.deadline
    }

    /// What becomes of the run when its peer goes away.
    pub fn on_disconnect(&self) -> OnDisconnect {
        self.fields.on_disconnect
    }

    /// SHA-256 of the bytes that were read.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

#[cfg(test)]
mod tests;
