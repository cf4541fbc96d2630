//! Where ours is stricter than OpenSSH, and why. `docs/parity.md` has the same table.

use crate::{cases::Case, support::Question};
use muster_signing::{FileFault, Reason};
use std::path::Path;

/// What this crate says.
#[derive(Debug)]
pub enum Verdict {
    Good,
    Refused(Reason),
    /// `allowed_signers` as a whole.
    FileRefused(FileFault),
}

/// A way in which ours is stricter. A case belongs to it when whoever made the case put the cause
/// in (the tag is the class's name) and ours refuses for the reason that goes with it.
pub struct Class {
    pub name: &'static str,
    pub because: &'static str,
    reasons: &'static [Reason],
}

const FILE: &[Reason] = &[Reason::TrustFileMalformed];
const FORM: &[Reason] = &[Reason::SignatureMalformed];

pub const STRICTER: &[Class] = &[
    Class {
        name: "bad-line",
        because: "OpenSSH passes over a line that it cannot read; it may have been a restriction, so the file is refused and the line named",
        reasons: FILE,
    },
    Class {
        name: "certificate-as-key",
        because: "a certificate listed as a key is taken by OpenSSH whatever its dates, type and options; list its key, or its authority",
        reasons: FILE,
    },
    Class {
        name: "unreal-time",
        because: "February 30, 61 seconds and spaces in a time run over into another time than the one written",
        reasons: FILE,
    },
    Class {
        name: "odd-space",
        because: "white space inside of base64 hides what a person reads",
        reasons: FILE,
    },
    Class {
        name: "nul-in-file",
        because: "OpenSSH stops reading a line at NUL, a person does not",
        reasons: FILE,
    },
    Class { name: "not-utf8", because: "what cannot be shown cannot be named in a message", reasons: FILE },
    Class {
        name: "key-spelling",
        because: "a second spelling of an RSA key would be a second signer",
        reasons: &[Reason::TrustFileMalformed, Reason::SignatureMalformed],
    },
    Class {
        name: "signature-spelling",
        because: "numbers of an ECDSA signature have one spelling",
        reasons: FORM,
    },
    Class { name: "rsa-size", because: "RSA keys are 3072 to 8192 bits", reasons: &[Reason::Algorithm] },
    Class {
        name: "sk-untouched",
        because: "a security key must have been touched; OpenSSH does not look at the flag here",
        reasons: &[Reason::Algorithm],
    },
    Class {
        name: "certificate-option",
        because: "a critical option that a signature cannot answer must refuse, by PROTOCOL.certkeys",
        reasons: &[Reason::Certificate],
    },
    Class {
        name: "certificate-authority",
        because: "an authority must sign with SHA-2 and a key of acceptable size",
        reasons: &[Reason::Certificate],
    },
    Class { name: "armour-tail", because: "what follows the END line would be overlooked", reasons: FORM },
    Class { name: "armour-nul", because: "NUL is no white space", reasons: FORM },
    Class { name: "version-0", because: "there is no version 0", reasons: FORM },
    Class {
        name: "namespace-nul",
        because: "NUL at the end of a namespace makes two spellings of one",
        reasons: FORM,
    },
    Class {
        name: "krl-sha1",
        because: "SHA-1 fingerprints are not taken; list SHA-256 ones",
        reasons: &[Reason::RevocationUnreadable],
    },
];

/// The class that explains why ours refuses what ssh-keygen accepts.
pub fn class_of(case: &Case, verdict: &Verdict, dir: &Path) -> Option<&'static str> {
    let reason = match verdict {
        Verdict::Good => return None,
        Verdict::Refused(reason) => *reason,
        Verdict::FileRefused(fault) => {
            // Where ssh-keygen accepts by the refused line alone, the line means something to it,
            // and only a class of its own will do.
            if !vouches_alone(&case.question, fault.line, dir) {
                return case.tags.contains(&"bad-line").then_some("bad-line");
            }
            Reason::TrustFileMalformed
        }
    };
    let fits =
        |c: &&Class| c.name != "bad-line" && case.tags.contains(&c.name) && c.reasons.contains(&reason);
    STRICTER.iter().find(fits).map(|c| c.name)
}

/// As [`class_of`], for a refusal that has nothing to do with the file.
pub fn is_listed(case: &Case, verdict: &Verdict) -> bool {
    let Verdict::Refused(reason) = verdict else { return false };
    STRICTER.iter().any(|c| case.tags.contains(&c.name) && c.reasons.contains(reason))
}

fn vouches_alone(question: &Question, line: usize, dir: &Path) -> bool {
    let Some(text) = line.checked_sub(1).and_then(|n| question.allowed.split(|b| *b == b'\n').nth(n)) else {
        return true;
    };
    let mut alone = question.clone();
    alone.allowed = [text, b"\n"].concat();
    alone.ask(dir).0
}
