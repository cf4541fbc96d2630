//! Who we are to a host.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_ssh::testing::{AgentProcess, KeyPair, Setup, Sshd, client, user};
use muster_ssh::{
    Cause, ConnectError, Connection, Fault, Hop, Identity, IdentityFault, KeyFault, KeyFile, Limits,
    Passphrase, Retry, Route, Secret, Tried, require_sshd_or_skip,
};

use crate::brisk;

async fn connect(hop: Hop) -> Result<Connection, ConnectError> {
    client().connect(&Route::direct(hop.timing(brisk()))).await
}

async fn gets_in(sshd: &Sshd, identity: Identity) -> Connection {
    let hop = sshd.hop_with("host", sshd.trust()).identity(identity);
    let connection = connect(hop).await.unwrap_or_else(|e| panic!("{e}\n{}", sshd.log()));
    connection.exec("true", b"", Limits::default()).await.unwrap();
    connection
}

fn refusal(error: &ConnectError) -> &[Tried] {
    assert_eq!((error.code(), error.fault(), error.retry()), ("auth-refused", Fault::Caller, Retry::Useless));
    assert!(!error.to_string().contains('\n'), "{error}");
    match error.cause() {
        Cause::AuthRefused { tried, .. } => tried,
        other => panic!("{other:?}"),
    }
}

const KINDS: [&str; 6] = ["ed25519", "ecdsa-256", "ecdsa-384", "ecdsa-521", "rsa-2048", "rsa-4096"];

#[tokio::test]
async fn every_kind_of_key_from_a_file_and_from_an_agent() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    for kind in KINDS {
        let key = KeyPair::generate(sshd.dir(), kind, kind);
        sshd.authorize(&format!("{}\n", key.public()));
        let connection = gets_in(&sshd, key.identity()).await;
        assert!(connection.report().identity.contains(&key.fingerprint().to_string()));
        let dir = tempfile::tempdir().unwrap();
        let agent = AgentProcess::start(dir.path());
        agent.load(&key);
        let connection = gets_in(&sshd, Identity::agent(agent.socket(), None)).await;
        assert!(connection.report().identity.contains("agent"), "{}", connection.report().identity);
    }
    let log = sshd.log();
    assert_eq!(log.matches("Accepted publickey").count(), 2 * KINDS.len(), "{log}");
}

#[tokio::test]
async fn st13_rsa_never_signs_with_sha1() {
    require_sshd_or_skip!();
    for algorithm in ["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"] {
        // By its old name, which every version knows.
        let config = vec![format!("PubkeyAcceptedKeyTypes {algorithm}"), "LogLevel DEBUG2".to_owned()];
        let sshd = Sshd::start_with(Setup { config, ..Setup::default() });
        let key = KeyPair::generate(sshd.dir(), "rsa", "rsa-3072");
        sshd.authorize(&format!("{}\n", key.public()));
        let hop = sshd.hop_with("host", sshd.trust()).identity(key.identity());
        match (algorithm, connect(hop).await) {
            ("rsa-sha2-512" | "rsa-sha2-256", Ok(_)) => {
                assert!(sshd.wait_log(&format!("public key {algorithm}")), "{}", sshd.log());
            }
            // Before 9.6 sshd says that it takes every algorithm, so that ours is the wrong guess.
            ("rsa-sha2-256" | "ssh-rsa", Err(error)) => drop(refusal(&error).to_vec()),
            (_, result) => panic!("{algorithm}: {result:?}"),
        }
        assert!(!sshd.log().contains("public key ssh-rsa"), "{}", sshd.log());
    }
}

