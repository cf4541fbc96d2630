//! Whom a host must be.

use muster_ssh::testing::{KeyPair, Setup, Sshd, client, run};
use muster_ssh::{
    Address, Authority, Basis, Cause, CertificateFault, ConnectError, Connection, Fault, Hop, HostTrust,
    KnownHosts, Limits, Retry, Route, Status, TrustFault, require_sshd_or_skip,
};

use crate::brisk;

async fn connect(hop: Hop) -> Result<Connection, ConnectError> {
    client().connect(&Route::direct(hop.timing(brisk()))).await
}

async fn works(sshd: &Sshd, trust: HostTrust) -> Connection {
    let hop = sshd.hop_with("host", trust).identity(sshd.login().identity());
    let connection = connect(hop).await.unwrap_or_else(|e| panic!("{e}\n{}", sshd.log()));
    let out = connection.exec("echo hi", b"", Limits::default()).await.unwrap();
    assert_eq!(out.status, Status::Exited(0));
    assert_eq!(out.stdout.bytes, b"hi\n");
    connection
}

async fn refused(sshd: &Sshd, trust: HostTrust) -> ConnectError {
    let hop = sshd.hop_with("host", trust).identity(sshd.login().identity());
    let error = connect(hop).await.expect_err("must be refused");
    assert!(!sshd.log().contains("Accepted"), "{}", sshd.log());
    assert_eq!(error.fault(), Fault::Trust, "{error}");
    assert_eq!(error.retry(), Retry::Useless, "{error}");
    error
}

fn many() -> Setup {
    let kinds = ["ed25519", "ecdsa-256", "ecdsa-384", "ecdsa-521", "rsa-2048"];
    // OpenSSH loads one key of each type by default; each is named here.
    Setup { host_keys: kinds.map(str::to_owned).to_vec(), ..Setup::default() }
}

fn connections(sshd: &Sshd) -> usize {
    sshd.log().matches("Connection from").count()
}

#[tokio::test]
async fn each_kind_of_key_can_be_pinned_and_only_it_is_asked_for() {
    require_sshd_or_skip!();
    for kind in ["ed25519", "ecdsa-256", "ecdsa-384", "ecdsa-521", "rsa-2048", "rsa-4096"] {
        let mut kinds = vec!["ed25519".to_owned(), "rsa-2048".to_owned()];
        if !kinds.iter().any(|k| k == kind) {
            let family = kind.split('-').next().unwrap();
            kinds.retain(|k| !k.starts_with(family));
            kinds.push(kind.to_owned());
        }
        let sshd = Sshd::start_with(Setup { host_keys: kinds.clone(), ..Setup::default() });
        let index = kinds.iter().position(|k| k == kind).unwrap();
        let pinned = &sshd.host_keys()[index];
        let connection = works(&sshd, HostTrust::parse(&pinned.public()).unwrap()).await;
        assert_eq!(connection.report().fingerprint, pinned.fingerprint(), "{kind}");
        assert_eq!(connection.report().basis, Basis::PinnedKey);
        let line = connection.report().key_line().unwrap();
        assert!(pinned.public().starts_with(&line), "{line}");
        assert_eq!(connections(&sshd), 1, "{kind}: one handshake is enough when the kind is known");
        assert!(connection.report().algorithms.strict, "this sshd has strict key exchange");
    }
}

#[tokio::test]
async fn a_bare_fingerprint_finds_its_key_among_many() {
    require_sshd_or_skip!();
    let sshd = Sshd::start_with(many());
    for key in sshd.host_keys() {
        let text = key.fingerprint().to_string();
        let connection = works(&sshd, HostTrust::parse(&text).unwrap()).await;
        assert_eq!(connection.report().fingerprint, key.fingerprint());
    }
    // The line from `ssh-keygen -l` names the kind, so that one handshake does.
    let before = connections(&sshd);
    let rsa = sshd.host_keys().last().unwrap();
    let listing = run("/usr/bin/ssh-keygen", &["-l", "-f", rsa.public_path().to_str().unwrap()]);
    works(&sshd, HostTrust::parse(&listing).unwrap()).await;
    assert_eq!(connections(&sshd), before + 1);
}

