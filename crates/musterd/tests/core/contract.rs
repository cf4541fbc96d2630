//! The contract, through a real edge and by a client that is not ours (curl): every route, whoever calls, gives the code that is written
//! here, and is in the record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_core::{Operation, Role};
use muster_tls::{Lifetime, Revoked};
use musterd::wire::Ask;

use crate::calls::asks;
use crate::support::{Node, Operators, SOON, document, now};

struct Edge(Child);

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bed {
    node: Node,
    _edge: Edge,
    port: u16,
}

impl Bed {
    fn new(operators: &Operators) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let node =
            Node::with_document(&document(operators, &format!("    listen: 127.0.0.1:{port}\n"))).start();
        let edge = Command::new(env!("CARGO_BIN_EXE_musterd"))
            .args(["edge", "--socket"])
            .arg(node.socket())
            .stdin(Stdio::null())
            .stderr(fs::File::create(node.path("/edge-log")).unwrap())
            .spawn()
            .unwrap();
        let bed = Self { node, _edge: Edge(edge), port };
        let until = Instant::now() + SOON;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = fs::read_to_string(bed.node.path("/edge-log")).unwrap_or_default();
            assert!(Instant::now() < until, "the edge does not listen: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        bed
    }

    /// Asks for everything as one client, at most eight times a second, and gives status and reason of each.
    fn ask(&self, client: Option<&Client>) -> BTreeMap<&'static str, (u16, String)> {
        let dir = tempfile::tempdir().unwrap();
        let mut curl = Command::new("/usr/bin/curl");
        let mut bodies = Vec::new();
        for (n, (ask, request)) in asks().into_iter().enumerate() {
            let (method, target) = request.split_once(' ').unwrap();
            let body = dir.path().join(n.to_string());
            if n > 0 {
                curl.arg("--next");
            }
            curl.args(["-s", "-k", "--rate", "8/s", "-m", "20", "-X", method, "-w", "%{http_code}\\n", "-o"]);
            curl.arg(&body);
            if let Some(client) = client {
                curl.arg("--cert").arg(&client.certificate).arg("--key").arg(&client.key);
            }
            // What has a body gets one that says nothing of use.
            if method != "GET" {
                curl.args(["-d", "{}"]);
            }
            curl.arg(format!("https://127.0.0.1:{}{target}", self.port));
            bodies.push((ask.operation().row().name, body));
        }
        let done = curl.output().unwrap();
        let codes = String::from_utf8(done.stdout).unwrap();
        let codes: Vec<u16> = codes.lines().map(|l| l.parse().unwrap()).collect();
        assert_eq!(codes.len(), bodies.len(), "{codes:?}");
        let reason = |path: &Path| {
            let body: Option<serde_json::Value> =
                fs::read(path).ok().and_then(|b| serde_json::from_slice(&b).ok());
            body.and_then(|b| b["reason"].as_str().map(str::to_owned)).unwrap_or_default()
        };
        bodies.into_iter().zip(codes).map(|((op, path), code)| (op, (code, reason(&path)))).collect()
    }
}

/// Files of a client.
struct Client {
    certificate: PathBuf,
    key: PathBuf,
}

impl Client {
    fn keep(node: &Node, name: &str, certificate: &str, key: &str) -> Self {
        let at = |end: &str| node.path(&format!("/{name}.{end}"));
        let kept = Self { certificate: at("pem"), key: at("key") };
        fs::write(&kept.certificate, certificate).unwrap();
        fs::write(&kept.key, key).unwrap();
        kept
    }
}

/// What an admin is answered on a node that is owned and not built, by requests that say nothing of use.
fn admin(operation: Operation) -> (u16, &'static str) {
    use Operation as O;
    match operation {
        O::Health | O::NodeState | O::Services | O::Logs | O::SshKeys | O::AuditRead | O::ProofNonce => {
            (200, "")
        }
        O::EtcdState | O::Cordon | O::Uncordon | O::Drain | O::Kubeconfig | O::JoinToken => {
            (409, "not-a-cluster-node")
        }
        O::ServiceRestart => (404, "unknown-unit"),
        O::UpgradeStage | O::SshKeyAdd | O::ConfigApply | O::CaRotate => (400, "body"),
        O::CrlUpload => (400, "bad-crl"),
        O::UpgradeApply | O::UpgradeRollback => (409, "no-image"),
        O::Reboot | O::Shutdown => (202, ""),
        O::Reset => (400, "body"),
        O::SshKeyRemove => (404, "no-such-key"),
    }
}

