//! Every command of nodes, and each format: what a program reads is there, and is what it says (CL6).

use super::{Nodes, table, targets};
use muster_client::testing::Server;
use muster_core::audit::{Chain, Head};

const STATE: &str = r#"{"hostname":"edge-1","bootstrapped":true,"role":"worker","cluster":"lab","os":{"booted":{"image":"r.example/os:1","digest":"sha256:new"}},"health":{"uptimeSeconds":90},"management":{}}"#;
const OK: &str = r#"{"status":"begun"}"#;
const SERVICE: &str =
    r#"{"name":"kubelet.service","purpose":"x","restartable":true,"active":"active","sub":"running"}"#;
const KEY: &str = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn node(nodes: &Nodes) -> Server {
    let (line, _) = Chain::after(Head::NONE).next(r#""event":"call","op":"health""#).unwrap();
    let record = String::from_utf8(line).unwrap();
    let keys = format!(r#"{{"keys":[{{"user":"core","type":"ssh-ed25519","fingerprint":"{KEY}"}}]}}"#);
    let removed = r#"{"status":"revoked","removed":[]}"#;
    nodes.node(
        "edge-1",
        table(&[
            ("GET /v1/node", 200, STATE),
            ("GET /v1/health", 200, r#"{"status":"ok","role":"muster:admin"}"#),
            ("GET /v1/services", 200, &format!(r#"{{"services":[{SERVICE}]}}"#)),
            ("POST /v1/services/kubelet/restart", 200, SERVICE),
            ("GET /v1/logs", 200, "{\"time\":\"T1\",\"priority\":6,\"message\":\"m\"}\n"),
            ("GET /v1/access/ssh", 200, &keys),
            ("POST /v1/access/ssh", 200, &format!(r#"{{"user":"core","type":"x","fingerprint":"{KEY}"}}"#)),
            (&format!("DELETE /v1/access/ssh?fingerprint=SHA256%3A{}", "A".repeat(43)), 200, removed),
            ("POST /v1/lifecycle/cordon", 200, OK),
            ("POST /v1/lifecycle/cordon?undo=true", 200, OK),
            ("POST /v1/lifecycle/drain", 200, OK),
            ("POST /v1/lifecycle/reboot", 202, OK),
            ("POST /v1/lifecycle/shutdown", 202, OK),
            ("POST /v1/lifecycle/reset", 202, OK),
            ("POST /v1/upgrade/rollback", 200, OK),
            ("GET /v1/etcd", 200, r#"{"member":"a","members":["a","b"]}"#),
            ("PUT /v1/ca/crl", 200, r#"{"status":"taken","number":"01","revoked":1}"#),
            ("GET /v1/audit", 200, &record),
            ("GET /v1/audit?after=0", 200, &record),
        ]),
    )
}

/// Arguments, and what `-o name` gives.
type Row = (&'static str, &'static str);

/// In an order in which each has what it needs. What a run leaves, the next format finds.
const TABLE: &[Row] = &[
    ("node list", "edge-1\n"),
    ("node status edge-1", "edge-1\n"),
    ("node services edge-1", "kubelet.service\n"),
    ("node logs edge-1", "m\n"),
    ("node restart edge-1 --unit kubelet", "edge-1\n"),
    ("node restart edge-1 --unit kubelet --plan", "edge-1\n"),
    ("node cordon edge-1", "edge-1\n"),
    ("node cordon edge-1 --plan", "edge-1\n"),
    ("node uncordon edge-1", "edge-1\n"),
    ("node uncordon edge-1 --plan", "edge-1\n"),
    ("node drain edge-1 --yes", "edge-1\n"),
    ("node drain edge-1 --plan", "edge-1\n"),
    ("node reboot edge-1 --yes", "edge-1\n"),
    ("node reboot edge-1 --plan", "edge-1\n"),
    ("node shutdown edge-1 --yes", "edge-1\n"),
    ("node shutdown edge-1 --plan", "edge-1\n"),
    ("node reset edge-1 --yes", "edge-1\n"),
    ("node reset edge-1 --plan", "edge-1\n"),
    ("node upgrade edge-1 --image r.example/os@sha256:new --yes", "edge-1\n"),
    ("node upgrade edge-1 --image r.example/os@sha256:new --plan", "edge-1\n"),
    ("node upgrade edge-1 --rollback --yes", "edge-1\n"),
    ("node upgrade edge-1 --rollback --plan", "edge-1\n"),
    ("node apply edge-1 --file node.yaml --plan", "edge-1\n"),
    ("node claim 192.0.2.1 --name new --plan", "new\n"),
    ("enroll 192.0.2.1 --name new --plan", "new\n"),
    ("node ssh-key list edge-1", "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"),
    ("node ssh-key add edge-1 --user core --key-file k.pub", "edge-1\n"),
    ("node ssh-key add edge-1 --user core --key-file k.pub --plan", "edge-1\n"),
    ("node ssh-key revoke edge-1 --key SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "edge-1\n"),
    (
        "node ssh-key revoke edge-1 --key SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --plan",
        "edge-1\n",
    ),
    ("node etcd edge-1", "edge-1\n"),
    ("node forget edge-1 --plan", "edge-1\n"),
    ("pki list", "alice\nbob\n"),
    ("pki revoke bob --plan", "*"),
    ("pki publish edge-1 --client pki/clients/alice.pem", "edge-1\n"),
    ("pki publish edge-1 --client pki/clients/alice.pem --plan", "edge-1\n"),
    ("pki rotate edge-1 --to new --plan", "edge-1\n"),
    ("pki revoke", "pki/operator-ca.crl\n"),
    ("audit verify edge-1", "edge-1\n"),
    ("audit verify --file chain.jsonl", "*"),
    ("audit tail edge-1", "1\n"),
    ("context list", "lab\n"),
    ("context use lab", "lab\n"),
    ("context show lab", "lab\n"),
];

#[test]
fn cl6_every_command_of_nodes_speaks_every_format() {
    let nodes = Nodes::new();
    let server = node(&nodes);
    let p = &nodes.p;
    p.sh("ssh-keygen -q -t ed25519 -N '' -C me -f k");
    p.write("node.yaml", "muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    enabled: true\n");
    p.write(".config/muster/contexts.yaml", "contexts:\n  lab: {client: ~/pki/clients/alice.pem}\n");
    let (line, _) = Chain::after(Head::NONE).next(r#""event":"call","op":"health""#).unwrap();
    p.write("chain.jsonl", line);
    nodes.ran("pki issue bob --role operator -q --danger-no-passphrase", 0);
    nodes.ran("pki revoke -q", 0);
    nodes.ran("pki init -q --pki new --danger-no-passphrase", 0);
    nodes.ran("pki issue carol --role admin -q --pki new --danger-no-passphrase", 0);
    for (line, name) in TABLE {
        let before = targets(&server).len();
        for format in ["json", "yaml", "name", "table"] {
            // Two clients are there now.
            let line = format!("{line} -o {format}");
            let mut command = p.command(crate::run::MUSTER);
            command.args(line.split_whitespace()).env("MUSTER_CLIENT", "pki/clients/alice.pem");
            let ran = p.finish(command, b"");
            assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
            match format {
                "json" => {
                    let value: serde_json::Value = serde_json::from_str(&ran.out)
                        .unwrap_or_else(|e| panic!("{line} is no JSON: {e}: {:?}", ran.out));
                    let full = value.as_array().is_none_or(|rows| !rows.is_empty());
                    assert!(full && !value.is_null(), "{line}: {}", ran.out);
                }
                "yaml" => {
                    let value: serde_json::Value = serde_saphyr::from_str(&ran.out)
                        .unwrap_or_else(|e| panic!("{line} is no YAML: {e}: {:?}", ran.out));
                    assert!(
                        value.is_object() || value.as_array().is_some_and(|r| !r.is_empty()),
                        "{line}: {}",
                        ran.out
                    );
                }
                "name" => {
                    assert!(
                        ran.out == *name || (*name == "*" && ran.out.lines().count() == 1),
                        "{line}: {:?}",
                        ran.out
                    );
                    assert!(ran.out.lines().all(|l| !l.trim().contains(' ')), "{line}: {:?}", ran.out);
                }
                // `context use` says it on standard error: there is nothing to read.
                _ => assert!(!ran.out.trim().is_empty() || line.starts_with("context use"), "{line}"),
            }
        }
        if line.contains("--plan") {
            let sent = targets(&server).split_off(before);
            assert!(sent.iter().all(|t| t == "GET /v1/node"), "{line}: {sent:?}");
        }
    }
    // What makes something once is run once a format.
    for (n, format) in ["json", "yaml", "name"].into_iter().enumerate() {
        for (line, name) in [
            (format!("pki init --pki p{n} --danger-no-passphrase"), format!("p{n}/operator-ca.pem\n")),
            (
                format!("pki issue x --role admin --pki p{n} --danger-no-passphrase"),
                format!("p{n}/clients/x.pem\n"),
            ),
            ("node forget edge-1".to_owned(), "edge-1\n".to_owned()),
        ] {
            nodes.pin("edge-1", &server);
            let ran = nodes.ran(&format!("{line} -q -o {format}"), 0);
            match format {
                "json" => drop(serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()),
                "yaml" => drop(serde_saphyr::from_str::<serde_json::Value>(&ran.out).unwrap()),
                _ => assert_eq!(ran.out, name, "{line}"),
            }
        }
    }
    let ran = nodes.ran("node etcd edge-1 --client pki/clients/alice.pem", 3);
    assert!(ran.err.contains("[node-unknown]"), "forgotten: {}", ran.err);
}
