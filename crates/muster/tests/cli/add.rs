//! `muster host add`: the key comes from the operator, and nothing is asked of the network.

use crate::run::{MUSTER, Place, Ran};
use muster_ssh::testing::KeyPair;

/// A fleet of nobody, a host's key and somebody else's.
fn fleet() -> (Place, KeyPair, KeyPair) {
    let p = Place::new();
    assert_eq!(p.muster("init --danger-no-passphrase").code, 0);
    let key = KeyPair::generate(p.path(), "host", "ed25519");
    let other = KeyPair::generate(p.path(), "other", "ed25519");
    (p, key, other)
}

fn add(p: &Place, args: &[&str]) -> Ran {
    let mut c = p.command(MUSTER);
    c.args(["host", "add"]).args(args);
    p.finish(c, b"")
}

#[test]
fn host_add_takes_a_key_from_the_operator_and_nothing_from_the_network() {
    let (p, key, _) = fleet();
    let (print, public) = (key.fingerprint().to_string(), key.public());
    let run = |args: &[&str]| add(&p, args);
    let before = p.read("inventory.yaml");
    // 192.0.2.0/24 answers nobody (RFC 5737): whoever asked the network would wait.
    for (args, code, word) in [
        (&["a", "--address", "192.0.2.1"][..], 4, "pin-missing"),
        (&["a", "--address", "192.0.2.1", "--host-key", "SHA256:short"], 3, "config-value"),
        (&["a", "--address", "192.0.2.1", "--host-key", "ssh-ed25519 AAAA"], 3, "config-value"),
        (&["A_b", "--address", "192.0.2.1", "--host-key", &print], 3, "config-value"),
        (&["a", "--address", "root@192.0.2.1", "--host-key", &print], 3, "config-value"),
        (&["a", "--address", "192.0.2.1", "--via", "gate", "--host-key", &print], 3, "config-value"),
        (&["a", "--address", "192.0.2.1", "--host-ca", "nowhere.pub"], 3, "file-missing"),
        (
            &["a", "--address", "192.0.2.1", "--known-hosts-line", &format!("192.0.2.2 {public}")],
            3,
            "config-value",
        ),
        (
            &["a", "--address", "192.0.2.1", "--known-hosts-line", &format!("@revoked 192.0.2.1 {public}")],
            3,
            "config-value",
        ),
        (
            &["a", "--address", "192.0.2.1", "--known-hosts-line", &format!("@cert-authority * {public}")],
            3,
            "config-value",
        ),
        (
            &[
                "a",
                "--address",
                "192.0.2.1",
                "--port",
                "2222",
                "--known-hosts-line",
                &format!("192.0.2.1 {public}"),
            ],
            3,
            "config-value",
        ),
        (&["a", "--address", "192.0.2.1", "--host-key", &print, "--pool", "P"], 3, "config-value"),
        (&["a", "--address", "192.0.2.1", "--host-key", &print, "--label", "x"], 2, "usage"),
        (&["a", "--address", "192.0.2.1", "--host-key", &print, "-i", "none.yaml"], 3, "file-missing"),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(&format!("error[{word}]")), "{args:?}: {}", ran.err);
        assert_eq!(p.read("inventory.yaml"), before, "{args:?}");
        assert!(!p.join(".local/state/muster/host-keys").exists(), "{args:?}");
    }
    let plan = run(&["a", "--address", "192.0.2.1", "--host-key", &print, "--plan"]);
    assert_eq!((plan.code, p.read("inventory.yaml") == before), (0, true), "{}", plan.err);
    assert!(!p.join(".local/state/muster/host-keys").exists());
}

#[test]
fn host_add_pins_what_it_writes_and_overwrites_no_pin() {
    let (p, key, other) = fleet();
    let (print, public) = (key.fingerprint().to_string(), key.public());
    let run = |args: &[&str]| add(&p, args);
    let before = p.read("inventory.yaml");
    let good = run(&[
        "a",
        "--address",
        "192.0.2.1",
        "--host-key",
        &print,
        "--pool",
        "edge",
        "--label",
        "site=berlin",
        "-o",
        "json",
    ]);
    assert_eq!(good.code, 0, "{}", good.err);
    let line = format!("[2001:db8::1]:2222 {public}");
    assert_eq!(
        run(&["b", "--address", "2001:db8::1", "--port", "2222", "--known-hosts-line", &line]).code,
        0
    );
    assert_eq!(run(&["c", "--address", "host.example.net", "--host-ca", &other.public()]).code, 0);
    let pins = p.read(".local/state/muster/host-keys");
    assert!(pins.contains(&format!("a 192.0.2.1:22 {print}\n")), "{pins}");
    assert!(pins.contains("b [2001:db8::1]:2222 ssh-ed25519 "), "{pins}");
    for (args, code, word) in [
        (&["a", "--address", "192.0.2.9", "--host-key", &print][..], 4, "host-exists"),
        (&["d", "--address", "192.0.2.1", "--host-key", &print], 3, "config-value"),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(&format!("error[{word}]")), "{args:?}: {}", ran.err);
    }
    // A pin that outlived its host is not overwritten by another key.
    p.write("inventory.yaml", &before);
    let ran = run(&["a", "--address", "192.0.2.1", "--host-key", &other.fingerprint().to_string()]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("error[pin-conflict]"), "{}", ran.err);
    assert_eq!(p.read("inventory.yaml"), before);
    assert_eq!(run(&["a", "--address", "192.0.2.1", "--host-key", &print]).code, 0);
}
