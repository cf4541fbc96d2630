//! The description of the API against the API: schemathesis makes requests out of `docs/openapi/node.json`, right ones and wrong
//! ones, and judges what edge and core answer. Nothing may be a 500, and nothing another answer than is described.

use std::path::PathBuf;
use std::process::Command;

use muster_core::Role;
use muster_needs::require;
use serde_json::Value;

use crate::process::Edge;
use crate::real::{files, free, owned};
use crate::support::{Node, Operators};

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

/// The description, in a file, without what cannot be judged so: a stream that is followed has no end.
fn description(node: &Node) -> PathBuf {
    let mut all: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi/node.json")).expect("JSON");
    for operation in all["paths"].as_object_mut().expect("paths").values_mut().flat_map(members) {
        if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
            parameters.retain(|p| p["name"] != "follow");
        }
    }
    let file = node.root().join("openapi.json");
    std::fs::write(&file, all.to_string()).expect("a file");
    file
}

fn members(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_object_mut().into_iter().flat_map(|o| o.iter_mut().map(|(_, v)| v))
}

/// Programs of the node that do nothing and say that it went well.
fn programs(node: &Node) {
    for program in ["/usr/bin/systemctl", "/usr/bin/systemd-run", "/usr/bin/journalctl"] {
        node.program(program, "exit 0");
    }
}

fn judged(mut command: Command, checks: &str) {
    let out = command
        .args(["--tls-verify", "false", "--seed", "7", "--max-examples", "5", "--phases", "coverage,fuzzing"])
        .args(["--request-timeout", "20", "--checks", checks, "--no-color"])
        .output()
        .expect("schemathesis starts");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    // That it did anything.
    let passed = said.lines().find(|l| l.contains(" generated, ")).unwrap_or_else(|| panic!("{said}"));
    let count: u32 = passed.trim().split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(count > 10, "{said}");
}

fn as_role(program: PathBuf, role: Role) {
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators));
    programs(&node);
    let node = node.start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let (certificate, key) = files(&node, &operators, "client", role);
    let mut command = Command::new(program);
    command
        .arg("run")
        .arg(description(&node))
        .args(["--url", &format!("https://{at}"), "--exclude-operation-id", "enroll"])
        .arg("--request-cert")
        .arg(certificate)
        .arg("--request-cert-key")
        .arg(key);
    judged(command, &format!("{CHECKS},{METHODS}"));
}

#[test]
fn a_reader_gets_what_is_described_and_no_500() {
    as_role(require!(schemathesis()), Role::Readonly);
}

#[test]
fn an_operator_gets_what_is_described_and_no_500() {
    as_role(require!(schemathesis()), Role::Operator);
}

#[test]
fn an_admin_gets_what_is_described_and_no_500() {
    as_role(require!(schemathesis()), Role::Admin);
}

#[test]
fn a_stranger_at_an_unclaimed_node_gets_what_is_described_and_no_500() {
    let program = require!(schemathesis());
    let node = Node::with_document(&format!("muster:\n  api:\n    enabled: true\n    listen: {}\n", free()));
    programs(&node);
    let node = node.start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let mut command = Command::new(program);
    command.arg("run").arg(description(&node)).args([
        "--url",
        &format!("https://{at}"),
        "--include-operation-id",
        "enroll",
    ]);
    judged(command, CHECKS);
}
