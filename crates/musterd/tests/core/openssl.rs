//! Certificates that our own authority does not make.

use std::fs;
use std::process::Command;

use musterd::wire::Proof;

use crate::support::{Operators, handshake};

/// A client of these operators whose certificate names no role.
pub fn client_without_role(operators: &Operators) -> Result<Proof, String> {
    client_of(operators, "/CN=nobody/O=acme")
}

/// A certificate and its key, PEM.
pub struct Files {
    pub certificate: String,
    pub key: String,
}

/// A client of these operators with this subject.
pub fn client_of(operators: &Operators, subject: &str) -> Result<Proof, String> {
    files_of(operators, subject).map(|files| handshake(&files.certificate, &files.key))
}

/// The same, as files, made by openssl(1).
pub fn files_of(operators: &Operators, subject: &str) -> Result<Files, String> {
    muster_needs::tool("/usr/bin/openssl", "openssl")?;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let openssl = |args: &[&str]| {
        let done = Command::new("/usr/bin/openssl").args(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    fs::write(at("ca.pem"), &operators.pem).unwrap();
    fs::write(at("ca.key"), operators.key.as_str()).unwrap();
    fs::write(at("ext"), "extendedKeyUsage=clientAuth\n").unwrap();
    let (key, csr, crt) = (at("key"), at("csr"), at("crt"));
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key]);
    openssl(&["req", "-new", "-key", &key, "-subj", subject, "-out", &csr]);
    openssl(&[
        "x509",
        "-req",
        "-in",
        &csr,
        "-CA",
        &at("ca.pem"),
        "-CAkey",
        &at("ca.key"),
        "-days",
        "1",
        "-set_serial",
        "77",
        "-extfile",
        &at("ext"),
        "-out",
        &crt,
    ]);
    Ok(Files { certificate: fs::read_to_string(crt).unwrap(), key: fs::read_to_string(key).unwrap() })
}