#[test]
fn m15_every_route_and_every_client_gives_the_code_of_the_contract_and_a_record() {
    muster_needs::require!(muster_needs::tool("/usr/bin/curl", "curl"));
    muster_needs::require!(muster_needs::tool("/usr/bin/openssl", "openssl"));
    let (operators, strangers) = (Operators::new(1), Operators::new(8));
    let bed = Bed::new(&operators);
    let node = &bed.node;
    node.program("/usr/bin/journalctl", "exit 0");
    let issued = |by: &Operators, name: &str, role, serial, lifetime| {
        let issued = by.authority.issue(name, role, lifetime, now(), [serial; 16]).unwrap();
        (Client::keep(node, name, &issued.certificate, &issued.key), issued.serial)
    };
    let from_openssl = |name: &str, subject: &str| {
        let files = crate::openssl::files_of(&operators, subject).unwrap();
        Client::keep(node, name, &files.certificate, &files.key)
    };
    let role = |name: &str, role, serial| issued(&operators, name, role, serial, Lifetime::CLIENT).0;
    let roles = [
        (role("reader", Role::Readonly, 21), "reader", Role::Readonly),
        (role("worker", Role::Operator, 22), "worker", Role::Operator),
        (role("boss", Role::Admin, 23), "boss", Role::Admin),
        (from_openssl("both", "/CN=both/O=muster:readonly/O=muster:admin"), "both", Role::Admin),
    ];
    let nobody = from_openssl("nobody", "/CN=nobody/O=acme");
    let (gone, serial) = issued(&operators, "gone", Role::Admin, 25, Lifetime::CLIENT);
    let (ended, _) = issued(&operators, "ended", Role::Admin, 26, Lifetime { secs: 1 });
    let (stranger, _) = issued(&strangers, "stranger", Role::Admin, 27, Lifetime::CLIENT);
    let list = operators.authority.revoke(&[Revoked { serial, at: now() }], 1, None, now()).unwrap();
    fs::write(node.path("/list"), list).unwrap();
    let upload = Command::new("/usr/bin/curl")
        .args(["-s", "-k", "-T"])
        .arg(node.path("/list"))
        .args(["-w", "%{http_code}", "-o", "/dev/null", "--cert"])
        .arg(&roles[0].0.certificate)
        .arg("--key")
        .arg(&roles[0].0.key)
        .arg(format!("https://127.0.0.1:{}/v1/ca/crl", bed.port))
        .output()
        .unwrap();
    assert_eq!(upload.stdout, b"200", "anybody may bring the authority's own list");
    std::thread::sleep(Duration::from_secs(2));

    let bed = &bed;
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = |client| scope.spawn(move || bed.ask(client));
        let mut all: Vec<_> = roles.iter().map(|(client, ..)| ask(Some(client))).collect();
        all.extend([Some(&nobody), Some(&gone), Some(&ended), Some(&stranger), None].map(ask));
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut wrong = Vec::new();
    for ((_, name, role), answers) in roles.iter().zip(&answers) {
        for operation in Operation::ALL {
            let row = operation.row();
            let wanted = if operation.permits(*role) { admin(*operation) } else { (403, "role") };
            let (status, reason) = &answers[row.name];
            if (*status, reason.as_str()) != wanted {
                wrong.push(format!("{} by {name}: {status} {reason:?}, not {wanted:?}", row.name));
            }
        }
    }
    for (answers, wanted, who) in [
        (&answers[4], (403, "no-role"), "nobody"),
        (&answers[5], (401, "revoked"), "gone"),
        // TLS ends before there is HTTP: an alert, and no status.
        (&answers[6], (0, ""), "ended"),
        (&answers[7], (0, ""), "stranger"),
        (&answers[8], (0, ""), "no certificate"),
    ] {
        for (op, (status, reason)) in answers {
            if (*status, reason.as_str()) != wanted {
                wrong.push(format!("{op} by {who}: {status} {reason:?}, not {wanted:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    recorded(bed, &roles.each_ref().map(|(_, name, role)| (*name, *role)));
}

/// That every call of these clients is in the record, with its end.
fn recorded(bed: &Bed, clients: &[(&str, Role)]) {
    // All that waited is on the disk when this one is.
    bed.node.records(&["\"reason\":\"no-role\"", "\"op\":\"ssh-key-remove\""]);
    std::thread::sleep(Duration::from_secs(2));
    let chain = bed.node.chain();
    muster_core::audit::verify(chain.as_bytes(), None, &[]).unwrap();
    let records: Vec<serde_json::Value> = chain.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for (name, role) in clients {
        for (ask, _) in asks() {
            let (operation, row) = (ask.operation(), ask.operation().row());
            let of = |event: &str| -> Vec<&serde_json::Value> {
                let is = |r: &&serde_json::Value| {
                    r["event"] == event && r["op"] == row.name && r["who"]["name"] == **name
                };
                records.iter().filter(is).collect()
            };
            let wanted = if operation.permits(*role) { admin(operation) } else { (403, "role") };
            // Refused before the act, by role or state, leaves one record; so does what only reads.
            let early = !operation.permits(*role) || wanted.1 == "not-a-cluster-node";
            let spooled = matches!(row.audit, muster_core::operation::Audit::Spooled);
            let ends = if early || spooled { of("call") } else { of("outcome") };
            // The reader brought a list before.
            let before = usize::from(*name == "reader" && matches!(ask, Ask::CrlUpload));
            assert_eq!(ends.len(), 1 + before, "{} by {name}: {ends:?}", row.name);
            let end = ends[ends.len() - 1];
            let decision = match wanted.0 {
                200..300 => "allowed",
                _ if early => "denied",
                _ => "failed",
            };
            assert_eq!(
                (end["status"].as_u64(), end["decision"].as_str()),
                (Some(wanted.0.into()), Some(decision)),
                "{end}"
            );
            assert_eq!(end["reason"].as_str().unwrap_or_default(), wanted.1, "{end}");
            let intents = of("intent").len();
            assert_eq!(intents, if early || spooled { 0 } else { 1 + before }, "{} by {name}", row.name);
        }
    }
    for reason in ["no-certificate", "expired", "other-authority", "revoked"] {
        let all: Vec<_> =
            records.iter().filter(|r| r["reason"] == reason && r["decision"] == "denied").collect();
        assert!(!all.is_empty(), "{reason}");
    }
}
