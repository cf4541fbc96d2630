//! Help and completions: one definition, two forms. The third, man pages, is muster-gen's.

use crate::run::Place;

const COMMANDS: &[&str] = &[
    "",
    "init",
    "script",
    "script lint",
    "script sign",
    "script verify",
    "script show",
    "sign",
    "verify",
    "host",
    "host list",
    "host add",
    "host provision",
    "host unprovision",
    "host doctor",
    "host rotate-key",
    "host probe",
    "host install",
    "host join",
    "host leave",
    "host uninstall",
    "host floor",
    "host floor show",
    "host floor set",
    "host floor raise",
    "node",
    "node claim",
    "node pin",
    "node list",
    "node status",
    "node apply",
    "node services",
    "node logs",
    "node restart",
    "node upgrade",
    "node cordon",
    "node uncordon",
    "node drain",
    "node reboot",
    "node shutdown",
    "node reset",
    "node forget",
    "node ssh-key",
    "node ssh-key add",
    "node ssh-key list",
    "node ssh-key revoke",
    "node kubeconfig",
    "node join-token",
    "node etcd",
    "enroll",
    "pki",
    "pki init",
    "pki issue",
    "pki list",
    "pki revoke",
    "pki publish",
    "pki rotate",
    "context",
    "context list",
    "context use",
    "context show",
    "audit",
    "audit verify",
    "audit tail",
    "ui",
    "explain",
    "completion",
];

#[test]
fn help_is_golden() {
    let p = Place::new();
    let mut all = String::new();
    for command in COMMANDS {
        let ran = p.muster(&format!("{command} --help"));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command}");
        all.push_str(&format!("### muster {command}\n{}\n", ran.out));
    }
    insta::assert_snapshot!("help", all);
}

#[test]
fn every_command_is_in_the_help_table() {
    let p = Place::new();
    for command in COMMANDS.iter().filter(|c| {
        ["", "script", "host", "host floor", "node", "node ssh-key", "pki", "context", "audit"].contains(*c)
    }) {
        let out = p.muster(&format!("{command} --help")).out;
        let listed = out.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        for name in listed
            .lines()
            .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
            .filter_map(|l| l.split_whitespace().next())
        {
            let full = format!("{command} {name}");
            let known = COMMANDS.contains(&full.trim()) || matches!(name, "help" | "ssh-keygen");
            assert!(known, "{full} has no golden help");
        }
    }
}

#[test]
fn completions_load() {
    let p = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = p.muster(&format!("completion {shell}"));
        assert!(ran.code == 0 && ran.out.contains("muster"), "{shell}");
        if shell == "bash" {
            p.write("c.bash", ran.out);
            p.sh("source c.bash; complete -p muster");
        }
    }
}
