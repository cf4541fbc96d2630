//! Sources of secrets, for whatever key names one.

use std::os::unix::net::UnixListener;

use std::io::Write as _;

use muster_document::values::SecretSource;

use super::*;
use crate::core::disk::Disk;
use crate::core::documents::{self, Judged};
use crate::core::source::resolve;
use crate::fetch::words::{Told, Wanted, Why};
use crate::wire::{message, read_body, read_message, write_body};

/// Answers each question with the next of these; what was asked is what it gives back at the end.
fn fetcher(node: &Node, answers: Vec<Result<&'static str, Why>>) -> std::thread::JoinHandle<Vec<Wanted>> {
    fs::create_dir_all(node.at("/run/muster")).expect("made");
    let listener = UnixListener::bind(node.at(crate::places::FETCH_SOCKET)).expect("a socket");
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut core, _) = listener.accept().expect("a core");
            core.write_all(&message(&Told::Begun).expect("short")).expect("sent");
            asked.push(read_message(&mut core).expect("a message").expect("a request"));
            read_body(&mut core, 1 << 20).expect("anchors");
            let mut bytes = Vec::new();
            match answer {
                Ok(text) => {
                    bytes.extend(message(&Told::Got).expect("short"));
                    write_body(&mut bytes, text.as_bytes()).expect("a vector takes all");
                }
                Err(why) => bytes.extend(message(&Told::Failed { why }).expect("short")),
            }
            core.write_all(&bytes).expect("sent");
        }
        asked
    })
}

/// The source of a worker's join token.
fn token_from(node: &Node, source: &str) -> SecretSource {
    let hash = "0a".repeat(32);
    let text = format!(
        "role: worker\ncluster: {{endpoint: 'h:6443'}}\njoin: {{tokenFrom: {source}, caCertHashes: ['sha256:{hash}']}}\napi: {{enabled: true}}\n"
    );
    node.document(&text);
    let disk = Disk::open(&Places::below(node.root())).expect("a disk");
    let found = documents::find(&disk, Judged::Read).expect("sound").expect("a document");
    found.document.join.token_from.expect("a source")
}

/// Resolves it with pauses of no length; what it waited for.
fn resolved(node: &Node, source: &SecretSource) -> (Result<Option<String>, String>, Vec<String>, Vec<u64>) {
    let disk = Disk::open(&Places::below(node.root())).expect("a disk");
    let (waits, pauses) = (std::cell::RefCell::default(), std::cell::RefCell::<Vec<u64>>::default());
    let patience = |d: std::time::Duration| {
        if d.as_millis() == 100 {
            std::thread::sleep(d);
        } else {
            pauses.borrow_mut().push(d.as_secs_f64().round() as u64);
        }
        true
    };
    let told = |why: &str, _| std::cell::RefCell::<Vec<String>>::borrow_mut(&waits).push(why.to_owned());
    let got = resolve(&disk, source, &patience, &told).map(|t| t.map(|t| t.to_string()));
    (got, waits.into_inner(), pauses.into_inner())
}

#[test]
fn a_join_token_is_had_from_a_url_as_an_authority_is() {
    let node = node();
    node.write("/etc/muster/t", "bearer\n");
    fs::set_permissions(node.at("/etc/muster/t"), fs::Permissions::from_mode(0o600)).expect("set");
    let source = token_from(&node, "{url: 'https://h/t?x', authFile: /etc/muster/t, waitFor: 1h}");
    let later = Why::Status { code: 503 };
    let asked = fetcher(
        &node,
        vec![
            Err(Why::Refused),
            Err(Why::Name),
            Err(later),
            Err(later),
            Err(later),
            Err(later),
            Err(later),
            Ok("abcdef.0123456789abcdef\n"),
        ],
    );
    let (got, waits, pauses) = resolved(&node, &source);
    assert_eq!(got, Ok(Some("abcdef.0123456789abcdef\n".to_owned())));
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32], "it doubles up to 32 s");
    assert_eq!(waits.len(), 7);
    assert_eq!(waits[0], "join.tokenFrom: https://h/t: nobody listens there (connection refused)");
    let asked = asked.join().expect("it answered");
    for wanted in asked {
        assert_eq!((wanted.url.as_str(), wanted.bearer.as_deref()), ("https://h/t?x", Some("bearer")));
        assert_eq!((wanted.max, wanted.seconds), (256 * 1024, 30));
    }
}