#[tokio::test]
async fn an_encrypted_key_asks_once_for_all_and_only_when_it_is_wanted() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let key = KeyPair::generate_with(sshd.dir(), "locked", "ed25519", "open sesame");
    let pem = std::fs::read(&key.path).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let ask = Passphrase::Ask(Arc::new(move |source| {
        assert_eq!(source, "the key");
        // Wrong at first, as people are.
        let n = counter.fetch_add(1, Ordering::SeqCst);
        Some(Secret::new(if n == 0 { b"sesame".to_vec() } else { b"open sesame".to_vec() }))
    }));
    let identity = Identity::key("the key", &pem, ask).unwrap();
    let hop = sshd.hop_with("host", sshd.trust()).identity(identity.clone());
    // Not authorized: the host does not want it, so nobody is asked.
    refusal(&connect(hop).await.unwrap_err());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    sshd.authorize(&format!("{}\n", key.public()));
    // Asked for beforehand, as a run over many hosts does.
    let early =
        Identity::key("early", &pem, Passphrase::Known(Secret::new(b"open sesame".to_vec()))).unwrap();
    early.unlock().await.unwrap();
    let (a, b, c) = tokio::join!(
        gets_in(&sshd, identity.clone()),
        gets_in(&sshd, identity.clone()),
        gets_in(&sshd, identity.clone())
    );
    drop((a, b, c));
    assert_eq!(asked.load(Ordering::SeqCst), 2, "one mistake, one right answer, for all three");

    for (passphrase, why) in [
        (Passphrase::None, KeyFault::PassphraseMissing),
        (Passphrase::Known(Secret::new(b"wrong".to_vec())), KeyFault::PassphraseWrong),
        (Passphrase::Ask(Arc::new(|_| None)), KeyFault::PassphraseMissing),
    ] {
        let identity = Identity::key("the key", &pem, passphrase).unwrap();
        let hop = sshd.hop_with("host", sshd.trust()).identity(identity);
        let error = connect(hop).await.unwrap_err();
        let tried = refusal(&error);
        assert!(tried[0].why.contains(&why.to_string()), "{error}");
        assert_eq!(tried[0].fingerprint, Some(key.fingerprint()), "{error}");
    }
    let known = Passphrase::Known(Secret::new(b"open sesame".to_vec()));
    assert!(!format!("{known:?}").contains("sesame"));
    gets_in(&sshd, Identity::key_file(&key.path, known).unwrap()).await;
}

