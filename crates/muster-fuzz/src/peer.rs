//! What comes from the other end of a connection: a server's handshake, its key and certificate, an agent's answers.

use crate::{
    Said, refused, refused_within, said,
    ssh::{MESSAGE, NOW},
};
use muster_core::UtcTime;
use muster_signing::{
    certificate::Certificate,
    sign::{self, SignFault, Signer},
};
use muster_ssh::{
    Address, Authority, Basis, Fingerprint, HostTrust, KeyFile, KnownHosts, PrivateKey, RsaHash,
    fuzzing::{self, NotTheHost},
};

/// The name that the seeds' certificates are for.
const HOST: &str = "host.example.net";
/// A key that no corpus holds.
const STRANGER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

fn stranger() -> Vec<u8> {
    use base64ct::{Base64, Encoding};
    let (_, base64) = STRANGER.split_once(' ').expect("two words");
    Base64::decode_vec(base64).expect("a key")
}

fn pinned(blob: &[u8]) -> HostTrust {
    HostTrust::builder().pin(Fingerprint::of_blob(blob), None).build().expect("a pin is a trust")
}

/// The clear part of a handshake: how the bytes are cut into pieces changes nothing, and what is
/// kept is bounded, printable, and fit for the check of the host key.
pub fn handshake(input: &[u8]) -> Said {
    let seen = fuzzing::handshake(input, input.len());
    for piece in [1, 7] {
        assert_eq!(fuzzing::handshake(input, piece), seen, "the pieces matter");
    }
    assert!(seen.host_keys.len() <= 64);
    for text in seen.host_keys.iter().chain(&seen.version).chain(&seen.parting) {
        assert!(text.chars().count() <= 255 && !text.chars().any(char::is_control), "{text:?}");
    }
    if let Err(why) = seen.end {
        return refused(&why);
    }
    let Some(blob) = seen.host_key else { return Said::Refused };
    assert!(blob.len() < input.len());
    let plain = fuzzing::host_key(&pinned(&blob), &blob);
    let certificate = fuzzing::host_certificate(&pinned(&blob), &blob, NOW);
    assert!(certificate.is_err(), "a certificate, and no authority is pinned");
    if let Err(NotTheHost::Key(why)) = plain {
        // A certificate's blob is no plain key, also where its fingerprint is pinned.
        let why = why.expect("pinned, and not revoked");
        refused(&why);
        assert!(Certificate::from_blob(&blob).is_ok() || !matches!(certificate, Err(NotTheHost::Key(_))));
    }
    assert_eq!(fuzzing::host_key(&pinned(&stranger()), &blob), Err(NotTheHost::Key(None)));
    Said::Accepted
}

/// A host certificate under its own authority: what is accepted names the host, now, and is signed.
pub fn host_certificate(input: &[u8]) -> Said {
    // The other reader of certificates tells whose it is.
    let read = Certificate::from_blob(input);
    let authority = read.as_ref().map_or_else(|_| STRANGER.to_owned(), |c| c.authority().line());
    let Ok(held) = Authority::new(&authority, [HOST]) else { return Said::Refused };
    let trust = HostTrust::builder().authority(held.clone()).build().expect("an authority is a trust");
    let judge = |trust: &HostTrust, now| fuzzing::host_certificate(trust, input, now);
    let fault = match judge(&trust, NOW) {
        Ok(Basis::Certificate { authority, key_id, valid_before, .. }) => {
            let read = read.expect("one reader takes what the other does not");
            assert_eq!(authority.to_string(), read.authority().fingerprint());
            assert!(key_id.chars().count() <= 120 && !key_id.chars().any(char::is_control));
            assert!(read.principals().iter().any(|p| p == HOST), "it does not name the host");
            assert!(read.check_authority().is_ok(), "the authority did not sign it");
            assert!(NOW < valid_before);
            assert!(
                judge(&trust, valid_before).is_err() && judge(&trust, UtcTime::from_unix(u64::MAX)).is_err()
            );
            let revoked = HostTrust::builder().authority(held.clone()).revoke(held.fingerprint());
            assert!(judge(&revoked.build().expect("a trust"), NOW).is_err(), "revoked, and believed");
            let other =
                Authority::new(&read.authority().line(), ["another.example.net"]).expect("an authority");
            let other = HostTrust::builder().authority(other).build().expect("a trust");
            assert!(judge(&other, NOW).is_err(), "it speaks for any name");
            assert!(judge(&pinned(&stranger()), NOW).is_err(), "no authority is pinned");
            return Said::Accepted;
        }
        Ok(other) => panic!("a certificate gives {other:?}"),
        Err(NotTheHost::Certificate(fault)) => fault,
        Err(NotTheHost::Key(why)) => panic!("a certificate is judged as a key: {why:?}"),
    };
    // It shows eight of the certificate's names, 120 characters each.
    refused_within(8 * 120 * 4 + 512, &fault)
}

/// An agent's list and its signatures.
pub fn agent_answer(input: &[u8]) -> Said {
    let list = fuzzing::agent_identities(input);
    if let Ok(keys) = &list {
        let size: usize = keys.iter().map(|k| k.blob.len()).sum();
        assert!(size <= input.len() && keys.len() <= input.len() / 8, "more keys than bytes");
    }
    let any = fuzzing::agent_signature(input, None);
    for rsa in [RsaHash::Sha256, RsaHash::Sha512] {
        let strict = fuzzing::agent_signature(input, Some(rsa));
        if strict.is_ok() {
            assert_eq!(strict, any, "asking for a hash changes the signature");
        }
    }
    if let Ok(signature) = &any {
        assert!(signature.len() < input.len());
        assert!(list.is_err(), "one answer is a list and a signature");
        return Said::Accepted;
    }
    said(list)
}