#[tokio::test]
async fn st1_the_kind_of_a_bare_fingerprint_is_learned_once() {
    require_sshd_or_skip!();
    let sshd = Sshd::start_with(many());
    let rsa = sshd.host_keys().last().unwrap();
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let teller = std::sync::Arc::clone(&told);
    let client = client().on_login(move |report| teller.lock().unwrap().push(report.key_line()));
    let trust = HostTrust::parse(&rsa.fingerprint().to_string()).unwrap();
    for _ in 0..3 {
        let hop = sshd.hop_with("edge-1", trust.clone()).identity(sshd.login().identity());
        client.connect(&Route::direct(hop)).await.unwrap().close().await;
    }
    let logins = sshd.log().matches("Accepted publickey").count();
    let first = sshd.host_keys().len();
    assert_eq!((logins, connections(&sshd)), (3, first + 2), "only the first search costs connections");
    // What is told can be pinned in its place, so that the next process searches for nothing.
    let told = told.lock().unwrap();
    let lines: Vec<&str> = told.iter().flatten().map(String::as_str).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| rsa.public().starts_with(line)), "{lines:?}");
}

#[tokio::test]
async fn a_bare_fingerprint_that_is_none_of_the_hosts_lists_all_it_showed() {
    require_sshd_or_skip!();
    let sshd = Sshd::start_with(Setup {
        host_keys: vec!["ed25519".to_owned(), "rsa-2048".to_owned()],
        ..Setup::default()
    });
    let other = KeyPair::generate(sshd.dir(), "other", "ed25519");
    let error = refused(&sshd, HostTrust::parse(&other.fingerprint().to_string()).unwrap()).await;
    let Cause::HostKeyChanged { pinned, presented } = error.cause() else { panic!("{error}") };
    assert_eq!(pinned, &[other.fingerprint()]);
    let shown: Vec<_> = presented.iter().map(|(_, fp)| *fp).collect();
    assert_eq!(shown, sshd.host_keys().iter().map(KeyPair::fingerprint).collect::<Vec<_>>());
}

#[tokio::test]
async fn st5_a_changed_host_key_names_old_and_new_and_is_tried_once() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let old = KeyPair::generate(sshd.dir(), "old", "ed25519");
    let trust = HostTrust::parse(&old.public()).unwrap();
    let hop = sshd.hop_with("edge-1", trust).identity(sshd.login().identity());
    // With the default policy, which tries flakes three times.
    let error = client().connect(&Route::direct(hop)).await.unwrap_err();
    let Cause::HostKeyChanged { pinned, presented } = error.cause() else { panic!("{error}") };
    assert_eq!(pinned, &[old.fingerprint()]);
    assert_eq!(presented, &[("ssh-ed25519".to_owned(), sshd.host_key().fingerprint())]);
    assert_eq!((error.code(), error.attempts()), ("host-key-changed", 1));
    let text = error.to_string();
    for part in
        ["edge-1", &old.fingerprint().to_string(), &sshd.host_key().fingerprint().to_string(), "rotate-key"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains('\n'));
    assert!(sshd.wait_log("Connection closed") || sshd.wait_log("Connection reset"));
    assert_eq!(connections(&sshd), 1, "a refusal is not tried again");
    assert!(!sshd.log().contains("userauth"), "no user was ever named to it");
}

#[tokio::test]
async fn st8_nothing_pinned_is_no_trust_and_nothing_turns_the_check_off() {
    require_sshd_or_skip!();
    assert_eq!(HostTrust::builder().build(), Err(TrustFault::Nothing));
    let fp = muster_ssh::Fingerprint::of_blob(b"x");
    assert_eq!(HostTrust::builder().revoke(fp).build(), Err(TrustFault::Nothing));
    let empty = KnownHosts::parse("empty", b"").unwrap();
    assert_eq!(empty.trust(&Address::parse("edge-1").unwrap(), 22), Err(TrustFault::Nothing));
    // The variables and options by which other clients are made to look away.
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let shipped = path.file_name().unwrap() != "testing.rs";
        for word in ["env::var", "accept_new", "danger_", "insecure", "skip_host"] {
            assert!(!shipped || !text.contains(word), "{}: {word}", path.display());
        }
    }
}

