//! The claim: one guess a run, tries that a crash gives nothing back of, and the fixed order.

use super::super::disk::Disk;
use super::super::hold;
use super::*;
use muster_core::machine::{Hold, Membership};
use muster_core::{Machine, Operation};
use std::os::unix::fs::MetadataExt;

fn state(node: &Node) -> serde_json::Value {
    serde_json::from_str(&node.read("/run/muster/enrolment.json")).expect("JSON")
}

fn tries(node: &Node) -> u64 {
    state(node)["tries"].as_u64().expect("a number")
}

fn reason(answer: &Enrolment) -> String {
    parse(&answer.body)["reason"].as_str().unwrap_or_default().to_owned()
}

/// A second code and pauses would make a test slow: the door's clock is the machine's.
fn after_the_pause(answer: &Enrolment) {
    if answer.status == 401 {
        std::thread::sleep(std::time::Duration::from_millis(1050));
    }
}

#[test]
fn m16_m17_a_claim_with_the_right_code_makes_an_owner() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    assert_eq!(owner.machine(), Machine::UNCLAIMED);
    assert_eq!(owner.serve().authority, None);
    assert_eq!(owner.allows(Operation::Health).expect_err("nobody's").reason, "unclaimed");
    let answer = claim(&node, &owner, &operators);
    assert_eq!((answer.status, answer.claimed), (200, true), "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(parse(&answer.body)["operatorCA"], operators.authority.ca().fingerprint().to_string());
    assert_eq!(owner.authority().as_ref(), Some(operators.authority.ca()));
    assert_eq!((owner.machine().hold(), owner.machine().membership()), (Hold::Document, Membership::None));
    // What showed the code is gone, what says who owns it is there.
    for gone in
        ["/run/muster/enrolment.json", "/run/issue.d/muster.issue", "/var/lib/muster/api/pending.json"]
    {
        assert!(!node.has(gone), "{gone}");
    }
    let record: serde_json::Value =
        serde_json::from_str(&node.read("/var/lib/muster/api/claim.json")).expect("JSON");
    assert_eq!(record["method"], "pairing-code");
    assert!(record.get("tainted").is_none());
    let mode = |p: &str| fs::metadata(node.at(p)).expect("there").mode() & 0o7777;
    assert_eq!(mode("/var/lib/muster/api"), 0o700);
    assert_eq!(mode("/var/lib/muster/api/server.key"), 0o600);
    assert_eq!(mode("/var/lib/muster/api/operator-ca.pem"), 0o644);
    // For good, also for the next start and the next boot.
    assert_eq!(reason(&owner.enroll(b"{}", "10.0.0.9")), "claimed");
    node.reboot();
    let again = node.open();
    assert_eq!(again.node_fingerprint(), owner.node_fingerprint(), "the certificate stays");
    assert_eq!(reason(&again.enroll(b"{}", "10.0.0.9")), "claimed");
    assert_eq!(again.ownership().method.as_deref(), Some("pairing-code"));
}

