//! Trust files: `allowed_signers` and the revocation list.

use crate::{Said, refused, said, text::Ahead, text::compact};
use muster_signing::{
    allowed_signers::{AllowedSigners, Dialect, Entry, ZuluOnly},
    key::PublicKey,
    revoked::RevokedSigners,
    sshsig::SignerKey,
};

/// A key that no corpus lists, as a line.
const STRANGER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

fn stranger() -> PublicKey {
    let (kind, base64) = STRANGER.split_once(' ').expect("two words");
    PublicKey::from_words(kind, base64).expect("a key")
}

/// Every line that is taken can be written again and reads back as the same; the stricter readers
/// take nothing that the laxer ones refuse.
pub fn allowed_signers(input: &[u8]) -> Said {
    let ours = AllowedSigners::parse(input, &ZuluOnly);
    let local = AllowedSigners::parse(input, &Ahead);
    let lax = AllowedSigners::parse_as(Dialect::OpenSsh, input, &Ahead);
    if let Ok(ours) = &ours {
        let local = local.as_ref().expect("local times are taken beside those with Z");
        assert_eq!(ours.entries().len(), local.entries().len());
    }
    if let Ok(local) = &local {
        let lax = lax.as_ref().expect("certificates are taken beside keys");
        assert_eq!(local.entries().len(), lax.entries().len());
        assert!(local.entries().iter().all(|e| matches!(e.key(), SignerKey::Plain(_))));
    }
    let fault = ours.err();
    let Ok(lax) = lax else {
        let fault = fault.expect("the stricter reader took what the laxer one refused");
        let lines = input.split(|b| *b == b'\n').count();
        assert!(fault.line <= lines, "line {} of {lines}", fault.line);
        return refused(&fault);
    };
    for entry in lax.entries() {
        round_trip(entry);
    }
    let ids = lax.identities("muster", "muster-intent");
    assert!(ids.len() <= lax.entries().len());
    assert!(ids.windows(2).all(|w| w.first() < w.last()), "a signer counts twice");
    // Saying it twice makes nobody a second signer.
    let mut twice = input.to_vec();
    twice.push(b'\n');
    twice.extend_from_slice(input);
    if twice.len() <= muster_signing::allowed_signers::MAX_BYTES {
        let twice = AllowedSigners::parse_as(Dialect::OpenSsh, &twice, &Ahead).expect("the same lines");
        assert_eq!(twice.entries().len(), 2 * lax.entries().len());
        assert_eq!(twice.identities("muster", "muster-intent"), ids);
    }
    match fault {
        Some(fault) => refused(&fault),
        None => Said::Accepted,
    }
}

fn round_trip(entry: &Entry) {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\\\""));
    let mut options = Vec::new();
    if entry.is_authority() {
        options.push("cert-authority".to_owned());
    }
    if let Some(list) = entry.namespaces() {
        options.push(format!("namespaces={}", quoted(list)));
    }
    for (name, time) in [("valid-after", entry.valid_after()), ("valid-before", entry.valid_before())] {
        if let Some(time) = time {
            options.push(format!("{name}=\"{}\"", compact(time).expect("a time from text has a text")));
        }
    }
    let key = match entry.key() {
        SignerKey::Plain(key) => key.line(),
        SignerKey::Certified(cert) => {
            use base64ct::{Base64, Encoding};
            format!("{} {}", cert.key().kind().certificate_name(), Base64::encode_string(cert.blob()))
        }
    };
    assert!(!entry.principals().contains('"'), "a quote cannot stand in principals");
    let mut line = format!("\"{}\" ", entry.principals());
    if !options.is_empty() {
        line.push_str(&options.join(","));
        line.push(' ');
    }
    line.push_str(&key);
    line.push_str(" a comment\n");
    let again = AllowedSigners::parse_as(Dialect::OpenSsh, line.as_bytes(), &ZuluOnly);
    let again = again.unwrap_or_else(|why| panic!("{line:?}: {why}"));
    let [again] = again.entries() else { panic!("{line:?} is not one entry") };
    assert_eq!(again.principals(), entry.principals());
    assert_eq!(again.is_authority(), entry.is_authority());
    assert_eq!(again.namespaces(), entry.namespaces());
    assert_eq!(again.valid_after(), entry.valid_after());
    assert_eq!(again.valid_before(), entry.valid_before());
    assert_eq!(again.key().blob(), entry.key().blob());
}

/// The text form: a list that is taken still revokes when a line is added, and revokes nobody
/// whom it does not name.
pub fn revoked_signers(input: &[u8]) -> Said {
    let list = match RevokedSigners::parse(input) {
        Ok(list) => list,
        Err(why) => return refused(&why),
    };
    if input.starts_with(b"SSHKRL\n\0") {
        return krl(input);
    }
    let key = stranger();
    let signer = SignerKey::Plain(key.clone());
    assert_eq!(list.why_revoked(&signer), None, "a key that is not listed is revoked");
    for line in [key.fingerprint(), STRANGER.to_owned()] {
        let mut longer = input.to_vec();
        longer.push(b'\n');
        longer.extend_from_slice(line.as_bytes());
        let longer = RevokedSigners::parse(&longer).expect("one good line more");
        assert!(!longer.is_empty());
        let why = longer.why_revoked(&signer).expect("a listed key is not revoked");
        refused(&why);
    }
    Said::Accepted
}

/// The binary form: a list that is taken still revokes when a section is added.
pub fn krl(input: &[u8]) -> Said {
    let list = match RevokedSigners::parse(input) {
        Ok(list) => list,
        Err(why) => return refused(&why),
    };
    if !input.starts_with(b"SSHKRL\n\0") {
        return Said::Refused;
    }
    let key = stranger();
    let signer = SignerKey::Plain(key.clone());
    if let Some(why) = list.why_revoked(&signer) {
        refused(&why);
        return Said::Accepted;
    }
    // KRL_SECTION_EXPLICIT_KEY (2) with one key.
    let size = |n: usize| u32::try_from(n).expect("small").to_be_bytes();
    let mut longer = input.to_vec();
    longer.push(2);
    longer.extend_from_slice(&size(key.blob().len() + 4));
    longer.extend_from_slice(&size(key.blob().len()));
    longer.extend_from_slice(key.blob());
    let longer = RevokedSigners::parse(&longer).expect("one good section more");
    assert!(!longer.is_empty());
    said(longer.why_revoked(&signer).map_or(Ok(()), Err));
    assert!(longer.why_revoked(&signer).is_some(), "a listed key is not revoked");
    Said::Accepted
}
