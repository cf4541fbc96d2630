//! Commands x failures: the exit code is never 0, and the message is one clear line (CL1).

use crate::run::{MUSTER, Place};

/// Arguments, exit code, what the first line of stderr begins with.
type Row = (&'static str, i32, &'static str);

fn place() -> Place {
    let p = Place::new();
    p.fleet();
    p.profile("demo");
    assert_eq!(p.muster("sign demo -q").code, 0);
    p.write("bad.yaml", "hosts:\n  a:\n    ssh: {adress: b}\n");
    p.write(
        "good.yaml",
        format!("trust: {{allowed-signers: trust/allowed_signers}}\nhosts:\n  a: {{ssh: {{address: b, host-key: \"SHA256:{}\"}}, pools: [edge]}}\n", "A".repeat(43)),
    );
    p.write("syntax.yaml", "hosts: [a\nb: c\n");
    p.write("many.yaml", "hosts: {}\n---\nhosts: {}\n");
    p.write("big.yaml", vec![b'#'; 9 * 1024 * 1024]);
    p.write("latin.yaml", b"hosts: {}\n# \xe9\n");
    p.write("empty/x", "");
    p.write("noscript/profile.yaml", "profile: a\nepoch: 1\ntargets: \"*\"\n");
    p.write("noepoch/profile.yaml", "profile: a\ntargets: \"*\"\n");
    p.write("noepoch/join.sh", "set -euo pipefail\n");
    p.write("void/profile.yaml", "profile: a\nepoch: 1\ntargets: \"*\"\n");
    p.write("void/join.sh", "");
    p.write("syntax/profile.yaml", "profile: a\nepoch: 1\ntargets: \"*\"\n");
    p.write("syntax/join.sh", "set -euo pipefail\nif true; then\n");
    p.write("trust.bad", "muster octopus ssh-ed25519 AAAA\n");
    p.sh("cp keys/signer open.key; chmod 644 open.key; head -c 100 keys/signer > cut.key; chmod 600 cut.key; cp -r demo cut; head -c 40 demo/signed/join.1.sig > cut/signed/join.1.sig; cp -r demo torn; head -3 demo/signed/join.intent > torn/signed/join.intent");
    p.sh("ssh-keygen -q -t ed25519 -N 'a passphrase' -f locked");
    p.write("wrong", "another\n");
    p
}

