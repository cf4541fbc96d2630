use super::*;
use crate::{
    key::{KeyKind, plain_blob},
    sshsig::{self, HashAlg, hex},
    wire::put_string,
};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

/// 25 bytes, so that its base64 has padding to take off.
const SCRIPT: &[u8] = b"#!/bin/bash\necho joined.\n";

/// Well-formed and by nobody: form is all that is judged here.
fn signature() -> String {
    let mut fields = Vec::new();
    put_string(&mut fields, &[7; 32]);
    let mut raw = Vec::new();
    put_string(&mut raw, b"ssh-ed25519");
    put_string(&mut raw, &[9; 64]);
    sshsig::armored(&plain_blob(KeyKind::Ed25519, &fields), "muster-intent", HashAlg::Sha512, &raw)
}

fn intent(phase: &str) -> String {
    let digest = if phase == "floor" { "-".to_owned() } else { hex(&Sha256::digest(SCRIPT)) };
    format!(
        "muster-intent: 1\nprofile: p\nphase: {phase}\nscript-sha256: {digest}\ntarget: *\nparam: MUSTER_A? .*\nepoch: 1\n\
         not-before: 2026-11-29T00:00:00Z\nnot-after: 2026-12-29T00:00:00Z\ndeadline: 900\n"
    )
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    base64::encode(bytes.as_ref())
}

fn reason<T>(got: Result<T, Refusal>) -> Reason {
    match got {
        Ok(_) => panic!("accepted"),
        Err(refusal) => refusal.reason,
    }
}

fn one(input: &str) -> Result<v1::Request<'_>, Refusal> {
    v1::EnvelopeOne::parse(input.as_bytes())?.request()
}

fn two(input: &str) -> Result<v2::Request, Refusal> {
    v2::EnvelopeTwo::parse(input.as_bytes())?.request()
}

fn one_signed(input: &str) -> v1::Signed<'_> {
    match one(input) {
        Ok(v1::Request::Signed(signed)) => signed,
        other => panic!("{other:?}"),
    }
}

