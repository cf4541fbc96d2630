//! Both envelopes, as the shim reads them and as the sender builds them.

use crate::{Said, refused};
use base64ct::{Base64, Encoding};
use muster_core::Phase;
use muster_signing::envelope::{self, Version, v1, v2};

/// Envelope 1 has many spellings; what is taken can be built again and reads back as the same.
pub fn one(input: &[u8]) -> Said {
    let version = envelope::sniff(input);
    let read = v1::EnvelopeOne::parse(input);
    if read.is_ok() {
        assert!(!matches!(version, Ok(Version::Two)), "one input is both versions");
    }
    let signed = match read.and_then(|e| e.request()) {
        Err(why) => return refused(&why),
        Ok(v1::Request::Probe) => return Said::Accepted,
        Ok(v1::Request::Signed(signed)) => signed,
    };
    assert!(signed.phase.is_scripted());
    assert!(signed.script.len() <= envelope::MAX_SCRIPT && signed.signature.len() <= envelope::MAX_SIGNATURE);
    let params = match signed.params() {
        Ok(params) => params,
        Err(why) => return refused(&why),
    };
    let parts = v1::Parts {
        phase: signed.phase,
        script: &signed.script,
        signature: &signed.signature,
        params: &params,
    };
    let built = match v1::build(&parts) {
        Ok(built) => built,
        // The reader takes what decodes to nothing, and values that no environment can hold; the
        // builder does not send them.
        Err(why) => return refused(&why),
    };
    assert!(matches!(envelope::sniff(&built), Ok(Version::One)));
    match v1::EnvelopeOne::parse(&built).and_then(|e| e.request()) {
        Ok(v1::Request::Signed(again)) => {
            assert_eq!(again.phase, signed.phase);
            assert_eq!(again.script, signed.script);
            assert_eq!(again.signature, signed.signature);
            assert_eq!(again.params(), Ok(params));
        }
        other => panic!("what was built reads back as {other:?}"),
    }
    Said::Accepted
}

/// Envelope 2 has one spelling: building from what was read gives the same bytes.
pub fn two(input: &[u8]) -> Said {
    let version = envelope::sniff(input);
    let read = v2::EnvelopeTwo::parse(input);
    if read.is_ok() {
        assert!(!matches!(version, Ok(Version::One)), "one input is both versions");
    }
    let read = read.and_then(|e| e.request());
    if read.is_ok() {
        assert!(matches!(version, Ok(Version::Two)), "taken whole, and yet not told as version 2");
        assert!(v1::EnvelopeOne::parse(input).is_err(), "both readers take one input");
    }
    let signed = match read {
        Err(why) => return refused(&why),
        Ok(v2::Request::Probe) => {
            assert_eq!(input, v2::build_probe());
            return Said::Accepted;
        }
        Ok(v2::Request::Signed(signed)) => signed,
    };
    assert!((1..=envelope::MAX_SIGNATURES).contains(&signed.signatures.len()));
    assert_eq!(signed.script.is_some(), signed.phase.is_scripted());
    let params = match signed.params() {
        Ok(params) => params,
        Err(why) => return refused(&why),
    };
    // The armour is in the input alone: what was read keeps no second copy of it.
    let signatures: Vec<String> = input
        .split(|b| *b == b'\n')
        .filter_map(|line| line.strip_prefix(b"sig-b64: "))
        .map(|text| {
            let text = core::str::from_utf8(text).expect("it decoded");
            String::from_utf8_lossy(&Base64::decode_vec(text).expect("it decoded")).into_owned()
        })
        .collect();
    let built = v2::build(&v2::Parts {
        phase: signed.phase,
        intent: &signed.intent_bytes,
        signatures: &signatures,
        params: &params,
        script: signed.script.as_deref(),
    });
    match built {
        // An empty params-b64 or script-b64 cannot be written, so that only these two differ.
        Ok(built) => assert_eq!(built, input, "two spellings of one envelope"),
        // The shim judges the phase after the signatures; the builder judges it at once.
        Err(why) => {
            assert!(signed.intent.check_phase(signed.phase).is_err(), "{why}");
            return refused(&why);
        }
    }
    Said::Accepted
}

/// What the parts of an envelope stand between in the input of [`two_from_parts`].
const BETWEEN: &[u8] = b"\n%%\n";

/// As [`two`], from the other end: phase word, intent, signature, parameters and script come bare,
/// so that a change of one byte reaches the readers inside.
pub fn two_from_parts(input: &[u8]) -> Said {
    let mut rest = input;
    let mut part = || {
        let at = rest.windows(BETWEEN.len()).position(|w| w == BETWEEN);
        let (head, tail) = rest.split_at_checked(at.unwrap_or(rest.len())).unwrap_or_default();
        rest = tail.get(BETWEEN.len()..).unwrap_or_default();
        head
    };
    let (word, intent, signature, block, script) = (part(), part(), part(), part(), part());
    let Some(phase) = core::str::from_utf8(word).ok().and_then(Phase::from_word) else {
        return Said::Refused;
    };
    let Ok(signature) = core::str::from_utf8(signature) else { return Said::Refused };
    let params = match muster_signing::params::parse_v2(block) {
        Ok(params) => params,
        Err(why) => return refused(&why),
    };
    let parts = v2::Parts {
        phase,
        intent,
        // `-Y sign` ends its file with LF; the separator took it.
        signatures: &[format!("{signature}\n")],
        params: &params,
        script: phase.is_scripted().then_some(script),
    };
    let built = match v2::build(&parts) {
        Ok(built) => built,
        Err(why) => return refused(&why),
    };
    match v2::EnvelopeTwo::parse(&built).and_then(|e| e.request()) {
        Ok(v2::Request::Signed(signed)) => {
            assert_eq!(signed.phase, phase);
            assert_eq!(signed.intent.phase(), phase);
            assert_eq!(signed.intent_bytes, intent);
            assert_eq!(signed.signatures.len(), 1);
            assert_eq!(signed.script.as_deref(), parts.script);
            assert_eq!(signed.params(), Ok(params));
        }
        other => panic!("what was built reads back as {other:?}"),
    }
    assert_eq!(two(&built), Said::Accepted);
    Said::Accepted
}
