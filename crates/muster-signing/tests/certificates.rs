//! Certificates made by the real `ssh-keygen` as signers, and as authorities of m of n.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failed test")]
#![allow(clippy::too_many_lines, reason = "a table of cases is read from top to bottom")]

mod support;

use muster_signing::{
    Reason, Refusal, UtcTime,
    allowed_signers::{AllowedSigners, Dialect, ZuluOnly},
    certificate::Certificate,
    key::KeyFault,
    revoked::RevokedSigners,
    sign,
    sshsig::SshSig,
    verify::{Check, Verified, distinct, verify},
};
use support::{Lab, Pieces, Question, SoftSk, signed_data, string, take};

const NAMESPACE: &str = "muster-intent";
const MESSAGE: &[u8] = b"muster-intent: 1\n";
/// 2026-11-30
const NOW: u64 = 1_796_000_000;

fn ours_as(dialect: Dialect, allowed: &str, signature: &[u8], now: u64) -> Result<Verified, Refusal> {
    let signature = SshSig::parse_armored(signature)?;
    let allowed = AllowedSigners::parse_as(dialect, allowed.as_bytes(), &ZuluOnly).unwrap();
    verify(&Check {
        message: MESSAGE,
        signature: &signature,
        namespace: NAMESPACE,
        principal: "muster",
        allowed: &allowed,
        revoked: None,
        now: UtcTime::from_unix(now),
    })
}

fn ours(allowed: &str, signature: &[u8]) -> Result<Verified, Refusal> {
    ours_as(Dialect::Muster, allowed, signature, NOW)
}

fn theirs(lab: &Lab, allowed: &str, signature: &[u8]) -> bool {
    let question = Question {
        signature: signature.to_vec(),
        message: MESSAGE.to_vec(),
        allowed: allowed.as_bytes().to_vec(),
        revoked: None,
        namespace: NAMESPACE.to_owned(),
        principal: "muster".to_owned(),
        now: NOW,
        offset: 0,
    };
    question.ask(&lab.path("")).0
}

fn authority(lab: &Lab) -> String {
    format!("muster cert-authority,namespaces=\"muster-intent\" {}\n", lab.line("ca"))
}

#[test]
fn every_kind_of_key_certified_by_every_kind_of_authority() {
    let lab = Lab::new();
    for (n, (kind, bits)) in
        [("ed25519", None), ("ecdsa", Some(384)), ("rsa", Some(3072))].into_iter().enumerate()
    {
        lab.key(&format!("ca{n}"), kind, bits);
    }
    let kinds = [("ed25519", None), ("ecdsa", Some(256)), ("ecdsa", Some(521)), ("rsa", Some(3072))];
    for (n, (kind, bits)) in kinds.into_iter().enumerate() {
        let key = format!("key{n}");
        lab.key(&key, kind, bits);
        for ca in 0..3 {
            let (ca, cert) = (format!("ca{ca}"), format!("cert{n}{ca}"));
            lab.certify(&cert, &key, &ca, &["-n", "muster", "-z", "7", "-V", "20260101:20270101"]);
            let allowed = format!("muster cert-authority {}\n", lab.line(&ca));
            let sig = lab.sign(&cert, NAMESPACE, "sha512", MESSAGE);
            let verified = ours(&allowed, &sig).unwrap();
            assert_eq!(verified.signer().blob(), lab.blob(&ca), "the identity is the authority's");
            assert_eq!(verified.certificate(), Some(("the key id", 7)));
            assert!(verified.authority().is_some());
            assert!(theirs(&lab, &allowed, &sig));
            // Listed as a plain key, the authority does not vouch for what it certified.
            let not_marked = format!("muster {}\n", lab.line(&ca));
            assert_eq!(ours(&not_marked, &sig).unwrap_err().reason, Reason::KeyUnknown);
            assert!(!theirs(&lab, &not_marked, &sig));
        }
    }
}

#[test]
fn a_listed_authority_is_not_itself_a_signer() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    let sig = lab.sign("ca", NAMESPACE, "sha512", MESSAGE);
    assert_eq!(ours(&authority(&lab), &sig).unwrap_err().reason, Reason::KeyUnknown);
    assert!(!theirs(&lab, &authority(&lab), &sig));
}

