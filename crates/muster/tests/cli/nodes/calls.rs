//! Calls of nodes that have an owner.

use super::{Nodes, nonce, table, target, targets};
use crate::terminal::Terminal;
use muster_client::testing::{Server, reply};
use muster_needs::require;
use std::os::unix::fs::PermissionsExt;

const STATE: &str = r#"{"hostname":"edge-1","bootstrapped":true,"role":"worker","cluster":"lab","health":{"uptimeSeconds":90,"verdict":"passed","by":"greenboot"},"management":{"claimedBy":"pairing-code","revocation":"none"}}"#;

#[test]
fn several_nodes_are_asked_at_once_and_one_that_is_not_there_counts() {
    let nodes = Nodes::new();
    let _one = nodes.node("edge-1", table(&[("GET /v1/node", 200, STATE)]));
    let _two = nodes.node("edge-2", table(&[("GET /v1/node", 200, STATE)]));
    let ran = nodes.ran("node status edge-1", 0);
    for line in [
        "role        worker",
        "cluster     lab",
        "health      passed, by greenboot",
        "uptime      1m",
        "claimed by  pairing-code",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    let ran = nodes.ran("node status --all", 0);
    assert_eq!(ran.out.matches(" worker ").count(), 2, "{}", ran.out);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pins = nodes.p.read(".local/state/muster/node-pins");
    nodes
        .p
        .write(".local/state/muster/node-pins", format!("{pins}edge-3 {free} SHA256:{}\n", "A".repeat(43)));
    let ran = nodes.ran("node status --all -o json", 5);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&rows[0]["hostname"], &rows[2]["reason"]), (&"edge-1".into(), &"node-unreachable".into()));
    assert!(ran.err.contains("error[node-unreachable]: edge-3: "), "{}", ran.err);
    assert_eq!(nodes.ran("node status --all -o name", 5).out, "edge-1\nedge-2\n");
    let ran = nodes.ran("node status edge-4", 3);
    assert!(ran.err.contains("error[node-unknown]: no node \"edge-4\". Did you mean"), "{}", ran.err);
}

