//! Commands of nodes x failures: the exit code is never 0 and says what is known, and the line is one clear line (CL1).

use super::{Nodes, nonce, target};
use crate::run::Ran;
use muster_client::testing::{Answers, Operators, Reply, Server, reply};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Nothing listens.
    Unreachable,
    /// Another certificate than the pinned one.
    OtherCertificate,
    /// The node obeys another authority.
    TurnedAway,
    /// The role is not enough.
    Forbidden,
    /// The node's state forbids it.
    Conflict,
    /// It was tried.
    Failed,
    /// The core ended over the call.
    CoreLost,
    /// The answer ends in the middle.
    Torn,
}

const ALL: [Wrong; 8] = [
    Wrong::Unreachable,
    Wrong::OtherCertificate,
    Wrong::TurnedAway,
    Wrong::Forbidden,
    Wrong::Conflict,
    Wrong::Failed,
    Wrong::CoreLost,
    Wrong::Torn,
];

/// What a command does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reads,
    Changes,
    /// Looks at the node first; what goes wrong goes wrong at the call itself.
    Ends,
}

const KEY: &str = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const STATE: &str = r#"{"hostname":"edge-1","bootstrapped":true,"os":{"booted":{"digest":"sha256:old"}},"health":{"uptimeSeconds":90},"management":{}}"#;

/// Every leaf that calls a node.
const LEAVES: &[(&str, Kind)] = &[
    ("node status edge-1", Kind::Reads),
    ("node services edge-1", Kind::Reads),
    ("node logs edge-1", Kind::Reads),
    ("node ssh-key list edge-1", Kind::Reads),
    ("node etcd edge-1", Kind::Reads),
    ("audit verify edge-1", Kind::Reads),
    ("audit tail edge-1", Kind::Reads),
    ("node restart edge-1 --unit kubelet", Kind::Changes),
    ("node cordon edge-1", Kind::Changes),
    ("node uncordon edge-1", Kind::Changes),
    ("node apply edge-1 --file node.yaml", Kind::Changes),
    ("node ssh-key add edge-1 --user core --key-file k.pub", Kind::Changes),
    ("node ssh-key revoke edge-1 --key SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", Kind::Changes),
    ("node kubeconfig edge-1", Kind::Changes),
    ("node join-token edge-1", Kind::Changes),
    ("pki publish edge-1", Kind::Changes),
    ("node drain edge-1 --yes", Kind::Ends),
    ("node reboot edge-1 --yes", Kind::Ends),
    ("node shutdown edge-1 --yes", Kind::Ends),
    ("node reset edge-1 --yes", Kind::Ends),
    ("node upgrade edge-1 --rollback --yes", Kind::Ends),
    ("pki rotate edge-1 --to new --yes", Kind::Ends),
    ("node upgrade edge-1 --image r.example/os@sha256:new --yes", Kind::Ends),
];

/// The exit code, and how the first line begins.
fn want(kind: Kind, wrong: Wrong) -> (i32, &'static str) {
    match (wrong, kind) {
        (Wrong::Unreachable, _) => (5, "error[node-unreachable]: edge-1: "),
        (Wrong::OtherCertificate, _) => (5, "error[node-certificate]: edge-1: "),
        (Wrong::TurnedAway, _) => (5, "error[node-turned-away]: edge-1: "),
        (Wrong::Forbidden | Wrong::Conflict, _) => (6, "error[node-refused]: edge-1: "),
        (Wrong::Failed, _) => (1, "error[node-failed]: edge-1: "),
        (Wrong::CoreLost, Kind::Reads) => (1, "error[node-failed]: edge-1: "),
        (Wrong::Torn, Kind::Reads) => (5, "error[node-unreachable]: edge-1: "),
        (Wrong::CoreLost | Wrong::Torn, Kind::Changes | Kind::Ends) => {
            (8, "error[outcome-unknown]: edge-1: ")
        }
    }
}