#[test]
fn what_a_certificate_must_be() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("other", "ed25519", None);
    lab.key("key", "ed25519", None);
    lab.key("rsaca", "rsa", Some(2048));
    lab.key("oldca", "rsa", Some(3072));
    let (same, stricter) = (false, true);
    let rows: [(&str, &str, &[&str], Reason, bool); 11] = [
        ("another authority", "other", &["-n", "muster"], Reason::KeyUnknown, same),
        ("another principal", "ca", &["-n", "mustard,root"], Reason::Principal, same),
        ("a pattern as principal", "ca", &["-n", "*"], Reason::Principal, same),
        ("no principal", "ca", &[], Reason::Certificate, same),
        ("a host certificate", "ca", &["-h", "-n", "muster"], Reason::Certificate, same),
        ("not valid yet", "ca", &["-n", "muster", "-V", "20270101:20280101"], Reason::KeyNotYetValid, same),
        ("expired", "ca", &["-n", "muster", "-V", "20250101:20260101"], Reason::KeyExpired, same),
        (
            "an unknown critical option",
            "ca",
            &["-n", "muster", "-O", "critical:only-on@example.com=tuesday"],
            Reason::Certificate,
            stricter,
        ),
        (
            "force-command",
            "ca",
            &["-n", "muster", "-O", "force-command=/bin/true"],
            Reason::Certificate,
            stricter,
        ),
        (
            "source-address",
            "ca",
            &["-n", "muster", "-O", "source-address=10.0.0.0/8"],
            Reason::Certificate,
            stricter,
        ),
        (
            "verify-required by a key that cannot",
            "ca",
            &["-n", "muster", "-O", "verify-required"],
            Reason::Certificate,
            stricter,
        ),
    ];
    for (n, (what, ca, args, want, stricter)) in rows.into_iter().enumerate() {
        let cert = format!("cert{n}");
        lab.certify(&cert, "key", ca, args);
        let sig = lab.sign(&cert, NAMESPACE, "sha512", MESSAGE);
        let got = ours(&authority(&lab), &sig).unwrap_err();
        assert_eq!(got.reason, want, "{what}: {got}");
        assert_eq!(theirs(&lab, &authority(&lab), &sig), stricter, "{what}");
    }
    // An extension permits something in a login; one that is not known takes nothing away.
    lab.certify("extended", "key", "ca", &["-n", "muster", "-O", "extension:note@example.com=x"]);
    assert!(ours(&authority(&lab), &lab.sign("extended", NAMESPACE, "sha512", MESSAGE)).is_ok());

    for (cert, ca, kind) in [("weak", "rsaca", "rsa-sha2-512"), ("sha1", "oldca", "ssh-rsa")] {
        lab.certify(cert, "key", ca, &["-n", "muster", "-t", kind]);
        let allowed = format!("muster cert-authority {}\n", lab.line(ca));
        let sig = lab.sign(cert, NAMESPACE, "sha512", MESSAGE);
        assert_eq!(ours(&allowed, &sig).unwrap_err().reason, Reason::Certificate, "{cert}");
        assert!(theirs(&lab, &allowed, &sig), "{cert}");
    }
}

#[test]
fn the_edges_of_a_certificates_life() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("key", "ed25519", None);
    lab.certify("cert", "key", "ca", &["-n", "muster", "-V", "20260101000000:20260102000000"]);
    let sig = lab.sign("cert", NAMESPACE, "sha512", MESSAGE);
    let (from, until) = (1_767_225_600, 1_767_312_000);
    let at = |now| ours_as(Dialect::Muster, &authority(&lab), &sig, now).map(|_| ()).map_err(|r| r.reason);
    assert_eq!(at(from - 1), Err(Reason::KeyNotYetValid));
    assert_eq!(at(from), Ok(()));
    assert_eq!(at(until - 1), Ok(()));
    assert_eq!(at(until), Err(Reason::KeyExpired));
}

#[test]
fn a_changed_certificate_is_not_the_authoritys() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("key", "ed25519", None);
    lab.certify("cert", "key", "ca", &["-n", "muster"]);
    let good = Pieces::of(&lab.sign("cert", NAMESPACE, "sha512", MESSAGE));
    assert!(ours(&authority(&lab), &good.armored()).is_ok());
    for at in 0..good.key.len() {
        let mut changed = good.clone();
        changed.key[at] ^= 1 << (at % 8);
        assert!(ours(&authority(&lab), &changed.armored()).is_err(), "byte {at}");
    }
}

