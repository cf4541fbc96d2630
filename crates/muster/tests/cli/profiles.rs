//! init, lint, sign, verify, show: with the system's ssh-keygen as the judge.

use crate::run::Place;
use std::os::unix::fs::PermissionsExt;

#[test]
fn init_makes_keys_that_ssh_keygen_reads_and_overwrites_nothing() {
    let p = Place::new();
    p.write("pp", "a long passphrase\nsecond line\n");
    let ran = p.muster("init --passphrase-file pp");
    assert_eq!(ran.code, 0, "{}", ran.err);
    for word in
        ["keys/signer ", "move it offline", "keys/controller ", "trust/allowed_signers", "inventory.yaml"]
    {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    for (name, mode) in [("keys/signer", 0o600), ("keys/controller", 0o600), ("keys/signer.pub", 0o644)] {
        assert_eq!(std::fs::metadata(p.join(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    let public = p.sh("ssh-keygen -y -P 'a long passphrase' -f keys/signer");
    assert_eq!(public.split_whitespace().nth(1), p.read("keys/signer.pub").split_whitespace().nth(1));
    p.sh("! ssh-keygen -y -P 'another one' -f keys/signer 2>/dev/null");
    let before = p.sh("cat keys/* trust/* inventory.yaml | sha256sum");
    let again = p.muster("init --passphrase-file pp");
    assert_eq!(again.code, 4);
    assert!(again.err.contains("error[exists]: "), "{}", again.err);
    assert_eq!(p.sh("cat keys/* trust/* inventory.yaml | sha256sum"), before);
}

#[test]
fn init_leaves_nothing_half_made() {
    let p = Place::new();
    p.write("trust", "a file where a folder should be");
    let ran = p.muster("init --danger-no-passphrase");
    assert_ne!(ran.code, 0);
    assert!(!p.join("keys/signer").exists() && !p.join("inventory.yaml").exists());
}

#[test]
fn init_takes_a_public_key_whose_private_half_is_elsewhere() {
    let p = Place::new();
    p.sh("ssh-keygen -q -t ecdsa -N '' -f token");
    let ran = p.muster("init --signer-public token.pub fleet");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("not here: in the token, agent or vault"), "{}", ran.out);
    assert!(!p.join("fleet/keys/signer").exists());
    assert!(p.read("fleet/inventory.yaml").contains("agent: \"SHA256:"));
}

#[test]
fn what_is_signed_is_good_for_ssh_keygen_too() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    let ran = p.muster("sign demo");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    for phase in ["install", "join", "leave", "uninstall", "floor"] {
        p.sh(&format!("ssh-keygen -Y verify -n muster-intent -I muster -f trust/allowed_signers -s demo/signed/{phase}.1.sig < demo/signed/{phase}.intent"));
    }
    let digest = p.sh("sha256sum demo/join.sh | cut -d' ' -f1");
    assert!(p.read("demo/signed/join.intent").contains(&format!("script-sha256: {digest}")));
    assert_eq!(p.muster("verify demo --host edge-1 --pool edge").code, 0);
    let other = p.muster("verify demo --host edge-1 --pool gpu -o json");
    assert_eq!(other.code, 4);
    assert!(other.out.contains("\"reason\": \"target\""), "{}", other.out);
    let late = p.muster("verify demo --at 2099-01-01T00:00:00Z -o json");
    assert!(late.code == 4 && late.out.contains("\"reason\": \"expired\""), "{}", late.out);
}

#[test]
fn m5_all_phases_are_signed_at_one_epoch_or_none() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    assert_eq!(p.muster("sign demo -q").code, 0);
    for phase in ["install", "join", "leave", "uninstall", "floor"] {
        assert!(p.read(&format!("demo/signed/{phase}.intent")).contains("\nepoch: 3\n"), "{phase}");
    }
    let before = p.sh("cat demo/signed/* | sha256sum");
    // One phase that cannot be signed leaves what was there untouched, and nothing beside it.
    p.write("demo/leave.sh", "#!/usr/bin/env bash\nset -euo pipefail\necho {{ .Node }}\n");
    let ran = p.muster("sign demo --epoch 4");
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("demo/leave.sh:3: the script holds a template action"), "{}", ran.err);
    assert_eq!(p.sh("cat demo/signed/* | sha256sum"), before);
    assert_eq!(p.sh("ls -A demo"), "install.sh\njoin.sh\nleave.sh\nprofile.yaml\nsigned\nuninstall.sh\n");
}

#[test]
fn m1_open_endpoint_parameters_are_refused_unless_named() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    let open = "profile: demo\nepoch: 3\ntargets: [pool=edge]\nparams:\n  MUSTER_CLUSTER_ENDPOINT: {pattern: \"https://.+\", phases: [join]}\n  \
        MUSTER_NODE_NAME: {pattern: \"[a-z]+\", phases: [join]}\n";
    p.write("demo/profile.yaml", open);
    let ran = p.muster("sign demo");
    assert_eq!(ran.code, 4);
    assert!(
        ran.err.contains("error[open-parameter]: demo/join.sh:3: MUSTER_CLUSTER_ENDPOINT"),
        "{}",
        ran.err
    );
    assert!(!p.join("demo/signed").exists());
    assert_eq!(p.muster("sign demo --accept-open MUSTER_CLUSTER_ENDPOINT").code, 0);
    // A pattern that lists the allowed texts keeps the decision the signer's.
    p.write(
        "demo/profile.yaml",
        open.replace("https://.+", r"https://10\\.0\\.0\\.5:6443|https://10\\.0\\.0\\.6:6443"),
    );
    let ran = p.muster("sign demo");
    assert_eq!(ran.code, 0, "{}", ran.err);
    // Neither value nor parameter: refused as well.
    p.write(
        "demo/profile.yaml",
        "profile: demo\nepoch: 3\ntargets: [pool=edge]\nparams: {MUSTER_NODE_NAME: \"[a-z]+\"}\n",
    );
    assert!(p.muster("sign demo").err.contains("open-parameter"));
    // On envelope 1 every parameter is open.
    for script in ["install", "join", "leave", "uninstall"] {
        p.write(&format!("one/{script}.sh"), "set -euo pipefail\necho \"$KPSSH_CLUSTER_CA\"\n");
    }
    let ran = p.muster("sign one --envelope 1 --key keys/signer");
    assert!(ran.code == 4 && ran.err.contains("open-parameter"), "{}", ran.err);
}

