//! The description of the API against the API: schemathesis makes requests out of `docs/openapi/node.json`, right ones and wrong
//! ones, and judges what edge and core answer. Nothing may be a 500, and nothing another answer than is described.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_api::ROUTES;
use muster_core::Role;
use muster_needs::require;
use serde_json::{Value, json};

use crate::process::Edge;
use crate::real::{files, free, owned};
use crate::support::{Node, Operators, now};

/// What is asked of each answer. Not among them: whether every request that fits the schema is taken. A schema does not know what a
/// certificate is.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
    response_schema_conformance,negative_data_rejection";
/// Methods that a path does not have. A node that nobody owns has none, and says 409 to all.
const METHODS: &str = "unsupported_method,allow_header_conformance";

/// The program, as `cargo xtask test` installs it.
fn schemathesis() -> Result<PathBuf, String> {
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/schemathesis/bin/schemathesis");
    let given = std::env::var_os("MUSTER_SCHEMATHESIS").map_or_else(|| PathBuf::from(ours), PathBuf::from);
    let out = Command::new(&given).arg("--version").output();
    match out.map_err(|e| format!("schemathesis at {}: {e}", given.display()))?.status.success() {
        true => Ok(given),
        false => Err(format!("schemathesis at {} does not run", given.display())),
    }
}

/// The description in a file, for one turn of requests: without what cannot be judged so (a stream that is followed has no end),
/// and with bodies and names that this very node takes, so that not all that it answers is a refusal.
fn description(node: &Node, operators: &Operators, turn: &str, proofs: bool) -> PathBuf {
    let mut all: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi/node.json")).expect("JSON");
    for operation in all["paths"].as_object_mut().expect("paths").values_mut().flat_map(members) {
        let id = operation["operationId"].as_str().expect("an id").to_owned();
        if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
            parameters.retain(|p| p["name"] != "follow" && (proofs || p["name"] != "muster-proof"));
            for parameter in parameters.iter_mut().filter(|p| p["name"] == "unit") {
                parameter["example"] = "kubelet".into();
            }
        }
        // Bytes that the tool has no way to write; the other media type of the same body stays.
        if let Some(content) = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut) {
            content.remove("application/pkix-crl");
        }
        if let Some(body) = good(&id, node, operators).filter(|_| !LAST.contains(&&*id) || turn == id) {
            for content in members(&mut operation["requestBody"]["content"]) {
                content["example"] = body.clone();
            }
        }
    }
    let file = node.root().join(format!("{turn}.json"));
    std::fs::write(&file, all.to_string()).expect("a file");
    file
}

/// A body that the node takes.
fn good(operation: &str, node: &Node, operators: &Operators) -> Option<Value> {
    let list = || operators.authority.revoke(&[], 7, None, now()).expect("a list");
    match operation {
        "config-apply" => Some(
            json!({ "document": std::fs::read_to_string(node.path("/etc/muster/config.yaml")).expect("a file") }),
        ),
        "crl-upload" => Some(list().into()),
        "upgrade-stage" => Some(json!({ "image": "registry.example.com/os/node:2" })),
        "ssh-key-add" => Some(json!({ "user": "alice", "key": KEY })),
        "ca-rotate" => {
            let other = Operators::new(2);
            let proof = other.client("alice", Role::Admin, 3).certificate;
            Some(json!({ "operatorCA": other.pem, "proof": proof }))
        }
        "reset" => Some(json!({ "confirm": NAME })),
        _ => None,
    }
}

const NAME: &str = "rack-7";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

fn members(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_object_mut().into_iter().flat_map(|o| o.iter_mut().map(|(_, v)| v))
}