/// The library that reads keys follows a certificate in place of an authority without end.
#[test]
fn certificates_within_certificates_are_refused_before_anything_follows_them() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("key", "ed25519", None);
    lab.certify("cert", "key", "ca", &["-n", "muster"]);
    let plain = lab.blob("cert");
    let nest = |inner: &[u8]| {
        let mut rest = &plain[..];
        let mut out = Vec::new();
        for _ in 0..3 {
            out.extend(string(&take(&mut rest))); // name, nonce, key
        }
        let (head, mut tail) = rest.split_at(8 + 4);
        out.extend(head); // serial, type
        for _ in 0..2 {
            out.extend(string(&take(&mut tail))); // key id, principals
        }
        let (dates, mut tail) = tail.split_at(16);
        out.extend(dates);
        for _ in 0..3 {
            out.extend(string(&take(&mut tail))); // critical options, extensions, reserved
        }
        take(&mut tail);
        out.extend(string(inner));
        out.extend(tail);
        out
    };
    let mut nested = nest(&plain);
    assert_eq!(Certificate::from_blob(&nested).unwrap_err(), KeyFault::Certificate);
    while nested.len() < 60_000 {
        nested = nest(&nested);
        assert_eq!(Certificate::from_blob(&nested).unwrap_err(), KeyFault::Certificate);
        let mut pieces = Pieces::of(&lab.sign("key", NAMESPACE, "sha512", MESSAGE));
        pieces.key = nested.clone();
        assert_eq!(SshSig::parse_blob(&pieces.blob()).unwrap_err().reason, Reason::SignatureMalformed);
    }
    assert_eq!(Certificate::from_blob(&vec![0; 64 * 1024 + 1]).unwrap_err(), KeyFault::TooLarge);
}

#[test]
fn verify_required_is_answered_by_the_authenticator_alone() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("ed", "ed25519", None);
    let sk = SoftSk::new(&lab, "ed");
    lab.write("sk.pub", format!("{} sk\n", sk.line()));
    lab.write("sk", "");
    lab.certify("cert", "sk", "ca", &["-n", "muster", "-O", "verify-required"]);
    let by = |flags| {
        ours(&authority(&lab), &sk.sign(&lab.blob("cert"), NAMESPACE, MESSAGE, flags)).map_err(|r| r.reason)
    };
    assert!(by(0x05).is_ok());
    assert_eq!(by(0x01).map(|_| ()), Err(Reason::Certificate));
    assert_eq!(by(0x04).map(|_| ()), Err(Reason::Algorithm));
    assert!(theirs(&lab, &authority(&lab), &sk.sign(&lab.blob("cert"), NAMESPACE, MESSAGE, 0x05)));
}

#[test]
fn a_certificate_in_place_of_a_key_is_for_the_front_alone() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("key", "ed25519", None);
    lab.certify("cert", "key", "ca", &["-n", "muster", "-V", "19840101:19860101"]);
    let allowed = format!("muster {}\n", lab.line("cert"));
    assert_eq!(AllowedSigners::parse(allowed.as_bytes(), &ZuluOnly).unwrap_err().line, 1);
    let sig = lab.sign("cert", NAMESPACE, "sha512", MESSAGE);
    assert!(ours_as(Dialect::OpenSsh, &allowed, &sig, NOW).is_ok());
    assert!(theirs(&lab, &allowed, &sig), "long expired, and taken");
    let other = lab.sign("key", NAMESPACE, "sha512", MESSAGE);
    assert_eq!(ours_as(Dialect::OpenSsh, &allowed, &other, NOW).unwrap_err().reason, Reason::KeyUnknown);
    let as_authority = format!("muster cert-authority {}\n", lab.line("cert"));
    assert_eq!(ours_as(Dialect::OpenSsh, &as_authority, &sig, NOW).unwrap_err().reason, Reason::KeyUnknown);
}

#[test]
fn m13_all_certificates_of_one_authority_are_one_signer() {
    let lab = Lab::new();
    for name in ["ca", "ca2", "a", "b", "plain"] {
        lab.key(name, "ed25519", None);
    }
    lab.certify("a-cert", "a", "ca", &["-n", "muster"]);
    lab.certify("b-cert", "b", "ca", &["-n", "muster"]);
    lab.certify("a-cert2", "a", "ca2", &["-n", "muster"]);
    let allowed = format!(
        "muster cert-authority {}\nmuster cert-authority {}\nmuster {}\nmuster {}\n",
        lab.line("ca"),
        lab.line("ca2"),
        lab.line("plain"),
        lab.line("a")
    );
    let by = |name: &str| ours(&allowed, &lab.sign(name, NAMESPACE, "sha512", MESSAGE)).unwrap();
    assert_eq!(distinct(&[by("a-cert"), by("b-cert")]), 1);
    assert_eq!(distinct(&[by("a-cert"), by("a-cert2")]), 1, "one key, whoever certifies it");
    assert_eq!(distinct(&[by("a-cert"), by("a")]), 1, "one key, also by its own line");
    assert_eq!(distinct(&[by("b-cert"), by("a-cert2")]), 2);
    assert_eq!(distinct(&[by("plain"), by("plain"), by("a-cert")]), 2);
}

