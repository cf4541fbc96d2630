//! SSH formats: signatures, public keys, certificates, private key files.

use crate::{Said, refused, said};
use base64ct::{Base64, Encoding};
use muster_core::UtcTime;
use muster_signing::{
    allowed_signers::{AllowedSigners, Dialect, ZuluOnly},
    certificate::Certificate,
    key::{KeyFault, PublicKey},
    keygen::{check_novalidate, find_principals},
    revoked::RevokedSigners,
    sign::{self, KeySigner},
    sshsig::{SignerKey, SshSig},
    verify::{Check, verify},
};

/// What the signatures of the seeds are over.
pub const MESSAGE: &[u8] = b"a message\n";
/// In the middle of the validity of the seeds' certificates.
pub(crate) const NOW: UtcTime = UtcTime::from_unix(1_800_000_000);

/// The armoured form.
pub fn sshsig(input: &[u8]) -> Said {
    match SshSig::parse_armored(input) {
        Err(why) => refused(&why),
        Ok(sig) => signature(&sig, input.len()),
    }
}

/// The bare blob, without base64 in the way; its armour reads as the same.
pub fn sshsig_blob(input: &[u8]) -> Said {
    let bare = SshSig::parse_blob(input);
    let armour = format!(
        "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
        Base64::encode_string(input)
    );
    if armour.len() <= muster_signing::sshsig::MAX_BYTES {
        let armoured = SshSig::parse_armored(armour.as_bytes());
        assert_eq!(armoured.is_ok(), bare.is_ok(), "blob and armour are judged apart");
    }
    match bare {
        Err(why) => refused(&why),
        Ok(sig) => signature(&sig, input.len()),
    }
}

fn signature(sig: &SshSig, size: usize) -> Said {
    assert!(!sig.namespace().is_empty() && !sig.namespace().contains('\0'));
    assert!(sig.signer_blob().len() < size, "the signer is longer than all of it");
    signer(sig.signer());
    assert_eq!(sig.is_certificate(), sig.short_type().ends_with("-CERT"));
    let good = check_novalidate(MESSAGE, sig, sig.namespace());
    assert!(check_novalidate(MESSAGE, sig, "another namespace").is_err());

    // A trust file with exactly this signer.
    let plain = sig.signer().key().line();
    let mut file = format!("muster namespaces=\"*\" {plain}\n");
    if let Some(cert) = sig.signer().certificate() {
        file.push_str(&format!("muster cert-authority {}\n", cert.authority().line()));
    }
    let allowed = AllowedSigners::parse(file.as_bytes(), &ZuluOnly).expect("a line of a key that was read");
    let check = Check {
        message: MESSAGE,
        signature: sig,
        namespace: sig.namespace(),
        principal: "muster",
        allowed: &allowed,
        revoked: None,
        now: NOW,
    };
    let verdict = verify(&check);
    match &verdict {
        Ok(verified) => {
            assert!(good.is_ok(), "verified, and yet not by its own key");
            assert_eq!(verified.fingerprint(), sig.fingerprint());
            assert_eq!(verified.authority().is_some(), sig.is_certificate());
            let revoked = RevokedSigners::parse(format!("{}\n", sig.fingerprint()).as_bytes())
                .expect("a list of one fingerprint");
            assert!(verify(&Check { revoked: Some(&revoked), ..check }).is_err(), "revoked, and verified");
            assert!(verify(&Check { principal: "another", ..check }).is_err());
            assert!(verify(&Check { allowed: &AllowedSigners::default(), ..check }).is_err());
        }
        Err(_) => assert!(good.is_err() || sig.is_certificate(), "by its own key, listed, and not verified"),
    }
    said(verdict);
    said(good);
    let text = sig.public_key_line();
    let own = AllowedSigners::parse_as(Dialect::OpenSsh, format!("me {text}\n").as_bytes(), &ZuluOnly)
        .expect("the line of a signer that was read");
    assert_eq!(find_principals(&own, sig, NOW), ["me"]);
    Said::Accepted
}