const TABLE: &[Row] = &[
    ("bogus", 2, "error[usage]: "),
    ("host list --bogus", 2, "error[usage]: "),
    ("host list -o xml", 2, "error[usage]: "),
    ("script lint", 2, "error[usage]: "),
    ("sign demo --key a --signer-agent b", 2, "error[usage]: "),
    ("sign demo --not-before yesterday", 2, "error[usage]: --not-before \"yesterday\" is not a time"),
    ("sign demo --validity 30", 2, "error[usage]: --validity \"30\" is not a duration"),
    ("sign demo --target edge", 2, "error[usage]: --target \"edge\" is not a target"),
    ("sign demo --add --envelope 1", 2, "error[usage]: envelope 1 carries one signature"),
    ("verify demo --host A", 2, "error[usage]: host name \"A\""),
    ("-q ssh-keygen -Y verify", 2, "error[usage]: options stand before ssh-keygen"),
    ("host list -i nowhere.yaml", 3, "error[file-missing]: cannot read nowhere.yaml"),
    (
        "host list -i bad.yaml",
        3,
        "error[config-key]: bad.yaml:3: unknown key \"adress\" in hosts.a.ssh. Did you mean \"address\"?",
    ),
    ("host list -i syntax.yaml", 3, "error[yaml-syntax]: syntax.yaml:"),
    ("host list -i many.yaml", 3, "error[yaml-unsupported]: many.yaml:2: a second document begins here"),
    ("host list -i big.yaml", 3, "error[file-too-large]: big.yaml"),
    ("host list -i latin.yaml", 3, "error[file-unreadable]: latin.yaml:2: bytes that are not UTF-8"),
    ("host list -i demo", 3, "error[file-unreadable]: demo is a folder"),
    ("host list nobody", 3, "error[host-unknown]: no host \"nobody\""),
    ("host list -l a=", 2, "error[selector-form]: -l \"a=\""),
    ("explain nothing-such", 3, "error[code-unknown]: "),
    (
        "script lint nowhere",
        3,
        "error[file-missing]: there is no folder nowhere. Name the folder of a profile",
    ),
    ("script lint trust.bad", 3, "error[file-unreadable]: trust.bad is not a folder"),
    ("sign nowhere --envelope 1", 3, "error[file-missing]: there is no folder nowhere"),
    ("sign nowhere --add", 3, "error[file-missing]: there is no folder nowhere"),
    ("verify nowhere", 3, "error[file-missing]: there is no folder nowhere"),
    ("host join a --profile nowhere -i good.yaml", 3, "error[file-missing]: there is no folder nowhere"),
    (
        "host floor raise a --profile nowhere -i good.yaml",
        3,
        "error[file-missing]: there is no folder nowhere",
    ),
    ("host provision a --profile nowhere -i good.yaml", 3, "error[file-missing]: there is no folder nowhere"),
    ("host join a --profile empty -i good.yaml", 3, "error[phase-missing]: empty/join.sh is not there"),
    (
        "host floor raise a --profile empty -i good.yaml",
        3,
        "error[signed-missing]: empty has no signed intent for floor: it has no folder signed/. Sign it with `muster script sign empty`",
    ),
    (
        "host provision a --profile empty -i good.yaml",
        3,
        "error[signed-missing]: empty holds nothing signed: it has no folder signed/. Sign it with `muster script sign empty`",
    ),
    (
        "host floor set a --floor tiny=0 -i good.yaml",
        2,
        "error[usage]: --floor \"tiny=0\" is not NAME=EPOCH. Write --floor tls-bootstrap=7: a profile and a whole number from 1.",
    ),
    ("-i good.yaml host list", 2, "hint: -i stands after the command: muster host list … -i …"),
    (
        "host --admin-key k provision a",
        2,
        "hint: --admin-key stands after the command: muster host provision … --admin-key …",
    ),
    (
        "host join a --profile demo -i good.yaml",
        4,
        "hint: MUSTER_NODE_NAME is declared, and its value must match as a whole: [a-z0-9-]{1,63}",
    ),
    ("script lint empty", 3, "error[manifest-missing]: empty has no profile.yaml"),
    ("script lint noscript", 3, "error[phase-missing]: noscript has no install.sh"),
    ("script lint syntax", 1, "syntax: 1 errors"),
    ("sign syntax", 4, "warning: "),
    ("sign noepoch", 3, "error[config-missing]: noepoch/profile.yaml: the profile has no epoch"),
    ("sign void", 4, "error[script-size]: void/join.sh: the script is empty"),
    (
        "sign demo --not-before 2030-01-01T00:00:00Z --not-after 2029-01-01T00:00:00Z",
        3,
        "error[config-value]: demo/profile.yaml: it would be valid from",
    ),
    ("sign demo --key nokey", 3, "error[file-missing]: cannot read nokey"),
    (
        "sign demo --key open.key",
        3,
        "error[key-file]: open.key has mode 0644: others could read a private key. Run: chmod 600 open.key",
    ),
    ("sign demo --key cut.key", 3, "error[key-file]: cut.key is not an OpenSSH private key"),
    ("sign demo --key keys/signer.pub", 3, "error[key-file]: keys/signer.pub has mode 0644"),
    ("sign demo --key locked", 3, "error[passphrase-needed]: "),
    (
        "sign demo --key locked --passphrase-file wrong",
        3,
        "error[passphrase]: the passphrase does not open locked",
    ),
    ("sign demo --key locked --passphrase-file nowhere", 3, "error[file-missing]: cannot read nowhere"),
    ("sign demo --signer-agent SHA256:x", 3, "error[agent-unreachable]: "),
    ("sign demo --add", 4, "Profile demo, epoch 3."),
    ("sign noscript --add", 3, "error[signed-missing]: noscript holds nothing signed to add to"),
    ("sign empty --envelope 1 --key keys/signer", 3, "error[phase-missing]: empty has no install.sh"),
    ("verify empty", 3, "error[signed-missing]: empty holds nothing signed"),
    ("verify cut", 4, "error[signature-malformed]: cut/signed/join.1.sig: "),
    ("verify torn", 3, "error[signed-form]: torn/signed/join.intent"),
    ("verify demo --allowed-signers nowhere", 3, "error[file-missing]: cannot read nowhere"),
    ("verify demo --allowed-signers trust.bad", 3, "error[trust-file]: trust.bad:1: "),
    ("verify demo --allowed-signers demo/profile.yaml", 3, "error[trust-file]: demo/profile.yaml:1: "),
    ("script show nowhere", 3, "error[file-missing]: cannot read nowhere"),
    ("script show empty", 3, "error[signed-missing]: empty holds nothing signed"),
    ("script show keys/signer.pub", 3, "error[signed-form]: keys/signer.pub:1: "),
    ("init", 4, "error[exists]: "),
    ("init new --signer-public nowhere", 3, "error[file-missing]: "),
    (
        "init new --signer-public inventory.yaml",
        3,
        "error[key-file]: inventory.yaml:1: not an OpenSSH public key",
    ),
    ("init new", 3, "error[passphrase-needed]: "),
    ("pki init --pki /proc/nowhere --danger-no-passphrase", 9, "error[file-write]: "),
];