fn answers(kind: Kind, wrong: Wrong) -> Box<Answers> {
    Box::new(move |seen| match (target(seen), kind, wrong) {
        ("GET /v1/proof", ..) => nonce(),
        ("GET /v1/node", Kind::Ends, _) => reply(200, "", STATE.as_bytes()),
        (_, _, Wrong::Forbidden) => reply(403, "", br#"{"error":"no","reason":"role"}"#),
        (_, _, Wrong::Conflict) => reply(409, "", br#"{"error":"no","reason":"resetting"}"#),
        (_, _, Wrong::CoreLost) => reply(500, "", br#"{"error":"no","reason":"core-lost"}"#),
        (_, _, Wrong::Torn) => {
            let bytes = b"HTTP/1.1 200 x\r\ncontent-length: 100\r\n\r\n{\"status\":".to_vec();
            Reply { bytes, close: true }
        }
        _ => reply(500, "", br#"{"error":"no","reason":"operation"}"#),
    })
}

fn run(nodes: &Nodes, line: &str) -> Ran {
    let mut command = nodes.p.command(crate::run::MUSTER);
    command.args(line.split_whitespace()).env("MUSTER_CLIENT", "pki/clients/alice.pem");
    nodes.p.finish(command, b"")
}

#[test]
fn cl1_every_call_of_a_node_that_fails_has_its_exit_code_and_one_clear_line() {
    let nodes = Nodes::new();
    let p = &nodes.p;
    p.sh("ssh-keygen -q -t ed25519 -N '' -C me -f k");
    p.write("node.yaml", "muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    enabled: true\n");
    nodes.ran("pki revoke -q", 0);
    nodes.ran("pki init -q --pki new --danger-no-passphrase", 0);
    nodes.ran("pki issue carol --role admin -q --pki new --danger-no-passphrase", 0);
    let (ours, theirs) = (nodes.authority("pki"), Operators::new(3));
    let pins = p.join(".local/state/muster/node-pins");
    // Below the ports that systems hand out: nobody listens there by chance.
    let free = "127.0.0.1:1";
    let mut wrongs = Vec::new();
    for (line, kind) in LEAVES {
        for wrong in ALL {
            let authority = if wrong == Wrong::TurnedAway { theirs.authority.ca() } else { &ours };
            let server = nodes.runtime.block_on(Server::start(&[authority], answers(*kind, wrong)));
            let _ = std::fs::remove_file(&pins);
            match wrong {
                Wrong::Unreachable => {
                    drop(p.write(".local/state/muster/node-pins", format!("edge-1 {free} {KEY}\n")))
                }
                Wrong::OtherCertificate => {
                    p.write(".local/state/muster/node-pins", format!("edge-1 {} {KEY}\n", server.address));
                }
                _ => nodes.pin("edge-1", &server),
            }
            let ran = run(&nodes, line);
            let (code, begins) = want(*kind, wrong);
            let first = ran.err.lines().find(|l| l.starts_with("error[")).unwrap_or_default();
            // What to do about it stands behind.
            let told = first.starts_with(begins) && first.contains(". ") && first.ends_with('.');
            if ran.code != code || !told {
                wrongs.push(format!(
                    "{line}, {wrong:?}: {}, not {code} {begins}: {}{}",
                    ran.code, ran.out, ran.err
                ));
            }
        }
    }
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

/// Faults that need no node.
const HERE: &[(&str, i32, &str)] = &[
    ("node status nobody", 3, "error[node-unknown]: "),
    ("node status", 3, "error[nothing-selected]: "),
    ("node reset --all edge-1", 2, "error[usage]: "),
    ("node status -l a=", 2, "error[selector-form]: "),
    ("node status edge-1 --client nowhere.pem", 3, "error[file-missing]: "),
    ("node status edge-1 --context nowhere", 3, "error[context-unknown]: "),
    ("node status edge-1 --timeout soon", 2, "error[usage]: "),
    ("node restart edge-1", 2, "error[usage]: "),
    ("node apply edge-1 --file nowhere.yaml", 3, "error[file-missing]: "),
    ("node apply edge-1 --file bad.yaml --plan", 3, "error[config-key]: bad.yaml:"),
    ("node ssh-key revoke edge-1 --key x", 2, "error[usage]: "),
    ("node ssh-key add edge-1 --user core --key-file pki/operator-ca.pem", 3, "error[key-file]: "),
    ("node claim", 2, "error[usage]: "),
    ("node claim 192.0.2.1 --code-file nowhere", 3, "error[pairing-code]: "),
    ("node claim 192.0.2.1 --no-code --authority nowhere.pem", 3, "error[file-missing]: "),
    ("node pin 192.0.2.1 --fingerprint x", 2, "error[usage]: "),
    ("node forget nobody", 3, "error[node-unknown]: "),
    ("node kubeconfig edge-1 edge-2", 2, "error[usage]: this is asked of one node"),
    ("pki issue", 2, "error[usage]: "),
    ("pki issue a/b --role admin --danger-no-passphrase", 2, "error[usage]: "),
    ("pki issue alice --role admin --danger-no-passphrase", 4, "error[exists]: "),
    ("pki issue bob --role admin --pki nowhere --danger-no-passphrase", 3, "error[file-missing]: "),
    ("pki init --danger-no-passphrase", 4, "error[exists]: "),
    ("pki list --pki nowhere", 3, "error[file-missing]: "),
    ("pki revoke nobody", 3, "error[client-unknown]: "),
    ("pki revoke nobody --plan", 3, "error[client-unknown]: "),
    ("pki publish edge-1 --list nowhere", 3, "error[file-missing]: "),
    ("pki rotate edge-1 --to nowhere", 3, "error["),
    ("audit verify --file nowhere", 3, "error[file-missing]: "),
    ("audit verify --file bad.yaml", 1, "error[audit-broken]: bad.yaml:1: "),
    ("audit verify --file /dev/null", 1, "error[audit-broken]: /dev/null: there is no record in it"),
    ("audit verify --file torn", 1, "error[audit-broken]: torn: there is no record in it"),
    ("audit verify --file bad.yaml --head x", 2, "error[usage]: "),
    ("audit tail edge-1 edge-2", 2, "error[usage]: this is asked of one node"),
    ("context use nowhere", 3, "error[context-unknown]: "),
    ("context show nowhere", 3, "error[context-unknown]: "),
    ("context show", 3, "error[context-unknown]: "),
];

#[test]
fn cl1_every_fault_that_is_found_here_has_its_exit_code_and_one_clear_line() {
    let nodes = Nodes::new();
    let p = &nodes.p;
    p.write("bad.yaml", "muster:\n  rol: init\n");
    p.write("torn", "{\"seq\":1,");
    p.write(
        ".local/state/muster/node-pins",
        format!("edge-1 192.0.2.1:7443 {KEY}\nedge-2 192.0.2.2:7443 {KEY}\n"),
    );
    let mut wrongs = Vec::new();
    for (line, code, begins) in HERE {
        let ran = nodes.run(line);
        if ran.code != *code || !ran.err.lines().any(|l| l.starts_with(begins)) {
            wrongs.push(format!("{line}: {}, not {code} {begins}: {}{}", ran.code, ran.out, ran.err));
        }
    }
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}