#[test]
fn m16_one_run_buys_one_guess_and_none_is_bought_by_running_away() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let code = node.code();
    // Aborted runs: nothing was said that depends on the code, nothing is spent.
    for n in 0..40 {
        step_one(&owner, &wrong(&code), &format!("10.0.{n}.1")).map(drop).unwrap_or_else(|a| panic!("{a:?}"));
    }
    assert_eq!(tries(&node), 5);
    // Two runs at a time: the second guess is refused by the pause and not even compared.
    let (first, one) = step_one(&owner, &wrong(&code), "10.1.0.1").unwrap_or_else(|a| panic!("{a:?}"));
    let (second, two) = step_one(&owner, &wrong(&code), "10.1.0.2").unwrap_or_else(|a| panic!("{a:?}"));
    let (certificate, ca) = (owner.serve().certificate, operators.der());
    let claim =
        Claim { node_certificate: &certificate, operator_ca: &ca, document: None, acknowledge: false };
    let send = |operator: Operator, started: &Started| {
        let (confirm, _) = operator.claim(&started.session, &started.share, &claim).expect("a share");
        let request = Request::Confirm { session: started.session, confirm, claim: body(&operators, None) };
        owner.enroll(request.render().as_bytes(), "10.1.0.1")
    };
    let answer = send(first, &one);
    assert_eq!((answer.status, tries(&node)), (401, 4));
    assert_eq!(parse(&answer.body)["triesLeft"], 4);
    assert!(
        parse(&answer.body).get("confirm").is_none(),
        "nothing that depends on the code before it was proven"
    );
    let answer = send(second, &two);
    assert_eq!((answer.status, answer.retry_after, tries(&node)), (429, Some(1), 4));
    // The exchange is used up, whatever it came to.
    let (third, three) = step_one(&owner, &code, "10.1.0.3").unwrap_or_else(|a| panic!("{a:?}"));
    let (confirm, _) = third.claim(&three.session, &three.share, &claim).expect("a share");
    let request =
        Request::Confirm { session: three.session, confirm, claim: body(&operators, None) }.render();
    assert_eq!(owner.enroll(request.as_bytes(), "10.1.0.3").status, 429);
    assert_eq!(reason(&owner.enroll(request.as_bytes(), "10.1.0.3")), "unknown-session");
}

#[test]
fn m16_the_authority_the_document_and_the_flag_are_under_the_proof() {
    let (node, operators, thief) = (node(), operators("ops"), operators("somebody else"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let code = node.code();
    let (operator, started) = step_one(&owner, &code, "10.0.0.9").unwrap_or_else(|a| panic!("{a:?}"));
    let (certificate, ca) = (owner.serve().certificate, operators.der());
    let claim =
        Claim { node_certificate: &certificate, operator_ca: &ca, document: None, acknowledge: false };
    let (confirm, _) = operator.claim(&started.session, &started.share, &claim).expect("a share");
    // The edge swaps the authority after the code was proven.
    let swapped = Request::Confirm { session: started.session, confirm, claim: body(&thief, None) };
    let answer = owner.enroll(swapped.render().as_bytes(), "10.0.0.9");
    assert_eq!((answer.status, reason(&answer).as_str()), (401, "wrong-code"));
    assert_eq!(owner.authority(), None);
}

#[test]
fn m17_five_wrong_codes_shut_the_door_and_a_crash_opens_none() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let mut owner = node.open();
    let code = node.code();
    for left in (0..5).rev() {
        let answer = claim_with(&owner, &wrong(&code), body(&operators, None), "10.0.0.66:9");
        let want = if left == 0 { (409, "locked") } else { (401, "wrong-code") };
        assert_eq!((answer.status, reason(&answer).as_str()), want, "with {left} left");
        assert_eq!(tries(&node), left);
        // The process dies: the next one has a door without memory of a pause, and the same count.
        owner = node.open();
        assert_eq!(node.code().expose(), code.expose(), "one code a boot");
    }
    let answer = claim_with(&owner, &code, body(&operators, None), "10.0.0.9");
    assert_eq!((answer.status, reason(&answer).as_str()), (409, "locked"), "also for who has the right one");
    let begun = step_one(&owner, &code, "10.0.0.9");
    assert!(begun.is_err_and(|a| reason(&a) == "locked"), "and no exchange is begun any more");
    let shown = node.read("/dev/console");
    assert!(shown.contains("10.0.0.66"), "the console names who spent them: {shown}");
    // Root opens it again, or a boot does.
    owner.renew_pairing().unwrap_or_else(|e| panic!("{e}"));
    assert_ne!(node.code().expose(), code.expose());
    assert_eq!(tries(&node), 5);
    assert_eq!(claim(&node, &owner, &operators).status, 200);
}

#[test]
fn m17_a_wrong_code_slows_everybody_down_and_a_right_one_then_works() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let wrong_one = claim_with(&owner, &wrong(&node.code()), body(&operators, None), "10.0.0.66");
    let paused = claim(&node, &owner, &operators);
    assert_eq!((paused.status, paused.retry_after, reason(&paused).as_str()), (429, Some(1), "pause"));
    after_the_pause(&wrong_one);
    assert_eq!(tries(&node), 4, "a refusal by the pause costs nothing");
    assert_eq!(claim(&node, &owner, &operators).status, 200);
}

