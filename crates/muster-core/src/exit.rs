//! Exit codes of the shim: one documented enum.

/// What the shim's process tells its caller.
///
/// 0 to 5 and 10 are the published contract of the bash shim that ours replaces; 6, 7, 11 and 12
/// are Muster's. A signal is never reported as an exit code: a script that died of a signal is 10
/// and the signal stands in the run record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ShimExit {
    /// The phase ran and its script exited 0 (or a probe answered).
    Ok = 0,
    /// The shim or its host is at fault; nothing ran.
    Internal = 1,
    /// Nothing a trusted key vouched for; nothing ran.
    SignatureRejected = 2,
    /// A parameter's name or form is not allowed; nothing ran.
    BadParam = 3,
    /// The envelope is malformed, too large or too slow; nothing ran.
    MalformedEnvelope = 4,
    /// The phase is not one of the fixed vocabulary; nothing ran.
    UnknownPhase = 5,
    /// The signature is good but the intent does not allow this here and now; nothing ran.
    IntentRefused = 6,
    /// Another run holds this host; nothing ran.
    Busy = 7,
    /// The signed script ran and failed; its own code is in the run record.
    ScriptFailed = 10,
    /// The run was ended because its deadline passed.
    Deadline = 11,
    /// The run was ended because the peer went away.
    PeerGone = 12,
}

impl ShimExit {
    /// Every code, in ascending order.
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::Internal,
        Self::SignatureRejected,
        Self::BadParam,
        Self::MalformedEnvelope,
        Self::UnknownPhase,
        Self::IntentRefused,
        Self::Busy,
        Self::ScriptFailed,
        Self::Deadline,
        Self::PeerGone,
    ];

    /// The number handed to the operating system.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The inverse of [`ShimExit::code`]; `None` for a number that the shim never uses.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|e| e.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_numbers_do_not_move() {
        let codes: Vec<u8> = ShimExit::ALL.iter().map(|e| e.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12]);
        for e in ShimExit::ALL {
            assert_eq!(ShimExit::from_code(e.code()), Some(e));
        }
        assert_eq!(ShimExit::from_code(8), None);
    }
}