/// Programs and files of a node that boots from an image and has a kubelet: they say that all went well, and do nothing.
fn furnish(node: &Node) {
    node.program("/usr/bin/systemctl", SYSTEMCTL);
    node.program("/usr/bin/journalctl", "exit 0");
    node.program("/usr/bin/systemd-run", "while [[ $1 != -- ]]; do shift; done; shift; exec \"$@\"");
    for program in ["install", "mv", "rm"] {
        node.program(&format!("/usr/bin/{program}"), &format!("exec /usr/bin/{program} \"$@\""));
    }
    let drop_in = node.path("/etc/ssh/sshd_config.d/10-muster-api.conf");
    let sshd = format!(
        "sed -n 's/^A.*File/authorizedkeysfile/p' '{}' 2>/dev/null || echo authorizedkeysfile none",
        drop_in.display()
    );
    node.program("/usr/sbin/sshd", &sshd);
    let staged = include_str!("../../src/ops/upgrade/bootc/staged.json");
    node.program("/usr/bin/bootc", &format!("[[ $1 != status ]] || cat <<'END'\n{staged}\nEND"));
    let name = format!("{NAME}\n");
    for (path, text) in [
        ("/etc/hostname", &*name),
        ("/proc/sys/kernel/hostname", &*name),
        ("/etc/ssh/sshd_config.d/other", ""),
        ("/etc/passwd", "alice:x:1000:1000::/home/alice:/bin/sh\n"),
        (POLICY_FILE, POLICY),
    ] {
        let path = node.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
}

const SYSTEMCTL: &str = "[[ $3 != is-active || $6 == sshd.service ]] || exit 3; [[ $3 != show ]] || printf 'Id=kubelet.service\\nLoadState=loaded\\nActiveState=active\\n\
    SubState=running\\nUnitFileState=enabled\\nResult=success\\nStateChangeTimestampMonotonic=1000000\\n'";
const POLICY_FILE: &str = "/etc/containers/policy.json";
const POLICY: &str = r#"{"default":[{"type":"reject"}],"transports":{"docker":{"registry.example.com":
    [{"type":"sigstoreSigned","keyPath":"/k"}]}}}"#;

/// Statuses of the answers, by method and path as described.
type Answers = BTreeMap<String, BTreeSet<u64>>;

/// What the program reports of its requests, if it found nothing wrong.
fn judged(mut command: Command, node: &Node, checks: &str) -> Answers {
    let report = node.root().join("report.har");
    let out = command
        .args(["--tls-verify", "false", "--seed", "7", "--max-examples", "5"])
        .args(["--request-timeout", "20", "--checks", checks])
        .arg("--no-color")
        .arg("--report-har-path")
        .arg(&report)
        .current_dir(node.root())
        .output()
        .expect("schemathesis starts");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    let har: Value = serde_json::from_slice(&std::fs::read(report).expect("a report")).expect("JSON");
    let mut answers = Answers::new();
    for entry in har["log"]["entries"].as_array().expect("entries") {
        let url = entry["request"]["url"].as_str().expect("a URL");
        let path = url.split('?').next().expect("a path").splitn(4, '/').nth(3).expect("a path");
        let path = match path.strip_prefix("v1/services/") {
            Some(_) => "v1/services/{unit}/restart",
            None => path,
        };
        let name = format!("{} /{path}", entry["request"]["method"].as_str().expect("a method"));
        answers.entry(name).or_default().insert(entry["response"]["status"].as_u64().expect("a status"));
    }
    answers
}

/// A node of its own, asked by a client of this role for what `chosen` chooses.
fn turn(program: &Path, role: Role, name: &str, chosen: &[&str]) -> Answers {
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators));
    furnish(&node);
    let node = node.start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let (certificate, key) = files(&node, &operators, "client", role);
    let mut command = Command::new(program);
    command
        .arg("run")
        .arg(description(&node, &operators, name, name == "reads"))
        .args(["--url", &format!("https://{at}")])
        .args(chosen)
        .arg("--request-cert")
        .arg(certificate)
        .arg("--request-cert-key")
        .arg(key);
    judged(command, &node, &format!("{CHECKS},{METHODS}"))
}

