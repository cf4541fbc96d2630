//! Signatures made by the real `ssh-keygen`, changed one rule at a time, and judged by both.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failed test")]
#![allow(clippy::too_many_lines, reason = "a table of cases is read from top to bottom")]

mod support;

use muster_signing::{
    Reason, Refusal, UtcTime,
    allowed_signers::{AllowedSigners, ZuluOnly},
    key, keygen,
    revoked::RevokedSigners,
    sign::{self, KeySigner},
    sshsig::{HashAlg, SshSig},
    verify::{Check, Verified, distinct, verify},
};
use support::{BEGIN, END, Lab, Pieces, Question, SoftSk, armor, base64, string, take};

const NAMESPACE: &str = "kpssh";
const MESSAGE: &[u8] = b"#!/bin/bash\necho joined\n";
/// 2026-11-30
const NOW: u64 = 1_796_000_000;

struct Case<'a> {
    allowed: &'a str,
    signature: &'a [u8],
    message: &'a [u8],
    revoked: Option<&'a [u8]>,
}

fn ours(case: &Case<'_>) -> Result<Verified, Refusal> {
    let signature = SshSig::parse_armored(case.signature)?;
    let allowed = AllowedSigners::parse(case.allowed.as_bytes(), &ZuluOnly).unwrap();
    let revoked = case.revoked.map(|r| RevokedSigners::parse(r).unwrap());
    verify(&Check {
        message: case.message,
        signature: &signature,
        namespace: NAMESPACE,
        principal: "kpssh",
        allowed: &allowed,
        revoked: revoked.as_ref(),
        now: UtcTime::from_unix(NOW),
    })
}

fn theirs(lab: &Lab, case: &Case<'_>) -> bool {
    let question = Question {
        signature: case.signature.to_vec(),
        message: case.message.to_vec(),
        allowed: case.allowed.as_bytes().to_vec(),
        revoked: case.revoked.map(<[u8]>::to_vec),
        namespace: NAMESPACE.to_owned(),
        principal: "kpssh".to_owned(),
        now: NOW,
        offset: 0,
    };
    question.ask(&lab.path("")).0
}

fn plain<'a>(allowed: &'a str, signature: &'a [u8]) -> Case<'a> {
    Case { allowed, signature, message: MESSAGE, revoked: None }
}

fn reason(case: &Case<'_>) -> Reason {
    ours(case).unwrap_err().reason
}

#[test]
fn every_key_type_and_hash_as_ssh_keygen_signs() {
    let lab = Lab::new();
    let kinds = [
        ("ed25519", None),
        ("ecdsa", Some(256)),
        ("ecdsa", Some(384)),
        ("ecdsa", Some(521)),
        ("rsa", Some(3072)),
    ];
    for (n, (kind, bits)) in kinds.into_iter().enumerate() {
        let name = format!("key{n}");
        lab.key(&name, kind, bits);
        let allowed = format!("kpssh namespaces=\"kpssh\" {}\n", lab.line(&name));
        for hash in ["sha256", "sha512"] {
            let sig = lab.sign(&name, NAMESPACE, hash, MESSAGE);
            let verified = ours(&plain(&allowed, &sig)).unwrap();
            assert_eq!(verified.signer().blob(), lab.blob(&name));
            assert_eq!(SshSig::parse_armored(&sig).unwrap().hash().name(), hash);
            let fp = String::from_utf8(lab.keygen(&["-lf", &format!("{name}.pub")]).stdout).unwrap();
            assert!(fp.contains(verified.fingerprint()), "{fp}");

            let tampered = Case { message: b"#!/bin/bash\necho other\n", ..plain(&allowed, &sig) };
            assert_eq!(reason(&tampered), Reason::BytesDiffer);
        }
    }
}

#[test]
fn ve6_bytes_differ_names_the_digest_of_what_was_received() {
    let lab = Lab::new();
    lab.key("k", "ed25519", None);
    let sig = lab.sign("k", NAMESPACE, "sha512", MESSAGE);
    let allowed = format!("kpssh {}\n", lab.line("k"));
    let refusal = ours(&Case { message: b"abc", ..plain(&allowed, &sig) }).unwrap_err();
    // FIPS 180-2, appendix B.1
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert!(refusal.detail.contains(digest), "{refusal}");
}

