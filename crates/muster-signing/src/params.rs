//! Parameter blocks: `NAME=value` lines, what becomes the script's environment.
//!
//! The name is a security boundary: `BASH_ENV`, `LD_PRELOAD`, `PATH` and their like steer the
//! interpreter and not the script, so that only names with a prefix of our own pass, byte by byte,
//! without regard to any locale.

use crate::{Reason, Refusal, envelope::MAX_PARAMS, wire::shown};

/// A parameter: its name, and its value as bytes.
pub type Param = (String, Vec<u8>);

/// Prefixes that a name may have on envelope 2; on envelope 1 it is the first alone.
const PREFIXES: [&str; 2] = ["KPSSH_", "MUSTER_"];
/// Names that the shim itself sets.
const RESERVED: [&str; 3] = ["MUSTER_RUN_ID", "MUSTER_PHASE", "MUSTER_PROFILE"];
/// Bytes after the prefix, on envelope 2. Envelope 1 has no bound but that of the whole block.
const MAX_TAIL: usize = 120;

/// Whether a name may stand in an intent and in a block of envelope 2:
/// `(MUSTER|KPSSH)_[A-Za-z0-9_]{1,120}`, and none of the three that the shim sets.
pub fn is_name(name: &str) -> bool {
    let tail = PREFIXES.iter().find_map(|p| name.strip_prefix(p));
    tail.is_some_and(|t| is_tail(t) && t.len() <= MAX_TAIL) && !RESERVED.contains(&name)
}

/// Whether a name may stand in a block of envelope 1: `KPSSH_[A-Za-z0-9_]+`.
pub fn is_name_v1(name: &str) -> bool {
    name.strip_prefix("KPSSH_").is_some_and(is_tail)
}

fn is_tail(tail: &str) -> bool {
    !tail.is_empty() && tail.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads the block of envelope 1. Empty lines are skipped, a last line without LF is taken, the
/// last of a repeated name wins; the result is ascending by name.
pub fn parse_v1(block: &[u8]) -> Result<Vec<Param>, Refusal> {
    bounded(block)?;
    let mut out = std::collections::BTreeMap::new();
    for line in block.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let (name, value) = split(line)?;
        if !is_name_v1(name) {
            return Err(bad_name(name, "KPSSH_[A-Za-z0-9_]+"));
        }
        out.insert(name.to_owned(), value.to_vec());
    }
    Ok(out.into_iter().collect())
}

/// Reads the block of envelope 2: names strictly ascending, each line ended by LF, no empty line.
pub fn parse_v2(block: &[u8]) -> Result<Vec<Param>, Refusal> {
    bounded(block)?;
    let form = |why: String| Refusal::new(Reason::ParamForm, why);
    let mut out: Vec<Param> = Vec::new();
    let mut rest = block;
    while !rest.is_empty() {
        let end = rest.iter().position(|b| *b == b'\n');
        let end = end.ok_or_else(|| form("the last line has no LF at its end".to_owned()))?;
        let (line, tail) = rest.split_at_checked(end).unwrap_or_default();
        rest = tail.get(1..).unwrap_or_default();
        let (name, value) = split(line)?;
        if !is_name(name) {
            return Err(bad_name(name, "(MUSTER|KPSSH)_[A-Za-z0-9_]{1,120}, and not one that the shim sets"));
        }
        if out.last().is_some_and(|(before, _)| before.as_str() >= name) {
            return Err(form(format!("{name} repeats a name or does not stand in ascending order")));
        }
        out.push((name.to_owned(), value.to_vec()));
    }
    Ok(out)
}

/// Writes a block, ascending by name, that the reader of either envelope reads back to the same.
/// Refuses names that envelope 2 would refuse, repeated names, and values with LF or NUL.
pub fn render(params: &[Param]) -> Result<Vec<u8>, Refusal> {
    render_if(params, is_name, "(MUSTER|KPSSH)_[A-Za-z0-9_]{1,120}, and not one that the shim sets")
}

/// As [`render`], for envelope 1 and its names.
pub fn render_v1(params: &[Param]) -> Result<Vec<u8>, Refusal> {
    render_if(params, is_name_v1, "KPSSH_[A-Za-z0-9_]+")
}