/// They end what other requests need, so each gets a body that the node takes on a node of its own alone.
const LAST: [&str; 2] = ["reset", "ca-rotate"];
const PHASES: &str = "examples,coverage,fuzzing";
/// More changes in a second are not served to one client.
const PACE: [&str; 2] = ["--rate-limit", "9/s"];

fn as_role(program: &Path, role: Role) -> Answers {
    let changes =
        [&PACE[..], &["--phases", PHASES, "--exclude-method", "GET"], &["--exclude-operation-id", "enroll"]]
            .concat();
    let turns: [(&str, &[&str]); 4] = [
        ("reads", &["--phases", PHASES, "--include-method", "GET"]),
        ("changes", &changes),
        (LAST[0], &["--phases", "examples", "--include-operation-id", LAST[0]]),
        (LAST[1], &["--phases", "examples", "--include-operation-id", LAST[1]]),
    ];
    let mut all = Answers::new();
    let done = std::thread::scope(|scope| {
        let running = turns.map(|(name, chosen)| scope.spawn(move || turn(program, role, name, chosen)));
        running.map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    });
    for (name, statuses) in done.into_iter().flatten() {
        all.entry(name).or_default().extend(statuses);
    }
    for (name, statuses) in &all {
        assert!(!statuses.contains(&429), "{name} was asked too fast to learn anything: {statuses:?}");
    }
    // Each was asked, and whoever may was not only told that he asks in the wrong way.
    for route in ROUTES {
        let name = format!("{} {}", route.method.as_str(), route.path);
        let statuses = all.get(&name).unwrap_or_else(|| panic!("{name} was never asked: {all:?}"));
        match route.operation.permits(role) {
            true => assert!(statuses.iter().any(|s| ![400, 401, 405].contains(s)), "{name}: {statuses:?}"),
            false => assert!(statuses.contains(&403), "{name}: {statuses:?}"),
        }
    }
    all
}

#[test]
fn a_reader_gets_what_is_described_and_no_500() {
    let all = as_role(&require!(schemathesis()), Role::Readonly);
    assert_eq!(all["POST /v1/ca/rotate"], [403].into(), "{all:?}");
}

#[test]
fn an_operator_gets_what_is_described_and_no_500() {
    let all = as_role(&require!(schemathesis()), Role::Operator);
    assert_eq!(all["POST /v1/ca/rotate"], [403].into(), "{all:?}");
}

#[test]
fn an_admin_gets_what_is_described_and_no_500() {
    let all = as_role(&require!(schemathesis()), Role::Admin);
    for (name, status) in [
        ("POST /v1/config", 200),
        ("PUT /v1/ca/crl", 200),
        ("POST /v1/upgrade/stage", 200),
        ("POST /v1/upgrade/apply", 202),
        ("POST /v1/access/ssh", 200),
        ("POST /v1/services/{unit}/restart", 200),
        ("POST /v1/lifecycle/reboot", 202),
        ("POST /v1/lifecycle/shutdown", 202),
        ("POST /v1/lifecycle/reset", 202),
        ("POST /v1/ca/rotate", 200),
    ] {
        assert!(all[name].contains(&status), "{name}: {:?}", all[name]);
    }
}

#[test]
fn a_stranger_at_an_unclaimed_node_gets_what_is_described_and_no_500() {
    let program = require!(schemathesis());
    let node = Node::with_document(&format!("muster:\n  api:\n    enabled: true\n    listen: {}\n", free()));
    furnish(&node);
    let node = node.start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let mut command = Command::new(program);
    command.arg("run").arg(description(&node, &Operators::new(1), "enroll", false)).args([
        "--url",
        &format!("https://{at}"),
        "--phases",
        PHASES,
        "--include-operation-id",
        "enroll",
    ]);
    let answers = judged(command, &node, CHECKS);
    assert!(answers["POST /v1/enroll"].len() > 1, "{answers:?}");
}