/// `known_hosts`: lines can be added to a file that is taken, and a revoked key stays revoked.
pub fn known_hosts(input: &[u8]) -> Said {
    let file = match KnownHosts::parse("known_hosts", input) {
        Ok(file) => file,
        Err(why) => return refused(&why),
    };
    let with = |line: &str| {
        let longer = [input, b"\n", line.as_bytes(), b"\n"].concat();
        KnownHosts::parse("known_hosts", &longer).expect("one good line more")
    };
    let (more, revoked) = (with(&format!("edge-1 {STRANGER}")), with(&format!("@revoked * {STRANGER}")));
    for (host, port) in
        [("edge-1", 22), ("edge-1", 2222), ("10.0.0.5", 22), ("::1", 22), ("a.example.net", 22)]
    {
        let host = Address::parse(host).expect("an address");
        let trust = file.trust(&host, port);
        if let Ok(trust) = &trust {
            assert!(!trust.pinned().is_empty() || !trust.authorities().is_empty());
            assert!(fuzzing::host_key(trust, &stranger()).is_err(), "a key that is not listed is trusted");
        }
        said(trust);
        if let Ok(trust) = revoked.trust(&host, port) {
            assert!(fuzzing::host_key(&trust, &stranger()).is_err(), "a revoked key is trusted");
        }
    }
    let host = Address::parse("edge-1").expect("an address");
    let here = more.trust(&host, 22);
    if let Ok(trust) = &here {
        assert_eq!(
            fuzzing::host_key(trust, &stranger()),
            Ok(Basis::PinnedKey),
            "a listed key is not trusted"
        );
    }
    said(here);
    Said::Accepted
}

/// What an operator pastes as a host's key.
pub fn host_key_text(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let trust = HostTrust::parse(text);
    said(Fingerprint::parse(text));
    said(Authority::new(text, ["a"]));
    match trust {
        Err(why) => refused(&why),
        Ok(trust) => {
            let pins = trust.pinned();
            let [pin] = pins.as_slice() else { panic!("{} pins from one text", pins.len()) };
            assert!(trust.authorities().is_empty());
            assert_eq!(Fingerprint::parse(&pin.to_string()), Ok(*pin));
            let again = HostTrust::parse(&pin.to_string()).expect("its own fingerprint");
            assert_eq!(again.pinned(), [*pin]);
            Said::Accepted
        }
    }
}

/// A host's address is safe as a word of a command and reads back as itself.
pub fn address(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    match Address::parse(text) {
        Err(why) => refused(&why),
        Ok(address) => {
            let shown = address.to_string();
            assert!(!shown.starts_with('-') && !shown.is_empty() && shown.len() <= 320);
            assert!(shown.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:%".contains(&b)), "{shown:?}");
            assert_eq!(Address::parse(&shown), Ok(address.clone()), "{text:?} became {shown:?}");
            assert_eq!(Address::parse(&format!("[{shown}]")), Ok(address));
            Said::Accepted
        }
    }
}

struct Login(PrivateKey);

impl Signer for Login {
    fn public_blob(&self) -> &[u8] {
        self.0.public_blob()
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault> {
        self.0.sign(data, RsaHash::Sha512).map_err(|e| SignFault(e.to_string()))
    }
}

/// A login's certificate file (`-cert.pub`): the other reader of certificates takes it as one too, and no host is believed by it.
pub fn user_certificate(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let agent = muster_ssh::Identity::agent(std::path::Path::new("/nowhere"), None);
    if let Err(why) = agent.with_certificate("file x-cert.pub", text) {
        return refused(&why);
    }
    let base64 = text.split_ascii_whitespace().nth(1).expect("kind and base64");
    use base64ct::{Base64, Encoding};
    let blob = Base64::decode_vec(base64).expect("it was decoded");
    assert!(fuzzing::host_key(&pinned(&blob), &blob).is_err(), "a certificate passes as a host's plain key");
    if let Ok(read) = Certificate::from_blob(&blob) {
        let authority = Authority::new(&read.authority().line(), [HOST]);
        if let Ok(trust) = authority.map(|a| HostTrust::builder().authority(a).build().expect("a trust")) {
            assert!(
                fuzzing::host_certificate(&trust, &blob, NOW).is_err(),
                "a user's certificate passes as a host's"
            );
        }
    }
    Said::Accepted
}

/// A login's private key file: what it signs, another implementation verifies.
pub fn key_file(input: &[u8]) -> Said {
    let file = match KeyFile::parse(input) {
        Ok(file) => file,
        Err(why) => return refused(&why),
    };
    if file.is_encrypted() {
        assert!(file.open(None).is_err(), "an encrypted key opens without its passphrase");
        return Said::Accepted;
    }
    let key = match file.open(None) {
        Ok(key) => key,
        Err(why) => return refused(&why),
    };
    assert_eq!(key.public_blob(), file.public_blob());
    match sign::sign(MESSAGE, "fuzz", &Login(key)) {
        Ok(_) => Said::Accepted,
        // Small RSA keys log in and do not sign; and a point that is not on its curve.
        Err(why) => refused(&why),
    }
}
