//! The record of a node, and what was seen of it.

use super::{Nodes, target};
use muster_client::testing::{Server, reply};
use muster_core::audit::{Chain, Head};
use std::sync::{Arc, Mutex};

/// A chain of so many records: its lines, and its heads.
fn written(n: usize) -> (Vec<String>, Vec<Head>) {
    let mut chain = Chain::after(Head::NONE);
    let (mut lines, mut heads) = (Vec::new(), Vec::new());
    for i in 0..n {
        let members = format!(
            r#""event":"call","time":"2026-11-29T00:00:0{i}Z","op":"health","decision":"allowed","who":{{"name":"alice","role":"admin"}}"#
        );
        let (line, next) = chain.next(&members).unwrap();
        lines.push(String::from_utf8(line).unwrap());
        chain = next;
        heads.push(chain.head());
    }
    (lines, heads)
}

/// A node whose record is what the test says.
fn node(nodes: &Nodes) -> (Server, Arc<Mutex<Vec<String>>>) {
    let record = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&record);
    let server = nodes.node(
        "edge-1",
        Box::new(move |seen| {
            let lines: Vec<String> = kept.lock().unwrap().clone();
            let head = muster_core::audit::verify(lines.concat().as_bytes(), None, &[])
                .map_or(Head::NONE, |r| r.head);
            let header = format!("muster-audit: {head}\r\n");
            if target(seen) == "GET /v1/health" {
                return reply(200, &header, br#"{"status":"ok","role":"muster:admin"}"#);
            }
            let after = target(seen).split("after=").nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
            reply(200, &header, lines.iter().skip(after).cloned().collect::<String>().as_bytes())
        }),
    );
    (server, record)
}

#[test]
fn m19_a_record_that_lacks_what_was_seen_of_it_is_broken() {
    let nodes = Nodes::new();
    let (_server, record) = node(&nodes);
    let (lines, heads) = written(6);
    *record.lock().unwrap() = lines[..4].to_vec();
    let ran = nodes.ran("audit verify edge-1 --since-known", 1);
    assert!(ran.err.contains("nothing was seen of its record before"), "{}", ran.err);
    let ran = nodes.ran("audit verify edge-1", 0);
    assert!(ran.out.contains(&heads[3].to_string()), "{}", ran.out);
    let kept = nodes.p.read(".local/state/muster/audit-heads");
    assert!(kept.ends_with(&format!(" {}\n", heads[3])), "{kept}");
    *record.lock().unwrap() = lines.clone();
    nodes.ran("audit verify edge-1 --since-known", 0);
    // What an answer hands out is kept as well; then the tail is cut off.
    nodes.ran("audit tail edge-1 -n 2", 0);
    *record.lock().unwrap() = lines[..5].to_vec();
    for how in ["", "--since-known"] {
        let ran = nodes.ran(&format!("audit verify edge-1 {how}"), 1);
        assert!(ran.err.contains("error[audit-broken]: edge-1: record 6:"), "{}", ran.err);
        assert!(ran.err.contains("the chain was cut off"), "{}", ran.err);
    }
    // Written anew, with hashes that fit.
    let mut chain = Chain::after(heads[4]);
    let (forged, _) = chain.next("\"event\":\"forged\"").unwrap();
    let mut all = lines[..5].to_vec();
    all.push(String::from_utf8(forged).unwrap());
    *record.lock().unwrap() = all;
    let ran = nodes.ran("audit verify edge-1", 1);
    assert!(ran.err.contains("the chain was written anew"), "{}", ran.err);
    chain = Chain::after(heads[2]);
    let (line, _) = chain.next("\"event\":\"put in\"").unwrap();
    *record.lock().unwrap() = [&lines[..2], &[String::from_utf8(line).unwrap()], &lines[2..]].concat();
    assert_eq!(nodes.run("audit verify edge-1").code, 1);
}

#[test]
fn m19_files_are_verified_offline_with_heads_that_were_handed_out() {
    let nodes = Nodes::new();
    let (lines, heads) = written(5);
    nodes.p.write("chain-1.jsonl", lines[..3].concat());
    nodes.p.write("chain-4.jsonl", format!("{}{{\"seq\":6,", lines[3..].concat()));
    let all = "audit verify --file chain-1.jsonl --file chain-4.jsonl";
    let ran = nodes.ran(&format!("{all} --head {} --head {}", heads[1], heads[4]), 0);
    assert!(ran.out.contains("5 records from 1 hold together"), "{}", ran.out);
    assert!(ran.err.contains("writing was interrupted"), "{}", ran.err);
    let ran = nodes.ran(&format!("{all} --head 9:{}", "0".repeat(64)), 1);
    assert!(ran.err.contains("error[audit-broken]: record 9:"), "{}", ran.err);
    let ran = nodes.ran("audit verify --file chain-4.jsonl --file chain-1.jsonl", 1);
    assert!(ran.err.starts_with("error[audit-broken]: chain-4.jsonl"), "{}", ran.err);
    nodes.p.write("changed", lines.concat().replace("alice", "mallory"));
    let ran = nodes.ran("audit verify --file changed", 1);
    assert!(ran.err.starts_with("error[audit-broken]: changed:2: "), "{}", ran.err);
    nodes.ran("audit verify --file changed --head x", 2);
}

#[test]
fn the_newest_records_are_shown() {
    let nodes = Nodes::new();
    let (_server, record) = node(&nodes);
    let (lines, _) = written(4);
    *record.lock().unwrap() = lines.clone();
    let ran = nodes.ran("audit tail edge-1 -n 2", 0);
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.out);
    assert!(
        ran.out.starts_with("     3 2026-11-29T00:00:02Z call allowed  health  alice admin"),
        "{}",
        ran.out
    );
    let ran = nodes.ran("audit tail edge-1 -n 2 -o json", 0);
    assert_eq!(ran.out, lines[2..].concat());
}
