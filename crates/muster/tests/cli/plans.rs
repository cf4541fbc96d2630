//! `provision --as …`: the plan in other tools' forms, without connecting to anything.

use crate::run::Place;

#[test]
fn a_plan_in_another_tools_form_connects_to_nothing() {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    assert_eq!(p.muster("script sign demo").code, 0);
    // 192.0.2.0/24 answers nobody (RFC 5737).
    let print = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for name in ["edge-1", "edge-2"] {
        let ran = p.muster(&format!(
            "host add {name} --address 192.0.2.{} --host-key {print} --pool edge",
            &name[5..]
        ));
        // The same key under a second address is for whoever wrote it to answer for.
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let line = "host provision edge-1 --profile demo --shim-binary /usr/bin/id";
    let form = |form: &str| {
        let ran = p.muster(&format!("{line} --as {form}"));
        assert_eq!(ran.code, 0, "{form}: {}", ran.err);
        for word in ["muster-shim", "shim.toml"] {
            assert!(ran.out.contains(word), "{form} lacks {word}");
        }
        assert!(!ran.out.contains("PRIVATE KEY"), "{form}");
        assert!(!ran.out.contains("192.0.2.2"), "{form}");
        ran.out
    };
    p.write("plan.sh", form("sh"));
    p.sh("bash -n plan.sh; head -n1 plan.sh | grep -q '^#!'");
    assert!(form("cloud-init").starts_with("#cloud-config\n"));
    assert!(form("ansible").contains("hosts:"));
    for (more, code, word) in [
        ("--as sh --plan", 2, "usage"),
        ("--as cobol", 2, "usage"),
        ("edge-2 --as sh", 2, "usage"),
        ("--as sh --shim-sha256 00", 3, "config-value"),
        ("--as sh --env LD_PRELOAD=x", 3, "config-value"),
        ("--as sh --controller-key nowhere.pub", 3, "file-missing"),
        ("--as sh --signers-needed 2", 3, "config-value"),
        ("--as sh --allow-profile demo", 2, "usage"),
    ] {
        let ran = p.muster(&format!("{line} {more}"));
        assert_eq!(ran.code, code, "{more}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(&format!("error[{word}]")), "{more}: {}", ran.err);
        assert!(ran.out.is_empty(), "{more}: {}", ran.out);
    }
}

const PROVISION: &str = "\n  provision:\n    controllers: [{key: keys/controller, from: 10.0.0.0/8, phases: [join, leave]}]\n    profiles: [demo]\n    \
                         env: {HTTPS_PROXY: 'http://proxy:3128'}\n    max-deadline: 10m\n    epoch-max-step: 20\n    drop-in: fleet\n    \
                         envelope-1: {on-disconnect: finish, deadlines: {leave: 5m}, namespace: ours, principal: us}\n";

/// Two hosts, two signed profiles, and an inventory that says everything that it can of provisioning.
fn described() -> Place {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    p.profile("other");
    p.sh("sed -i 's/^profile: .*/profile: other/' other/profile.yaml");
    for profile in ["demo", "other"] {
        let ran = p.muster(&format!("script sign {profile}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let print = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(p.muster(&format!("host add edge-1 --address 192.0.2.1 --host-key {print}")).code, 0);
    assert_eq!(p.muster(&format!("host add edge-2 --address 192.0.2.2 --host-key {print}")).code, 0);
    let text = p.read("inventory.yaml");
    assert!(text.contains("\ndefaults:\n"), "{text}");
    p.write("inventory.yaml", text.replace("\ndefaults:\n", &format!("\ndefaults:{PROVISION}")));
    p
}

fn form(p: &Place, more: &str) -> String {
    let ran = p.muster(&format!("host provision edge-1 --shim-binary /usr/bin/id --as ansible {more}"));
    assert_eq!(ran.code, 0, "{more}: {}", ran.err);
    ran.out
}

/// What a host is lives in the inventory; a call's options stand above it for that call, and what is not given is not forgotten.
#[test]
fn the_inventory_says_what_a_host_shall_be_and_a_call_stands_above_it() {
    let p = described();
    let has = |text: &str, wants: &[&str]| {
        for want in wants {
            assert!(text.contains(want), "{want}: {text}");
        }
    };
    let kept = [
        "max-deadline = 600",
        "on-disconnect = \"finish\"",
        "deadline = { leave = 300 }",
        "namespace = \"ours\"",
        "principal = \"us\"",
        "Match User fleet",
    ];
    let plain = form(&p, "");
    has(&plain, &kept);
    has(
        &plain,
        &[
            "from=\"10.0.0.0/8\"",
            "phases = [\"probe\", \"join\", \"leave\"]",
            "[profiles.demo]",
            "epoch-max-step = 20",
            "HTTPS_PROXY = \"http://proxy:3128\"",
        ],
    );
    let over = form(
        &p,
        "--epoch-max-step 5 --env A=b --profile other --controller-key keys/controller --drop-in=kpssh",
    );
    has(
        &over,
        &[
            "max-deadline = 600",
            "epoch-max-step = 5",
            "HTTPS_PROXY = ",
            "A = \"b\"",
            "[profiles.demo]",
            "[profiles.other]",
            "Match User kpssh",
        ],
    );
    assert!(
        !over.contains("from=") && !over.contains("phases = ["),
        "the keys of the call stand in the place of all"
    );
}

/// A host that says otherwise than the defaults, and one that names what is not there: a fault with file and line, once for all hosts.
#[test]
fn what_the_inventory_names_for_provisioning_must_be_there() {
    let p = described();
    let text = p.read("inventory.yaml");
    p.write(
        "inventory.yaml",
        text.replace("  edge-1:\n", "  edge-1:\n    provision: {drop-in: false, envelope-1: false}\n"),
    );
    let off = form(&p, "");
    assert!(
        off.contains("envelope-1 = false") && !off.contains("[envelope1]") && !off.contains("kpssh-shim"),
        "{off}"
    );
    p.sh("sed -i 's|key: keys/controller, |key: keys/nobody.pub, |; s|profiles: .demo.|profiles: [nowhere]|' inventory.yaml");
    let ran = p.muster("host provision --all --shim-binary /usr/bin/id --plan");
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert_eq!(
        (ran.err.matches("error[").count(), ran.err.matches("nobody.pub").count()),
        (2, 1),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("inventory.yaml line "), "{}", ran.err);
    for (more, word) in [("--widen phase", "Known are from, phases,"), ("--as sh --widen from", "--widen")] {
        let ran = p.muster(&format!("host provision edge-1 {more}"));
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(word), "{}", ran.err);
    }
}
