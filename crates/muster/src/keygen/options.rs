//! `ssh-keygen`'s command line, as far as the `-Y` calls need it.

use muster_core::UtcTime;
use muster_signing::allowed_signers::{LocalTime, parse_time};
use muster_signing::sshsig::HashAlg;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options without a value (ssh-keygen.c, its getopt string).
const FLAGS: &[u8] = b"ABHLQUXceghiklopquvy";
/// Options with a value.
const VALUES: &[u8] = b"CDEFIKMNOPRVYZabfmnrstwz";

/// The calls that are answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Is it signed by one who is allowed to?
    Verify,
    /// Who signed?
    FindPrincipals,
    /// Which principals match?
    MatchPrincipals,
    /// Is it signed at all?
    CheckNovalidate,
    /// Signs.
    Sign,
}

impl Call {
    const ALL: [Self; 5] =
        [Self::Verify, Self::FindPrincipals, Self::MatchPrincipals, Self::CheckNovalidate, Self::Sign];

    /// The word after `-Y`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::FindPrincipals => "find-principals",
            Self::MatchPrincipals => "match-principals",
            Self::CheckNovalidate => "check-novalidate",
            Self::Sign => "sign",
        }
    }
}

/// A call that is answered here.
#[derive(Debug)]
pub struct Options {
    /// `-Y`
    pub call: Call,
    /// `-q`
    pub quiet: bool,
    /// `-f`
    pub file: Option<OsString>,
    /// `-I`
    pub identity: Option<OsString>,
    /// `-n`
    pub namespace: Option<OsString>,
    /// `-s`
    pub signature: Option<OsString>,
    /// `-r`
    pub revoked: Option<OsString>,
    /// `-U`
    pub agent_only: bool,
    /// `-O`, in order
    pub more: Vec<OsString>,
    /// What follows the options.
    pub operands: Vec<OsString>,
}

/// Reads a call; `None` when it is not one that is answered here, also when it holds an option that such a call never has.
pub fn parse(arguments: &[OsString]) -> Option<Options> {
    let mut flags = Vec::new();
    let mut values: Vec<(u8, OsString)> = Vec::new();
    let mut rest = arguments.iter();
    let mut operands = Vec::new();
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            operands.extend(rest.by_ref().cloned());
            break;
        }
        // GNU getopt moves operands to the end; so do we.
        let Some(letters) = bytes.strip_prefix(b"-").filter(|l| !l.is_empty()) else {
            operands.push(word.clone());
            continue;
        };
        let mut at = letters;
        while let Some((&letter, tail)) = at.split_first() {
            if FLAGS.contains(&letter) {
                flags.push(letter);
                at = tail;
            } else if VALUES.contains(&letter) {
                let value =
                    if tail.is_empty() { rest.next()?.clone() } else { OsString::from_vec(tail.to_vec()) };
                values.push((letter, value));
                break;
            } else {
                return None;
            }
        }
    }
    build(&flags, values, operands)
}

/// `-O` options of the checking calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checking {
    /// `verify-time=`
    pub time: Option<UtcTime>,
    /// `print-pubkey`
    pub print_key: bool,
}

impl Options {
    /// The `-O` options as a checking call reads them, or what is wrong with them.
    pub fn checking(&self, local: &dyn LocalTime) -> Result<Checking, String> {
        let mut out = Checking::default();
        for o in &self.more {
            let text = o.to_string_lossy();
            let lower = text.to_ascii_lowercase();
            if lower.starts_with("verify-time=") {
                let value = text.split_once('=').map_or("", |(_, v)| v);
                let time = parse_time(value, local).ok_or("Invalid \"verify-time\" option")?;
                out.time = Some(time);
            } else if lower == "print-pubkey" {
                out.print_key = true;
            } else if !lower.starts_with("hashalg=") {
                return Err(format!("Invalid option \"{text}\""));
            }
        }
        Ok(out)
    }

    /// The `-O` options as `-Y sign` reads them: the hash, or what is wrong.
    pub fn hash(&self) -> Result<HashAlg, String> {
        let mut hash = HashAlg::Sha512;
        for o in &self.more {
            let text = o.to_string_lossy();
            match text.split_once('=') {
                Some((name, value)) if name.eq_ignore_ascii_case("hashalg") => {
                    hash = HashAlg::from_name(value)
                        .ok_or_else(|| format!("unsupported hash algorithm \"{value}\""))?;
                }
                _ if text == "print-pubkey" || text.starts_with("verify-time=") => {}
                _ => return Err(format!("Invalid option \"{text}\"")),
            }
        }
        Ok(hash)
    }
}

fn build(flags: &[u8], values: Vec<(u8, OsString)>, operands: Vec<OsString>) -> Option<Options> {
    let last = |letter: u8| values.iter().rev().find(|(l, _)| *l == letter).map(|(_, v)| v.clone());
    let word = last(b'Y')?;
    let call = Call::ALL.into_iter().find(|c| OsStr::new(c.word()) == word)?;
    let known =
        flags.iter().all(|f| b"qvU".contains(f)) && values.iter().all(|(l, _)| b"YfInsrO".contains(l));
    if !known {
        return None;
    }
    Some(Options {
        call,
        quiet: flags.contains(&b'q'),
        file: last(b'f'),
        identity: last(b'I'),
        namespace: last(b'n'),
        signature: last(b's'),
        revoked: last(b'r'),
        agent_only: flags.contains(&b'U'),
        more: values.iter().filter(|(l, _)| *l == b'O').map(|(_, v)| v.clone()).collect(),
        operands,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Options> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn calls_that_are_answered_here() {
        let o = read("-vvv -Y verify -Overify-time=19850101 -s a.sig -n ns -I p -f signers -r rev").unwrap();
        assert_eq!((o.call, o.quiet), (Call::Verify, false));
        assert_eq!(o.more, ["verify-time=19850101"]);
        let o = read("-qYsign -fkey -nns a b -- -c").unwrap();
        assert_eq!((o.call, o.quiet), (Call::Sign, true));
        assert_eq!(o.operands, ["a", "b", "-c"]);
    }

    #[test]
    fn everything_else_is_handed_on() {
        for line in [
            "",
            "-t ed25519 -f x",
            "-Y nonsense",
            "-Y",
            "-lf x",
            "-Y sign -N x -f k -n n",
            "-Y verify -j",
            "-s ca -I x -n p k.pub",
            "--help",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