#[tokio::test]
async fn user_certificates_of_every_kind_with_a_file_key_and_with_an_agent() {
    require_sshd_or_skip!();
    for (ca, kind) in [
        ("ed25519", "ed25519"),
        ("ed25519", "rsa-2048"),
        ("rsa-3072", "rsa-3072"),
        ("ecdsa-256", "ecdsa-384"),
        ("ecdsa-521", "ecdsa-521"),
    ] {
        let ca_dir = tempfile::tempdir().unwrap();
        let ca = KeyPair::generate(ca_dir.path(), "ca", ca);
        let config = vec![format!("TrustedUserCAKeys {}", ca.public_path().display())];
        let sshd = Sshd::start_with(Setup { config, ..Setup::default() });
        sshd.authorize("");
        let key = KeyPair::generate(ca_dir.path(), "user", kind);
        let cert = ca.certify(&key, "alice", &["-n", &user(), "-V", "-5m:+1h"]);
        // Beside the key file.
        let connection = gets_in(&sshd, Identity::key_file(&key.path, Passphrase::None).unwrap()).await;
        assert!(connection.report().identity.contains("certificate \"alice\""), "{kind}");
        // In the agent, which loads key and certificate.
        let dir = tempfile::tempdir().unwrap();
        let agent = AgentProcess::start(dir.path());
        agent.load(&key);
        gets_in(&sshd, Identity::agent(agent.socket(), None)).await;
        // The key in the agent, the certificate in a file.
        let bare = KeyPair { path: dir.path().join("bare") };
        std::fs::copy(&key.path, &bare.path).unwrap();
        std::fs::set_permissions(&bare.path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let agent = AgentProcess::start(dir.path());
        agent.load(&bare);
        let identity = Identity::agent(agent.socket(), None).with_certificate_file(&cert).unwrap();
        gets_in(&sshd, identity).await;
        assert_eq!(sshd.log().matches("Accepted publickey").count(), 3, "{}", sshd.log());
        assert!(!sshd.log().contains("Failed"), "{kind}: the certificate is offered first");
    }
}

#[tokio::test]
async fn st10_a_refusal_lists_every_identity_and_why() {
    require_sshd_or_skip!();
    let ca_dir = tempfile::tempdir().unwrap();
    let ca = KeyPair::generate(ca_dir.path(), "ca", "ed25519");
    let config =
        vec![format!("TrustedUserCAKeys {}", ca.public_path().display()), "MaxAuthTries 20".to_owned()];
    let sshd = Sshd::start_with(Setup { config, ..Setup::default() });
    let dir = sshd.dir();
    let plain = KeyPair::generate(dir, "plain", "ed25519");
    let expired = KeyPair::generate(dir, "expired", "ed25519");
    ca.certify(&expired, "old", &["-n", &user(), "-V", "-2h:-1h"]);
    let other = KeyPair::generate(dir, "other", "ecdsa-256");
    ca.certify(&other, "bob", &["-n", "bob", "-V", "-5m:+1h"]);
    let short = KeyPair::generate(dir, "short", "rsa-1024");
    let agent_dir = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(agent_dir.path());
    let in_agent = KeyPair::generate(dir, "agent", "rsa-2048");
    agent.load(&in_agent);
    agent.load(&short);
    let no_agent = agent_dir.path().join("nobody");
    let file = |k: &KeyPair| Identity::key_file(&k.path, Passphrase::None).unwrap();
    let hop = sshd
        .hop_with("host", sshd.trust())
        .identity(plain.identity())
        .identity(file(&expired))
        .identity(file(&other))
        .identity(Identity::agent(agent.socket(), None))
        .identity(Identity::agent(agent.socket(), Some(vec![plain.fingerprint()])))
        .identity(Identity::agent(&no_agent, None));
    let error = connect(hop).await.unwrap_err();
    let tried = refusal(&error);
    let want = [
        (Some(plain.fingerprint()), "ssh-ed25519 key", "not among the keys"),
        (Some(expired.fingerprint()), "ssh-ed25519 certificate \"old\"", "valid until"),
        (Some(expired.fingerprint()), "ssh-ed25519 key", "not among the keys"),
        (Some(other.fingerprint()), "ecdsa-sha2-nistp256 certificate \"bob\"", "is for bob"),
        (Some(other.fingerprint()), "ecdsa-sha2-nistp256 key", "not among the keys"),
        (Some(in_agent.fingerprint()), "ssh-rsa key", "not among the keys"),
        (Some(short.fingerprint()), "ssh-rsa key", "2048 bits"),
        (None, "agent", "none of its 2 keys"),
        (None, "agent", "cannot reach the agent"),
    ];
    assert_eq!(tried.len(), want.len(), "{error}");
    for (tried, (fp, kind, why)) in tried.iter().zip(want) {
        assert_eq!((tried.fingerprint, tried.kind.as_str()), (fp, kind), "{error}");
        assert!(tried.why.contains(why), "{tried}");
    }
    let Cause::AuthRefused { methods, user: who, .. } = error.cause() else { panic!() };
    assert!(methods.iter().any(|m| m == "publickey") && *who == user(), "{error}");
    assert_eq!(sshd.log().matches("Connection from").count(), 1, "a refusal is not tried again");
}

/// Without an identity the host is asked for `none`, so that it says what it would take: an attack that asks nothing proves nothing.
#[tokio::test]
async fn without_an_identity_the_host_says_what_it_would_take() {
    require_sshd_or_skip!();
    for (line, want) in [
        ("PasswordAuthentication no", &["publickey"][..]),
        ("PasswordAuthentication yes", &["publickey", "password"]),
    ] {
        let sshd = Sshd::start_with(Setup { config: vec![line.to_owned()], ..Setup::default() });
        let error = connect(sshd.hop_with("host", sshd.trust())).await.unwrap_err();
        assert!(refusal(&error).is_empty());
        assert!(error.to_string().contains("no identity to offer"), "{error}");
        let Cause::AuthRefused { methods, .. } = error.cause() else { panic!("{error}") };
        assert_eq!(methods, want, "{line}");
    }
}

#[tokio::test]
async fn a_host_that_breaks_off_after_too_many_keys_is_a_refusal_with_its_words() {
    require_sshd_or_skip!();
    let sshd = Sshd::start_with(Setup { config: vec!["MaxAuthTries 2".to_owned()], ..Setup::default() });
    let mut hop = sshd.hop_with("host", sshd.trust());
    for i in 0..5 {
        hop = hop.identity(KeyPair::generate(sshd.dir(), &format!("k{i}"), "ed25519").identity());
    }
    let error = connect(hop).await.unwrap_err();
    let tried = refusal(&error);
    assert!((2..=3).contains(&tried.len()), "{error}");
    assert!(error.to_string().contains("Too many authentication failures"), "{error}");
}

#[tokio::test]
async fn an_agent_that_will_not_sign_is_named() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let dir = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(dir.path());
    let key = KeyPair::generate(dir.path(), "confirm", "ed25519");
    // Confirmation, with nobody there to give it.
    agent.add(&["-q", "-c", key.path.to_str().unwrap()]);
    sshd.authorize(&format!("{}\n{}\n", key.public(), sshd.login().public()));
    let hop = sshd.hop_with("host", sshd.trust()).identity(Identity::agent(agent.socket(), None));
    let error = connect(hop.clone()).await.unwrap_err();
    assert!(refusal(&error)[0].why.contains("the agent refused"), "{error}");
    // The next identity still gets its turn.
    connect(hop.identity(sshd.login().identity())).await.unwrap();
}