#[test]
fn m3_an_epoch_far_away_is_refused_when_signing() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    assert_eq!(p.muster("sign demo").code, 0);
    for (epoch, code) in [("202611290", 4), ("2", 4), ("1003", 0), ("1004", 0)] {
        let ran = p.muster(&format!("sign demo --epoch {epoch}"));
        assert_eq!(ran.code, code, "{epoch}: {}", ran.err);
        assert_eq!(ran.err.contains("error[epoch-jump]"), code == 4, "{}", ran.err);
    }
    assert_eq!(p.muster("sign demo --epoch 3 --accept-epoch").code, 0);
    // What cannot be read cannot be compared: breaking it must not switch the comparison off.
    p.write("demo/signed/join.intent", "not an intent\n");
    let ran = p.muster("sign demo --epoch 9000");
    assert!(ran.code == 3 && ran.err.contains("error[epoch-jump]"), "{}", ran.err);
    assert_eq!(p.muster("sign demo --epoch 9000 --accept-epoch").code, 0);
    assert_eq!(p.muster("sign demo --epoch 4294967296").code, 2);
    assert_eq!(p.muster("sign demo --epoch 0").code, 2);
}

#[test]
fn a_profile_cannot_publish_what_lies_outside_of_it() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    p.write("demo/ca.pem", "the certificate");
    let whole = std::fs::read_to_string(p.path().join("demo/profile.yaml")).unwrap();
    let manifest = |file: &str| {
        whole.replace(
            "values:\n",
            &format!("values:\n  MUSTER_CLUSTER_CA: {{file: {file}, encode: base64}}\n"),
        )
    };
    let key = p.path().join("keys/signer").display().to_string();
    for file in [key.as_str(), "../keys/signer", "link", "/dev/stdin"] {
        std::os::unix::fs::symlink(&key, p.path().join("demo/link")).ok();
        p.write("demo/profile.yaml", manifest(file));
        let ran = p.muster("sign demo");
        assert!(ran.code == 3 && ran.err.contains("profile.yaml:5"), "{file}: {}", ran.err);
        assert!(!p.path().join("demo/signed").exists(), "{file}");
    }
    p.write("demo/profile.yaml", manifest("ca.pem"));
    let ran = p.muster("sign demo");
    assert!(ran.err.contains("MUSTER_CLUSTER_CA is the content of ca.pem"), "{}", ran.err);
    // A script is sent to hosts, so a link out of the folder is refused as well.
    std::fs::remove_file(p.path().join("demo/join.sh")).unwrap();
    std::os::unix::fs::symlink(&key, p.path().join("demo/join.sh")).unwrap();
    let ran = p.muster("sign demo");
    assert!(ran.code != 0 && ran.err.contains("outside of"), "{}", ran.err);
}

#[test]
fn s11_a_target_of_every_host_is_warned_of() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    let ran = p.muster("sign demo --target *");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = p.read("demo/profile.yaml").replace("[pool=edge]", "\"*\"");
    p.write("demo/profile.yaml", text);
    assert!(p.muster("lint demo").code == 2, "lint stands under script");
    let ran = p.muster("script lint demo -o json");
    assert!(ran.out.contains("lint-target-all"), "{}", ran.out);
    assert_eq!(ran.code, 0);
    assert_eq!(p.muster("script lint demo --strict").code, 1);
}

