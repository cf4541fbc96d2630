//! The intent: what is signed for envelope 2. Grammar and limits are in `docs/formats.md`.

mod draft;

use crate::{FileFault, Reason, Refusal, UtcTime, params::Param};
pub use draft::Draft;
use muster_core::{HostName, Phase, PoolName, ProfileName};

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

/// A signed constant: exported by the shim, refused when also sent as a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueLine {
    /// `(MUSTER|KPSSH)_[A-Za-z0-9_]{1,120}`
    pub name: String,
    /// At most 65,536 bytes without NUL and LF.
    pub value: Vec<u8>,
}

/// A parameter that may or must be sent, and the pattern that its whole value must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamLine {
    /// `(MUSTER|KPSSH)_[A-Za-z0-9_]{1,120}`
    pub name: String,
    /// Written `NAME?`.
    pub optional: bool,
    /// regex-lite syntax, at most 1024 bytes.
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

/// A well-formed intent. Well-formed is not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    fields: Draft,
    digest: [u8; 32],
}

impl Intent {
    /// Reads an intent, by the letter of its grammar.
    pub fn parse(_text: &[u8]) -> Result<Self, FileFault> {
        Err(FileFault::at(0, "intents are not read yet"))
    }

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

    /// Whether the SHA-256 of the received script (`None`: no script came) is the signed one.
    pub fn check_script(&self, sha256: Option<&[u8; 32]>) -> Result<(), Refusal> {
        if self.script_sha256() == sha256 { Ok(()) } else { Err(Refusal::new(Reason::ScriptDigest, "")) }
    }

    /// Whether the envelope's phase is the signed one.
    pub fn check_phase(&self, outer: Phase) -> Result<(), Refusal> {
        if self.phase() == outer { Ok(()) } else { Err(Refusal::new(Reason::PhaseMismatch, "")) }
    }

    /// The first target line that names this host or one of its pools.
    pub fn check_target(&self, host: Option<&HostName>, pools: &[PoolName]) -> Result<&Target, Refusal> {
        let hit = |t: &&Target| match t {
            Target::Any => true,
            Target::Host(h) => Some(h) == host,
            Target::Pool(p) => pools.contains(p),
        };
        self.targets().iter().find(hit).ok_or_else(|| Refusal::new(Reason::Target, ""))
    }

    /// Whether `not-before <= now < not-after`.
    pub fn check_validity(&self, now: UtcTime) -> Result<(), Refusal> {
        if now < self.not_before() {
            Err(Refusal::new(Reason::NotYetValid, ""))
        } else if now >= self.not_after() {
            Err(Refusal::new(Reason::Expired, ""))
        } else {
            Ok(())
        }
    }

    /// Checks parameters against the declared ones and returns the environment that the script
    /// gets from the intent: signed constants and parameters, ascending by name.
    pub fn check_params(&self, _params: &[Param]) -> Result<Vec<Param>, Refusal> {
        Err(Refusal::new(Reason::ParamUndeclared, "parameters are not checked yet"))
    }
}