fn render_if(params: &[Param], allowed: fn(&str) -> bool, form: &str) -> Result<Vec<u8>, Refusal> {
    let mut sorted: Vec<&Param> = params.iter().collect();
    sorted.sort_by_key(|(name, _)| name);
    let mut out = Vec::new();
    let mut before = None;
    for (name, value) in sorted {
        if !allowed(name) {
            return Err(bad_name(name, form));
        }
        if before == Some(name) {
            return Err(Refusal::new(Reason::ParamForm, format!("{name} is given twice")));
        }
        if value.iter().any(|b| matches!(b, b'\n' | 0)) {
            let detail = format!("the value of {name} holds a line break or NUL");
            return Err(Refusal::new(Reason::ParamForm, detail));
        }
        before = Some(name);
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        out.extend_from_slice(value);
        out.push(b'\n');
    }
    bounded(&out)?;
    Ok(out)
}

fn bounded(block: &[u8]) -> Result<(), Refusal> {
    if block.len() > MAX_PARAMS {
        return Err(Refusal::new(Reason::TooLarge, format!("the parameters are over {MAX_PARAMS} bytes")));
    }
    Ok(())
}

/// Name and value of a line. The name must be text, so that it can be compared and shown; which
/// text, the caller checks.
fn split(line: &[u8]) -> Result<(&str, &[u8]), Refusal> {
    let form = |why: &str| Refusal::new(Reason::ParamForm, why);
    let at = line.iter().position(|b| *b == b'=').ok_or_else(|| form("a line has no `=`"))?;
    let (name, value) = line.split_at_checked(at).unwrap_or_default();
    let value = value.get(1..).unwrap_or_default();
    if line.contains(&0) {
        return Err(form("a line holds a NUL byte"));
    }
    match core::str::from_utf8(name) {
        Ok(name) => Ok((name, value)),
        Err(_) => Err(Refusal::new(Reason::ParamName, format!("{} is not ASCII", told(name)))),
    }
}

fn bad_name(name: &str, form: &str) -> Refusal {
    Refusal::new(Reason::ParamName, format!("{} is not of the form {form}", told(name.as_bytes())))
}