/// A signer that was read reads back as itself.
fn signer(signer: &SignerKey) {
    let again = SignerKey::from_blob(signer.blob()).expect("it was read from this blob");
    assert_eq!(again.blob(), signer.blob());
    key(signer.key());
    if let Some(cert) = signer.certificate() {
        key(cert.authority());
    }
}

fn key(key: &PublicKey) {
    let again = PublicKey::from_blob(key.blob()).expect("it was read from this blob");
    assert_eq!(again.blob(), key.blob());
    assert_eq!(again.kind(), key.kind());
    let line = key.line();
    let (kind, base64) = line.split_once(' ').expect("two words");
    assert_eq!(PublicKey::from_words(kind, base64).as_ref(), Ok(key));
    let print = key.fingerprint();
    assert!(print.starts_with("SHA256:") && print.len() == 7 + 43, "{print}");
    said(key.may_sign());
}

/// A plain key's blob has one spelling: no other blob is the same key.
pub fn public_key(input: &[u8]) -> Said {
    match PublicKey::from_blob(input) {
        Err(why) => {
            let known = matches!(SignerKey::from_blob(input), Ok(SignerKey::Plain(_)));
            assert!(!known, "no key, and yet a plain signer");
            refused(&why)
        }
        Ok(read) => {
            assert_eq!(read.blob(), input);
            key(&read);
            // One byte more is another blob, and no key.
            let mut longer = input.to_vec();
            longer.push(0);
            assert!(PublicKey::from_blob(&longer).is_err(), "bytes after its end");
            Said::Accepted
        }
    }
}

/// The line of a `.pub` file.
pub fn public_key_line(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let mut words = text.split(' ');
    let (kind, base64) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match PublicKey::from_words(kind, base64) {
        Err(why) => refused(&why),
        Ok(read) => {
            assert_eq!(read.line(), format!("{kind} {base64}"), "two spellings of one line");
            key(&read);
            Said::Accepted
        }
    }
}

/// A certificate's blob.
pub fn certificate(input: &[u8]) -> Said {
    let cert = match Certificate::from_blob(input) {
        Err(why) => {
            assert!(!matches!(SignerKey::from_blob(input), Ok(SignerKey::Certified(_))));
            return refused(&why);
        }
        Ok(cert) => cert,
    };
    assert_eq!(cert.blob(), input);
    assert_eq!(PublicKey::from_blob(input), Err(KeyFault::Certificate));
    assert!(matches!(SignerKey::from_blob(input), Ok(SignerKey::Certified(_))));
    key(cert.key());
    key(cert.authority());
    let signed = cert.check_authority();
    said(signed.clone());
    for time in [0, NOW.unix(), u64::MAX] {
        said(cert.check_dates_and_options(UtcTime::from_unix(time), false));
        let strict = cert.check_dates_and_options(UtcTime::from_unix(time), false).is_ok();
        let verified = cert.check_dates_and_options(UtcTime::from_unix(time), true).is_ok();
        assert!(verified || !strict, "verifying the user made it worse");
    }
    for principal in cert.principals() {
        assert!(cert.check_principal(principal).is_ok());
    }
    said(cert.check_principal("a principal that no certificate names"));
    // What the authority signed does not allow another byte anywhere in it.
    if let (Ok(()), Some((last, head))) = (&signed, input.split_last()) {
        let mut other = head.to_vec();
        other.push(last ^ 1);
        if let Ok(other) = Certificate::from_blob(&other) {
            said(other.check_authority());
        }
    }
    Said::Accepted
}

/// An unencrypted private key file: what it signs verifies.
pub fn private_key(input: &[u8]) -> Said {
    let signer = match KeySigner::from_openssh(input) {
        Ok(signer) => signer,
        Err(why) => return refused(&why),
    };
    match sign::sign(MESSAGE, "fuzz", &signer) {
        // A file whose public half is another key's.
        Err(why) => refused(&why),
        Ok(armour) => {
            let sig = SshSig::parse_armored(armour.as_bytes()).expect("what was signed reads back");
            assert!(check_novalidate(MESSAGE, &sig, "fuzz").is_ok());
            assert!(check_novalidate(b"other", &sig, "fuzz").is_err());
            Said::Accepted
        }
    }
}
