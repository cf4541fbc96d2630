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