#[test]
fn m17_a_node_may_be_claimed_only_from_where_its_document_says() {
    let (node, operators) = (node(), operators("ops"));
    node.document("api: {enabled: true, enrolFrom: [10.0.0.0/8]}\n");
    let owner = node.open();
    for (from, status) in [("192.0.2.1:5", 403), ("nonsense", 403), ("[::ffff:192.0.2.1]:5", 403)] {
        assert_eq!(claim_with(&owner, &node.code(), body(&operators, None), from).status, status, "{from}");
    }
    assert_eq!(claim_with(&owner, &node.code(), body(&operators, None), "[::ffff:10.0.0.9]:5").status, 200);
}

#[test]
fn m17_the_code_is_of_one_boot_and_what_is_damaged_is_begun_afresh() {
    let node = node();
    node.document(MAINTENANCE);
    drop(node.open());
    let first = node.code();
    let (sound, mut kept) = (state(&node), state(&node));
    assert_eq!(fs::metadata(node.at("/run/muster/enrolment.json")).expect("there").mode() & 0o7777, 0o600);
    kept["boot"] = "00000000-0000-0000-0000-000000000000".into();
    let damaged = [
        "{",
        "{\"code\":\"K7QM-93XF\"}",
        &kept.to_string(),
        &sound.to_string().replace("\"tries\":5", "\"tries\":6"),
    ];
    for text in damaged {
        fs::write(node.at("/run/muster/enrolment.json"), text).expect("written");
        drop(node.open());
        assert_ne!(node.code().expose(), first.expose(), "{text}");
    }
}

#[test]
fn s18_the_order_and_what_costs_no_try() {
    let (node, operators) = (node(), operators("ops"));
    node.document(COMPLETE);
    let owner = node.open();
    let code = node.code();
    let send = |body: ClaimBody| claim_with(&owner, &code, body, "10.0.0.9");
    let old = {
        let (authority, issued) =
            Authority::make("old", Lifetime { secs: 60 }, UtcTime::from_unix(NOW - 86_400), [1; 16])
                .expect("made");
        Operators { authority, pem: issued.certificate }
    };
    let client = operators.issue("mallory", Role::Admin);
    // Authority before document before what it would build; each confirmed by the node, none of them a try.
    let cases = [
        (body(&old, Some("nonsense: 1\n")), 400, "bad-authority"),
        (ClaimBody { operator_ca: client.certificate, ..body(&operators, None) }, 400, "bad-authority"),
        (body(&operators, Some("nonsense: 1\n")), 400, "bad-document"),
        (body(&operators, Some("")), 400, "bad-document"),
        (body(&operators, None), 409, "would-bootstrap"),
    ];
    for (body, status, want) in cases {
        let answer = send(body);
        assert_eq!((answer.status, reason(&answer).as_str(), answer.claimed), (status, want, false));
        assert!(parse(&answer.body).get("confirm").is_some(), "{want} is confirmed, so nobody can invent it");
        assert_eq!((tries(&node), owner.authority()), (5, None));
        assert!(!node.has("/var/lib/muster/api/operator-ca.pem") && !node.released());
    }
    let why = send(body(&operators, None));
    let why = parse(&why.body)["error"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("init") && why.contains("kubernetes"), "{why}");
    let answer = send(ClaimBody { acknowledge: true, ..body(&operators, None) });
    assert_eq!(answer.status, 200);
    assert!(node.released());
}

#[test]
fn s18_a_failure_after_the_commit_is_a_warning_of_a_claimed_node() {
    let (node, operators) = (node(), operators("ops"));
    node.document(COMPLETE);
    let owner = node.open();
    node.systemctl("echo 'Failed to connect to bus' >&2; exit 1");
    let answer = claim_with(
        &owner,
        &node.code(),
        ClaimBody { acknowledge: true, ..body(&operators, None) },
        "10.0.0.9",
    );
    let told = parse(&answer.body);
    assert_eq!((answer.status, answer.claimed), (200, true));
    let warnings = told["warnings"].to_string();
    assert!(warnings.contains("Failed to connect to bus"), "{warnings}");
    assert!(owner.authority().is_some());
}

