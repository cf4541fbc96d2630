//! Why the shim refused or ended a run: a closed set of stable codes.
//!
//! A code is contract: it appears on stderr, in the run record, in `muster explain` and as the
//! name of a page under `docs/errors/`. Codes are added, never reused.

use crate::ShimExit;
use core::fmt;

macro_rules! reasons {
    ($($variant:ident = $code:literal, $exit:ident, $what:literal, $fix:literal;)*) => {
        /// A stable reason. See the module documentation.
        #[allow(rustdoc::broken_intra_doc_links, reason = "the texts name tables of shim.toml in brackets")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $what] $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the exit codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable word.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// The exit code that the shim gives for it.
            pub const fn exit(self) -> ShimExit {
                match self { $(Self::$variant => ShimExit::$exit),* }
            }

            /// What happened, in one clause.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$variant => $what),* }
            }

            /// What to do about it, in one sentence.
            pub const fn fix(self) -> &'static str {
                match self { $(Self::$variant => $fix),* }
            }
        }
    };
}

reasons! {
    // 1: the shim or its host is at fault
    Argument = "argument", Internal, "the shim was given an argument", "Call it with none: everything it needs comes on standard input.";
    CalledAs = "called-as", Internal, "the shim was called by a name that is not muster-shim or kpssh-shim", "Install it under one of its two names.";
    NotRoot = "not-root", Internal, "sudo did not make the shim root", "Check the sudoers drop-in with `muster host doctor`.";
    NoPolicy = "no-policy", Internal, "envelope 2 needs /etc/muster/shim.toml with a [profiles] table", "Run `muster host provision`.";
    PolicyUnsafe = "policy-unsafe", Internal, "shim.toml or a folder above it could be written by somebody other than root", "Make it and its parents root-owned and not writable by group or others.";
    PolicyInvalid = "policy-invalid", Internal, "shim.toml does not parse or asks for what cannot be", "Mend the line that the message names.";
    ProcMissing = "proc-missing", Internal, "/proc is not mounted, so the verified bytes cannot be run from memory", "Mount /proc.";
    StateMissing = "state-missing", Internal, "/var/lib/muster/shim does not exist or is not root's alone", "Run `muster host provision`.";
    FloorsMissing = "floors-missing", Internal, "the floors file is gone while its folder is there", "Find out who removed it, then set it again with `muster host floor set`.";
    FloorsMalformed = "floors-malformed", Internal, "the floors file has a line that does not parse", "Mend it with `muster host floor set`; it is never taken as empty.";
    RecordUnwritable = "record-unwritable", Internal, "neither the journal nor the durable run log took the start record", "Free space on /var/lib or mend journald; nothing runs unrecorded.";
    SurvivorsRemain = "survivors-remain", Internal, "processes of an interrupted run could not be ended", "Look at them with `systemctl status` and end them by hand.";
    InternalFault = "internal", Internal, "an operation that should not fail failed", "Read the message; it names the operation and the system's error.";

    // 2: nothing a trusted key vouched for
    TrustFileMissing = "trust-file-missing", SignatureRejected, "allowed_signers is not there", "Provision the host: without it nobody is trusted.";
    TrustFileUnsafe = "trust-file-unsafe", SignatureRejected, "a trust file or a folder above it could be written by somebody other than root", "Make it and its parents root-owned and not writable by group or others.";
    TrustFileMalformed = "trust-file-malformed", SignatureRejected, "a trust file has a line or option that is not understood, so the whole file is refused", "Mend the line that the message names.";
    RevocationUnreadable = "revocation-list-unreadable", SignatureRejected, "the revocation list is required and cannot be read", "Restore /etc/muster/revoked_signers; an empty file revokes nobody.";
    SignatureMalformed = "signature-malformed", SignatureRejected, "the signature is not a well-formed SSH signature", "Sign again.";
    SignatureMissing = "signature-missing", SignatureRejected, "a signature field is there and empty", "Sign again.";
    Algorithm = "algorithm", SignatureRejected, "the signature's algorithm, key size or flags are not accepted", "Sign with Ed25519, ECDSA, RSA of 3072 to 8192 bits with SHA-2, or a security key that was touched.";
    Namespace = "namespace", SignatureRejected, "the signature was made for another namespace", "Sign with `muster script sign`.";
    BytesDiffer = "bytes-differ", SignatureRejected, "the signature is by this key but over other bytes", "Compare the digest in the message with the file that was signed.";
    KeyUnknown = "key-unknown", SignatureRejected, "the signing key is not in allowed_signers", "Add the key on the host, or sign with a listed one.";
    Principal = "principal", SignatureRejected, "the signing key is listed, but not for the principal that is asked for", "Name the principal in allowed_signers, or issue the certificate for it.";
    KeyNotYetValid = "key-not-yet-valid", SignatureRejected, "the key's or certificate's validity has not begun", "Wait, or mend valid-after; check the host's clock.";
    KeyExpired = "key-expired", SignatureRejected, "the key's or certificate's validity is over", "Renew valid-before on the host, or sign with a current key; check the host's clock.";
    Certificate = "certificate", SignatureRejected, "the signer's certificate is not acceptable", "Issue a user certificate by the listed authority with the right principal and no unknown critical option.";
    Revoked = "revoked", SignatureRejected, "the signing key or its authority is revoked", "Sign with another key.";
    Threshold = "threshold", SignatureRejected, "fewer distinct signers signed than this host needs", "Collect more signatures: `muster script sign` adds one.";
    ScriptDigest = "script-digest", SignatureRejected, "the script is not the one that the intent names", "Send the script that was signed.";

    // 3: a parameter's name or form
    ParamName = "param-name", BadParam, "a parameter's name is outside the allowed prefix and characters", "Use MUSTER_ or KPSSH_ and letters, digits, underscores.";
    ParamForm = "param-form", BadParam, "a parameter line has no `=`, or holds a NUL byte", "Send NAME=value.";

    // 4: the envelope
    Version = "version", MalformedEnvelope, "the envelope's version is missing or not one that this host takes", "Send `kpssh-envelope: 1` or `muster-envelope: 2`.";
    EnvelopeOneOff = "envelope-1-off", MalformedEnvelope, "this host does not take envelope 1", "Sign an intent and send envelope 2, or allow it in shim.toml for the time of a migration.";
    FieldMissing = "field-missing", MalformedEnvelope, "a field of the envelope is missing or empty", "Send the field that the message names.";
    FieldForm = "field-form", MalformedEnvelope, "the envelope has a field out of place, repeated or unknown", "Build it with `muster`.";
    Base64 = "base64", MalformedEnvelope, "a field is not standard padded base64", "Build it with `muster`.";
    TooLarge = "too-large", MalformedEnvelope, "the envelope or one of its fields is over its bound", "Keep scripts to 1 MiB, parameters to 256 KiB, signatures to 64 KiB, all of it to 2 MiB.";
    InputDeadline = "input-deadline", MalformedEnvelope, "the envelope did not arrive whole within 30 seconds", "Look at the link, then send again.";
    IntentForm = "intent-form", MalformedEnvelope, "the intent does not follow its grammar", "Sign with `muster script sign`.";
    SignatureForm = "signature-form", MalformedEnvelope, "a signature of the envelope is not a well-formed SSH signature", "Sign again.";

    // 5
    PhaseUnknown = "phase-unknown", UnknownPhase, "the phase is not one of the fixed vocabulary", "Use probe, install, join, leave, uninstall or, on envelope 2, floor.";

    // 6: the intent does not allow this here and now
    PhaseMismatch = "phase-mismatch", IntentRefused, "the envelope's phase is not the one that was signed", "Send the intent of the phase that you want.";
    Profile = "profile", IntentRefused, "the intent's profile is not in this host's [profiles]", "Add it with `muster host provision`.";
    Target = "target", IntentRefused, "the intent is not for this host", "Sign for the host's name or pool, as its shim.toml says them.";
    ClockBehind = "clock-behind", IntentRefused, "the host's clock is before a time that is known to be past", "Set the host's clock.";
    ClockAhead = "clock-ahead", IntentRefused, "the host's clock is further ahead than can be", "Set the host's clock.";
    NotYetValid = "not-yet-valid", IntentRefused, "the intent's validity has not begun", "Wait, or check the host's clock.";
    Expired = "expired", IntentRefused, "the intent's validity is over", "Sign again, or check the host's clock.";
    DeadlineCap = "deadline-cap", IntentRefused, "the intent's deadline is over this host's cap", "Sign with a shorter deadline, or raise max-deadline in shim.toml.";
    ParamMissing = "param-missing", IntentRefused, "a parameter that the intent requires was not sent", "Send it with --param or --secret.";
    ParamUndeclared = "param-undeclared", IntentRefused, "a parameter was sent that the intent does not declare", "Leave it out, or declare it and sign again.";
    ParamPattern = "param-pattern", IntentRefused, "a parameter's value does not match its signed pattern", "Send a value that fits the pattern.";
    ParamIsValue = "param-is-value", IntentRefused, "a parameter was sent that the intent fixes as a signed value", "Leave it out: the signer decided it.";
    EpochFloor = "epoch-floor", IntentRefused, "the intent's epoch is below this host's floor", "Send the newest signed profile.";
    EpochStep = "epoch-step", IntentRefused, "the intent's epoch is further above the floor than one step may be", "Sign with an epoch near the floor; look for a typing error.";
    KeyPolicy = "key-policy", IntentRefused, "this login key may not ask for this phase here", "Use another key, or mend [keys] in shim.toml.";

    // 7
    BusyRun = "busy", Busy, "another run holds this host", "Wait for it: probe says which phase runs and since when.";

    // 10, 11, 12
    ScriptFailed = "script-failed", ScriptFailed, "the signed script failed", "Read its output and the run record.";
    DeadlinePassed = "deadline", Deadline, "the run's deadline passed and it was ended", "Find out what hung, or sign a longer deadline.";
    PeerGone = "peer-gone", PeerGone, "the peer went away and the run was ended", "Probe the host for the run's outcome before running it again.";
}

impl Reason {
    /// Finds a reason by its stable word.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.code() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_distinct_and_found_again() {
        let mut seen = HashSet::new();
        for r in Reason::ALL {
            assert!(seen.insert(r.code()), "{r} twice");
            assert_eq!(Reason::from_code(r.code()), Some(*r));
            assert!(
                r.code().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{r}"
            );
            assert!(r.fix().ends_with('.'), "{r}");
        }
    }
}
