//! The two names that the shim answers to, and what each decides.
//!
//! Only the last part of `argv[0]` is looked at: sudo fixes that part, while the folder before it
//! is the caller's to write.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The name the shim was called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalledAs {
    /// `muster-shim`
    Muster,
    /// `kpssh-shim`, in the place of the bash shim of that name.
    Kpssh,
}

impl CalledAs {
    /// Reads `argv[0]`.
    pub fn from_argv0(argv0: &OsStr) -> Option<Self> {
        let base = argv0.as_bytes().rsplit(|&b| b == b'/').next()?;
        [Self::Muster, Self::Kpssh].into_iter().find(|c| c.name().as_bytes() == base)
    }

    /// The name; also what begins each of its lines on standard error.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Muster => "muster-shim",
            Self::Kpssh => "kpssh-shim",
        }
    }

    /// What sudo is asked to run: one fixed path a name.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Muster => "/usr/bin/muster-shim",
            Self::Kpssh => "/opt/kpssh/kpssh-shim",
        }
    }

    /// The trust root.
    pub const fn trust_file(self) -> &'static str {
        match self {
            Self::Muster => "/etc/muster/allowed_signers",
            Self::Kpssh => "/etc/kpssh/allowed_signers",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m8_only_the_last_part_of_the_name_counts() {
        let of = |s: &str| CalledAs::from_argv0(OsStr::new(s));
        assert_eq!(of("/usr/bin/muster-shim"), Some(CalledAs::Muster));
        assert_eq!(of("/tmp/evil/kpssh-shim"), Some(CalledAs::Kpssh));
        assert_eq!(of("muster-shim"), Some(CalledAs::Muster));
        for other in
            ["", "/", "bash", "-muster-shim", "muster-shim/", "muster-shim2", "MUSTER-SHIM", "muster-shim\n"]
        {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