#[test]
fn s18_a_claim_with_a_document_puts_it_in_place_and_releases() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    assert!(!node.released());
    let document =
        "role: init\ncluster: {name: edge}\napi: {enabled: true, listen: '10.0.0.1:7000', proof: required}\n";
    let answer = claim_with(&owner, &node.code(), body(&operators, Some(document)), "10.0.0.9");
    assert_eq!(parse(&answer.body)["warnings"], serde_json::json!([]), "{:?}", answer.status);
    assert_eq!(node.read("/etc/muster/config.yaml"), document);
    assert_eq!(fs::metadata(node.at("/etc/muster/config.yaml")).expect("there").mode() & 0o7777, 0o600);
    assert!(node.has("/run/muster/described") && node.released());
    assert_eq!(owner.machine().hold(), Hold::Released);
    assert!(owner.proof_required());
    assert_eq!(owner.listen().to_string(), "10.0.0.1:7000");
    // A document that turns the API off is taken, and said so.
    let (node, document) = (super::node(), "role: init\n");
    node.document(MAINTENANCE);
    let owner = node.open();
    let answer = claim_with(&owner, &node.code(), body(&operators, Some(document)), "10.0.0.9");
    assert!(parse(&answer.body)["warnings"].to_string().contains("API"));
    assert!(node.not_wanted().contains("API"));
}

#[test]
fn n10_an_open_node_asks_no_code_and_says_so_for_ever() {
    let (node, operators) = (node(), operators("ops"));
    node.document("api: {enabled: true, insecure: true}\n");
    let owner = node.open();
    assert!(owner.ownership().open_enrolment);
    let shown = node.read("/dev/console");
    assert!(shown.contains("NO CODE IS ASKED FOR") && !shown.contains("pairing code"), "{shown}");
    assert!(!node.has("/run/muster/enrolment.json"));
    let code = Code::from_random([1; 8]);
    let refused = step_one(&owner, &code, "10.0.0.9").map(drop).expect_err("no code");
    assert_eq!(reason(&refused), "open-enrolment");
    let open = Request::Open { claim: body(&operators, None) }.render();
    let answer = owner.enroll(open.as_bytes(), "10.0.0.9");
    assert_eq!((answer.status, answer.claimed), (200, true));
    assert!(parse(&answer.body).get("confirm").is_none());
    let told = node.open().ownership();
    assert_eq!((told.method.as_deref(), told.tainted, told.open_enrolment), (Some("open"), true, false));
    // The other way round: a node with a code takes nothing without it.
    let node = super::node();
    node.document(MAINTENANCE);
    let answer = node.open().enroll(open.as_bytes(), "10.0.0.9");
    assert_eq!((answer.status, reason(&answer).as_str(), answer.claimed), (401, "code-required", false));
}

#[test]
fn what_is_no_step_of_the_pairing_is_told_apart_and_costs_nothing() {
    let node = node();
    node.document(MAINTENANCE);
    let owner = node.open();
    let long = format!("{{\"step\":1,\"share\":\"{}\"}}", "A".repeat(3 << 20));
    for (body, status, want) in [
        ("{\"code\":\"K7QM-93XF\",\"operatorCA\":\"x\"}", 400, "pairing-protocol"),
        ("", 400, "bad-request"),
        ("{\"step\":3}", 400, "bad-request"),
        (long.as_str(), 413, "body-too-large"),
        ("{\"step\":1,\"share\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}", 400, "pairing-share"),
    ] {
        let answer = owner.enroll(body.as_bytes(), "10.0.0.9");
        assert_eq!((answer.status, reason(&answer).as_str()), (status, want));
        assert!(!String::from_utf8_lossy(&answer.body).contains("K7QM"), "the code is never repeated");
    }
    assert_eq!(tries(&node), 5);
}

