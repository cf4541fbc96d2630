//! What this crate makes, openssl takes; what openssl makes, this crate judges as openssl does.
#![allow(clippy::disallowed_methods, reason = "openssl(1) is the judge")]
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use muster_core::{Role, UtcTime};
use muster_needs::require;
use muster_tls::{Authority, Fault, Fingerprint, Lifetime, OperatorCa, RevocationList, Revoked, Serving};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// 2026-11-30T00:00:00Z; openssl is told the same time.
const NOW: UtcTime = UtcTime::from_unix(1_795_996_800);
const DAY: u64 = 86_400;

fn serial(n: u8) -> [u8; 16] {
    [n; 16]
}

struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Result<Self, String> {
        Command::new("openssl").arg("version").output().map_err(|e| format!("openssl(1): {e}"))?;
        Ok(Self { dir: tempfile::tempdir().map_err(|e| e.to_string())? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect(name);
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect(name)
    }

    fn der(&self, name: &str) -> Vec<u8> {
        self.run(&["x509", "-in", name, "-outform", "DER", "-out", "der"]);
        fs::read(self.path("der")).expect("der")
    }

    /// Runs openssl in the folder; gives success and all that it said.
    fn try_run(&self, args: &[&str]) -> (bool, String) {
        let out = Command::new("openssl").args(args).current_dir(self.dir.path()).output().expect("openssl");
        let said =
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        (out.status.success(), said)
    }

    fn run(&self, args: &[&str]) -> String {
        let (good, said) = self.try_run(args);
        assert!(good, "openssl {args:?}\n{said}");
        said
    }

    /// An authority of openssl's, with these extensions.
    fn ca(&self, name: &str, algorithm: &[&str], extensions: &[&str]) {
        let (key, pem, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let mut args = vec!["req", "-x509", "-newkey"];
        args.extend(algorithm);
        args.extend(["-nodes", "-keyout", &key, "-out", &pem, "-subj", &subject, "-days", "36500"]);
        extensions.iter().for_each(|e| args.extend(["-addext", e]));
        self.run(&args);
    }

    /// A certificate of openssl's under an authority, for a subject, with extensions and days.
    fn signed(&self, ca: &str, name: &str, subject: &str, algorithm: &[&str], extensions: &str, days: &str) {
        let (key, csr, pem) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        let mut args = vec!["req", "-newkey"];
        args.extend(algorithm);
        args.extend(["-nodes", "-keyout", &key, "-out", &csr, "-subj", subject]);
        self.run(&args);
        self.write("ext", extensions);
        let (ca_pem, ca_key) = (format!("{ca}.pem"), format!("{ca}.key"));
        self.run(&[
            "x509",
            "-req",
            "-in",
            &csr,
            "-CA",
            &ca_pem,
            "-CAkey",
            &ca_key,
            "-CAcreateserial",
            "-out",
            &pem,
            "-days",
            days,
            "-extfile",
            "ext",
        ]);
    }
}

/// The machine's time, since openssl dates what it makes.
fn machine_time() -> UtcTime {
    #[allow(clippy::disallowed_methods, reason = "openssl(1) dates its certificates by the machine's clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    UtcTime::from_unix(now.as_secs() + 60)
}

fn authority() -> (Authority, String) {
    let (authority, made) =
        Authority::make("edge operators", Lifetime::AUTHORITY, NOW, serial(1)).expect("an authority");
    (authority, made.certificate)
}

#[test]
fn openssl_takes_our_authority_and_its_clients() {
    let bench = require!(Bench::new());
    let (authority, ca) = authority();
    bench.write("ca.pem", &ca);
    let issued = authority.issue("alice", Role::Admin, Lifetime::CLIENT, NOW, serial(2)).expect("a client");
    bench.write("alice.pem", &issued.certificate);
    bench.write("alice.key", &issued.key);
    let at = NOW.unix().to_string();
    bench.run(&[
        "verify",
        "-x509_strict",
        "-attime",
        &at,
        "-purpose",
        "sslclient",
        "-CAfile",
        "ca.pem",
        "alice.pem",
    ]);
    let (good, said) =
        bench.try_run(&["verify", "-attime", &at, "-purpose", "sslserver", "-CAfile", "ca.pem", "alice.pem"]);
    assert!(!good, "a client's certificate is for clients only: {said}");
    let text = bench.run(&["x509", "-in", "alice.pem", "-noout", "-text"]);
    for want in [
        "O = muster:admin, CN = alice",
        "CA:FALSE",
        "TLS Web Client Authentication",
        "ecdsa-with-SHA256",
        "Not After : Feb 28 00:00:00 2027",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
    let text = bench.run(&["x509", "-in", "ca.pem", "-noout", "-text"]);
    for want in ["CA:TRUE, pathlen:0", "Certificate Sign, CRL Sign", "CN = edge operators"] {
        assert!(text.contains(want), "{want}\n{text}");
    }
    // The key that was handed out is the certificate's.
    let of_key = bench.run(&["pkey", "-in", "alice.key", "-pubout"]);
    assert_eq!(of_key, bench.run(&["x509", "-in", "alice.pem", "-noout", "-pubkey"]));
    let client = authority.ca().verify_client(&bench.der("alice.pem"), None, NOW).expect("our own client");
    assert_eq!(
        (client.name.as_str(), client.role, client.serial.as_str()),
        ("alice", Some(Role::Admin), issued.serial.as_str())
    );
    let shown = bench.run(&["x509", "-in", "alice.pem", "-noout", "-serial"]);
    assert_eq!(shown.trim().to_lowercase(), format!("serial={}", issued.serial));
}

#[test]
fn fingerprints_are_those_of_openssl() {
    let bench = require!(Bench::new());
    let addresses = ["10.0.0.1".parse().expect("v4"), "fd00::1".parse().expect("v6")];
    let serving = Serving::make("edge-1", &addresses, NOW, serial(9)).expect("a node's certificate");
    fs::write(bench.path("der"), serving.certificate.as_ref()).expect("der");
    let said = bench.run(&["x509", "-inform", "DER", "-in", "der", "-noout", "-fingerprint", "-sha256"]);
    let hex: String =
        serving.fingerprint().bytes().iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(":");
    assert!(said.trim().ends_with(&hex), "{said}{hex}");
    assert_eq!(serving.fingerprint().to_string().parse::<Fingerprint>(), Ok(serving.fingerprint()));
    let text = bench.run(&["x509", "-inform", "DER", "-in", "der", "-noout", "-text"]);
    for want in [
        "DNS:edge-1, IP Address:10.0.0.1, IP Address:FD00:0:0:0:0:0:0:1",
        "TLS Web Server Authentication",
        "Not Before: Nov 29 00:00:00 2026",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
    for bad in ["", "SHA256:", "sha256:AAAA", "SHA256:AAAA", &format!("{}=", serving.fingerprint())] {
        assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
    }
}

#[test]
fn a_nodes_pair_is_opened_as_it_was_kept_and_only_together() {
    let bench = require!(Bench::new());
    let serving = Serving::make("edge-1", &[], NOW, serial(9)).expect("a node's certificate");
    let (certificate, key) = serving.to_pem();
    let again = Serving::open(&certificate, &key).expect("the pair");
    assert_eq!((again.certificate, again.key), (serving.certificate, serving.key));
    // As openssl reads both, they are one pair.
    bench.write("pair.crt", &certificate);
    bench.write("pair.key", &key);
    let of_certificate = bench.run(&["x509", "-in", "pair.crt", "-noout", "-pubkey"]);
    assert_eq!(bench.run(&["pkey", "-in", "pair.key", "-pubout"]), of_certificate);
    let other = Serving::make("edge-1", &[], NOW, serial(9)).expect("another").to_pem();
    assert_eq!(Serving::open(&certificate, &other.1).map(drop), Err(Fault::OtherKey));
    assert!(Serving::open(&key, &certificate).is_err() && Serving::open(&certificate, "").is_err());
}

#[test]
fn the_authority_is_one_certificate_that_may_sign() {
    let bench = require!(Bench::new());
    let ec = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    bench.ca("good", &ec, &[]);
    bench.ca("leaf", &ec, &["basicConstraints=critical,CA:FALSE"]);
    bench.ca("usage", &ec, &["keyUsage=critical,digitalSignature"]);
    let now = machine_time();
    let (good, key) = (bench.read("good.pem"), bench.read("good.key"));
    let ca = OperatorCa::from_pem(&good, now).expect("openssl's authority");
    assert_eq!(ca.name(), "good");
    assert!(matches!(OperatorCa::from_pem(&bench.read("leaf.pem"), now), Err(Fault::NoAuthority(_))));
    assert!(matches!(OperatorCa::from_pem(&bench.read("usage.pem"), now), Err(Fault::NoAuthority(_))));
    assert_eq!(OperatorCa::from_pem(&format!("{good}{key}"), now), Err(Fault::PrivateKey));
    assert_eq!(OperatorCa::from_pem(&key, now), Err(Fault::PrivateKey));
    for hidden in ["\rx", " ", "x"] {
        let glued = format!("{good}{hidden}-----BEGIN EC PRIVATE KEY-----\nbroken");
        assert_eq!(OperatorCa::from_pem(&glued, now), Err(Fault::PrivateKey), "{hidden:?}");
    }
    assert_eq!(OperatorCa::from_pem(&format!("{good}{good}"), now), Err(Fault::Count(2)));
    for bad in [
        "",
        "words",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAA",
    ] {
        assert!(matches!(OperatorCa::from_pem(bad, now), Err(Fault::Malformed(_))), "{bad:?}");
    }
    let late = UtcTime::from_unix(now.unix() + 200 * 365 * DAY);
    assert!(matches!(OperatorCa::from_pem(&good, late), Err(Fault::Ended(_))));
    assert!(OperatorCa::from_pem(&good, UtcTime::from_unix(0)).is_ok(), "a clock that is behind");
    assert_eq!(Authority::open(&good, &bench.read("leaf.key")).err(), Some(Fault::OtherKey));
    assert!(ca.same_key(&ca) && !ca.same_key(authority().0.ca()));
}

/// A node that obeyed an authority whose signatures it cannot verify would let nobody in, for ever.
#[test]
fn an_authority_is_taken_only_with_a_key_that_its_clients_are_verified_by() {
    let bench = require!(Bench::new());
    let now = machine_time();
    let cases: &[(&[&str], bool)] = &[
        (&["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], true),
        (&["ec", "-pkeyopt", "ec_paramgen_curve:P-384"], true),
        (&["ec", "-pkeyopt", "ec_paramgen_curve:P-521"], true),
        (&["ed25519"], true),
        (&["rsa:2048"], true),
        (&["rsa:3072"], true),
        (&["rsa:1024"], false),
        (&["ed448"], false),
        (&["ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"], false),
        (&["ec", "-pkeyopt", "ec_paramgen_curve:secp224r1"], false),
    ];
    bench.run(&[
        "req",
        "-newkey",
        "ed25519",
        "-nodes",
        "-keyout",
        "client.key",
        "-out",
        "client.csr",
        "-subj",
        "/O=muster:admin/CN=x",
    ]);
    bench.write("ext", "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n");
    for (algorithm, taken) in cases {
        bench.ca("ca", algorithm, &["keyUsage=critical,keyCertSign,cRLSign"]);
        let ca = OperatorCa::from_pem(&bench.read("ca.pem"), now);
        assert_eq!(ca.is_ok(), *taken, "{algorithm:?}: {ca:?}");
        // The rule is the same: what is taken is what clients can be verified by.
        let der = muster_tls::one_certificate(&bench.read("ca.pem")).expect("one");
        let ca = OperatorCa::from_der(der).expect("kept if it was pinned");
        let mut sign = vec!["x509", "-req", "-in", "client.csr", "-CA", "ca.pem", "-CAkey", "ca.key"];
        sign.extend(["-CAcreateserial", "-out", "client.pem", "-days", "30", "-extfile", "ext"]);
        if algorithm.iter().any(|a| a.ends_with("P-521")) {
            sign.push("-sha512");
        }
        bench.run(&sign);
        let pem = bench.read("client.pem");
        let der = muster_tls::one_certificate(&pem).expect("one");
        let judged = ca.verify_client(&der, None, now);
        assert_eq!(judged.is_ok(), *taken, "{algorithm:?}: {judged:?}");
    }
}

#[test]
fn clients_are_judged_as_openssl_judges_them() {
    let bench = require!(Bench::new());
    let ec = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    bench.ca("ca", &ec, &["keyUsage=critical,keyCertSign,cRLSign"]);
    bench.ca("stranger", &ec, &[]);
    let client = "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n";
    let admin = "/O=muster:admin/CN=x";
    let cases: &[(&str, &str, &[&str], &str, bool)] = &[
        ("ca", "p256", &ec, client, true),
        ("ca", "p384", &["ec", "-pkeyopt", "ec_paramgen_curve:P-384"], client, true),
        ("ca", "p521", &["ec", "-pkeyopt", "ec_paramgen_curve:P-521"], client, true),
        ("ca", "ed25519", &["ed25519"], client, true),
        ("ca", "rsa", &["rsa:2048"], client, true),
        ("ca", "server", &ec, "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n", false),
        ("ca", "both", &ec, "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n", true),
        ("stranger", "other", &ec, client, false),
        ("ca", "sub", &ec, "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n", false),
    ];
    let now = machine_time();
    let ca = OperatorCa::from_pem(&bench.read("ca.pem"), now).expect("the authority");
    for (issuer, name, algorithm, extensions, good) in cases {
        bench.signed(issuer, name, admin, algorithm, extensions, "30");
        let pem = format!("{name}.pem");
        let ours = ca.verify_client(&bench.der(&pem), None, now);
        assert_eq!(ours.is_ok(), *good, "{name}: {ours:?}");
        let (theirs, said) = bench.try_run(&["verify", "-purpose", "sslclient", "-CAfile", "ca.pem", &pem]);
        // Stricter in one place: an authority is no client.
        assert!(theirs == *good || *name == "sub", "{name}: openssl says {said}");
    }
    assert_eq!(
        ca.verify_client(&bench.der("other.pem"), None, now),
        Err(Fault::OtherIssuer("ca".to_owned()))
    );
    // Who is signed by a client of ours, or by an authority under ours, is nobody: no chains.
    bench.signed("sub", "grandchild", admin, &ec, client, "30");
    assert!(matches!(ca.verify_client(&bench.der("grandchild.pem"), None, now), Err(Fault::OtherIssuer(_))));
    let der = bench.der("p256.pem");
    assert!(matches!(
        ca.verify_client(&der, None, UtcTime::from_unix(now.unix() + 31 * DAY)),
        Err(Fault::Ended(_))
    ));
    assert!(matches!(
        ca.verify_client(&der, None, UtcTime::from_unix(now.unix() - DAY)),
        Err(Fault::NotYet(_))
    ));
    let mut changed = der.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    assert!(ca.verify_client(&changed, None, now).is_err(), "one bit of the signature");
    assert!(ca.verify_client(&[der.as_slice(), b"x"].concat(), None, now).is_err(), "something behind it");
    assert!(ca.verify_client(b"", None, now).is_err());
}

#[test]
fn roles_come_from_the_organisation() {
    let bench = require!(Bench::new());
    let ec = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    bench.ca("ca", &ec, &[]);
    let now = machine_time();
    let ca = OperatorCa::from_pem(&bench.read("ca.pem"), now).expect("the authority");
    let client = "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n";
    for (name, subject, role) in [
        ("none", "/CN=x", None),
        ("unknown", "/O=muster:root/CN=x", None),
        ("in-the-name", "/CN=muster:admin", None),
        ("two", "/O=muster:readonly/O=muster:operator/CN=x", Some(Role::Operator)),
        ("case", "/O=Muster:ADMIN/CN=x", Some(Role::Admin)),
    ] {
        bench.signed("ca", name, subject, &ec, client, "30");
        let found = ca.verify_client(&bench.der(&format!("{name}.pem")), None, now).expect(name);
        assert_eq!(found.role, role, "{name}");
    }
}

fn revoked_by(bench: &Bench, list: &str, certificate: &str) -> bool {
    bench.write("list.pem", list);
    let at = NOW.unix().to_string();
    let (good, said) = bench.try_run(&[
        "verify",
        "-attime",
        &at,
        "-crl_check",
        "-CAfile",
        "ca.pem",
        "-CRLfile",
        "list.pem",
        certificate,
    ]);
    assert!(good || said.contains("certificate revoked"), "{said}");
    !good
}

#[test]
fn lists_of_revoked_clients_are_read_alike() {
    let bench = require!(Bench::new());
    let (authority, ca) = authority();
    bench.write("ca.pem", &ca);
    let mut serials = Vec::new();
    for (name, n) in [("alice.pem", 2), ("bob.pem", 3)] {
        let issued = authority.issue(name, Role::Operator, Lifetime::CLIENT, NOW, serial(n)).expect(name);
        bench.write(name, &issued.certificate);
        serials.push(issued.serial);
    }
    let gone = [Revoked { serial: serials[0].clone(), at: NOW }];
    for all in [&[][..], &gone[..]] {
        let pem = authority.revoke(all, 7, None, NOW).expect("a list");
        let list = RevocationList::read(pem.as_bytes(), authority.ca()).expect("our own list");
        assert_eq!((list.number(), list.next_update(), list.revoked()), ("07", None, all.len()));
        for name in ["alice.pem", "bob.pem"] {
            let ours = authority.ca().verify_client(&bench.der(name), Some(&list), NOW);
            let theirs = revoked_by(&bench, &pem, name);
            assert_eq!(ours == Err(Fault::Revoked), theirs, "{name}: {ours:?}");
            assert_eq!(theirs, name == "alice.pem" && !all.is_empty());
        }
    }
    // Not a list of ours: another authority of the same name, one changed bit, no list at all.
    let (stranger, _) =
        Authority::make("edge operators", Lifetime::AUTHORITY, NOW, serial(1)).expect("a stranger");
    let theirs = stranger.revoke(&gone, 8, None, NOW).expect("a list");
    assert_eq!(
        RevocationList::read(theirs.as_bytes(), authority.ca()).err(),
        Some(Fault::OtherIssuer("edge operators".into()))
    );
    for bad in [&b""[..], b"words", ca.as_bytes()] {
        assert!(RevocationList::read(bad, authority.ca()).is_err());
    }
    let ends = UtcTime::from_unix(NOW.unix() + DAY);
    let pem = authority.revoke(&gone, 255, Some(ends), NOW).expect("a list that ends");
    let list = RevocationList::read(pem.as_bytes(), authority.ca()).expect("it");
    assert_eq!((list.number(), list.next_update()), ("ff", Some(ends)));
    assert!(list.is_after("07") && list.is_after("fe") && !list.is_after("ff") && !list.is_after("0100"));
}

#[test]
fn a_client_does_not_outlive_its_authority() {
    let (authority, made) =
        Authority::make("short", Lifetime { secs: DAY }, NOW, serial(1)).expect("an authority");
    assert!(matches!(
        authority.issue("x", Role::Readonly, Lifetime { secs: DAY + 1 }, NOW, serial(2)),
        Err(Fault::Outlives(..))
    ));
    assert!(authority.issue("x", Role::Readonly, Lifetime { secs: DAY }, NOW, serial(2)).is_ok());
    // Written and opened again, it is the same authority.
    let again = Authority::open(&made.certificate, &made.key).expect("what was written");
    assert_eq!(again.ca(), authority.ca());
    let issued = again.issue("y", Role::Readonly, Lifetime { secs: 60 }, NOW, serial(3)).expect("a client");
    let described = authority.ca().described(&issued.certificate).expect("it");
    assert_eq!((described.serial, described.not_after), (issued.serial.clone(), NOW.plus(60)));
    assert!(!format!("{again:?}").contains("PRIVATE"));
}