#[test]
fn m13_a_second_signer_is_added_and_one_key_counts_once() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    p.sh("ssh-keygen -q -t ed25519 -N '' -f second; (printf 'muster namespaces=\"muster-intent\" '; cut -d' ' -f1-2 second.pub) >> trust/allowed_signers");
    assert_eq!(p.muster("sign demo").code, 0);
    let one = p.muster("verify demo --signers-needed 2 -o json");
    assert!(one.code == 4 && one.out.contains("\"threshold\""), "{}", one.out);
    let twice = p.muster("sign demo --add");
    assert!(twice.code == 4 && twice.err.contains("error[signature-duplicate]"), "{}", twice.err);
    let ran = p.muster("sign demo --add --key second");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("join: runs as root the script"), "what is signed is shown first: {}", ran.err);
    assert_eq!(p.muster("verify demo --signers-needed 2").code, 0);
    // More signers needed than the file can give is a fault of the file.
    let ran = p.muster("verify demo --allowed-signers trust/allowed_signers --signers-needed 3");
    assert!(ran.code == 3 && ran.err.contains("error[trust-file]"), "{}", ran.err);
    // A copy of a signature under another name is the same signer.
    p.sh("cp demo/signed/join.1.sig demo/signed/join.2.sig");
    let ran = p.muster("verify demo --signers-needed 2 -o json");
    assert!(ran.code == 4 && ran.out.contains("\"threshold\""), "{}", ran.out);
}

#[test]
fn a_second_signer_signs_nothing_that_was_changed() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    p.sh("ssh-keygen -q -t ed25519 -N '' -f second");
    assert_eq!(p.muster("sign demo").code, 0);
    p.sh("echo '# changed' >> demo/join.sh");
    let ran = p.muster("sign demo --add --key second");
    assert!(
        ran.code == 4 && ran.err.contains("error[script-digest]: demo/signed/join.intent"),
        "{}",
        ran.err
    );
    assert_eq!(p.sh("ls demo/signed/*.2.sig 2>/dev/null || true"), "");
}

#[test]
fn every_key_kind_signs_and_rsa_through_aws_lc() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    for (kind, bits) in [
        ("ed25519", ""),
        ("ecdsa", "-b 256"),
        ("ecdsa", "-b 384"),
        ("ecdsa", "-b 521"),
        ("rsa", "-b 3072"),
        ("rsa", "-b 4096"),
    ] {
        p.sh(&format!("rm -f k k.pub; ssh-keygen -q -t {kind} {bits} -N 'pass phrase' -f k; (printf 'muster '; cut -d' ' -f1-2 k.pub) > as"));
        p.write("pp", "pass phrase\n");
        let ran = p.muster("sign demo --key k --passphrase-file pp");
        assert_eq!(ran.code, 0, "{kind} {bits}: {}", ran.err);
        p.sh("ssh-keygen -Y verify -n muster-intent -I muster -f as -s demo/signed/join.1.sig < demo/signed/join.intent");
        assert_eq!(p.muster("verify demo --allowed-signers as").code, 0, "{kind} {bits}");
    }
    p.sh("rm -f k k.pub; ssh-keygen -q -t rsa -b 2048 -N '' -f k");
    let ran = p.muster("sign demo --key k");
    assert!(ran.code == 3 && ran.err.contains("error[key-kind]"), "{}", ran.err);
}

#[test]
fn an_agent_signs() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    for (kind, name) in [("ed25519", "a"), ("rsa", "b"), ("ecdsa", "c")] {
        p.sh(&format!("ssh-keygen -q -t {kind} -N '' -C key-{name} -f {name}"));
    }
    let agent = Agent::start(&p);
    p.sh(&format!("export SSH_AUTH_SOCK={}; ssh-add -q a b c", agent.socket));
    for name in ["a", "b", "c"] {
        p.sh(&format!("(printf 'muster '; cut -d' ' -f1-2 {name}.pub) > as; mv {name} away-{name}"));
        for how in [
            format!("key-{name}"),
            format!("{name}.pub"),
            p.sh(&format!("ssh-keygen -lf {name}.pub | cut -d' ' -f2")).trim().to_owned(),
        ] {
            let mut c = p.command(crate::run::MUSTER);
            c.args(["sign", "demo", "--signer-agent", &how]).env("SSH_AUTH_SOCK", &agent.socket);
            let ran = p.finish(c, b"");
            assert_eq!(ran.code, 0, "{how}: {}", ran.err);
            assert_eq!(p.muster("verify demo --allowed-signers as").code, 0, "{how}");
        }
    }
    let mut c = p.command(crate::run::MUSTER);
    c.args(["sign", "demo", "--signer-agent", "SHA256:nobody"]).env("SSH_AUTH_SOCK", &agent.socket);
    let ran = p.finish(c, b"");
    assert!(ran.code == 3 && ran.err.contains("error[agent-key-missing]"), "{}", ran.err);
    let ran = p.muster("sign demo --signer-agent key-a");
    assert!(ran.code == 3 && ran.err.contains("error[agent-unreachable]"), "{}", ran.err);
}