fn two_signed(input: &str) -> v2::Signed {
    match two(input) {
        Ok(v2::Request::Signed(signed)) => *signed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn m6_both_version_words_are_refused() {
    let of = |input: &str| sniff(input.as_bytes()).map_err(|r| r.reason);
    assert_eq!(of("kpssh-envelope: 1\nphase: probe\n"), Ok(Version::One));
    assert_eq!(of("phase: probe\n\nkpssh-envelope: 1"), Ok(Version::One));
    assert_eq!(of("muster-envelope: 2\nphase: probe\n"), Ok(Version::Two));
    for bad in [
        "kpssh-envelope: 1\nmuster-envelope: 2\nphase: probe\n",
        "muster-envelope: 2\nphase: probe\nkpssh-envelope: 1\n",
        "kpssh-envelope: 1\nmuster-envelope:\n",
        "",
        "\n",
        "phase: probe\n",
        "Kpssh-Envelope: 1\n",
        " kpssh-envelope: 1\n",
    ] {
        assert_eq!(of(bad), Err(Reason::Version), "{bad:?}");
    }
    assert_eq!(reason(sniff(&vec![b'\n'; MAX_INPUT + 1])), Reason::TooLarge);
}

#[test]
fn n7_version_and_phase_of_envelope_1() {
    for (input, want) in [
        ("kpssh-envelope: 2\nphase: probe\n", Reason::Version),
        ("kpssh-envelope: 1\r\nphase: probe\n", Reason::Version),
        ("kpssh-envelope:  1\nphase: probe\n", Reason::Version),
        ("kpssh-envelope:1\nphase: probe\n", Reason::Version),
        ("kpssh-envelope: \nphase: probe\n", Reason::Version),
        ("phase: probe\n", Reason::Version),
        // the last of a repeated field wins
        ("kpssh-envelope: 1\nkpssh-envelope: 2\nphase: probe\n", Reason::Version),
        ("kpssh-envelope: 1\nphase: probe\nphase: \n", Reason::FieldMissing),
        ("kpssh-envelope: 1\n", Reason::FieldMissing),
        ("kpssh-envelope: 1\nphase:probe\n", Reason::FieldMissing),
        ("kpssh-envelope: 1\nphase: probe\r\n", Reason::PhaseUnknown),
        ("kpssh-envelope: 1\nphase:  probe\n", Reason::PhaseUnknown),
        ("kpssh-envelope: 1\nphase: PROBE\n", Reason::PhaseUnknown),
        ("kpssh-envelope: 1\nphase: floor\n", Reason::PhaseUnknown),
        ("kpssh-envelope: 1\nphase: exec\nsig-b64: !\n", Reason::PhaseUnknown),
    ] {
        assert_eq!(reason(one(input)), want, "{input:?}");
    }
    for good in [
        "kpssh-envelope: 1\nphase: probe\n",
        "kpssh-envelope: 1\nphase: probe",
        "phase: join\n\nnonsense\nphase: probe\nkpssh-envelope: 2\nkpssh-envelope: 1",
        // probe comes before everything else in the envelope
        "kpssh-envelope: 1\nphase: probe\nsig-b64: !\nscript-b64: !\nparams-b64: !\n",
    ] {
        assert!(matches!(one(good), Ok(v1::Request::Probe)), "{good:?}");
    }
}

#[test]
fn n7_fields_of_envelope_1() {
    let (sig, script) = (b64(signature()), b64(SCRIPT));
    let head = "kpssh-envelope: 1\nphase: join\n";
    for (input, want) in [
        (format!("{head}script-b64: {script}\n"), Reason::FieldMissing),
        (format!("{head}sig-b64: {sig}\n"), Reason::FieldMissing),
        (format!("{head}sig-b64: \nscript-b64: {script}\n"), Reason::FieldMissing),
        (format!("{head}sig-b64: {sig}\nscript-b64: \n"), Reason::FieldMissing),
        // missing comes before undecodable
        (format!("{head}script-b64: !\n"), Reason::FieldMissing),
        (format!("{head}sig-b64: {sig}\nscript-b64: !\n"), Reason::Base64),
        (format!("{head}sig-b64: !\nscript-b64: {script}\n"), Reason::Base64),
        (format!("{head}sig-b64: {sig}\nscript-b64: {script}\r\n"), Reason::Base64),
        (format!("{head}sig-b64: {sig}\nscript-b64: {}\n", script.trim_end_matches('=')), Reason::Base64),
        (format!("{head}sig-b64: {sig}\nscript-b64: {script} \n"), Reason::Base64),
        (format!("{head}sig-b64: {sig}\nscript-b64: {}\n", b64(vec![0; MAX_SCRIPT + 1])), Reason::TooLarge),
        (
            format!("{head}sig-b64: {}\nscript-b64: {script}\n", b64(vec![0; MAX_SIGNATURE + 1])),
            Reason::TooLarge,
        ),
    ] {
        let cut: String = input.chars().take(120).collect();
        assert_eq!(reason(one(&input)), want, "{cut}");
    }
    let order = format!("script-b64: {script}\nsig-b64: {sig}\nx: y\nphase: join\nkpssh-envelope: 1");
    let signed = one_signed(&order);
    assert_eq!(
        (signed.phase, &signed.script[..], &signed.signature[..]),
        (Phase::Join, SCRIPT, signature().as_bytes())
    );
    assert_eq!(signed.params().unwrap(), []);
    let last = format!("{head}script-b64: !\nscript-b64: {script}\nsig-b64: !\nsig-b64: {sig}\n");
    assert_eq!(one_signed(&last).script, SCRIPT);
    let whole = b64(vec![b'a'; MAX_SCRIPT]);
    assert_eq!(one_signed(&format!("{head}sig-b64: {sig}\nscript-b64: {whole}\n")).script.len(), MAX_SCRIPT);
}

#[test]
fn n7_parameters_of_envelope_1_are_looked_at_last() {
    let head = format!(
        "kpssh-envelope: 1\nphase: join\nsig-b64: {}\nscript-b64: {}\n",
        b64(signature()),
        b64(SCRIPT)
    );
    let with = |params: &str| format!("{head}params-b64: {params}\n");
    // Bad parameters do not stop the decoding that comes before the signature's verdict.
    for (params, want) in [
        ("!".to_owned(), Reason::Base64),
        (b64("KPSSH_A\n"), Reason::ParamForm),
        (b64("BASH_ENV=/tmp/x\n"), Reason::ParamName),
        (b64("KPSSH_A=1\0\n"), Reason::ParamForm),
        (b64(vec![b'\n'; MAX_PARAMS + 1]), Reason::TooLarge),
    ] {
        assert_eq!(reason(one_signed(&with(&params)).params()), want);
    }
    assert_eq!(one_signed(&with("")).params().unwrap(), []);
    let quotes = b64("KPSSH_A='\"$(id)`id`\nKPSSH_B=\n");
    let got = one_signed(&with(&quotes)).params().unwrap();
    assert_eq!(got, [("KPSSH_A".to_owned(), b"'\"$(id)`id`".to_vec()), ("KPSSH_B".to_owned(), Vec::new())]);
}

#[test]
fn n7_the_builder_of_envelope_1_refuses_what_would_be_refused() {
    let sig = signature();
    let param = |n: &str, v: &str| vec![(n.to_owned(), v.as_bytes().to_vec())];
    let build = |phase, script: &[u8], signature: &[u8], params: &[crate::params::Param]| {
        v1::build(&v1::Parts { phase, script, signature, params })
    };
    assert_eq!(reason(build(Phase::Probe, SCRIPT, sig.as_bytes(), &[])), Reason::PhaseUnknown);
    assert_eq!(reason(build(Phase::Floor, SCRIPT, sig.as_bytes(), &[])), Reason::PhaseUnknown);
    assert_eq!(reason(build(Phase::Join, b"", sig.as_bytes(), &[])), Reason::FieldMissing);
    assert_eq!(reason(build(Phase::Join, SCRIPT, b"", &[])), Reason::FieldMissing);
    assert_eq!(reason(build(Phase::Join, &vec![0; MAX_SCRIPT + 1], sig.as_bytes(), &[])), Reason::TooLarge);
    for (name, value, want) in [
        ("KPSSH_", "x", Reason::ParamName),
        ("MUSTER_A", "x", Reason::ParamName),
        ("KPSSH_A-B", "x", Reason::ParamName),
        ("KPSSH_A", "x\ny", Reason::ParamForm),
    ] {
        assert_eq!(reason(build(Phase::Join, SCRIPT, sig.as_bytes(), &param(name, value))), want, "{name}");
    }
    let params = [param("KPSSH_B", "2"), param("KPSSH_A", "1=1")].concat();
    let built = String::from_utf8(build(Phase::Leave, SCRIPT, sig.as_bytes(), &params).unwrap()).unwrap();
    let names: Vec<&str> = built.lines().map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["kpssh-envelope:", "phase:", "params-b64:", "sig-b64:", "script-b64:"]);
    let signed = one_signed(&built);
    assert_eq!((signed.phase, &signed.script[..]), (Phase::Leave, SCRIPT));
    assert_eq!(signed.params().unwrap().len(), 2);
    assert!(matches!(one(std::str::from_utf8(&v1::build_probe()).unwrap()), Ok(v1::Request::Probe)));
}

/// A whole envelope 2 and its lines.
fn whole() -> Vec<String> {
    vec![
        "muster-envelope: 2".to_owned(),
        "phase: join".to_owned(),
        format!("intent-b64: {}", b64(intent("join"))),
        format!("sig-b64: {}", b64(signature())),
        format!("params-b64: {}", b64("MUSTER_A=1\n")),
        format!("script-b64: {}", b64(SCRIPT)),
    ]
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|l| format!("{l}\n")).collect()
}