#[test]
fn what_ends_is_shown_and_meant_or_not_sent() {
    let nodes = Nodes::new();
    let server = nodes.node(
        "edge-1",
        table(&[
            ("GET /v1/node", 200, STATE),
            ("POST /v1/lifecycle/reset", 202, r#"{"status":"reset"}"#),
            ("POST /v1/lifecycle/reboot", 202, r#"{"status":"rebooting"}"#),
        ]),
    );
    for command in ["reset", "reboot", "shutdown", "drain"] {
        let ran = nodes.ran(&format!("node {command} edge-1"), 4);
        assert!(ran.err.contains("edge-1 at 127.0.0.1:"), "{}", ran.err);
        assert!(ran.err.contains("worker of the cluster lab, up 1m"), "{}", ran.err);
        assert!(ran.err.contains("error[confirm-needed]: "), "{}", ran.err);
        // However little is to be said, nobody is asked about what was not shown.
        let ran = nodes.ran(&format!("node {command} edge-1 -q"), 4);
        assert!(ran.err.contains("worker of the cluster lab, up 1m"), "{}", ran.err);
        let ran = nodes.ran(&format!("node {command} edge-1 --plan -q"), 0);
        assert!(ran.out.contains("  worker  lab ") && ran.err.is_empty(), "{}{}", ran.out, ran.err);
    }
    assert!(targets(&server).iter().all(|t| t == "GET /v1/node"), "{:?}", targets(&server));
    let before = server.seen().len();
    let ran = nodes.ran("node reset edge-1 --yes", 0);
    assert!(ran.out.contains("reset"), "{}", ran.out);
    let seen = server.seen();
    let sent: Vec<_> = seen[before..].iter().map(target).collect();
    assert_eq!(sent, ["GET /v1/node", "GET /v1/proof", "POST /v1/lifecycle/reset"]);
    let reset = seen.last().unwrap();
    assert_eq!(reset.body, br#"{"confirm":"edge-1"}"#);
    assert!(
        reset
            .header("muster-proof")
            .is_some_and(|h| h.starts_with("1 00112233445566778899aabbccddeeff 0403 "))
    );
    nodes.ran("node reboot edge-1 --yes", 0);
}

#[test]
fn a_node_that_is_in_no_cluster_says_so_and_what_to_do() {
    let nodes = Nodes::new();
    let body = r#"{"error":"the node is in no cluster","reason":"not-a-cluster-node","fix":"Ask a node that is in the cluster."}"#;
    let rows = [
        ("POST /v1/lifecycle/cordon", 409, body),
        ("POST /v1/lifecycle/cordon?undo=true", 409, body),
        ("GET /v1/kubeconfig", 409, body),
        ("GET /v1/join-token", 409, body),
        ("GET /v1/etcd", 409, body),
    ];
    let _server = nodes.node("edge-1", table(&rows));
    for command in ["cordon", "uncordon", "kubeconfig", "join-token", "etcd"] {
        let ran = nodes.ran(&format!("node {command} edge-1"), 6);
        assert!(ran.err.contains("error[node-refused]: edge-1: "), "{}", ran.err);
        assert!(
            ran.err.contains(
                "not-a-cluster-node: the node is in no cluster. Ask a node that is in the cluster."
            ),
            "{}",
            ran.err
        );
    }
}

#[test]
fn what_is_handed_over_goes_to_its_file_and_nowhere_else() {
    let nodes = Nodes::new();
    let rows = [
        ("GET /v1/kubeconfig?server=https%3A%2F%2F192.0.2.1%3A6443", 200, "apiVersion: v1 # kubesecret\n"),
        ("GET /v1/join-token?role=worker&expiry=3600s", 200, "tok.kensecret"),
    ];
    let _server = nodes.node("edge-1", table(&rows));
    let ran = nodes.ran("node kubeconfig edge-1 --server https://192.0.2.1:6443 --to kc", 0);
    assert!(!ran.out.contains("kubesecret") && !ran.err.contains("kubesecret"), "{}{}", ran.out, ran.err);
    assert_eq!(nodes.p.read("kc"), "apiVersion: v1 # kubesecret\n");
    assert_eq!(std::fs::metadata(nodes.p.join("kc")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(nodes.ran("node kubeconfig edge-1 --to kc", 4).err.starts_with("error[exists]: "));
    let ran = nodes.ran("node join-token edge-1 --role worker --expiry 1h", 0);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("tok.kensecret", ""));
}

#[test]
fn services_journals_and_keys() {
    let nodes = Nodes::new();
    let rows = [
        (
            "GET /v1/services",
            200,
            r#"{"services":[{"name":"kubelet.service","purpose":"runs pods","restartable":true,"active":"active","sub":"running"}]}"#,
        ),
        (
            "POST /v1/services/kubelet/restart",
            200,
            r#"{"name":"kubelet.service","purpose":"x","restartable":true,"active":"active","sub":"running"}"#,
        ),
        (
            "GET /v1/logs?unit=kubelet&lines=2&since=600s",
            200,
            "{\"time\":\"T1\",\"unit\":\"kubelet.service\",\"priority\":3,\"message\":\"a\\u001b[31m\\nb\"}\n{\"time\":\"T2\",\"priority\":6,\"message\":\"c\"}\n",
        ),
        (
            "GET /v1/access/ssh",
            200,
            r#"{"keys":[{"user":"core","type":"ssh-ed25519","fingerprint":"SHA256:x","comment":"me"}]}"#,
        ),
        ("POST /v1/access/ssh", 200, r#"{"user":"core","type":"ssh-ed25519","fingerprint":"SHA256:x"}"#),
    ];
    let server = nodes.node("edge-1", table(&rows));
    assert!(nodes.ran("node services edge-1", 0).out.contains("kubelet.service  active (running)"));
    assert!(nodes.ran("node restart edge-1 --unit kubelet", 0).out.contains("active (running)"));
    let ran = nodes.ran("node logs edge-1 --unit kubelet -n 2 --since 10m", 0);
    assert_eq!(ran.out, "T1 kubelet: a\\u{1b}[31m\n    b\nT2 : c\n");
    let ran = nodes.ran("node logs edge-1 -u kubelet -n 2 --since 10m -o json", 0);
    let first: serde_json::Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    assert_eq!((&first["node"], &first["priority"]), (&"edge-1".into(), &3.into()));
    assert!(nodes.ran("node ssh-key list edge-1", 0).out.contains("SHA256:x"));
    nodes.p.write("id", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n");
    let before = server.seen().len();
    let ran = nodes.ran("node ssh-key add edge-1 --user core --key-file id", 3);
    assert!(ran.err.starts_with("error[key-file]: "), "{}", ran.err);
    assert_eq!(server.seen().len(), before, "a private key never leaves this machine");
    nodes.p.sh("ssh-keygen -q -t ed25519 -N '' -C me -f k");
    nodes.ran("node ssh-key add edge-1 --user core --key-file k.pub", 0);
    let sent = server.seen().last().unwrap().clone();
    assert!(String::from_utf8(sent.body).unwrap().starts_with(r#"{"user":"core","key":"ssh-ed25519 AAAA"#));
    assert!(sent.headers.iter().any(|(n, _)| n == "muster-proof"));
}

#[test]
fn a_context_names_the_nodes_and_who_calls_them() {
    let nodes = Nodes::new();
    let server = nodes.node("edge-1", table(&[("GET /v1/node", 200, STATE)]));
    let (ip, port) = (server.address.ip(), server.address.port());
    nodes.p.write(
        "lab/inventory.yaml",
        format!("hosts:\n  edge-1:\n    api: {{address: {ip}, port: {port}}}\n    labels: {{site: x}}\n"),
    );
    nodes.p.write(".config/muster/contexts.yaml", "contexts:\n  lab: {inventory: ~/lab/inventory.yaml, client: ~/lab/alice.pem}\n  other: {client: /nowhere.pem}\n");
    nodes.p.sh("mv pki/clients/alice.* lab/");
    let ran = nodes.ran("node status edge-1", 3);
    assert!(ran.err.starts_with("error[client-missing]: "), "{}", ran.err);
    assert!(nodes.ran("context use lb", 3).err.contains("Did you mean \"lab\"?"));
    nodes.ran("context use lab", 0);
    assert!(nodes.ran("context list", 0).out.contains("*  lab"));
    assert!(nodes.ran("context show", 0).out.contains("lab/inventory.yaml"));
    assert!(nodes.ran("node status -l site=x", 0).out.contains("worker"));
    nodes.ran("node status edge-1 --context other", 3);
}

#[test]
fn s15_a_rotation_is_signed_by_the_new_authority_and_proven_after() {
    let nodes = Nodes::new();
    nodes.ran("pki init -q --pki new --danger-no-passphrase", 0);
    nodes.ran("pki issue bob --role admin -q --pki new --danger-no-passphrase", 0);
    nodes.ran("pki issue carol --role operator -q --pki new --danger-no-passphrase", 0);
    let (old, new) = (nodes.authority("pki"), nodes.authority("new"));
    let (was, is) = (old.clone(), new.clone());
    let holder = std::sync::Arc::new(std::sync::OnceLock::new());
    let node = std::sync::Arc::clone(&holder);
    let obeys = std::sync::Arc::new(std::sync::Mutex::new("SHA256:another".to_owned()));
    let now = std::sync::Arc::clone(&obeys);
    let answers = move |seen: &muster_client::testing::Seen| match target(seen) {
        "GET /v1/node" => {
            // In words the list's number has more beside it than what is signed.
            let list = r#"{"number":"0a","revoked":2,"ended":true}"#;
            let told = format!(
                r#"{{"hostname":"edge-1","bootstrapped":true,"management":{{"revocation":"0a (ended)","operatorCA":"{}","revocationList":{list}}}}}"#,
                now.lock().unwrap()
            );
            reply(200, "", told.as_bytes())
        }
        "GET /v1/proof" => nonce(),
        "GET /v1/health" => reply(200, "", br#"{"status":"ok","role":"muster:admin"}"#),
        "POST /v1/ca/rotate" => {
            let body: muster_api::ownership::RotateRequest = serde_json::from_slice(&seen.body).unwrap();
            let signature =
                body.signature.as_deref().and_then(muster_api::ownership::RotationSignature::parse).unwrap();
            let print: &muster_tls::Fingerprint = node.get().unwrap();
            let text = muster_api::rotation_text(
                print.bytes(),
                was.fingerprint().bytes(),
                is.fingerprint().bytes(),
                "0a",
            );
            let der = muster_tls::one_certificate(&body.proof).unwrap();
            let good =
                muster_tls::evidence::verify_signed(&der, &text, signature.scheme, &signature.signature)
                    .is_ok();
            let answer = format!(r#"{{"status":"rotated","operatorCA":"{}","note":"x"}}"#, is.fingerprint());
            match good {
                true => {
                    *now.lock().unwrap() = is.fingerprint().to_string();
                    reply(200, "", answer.as_bytes())
                }
                false => reply(401, "", br#"{"error":"no","reason":"bad-signature"}"#),
            }
        }
        _ => reply(404, "", b""),
    };
    let server = nodes.runtime.block_on(Server::start(&[&old, &new], Box::new(answers)));
    holder.set(server.fingerprint).unwrap();
    nodes.pin("edge-1", &server);
    let ran = nodes.ran("pki rotate edge-1 --to new", 3);
    assert!(ran.err.starts_with("error[client-missing]: "), "{}", ran.err);
    let ran = nodes.ran("pki rotate edge-1 --to new --to-client carol --yes", 3);
    assert!(ran.err.contains("is no admin of the new authority"), "{}", ran.err);
    let ran = nodes.ran("pki rotate edge-1 --to new --to-client bob", 4);
    assert!(ran.err.contains("error[confirm-needed]: "), "{}", ran.err);
    let shown = nodes.ran("node status edge-1", 0).out;
    assert!(
        shown.contains("obeys       SHA256:another") && shown.contains("list 0a, 2 revoked, ended"),
        "{shown}"
    );
    let ran = nodes.ran("pki rotate edge-1 --to new --to-client bob --yes", 3);
    assert!(ran.err.contains("it obeys SHA256:another, and is to be taken from"), "{}", ran.err);
    assert!(!targets(&server).contains(&"POST /v1/ca/rotate".to_owned()));
    *obeys.lock().unwrap() = old.fingerprint().to_string();
    let ran = nodes.ran("pki rotate edge-1 --to new --to-client bob --yes", 0);
    assert!(ran.out.contains(&new.fingerprint().to_string()), "{}", ran.out);
    assert_eq!(targets(&server).last().map(String::as_str), Some("GET /v1/health"));
    let ran = nodes.ran("pki rotate edge-1 --to new --to-client bob --yes", 3);
    assert!(ran.err.contains("already"), "{}", ran.err);
    let ran = nodes.ran("pki rotate edge-1 --to pki --yes", 3);
    assert!(ran.err.contains("has the key of the old one"), "{}", ran.err);
}

#[test]
fn a_list_of_revoked_certificates_is_handed_to_nodes() {
    let nodes = Nodes::new();
    let taken = [("PUT /v1/ca/crl", 200, r#"{"status":"taken","number":"01","revoked":1}"#)];
    let server = nodes.node("edge-1", table(&taken));
    let ran = nodes.ran("pki publish edge-1", 3);
    assert!(ran.err.contains("Sign a list with `muster pki revoke`."), "{}", ran.err);
    nodes.ran("pki issue bob --role operator -q --danger-no-passphrase", 0);
    nodes.ran("pki revoke bob", 0);
    let ran = nodes.ran("pki publish edge-1 --client pki/clients/alice.pem", 0);
    assert!(ran.out.contains("does not end"), "{}", ran.out);
    assert_eq!(server.seen()[0].body, nodes.p.read("pki/operator-ca.crl").as_bytes());
}

/// A terminal by script(1), which util-linux has.
fn terminal() -> Result<(), String> {
    muster_needs::tool("/usr/bin/script", "bsdutils")
}

#[test]
fn the_name_is_typed_or_nothing_is_ended() {
    require!(terminal());
    let nodes = Nodes::new();
    let rows =
        [("GET /v1/node", 200, STATE), ("POST /v1/lifecycle/reboot", 202, r#"{"status":"rebooting"}"#)];
    let (one, two) = (nodes.node("a", table(&rows)), nodes.node("b", table(&rows)));
    let reboots = |server: &Server| targets(server).iter().filter(|t| t.ends_with("reboot")).count();
    for (line, asked, typed, code, says) in [
        ("node reboot a", "Type `edge-1` to reboot:", "edge-2", 4, "[name-differs]: edge-2 was typed"),
        ("node reboot a", "Type `edge-1` to reboot:", "", 4, "[declined]: "),
        ("node reboot a b", "Type `2 nodes` to reboot:", "y", 4, "[name-differs]: "),
        ("node reboot a b", "Type `2 nodes` to reboot:", "2 nodes", 0, "rebooting"),
        ("node reboot a", "Type `edge-1` to reboot:", "edge-1", 0, "rebooting"),
    ] {
        let mut terminal = Terminal::start_in(&nodes.p, 200, line, &[]);
        terminal.until(asked);
        terminal.answer(format!("{typed}\n").as_bytes());
        let text = terminal.end(code);
        assert!(text.contains(says) && text.contains("calls itself edge-1"), "{line} {typed}: {text}");
    }
    assert_eq!((reboots(&one), reboots(&two)), (2, 1));
}

#[test]
fn what_does_not_come_back_wants_the_name_of_each_node() {
    require!(terminal());
    let nodes = Nodes::new();
    let node = |name: &str| {
        let state = format!(r#"{{"hostname":"own-{name}","bootstrapped":true}}"#);
        let rows = [
            ("GET /v1/node", 200, state.as_str()),
            ("POST /v1/lifecycle/reset", 202, r#"{"status":"reset"}"#),
            ("POST /v1/lifecycle/shutdown", 202, r#"{"status":"off"}"#),
        ];
        nodes.node(name, table(&rows))
    };
    let (one, two) = (node("a"), node("b"));
    let posts = |server: &Server| targets(server).iter().filter(|t| t.starts_with("POST")).count();
    let asked = ["Type `own-a` to ", "Type `own-b` to "];
    for (line, typed, code, says) in [
        (
            "node reset a b",
            ["own-a", "2 nodes"],
            4,
            "[name-differs]: 2 nodes was typed, and own-b was asked for",
        ),
        ("node shutdown a b", ["own-b", ""], 4, "[name-differs]: own-b was typed, and own-a was asked for"),
        ("node shutdown a b", ["own-a", "own-b"], 0, "off"),
        ("node reset a b -q", ["own-a", "own-b"], 0, "reset"),
    ] {
        let mut terminal = Terminal::start_in(&nodes.p, 200, line, &[]);
        for (question, answer) in asked.iter().zip(typed) {
            if !answer.is_empty() {
                terminal.until(question);
                terminal.answer(format!("{answer}\n").as_bytes());
            }
        }
        let text = terminal.end(code);
        assert!(text.contains(says) && text.contains("a at 127.0.0.1:"), "{line} {typed:?}: {text}");
    }
    assert_eq!((posts(&one), posts(&two)), (2, 2));
    // Nobody there: all of them are named.
    let ran = nodes.ran("node reset a b", 4);
    assert!(ran.err.contains("this would reset own-a, own-b, and nobody is there"), "{}", ran.err);
}

#[test]
fn nodes_are_watched_until_nobody_reads() {
    use std::io::{BufRead, BufReader};
    let nodes = Nodes::new();
    let server = nodes.node("edge-1", table(&[("GET /v1/node", 200, STATE)]));
    let mut command = nodes.p.command(crate::run::MUSTER);
    let command = command.args(["node", "list", "--watch", "--every", "1s"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(lines.next().unwrap().unwrap());
    }
    drop(lines);
    assert!(seen[0].starts_with("NODE ") && seen[2].starts_with("NODE "), "{seen:?}");
    assert!(seen[1].contains("well") && !seen.concat().contains('\u{1b}'), "{seen:?}");
    assert!(child.wait().unwrap().success());
    assert!(targets(&server).len() >= 2);
}

/// On a terminal each table stands where the one before stood, whatever became of a node meanwhile, until Ctrl-C.
#[test]
fn nodes_are_watched_on_a_terminal_until_ctrl_c() {
    let nodes = Nodes::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    nodes.p.write(".local/state/muster/node-pins", format!("edge-0 {free} SHA256:{}\n", "A".repeat(43)));
    let server = nodes.node("edge-1", table(&[("GET /v1/node", 200, STATE)]));
    let mut terminal = Terminal::start_in(&nodes.p, 100, "node list --watch --every 1s", &[]);
    while targets(&server).len() < 3 {
        terminal.until_times("\u{1b}[H", terminal.text().matches("\u{1b}[H").count() + 1);
    }
    terminal.answer(b"\x03");
    let text = terminal.end(130);
    // The last may be cut, and the first ones come before the answers.
    let before = text.rsplit("\u{1b}[H\u{1b}[2J").nth(1).unwrap();
    let mut parser = vt100::Parser::new(24.try_into().unwrap(), 100.try_into().unwrap(), 0);
    parser.process(format!("\u{1b}[H\u{1b}[2J{before}").as_bytes());
    let screen = parser.screen().contents();
    assert_eq!(screen.matches("NODE ").count(), 1, "{screen}");
    assert!(screen.contains("! node-unreachable"), "{screen}");
    assert!(screen.contains("edge-1") && screen.contains("well"), "{screen}");
    let ran = nodes.ran("node logs edge-0", 5);
    assert!(ran.err.ends_with("hint: `muster explain node-unreachable` says more\n"), "{}", ran.err);
    // A terminal that can only print lines gets one round after the other.
    let mut dumb = Terminal::start_in(&nodes.p, 100, "node list --watch --every 1s", &[("TERM", "dumb")]);
    dumb.until_times("NODE ", 2);
    dumb.answer(b"\x03");
    let text = dumb.end(130);
    assert!(!text.contains('\u{1b}'), "{text}");
}

/// On a bad link: a node that takes connections and says nothing, first in the list, holds up nobody.
#[test]
fn a_watched_node_that_does_not_answer_holds_up_no_other() {
    let nodes = Nodes::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let pins = format!("edge-0 {} SHA256:{}\n", silent.local_addr().unwrap(), "A".repeat(43));
    nodes.p.write(".local/state/muster/node-pins", pins);
    let server = nodes.node("edge-1", table(&[("GET /v1/node", 200, STATE)]));
    let begun = std::time::Instant::now();
    let line = "node list --watch --every 1s --connect-timeout 20s";
    let mut terminal = Terminal::start_in(&nodes.p, 100, line, &[]);
    while targets(&server).len() < 3 {
        terminal.until_times("\u{1b}[H", terminal.text().matches("\u{1b}[H").count() + 1);
    }
    terminal.until("… 2s");
    assert!(begun.elapsed().as_secs() < 20, "edge-1 waited for edge-0");
    terminal.answer(b"\x03");
    let text = terminal.end(130);
    let frames: Vec<&str> = text.split("\u{1b}[H\u{1b}[2J").collect();
    let whole = frames.iter().rfind(|f| f.contains("… 2s")).unwrap();
    let row = |name: &str| whole.lines().find(|l| l.starts_with(name)).unwrap_or_default();
    assert!(row("edge-1").contains("well") && !row("edge-0").contains("unreachable"), "{whole}");
}

/// An ssh-agent that ends with the test.
struct SshAgent(std::process::Child);

impl Drop for SshAgent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_clients_key_stays_in_its_agent() {
    require!(muster_needs::tool("/usr/bin/ssh-agent", "openssh-client"));
    let nodes = Nodes::new();
    let rows =
        [("GET /v1/node", 200, STATE), ("POST /v1/lifecycle/reboot", 202, r#"{"status":"rebooting"}"#)];
    let server = nodes.node("edge-1", table(&rows));
    let socket = nodes.p.join("agent");
    let mut command = nodes.p.command("/usr/bin/ssh-agent");
    let _agent =
        SshAgent(command.args(["-D", "-a", "agent"]).stdout(std::process::Stdio::null()).spawn().unwrap());
    while !socket.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for (kind, bits, scheme) in
        [("ed25519", "256", "0807"), ("ecdsa", "256", "0403"), ("ecdsa", "384", "0503")]
    {
        let name = format!("{kind}-{bits}");
        nodes.p.sh(&format!("ssh-keygen -q -t {kind} -b {bits} -N '' -C me -f {name}"));
        nodes.ran(&format!("pki issue {name} --role admin --public-key {name}.pub"), 0);
        assert!(!nodes.p.join(&format!("pki/clients/{name}.key")).exists());
        let run = |line: &str| {
            let mut command = nodes.p.command(crate::run::MUSTER);
            command.env("SSH_AUTH_SOCK", &socket).args(line.split_whitespace());
            nodes.p.finish(command, b"")
        };
        let line = format!("node reboot edge-1 --yes --client pki/clients/{name}.pem");
        let ran = run(&line);
        assert!(ran.code == 3 && ran.err.starts_with("error[agent-key-missing]: "), "{}", ran.err);
        // An agent that is locked says that it has none.
        let empty = ran.err.contains("it has none, or it is locked. Unlock it with ssh-add -X");
        assert_eq!(empty, bits == "256" && kind == "ed25519", "{}", ran.err);
        nodes.p.sh(&format!("SSH_AUTH_SOCK=agent ssh-add -q {name}; rm {name}"));
        let ran = run(&line);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let seen = server.seen();
        let proof =
            muster_api::ProofHeader::parse(seen.last().unwrap().header("muster-proof").unwrap()).unwrap();
        assert_eq!(format!("{:04x}", proof.scheme), scheme);
        let text = muster_api::proof_text(
            "POST /v1/lifecycle/reboot",
            &<sha2::Sha256 as sha2::Digest>::digest(b"").into(),
            server.fingerprint.bytes(),
            &proof.nonce,
        );
        let pem = nodes.p.read(&format!("pki/clients/{name}.pem"));
        let der = muster_tls::one_certificate(&pem).unwrap();
        muster_tls::evidence::verify_signed(&der, &text, proof.scheme, &proof.signature).unwrap();
    }
    let ran = nodes.ran("node status edge-1 --client pki/clients/ed25519-256.pem", 3);
    assert!(
        ran.err.contains("there is no pki/clients/ed25519-256.key")
            && ran.err.contains("SSH_AUTH_SOCK is not set"),
        "{}",
        ran.err
    );
    nodes.p.sh("ssh-keygen -q -t rsa -b 3072 -N '' -f rsa");
    let ran = nodes.ran("pki issue carol --role admin --public-key rsa.pub", 3);
    assert!(ran.err.starts_with("error[key-kind]: "), "{}", ran.err);
}

#[test]
fn an_answer_that_is_no_stream_of_a_node_is_an_error_and_has_an_end() {
    let nodes = Nodes::new();
    for (n, body, says) in [
        (1, "<html>\n<p>Sign in</p>\n".to_owned(), "no line of it is a record"),
        (2, "\n".repeat(30_000), "10000 lines in a row that are none"),
    ] {
        let name = format!("edge-{n}");
        let _server = nodes.node(&name, table(&[("GET /v1/logs?unit=kubelet&lines=2", 200, &body)]));
        let ran = nodes.ran(&format!("node logs {name} -u kubelet -n 2"), 6);
        assert!(ran.err.starts_with("error[node-answer]: ") && ran.err.contains(says), "{}", ran.err);
    }
    let _server = nodes.node("edge-3", table(&[("GET /v1/logs?unit=kubelet&lines=2", 200, "")]));
    assert_eq!(nodes.ran("node logs edge-3 -u kubelet -n 2", 0).out, "", "nothing was logged");
}
