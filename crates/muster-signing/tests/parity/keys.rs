//! Everything that takes long to make: keys, certificates, signatures, revocation lists.

use crate::support::{Lab, SoftSk};

pub const NAMESPACES: [&str; 3] = ["ns", "kpssh", "file"];
pub const MESSAGES: [&[u8]; 3] = [b"hello\n", b"", b"\x00\xff\r\nbinary\n"];

/// Somebody who signs.
pub struct Signer {
    /// `type base64` of the plain key.
    pub line: String,
    /// `type base64` of the certificate, where there is one.
    pub certificate: Option<String>,
    /// The authority that certified.
    pub authority: Option<&'static str>,
    /// What is special about whatever it signs.
    pub tags: Vec<&'static str>,
    /// Namespace, message, armoured signature.
    pub signed: Vec<(usize, usize, Vec<u8>)>,
}

pub struct Keys {
    pub signers: Vec<Signer>,
    /// Name and line.
    pub authorities: Vec<(&'static str, String)>,
    /// Binary KRLs, and a tag where ours does not take one.
    pub krls: Vec<(Vec<u8>, Option<&'static str>)>,
}

type Kind = (&'static str, &'static str, Option<u32>, &'static [&'static str]);

const PLAIN: [Kind; 7] = [
    ("ed1", "ed25519", None, &[]),
    ("ed2", "ed25519", None, &[]),
    ("p256", "ecdsa", Some(256), &[]),
    ("p384", "ecdsa", Some(384), &[]),
    ("p521", "ecdsa", Some(521), &[]),
    ("rsa", "rsa", Some(3072), &[]),
    ("weak", "rsa", Some(2048), &["rsa-size"]),
];

const AUTHORITIES: [(&str, &str, Option<u32>); 4] = [
    ("ca-ed", "ed25519", None),
    ("ca-p256", "ecdsa", Some(256)),
    ("ca-rsa", "rsa", Some(3072)),
    ("ca-weak", "rsa", Some(2048)),
];

type Cert = (&'static str, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const LIFE: &str = "20260101000000:20270101000000";

/// Name, key, authority, arguments, tags.
const CERTIFICATES: [Cert; 15] = [
    ("c-ed", "ed1", "ca-ed", &["-n", "alice,p", "-V", LIFE, "-z", "5"], &[]),
    ("c-ed-p256", "ed2", "ca-p256", &["-n", "p", "-V", LIFE], &[]),
    ("c-p256-rsa", "p256", "ca-rsa", &["-n", "p,bob", "-V", LIFE, "-z", "7"], &[]),
    ("c-p384", "p384", "ca-ed", &["-n", "p", "-z", "9"], &[]),
    ("c-p521", "p521", "ca-p256", &["-n", "alice", "-V", LIFE], &[]),
    ("c-rsa", "rsa", "ca-rsa", &["-n", "p", "-V", LIFE, "-t", "rsa-sha2-256"], &[]),
    ("c-weak", "weak", "ca-ed", &["-n", "p"], &["rsa-size"]),
    ("c-host", "ed1", "ca-ed", &["-h", "-n", "p"], &[]),
    ("c-none", "ed1", "ca-ed", &[], &[]),
    ("c-star", "ed1", "ca-ed", &["-n", "*"], &[]),
    ("c-option", "ed1", "ca-ed", &["-n", "p", "-O", "critical:a@example.com=b"], &["certificate-option"]),
    ("c-force", "ed1", "ca-ed", &["-n", "p", "-O", "force-command=x"], &["certificate-option"]),
    ("c-extended", "ed1", "ca-ed", &["-n", "p", "-O", "extension:a@example.com=b"], &[]),
    ("c-sha1", "ed1", "ca-rsa", &["-n", "p", "-t", "ssh-rsa"], &["certificate-authority"]),
    ("c-weak-ca", "ed1", "ca-weak", &["-n", "p"], &["certificate-authority"]),
];

impl Keys {
    pub fn new() -> Self {
        let lab = Lab::new();
        let mut signers = Vec::new();
        for (name, kind, bits, tags) in PLAIN {
            lab.key(name, kind, bits);
            signers.push(Signer {
                line: lab.line(name),
                certificate: None,
                authority: None,
                tags: tags.to_vec(),
                signed: sign_all(&lab, name),
            });
        }
        let mut authorities = Vec::new();
        for (name, kind, bits) in AUTHORITIES {
            lab.key(name, kind, bits);
            authorities.push((name, lab.line(name)));
        }
        for (name, key, ca, args, tags) in CERTIFICATES {
            lab.certify(name, key, ca, args);
            signers.push(Signer {
                line: lab.line(key),
                certificate: Some(lab.line(name)),
                authority: Some(ca),
                tags: tags.to_vec(),
                signed: sign_all(&lab, name),
            });
        }
        for (key, flags, tags) in [
            ("ed2", 1, &[][..]),
            ("p256", 5, &[]),
            ("ed1", 0, &["sk-untouched"]),
            ("p256", 4, &["sk-untouched"]),
        ] {
            let sk = SoftSk::new(&lab, key);
            let sign = |n: usize| (n, n, sk.sign(&sk.blob, NAMESPACES[n], MESSAGES[n], flags));
            signers.push(Signer {
                line: sk.line(),
                certificate: None,
                authority: None,
                tags: tags.to_vec(),
                signed: (0..3).map(sign).collect(),
            });
        }
        let krls = krls(&lab);
        Self { signers, authorities, krls }
    }
}

/// By ssh-keygen and, where it can, by this crate.
fn sign_all(lab: &Lab, name: &str) -> Vec<(usize, usize, Vec<u8>)> {
    let mut out = Vec::new();
    for (n, hash) in [(0, "sha512"), (1, "sha256")] {
        out.push((n, n, lab.sign(name, NAMESPACES[n], hash, MESSAGES[n])));
    }
    let plain = !lab.line(name).contains("-cert-v01");
    if plain && !lab.line(name).contains("ssh-rsa") {
        let ours = muster_signing::sign::sign(MESSAGES[2], NAMESPACES[2], &lab.signer(name)).unwrap();
        out.push((2, 2, ours.into_bytes()));
    } else {
        out.push((2, 2, lab.sign(name, NAMESPACES[2], "sha512", MESSAGES[2])));
    }
    out
}

fn krls(lab: &Lab) -> Vec<(Vec<u8>, Option<&'static str>)> {
    let specs: [(String, Option<&str>, Option<&'static str>); 9] = [
        (lab.line("ed1"), None, None),
        (lab.line("rsa"), None, None),
        (format!("{}\n{}", lab.line("p256"), lab.line("ca-rsa")), None, None),
        (format!("sha256:{}", lab.line("ed2")), None, None),
        ("serial: 5\nserial: 8".to_owned(), Some("ca-ed"), None),
        ("serial: 6-9".to_owned(), Some("ca-rsa"), None),
        ("id: the key id".to_owned(), Some("ca-p256"), None),
        (String::new(), None, None),
        (format!("sha1:{}", lab.line("p384")), None, Some("krl-sha1")),
    ];
    let make = |(n, (spec, ca, tag)): (usize, (String, Option<&str>, Option<&'static str>))| {
        let (spec_file, krl) = (format!("krl-spec{n}"), format!("krl{n}"));
        lab.write(&spec_file, format!("{spec}\n"));
        let ca = ca.map(|ca| format!("{ca}.pub"));
        let mut args = vec!["-q", "-k", "-f", &krl];
        if let Some(ca) = &ca {
            args.extend(["-s", ca]);
        }
        args.push(&spec_file);
        lab.keygen(&args);
        (lab.read(&krl), tag)
    };
    specs.into_iter().enumerate().map(make).collect()
}
