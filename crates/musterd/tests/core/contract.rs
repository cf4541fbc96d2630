//! The contract, through a real edge and by a client that is not ours (curl): every route, whoever calls, gives the code that is written
//! here, and is in the record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_core::{Operation, Role};
use muster_tls::{Fingerprint, Lifetime, Revoked};
use musterd::wire::Ask;
use serde_json::Value;

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

    /// Brings a revocation list, and gives the status.
    fn brings(&self, client: &Client, list: &str) -> String {
        let upload = Command::new("/usr/bin/curl")
            .args(["-s", "-k", "-w", "%{http_code}", "-o", "/dev/null", "-T"])
            .arg(self.node.path(list))
            .arg("--cert")
            .arg(&client.certificate)
            .arg("--key")
            .arg(&client.key)
            .arg(format!("https://127.0.0.1:{}/v1/ca/crl", self.port))
            .output()
            .unwrap();
        String::from_utf8(upload.stdout).unwrap()
    }

    /// Asks for everything as one client, at most eight times a second, and gives status and reason of each. `from`: each request from
    /// an address of its own, so that its record can be told from the others where nothing else of the request is known.
    fn ask(&self, client: Option<&Client>, from: Option<u8>) -> BTreeMap<&'static str, (u16, String)> {
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
            if let Some(block) = from {
                curl.args(["--interface", &address(block, n)]);
            }
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

/// The address of loopback from which the request of this number comes.
fn address(block: u8, n: usize) -> String {
    format!("127.{block}.0.{}", n + 1)
}

/// Files of a client, and what a record says of who it is.
struct Client {
    certificate: PathBuf,
    key: PathBuf,
    fingerprint: String,
}

impl Client {
    fn keep(node: &Node, name: &str, certificate: &str, key: &str) -> Self {
        let at = |end: &str| node.path(&format!("/{name}.{end}"));
        let fingerprint = Fingerprint::of(&muster_tls::one_certificate(certificate).unwrap()).to_string();
        let kept = Self { certificate: at("pem"), key: at("key"), fingerprint };
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
    let mut bed = Bed::new(&operators);
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
    assert_eq!(bed.brings(&roles[0].0, "/list"), "200", "anybody may bring the authority's own list");
    std::thread::sleep(Duration::from_secs(2));

    let asked = &bed;
    let strange = [Some(&gone), Some(&ended), Some(&stranger), None];
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = |client, from| scope.spawn(move || asked.ask(client, from));
        let mut all: Vec<_> = roles.iter().map(|(client, ..)| ask(Some(client), None)).collect();
        all.push(ask(Some(&nobody), None));
        all.extend(strange.iter().zip(BLOCK..).map(|(client, block)| ask(*client, Some(block))));
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
    // What was only counted until now is written down at the end.
    assert_eq!(bed.node.stop(), Some(0));
    let chain = bed.node.chain();
    muster_core::audit::verify(chain.as_bytes(), None, &[]).unwrap();
    let records: Vec<Value> = chain.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for (client, name, role) in &roles {
        recorded(&records, client, name, Some(*role));
    }
    recorded(&records, &nobody, "nobody", None);
    for (n, (client, reason)) in
        strange.iter().zip(["revoked", "expired", "other-authority", "no-certificate"]).enumerate()
    {
        turned_away(&records, *client, BLOCK + u8::try_from(n).unwrap(), reason);
    }
}

/// The addresses of those who never get as far as an operation begin with this second number.
const BLOCK: u8 = 31;

/// That every call of this client is in the record once, with its end, and as whose.
fn recorded(records: &[Value], client: &Client, name: &str, role: Option<Role>) {
    for (ask, request) in asks() {
        let (operation, row) = (ask.operation(), ask.operation().row());
        let of = |event: &str| -> Vec<&Value> {
            let is = |r: &&Value| r["event"] == event && r["op"] == row.name && r["who"]["name"] == name;
            records.iter().filter(is).collect()
        };
        let permits = role.is_some_and(|role| operation.permits(role));
        let wanted = match role {
            None => (403, "no-role"),
            Some(_) if !permits => (403, "role"),
            Some(_) => admin(operation),
        };
        // Refused before the act, by role or state, leaves one record; so does what only reads.
        let early = !permits || wanted.1 == "not-a-cluster-node";
        let spooled = matches!(row.audit, muster_core::operation::Audit::Spooled);
        let (event, other) = if early || spooled { ("call", "outcome") } else { ("outcome", "call") };
        let ends = of(event);
        // The reader brought a list before.
        let before = usize::from(name == "reader" && matches!(ask, Ask::CrlUpload));
        assert_eq!(ends.len(), 1 + before, "{} by {name}: {ends:?}", row.name);
        assert_eq!((of(other).len(), of("counted").len()), (0, 0), "{} by {name}", row.name);
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
        assert_eq!(end["request"].as_str(), Some(request), "{end}");
        let intents = of("intent");
        assert_eq!(intents.len(), if early || spooled { 0 } else { 1 + before }, "{} by {name}", row.name);
        for record in ends.iter().chain(&intents) {
            let who = &record["who"];
            assert_eq!(who["role"].as_str(), role.map(Role::organisation), "{record}");
            assert_eq!(who["certificate"].as_str(), Some(client.fingerprint.as_str()), "{record}");
            assert_eq!(record["claimedByEdge"], "127.0.0.1", "{record}");
            assert!(record.get("toldBy").is_none(), "the core saw it itself: {record}");
        }
        assert!(intents.iter().all(|r| r["decision"] == "allowed"), "{intents:?}");
    }
}

/// That every request of a client that is not let in is in the record once, by the address that it came from: as itself, or counted
/// where there were too many. What it asked for nobody knows, for it was not let say it.
fn turned_away(records: &[Value], client: Option<&Client>, block: u8, reason: &str) {
    let mut whole = 0;
    for (n, (ask, _)) in asks().iter().enumerate() {
        let (from, op) = (address(block, n), ask.operation().row().name);
        let of: Vec<&Value> = records.iter().filter(|r| r["claimedByEdge"] == from.as_str()).collect();
        let [record] = of.as_slice() else { panic!("{op}, {reason}: {of:#?}") };
        let event = record["event"].as_str().unwrap();
        assert!(matches!(event, "handshake" | "counted"), "{op}, {reason}: {record}");
        assert_eq!(
            (record["decision"].as_str(), record["reason"].as_str()),
            (Some("denied"), Some(reason)),
            "{op}: {record}"
        );
        assert!(record.get("op").is_none() && record.get("who").is_none(), "{op}, {reason}: {record}");
        // The core judged the one that is revoked, and has only the edge's word of the others.
        let (told, status) = if reason == "revoked" { (None, Some(401)) } else { (Some("edge"), None) };
        assert_eq!(record["toldBy"].as_str(), told, "{op}, {reason}: {record}");
        if event == "counted" {
            assert_eq!(record["count"], 1, "{op}, {reason}: {record}");
            continue;
        }
        whole += 1;
        assert_eq!(record["status"].as_u64(), status, "{op}, {reason}: {record}");
        let shown = client.map(|client| client.fingerprint.as_str());
        assert_eq!(record["certificate"].as_str(), shown, "{op}, {reason}: {record}");
    }
    println!("{reason}: {whole} of {} one by one", asks().len());
}
