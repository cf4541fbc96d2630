//! The fixed vocabulary of a pool host.

use core::fmt;

/// What a host can be asked to do over the pinned login.
///
/// The words are those of the published envelope; `Floor` exists on envelope 2 only and runs no
/// script (it raises the epoch floor of a profile).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Read facts. Unsigned, takes no lock, writes nothing.
    Probe,
    /// Heavy, once per host and profile version.
    Install,
    /// Every claim.
    Join,
    /// Every release.
    Leave,
    /// Undo install.
    Uninstall,
    /// Raise the epoch floor; signed, no script.
    Floor,
}

impl Phase {
    /// The phases that carry a script, in the order of a host's life.
    pub const SCRIPTED: [Self; 4] = [Self::Install, Self::Join, Self::Leave, Self::Uninstall];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Install => "install",
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Uninstall => "uninstall",
            Self::Floor => "floor",
        }
    }

    /// Reads the word on the wire; byte for byte, no case folding.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Probe, Self::Install, Self::Join, Self::Leave, Self::Uninstall, Self::Floor]
            .into_iter()
            .find(|p| p.as_str() == word)
    }

    /// Whether the phase runs a script.
    pub const fn is_scripted(self) -> bool {
        !matches!(self, Self::Probe | Self::Floor)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