#[tokio::test]
async fn an_agent_that_hangs_does_not_use_up_the_time_of_the_next_identity() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let path = sshd.dir().join("hung");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let hop = sshd
        .hop_with("host", sshd.trust())
        .identity(Identity::agent(&path, None))
        .identity(sshd.login().identity());
    let connection = connect(hop).await.unwrap();
    assert!(connection.report().identity.contains("login"), "{}", connection.report().identity);
    drop(listener);
    // One that answers with nonsense.
    let path = sshd.dir().join("nonsense");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            use std::io::Write as _;
            let _ = (&stream).write_all(&[0xff; 64]);
            std::thread::sleep(core::time::Duration::from_millis(200));
        }
    });
    let error = connect(sshd.hop_with("host", sshd.trust()).identity(Identity::agent(&path, None))).await;
    assert!(refusal(&error.unwrap_err())[0].why.contains("out of protocol"));
}

#[tokio::test]
async fn keys_bound_to_a_destination_work_through_the_agent() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let dir = tempfile::tempdir().unwrap();
    let agent = AgentProcess::start(dir.path());
    let key = KeyPair::generate(dir.path(), "bound", "ed25519");
    let known = dir.path().join("known");
    std::fs::write(&known, format!("here {}\n", sshd.host_key().public())).unwrap();
    let destination = format!("{}@here", user());
    agent.add(&["-q", "-h", &destination, "-H", known.to_str().unwrap(), key.path.to_str().unwrap()]);
    sshd.authorize(&format!("{}\n", key.public()));
    gets_in(&sshd, Identity::agent(agent.socket(), None)).await;
    // Another host, where the agent keeps it back.
    let elsewhere = Sshd::start();
    elsewhere.authorize(&format!("{}\n", key.public()));
    let hop = elsewhere.hop_with("host", elsewhere.trust()).identity(Identity::agent(agent.socket(), None));
    assert!(refusal(&connect(hop).await.unwrap_err())[0].why.contains("no key"));
}