#[test]
fn cl1_every_failure_has_its_exit_code_and_one_clear_line() {
    let p = place();
    for (line, code, begins) in TABLE {
        // setsid: without a terminal nobody can be asked, which is what a pipeline sees.
        let mut c = p.command("/usr/bin/setsid");
        c.args(["-w", MUSTER]).args(line.split_whitespace());
        let ran = p.finish(c, b"");
        assert_eq!(ran.code, *code, "muster {line}: {}{}", ran.out, ran.err);
        let first = ran.err.lines().find(|l| l.starts_with(begins));
        assert!(first.is_some(), "muster {line}: no line begins with {begins:?}: {}", ran.err);
        for error in ran.err.lines().filter(|l| l.starts_with("error[")) {
            let (_, text) = error.split_once("]: ").unwrap();
            assert!(
                text.ends_with(['.', '?']) || text.contains(". "),
                "muster {line}: says not what to do: {error}"
            );
            let word = error.trim_start_matches("error[").split(']').next().unwrap();
            assert_eq!(p.muster(&format!("explain {word}")).code, 0, "{word} has no page");
        }
        assert!(
            line.starts_with("script lint") || !ran.out.contains("error["),
            "muster {line}: talk on stdout"
        );
    }
    assert_eq!(p.muster("").code, 2, "no command at all");
}

#[test]
fn stdout_is_data_and_a_closed_pipe_is_no_fault() {
    let p = place();
    let mut c = p.command("/bin/bash");
    c.args(["-c", &format!("{MUSTER} explain | head -1; echo ${{PIPESTATUS[0]}}")]);
    let ran = p.finish(c, b"");
    assert!(ran.out.ends_with("\n0\n"), "{}{}", ran.out, ran.err);
    assert!(!ran.err.contains("panic") && !ran.err.contains("error"), "{}", ran.err);
    let mut c = p.command("/bin/bash");
    c.args(["-c", &format!("{MUSTER} --help | true; {MUSTER} completion bash | true; {MUSTER} script show demo >&-; {MUSTER} explain >/dev/full")]);
    let ran = p.finish(c, b"");
    assert!(!ran.err.contains("panic"), "{}", ran.err);
    // A disk that is full is no reader that left: what was asked for is not there.
    let mut c = p.command("/bin/bash");
    c.args(["-c", &format!("{MUSTER} explain >/dev/full")]);
    let ran = p.finish(c, b"");
    assert!(ran.code == 9 && ran.err.contains("cannot write to standard output"), "{} {}", ran.code, ran.err);
}