/// `waitFor` is a deadline: neither a service manager that does not start what listens, nor a fetcher that it does not start, nor a
/// server that does not answer, may overrun it. Each of them is waited for by three seconds, and may take minutes by itself.
#[test]
fn a_time_to_wait_is_over_when_it_is_whatever_takes_long() {
    let ends = |node: &Node, word: &str| {
        let source = token_from(node, "{url: 'https://h/t', waitFor: 3s}");
        let begun = std::time::Instant::now();
        let (got, _, _) = resolved(node, &source);
        let (took, said) = (begun.elapsed().as_secs_f64(), got.expect_err("it is not there"));
        assert!((3.0..15.0).contains(&took), "{took} {said}");
        assert!(said.contains(word) && said.contains(", after "), "{said}");
    };
    let listener = |node: &Node| {
        fs::create_dir_all(node.at("/run/muster")).expect("made");
        UnixListener::bind(node.at(crate::places::FETCH_SOCKET)).expect("a socket")
    };
    // The service manager takes the question and does nothing.
    let slow = node();
    slow.systemctl("sleep 30");
    let _listens = listener(&slow);
    ends(&slow, "nobody answered");
    // Nobody accepts the connection.
    let silent = node();
    let _listens = listener(&silent);
    ends(&silent, "nobody answered");
    // The first look says why, the others say nothing.
    let falls = node();
    let listens = listener(&falls);
    let one = std::thread::spawn(move || {
        drop(listens.accept().expect("a core"));
        let (mut core, _) = listens.accept().expect("a core");
        core.write_all(&message(&Told::Begun).expect("short")).expect("sent");
        let wanted: Wanted = read_message(&mut core).expect("a message").expect("a request");
        read_body(&mut core, 1 << 20).expect("anchors");
        let _ = std::io::Read::read(&mut core, &mut [0]);
        wanted.seconds
    });
    ends(&falls, "the fetcher ended without an answer");
    let seconds = one.join().expect("it was asked");
    assert!((1..=4).contains(&seconds), "the server has what is left: {seconds}");
}

/// What is in memory may outlive the boot, in a container that is started anew with the same mount.
#[test]
fn a_document_that_was_fetched_in_another_boot_is_asked_for_anew() {
    let node = node();
    node.write("/proc/cmdline", "ro muster.config=https://h/d quiet\n");
    let asked = fetcher(&node, vec![Ok(COMPLETE)]);
    let disk = Disk::open(&Places::below(node.root())).expect("a disk");
    let fetch = || {
        documents::fetch_pointed(&disk, Judged::Read, &|d| {
            std::thread::sleep(d);
            true
        })
    };
    assert_eq!(fetch(), Ok(true));
    assert_eq!(asked.join().expect("it answered").len(), 1);
    let kept = "/run/muster/document.json";
    // Nobody answers any more, and nobody is asked in this boot.
    assert_eq!(fetch(), Ok(true));
    let mut of_another: serde_json::Value = serde_json::from_str(&node.read(kept)).expect("JSON");
    assert_eq!(of_another["boot"], muster_sys::clock::this_boot().expect("a boot"));
    of_another["boot"] = "3f1c5d52-0d8f-4f0e-9d8e-000000000000.81734".into();
    fs::write(node.at(kept), of_another.to_string()).expect("written");
    assert!(documents::find(&disk, Judged::Read).expect("sound").is_some(), "the bootstrap cannot tell");
    fetch().expect_err("it is asked for");
    assert!(!node.has(kept), "nor is the one of another boot taken where none comes");
    documents::find(&disk, Judged::Read).err().expect("it was not fetched");
}

#[test]
fn a_fault_names_the_key_that_it_was_reached_through() {
    let node = node();
    let source = token_from(&node, "{url: 'https://h/t', waitFor: 1h}");
    let asked = fetcher(&node, vec![Err(Why::Issuer)]);
    let (got, waits, _) = resolved(&node, &source);
    let said = got.expect_err("it is not trusted");
    assert!(said.starts_with("join.tokenFrom: https://h/t: no trust anchor leads"), "{said}");
    assert!(waits.is_empty());
    asked.join().expect("it answered");
    let source = token_from(&node, "{file: /run/secrets/t}");
    let (got, ..) = resolved(&node, &source);
    assert_eq!(got, Err("join.tokenFrom: /run/secrets/t does not exist, after 0 s".to_owned()));
}

#[test]
fn what_is_waited_for_is_what_the_rule_names() {
    let later: Vec<u16> = (100..600).filter(|code| Why::Status { code: *code }.is_not_there_yet()).collect();
    assert_eq!(later, [404, 408, 425, 429, 502, 503, 504]);
    for why in [Why::Name, Why::Refused, Why::Unreachable] {
        assert!(why.is_not_there_yet(), "{why}");
    }
    for why in [
        Why::NoAnchors,
        Why::BadAnchors,
        Why::Issuer,
        Why::Ended,
        Why::NotBegun,
        Why::OtherHost,
        Why::Certificate,
        Why::Tls,
        Why::Cut,
        Why::NotHttp,
        Why::Coded,
        Why::Long,
        Why::Slow,
        Why::Ours,
    ] {
        assert!(!why.is_not_there_yet(), "{why}");
    }
}
