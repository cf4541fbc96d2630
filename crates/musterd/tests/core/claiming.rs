//! Before there is an owner, and the moment when there is one.

use std::io::Write as _;
use std::sync::Barrier;
use std::time::Duration;

use muster_core::Role;
use muster_pairing::Code;
use muster_pairing::exchange::{Claim, Operator};
use muster_pairing::message::{ClaimBody, Request, Started};
use muster_tls::OperatorCa;
use musterd::wire::{Ask, Hello, Reply, ToEdge, message, read_body, read_message, write_body};

use crate::support::{Got, Node, Operators};

/// One step of a pairing, from this address.
fn enroll_from(node: &Node, address: &str, body: &[u8]) -> Got {
    let mut stream = node.connect();
    let mut bytes = message(&Hello::Enroll { address: address.into() }).unwrap();
    write_body(&mut bytes, body).unwrap();
    stream.write_all(&bytes).unwrap();
    let reply = read_message::<Reply>(&mut stream).unwrap().unwrap();
    let body = read_body(&mut stream, 1 << 20).unwrap();
    Got { reply, body }
}

fn enroll(node: &Node, body: &[u8]) -> Got {
    enroll_from(node, "192.0.2.9", body)
}

#[test]
fn m15_before_a_claim_nobody_gets_a_handle_and_after_it_the_edge_serves_anew() {
    let operators = Operators::new(1);
    let node = Node::with_document("muster:\n  api:\n    enabled: true\n    insecure: true\n").start();
    let mut edge = node.link();
    assert_eq!(edge.serve.authority, None, "no client certificate is asked for");
    let proof = operators.proof("alice", Role::Admin, 2);
    let refused = edge.try_open(&proof).unwrap_err();
    assert_eq!((refused.status, refused.fault.reason.as_str()), (409, "unclaimed"));
    assert!(edge.health(&"0".repeat(32)).is_none());
    for body in [b"".as_slice(), b"{}", b"[", b"{\"code\":\"ABCD-EFGH\",\"operatorCA\":\"x\"}"] {
        let got = enroll(&node, body);
        assert_eq!(got.reply.status, 400, "{got:?}");
        assert!(got.reply.audit.is_some());
    }
    // Two at once: one becomes the owner, and the other hears so.
    let claim = |operators: &Operators| {
        let (operator_ca, document, acknowledge) = (operators.pem.clone(), None, true);
        Request::Open { claim: ClaimBody { operator_ca, document, acknowledge } }.render().into_bytes()
    };
    let other = Operators::new(5);
    let (mine, theirs) = std::thread::scope(|scope| {
        let mine = scope.spawn(|| enroll(&node, &claim(&operators)));
        let theirs = scope.spawn(|| enroll(&node, &claim(&other)));
        (mine.join().unwrap(), theirs.join().unwrap())
    });
    let mut statuses = [mine.reply.status, theirs.reply.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{mine:?} {theirs:?}");
    let owner = if mine.reply.status == 200 { &operators } else { &other };
    let held = edge.read();
    assert!(matches!(held, ToEdge::Hold), "nobody new until the owner is served: {held:?}");
    match edge.read() {
        ToEdge::Serve(serve) => {
            let der = owner.authority.ca().der();
            use base64ct::Encoding as _;
            let told = serve.authority.expect("there is one now");
            assert_eq!(base64ct::Base64::decode_vec(&told).unwrap(), der.to_vec());
            assert_eq!(serve.certificate, edge.serve.certificate, "the node stays who it is");
        }
        other => panic!("{other:?}"),
    }
    let handle = edge.open(&owner.proof("alice", Role::Readonly, 2));
    assert_eq!(edge.call(&handle, Ask::Health, "GET /v1/health").reply.status, 200);
    assert_eq!(enroll(&node, &claim(&operators)).reason(), "claimed");
    let records = node.records(&["\"event\":\"enroll\"", "\"decision\":\"allowed\""]);
    assert_eq!((records.len(), records[0]["claimedByEdge"].as_str()), (1, Some("192.0.2.9")));
    assert!(!node.chain().contains("BEGIN CERTIFICATE"), "bodies are nowhere");
}

/// Somebody who read the code from the console, between the two steps of a pairing.
struct Pairing<'n> {
    node: &'n Node,
    address: String,
    operator: Operator,
    certificate: Vec<u8>,
    operators: &'n Operators,
}

impl<'n> Pairing<'n> {
    fn new(node: &'n Node, certificate: &[u8], operators: &'n Operators, address: &str) -> Self {
        let kept = std::fs::read(node.path(musterd::places::ENROLMENT)).unwrap();
        let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
        let code = Code::parse(kept["code"].as_str().unwrap()).unwrap();
        let mut random = [0; 64];
        for part in random.chunks_mut(16) {
            part.copy_from_slice(&muster_sys::system::random_128().unwrap());
        }
        let operator = Operator::start(&code, certificate, random);
        let certificate = certificate.to_vec();
        Self { node, address: address.to_owned(), operator, certificate, operators }
    }

    fn start(self) -> Result<(String, Vec<u8>), Got> {
        let share = Request::Start { share: self.operator.share() }.render();
        let got = enroll_from(self.node, &self.address, share.as_bytes());
        if got.reply.status != 200 {
            return Err(got);
        }
        let started = Started::parse(&got.body).unwrap();
        let ca = muster_tls::one_certificate(&self.operators.pem).unwrap();
        let ca = OperatorCa::from_der(ca).unwrap().der().to_vec();
        let claim = Claim {
            node_certificate: &self.certificate,
            operator_ca: &ca,
            document: None,
            acknowledge: true,
        };
        let (confirm, _) = self.operator.claim(&started.session, &started.share, &claim).unwrap();
        let claim = ClaimBody { operator_ca: self.operators.pem.clone(), document: None, acknowledge: true };
        let body = Request::Confirm { session: started.session, confirm, claim }.render();
        Ok((self.address, body.into_bytes()))
    }
}