#[test]
fn m13_one_key_is_one_signer_whatever_the_hash_and_however_often_listed() {
    let lab = Lab::new();
    lab.key("rsa", "rsa", Some(3072));
    let allowed = format!("muster {0}\nmuster {0} again\n", lab.line("rsa"));
    let verified: Vec<Verified> = ["sha256", "sha512"]
        .iter()
        .map(|h| ours(&allowed, &lab.sign("rsa", NAMESPACE, h, MESSAGE)).unwrap())
        .collect();
    assert_eq!(distinct(&verified), 1);
    let file = AllowedSigners::parse(allowed.as_bytes(), &ZuluOnly).unwrap();
    assert_eq!(file.identities("muster", NAMESPACE).len(), 1);
}

#[test]
fn m13_a_key_that_is_also_an_authority_is_one_signer() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("key", "ed25519", None);
    lab.certify("cert", "key", "ca", &["-n", "muster"]);
    let allowed = format!("muster {0}\nmuster cert-authority {0}\n", lab.line("ca"));
    let by = |name: &str| ours(&allowed, &lab.sign(name, NAMESPACE, "sha512", MESSAGE)).unwrap();
    assert_eq!(distinct(&[by("ca"), by("cert")]), 1, "whoever holds it could sign both");
}

#[test]
fn m13_identities_are_those_that_could_ever_sign() {
    let lab = Lab::new();
    for name in ["a", "b", "c", "d", "ca"] {
        lab.key(name, "ed25519", None);
    }
    lab.key("weak", "rsa", Some(2048));
    let file = format!(
        "muster {}\nmust* namespaces=\"muster-*\" {}\nother {}\nmuster namespaces=\"git\" {}\n*,!muster {}\nmuster {}\nmuster cert-authority {}\n",
        lab.line("a"),
        lab.line("b"),
        lab.line("c"),
        lab.line("d"),
        lab.line("c"),
        lab.line("weak"),
        lab.line("ca"),
    );
    let file = AllowedSigners::parse(file.as_bytes(), &ZuluOnly).unwrap();
    let mut blobs: Vec<Vec<u8>> = ["a", "b", "ca"].map(|n| lab.blob(n)).into();
    blobs.sort();
    let found = file.identities("muster", NAMESPACE);
    assert_eq!(found.iter().map(|i| i.blob().to_vec()).collect::<Vec<_>>(), blobs);
}

#[test]
fn ve8_two_of_three_passes_and_one_twice_does_not() {
    let lab = Lab::new();
    let mut allowed = String::new();
    for name in ["a", "b", "c"] {
        lab.key(name, "ed25519", None);
        allowed += &format!("muster namespaces=\"muster-intent\" {}\n", lab.line(name));
    }
    let by = |name: &str| {
        ours(&allowed, sign::sign(MESSAGE, NAMESPACE, &lab.signer(name)).unwrap().as_bytes()).unwrap()
    };
    assert_eq!(distinct(&[by("a"), by("c")]), 2);
    assert_eq!(distinct(&[by("a"), by("a")]), 1);
}