#[tokio::test]
async fn known_hosts_patterns_hashes_and_revocation_over_a_real_host() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let key = sshd.host_key().public();
    let (port, address) = (sshd.port(), sshd.address());
    let trust = |text: &str| KnownHosts::parse("kh", text.as_bytes()).unwrap().trust(&address, port);
    for line in [
        format!("[127.0.0.1]:{port} {key}"),
        format!("[127.0.0.*]:{port} {key}"),
        format!("other,[127.0.0.?]:{port},!nobody {key}"),
    ] {
        works(&sshd, trust(&line).unwrap()).await;
    }
    for line in [format!("127.0.0.1 {key}"), format!("[127.0.0.*]:{port},![127.0.0.1]:{port} {key}")] {
        assert_eq!(trust(&line), Err(TrustFault::Nothing), "{line}");
    }
    // Hashed by the real tool.
    let file = sshd.dir().join("kh");
    std::fs::write(&file, format!("[127.0.0.1]:{port} {key}\n")).unwrap();
    run("/usr/bin/ssh-keygen", &["-q", "-H", "-f", file.to_str().unwrap()]);
    let hashed = std::fs::read_to_string(&file).unwrap();
    assert!(hashed.starts_with("|1|"), "{hashed}");
    works(&sshd, trust(&hashed).unwrap()).await;
    let elsewhere = KnownHosts::parse("kh", hashed.as_bytes()).unwrap();
    assert_eq!(elsewhere.trust(&address, port ^ 1), Err(TrustFault::Nothing));
    // A revoked key refuses although it is pinned two lines above.
    let sshd = Sshd::start();
    let (port, key) = (sshd.port(), sshd.host_key().public());
    let text = format!("[127.0.0.1]:{port} {key}\n# gone\n@revoked * {key}\n");
    let trust = KnownHosts::parse("kh", text.as_bytes()).unwrap().trust(&address, port).unwrap();
    let error = refused(&sshd, trust).await;
    assert_eq!(error.code(), "host-key-refused");
    assert!(error.to_string().contains("@revoked"), "{error}");
}

/// An sshd whose host key carries a certificate.
struct Certified {
    sshd: Sshd,
    ca: KeyPair,
}

fn certified(ca: &str, host: &str, args: &[&str]) -> Certified {
    let dir = tempfile::TempDir::with_prefix("muster-sshd-").unwrap();
    let ca = KeyPair::generate(dir.path(), "ca", ca);
    let host = KeyPair::generate(dir.path(), "host", host);
    let login = KeyPair::generate(dir.path(), "login", "ed25519");
    let cert = ca.certify(&host, "the-host", args);
    let config = vec![format!("HostCertificate {}", cert.display())];
    let setup = Setup { config, ..Setup::default() };
    Certified { sshd: Sshd::start_in(dir, &setup, vec![host], login), ca }
}

fn authority(c: &Certified, names: &[&str]) -> HostTrust {
    let authority = Authority::new(&c.ca.public(), names.iter().copied()).unwrap();
    HostTrust::builder().authority(authority).build().unwrap()
}

#[tokio::test]
async fn host_certificates_of_every_kind_under_authorities_of_every_kind() {
    require_sshd_or_skip!();
    for (ca, host) in [
        ("ed25519", "ed25519"),
        ("ed25519", "rsa-2048"),
        ("ecdsa-256", "ecdsa-521"),
        ("ecdsa-384", "ed25519"),
        ("ecdsa-521", "ecdsa-384"),
        ("rsa-3072", "ecdsa-256"),
        ("rsa-2048", "rsa-3072"),
    ] {
        let c = certified(ca, host, &["-h", "-n", "edge-1,127.0.0.1", "-V", "-5m:+1h", "-z", "42"]);
        let connection = works(&c.sshd, authority(&c, &["edge-1"])).await;
        let Basis::Certificate { authority, key_id, serial, .. } = &connection.report().basis else {
            panic!("{ca} {host}")
        };
        assert_eq!(
            (*authority, key_id.as_str(), *serial),
            (c.ca.fingerprint(), "the-host", 42),
            "{ca} {host}"
        );
        // Through a known_hosts line, where the name is the address.
        let line = format!("@cert-authority *:{} {}", c.sshd.port(), c.ca.public());
        let known = KnownHosts::parse("kh", line.as_bytes()).unwrap();
        works(&c.sshd, known.trust(&c.sshd.address(), c.sshd.port()).unwrap()).await;
    }
}

