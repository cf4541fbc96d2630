//! Every route and every role, through edge and core: who may is answered, who may not is told why and written down.

use std::path::Path;
use std::process::Command;

use muster_api::{Method, ROUTES, Route};
use muster_core::Role;
use muster_needs::require;

use crate::client::{Files, Got, curl, tools};
use crate::process::Edge;
use crate::real::{files, owned};
use crate::support::{Node, Operators};

/// A client of these operators with this subject: ours are issued with one role each.
fn by_openssl(operators: &Operators, folder: &Path, name: &str, organisations: &str) -> Files {
    let at = |end: &str| folder.join(format!("{name}.{end}"));
    let (key, request, certificate) = (at("key"), at("csr"), at("crt"));
    let (ca, ca_key, extensions) = (folder.join("ca.pem"), folder.join("ca.key"), folder.join("ext"));
    std::fs::write(&ca, &operators.pem).expect("a file");
    std::fs::write(&ca_key, &operators.key).expect("a file");
    std::fs::write(&extensions, "extendedKeyUsage=clientAuth\n").expect("a file");
    let openssl = |words: &str, files: &[(&str, &Path)]| {
        let mut command = Command::new("openssl");
        command.args(words.split(' '));
        for (option, file) in files {
            command.arg(option).arg(file);
        }
        let out = command.output().expect("openssl starts");
        assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    };
    openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", &[("-out", &key)]);
    openssl(&format!("req -new -subj /CN={name}{organisations}"), &[("-key", &key), ("-out", &request)]);
    openssl(
        "x509 -req -days 1 -CAcreateserial",
        &[
            ("-in", &request),
            ("-CA", &ca),
            ("-CAkey", &ca_key),
            ("-extfile", &extensions),
            ("-out", &certificate),
        ],
    );
    (certificate, key)
}

/// A request to a route that is well formed, and changes nothing where it is let through: its body is refused.
fn call(at: std::net::SocketAddr, client: &Files, route: &Route, version: &str) -> Got {
    let query = match (route.chosen_by, route.path) {
        (Some((name, value)), _) => format!("?{name}={value}"),
        (None, "/v1/access/ssh") if route.method == Method::Delete => {
            format!("?fingerprint=SHA256:{}", "A".repeat(43))
        }
        _ => String::new(),
    };
    let path = format!("{}{query}", route.path.replace("{unit}", "kubelet"));
    let mut options = vec![version, "-X", route.method.as_str()];
    if route.body > 0 {
        options.extend(["--data-binary", "{}"]);
    }
    curl(at, Some(client), &path, &options)
}

#[test]
fn m15_every_route_and_every_role_answers_as_the_table_says() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators));
    for program in ["/usr/bin/systemctl", "/usr/bin/systemd-run", "/usr/bin/journalctl"] {
        node.program(program, "exit 0");
    }
    let node = node.start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let both = "/O=muster:readonly/O=MUSTER:operator";
    let clients = [
        ("nobody", None, by_openssl(&operators, node.root(), "nobody", "/O=acme")),
        ("reader", Some(Role::Readonly), files(&node, &operators, "reader", Role::Readonly)),
        ("worker", Some(Role::Operator), files(&node, &operators, "worker", Role::Operator)),
        ("both", Some(Role::Operator), by_openssl(&operators, node.root(), "both", both)),
        ("alice", Some(Role::Admin), files(&node, &operators, "alice", Role::Admin)),
    ];
    for (n, (name, role, client)) in clients.iter().enumerate() {
        let version = if n % 2 == 0 { "--http2" } else { "--http1.1" };
        for route in ROUTES {
            let operation = route.operation;
            let got = call(at, client, route, version);
            let told = format!("{name} {} {}: {got:?}", route.method.as_str(), route.path);
            if role.is_some_and(|role| operation.permits(role)) {
                assert!(!matches!(got.status, 0 | 401 | 403 | 405 | 500..), "{told}");
                // The core answered, not the edge: there is no such service, key or image.
                assert!(got.headers.contains("muster-audit: "), "{told}");
                continue;
            }
            assert_eq!(got.status, 403, "{told}");
            assert_eq!(got.reason(), if role.is_some() { "role" } else { "no-role" }, "{told}");
            assert_eq!(got.json()["needs"], operation.row().role.organisation(), "{told}");
            assert_eq!(got.json()["held"].as_str(), role.map(Role::organisation), "{told}");
        }
    }
    // Each refusal is in the record by its operation and its caller.
    for (name, role, _) in clients.iter().filter(|(name, ..)| *name == "worker") {
        for route in ROUTES.iter().filter(|r| role.is_none_or(|role| !r.operation.permits(role))) {
            let operation = format!("\"op\":\"{}\"", route.operation.row().name);
            let records = node.records(&[&operation, "\"decision\":\"denied\"", &format!("\"{name}\"")]);
            let record = &records[0];
            assert_eq!(record["reason"], "role", "{record}");
            // What comes faster than ten a second is counted together.
            assert!(record["status"] == 403 || record["event"] == "counted", "{record}");
        }
    }
}