#[test]
fn ours_is_accepted_by_ssh_keygen() {
    let lab = Lab::new();
    for (n, (kind, bits)) in
        [("ed25519", None), ("ecdsa", Some(256)), ("ecdsa", Some(384)), ("ecdsa", Some(521))]
            .into_iter()
            .enumerate()
    {
        let name = format!("key{n}");
        lab.key(&name, kind, bits);
        let allowed = format!("kpssh {}\n", lab.line(&name));
        for hash in [HashAlg::Sha256, HashAlg::Sha512] {
            let sig = sign::sign_with(MESSAGE, NAMESPACE, hash, &lab.signer(&name)).unwrap();
            assert!(theirs(&lab, &plain(&allowed, sig.as_bytes())), "{kind} {bits:?}");
            if kind == "ed25519" {
                // Ed25519 is deterministic: the whole text must be the same.
                assert_eq!(sig.as_bytes(), lab.sign(&name, NAMESPACE, hash.name(), MESSAGE));
            }
        }
    }
    lab.key("ca", "ed25519", None);
    lab.certify("cert", "key0", "ca", &["-n", "kpssh"]);
    let signer = lab.signer("key0").with_certificate(&lab.blob("cert")).unwrap();
    let sig = sign::sign(MESSAGE, NAMESPACE, &signer).unwrap();
    let allowed = format!("kpssh cert-authority {}\n", lab.line("ca"));
    assert!(theirs(&lab, &plain(&allowed, sig.as_bytes())));
    assert!(lab.signer("key1").with_certificate(&lab.blob("cert")).is_err());
    assert!(sign::sign(MESSAGE, "", &signer).is_err());
}