#[tokio::test]
async fn a_host_certificate_that_does_not_speak_for_the_host_is_refused() {
    require_sshd_or_skip!();
    let why = |error: &ConnectError| match error.cause() {
        Cause::HostCertificateRefused(fault) => fault.clone(),
        other => panic!("{other:?}"),
    };
    let c = certified("ed25519", "ed25519", &["-h", "-n", "other", "-V", "-5m:+1h"]);
    let error = refused(&c.sshd, authority(&c, &["edge-1", "edge-1.example"])).await;
    let CertificateFault::Principal { named, wanted } = why(&error) else { panic!("{error}") };
    assert_eq!(
        (named, wanted),
        (vec!["other".to_owned()], vec!["edge-1".to_owned(), "edge-1.example".to_owned()])
    );

    // A pattern in a certificate is a name like any other.
    let c = certified("ed25519", "ed25519", &["-h", "-n", "*", "-V", "-5m:+1h"]);
    assert!(matches!(
        why(&refused(&c.sshd, authority(&c, &["edge-1"])).await),
        CertificateFault::Principal { .. }
    ));

    let c = certified("ed25519", "ed25519", &["-h", "-n", "edge-1", "-V", "-2h:-1h"]);
    assert!(matches!(
        why(&refused(&c.sshd, authority(&c, &["edge-1"])).await),
        CertificateFault::Expired { .. }
    ));

    let c = certified("ed25519", "ed25519", &["-h", "-n", "edge-1", "-V", "+1h:+2h"]);
    assert!(matches!(
        why(&refused(&c.sshd, authority(&c, &["edge-1"])).await),
        CertificateFault::NotYetValid { .. }
    ));

    // st16: nobody named is nobody, not everybody.
    let c = certified("ed25519", "ed25519", &["-h", "-V", "-5m:+1h"]);
    assert_eq!(why(&refused(&c.sshd, authority(&c, &["edge-1"])).await), CertificateFault::NoPrincipal);

    let c = certified("ed25519", "ed25519", &["-n", "edge-1", "-V", "-5m:+1h"]);
    assert_eq!(why(&refused(&c.sshd, authority(&c, &["edge-1"])).await), CertificateFault::NotAHost);

    let c = certified(
        "ed25519",
        "ed25519",
        &["-h", "-n", "edge-1", "-O", "critical:x@example=1", "-V", "-5m:+1h"],
    );
    assert_eq!(
        why(&refused(&c.sshd, authority(&c, &["edge-1"])).await),
        CertificateFault::CriticalOption("x@example".to_owned())
    );

    let c = certified("ed25519", "ed25519", &["-h", "-n", "edge-1", "-V", "-5m:+1h"]);
    let stranger = KeyPair::generate(c.sshd.dir(), "stranger", "ed25519");
    let trust = Authority::new(&stranger.public(), ["edge-1"]).unwrap();
    let error = refused(&c.sshd, HostTrust::builder().authority(trust).build().unwrap()).await;
    let CertificateFault::Authority { presented, pinned } = why(&error) else { panic!("{error}") };
    assert_eq!((presented, pinned), (c.ca.fingerprint(), vec![stranger.fingerprint()]));
}

#[tokio::test]
async fn st13_an_authority_that_signs_with_sha1_is_refused() {
    require_sshd_or_skip!();
    let c = certified("rsa-2048", "ed25519", &["-t", "ssh-rsa", "-h", "-n", "edge-1", "-V", "-5m:+1h"]);
    let error = refused(&c.sshd, authority(&c, &["edge-1"])).await;
    assert!(
        matches!(error.cause(), Cause::HostCertificateRefused(CertificateFault::Algorithm(a)) if a.contains("ssh-rsa")),
        "{error}"
    );
}

#[tokio::test]
async fn a_revoked_authority_or_certified_key_is_refused() {
    require_sshd_or_skip!();
    for revoke_key in [false, true] {
        let c = certified("ed25519", "ed25519", &["-h", "-n", "edge-1", "-V", "-5m:+1h"]);
        let revoked = if revoke_key { c.sshd.host_key().fingerprint() } else { c.ca.fingerprint() };
        let authority = Authority::new(&c.ca.public(), ["edge-1"]).unwrap();
        let trust = HostTrust::builder().authority(authority).revoke(revoked).build().unwrap();
        let error = refused(&c.sshd, trust).await;
        assert!(error.to_string().contains(&revoked.to_string()), "{error}");
    }
}

#[tokio::test]
async fn where_a_certificate_is_required_a_plain_key_does_not_do() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let ca = KeyPair::generate(sshd.dir(), "ca", "ed25519");
    let trust = Authority::new(&ca.public(), ["edge-1"]).unwrap();
    let hop = sshd.hop_with("host", HostTrust::builder().authority(trust).build().unwrap());
    let error = connect(hop.identity(sshd.login().identity())).await.unwrap_err();
    let Cause::HostCertificateRefused(CertificateFault::Absent { offers }) = error.cause() else {
        panic!("{error}")
    };
    assert_eq!(offers, &["ssh-ed25519"]);
    assert_eq!((error.fault(), error.retry()), (Fault::Trust, Retry::Useless));
}

