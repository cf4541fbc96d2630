//! Who may depend on whom, inside and outside.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::{TOOLS, root};

/// Who may depend on whom, as the design draws it. Development dependencies are exempt.
const ARROWS: &[(&str, &[&str])] = &[
    ("muster-core", &[]),
    ("muster-signing", &["muster-core"]),
    ("muster-sys", &["muster-core"]),
    ("muster-ssh", &["muster-core"]),
    ("muster-document", &[]),
    ("muster-pairing", &[]),
    ("muster-tls", &["muster-core"]),
    ("muster-api", &["muster-core"]),
    ("muster-client", &["muster-api", "muster-core", "muster-pairing", "muster-tls"]),
    ("muster-cluster", &["muster-document"]),
    (
        "musterd",
        &[
            "muster-api",
            "muster-cluster",
            "muster-core",
            "muster-document",
            "muster-pairing",
            "muster-signing",
            "muster-sys",
            "muster-tls",
        ],
    ),
    ("muster-provision", &["muster-core", "muster-signing", "muster-sys"]),
    ("muster-shim", &["muster-core", "muster-signing", "muster-sys"]),
    (
        "muster",
        &[
            "muster-api",
            "muster-client",
            "muster-core",
            "muster-document",
            "muster-pairing",
            "muster-signing",
            "muster-sys",
            "muster-ssh",
            "muster-provision",
            "muster-tls",
        ],
    ),
];

/// What must never run as root on a host: servers, async, TLS, SSH clients, macro-heavy front ends.
const NOT_IN_THE_SHIM: &[&str] = &[
    "tokio",
    "mio",
    "russh",
    "aws-lc-rs",
    "aws-lc-sys",
    "ring",
    "rustls",
    "openssl-sys",
    "hyper",
    "regex",
    "clap",
    "tracing",
];

/// Server stacks; `crate/feature` where the crate is a client too.
const NOT_IN_THE_COMMAND_LINE: &[&str] = &[
    "axum",
    "axum-core",
    "actix-web",
    "rocket",
    "warp",
    "tonic/server",
    "hyper/server",
    "hyper-util/server",
    "ring",
];

/// Of our crates: folder, and the names of our crates that it depends on outside tests.
pub(crate) type Ours = BTreeMap<String, (PathBuf, BTreeSet<String>)>;

fn cargo(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO")).args(args).current_dir(root()).output().expect("cargo starts");
    assert!(out.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// The workspace's crates, asked for once.
pub(crate) fn ours() -> &'static Ours {
    static OURS: LazyLock<Ours> = LazyLock::new(|| {
        let text = cargo(&["metadata", "--format-version", "1", "--locked", "--offline", "--no-deps"]);
        members(&serde_json::from_str(&text).expect("JSON"))
    });
    &OURS
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn members(metadata: &Value) -> Ours {
    let packages = list(metadata, "packages");
    let names: BTreeSet<&str> = packages.iter().map(|p| text(p, "name")).collect();
    packages
        .iter()
        .map(|p| {
            let folder = Path::new(text(p, "manifest_path")).parent().expect("a folder").to_owned();
            let needs = list(p, "dependencies")
                .iter()
                .filter(|d| d["kind"].as_str() != Some("dev") && names.contains(text(d, "name")))
                .map(|d| text(d, "name").to_owned())
                .collect();
            (text(p, "name").to_owned(), (folder, needs))
        })
        .collect()
}

fn wrong_arrows(ours: &Ours) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, (_, needs)) in ours.iter().filter(|(name, _)| !TOOLS.contains(&name.as_str())) {
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} has no row in ARROWS"));
            continue;
        };
        wrong.extend(needs.iter().filter(|n| !may.contains(&n.as_str())).map(|n| format!("{name} -> {n}")));
    }
    wrong
}

#[test]
fn dependencies_go_only_where_the_design_draws_an_arrow() {
    assert!(ours().len() > 5, "the workspace was not read");
    let wrong = wrong_arrows(ours());
    assert!(wrong.is_empty(), "arrows that the design does not draw (decision record first): {wrong:#?}");
}

#[test]
fn a_wrong_arrow_is_seen() {
    let package = |name: &str, deps: &[(&str, Option<&str>)]| {
        let deps: Vec<Value> =
            deps.iter().map(|(n, kind)| serde_json::json!({"name": n, "kind": kind})).collect();
        serde_json::json!({"name": name, "manifest_path": format!("/w/{name}/Cargo.toml"), "dependencies": deps})
    };
    let metadata = serde_json::json!({"packages": [
        package("muster-core", &[]),
        package("muster-ssh", &[("muster-core", None), ("tokio", None)]),
        package("muster-shim", &[("muster-ssh", None), ("muster-testbed", Some("dev"))]),
        package("muster-sys", &[("muster-testbed", Some("build"))]),
        package("muster-testbed", &[("muster-ssh", None)]),
        package("muster-new", &[]),
    ]});
    assert_eq!(
        wrong_arrows(&members(&metadata)),
        ["muster-new has no row in ARROWS", "muster-shim -> muster-ssh", "muster-sys -> muster-testbed"]
    );
}

/// What `package` is built from for this machine, with every feature of its own: names, and `name/feature`.
fn closure(package: &str) -> BTreeSet<String> {
    let tree = cargo(&[
        "tree",
        "--locked",
        "--offline",
        "--package",
        package,
        "--all-features",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}|{f}",
    ]);
    in_tree(&tree)
}

fn in_tree(tree: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for line in tree.lines() {
        let (crate_, features) = line.split_once('|').unwrap_or((line, ""));
        let name = crate_.split(' ').next().unwrap_or_default();
        out.insert(name.to_owned());
        let features = features.split(' ').next().unwrap_or_default();
        out.extend(features.split(',').filter(|f| !f.is_empty()).map(|f| format!("{name}/{f}")));
    }
    out
}

fn found<'a>(forbidden: &[&'a str], all: &BTreeSet<String>) -> Vec<&'a str> {
    forbidden.iter().copied().filter(|n| all.contains(*n)).collect()
}

#[test]
fn the_shim_pulls_in_no_server_no_async_and_no_tls() {
    let all = closure("muster-shim");
    assert!(all.contains("muster-signing") && all.contains("ssh-key"), "the tree was not read: {all:?}");
    let bad = found(NOT_IN_THE_SHIM, &all);
    assert!(bad.is_empty(), "in the graph of muster-shim: {bad:?}");
}

#[test]
fn the_command_line_pulls_in_no_server_stack() {
    let all = closure("muster");
    assert!(all.contains("muster-signing") && all.contains("clap"), "the tree was not read: {all:?}");
    let bad = found(NOT_IN_THE_COMMAND_LINE, &all);
    assert!(bad.is_empty(), "in the graph of muster: {bad:?}");
}

#[test]
fn a_forbidden_crate_or_feature_is_seen() {
    let all = in_tree("muster v0.1.0 (/w)|\nhyper v1.0.0|client,server (*)\nserde v1.0.0|default\n");
    assert_eq!(found(NOT_IN_THE_COMMAND_LINE, &all), ["hyper/server"]);
    assert_eq!(found(NOT_IN_THE_SHIM, &all), ["hyper"]);
    assert_eq!(found(&["serde/derive", "hyper/http2"], &all), Vec::<&str>::new());
}