#[test]
fn m7_envelope_2_is_read() {
    let signed = two_signed(&text(&whole()));
    assert_eq!(signed.phase, Phase::Join);
    assert_eq!(signed.intent_bytes, intent("join").as_bytes());
    assert_eq!(signed.script.as_deref(), Some(SCRIPT));
    assert_eq!(signed.signatures.len(), 1);
    assert_eq!(signed.params().unwrap(), [("MUSTER_A".to_owned(), b"1".to_vec())]);
    let mut lines = whole();
    lines.remove(4);
    for _ in 1..MAX_SIGNATURES {
        lines.insert(3, lines[3].clone());
    }
    let signed = two_signed(&text(&lines));
    assert_eq!(signed.signatures.len(), MAX_SIGNATURES);
    assert_eq!(signed.params().unwrap(), []);
    lines.insert(3, lines[3].clone());
    assert_eq!(reason(two(&text(&lines))), Reason::FieldForm);
}

#[test]
fn m7_envelope_2_has_one_order_and_nothing_else() {
    for n in 0..whole().len() {
        let mut lines = whole();
        lines.remove(n);
        assert_eq!(two(&text(&lines)).is_ok(), n == 4, "without line {n}");
        let mut lines = whole();
        lines.insert(n, lines[n].clone());
        // Two equal signatures are two signatures; they count once, and that is judged later.
        assert_eq!(two(&text(&lines)).is_ok(), n == 3, "line {n} twice");
        for extra in ["x: y", "", "# comment", "phase: join", "not-known: 1"] {
            let mut lines = whole();
            lines.insert(n, extra.to_owned());
            let got = reason(two(&text(&lines)));
            assert_eq!(got.exit().code(), 4, "{extra:?} before line {n}");
        }
        if n > 0 {
            let mut lines = whole();
            lines.swap(n - 1, n);
            assert_eq!(reason(two(&text(&lines))).exit().code(), 4, "line {n} moved up");
        }
        let mut lines = whole();
        lines[n] += "\r";
        let got = reason(two(&text(&lines)));
        assert_eq!(got.exit().code(), if n == 1 { 5 } else { 4 }, "CR after line {n}");
        for (from, to) in [(": ", ":"), (": ", ":  "), (": ", " : ")] {
            let mut lines = whole();
            lines[n] = lines[n].replacen(from, to, 1);
            let got = reason(two(&text(&lines)));
            assert_eq!(got.exit().code(), if n == 1 && to == ":  " { 5 } else { 4 }, "{to:?} in line {n}");
        }
        let mut lines = whole();
        lines[n] = lines[n].split_once(' ').unwrap().0.to_owned() + " ";
        assert_eq!(reason(two(&text(&lines))).exit().code(), 4, "line {n} empty");
    }
    let all = text(&whole());
    assert_eq!(reason(two(all.trim_end())), Reason::FieldForm, "the last LF is required");
    assert_eq!(reason(two(&(all.clone() + "x"))), Reason::FieldForm);
    assert_eq!(reason(two(&(all + "\n"))), Reason::FieldForm);
}