/// `vectors/short-p256`: one key in 512 is stored with a scalar of fewer bytes than its curve's.
#[test]
fn a_p256_key_with_a_short_scalar_signs() {
    let lab = Lab::new();
    let pem = include_bytes!("vectors/short-p256");
    std::fs::write(lab.path("short"), pem).unwrap();
    std::fs::set_permissions(lab.path("short"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(lab.path("short.pub"), lab.keygen(&["-y", "-f", "short"]).stdout).unwrap();
    assert!(ssh_key::PrivateKey::from_openssh(pem).is_err(), "the library takes it now: drop the reader");
    let sig = sign::sign(MESSAGE, NAMESPACE, &lab.signer("short")).unwrap();
    assert!(theirs(&lab, &plain(&format!("kpssh {}\n", lab.line("short")), sig.as_bytes())));
    // Cut anywhere, or with another scalar, it is no key.
    let text = String::from_utf8(pem.to_vec()).unwrap();
    let inner: String = text.lines().filter(|l| !l.starts_with('-')).collect();
    let bytes = support::unbase64(&inner);
    let with = |bytes: &[u8]| {
        let text = support::base64(bytes);
        KeySigner::from_openssh(
            format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n")
                .as_bytes(),
        )
    };
    assert!(with(&bytes).is_ok());
    for at in [0, 14, 20, 40, 200, 260, 280] {
        assert!(with(&bytes[..at]).is_err(), "{at}");
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert!(with(&other).is_err(), "{at}");
    }
}

#[test]
fn signing_refuses_keys_that_it_cannot_or_must_not_use() {
    let lab = Lab::new();
    lab.key("rsa", "rsa", Some(3072));
    assert!(KeySigner::from_openssh(&lab.read("rsa")).unwrap_err().to_string().contains("agent"));
    lab.keygen(&["-q", "-t", "ed25519", "-N", "a passphrase", "-f", "locked"]);
    let fault = KeySigner::from_openssh(&lab.read("locked")).unwrap_err().to_string();
    assert!(fault.contains("passphrase"), "{fault}");
    assert!(KeySigner::from_openssh(b"-----BEGIN OPENSSH PRIVATE KEY-----\n").is_err());
    lab.key("k", "ed25519", None);
    assert!(!format!("{:?}", lab.signer("k")).contains("private"));
}

/// One vector for each rule of `PROTOCOL.sshsig`. ssh-keygen must refuse them too, except where
/// the row says that ours is stricter.
#[test]
fn ve1_every_rule_of_the_format() {
    let lab = Lab::new();
    lab.key("k", "ed25519", None);
    lab.key("rsa", "rsa", Some(3072));
    let good = lab.sign("k", NAMESPACE, "sha512", MESSAGE);
    let rsa = lab.sign("rsa", NAMESPACE, "sha512", MESSAGE);
    let allowed = format!("kpssh {}\nkpssh {}\n", lab.line("k"), lab.line("rsa"));
    assert!(ours(&plain(&allowed, &good)).is_ok() && ours(&plain(&allowed, &rsa)).is_ok());

    let with = |change: &dyn Fn(&mut Pieces)| {
        let mut pieces = Pieces::of(&good);
        change(&mut pieces);
        pieces.armored()
    };
    let rsa_as = |algorithm: &[u8]| {
        let mut pieces = Pieces::of(&rsa);
        let mut rest = &pieces.signature[..];
        take(&mut rest);
        pieces.signature = [string(algorithm), rest.to_vec()].concat();
        pieces.armored()
    };
    let blob = Pieces::of(&good).blob();
    let wrapped = String::from_utf8(good.clone()).unwrap();
    let (same, stricter) = (false, true);
    let rows: Vec<(&str, Vec<u8>, Reason, bool)> = vec![
        (
            "magic not at byte 0",
            armor(&[b"\0".to_vec(), blob.clone()].concat()),
            Reason::SignatureMalformed,
            same,
        ),
        (
            "magic of another format",
            with(&|p| p.magic = b"SSHSIH".to_vec()),
            Reason::SignatureMalformed,
            same,
        ),
        ("version 2", with(&|p| p.version = 2), Reason::SignatureMalformed, same),
        ("version 0", with(&|p| p.version = 0), Reason::SignatureMalformed, stricter),
        ("namespace empty", with(&|p| p.namespace.clear()), Reason::SignatureMalformed, same),
        (
            "namespace with NUL at its end",
            with(&|p| p.namespace.push(0)),
            Reason::SignatureMalformed,
            stricter,
        ),
        ("namespace of another use", lab.sign("k", "git", "sha512", MESSAGE), Reason::Namespace, same),
        (
            "namespace changed after signing",
            with(&|p| p.namespace = b"git".to_vec()),
            Reason::Namespace,
            same,
        ),
        ("hash sha1", with(&|p| p.hash = b"sha1".to_vec()), Reason::Algorithm, same),
        ("hash sha384", with(&|p| p.hash = b"sha384".to_vec()), Reason::Algorithm, same),
        ("hash in capitals", with(&|p| p.hash = b"SHA512".to_vec()), Reason::Algorithm, same),
        ("hash changed after signing", with(&|p| p.hash = b"sha256".to_vec()), Reason::BytesDiffer, same),
        ("RSA with SHA-1", rsa_as(b"ssh-rsa"), Reason::Algorithm, same),
        ("RSA with the other hash", rsa_as(b"rsa-sha2-256"), Reason::BytesDiffer, same),
        ("RSA named as a certificate", rsa_as(b"rsa-sha2-512-cert-v01@openssh.com"), Reason::Algorithm, same),
        (
            "Ed25519 named as RSA",
            with(&|p| p.signature.splice(..15, string(b"rsa-sha2-512")).for_each(drop)),
            Reason::Algorithm,
            same,
        ),
        ("bytes after its end", with(&|p| p.tail = vec![0]), Reason::SignatureMalformed, same),
        ("bytes after the raw signature", with(&|p| p.signature.push(0)), Reason::SignatureMalformed, same),
        ("bytes after the key", with(&|p| p.key.push(0)), Reason::SignatureMalformed, same),
        ("no raw signature", with(&|p| p.signature.clear()), Reason::SignatureMalformed, same),
        ("ended early", armor(&blob[..blob.len() - 1]), Reason::SignatureMalformed, same),
        ("text before it", [b"\n".to_vec(), good.clone()].concat(), Reason::SignatureMalformed, same),
        ("CRLF", wrapped.replace('\n', "\r\n").into_bytes(), Reason::SignatureMalformed, same),
        ("not padded", wrapped.replace("=", "").into_bytes(), Reason::SignatureMalformed, same),
        (
            "url-safe alphabet",
            with(&|p| p.reserved = vec![0xfb, 0xff, 0xbf])
                .into_iter()
                .map(|b| if b == b'+' { b'-' } else { b })
                .collect(),
            Reason::SignatureMalformed,
            same,
        ),
        (
            "NUL in the armour",
            wrapped.replacen('\n', "\n\0", 2).into_bytes(),
            Reason::SignatureMalformed,
            same,
        ),
    ];
    for (rule, signature, want, stricter) in rows {
        let case = plain(&allowed, &signature);
        let got = ours(&case).unwrap_err();
        assert_eq!(got.reason, want, "{rule}: {got}");
        assert_eq!(got.reason.exit().code(), 2, "{rule}");
        assert_eq!(theirs(&lab, &case), stricter, "{rule}");
    }
    // reserved is ignored, whatever it holds
    let reserved = with(&|p| p.reserved = b"anything".to_vec());
    assert!(ours(&plain(&allowed, &reserved)).is_ok() && theirs(&lab, &plain(&allowed, &reserved)));
}

#[test]
fn ve15_absent_empty_truncated_or_doubled_is_rejected() {
    let lab = Lab::new();
    lab.key("k", "ed25519", None);
    let good = lab.sign("k", NAMESPACE, "sha512", MESSAGE);
    let allowed = format!("kpssh {}\n", lab.line("k"));
    assert_eq!(reason(&plain(&allowed, b"")), Reason::SignatureMissing);
    for bad in [
        b"\n".to_vec(),
        format!("{BEGIN}{END}").into_bytes(),
        format!("{BEGIN}\n{END}").into_bytes(),
        [good.clone(), good.clone()].concat(),
        [good.clone(), b"x".to_vec()].concat(),
        armor(b""),
    ] {
        assert_eq!(
            reason(&plain(&allowed, &bad)),
            Reason::SignatureMalformed,
            "{:?}",
            String::from_utf8_lossy(&bad)
        );
    }
    for end in 0..good.len() - 1 {
        let cut = &good[..end];
        // Without its last LF, and then without parts of what follows END, it is still whole.
        if cut.ends_with(b"\n-----END SSH SIGNATURE-----") {
            continue;
        }
        assert!(SshSig::parse_armored(cut).is_err(), "{end}");
    }
    assert_eq!(reason(&plain(&allowed, &vec![b' '; 70_000])), Reason::SignatureMalformed);
}

#[test]
fn every_flipped_bit_is_rejected() {
    let lab = Lab::new();
    lab.key("k", "ecdsa", Some(256));
    let good = Pieces::of(&lab.sign("k", NAMESPACE, "sha512", MESSAGE));
    let allowed = format!("kpssh {}\n", lab.line("k"));
    let blob = good.blob();
    for at in 0..blob.len() {
        let mut changed = blob.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(ours(&plain(&allowed, &armor(&changed))).is_err(), "byte {at}");
    }
}

#[test]
fn ve5_a_signature_for_another_namespace_by_the_same_key_is_rejected() {
    let lab = Lab::new();
    lab.key("k", "ed25519", None);
    let allowed = format!("kpssh {}\n", lab.line("k"));
    for namespace in ["git", "file", "muster-intent", "kpssh ", "KPSSH"] {
        let sig = lab.sign("k", namespace, "sha512", MESSAGE);
        assert_eq!(reason(&plain(&allowed, &sig)), Reason::Namespace);
    }
}

#[test]
fn security_keys_sign_only_when_touched() {
    let lab = Lab::new();
    lab.key("ed", "ed25519", None);
    lab.key("p256", "ecdsa", Some(256));
    for name in ["ed", "p256"] {
        let sk = SoftSk::new(&lab, name);
        let allowed = format!("kpssh {}\n", sk.line());
        let touched = sk.sign(&sk.blob, NAMESPACE, MESSAGE, 0x01);
        assert!(ours(&plain(&allowed, &touched)).is_ok(), "{name}");
        assert!(theirs(&lab, &plain(&allowed, &touched)), "{name}");
        let untouched = sk.sign(&sk.blob, NAMESPACE, MESSAGE, 0x00);
        assert_eq!(reason(&plain(&allowed, &untouched)), Reason::Algorithm);
        assert!(theirs(&lab, &plain(&allowed, &untouched)), "OpenSSH does not look at the flag here");
        // The flags are signed: they cannot be put right afterwards.
        let mut forged = Pieces::of(&untouched);
        let at = forged.signature.len() - 5;
        forged.signature[at] = 0x01;
        assert_eq!(reason(&plain(&allowed, &forged.armored())), Reason::BytesDiffer);
    }
}

#[test]
fn n5_rsa_keys_are_3072_to_8192_bits() {
    let lab = Lab::new();
    for (bits, accepted) in [(1024, false), (2048, false), (3072, true), (4096, true)] {
        let name = format!("rsa{bits}");
        lab.key(&name, "rsa", Some(bits));
        let allowed = format!("kpssh {}\n", lab.line(&name));
        let sig = lab.sign(&name, NAMESPACE, "sha512", MESSAGE);
        assert!(theirs(&lab, &plain(&allowed, &sig)), "{bits}");
        match ours(&plain(&allowed, &sig)) {
            Ok(_) => assert!(accepted, "{bits}"),
            Err(refusal) => {
                assert!(!accepted, "{bits}: {refusal}");
                assert_eq!(refusal.reason, Reason::Algorithm);
                assert!(refusal.detail.contains(&bits.to_string()), "{refusal}");
            }
        }
    }
    // A key of 8192 bits takes long to make: this one is kept (tests/vectors/make.sh).
    let line = include_str!("vectors/rsa8192.pub").split(' ').take(2).collect::<Vec<_>>().join(" ");
    let allowed = format!("kpssh {}\n", line.trim());
    assert!(ours(&plain(&allowed, include_bytes!("vectors/rsa8192.sig"))).is_ok());
    // One bit more, and a key that would take seconds to verify with: by its size alone.
    for bytes in [1025, 8000] {
        let modulus = [vec![0x01], vec![0xff; bytes - 1]].concat();
        let blob = [string(b"ssh-rsa"), string(&[1, 0, 1]), string(&modulus)].concat();
        let huge = key::PublicKey::from_blob(&blob).unwrap();
        assert!(huge.may_sign().is_err());
        let mut pieces = Pieces::of(include_bytes!("vectors/rsa8192.sig"));
        pieces.key = blob;
        assert_eq!(reason(&plain(&allowed, &pieces.armored())), Reason::Algorithm);
    }
}

#[test]
fn one_spelling_of_a_key() {
    let lab = Lab::new();
    lab.key("rsa", "rsa", Some(3072));
    let blob = lab.blob("rsa");
    let mut rest = &blob[..];
    let (name, e, n) = (take(&mut rest), take(&mut rest), take(&mut rest));
    let padded = [string(&name), string(&e), string(&[vec![0, 0], n].concat())].concat();
    assert!(key::PublicKey::from_blob(&padded).is_err());
    let line = format!("kpssh ssh-rsa {}\n", base64(&padded));
    assert_eq!(AllowedSigners::parse(line.as_bytes(), &ZuluOnly).unwrap_err().line, 1);
    // OpenSSH takes the padded key for the same one; an m of n would count it twice.
    let sig = lab.sign("rsa", NAMESPACE, "sha512", MESSAGE);
    assert!(theirs(&lab, &plain(&line, &sig)));
}

#[test]
fn m2_what_stops_a_stolen_signer_is_removal_revocation_its_end_or_m_of_n() {
    let lab = Lab::new();
    lab.key("stolen", "ed25519", None);
    lab.key("other", "ed25519", None);
    let sig = lab.sign("stolen", NAMESPACE, "sha512", MESSAGE);
    let both = format!("kpssh {}\nkpssh {}\n", lab.line("stolen"), lab.line("other"));
    let one = ours(&plain(&both, &sig)).unwrap();
    assert_eq!(distinct(&[one.clone(), one]), 1, "it counts once, however often it signs");

    let removed = format!("kpssh {}\n", lab.line("other"));
    assert_eq!(reason(&plain(&removed, &sig)), Reason::KeyUnknown);
    let ended = format!("kpssh valid-before=\"20261101Z\" {}\n", lab.line("stolen"));
    assert_eq!(reason(&plain(&ended, &sig)), Reason::KeyExpired);
    let list = format!("{}\n", lab.line("stolen"));
    assert_eq!(reason(&Case { revoked: Some(list.as_bytes()), ..plain(&both, &sig) }), Reason::Revoked);
}

#[test]
fn reasons_come_in_the_documented_order() {
    let lab = Lab::new();
    lab.key("k", "ed25519", None);
    lab.key("weak", "rsa", Some(2048));
    lab.key("other", "ed25519", None);
    let list = format!("{}\n{}\n", lab.line("k"), lab.line("weak"));
    let case = |allowed: &str, key: &str, namespace: &str| {
        let signature = lab.sign(key, namespace, "sha512", MESSAGE);
        let case =
            Case { allowed, signature: &signature, message: b"other bytes", revoked: Some(list.as_bytes()) };
        reason(&case)
    };
    let line = |head: &str| format!("{head} {}\n", lab.line("k"));
    // Everything is wrong with the first, and one thing less with each that follows.
    assert_eq!(case("", "weak", "git"), Reason::Algorithm);
    assert_eq!(case("", "k", "git"), Reason::Namespace);
    assert_eq!(case("", "k", NAMESPACE), Reason::KeyUnknown);
    assert_eq!(case(&line("q namespaces=\"x\""), "k", NAMESPACE), Reason::Principal);
    assert_eq!(
        case(&line("kpssh namespaces=\"x\",valid-before=\"20200101Z\""), "k", NAMESPACE),
        Reason::Namespace
    );
    assert_eq!(case(&line("kpssh valid-after=\"20300101Z\""), "k", NAMESPACE), Reason::KeyNotYetValid);
    assert_eq!(case(&line("kpssh"), "k", NAMESPACE), Reason::Revoked);
    let signature = lab.sign("k", NAMESPACE, "sha512", MESSAGE);
    let allowed = line("kpssh");
    assert_eq!(reason(&Case { message: b"other bytes", ..plain(&allowed, &signature) }), Reason::BytesDiffer);
}

#[test]
fn the_front_answers_as_ssh_keygen_does() {
    let lab = Lab::new();
    lab.key("k", "ed25519", None);
    lab.key("ca", "ed25519", None);
    lab.certify("cert", "k", "ca", &["-n", "a@x,d@x,c@y", "-V", "20200101:20300101"]);
    let sig = lab.sign("k", NAMESPACE, "sha512", MESSAGE);
    let by_cert = lab.sign("cert", NAMESPACE, "sha512", MESSAGE);
    let file = format!(
        "one,two namespaces=\"other\" {}\nt* {}\n*@x,!b@x cert-authority {}\n",
        lab.line("k"),
        lab.line("k"),
        lab.line("ca")
    );
    lab.write("allowed", &file);
    let allowed = AllowedSigners::parse(file.as_bytes(), &ZuluOnly).unwrap();
    let now = UtcTime::from_unix(NOW);
    for (name, armored) in [("plain.sig", &sig), ("cert.sig", &by_cert)] {
        lab.write(name, armored);
        let out = lab.keygen(&["-Y", "find-principals", "-f", "allowed", "-s", name]).stdout;
        let found = keygen::find_principals(&allowed, &SshSig::parse_armored(armored).unwrap(), now);
        assert_eq!(String::from_utf8(out).unwrap(), found.join("\n") + "\n");
        assert!(!found.is_empty());
    }
    // For a certificate OpenSSH 9.2 matches each pattern of the line by itself here, though not in
    // `verify`, and so names principals that the line negates; ours does not.
    lab.certify("negated", "k", "ca", &["-n", "b@x"]);
    let negated = SshSig::parse_armored(&lab.sign("negated", NAMESPACE, "sha512", MESSAGE)).unwrap();
    assert!(keygen::find_principals(&allowed, &negated, now).is_empty());
    for principal in ["one", "two", "a@x"] {
        let out = lab.keygen(&["-Y", "match-principals", "-f", "allowed", "-I", principal]).stdout;
        assert_eq!(
            String::from_utf8(out).unwrap(),
            keygen::match_principals(&allowed, principal).join("\n") + "\n"
        );
    }
    assert!(keygen::match_principals(&allowed, "b@x").is_empty());
    for armored in [&sig, &by_cert] {
        let parsed = SshSig::parse_armored(armored).unwrap();
        assert!(keygen::check_novalidate(MESSAGE, &parsed, NAMESPACE).is_ok());
        assert_eq!(
            keygen::check_novalidate(b"x", &parsed, NAMESPACE).unwrap_err().reason,
            Reason::BytesDiffer
        );
        assert_eq!(keygen::check_novalidate(MESSAGE, &parsed, "git").unwrap_err().reason, Reason::Namespace);
    }
    let parsed = SshSig::parse_armored(&by_cert).unwrap();
    assert_eq!(
        (parsed.public_key_line(), parsed.short_type()),
        (lab.line("cert"), "ED25519-CERT".to_owned())
    );
}
