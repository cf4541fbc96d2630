//! m of n counts people, as far as keys can tell: judged on signatures that the real `ssh-keygen` made.
#![allow(clippy::disallowed_methods, reason = "the vectors are made by the real ssh-keygen")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use muster_core::UtcTime;
use muster_signing::allowed_signers::{AllowedSigners, ZuluOnly};
use muster_signing::sshsig::SshSig;
use muster_signing::verify::{Check, Verified, distinct, verify};
use std::path::Path;
use std::process::{Command, Stdio};

const NOW: UtcTime = UtcTime::from_unix(1_795_910_400);

fn keygen(dir: &Path, args: &[&str]) {
    let out = Command::new("ssh-keygen").current_dir(dir).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "ssh-keygen {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn sign(dir: &Path, key: &str) -> SshSig {
    keygen(dir, &["-q", "-Y", "sign", "-f", key, "-n", "muster-intent", "message"]);
    let sig = std::fs::read(dir.join("message.sig")).unwrap();
    std::fs::remove_file(dir.join("message.sig")).unwrap();
    SshSig::parse_armored(&sig).unwrap()
}

fn public(dir: &Path, key: &str) -> String {
    std::fs::read_to_string(dir.join(format!("{key}.pub"))).unwrap()
}

#[test]
fn m13_one_key_is_one_signer_also_through_its_certificate() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path();
    for key in ["ca", "k1", "k2", "k3"] {
        keygen(dir, &["-q", "-t", "ed25519", "-N", "", "-C", key, "-f", key]);
    }
    for key in ["k1", "k2"] {
        keygen(dir, &["-q", "-s", "ca", "-I", key, "-n", "muster", &format!("{key}.pub")]);
    }
    std::fs::write(dir.join("message"), b"an intent\n").unwrap();
    let file = format!(
        "muster {}muster cert-authority {}muster {}",
        public(dir, "k1"),
        public(dir, "ca"),
        public(dir, "k3")
    );
    let allowed = AllowedSigners::parse(file.as_bytes(), &ZuluOnly).unwrap();
    let one = |key: &str| -> Verified {
        verify(&Check {
            message: b"an intent\n",
            signature: &sign(dir, key),
            namespace: "muster-intent",
            principal: "muster",
            allowed: &allowed,
            revoked: None,
            now: NOW,
        })
        .unwrap()
    };
    let plain1 = one("k1");
    let cert1 = one("k1-cert.pub");
    let cert2 = one("k2-cert.pub");
    let plain3 = one("k3");
    assert_ne!(plain1.signer(), cert1.signer(), "the plain rule alone would count these as two");
    assert_eq!(distinct(&[]), 0);
    assert_eq!(distinct(&[plain1.clone(), plain1.clone()]), 1, "the same key twice");
    assert_eq!(distinct(&[plain1.clone(), cert1.clone()]), 1, "one key, two identities");
    assert_eq!(distinct(&[cert1.clone(), cert2.clone()]), 1, "one authority, two keys");
    assert_eq!(distinct(&[plain1.clone(), cert2.clone()]), 2, "nothing joins these two");
    assert_eq!(distinct(&[plain1.clone(), cert2.clone(), cert1.clone()]), 1, "the third joins them");
    assert_eq!(distinct(&[plain1, cert2, plain3]), 3);
}