#[test]
fn m7_order_of_checks_before_the_signature() {
    let with = |n: usize, line: &str| {
        let mut lines = whole();
        lines[n] = line.to_owned();
        reason(two(&text(&lines)))
    };
    assert_eq!(with(0, "muster-envelope: 3"), Reason::Version);
    assert_eq!(with(0, "muster-envelope: 02"), Reason::Version);
    assert_eq!(with(1, "phase: exec"), Reason::PhaseUnknown);
    assert_eq!(with(2, "intent-b64: !"), Reason::Base64);
    assert_eq!(with(2, &format!("intent-b64: {}", b64("muster-intent: 1\n"))), Reason::IntentForm);
    assert_eq!(with(3, &format!("sig-b64: {}", b64("no signature"))), Reason::SignatureForm);
    assert_eq!(with(4, "params-b64: !"), Reason::Base64);
    assert_eq!(with(5, "script-b64: !"), Reason::Base64);
    for (n, name, size) in [
        (2, "intent-b64", MAX_INTENT),
        (3, "sig-b64", MAX_SIGNATURE),
        (4, "params-b64", MAX_PARAMS),
        (5, "script-b64", MAX_SCRIPT),
    ] {
        assert_eq!(with(n, &format!("{name}: {}", b64(vec![b'a'; size + 1]))), Reason::TooLarge);
    }
    // The phase is known or not before the rest is looked at.
    assert_eq!(reason(two("muster-envelope: 2\nphase: exec\ngarbage\n")), Reason::PhaseUnknown);
    assert_eq!(reason(two("muster-envelope: 2\nphase: join\ngarbage\n")), Reason::FieldMissing);
    assert_eq!(reason(two("muster-envelope: 2\n")), Reason::FieldMissing);
    // The names of the parameters are judged after everything that is signed.
    let mut lines = whole();
    lines[4] = format!("params-b64: {}", b64("PATH=/tmp\n"));
    assert_eq!(reason(two_signed(&text(&lines)).params()), Reason::ParamName);
}

