//! Logging in through an agent and with user certificates, as whole commands against a real sshd.

use crate::bench::{Bench, row};
use crate::run::{MUSTER, Ran};
use muster_ssh::require_sshd_or_skip;
use muster_ssh::testing::{AgentProcess, KeyPair};

const JOIN: &str = "host join h1 --profile tiny -o json";

fn join(b: &Bench, agent: Option<&AgentProcess>) -> Ran {
    let mut c = b.p.command(MUSTER);
    c.args(JOIN.split_whitespace());
    if let Some(agent) = agent {
        c.env("SSH_AUTH_SOCK", agent.socket());
    }
    b.p.finish(c, b"")
}

fn agent(b: &Bench, name: &str) -> AgentProcess {
    let folder = b.p.join(&format!("agent-{name}"));
    std::fs::create_dir(&folder).unwrap();
    AgentProcess::start(&folder)
}

fn refused(ran: &Ran, word: &str) {
    let row = row(ran);
    assert_eq!((ran.code, row["reason"].as_str()), (5, Some("auth-refused")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains(word), "{word}: {row:#}");
}

#[test]
fn an_agent_logs_in_with_all_that_it_holds_or_with_one_key_of_it() {
    require_sshd_or_skip!();
    let b = Bench::new();
    for kind in ["ed25519", "rsa-3072", "ecdsa-256"] {
        let agent = agent(&b, kind);
        let (other, key) = (
            KeyPair::generate(b.p.path(), &format!("other-{kind}"), "ed25519"),
            KeyPair::generate(b.p.path(), &format!("key-{kind}"), kind),
        );
        b.sshd.authorize(&format!("{}\n", key.public()));
        b.inventory(&["h1"], "agent");
        let ran = join(&b, Some(&agent));
        refused(&ran, "no key to log in with as ");
        let detail = row(&ran)["detail"].to_string();
        assert!(detail.contains("it holds no key") && detail.contains("ssh-add"), "{detail}");
        assert!(!detail.contains("does not let"), "the host was offered nothing: {detail}");
        agent.load(&other);
        refused(&join(&b, Some(&agent)), &other.fingerprint().to_string());
        agent.load(&key);
        let one = format!("{{agent: \"{}\"}}", key.fingerprint());
        for identity in ["agent", one.as_str()] {
            b.inventory(&["h1"], identity);
            let ran = join(&b, Some(&agent));
            assert_eq!(ran.code, 0, "{kind} {identity}: {}{}", ran.out, ran.err);
        }
        // One key of it is that one, also where another would be let in.
        b.inventory(&["h1"], &format!("{{agent: \"{}\"}}", other.fingerprint()));
        refused(&join(&b, Some(&agent)), &other.fingerprint().to_string());
        // The private half was in no file that we were told of, and without an agent nobody gets in.
        b.inventory(&["h1"], "agent");
        let ran = join(&b, None);
        assert_ne!(ran.code, 0, "{}", ran.out);
        assert!(format!("{}{}", ran.out, ran.err).contains("agent"), "{}{}", ran.out, ran.err);
    }
    assert_eq!(b.sent(), 6);
}

#[test]
fn user_certificates_log_in_from_a_file_and_from_an_agent() {
    require_sshd_or_skip!();
    let b = Bench::new();
    b.sshd.authorize("");
    let user = muster_ssh::testing::user();
    for (n, kind) in ["ed25519", "rsa-3072"].into_iter().enumerate() {
        let key = KeyPair::generate(b.p.path(), &format!("key-{kind}"), kind);
        let identity = format!("{{key: key-{kind}, certificate: key-{kind}-cert.pub}}");
        b.inventory(&["h1"], &identity);
        b.ca.certify(&key, "alice", &["-n", "somebody-else"]);
        refused(&join(&b, None), "alice");
        b.ca.certify(&key, "alice", &["-n", &user, "-V", "-2d:-1d"]);
        refused(&join(&b, None), "alice");
        b.ca.certify(&key, "alice", &["-n", &user, "-V", "-1h:+1h"]);
        let ran = join(&b, None);
        assert_eq!(ran.code, 0, "{kind}: {}{}", ran.out, ran.err);
        // The key alone opens nothing.
        let bare = KeyPair::generate(b.p.path(), &format!("bare-{kind}"), kind);
        b.inventory(&["h1"], &format!("bare-{kind}"));
        refused(&join(&b, None), &bare.fingerprint().to_string());
        // ssh-add takes the certificate beside the key along.
        let agent = agent(&b, kind);
        agent.load(&key);
        b.inventory(&["h1"], "agent");
        let ran = join(&b, Some(&agent));
        assert_eq!((ran.code, b.sent()), (0, 2 * (n + 1)), "{kind}: {}{}", ran.out, ran.err);
    }
}

/// Nothing to offer is our own lack, told before a host is asked: no host "does not let us in" for it.
#[test]
fn without_any_key_the_error_names_what_to_give() {
    require_sshd_or_skip!();
    let b = Bench::new();
    b.p.sh("sed -i 's/, identities: .*}, pools/}, pools/' inventory.yaml");
    assert!(!b.p.read("inventory.yaml").contains("identities"), "{}", b.p.read("inventory.yaml"));
    let key = b.sshd.login().path.display().to_string();
    let user = muster_ssh::testing::user();
    let said = |line: &str| {
        let before = b.sent();
        let ran = b.p.muster(line);
        assert_eq!(b.sent(), before, "{line}: the host was asked");
        (ran.code, ran.err.lines().find(|l| l.starts_with("error[")).unwrap_or_default().to_owned())
    };
    let (code, error) = said(JOIN);
    assert_eq!(code, 3, "{error}");
    assert!(error.starts_with("error[identity-missing]: inventory.yaml:4: "), "{error}");
    for word in ["h1", user.as_str(), "`ssh: {identities: [FILE]}`", "agent"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    for line in ["host doctor h1 --no-attack", "host unprovision h1 --yes", "host floor set h1 --floor a=1"] {
        let (code, error) = said(&format!("{line} --admin-user {user}"));
        assert_eq!(code, 3, "{line}: {error}");
        assert!(
            error.starts_with("error[identity-missing]: ") && error.contains("--admin-key FILE"),
            "{error}"
        );
        // The administrator's key is enough for what does not use the pool login.
        let ran = b.p.muster(&format!("{line} --admin-user {user} --admin-key {key}"));
        assert!(
            !format!("{}{}", ran.out, ran.err).contains("identity-missing"),
            "{line}: {}{}",
            ran.out,
            ran.err
        );
    }
    let (code, error) = said(&format!("host doctor h1 --admin-user {user} --admin-key {key}"));
    assert_eq!(code, 3, "{error}");
    assert!(
        error.contains("`ssh: {identities: [FILE]}`"),
        "its attacks are made with the pool login: {error}"
    );
}

/// A key that nobody named is no reason to stop while another works; one that was named is, and the error says by whom.
#[test]
fn an_unusable_key_is_told_with_its_host_and_with_who_named_it() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let good = b.sshd.login().path.clone();
    b.p.sh("sed -i 's/, identities: .*}, pools/}, pools/' inventory.yaml");
    b.p.write(".ssh/id_rsa", "-----BEGIN RSA PRIVATE KEY-----\n");
    b.p.sh("chmod 600 .ssh/id_rsa");
    let error = |ran: &Ran| ran.err.lines().find(|l| l.starts_with("error[")).unwrap_or_default().to_owned();
    let ran = join(&b, None);
    assert!(
        error(&ran).starts_with("error[key-file]: cannot log in to h1 as ")
            && error(&ran).contains("the key in ~/.ssh"),
        "{}",
        ran.err
    );
    std::fs::copy(&good, b.p.join(".ssh/id_ed25519")).unwrap();
    assert_eq!(join(&b, None).code, 0, "the other one works");
    b.inventory(&["h1"], "nowhere");
    let ran = join(&b, None);
    assert!(
        error(&ran).starts_with("error[key-file]: inventory.yaml:4: cannot log in to h1 as "),
        "{}",
        ran.err
    );
    let ran = b.p.muster("host doctor h1 --admin-user a --admin-key inventory.yaml");
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(error(&ran).contains("cannot log in to h1 as a with the key of --admin-key: "), "{}", ran.err);
}