/// As much of a refused name as may be shown: a value that a sender broke over two lines reads as
/// a name up to its first `=`, so only what begins like one of our names is, up to its first byte
/// that no name has.
fn told(name: &[u8]) -> String {
    let ours = [&b"KPSSH_"[..], b"MUSTER_"].iter().any(|p| name.starts_with(p));
    if !ours {
        return format!("a name of {} bytes that begins with neither KPSSH_ nor MUSTER_", name.len());
    }
    let good = name.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(name.len());
    let rest = if good < name.len() { ", cut at the first byte that no name has," } else { "" };
    format!("{:?}{rest}", shown(name.get(..good).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason<T: core::fmt::Debug>(r: Result<T, Refusal>) -> Reason {
        r.unwrap_err().reason
    }

    #[test]
    fn ve18_only_the_declared_prefix_and_characters() {
        for bad in [
            "BASH_ENV",
            "PATH",
            "LD_PRELOAD",
            "KPSSH_",
            "kpssh_X",
            "KPSSH_X()",
            "BASH_FUNC_x%%",
            "KPSSH_A-B",
            " KPSSH_A",
            "KPSSH_A ",
            "export KPSSH_A",
            "KPSSH_\u{c4}",
            "XKPSSH_A",
            "",
            "KPSSH_A+",
            "MUSTER_RUN_ID",
        ] {
            let line = format!("{bad}=1\n").into_bytes();
            assert_eq!(reason(parse_v1(&line)), Reason::ParamName, "{bad}");
            assert_eq!(reason(parse_v2(&line)), Reason::ParamName, "{bad}");
        }
        // A NUL, wherever it stands, is a matter of form.
        for nul in [&b"KPSSH_A\0B=1\n"[..], b"KPSSH_A=1\0\n"] {
            assert_eq!(reason(parse_v1(nul)), Reason::ParamForm);
            assert_eq!(reason(parse_v2(nul)), Reason::ParamForm);
        }
        assert_eq!(reason(parse_v1(b"KPSSH_\xff=1\n")), Reason::ParamName);
        // 64 KiB of name: envelope 1 takes it, as the bash shim does; envelope 2 does not.
        let long = format!("KPSSH_{}=1\n", "A".repeat(65_536)).into_bytes();
        assert!(parse_v1(&long).is_ok());
        assert_eq!(reason(parse_v2(&long)), Reason::ParamName);
        // On envelope 1 only its own prefix.
        assert_eq!(reason(parse_v1(b"MUSTER_A=1\n")), Reason::ParamName);
        assert!(parse_v2(b"MUSTER_A=1\n").is_ok());
    }

    #[test]
    fn envelope_1_block() {
        let got = parse_v1(b"KPSSH_B=2\n\nKPSSH_A=a=b \r\nKPSSH_B=3").unwrap();
        assert_eq!(got, [("KPSSH_A".to_owned(), b"a=b \r".to_vec()), ("KPSSH_B".to_owned(), b"3".to_vec())]);
        assert_eq!(parse_v1(b"").unwrap(), []);
        assert_eq!(reason(parse_v1(b"KPSSH_A\n")), Reason::ParamForm);
        assert_eq!(reason(parse_v1(&vec![b'\n'; MAX_PARAMS + 1])), Reason::TooLarge);
    }

    #[test]
    fn envelope_2_block() {
        assert_eq!(parse_v2(b"KPSSH_A=\nMUSTER_A=x\n").unwrap().len(), 2);
        for bad in [
            &b"KPSSH_A=1"[..],
            b"\nKPSSH_A=1\n",
            b"KPSSH_A=1\n\n",
            b"KPSSH_B=1\nKPSSH_A=1\n",
            b"KPSSH_A=1\nKPSSH_A=1\n",
            b"KPSSH_A\n",
        ] {
            assert_eq!(reason(parse_v2(bad)), Reason::ParamForm, "{bad:?}");
        }
    }

    #[test]
    fn the_writer_refuses_what_the_reader_would() {
        let p = |n: &str, v: &[u8]| vec![(n.to_owned(), v.to_vec())];
        assert_eq!(reason(render(&p("PATH", b"x"))), Reason::ParamName);
        assert_eq!(reason(render_v1(&p("MUSTER_A", b"x"))), Reason::ParamName);
        assert_eq!(reason(render(&p("KPSSH_A", b"x\ny"))), Reason::ParamForm);
        assert_eq!(reason(render(&[p("KPSSH_A", b"x"), p("KPSSH_A", b"y")].concat())), Reason::ParamForm);
        assert_eq!(reason(render(&p("KPSSH_A", &vec![b'x'; MAX_PARAMS]))), Reason::TooLarge);
    }

    #[test]
    fn a_value_that_reads_as_a_name_is_not_shown() {
        let secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0";
        let block = format!("MUSTER_KEY=first\n{secret}=\n");
        let refusal = parse_v2(block.as_bytes()).unwrap_err();
        assert_eq!(refusal.reason, Reason::ParamName);
        assert!(!refusal.detail.contains("c2Vj"), "{refusal}");
        let refusal = parse_v1(b"BASH_ENV=/tmp/x\n").unwrap_err();
        assert_eq!(
            refusal.detail,
            "a name of 8 bytes that begins with neither KPSSH_ nor MUSTER_ is not of the form KPSSH_[A-Za-z0-9_]+"
        );
        let refusal = parse_v1("KPSSH_X%secret=1\n".as_bytes()).unwrap_err();
        assert!(refusal.detail.starts_with("\"KPSSH_X\", cut"), "{refusal}");
        assert!(!refusal.detail.contains("secret"), "{refusal}");
    }

    proptest! {
        #[test]
        fn round_trip(
            params in proptest::collection::btree_map("(KPSSH|MUSTER)_[A-Z]{1,4}X", proptest::collection::vec(1u8..=255, 0..20), 0..6)
        ) {
            let params: Vec<Param> = params
                .into_iter()
                .map(|(n, v)| (n, v.into_iter().filter(|b| *b != b'\n').collect()))
                .collect();
            let text = render(&params).unwrap();
            prop_assert_eq!(parse_v2(&text).unwrap(), params.clone());
            if let Ok(text) = render_v1(&params) {
                prop_assert_eq!(parse_v1(&text).unwrap(), params);
            }
        }

        #[test]
        fn any_bytes(block in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_v1(&block);
            let _ = parse_v2(&block);
        }
    }
}