#[test]
fn no_colour_off_a_terminal_nor_under_no_color() {
    let p = place();
    for line in ["script lint syntax", "host list nobody", "explain"] {
        let ran = p.muster(line);
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{line}");
    }
    let ran = p.muster("script lint syntax --color always");
    assert!(ran.out.contains('\u{1b}'), "asked for: {}", ran.out);
    // On a real terminal (script(1) makes one): colour, and none under NO_COLOR.
    for (no_color, want) in [("", true), ("1", false)] {
        let mut c = p.command("/usr/bin/script");
        c.args(["-qec", &format!("{MUSTER} host list nobody"), "/dev/null"])
            .env("NO_COLOR", no_color)
            .env("TERM", "xterm");
        let ran = p.finish(c, b"");
        assert_eq!(ran.out.contains("\u{1b}[1;31m"), want, "NO_COLOR={no_color:?}: {:?}", ran.out);
    }
}

#[test]
fn a_passphrase_is_asked_on_the_terminal_without_echo() {
    use std::io::{Read, Write};
    let p = place();
    for (typed, code) in [
        ("a passphrase\n", 0),
        ("a passphx\u{7f}rase\n", 0),
        ("nonsense\u{15}a passphrase\n", 0),
        ("wrong\n", 3),
        ("\u{3}", 130),
    ] {
        let mut c = p.command("/usr/bin/script");
        c.args(["-qec", &format!("{MUSTER} sign demo --key locked"), "/dev/null"]).env("TERM", "dumb");
        c.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = c.spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut seen = Vec::new();
        let mut byte = [0u8];
        while !String::from_utf8_lossy(&seen).contains("Passphrase of locked: ") {
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        input.write_all(typed.as_bytes()).unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{typed:?}: {rest}");
        assert!(!rest.contains("passph") || !rest.contains("rase\r"), "echoed: {rest}");
        assert!(!rest.contains(typed.trim_end()) || typed == "\u{3}", "echoed: {rest}");
    }
}

#[test]
fn cl6_lists_come_as_json_yaml_and_names() {
    let p = place();
    p.write("i.yaml", "hosts:\n  edge-1: {ssh: {address: 10.0.0.1}, pools: [edge], labels: {site: \"on\"}}\n  edge-2: {ssh: {address: \"::1\"}, exec-mode: raw}\n");
    insta::assert_snapshot!("host_list_table", p.muster("host list -i i.yaml").out);
    insta::assert_snapshot!("host_list_json", p.muster("host list -i i.yaml -o json").out);
    insta::assert_snapshot!("host_list_yaml", p.muster("host list -i i.yaml -o yaml").out);
    assert_eq!(p.muster("host list -i i.yaml -o name").out, "edge-1\nedge-2\n");
    assert_eq!(p.muster("host list -i i.yaml -o name -l pool=edge").out, "edge-1\n");
    let empty = p.muster("host list -o json");
    assert_eq!((empty.code, empty.out.as_str()), (0, "[]\n"));
    let codes = p.muster("explain -o name").out;
    assert!(codes.lines().any(|l| l == "threshold") && codes.lines().count() > 140);
    let lint: serde_json::Value = serde_json::from_str(&p.muster("script lint syntax -o json").out).unwrap();
    assert!(
        lint.as_array().unwrap().iter().any(|r| r["code"] == "lint-syntax" && r["line"].as_u64() > Some(1)),
        "{lint}"
    );
}
