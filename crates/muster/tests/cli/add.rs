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
    // What comes next is a command that works: whoever named no administrator is told to.
    let next = "next: muster host provision a --admin-user USER --profile PROFILE";
    assert!(good.err.contains(next), "{}", good.err);
    let line = format!("[2001:db8::1]:2222 {public}");
    assert_eq!(
        run(&["b", "--address", "2001:db8::1", "--port", "2222", "--known-hosts-line", &line]).code,
        0
    );
    let ran =
        run(&["c", "--address", "host.example.net", "--host-ca", &other.public(), "--admin-user", "ops"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("next: muster host provision c --profile PROFILE"), "{}", ran.err);
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

/// A pin is changed because the old key is not to be trusted any more: what else trusts it stops the command, or is named.
#[test]
fn rotate_key_leaves_no_old_key_trusted_without_a_word() {
    let (p, key, other) = fleet();
    let (new, old) = (key.fingerprint().to_string(), other.fingerprint().to_string());
    let ca = KeyPair::generate(p.path(), "ca", "ed25519");
    assert_eq!(add(&p, &["edge-1", "--address", "192.0.2.1", "--host-key", &old]).code, 0);
    let added = p.read("inventory.yaml");
    let host = |keys: &str| added.replace("address: 192.0.2.1", &format!("address: 192.0.2.1{keys}"));
    let pins = || p.read(".local/state/muster/host-keys");
    let before = pins();
    let rotate = format!("host rotate-key edge-1 --yes --host-key {new} --old-host-key {old}");
    // The inventory's own key, the one that is given up or a third: beside whatever is pinned.
    for stays in [old.clone(), ca.public(), format!("[\"{new}\", \"{old}\"]")] {
        p.write("inventory.yaml", host(&format!("\n      host-key: {stays}")));
        let ran = p.muster(&rotate);
        assert_eq!((ran.code, pins()), (4, before.clone()), "{stays}: {}", ran.err);
        assert!(
            ran.err.contains("error[pin-conflict]") && ran.err.contains("would stay trusted"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("inventory.yaml:"), "{}", ran.err);
        assert!(ran.out.is_empty(), "{}", ran.out);
    }
    // Nothing else is trusted: the word of the answer is true, and so it is where the inventory names the new key.
    for keys in [String::new(), format!("\n      host-key: {new}")] {
        p.write("inventory.yaml", host(&keys));
        let ran = p.muster(&format!("{rotate} --plan"));
        assert_eq!((ran.code, pins()), (0, before.clone()), "{}", ran.err);
        assert!(ran.out.contains(&format!("would trust {new} instead of {old}")), "{}", ran.out);
        assert!(!ran.err.contains("still trusted"), "{}", ran.err);
    }
    // An authority vouches for keys that nobody lists: said, in words and for programs.
    p.write("inventory.yaml", host(&format!("\n      host-ca: {}", ca.public())));
    let ran = p.muster(&format!("{rotate} -o json"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("edge-1 is still trusted with any key")
            && ran.err.contains(&ca.fingerprint().to_string()),
        "{}",
        ran.err
    );
    assert!(
        ran.out.contains("\"host-cas\"") && ran.out.contains(&ca.fingerprint().to_string()),
        "{}",
        ran.out
    );
    assert!(pins().contains(&new) && !pins().contains(&old), "{}", pins());
}
