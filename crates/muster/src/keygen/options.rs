//! `ssh-keygen`'s command line, as far as the `-Y` calls need it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options without a value (ssh-keygen.c, its getopt string).
const FLAGS: &[u8] = b"ABHLQUXceghiklopquvy";
/// Options with a value.
const VALUES: &[u8] = b"CDEFIKMNOPRVYZabfmnrstwz";

/// The calls that are answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Verify,
    FindPrincipals,
    MatchPrincipals,
    CheckNovalidate,
    Sign,
}

impl Call {
    const ALL: [Self; 5] =
        [Self::Verify, Self::FindPrincipals, Self::MatchPrincipals, Self::CheckNovalidate, Self::Sign];

    pub(super) const fn word(self) -> &'static str {
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
pub(super) struct Options {
    pub(super) call: Call,
    pub(super) quiet: bool,
    /// `-f`
    pub(super) file: Option<OsString>,
    /// `-I`
    pub(super) identity: Option<OsString>,
    /// `-n`
    pub(super) namespace: Option<OsString>,
    /// `-s`
    pub(super) signature: Option<OsString>,
    /// `-r`
    pub(super) revoked: Option<OsString>,
    /// `-U`
    pub(super) agent_only: bool,
    /// `-O`, in order
    pub(super) more: Vec<OsString>,
    /// What follows the options.
    pub(super) operands: Vec<OsString>,
}

/// Reads a call; `None` when it is not one that is answered here, also when it holds an option that such a call never has.
pub(super) fn parse(arguments: &[OsString]) -> Option<Options> {
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