#[test]
fn m7_probe_of_envelope_2_is_two_lines() {
    assert!(matches!(two("muster-envelope: 2\nphase: probe\n"), Ok(v2::Request::Probe)));
    for bad in [
        "muster-envelope: 2\nphase: probe",
        "muster-envelope: 2\nphase: probe\n\n",
        "muster-envelope: 2\nphase: probe\nx: y\n",
    ] {
        assert_eq!(reason(two(bad)), Reason::FieldForm, "{bad:?}");
    }
    assert!(matches!(two(std::str::from_utf8(&v2::build_probe()).unwrap()), Ok(v2::Request::Probe)));
}

#[test]
fn s14_floor_comes_without_a_script() {
    let mut lines = whole();
    lines[1] = "phase: floor".to_owned();
    lines[2] = format!("intent-b64: {}", b64(intent("floor")));
    lines.remove(4);
    assert_eq!(reason(two(&text(&lines))), Reason::FieldForm, "a script with floor");
    lines.pop();
    let signed = two_signed(&text(&lines));
    assert_eq!((signed.phase, signed.script), (Phase::Floor, None));
}

#[test]
fn m7_the_builder_of_envelope_2_refuses_what_would_be_refused() {
    let (sigs, joined, floor) = ([signature()], intent("join"), intent("floor"));
    let good = v2::Parts {
        phase: Phase::Join,
        intent: joined.as_bytes(),
        signatures: &sigs,
        params: &[],
        script: Some(SCRIPT),
    };
    let built = v2::build(&good).unwrap();
    assert_eq!(two_signed(std::str::from_utf8(&built).unwrap()).script.as_deref(), Some(SCRIPT));
    let nine = vec![signature(); 9];
    let bad_param = [("PATH".to_owned(), b"x".to_vec())];
    for (parts, want) in [
        (v2::Parts { phase: Phase::Leave, ..good }, Reason::PhaseMismatch),
        (v2::Parts { phase: Phase::Probe, ..good }, Reason::FieldForm),
        (v2::Parts { phase: Phase::Floor, intent: floor.as_bytes(), ..good }, Reason::FieldForm),
        (v2::Parts { script: None, ..good }, Reason::FieldMissing),
        (v2::Parts { script: Some(b""), ..good }, Reason::FieldMissing),
        (v2::Parts { intent: b"x", ..good }, Reason::IntentForm),
        (v2::Parts { signatures: &[], ..good }, Reason::FieldMissing),
        (v2::Parts { signatures: &nine, ..good }, Reason::FieldForm),
        (v2::Parts { params: &bad_param, ..good }, Reason::ParamName),
    ] {
        assert_eq!(reason(v2::build(&parts)), want);
    }
    let raised = v2::Parts { phase: Phase::Floor, intent: floor.as_bytes(), script: None, ..good };
    assert!(v2::build(&raised).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(input in "((kpssh-envelope: 1|muster-envelope: 2|phase: (join|probe|floor)|sig-b64: [A-Za-z0-9=]{0,8}|intent-b64: [A-Za-z0-9=]{0,8}|params-b64: [A-Za-z0-9=]{0,8}|script-b64: [A-Za-z0-9=]{0,8}|[ -~]{0,9})\r?\n?){0,9}") {
        let _ = sniff(input.as_bytes());
        let _ = one(&input);
        let _ = two(&input);
    }

    #[test]
    fn what_is_built_is_read(script in proptest::collection::vec(any::<u8>(), 1..300), value in "[ -~]{0,40}") {
        let params = [("KPSSH_A".to_owned(), value.into_bytes())];
        let parts = v1::Parts { phase: Phase::Install, script: &script, signature: b"sig", params: &params };
        let built = String::from_utf8(v1::build(&parts).unwrap()).unwrap();
        prop_assert_eq!(sniff(built.as_bytes()).unwrap(), Version::One);
        let signed = one_signed(&built);
        prop_assert_eq!(signed.params().unwrap(), params);
        prop_assert_eq!(signed.script, script);
    }
}

#[test]
fn a_wrapped_field_is_not_shown() {
    let wrapped = b"muster-envelope: 2\nphase: join\nintent-b64: eA==\nsig-b64: eA==\nparams-b64: TVVT\nVEVSX1RPS0VOPXNlY3JldA==\nscript-b64: eA==\n";
    let refusal = v2::EnvelopeTwo::parse(wrapped).and_then(|e| e.request().map(drop)).unwrap_err();
    assert!(!refusal.detail.contains("VEVS"), "{refusal}");
    assert!(refusal.detail.contains("a line of 24 bytes"), "{refusal}");
}