#[tokio::test]
async fn a_host_without_any_key_of_the_pinned_kind_has_changed() {
    require_sshd_or_skip!();
    let sshd = Sshd::start_with(Setup { host_keys: vec!["rsa-2048".to_owned()], ..Setup::default() });
    let old = KeyPair::generate(sshd.dir(), "old", "ed25519");
    let error = refused(&sshd, HostTrust::parse(&old.public()).unwrap()).await;
    let Cause::HostKeyKindGone { pinned, offers } = error.cause() else { panic!("{error}") };
    assert_eq!(pinned, &[old.fingerprint()]);
    assert!(offers.iter().any(|o| o == "rsa-sha2-512"), "{offers:?}");
    assert_eq!(error.code(), "host-key-changed");
}

#[tokio::test]
async fn pin_and_authority_together_take_either() {
    require_sshd_or_skip!();
    let c = certified("ed25519", "ed25519", &["-h", "-n", "edge-1", "-V", "-5m:+1h"]);
    let plain = Sshd::start();
    let authority = Authority::new(&c.ca.public(), ["edge-1"]).unwrap();
    let trust =
        HostTrust::builder().authority(authority).key(&plain.host_key().public()).unwrap().build().unwrap();
    assert!(matches!(works(&c.sshd, trust.clone()).await.report().basis, Basis::Certificate { .. }));
    assert_eq!(works(&plain, trust).await.report().basis, Basis::PinnedKey);
    // A pinned key stays one when it comes in a certificate that nobody here vouches for.
    let expired = certified("ed25519", "ed25519", &["-h", "-n", "edge-1", "-V", "-2h:-1h"]);
    let authority = Authority::new(&c.ca.public(), ["edge-1"]).unwrap();
    let key = expired.sshd.host_key();
    let trust = HostTrust::builder().authority(authority).key(&key.public()).unwrap();
    let connection = works(&expired.sshd, trust.clone().build().unwrap()).await;
    assert_eq!(connection.report().basis, Basis::PinnedKey);
    assert!(connection.report().key_line().is_none(), "what came was a certificate");
    // Unless it is revoked.
    let expired = certified("ed25519", "ed25519", &["-h", "-n", "edge-1", "-V", "-2h:-1h"]);
    let key = expired.sshd.host_key();
    let trust = trust.key(&key.public()).unwrap().revoke(key.fingerprint()).build().unwrap();
    assert_eq!(refused(&expired.sshd, trust).await.code(), "host-key-refused");
}

#[tokio::test]
async fn old_servers_terrapin_and_sha1() {
    require_sshd_or_skip!();
    // An sshd with nothing but what is refused.
    for (line, code) in [
        ("Ciphers aes128-cbc", "no-common-algorithm"),
        ("KexAlgorithms diffie-hellman-group14-sha1", "no-common-algorithm"),
        ("MACs hmac-sha1\nCiphers aes128-ctr", "no-common-algorithm"),
    ] {
        let sshd = Sshd::start_with(Setup { config: vec![line.to_owned()], ..Setup::default() });
        let error = connect(sshd.hop("old")).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    let rsa = Setup {
        host_keys: vec!["rsa-2048".to_owned()],
        config: vec!["HostKeyAlgorithms ssh-rsa".to_owned()],
        ..Setup::default()
    };
    let sshd = Sshd::start_with(rsa);
    let error = connect(sshd.hop("old")).await.unwrap_err();
    assert!(matches!(error.cause(), Cause::NoCommonAlgorithm { sort: "host key", .. }), "{error}");
    // And with each cipher that is taken.
    for cipher in [
        "aes256-gcm@openssh.com",
        "aes128-gcm@openssh.com",
        "chacha20-poly1305@openssh.com",
        "aes256-ctr",
        "aes128-ctr",
    ] {
        let sshd = Sshd::start_with(Setup { config: vec![format!("Ciphers {cipher}")], ..Setup::default() });
        let connection = works(&sshd, sshd.trust()).await;
        assert_eq!(connection.report().algorithms.cipher, cipher);
        assert_eq!(connection.report().algorithms.mac.is_some(), cipher.ends_with("ctr"), "{cipher}");
    }
    for kex in [
        "curve25519-sha256",
        "curve25519-sha256@libssh.org",
        "ecdh-sha2-nistp256",
        "ecdh-sha2-nistp384",
        "ecdh-sha2-nistp521",
        "diffie-hellman-group14-sha256",
        "diffie-hellman-group16-sha512",
        "diffie-hellman-group18-sha512",
    ] {
        let sshd =
            Sshd::start_with(Setup { config: vec![format!("KexAlgorithms {kex}")], ..Setup::default() });
        assert_eq!(works(&sshd, sshd.trust()).await.report().algorithms.kex, kex);
    }
}
