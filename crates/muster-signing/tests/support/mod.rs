//! A folder with keys, certificates and signatures made by the real `ssh-keygen`, which is also
//! the judge.
#![allow(dead_code, reason = "each test binary uses its part of this")]
#![allow(clippy::disallowed_methods, reason = "the judge is a real process")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_docs,
    reason = "a failure here is a failed test"
)]

use muster_signing::{
    UtcTime,
    allowed_signers::LocalTime,
    sign::{KeySigner, Signer as _},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

pub struct Lab {
    dir: tempfile::TempDir,
}

/// A fixed distance from UTC, as `TZ=<abc>-9` sets it for ssh-keygen.
pub struct Offset(pub i64);

impl LocalTime for Offset {
    fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime> {
        let t = UtcTime::from_civil(y, mo, d, h, mi, s)?.unix();
        t.checked_add_signed(-self.0 * 3600).map(UtcTime::from_unix)
    }
}

impl Lab {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs ssh-keygen in the folder; panics when it fails.
    pub fn keygen(&self, args: &[&str]) -> Output {
        let out = ssh_keygen(self.dir.path(), args, None, "UTC");
        assert!(out.status.success(), "ssh-keygen {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        out
    }

    /// Makes a key pair `name`, `name.pub`.
    pub fn key(&self, name: &str, kind: &str, bits: Option<u32>) {
        let bits = bits.map(|b| b.to_string());
        let mut args = vec!["-q", "-t", kind, "-N", "", "-C", name, "-f", name];
        if let Some(bits) = &bits {
            args.extend(["-b", bits]);
        }
        self.keygen(&args);
    }

    /// Certifies the public key `key` and keeps the certificate as `name.pub`, with the private
    /// key beside it so that `-Y sign -f name.pub` finds it.
    pub fn certify(&self, name: &str, key: &str, ca: &str, args: &[&str]) {
        fs::copy(self.path(&format!("{key}.pub")), self.path("subject.pub")).unwrap();
        let mut all = vec!["-q", "-s", ca, "-I", "the key id"];
        all.extend_from_slice(args);
        all.push("subject.pub");
        self.keygen(&all);
        fs::rename(self.path("subject-cert.pub"), self.path(&format!("{name}.pub"))).unwrap();
        fs::copy(self.path(key), self.path(name)).unwrap();
    }

    /// `type base64` of a public key or certificate.
    pub fn line(&self, name: &str) -> String {
        let text = self.text(&format!("{name}.pub"));
        text.split(' ').take(2).collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    pub fn blob(&self, name: &str) -> Vec<u8> {
        unbase64(self.line(name).split(' ').nth(1).unwrap())
    }

    /// A signature by ssh-keygen. `key` may be a certificate's name.
    pub fn sign(&self, key: &str, namespace: &str, hash: &str, message: &[u8]) -> Vec<u8> {
        let option = format!("hashalg={hash}");
        let file = if self.text(&format!("{key}.pub")).contains("-cert-v01") {
            format!("{key}.pub")
        } else {
            key.to_owned()
        };
        let args = ["-q", "-Y", "sign", "-f", &file, "-n", namespace, "-O", &option];
        let out = ssh_keygen(self.dir.path(), &args, Some(message), "UTC");
        assert!(out.status.success(), "sign with {key}: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    pub fn signer(&self, key: &str) -> KeySigner {
        KeySigner::from_openssh(&self.read(key)).unwrap()
    }
}

/// What ssh-keygen is asked.
#[derive(Clone, Debug)]
pub struct Question {
    pub signature: Vec<u8>,
    pub message: Vec<u8>,
    pub allowed: Vec<u8>,
    pub revoked: Option<Vec<u8>>,
    pub namespace: String,
    pub principal: String,
    pub now: u64,
    pub offset: i64,
}

impl Question {
    /// The verdict of `ssh-keygen -Y verify`, with its words. Files go to `dir`.
    pub fn ask(&self, dir: &Path) -> (bool, String) {
        fs::write(dir.join("sig"), &self.signature).unwrap();
        fs::write(dir.join("allowed"), &self.allowed).unwrap();
        let time = format!("verify-time={}", compact(UtcTime::from_unix(self.now)));
        let mut args = vec!["-Y", "verify", "-f", "allowed", "-s", "sig"];
        args.extend(["-I", &self.principal, "-n", &self.namespace, "-O", &time]);
        if let Some(revoked) = &self.revoked {
            fs::write(dir.join("revoked"), revoked).unwrap();
            args.extend(["-r", "revoked"]);
        }
        // POSIX counts west of Greenwich as positive.
        let zone = format!("<abc>{}", -self.offset);
        let out = ssh_keygen(dir, &args, Some(&self.message), &zone);
        let words = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8_lossy(&words).into_owned())
    }
}

/// `YYYYMMDDhhmmssZ`
pub fn compact(time: UtcTime) -> String {
    time.to_string().replace(['-', 'T', ':'], "")
}

pub fn ssh_keygen(dir: &Path, args: &[&str], stdin: Option<&[u8]>, zone: &str) -> Output {
    let mut command = Command::new("ssh-keygen");
    command.current_dir(dir).args(args).env_clear().env("PATH", "/usr/bin:/bin").env("TZ", zone);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A file and not a pipe: ssh-keygen may end before it has read its input.
    match stdin {
        None => command.stdin(Stdio::null()),
        Some(bytes) => {
            let path = dir.join("stdin");
            fs::write(&path, bytes).unwrap();
            command.stdin(fs::File::open(path).unwrap())
        }
    };
    command.output().expect("ssh-keygen is installed")
}

pub fn base64(bytes: &[u8]) -> String {
    use base64ct::Encoding as _;
    base64ct::Base64::encode_string(bytes)
}

pub fn unbase64(text: &str) -> Vec<u8> {
    use base64ct::Encoding as _;
    base64ct::Base64::decode_vec(text).unwrap()
}

/// An SSH string.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// Takes an SSH string off the front.
pub fn take(bytes: &mut &[u8]) -> Vec<u8> {
    let n = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let out = bytes[4..4 + n].to_vec();
    *bytes = &bytes[4 + n..];
    out
}

/// The fields of an SSHSIG blob, to be changed and put together again.
#[derive(Clone, Debug)]
pub struct Pieces {
    pub magic: Vec<u8>,
    pub version: u32,
    pub key: Vec<u8>,
    pub namespace: Vec<u8>,
    pub reserved: Vec<u8>,
    pub hash: Vec<u8>,
    pub signature: Vec<u8>,
    pub tail: Vec<u8>,
}

pub const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
pub const END: &str = "\n-----END SSH SIGNATURE-----\n";

impl Pieces {
    pub fn of(armored: &[u8]) -> Self {
        let text = std::str::from_utf8(armored).unwrap();
        let body = text.strip_prefix(BEGIN).unwrap().strip_suffix(END).unwrap().replace('\n', "");
        let blob = unbase64(&body);
        let mut rest = &blob[10..];
        Self {
            magic: blob[..6].to_vec(),
            version: u32::from_be_bytes(blob[6..10].try_into().unwrap()),
            key: take(&mut rest),
            namespace: take(&mut rest),
            reserved: take(&mut rest),
            hash: take(&mut rest),
            signature: take(&mut rest),
            tail: rest.to_vec(),
        }
    }

    pub fn blob(&self) -> Vec<u8> {
        let mut out = self.magic.clone();
        out.extend(self.version.to_be_bytes());
        for field in [&self.key, &self.namespace, &self.reserved, &self.hash, &self.signature] {
            out.extend(string(field));
        }
        out.extend(&self.tail);
        out
    }

    pub fn armored(&self) -> Vec<u8> {
        armor(&self.blob())
    }
}

pub fn armor(blob: &[u8]) -> Vec<u8> {
    let body = base64(blob);
    let lines: Vec<&str> = body.as_bytes().chunks(70).map(|c| std::str::from_utf8(c).unwrap()).collect();
    format!("{BEGIN}{}{END}", lines.join("\n")).into_bytes()
}

/// What an SSH key signs for a message.
pub fn signed_data(namespace: &[u8], hash: &str, message: &[u8]) -> Vec<u8> {
    use sha2::Digest as _;
    let digest = if hash == "sha256" {
        sha2::Sha256::digest(message).to_vec()
    } else {
        sha2::Sha512::digest(message).to_vec()
    };
    [b"SSHSIG".to_vec(), string(namespace), string(b""), string(hash.as_bytes()), string(&digest)].concat()
}

/// A security key made in software from a plain Ed25519 or P-256 key file (`PROTOCOL.u2f`).
pub struct SoftSk {
    signer: KeySigner,
    pub blob: Vec<u8>,
    name: &'static str,
}

impl SoftSk {
    pub fn new(lab: &Lab, key: &str) -> Self {
        let plain = lab.blob(key);
        let mut rest = &plain[..];
        let ed25519 = take(&mut rest) == b"ssh-ed25519";
        let name = if ed25519 { "sk-ssh-ed25519@openssh.com" } else { "sk-ecdsa-sha2-nistp256@openssh.com" };
        let blob = [string(name.as_bytes()), rest.to_vec(), string(b"ssh:")].concat();
        Self { signer: lab.signer(key), blob, name }
    }

    pub fn line(&self) -> String {
        format!("{} {}", self.name, base64(&self.blob))
    }

    /// The raw signature blob over `data` with these flags.
    pub fn raw(&self, data: &[u8], flags: u8) -> Vec<u8> {
        use sha2::{Digest as _, Sha256};
        let counter = 7u32.to_be_bytes();
        let signed = [&Sha256::digest(b"ssh:")[..], &[flags], &counter, &Sha256::digest(data)[..]].concat();
        let plain = self.signer.sign_raw(&signed).unwrap();
        let mut rest = &plain[..];
        take(&mut rest);
        [string(self.name.as_bytes()), rest.to_vec(), vec![flags], counter.to_vec()].concat()
    }

    pub fn sign(&self, key_blob: &[u8], namespace: &str, message: &[u8], flags: u8) -> Vec<u8> {
        Pieces {
            magic: b"SSHSIG".to_vec(),
            version: 1,
            key: key_blob.to_vec(),
            namespace: namespace.as_bytes().to_vec(),
            reserved: Vec::new(),
            hash: b"sha512".to_vec(),
            signature: self.raw(&signed_data(namespace.as_bytes(), "sha512", message), flags),
            tail: Vec::new(),
        }
        .armored()
    }
}
