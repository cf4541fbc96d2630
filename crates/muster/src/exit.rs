//! Exit codes of `muster`: one documented enum.
//!
//! 10 and 11 carry the meaning that the shim gives them, so that a script around `muster host join` reads the
//! same number on both sides. `muster ssh-keygen` is the one command outside this table: it keeps the numbers of
//! the `ssh-keygen` that it stands in for.

/// How `muster` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything that was asked for was done.
    Ok = 0,
    /// It was tried and did not succeed, or several hosts failed in different ways.
    Failed = 1,
    /// The command line itself is wrong.
    Usage = 2,
    /// A file or value that was given is wrong.
    BadInput = 3,
    /// Refused here, before anything was changed or sent.
    Refused = 4,
    /// The host was not reached or did not let us in; nothing ran.
    Unreachable = 5,
    /// The host refused; nothing ran.
    HostRefused = 6,
    /// Another run holds the host, or a file here that is to be changed, also after waiting.
    Busy = 7,
    /// The run may or may not have happened; the host must be asked before running it again.
    OutcomeUnknown = 8,
    /// A fault of `muster` or of the machine it runs on.
    Internal = 9,
    /// The signed script ran on the host and failed.
    ScriptFailed = 10,
    /// The run was ended because its deadline passed.
    Deadline = 11,
    /// Ended by the operator (Ctrl-C).
    Interrupted = 130,
}

impl Exit {
    /// Every code, ascending.
    pub const ALL: [Self; 13] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::BadInput,
        Self::Refused,
        Self::Unreachable,
        Self::HostRefused,
        Self::Busy,
        Self::OutcomeUnknown,
        Self::Internal,
        Self::ScriptFailed,
        Self::Deadline,
        Self::Interrupted,
    ];

    /// The number handed to the operating system.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What it means, in one clause.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "everything that was asked for was done",
            Self::Failed => "it was tried and did not succeed, or several hosts failed in different ways",
            Self::Usage => "the command line itself is wrong",
            Self::BadInput => "a file or value that was given is wrong",
            Self::Refused => "refused here, before anything was changed or sent",
            Self::Unreachable => "the host was not reached or did not let us in; nothing ran",
            Self::HostRefused => "the host refused; nothing ran",
            Self::Busy => {
                "another run holds the host, or a file here that is to be changed, also after waiting"
            }
            Self::OutcomeUnknown => {
                "the run may or may not have happened; ask the host before running it again"
            }
            Self::Internal => {
                "a fault of muster or of the machine it runs on, such as a full disk behind standard output"
            }
            Self::ScriptFailed => "the signed script ran on the host and failed",
            Self::Deadline => "the run was ended because its deadline passed",
            Self::Interrupted => "ended by the operator",
        }
    }

    /// The code of a command over many hosts: what all failures share, except that one unknown outcome
    /// decides, because it is the one that must not be run again blindly.
    pub fn of_many(each: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self::Ok;
        for one in each {
            sum = match (sum, one) {
                (Self::OutcomeUnknown, _) | (_, Self::OutcomeUnknown) => Self::OutcomeUnknown,
                (Self::Interrupted, _) | (_, Self::Interrupted) => Self::Interrupted,
                (Self::Ok, x) | (x, Self::Ok) => x,
                (x, y) if x == y => x,
                _ => Self::Failed,
            };
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_numbers_do_not_move() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|e| e.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 130]);
    }

    #[test]
    fn many_hosts_never_hide_a_failure() {
        use Exit::*;
        assert_eq!(Exit::of_many([]), Ok);
        assert_eq!(Exit::of_many([Ok, Ok]), Ok);
        assert_eq!(Exit::of_many([Ok, HostRefused, Ok]), HostRefused);
        assert_eq!(Exit::of_many([Unreachable, HostRefused]), Failed);
        assert_eq!(Exit::of_many([HostRefused, OutcomeUnknown, Unreachable]), OutcomeUnknown);
        for a in Exit::ALL {
            for b in Exit::ALL {
                let both = Exit::of_many([a, b]);
                assert_eq!(both == Ok, a == Ok && b == Ok, "{a:?} {b:?}");
            }
        }
    }
}