#[tokio::test]
async fn two_proofs_where_the_host_wants_two() {
    require_sshd_or_skip!();
    let config = vec!["AuthenticationMethods publickey,publickey".to_owned()];
    let sshd = Sshd::start_with(Setup { config, ..Setup::default() });
    let second = KeyPair::generate(sshd.dir(), "second", "ecdsa-256");
    sshd.authorize(&format!("{}\n{}\n", sshd.login().public(), second.public()));
    let error = connect(sshd.hop("host")).await.unwrap_err();
    assert!(refusal(&error)[0].why.contains("more than one proof"), "{error}");
    connect(sshd.hop("host").identity(second.identity())).await.unwrap();
}

#[tokio::test]
async fn every_cipher_of_an_encrypted_key_file() {
    require_sshd_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    for cipher in ["aes256-ctr", "aes128-cbc", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"] {
        let path = dir.path().join(cipher);
        let shown = path.to_str().unwrap();
        muster_ssh::testing::run(
            "/usr/bin/ssh-keygen",
            &["-q", "-t", "ecdsa", "-N", "open sesame", "-Z", cipher, "-a", "3", "-f", shown],
        );
        let file = KeyFile::parse(&std::fs::read(&path).unwrap()).unwrap();
        assert!(file.is_encrypted());
        let secret = |text: &str| Secret::new(text.as_bytes().to_vec());
        assert_eq!(
            file.open(Some(&secret("open sesam"))).unwrap_err(),
            KeyFault::PassphraseWrong,
            "{cipher}"
        );
        assert_eq!(file.open(Some(&secret(""))).unwrap_err(), KeyFault::PassphraseWrong, "{cipher}");
        assert_eq!(file.open(None).unwrap_err(), KeyFault::PassphraseMissing);
        file.open(Some(&secret("open sesame"))).unwrap();
    }
}

#[test]
fn files_that_are_no_private_keys_are_refused_with_what_to_do() {
    require_sshd_or_skip!();
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate(dir.path(), "k", "ed25519");
    let load = |path: &std::path::Path| Identity::key_file(path, Passphrase::None);
    load(&key.path).unwrap();
    std::fs::set_permissions(&key.path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let fault = load(&key.path).unwrap_err();
    assert!(matches!(fault, IdentityFault::Exposed { mode: 0o640, .. }));
    assert!(fault.to_string().contains("chmod 600"));
    assert!(matches!(load(&dir.path().join("none")), Err(IdentityFault::Read { .. })));
    assert!(matches!(load(dir.path()), Err(IdentityFault::Read { .. })));
    let private = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        load(&path).unwrap_err().to_string()
    };
    assert!(private("pub", &key.public()).contains("ssh-keygen -p"));
    assert!(private("big", &"x".repeat(70_000)).contains("64 KiB"));
    let short = KeyPair::generate(dir.path(), "short", "rsa-1024");
    assert!(load(&short.path).unwrap_err().to_string().contains("1024 bits"));
    let fifo = dir.path().join("fifo");
    muster_ssh::testing::run("/usr/bin/mkfifo", &["-m", "600", fifo.to_str().unwrap()]);
    assert!(matches!(load(&fifo), Err(IdentityFault::Read { .. })), "and does not hang");
    // The certificate of another key.
    let other = KeyPair::generate(dir.path(), "o", "ed25519");
    let ca = KeyPair::generate(dir.path(), "ca", "ed25519");
    let cert = ca.certify(&other, "x", &["-n", "x"]);
    let fault = key.identity().with_certificate_file(&cert).unwrap_err();
    assert!(fault.to_string().contains("not for the key"), "{fault}");
    let host = ca.certify(&other, "x", &["-h", "-n", "x"]);
    assert!(
        other.identity().with_certificate_file(&host).unwrap_err().to_string().contains("host certificate")
    );
}