#[test]
fn m16_many_at_a_time_get_no_more_guesses_than_one() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let code = wrong(&node.code());
    let begun = std::time::Instant::now();
    let judged: usize = std::thread::scope(|scope| {
        let guess = |n: usize| {
            let (owner, code, operators) = (&owner, &code, &operators);
            scope.spawn(move || {
                let run = |m: usize| {
                    claim_with(owner, code, body(operators, None), &format!("10.{n}.{m}.1")).status
                };
                (0..25).map(run).filter(|s| *s == 401).count()
            })
        };
        let threads: Vec<_> = (0..8).map(guess).collect();
        threads.into_iter().map(|t| t.join().expect("it ran")).sum()
    });
    // Guesses are at 0, 1, 3 and 7 s at the earliest, whoever makes them.
    let most = match begun.elapsed().as_secs() {
        0 => 1,
        1..3 => 2,
        3..7 => 3,
        _ => 4,
    };
    assert!((1..=most).contains(&judged), "{judged} of 200 in {:?}", begun.elapsed());
    assert_eq!(tries(&node), 5 - judged as u64);
}

#[test]
fn s18_a_disk_that_fails_at_any_step_makes_no_half_an_owner() {
    // A folder of the name that a file is written under first: the write fails, and only this one.
    let broken = |node: &Node, file: &str| {
        let (folder, name) = file.rsplit_once('/').expect("a path");
        fs::create_dir_all(node.at(folder).join(format!(".{name}.tmp")).join("x")).expect("made");
    };
    let mended = |node: &Node, file: &str| {
        let (folder, name) = file.rsplit_once('/').expect("a path");
        fs::remove_dir_all(node.at(folder).join(format!(".{name}.tmp"))).expect("removed");
    };
    let operators = operators("ops");
    for (file, claimed) in [
        ("/var/lib/muster/api/pending.json", false),
        ("/var/lib/muster/api/operator-ca.pem", false),
        ("/var/lib/muster/api/config.before.yaml", true),
        ("/etc/muster/config.yaml", true),
        ("/var/lib/muster/api/claim.json", true),
    ] {
        let node = node();
        node.document(MAINTENANCE);
        let owner = node.open();
        broken(&node, file);
        let answer = claim_with(&owner, &node.code(), body(&operators, Some(COMPLETE)), "10.0.0.9");
        assert!(parse(&answer.body).get("confirm").is_some(), "{file}: whatever it came to is confirmed");
        if claimed {
            assert_eq!((answer.status, answer.claimed), (200, true), "{file}");
            assert_ne!(parse(&answer.body)["warnings"], serde_json::json!([]), "{file}");
            assert!(!node.released(), "{file}: by another document than the claim's nothing is built");
            let places = Places::below(node.root());
            let built = crate::bootstrap::build(&places, &muster_cluster::None, UtcTime::from_unix(NOW));
            assert!(built.is_err(), "{file}: {built:?}");
            let refused = owner
                .apply_document("role: init\nnode: {name: other}\napi: {enabled: true}\n", owner.trusts());
            assert_eq!(refused.expect_err("a claim is not complete").reason, "disk", "{file}");
            let other = owner.set_authority(&super::operators("other").pem);
            assert!(other.expect_err("nor is another owner").contains("comes first"), "{file}");
        } else {
            assert_eq!((answer.status, reason(&answer).as_str(), tries(&node)), (500, "disk", 5), "{file}");
            assert!(owner.authority().is_none() && !node.released(), "{file}");
            assert_eq!(node.read("/etc/muster/config.yaml"), MAINTENANCE, "{file}");
        }
        mended(&node, file);
        let again = node.open();
        assert_eq!(again.authority().is_some(), claimed, "{file}");
        if claimed {
            // What was left to do is done by the next start.
            assert_eq!(node.read("/etc/muster/config.yaml"), COMPLETE, "{file}");
            assert_eq!(again.ownership().method.as_deref(), Some("pairing-code"), "{file}");
            assert!(node.released() && !node.has("/var/lib/muster/api/pending.json"), "{file}");
        } else {
            assert_eq!(
                claim_with(&again, &node.code(), body(&operators, Some(COMPLETE)), "10.0.0.9").status,
                200
            );
        }
    }
}