#[test]
fn s9_revoking_a_key_its_authority_or_one_certificate() {
    let lab = Lab::new();
    lab.key("ca", "ed25519", None);
    lab.key("key", "ed25519", None);
    lab.key("other", "ed25519", None);
    lab.certify("cert", "key", "ca", &["-n", "muster", "-z", "4294967297"]);
    let sig = lab.sign("cert", NAMESPACE, "sha512", MESSAGE);
    let signer = SshSig::parse_armored(&sig).unwrap();
    let revokes = |list: &[u8]| RevokedSigners::parse(list).unwrap().why_revoked(signer.signer()).is_some();
    let fp = |name: &str| {
        let out = String::from_utf8(lab.keygen(&["-lf", &format!("{name}.pub")]).stdout).unwrap();
        out.split(' ').nth(1).unwrap().to_owned()
    };
    assert!(!revokes(b""));
    for (list, want) in [
        (format!("# nobody\n\n{} comment\r\n", lab.line("other")), false),
        (lab.line("key"), true),
        (lab.line("ca"), true),
        (lab.line("cert"), true),
        (format!("{} lost in May\n", fp("key")), true),
        (fp("ca"), true),
        (fp("other"), false),
    ] {
        assert_eq!(revokes(list.as_bytes()), want, "{list}");
    }
    // The same by KRL, and what only a KRL can say. ssh-keygen -Q judges.
    for (n, (spec, against_ca)) in [
        (format!("{}\n", lab.line("key")), false),
        (format!("{}\n", lab.line("ca")), false),
        (format!("{}\n", lab.line("other")), false),
        (format!("sha256:{}\n", lab.line("key")), false),
        (format!("hash: {}\n", fp("ca")), false),
        ("serial: 4294967297\n".to_owned(), true),
        ("serial: 4294967298\n".to_owned(), true),
        ("serial: 1-4294967296\n".to_owned(), true),
        ("serial: 4294967290-4294967300\n".to_owned(), true),
        ("serial: 4294967290\nserial: 4294967292\nserial: 4294967297\nserial: 4294967299\n".to_owned(), true),
        ("serial: 4294967290\nserial: 4294967292\nserial: 4294967296\nserial: 4294967299\n".to_owned(), true),
        ("id: the key id\n".to_owned(), true),
        ("id: the key\n".to_owned(), true),
        (String::new(), false),
    ]
    .into_iter()
    .enumerate()
    {
        let (krl, spec_file) = (format!("krl{n}"), format!("spec{n}"));
        lab.write(&spec_file, &spec);
        let mut args = vec!["-q", "-k", "-f", &krl];
        if against_ca {
            args.extend(["-s", "ca.pub"]);
        }
        args.push(&spec_file);
        lab.keygen(&args);
        let judged = support::ssh_keygen(&lab.path(""), &["-Q", "-f", &krl, "cert.pub"], None, "UTC");
        assert_eq!(revokes(&lab.read(&krl)), !judged.status.success(), "{spec}");
    }
}

#[test]
fn s9_a_list_that_is_not_understood_is_refused() {
    let lab = Lab::new();
    lab.key("k", "ed25519", None);
    let good = lab.line("k");
    for (list, line) in [
        ("garbage\n".to_owned(), 1),
        (format!("{good}\nssh-ed25519\n"), 2),
        (format!("{good}\n\n# c\n{good}x\n"), 4),
        ("SHA256:abc\n".to_owned(), 1),
        ("SHA1:2jmj7l5rSw0yVb/vlWAYkK/YBwk\n".to_owned(), 1),
        (format!("kpssh {good}\n"), 1),
        (good.replace("ssh-ed25519 ", "ssh-rsa "), 1),
    ] {
        assert_eq!(RevokedSigners::parse(list.as_bytes()).unwrap_err().line, line, "{list}");
    }
    assert!(RevokedSigners::parse(b"\xff\n").is_err());
    lab.write("spec", format!("sha1:{good}\n"));
    lab.keygen(&["-q", "-k", "-f", "krl", "spec"]);
    let fault = RevokedSigners::parse(&lab.read("krl")).unwrap_err();
    assert!(fault.why.contains("SHA-1"), "{fault}");
    // Every cut of a KRL but the one between its sections.
    lab.write("spec", format!("{good}\nid: x\n"));
    lab.keygen(&["-q", "-k", "-f", "krl", "-s", "k.pub", "spec"]);
    let krl = lab.read("krl");
    assert!(!RevokedSigners::parse(&krl).unwrap().is_empty());
    let whole: Vec<usize> = (8..krl.len()).filter(|n| RevokedSigners::parse(&krl[..*n]).is_ok()).collect();
    assert!(whole.len() <= 2, "{whole:?}");
    // A key of a type that never signs here may stand in a list that serves sshd too.
    let dss = [string(b"ssh-dss"), vec![0; 40]].concat();
    let list = format!("ssh-dss {}\n", support::base64(&dss));
    assert!(!RevokedSigners::parse(list.as_bytes()).unwrap().is_empty());
}

#[test]
fn the_signed_data_is_that_of_the_protocol() {
    // The test support writes it down a second time; both must lead ssh-keygen to "good".
    let lab = Lab::new();
    lab.key("ed", "ed25519", None);
    let sk = SoftSk::new(&lab, "ed");
    assert!(
        signed_data(b"ns", "sha256", b"")
            .starts_with(b"SSHSIG\0\0\0\x02ns\0\0\0\0\0\0\0\x06sha256\0\0\0\x20")
    );
    let allowed = format!("muster {}\n", sk.line());
    assert!(theirs(&lab, &allowed, &sk.sign(&sk.blob, NAMESPACE, MESSAGE, 1)));
}