/// A real ssh-agent, ended with the test.
pub(crate) struct Agent {
    pub(crate) socket: String,
    pid: String,
}

impl Agent {
    pub(crate) fn start(p: &Place) -> Self {
        let text = p.sh("ssh-agent -s");
        let value = |name: &str| {
            text.split(&format!("{name}=")).nth(1).unwrap().split(';').next().unwrap().to_owned()
        };
        Self { socket: value("SSH_AUTH_SOCK"), pid: value("SSH_AGENT_PID") }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = std::process::Command::new("/bin/kill").arg(&self.pid).status();
    }
}

#[test]
fn envelope_one_is_the_published_signature() {
    let p = Place::new();
    p.fleet();
    for phase in ["install", "join", "leave"] {
        p.write(
            &format!("kp/{phase}.sh"),
            format!("#!/usr/bin/env bash\nset -euo pipefail\necho \"{phase} $KPSSH_NODE_NAME\"\n"),
        );
    }
    let ran = p.muster("sign kp --envelope 1");
    assert_eq!(ran.code, 0, "{}", ran.err);
    p.sh("(printf 'kpssh namespaces=\"kpssh\" '; cut -d' ' -f1-2 keys/signer.pub) > as");
    for phase in ["install", "join", "leave"] {
        p.sh(&format!("ssh-keygen -Y verify -n kpssh -I kpssh -f as -s kp/{phase}.sh.sig < kp/{phase}.sh"));
    }
    assert_eq!(p.muster("verify kp --envelope 1 --allowed-signers as").code, 0);
    // A signature made for an intent is none for envelope 1, whoever made it (VE5).
    p.sh("ssh-keygen -q -Y sign -f keys/signer -n git kp/join.sh < /dev/null 2>&1 || true; rm kp/join.sh.sig; ssh-keygen -q -Y sign -f keys/signer -n git kp/join.sh");
    let ran = p.muster("verify kp --envelope 1 --allowed-signers as -o json");
    assert!(ran.code == 4 && ran.out.contains("\"namespace\""), "{}", ran.out);
}

#[test]
fn show_says_in_words_what_was_signed() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    let ran = p.muster("sign demo --not-before 2026-11-29T00:00:00Z --not-after 2026-12-29T00:00:00Z --plan");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!p.join("demo/signed").exists(), "--plan signs nothing");
    assert_eq!(
        p.muster("sign demo --not-before 2026-11-29T00:00:00Z --not-after 2999-12-29T00:00:00Z").code,
        0
    );
    let ran = p.muster("script show demo");
    let out: String = ran
        .out
        .lines()
        .map(|l| l.replace(p.read("keys/signer.pub").trim(), ""))
        .collect::<Vec<_>>()
        .join("\n");
    for want in [
        "Profile demo, epoch 3.",
        "For every host of pool edge.",
        "MUSTER_CLUSTER_ENDPOINT is \"https://10.0.0.5:6443\": signed, and nobody can send another.",
        "MUSTER_NODE_NAME must be sent, and must match as a whole: [a-z0-9-]{1,63}",
        "It may take 15m, and is left to finish when the connection goes away.",
        "floor: runs nothing; hosts refuse epochs of demo below 3 from then on.",
    ] {
        assert!(out.contains(want), "{want}: {out}");
    }
    let single = p.muster("script show demo/signed/join.intent -o json");
    let value: serde_json::Value = serde_json::from_str(&single.out).unwrap();
    assert_eq!(value[0]["phase"], "join");
    p.sh("echo >> demo/join.sh");
    assert!(p.muster("script show demo").out.contains("WHICH IS NOT THE ONE BESIDE IT"));
}

#[test]
fn the_example_profile_is_clean_and_signs() {
    let p = Place::new();
    p.fleet();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/example-heartbeat");
    p.sh(&format!("cp -r {example} heartbeat"));
    let ran = p.muster("script lint heartbeat --strict");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    let ran = p.muster("sign heartbeat");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    assert_eq!(p.muster("verify heartbeat --host a --pool example").code, 0);
    // No signed artefact is shipped with it: whoever uses it signs it with his own key.
    assert!(!std::path::Path::new(example).join("signed").exists());
}