/// An exchange is of one code and of one serving key: with another of either it is nobody's any more, and costs nothing.
#[test]
fn m16_an_exchange_ends_with_the_code_and_with_the_key_that_it_was_begun_with() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let changes: [fn(&Owner); 2] = [
        |owner| owner.renew_pairing().unwrap_or_else(|e| panic!("{e}")),
        |owner| assert!(owner.rekey().is_ok()),
    ];
    for change in changes {
        let (operator, started) =
            step_one(&owner, &node.code(), "10.0.0.9").unwrap_or_else(|a| panic!("{a:?}"));
        let (certificate, ca) = (owner.serve().certificate, operators.der());
        change(&owner);
        let claim =
            Claim { node_certificate: &certificate, operator_ca: &ca, document: None, acknowledge: false };
        let (confirm, _) = operator.claim(&started.session, &started.share, &claim).expect("a share");
        let request =
            Request::Confirm { session: started.session, confirm, claim: body(&operators, None) }.render();
        assert_eq!(reason(&owner.enroll(request.as_bytes(), "10.0.0.9")), "unknown-session");
        assert_eq!((tries(&node), owner.authority()), (5, None));
    }
    assert_eq!(claim(&node, &owner, &operators).status, 200);
}

/// Whoever reads the document to build by it holds the lock, and a claim that would change it waits, and is refused without a change.
#[test]
fn s18_a_claim_waits_for_who_reads_the_document() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let disk = Disk::open(&Places::below(node.root())).expect("a disk");
    let held = hold::lock(&disk).expect("the lock");
    let answer = claim(&node, &owner, &operators);
    assert_eq!((answer.status, reason(&answer).as_str()), (409, "busy"));
    assert_eq!(owner.authority(), None);
    drop(held);
    assert_eq!(claim(&node, &owner, &operators).status, 200, "and no try was spent");
}

#[test]
fn m16_a_count_that_cannot_be_written_compares_nothing() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let file = node.at("/run/muster/.enrolment.json.tmp");
    fs::create_dir_all(file.join("x")).expect("made");
    let answer = claim(&node, &owner, &operators);
    assert_eq!((answer.status, reason(&answer).as_str(), answer.claimed), (500, "disk", false));
    assert!(parse(&answer.body).get("confirm").is_none() && owner.authority().is_none());
    fs::remove_dir_all(file).expect("removed");
    assert_eq!(claim(&node, &owner, &operators).status, 200);
}

/// A node that does not know what time it is, as one without a battery before it has met a time server.
#[test]
fn s18_a_clock_that_is_years_off_at_a_claim_spends_no_try_and_is_mended_by_the_right_time() {
    let years = 20 * 365 * 86400;
    // Ahead: the authority has ended, by this clock. The code is as good as before.
    let ahead = node();
    ahead.document(MAINTENANCE);
    let (owner, operators) = (ahead.open(), operators("ops"));
    let code = ahead.code();
    ahead.later(years);
    let answer = claim(&ahead, &owner, &operators);
    assert_eq!((answer.status, answer.reason.as_str()), (400, "bad-authority"));
    assert!(owner.authority().is_none());
    ahead.earlier(years);
    assert_eq!(ahead.code().expose(), code.expose());
    assert_eq!(claim(&ahead, &owner, &operators).status, 200);

    // Behind: it is owned, and lets its owner in when it knows the time.
    let behind = node();
    behind.document(MAINTENANCE);
    let owner = behind.open();
    behind.earlier(years);
    assert_eq!(claim(&behind, &owner, &operators).status, 200);
    let alice = der_of(&operators.issue("alice", Role::Admin).certificate);
    assert_eq!(owner.judge_certificate(&alice).expect_err("not yet").reason, "not-yet-valid");
    behind.later(years);
    owner.judge_certificate(&alice).unwrap_or_else(|e| panic!("{e}"));
}