/// How two who both know the code come to their second step.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Both have their session; one confirms after the other.
    OneByOne,
    /// Both have their session, and confirm at the same moment.
    Together,
    /// So long apart, so that one meets the other in the middle of it.
    Apart(Duration),
    /// Nothing of it is in order: sessions too begin at the same moment.
    AllAtOnce,
}

#[test]
fn s18_of_two_right_codes_at_once_one_becomes_the_owner_and_the_other_hears_so() {
    let (one, two) = (Operators::new(1), Operators::new(5));
    let mut won = [0, 0];
    let apart = [0, 1, 2, 4, 8].map(|ms| Order::Apart(Duration::from_millis(ms)));
    let orders = [Order::OneByOne, Order::Together, Order::Together, Order::AllAtOnce, Order::AllAtOnce];
    for (round, order) in orders.into_iter().chain(apart).enumerate() {
        let node = Node::in_memory("muster:\n  api:\n    enabled: true\n").start();
        let mut edge = node.link();
        let certificate = edge.serve.certificate.clone();
        // Who comes first by name is not who is started first.
        let sides = if round % 2 == 0 { [&one, &two] } else { [&two, &one] };
        let pairing = |n: usize| Pairing::new(&node, &certificate, sides[n], &format!("192.0.2.{}", n + 1));
        let (first, second) = (pairing(0), pairing(1));
        let confirm = |(address, body): (String, Vec<u8>)| enroll_from(&node, &address, &body);
        let both = |wait: Duration, first: (String, Vec<u8>), second: (String, Vec<u8>)| {
            let barrier = Barrier::new(2);
            std::thread::scope(|scope| {
                let one = scope.spawn(|| {
                    barrier.wait();
                    confirm(first)
                });
                let two = scope.spawn(|| {
                    barrier.wait();
                    std::thread::sleep(wait);
                    confirm(second)
                });
                [one.join().unwrap(), two.join().unwrap()]
            })
        };
        let got = match order {
            Order::OneByOne => {
                let (first, second) = (first.start().unwrap(), second.start().unwrap());
                [confirm(first), confirm(second)]
            }
            Order::Together => both(Duration::ZERO, first.start().unwrap(), second.start().unwrap()),
            Order::Apart(wait) => both(wait, first.start().unwrap(), second.start().unwrap()),
            Order::AllAtOnce => {
                let barrier = Barrier::new(2);
                let whole = |side: Pairing<'_>| {
                    barrier.wait();
                    side.start().map_or_else(|refused| refused, confirm)
                };
                std::thread::scope(|scope| {
                    let one = scope.spawn(|| whole(first));
                    let two = scope.spawn(|| whole(second));
                    [one.join().unwrap(), two.join().unwrap()]
                })
            }
        };
        let mut statuses = got.each_ref().map(|got| got.reply.status);
        let winner = statuses.iter().position(|status| *status == 200).unwrap_or_else(|| panic!("{got:?}"));
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{order:?}: {got:?}");
        assert_eq!(got[1 - winner].reason(), "claimed", "{order:?}: {got:?}");
        won[winner] += 1;
        // The one who heard that he is the owner is, and the other is nobody.
        let owner = sides[winner];
        assert!(matches!(edge.read(), ToEdge::Hold));
        let ToEdge::Serve(serve) = edge.read() else { panic!("the owner is served") };
        let told = serve.authority.expect("there is one now");
        use base64ct::Encoding as _;
        assert_eq!(base64ct::Base64::decode_vec(&told).unwrap(), owner.authority.ca().der().to_vec());
        edge.open(&owner.proof("alice", Role::Admin, 2));
        assert!(edge.try_open(&sides[1 - winner].proof("bob", Role::Admin, 3)).is_err());
        let refused: Vec<_> = node
            .records(&["\"event\":\"enroll\"", "\"decision\":\"denied\"", "\"status\":409"])
            .into_iter()
            .map(|r| r["claimedByEdge"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(refused, [format!("192.0.2.{}", 2 - winner)], "{order:?}: the loser is in the record");
    }
    println!("the first of the two became the owner {} times, the second {}", won[0], won[1]);
}

/// The stream of a journal that was stopped is gone for the life of the process, and every line that is said there fails.
#[test]
fn a_core_that_nobody_hears_any_more_does_what_it_is_asked() {
    let (mine, next) = (Operators::new(1), Operators::new(5));
    let node = Node::with_document("muster:\n  role: init\n  api:\n    enabled: true\n    insecure: true\n");
    let mut node = node.start_unheard();
    let claim = ClaimBody { operator_ca: mine.pem.clone(), document: None, acknowledge: true };
    let got = enroll(&node, &Request::Open { claim }.render().into_bytes());
    assert_eq!(got.reply.status, 200, "{got:?}");
    let file = node.root().join("next.pem");
    std::fs::write(&file, &next.pem).unwrap();
    for args in [&["set-ca", "--file", file.to_str().unwrap()][..], &["rekey"], &["status"]] {
        let out = node.console(args);
        assert!(out.status.success(), "{args:?}: {out:?}");
    }
    let mut edge = node.link();
    let handle = edge.open(&next.proof("bob", Role::Admin, 6));
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200);
    assert!(node.alive());
}
