//! How a node comes to an owner, from which document, and that it keeps it.

use super::*;
use muster_core::Machine;
use muster_core::machine::{Hold, Membership};

fn inline(operators: &Operators, more: &str) -> String {
    let pem = operators.pem.replace('\n', "\\n");
    format!("api: {{operatorCA: \"{pem}\"}}\n{more}")
}

#[test]
fn mode_a_pins_at_the_first_start_and_releases_what_is_complete() {
    let (node, operators) = (node(), operators("ops"));
    node.document(&inline(&operators, "role: init\n"));
    let owner = node.open();
    assert_eq!(owner.authority().as_ref(), Some(operators.authority.ca()));
    assert_eq!(owner.ownership().method.as_deref(), Some("configuration"));
    assert_eq!((owner.machine().hold(), node.released()), (Hold::Released, true));
    assert!(!node.read("/dev/console").contains("pairing code"));
    assert_eq!(owner.enroll(b"{}", "10.0.0.9").status, 409);
}

#[test]
fn an_owned_node_tells_its_own_fingerprint_once_a_boot_and_when_it_changes() {
    let (node, operators) = (node(), operators("ops"));
    node.document(&inline(&operators, "role: init\n"));
    let first = node.open().node_fingerprint().to_string();
    let told = |what: &str| node.read("/dev/console").matches(what).count();
    assert_eq!(told(&first), 1);
    assert_eq!(told(&operators.authority.ca().fingerprint().to_string()), 1);
    let owner = node.open();
    assert_eq!(told(&first), 1, "a core that starts again has nothing new to say");
    let second = owner.rekey().expect("a new key").to_string();
    assert_eq!((told(&first), told(&second)), (1, 1));
    fs::remove_file(node.at("/run/muster/told")).expect("as after a boot");
    drop(node.open());
    assert_eq!(told(&second), 2);
}

#[test]
fn mode_a_without_a_role_waits_and_looks_parked() {
    let (node, operators) = (node(), operators("ops"));
    node.document(&inline(&operators, ""));
    let owner = node.open();
    assert_eq!((owner.machine().hold(), node.released()), (Hold::Document, false));
    assert!(node.read("/systemctl.log").contains("muster-parked.target"));
    assert!(owner.status().contains("parked"));
}

#[test]
fn mode_b_takes_the_authority_from_a_file_and_waits_for_it() {
    let (node, operators) = (node(), operators("ops"));
    node.document("api: {operatorCAFrom: {file: /run/late.pem}}\n");
    assert!(node.refused().contains("/run/late.pem does not exist"));
    node.document("api: {operatorCAFrom: {file: /run/late.pem, waitFor: 30s}}\n");
    let (path, pem) = (node.at("/run/late.pem"), operators.pem.clone());
    let later = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        fs::write(path, pem).expect("written");
    });
    let owner = node.open();
    later.join().expect("it wrote");
    assert_eq!(owner.authority().as_ref(), Some(operators.authority.ca()));
    // Told to end, it ends; nobody owns the node then.
    let node = super::node();
    node.document("api: {operatorCAFrom: {file: /run/late.pem, waitFor: 30s}}\n");
    let clock = Arc::new(|| UtcTime::from_unix(NOW));
    let ended = Owner::open_at(&Places::below(node.root()), clock, &|_| false);
    assert!(matches!(ended, Ok(Opened::Ended)) && !node.has("/var/lib/muster/api/operator-ca.pem"));
    // A file that others could have written names no owner.
    let node = super::node();
    node.document("api: {operatorCAFrom: {file: /open.pem}}\n");
    node.write("/open.pem", &operators.pem);
    fs::set_permissions(node.at("/open.pem"), fs::Permissions::from_mode(0o666)).expect("set");
    assert!(node.refused().contains("0666"));
    let node = super::node();
    node.document("api: {operatorCAFrom: {url: 'https://h/ca.pem'}}\n");
    assert!(node.refused().contains("fetch.sock"), "nobody fetches here");
}

#[test]
fn an_owner_is_kept_whatever_the_documents_say_later() {
    let (node, ops, other) = (node(), operators("ops"), operators("another"));
    node.document(&inline(&ops, "role: init\n"));
    drop(node.open());
    for document in
        [MAINTENANCE.to_owned(), inline(&other, ""), "api: {enabled: true, insecure: true}\n".to_owned()]
    {
        node.reboot();
        node.document(&document);
        let owner = node.open();
        assert_eq!(owner.authority().as_ref(), Some(ops.authority.ca()), "{document}");
        assert_eq!(owner.enroll(b"{}", "10.0.0.9").status, 409);
        assert!(!node.has("/run/muster/enrolment.json"));
    }
    // Neither does a document that cannot be read shut the owner out; what it may have demanded is demanded.
    node.document("api: [\n");
    let owner = node.open();
    assert!(owner.proof_required() && owner.document_fault().is_some());
    fs::remove_file(node.at("/etc/muster/config.yaml")).expect("removed");
    assert!(!node.open().proof_required());
}

#[test]
fn an_authority_that_has_ended_pins_nobody_and_does_not_shut_out_its_own() {
    let (node, operators) = (node(), operators("ops"));
    node.document(&inline(&operators, ""));
    node.later(20 * 365 * 86_400);
    assert!(node.refused().contains("ended"));
    let node = super::node();
    node.document(&inline(&operators, ""));
    drop(node.open());
    node.later(20 * 365 * 86_400);
    assert!(node.open().document_fault().is_none(), "the pinned one stays, and the document is read");
}

#[test]
fn the_api_that_nobody_wants_is_78_and_releases_a_node_with_a_role() {
    let node = node();
    assert!(node.not_wanted().contains("no document"));
    assert!(!node.released(), "and there is nothing to build");
    node.document("role: init\n");
    node.not_wanted();
    assert!(node.released());
    assert!(!node.has("/var/lib/muster/api/server.key"), "nothing is minted for a port that is not opened");
}

#[test]
fn a_member_that_nobody_owns_is_not_offered_to_whoever_comes() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    node.write("/var/lib/muster/bootstrapped", "");
    assert!(node.refused().contains("nobody owns it"));
    node.document(&inline(&operators, "role: init\n"));
    let owner = node.open();
    assert_eq!(owner.machine().membership(), Membership::Member);
    assert!(!node.released(), "it is built already");
}

#[test]
fn the_first_source_with_a_document_counts_and_a_broken_one_ends_the_search() {
    let node = node();
    node.write("/usr/share/muster/config.yaml", "api: {enabled: true, listen: '10.0.0.4:1'}\n");
    let listens = || node.open().listen().port();
    assert_eq!(listens(), 1);
    node.write("/opt/c.yaml", "api: {enabled: true, listen: '10.0.0.4:2'}\n");
    node.write("/proc/cmdline", "root=/dev/vda muster.config=/opt/c.yaml\n");
    assert_eq!(listens(), 2);
    // A cloud-config without our block hides nothing.
    node.write("/var/lib/cloud/instance/cloud-config.txt", "#cloud-config\nusers: []\n");
    assert_eq!(listens(), 2);
    node.write(
        "/var/lib/cloud/instance/cloud-config.txt",
        "#cloud-config\nusers: []\nmuster:\n  api: {enabled: true, listen: '10.0.0.4:3'}\n",
    );
    assert_eq!(listens(), 3);
    node.document("");
    assert_eq!(listens(), 3, "an empty file is none");
    node.document("api: {enabled: true, listen: '10.0.0.4:4'}\n");
    assert_eq!(listens(), 4);
    node.document("role: nonsense\nrole2: x\n");
    let why = node.refused();
    assert!(why.contains("config.yaml") && why.contains("role2") && !why.contains('\n'), "{why}");
    fs::remove_file(node.at("/etc/muster/config.yaml")).expect("removed");
    fs::remove_file(node.at("/var/lib/cloud/instance/cloud-config.txt")).expect("removed");
    node.write("/proc/cmdline", "muster.config=/nowhere.yaml\n");
    assert!(node.refused().contains("/nowhere.yaml"));
    node.write("/proc/cmdline", "muster.config=https://h/c.yaml\n");
    assert!(node.refused().contains("fetch.sock"), "nobody fetches here");
}

#[test]
fn s10_a_document_that_others_could_write_describes_nothing() {
    let node = node();
    node.document(MAINTENANCE);
    fs::set_permissions(node.at("/etc/muster/config.yaml"), fs::Permissions::from_mode(0o662)).expect("set");
    assert!(node.refused().contains("0662"));
    fs::set_permissions(node.at("/etc/muster/config.yaml"), fs::Permissions::from_mode(0o600)).expect("set");
    fs::set_permissions(node.at("/etc/muster"), fs::Permissions::from_mode(0o777)).expect("set");
    assert!(node.refused().contains("0777"));
}

#[test]
fn half_a_pair_is_minted_anew_and_the_banner_shows_what_is_served() {
    let node = node();
    node.document(MAINTENANCE);
    let first = node.open().node_fingerprint();
    assert_eq!(node.open().node_fingerprint(), first);
    for half in ["server.crt", "server.key"] {
        fs::remove_file(node.at("/var/lib/muster/api").join(half)).expect("removed");
        let now = node.open().node_fingerprint();
        assert_ne!(now, first, "{half}");
        for place in ["/dev/console", "/run/issue.d/muster.issue"] {
            assert!(node.read(place).contains(&now.to_string()), "{place}");
        }
    }
    let other = super::node();
    other.document(MAINTENANCE);
    let stranger = other.open().node_fingerprint();
    fs::copy(other.at("/var/lib/muster/api/server.crt"), node.at("/var/lib/muster/api/server.crt"))
        .expect("copied");
    assert_ne!(node.open().node_fingerprint(), stranger, "a certificate of another key is served by nobody");
}

#[test]
fn s18_forgetting_gives_the_node_back_as_it_was_described_before() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let served = owner.node_fingerprint();
    claim_with(&owner, &node.code(), body(&operators, Some(COMPLETE)), "10.0.0.9");
    // What was before the first of ours counts, however many came after.
    owner
        .apply_document("role: init\ncluster: {name: lab}\napi: {enabled: true}\n", owner.trusts())
        .unwrap_or_else(|e| panic!("{e}"));
    node.write("/var/lib/muster/bootstrapped", "");
    node.write("/var/lib/muster/node.json", "{}");
    assert_eq!(owner.forget().expect_err("it is in service").reason, "not-resetting");
    node.write("/var/lib/muster/reset.json", "{}");
    assert_eq!(owner.machine().membership(), Membership::Leaving);
    owner.forget().unwrap_or_else(|e| panic!("{e}"));
    owner.forget().unwrap_or_else(|e| panic!("again: {e}"));
    assert_eq!(owner.machine(), Machine::UNCLAIMED);
    assert_eq!(owner.enroll(b"{}", "10.0.0.9").status, 409, "nobody takes it before it has rebooted");
    for gone in [
        "bootstrapped",
        "node.json",
        "api/operator-ca.pem",
        "api/claim.json",
        "api/server.key",
        "api/server.crt",
    ] {
        assert!(!node.at("/var/lib/muster").join(gone).exists(), "{gone}");
    }
    assert_eq!(node.read("/etc/muster/config.yaml"), MAINTENANCE);
    fs::remove_file(node.at("/var/lib/muster/reset.json")).expect("removed");
    node.reboot();
    let again = node.open();
    assert_eq!(again.machine(), Machine::UNCLAIMED);
    assert_ne!(again.node_fingerprint(), served, "a node that was given up is pinned by nobody");
    assert_eq!(claim(&node, &again, &operators).status, 200);
}

/// A reset that ended between the owner and how he came in: the next owner does not inherit that.
#[test]
fn s18_how_an_owner_came_in_who_was_forgotten_goes_at_the_next_start() {
    let node = node();
    node.document(MAINTENANCE);
    drop(node.open());
    node.write(
        "/var/lib/muster/api/claim.json",
        r#"{"method":"open","at":"2027-01-01T00:00:00Z","tainted":true}"#,
    );
    let owner = node.open();
    assert!(!node.has("/var/lib/muster/api/claim.json"));
    assert!(!owner.ownership().tainted && owner.ownership().method.is_none());
}

#[test]
fn a_document_is_applied_until_the_node_is_built() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    assert_eq!(owner.apply_document(COMPLETE, owner.trusts()).expect_err("nobody's").reason, "unclaimed");
    claim(&node, &owner, &operators);
    assert_eq!(
        owner.apply_document("role: what\n", owner.trusts()).expect_err("no document").reason,
        "bad-document"
    );
    assert!(!node.released());
    let waits =
        owner.apply_document("api: {enabled: true}\n", owner.trusts()).unwrap_or_else(|e| panic!("{e}"));
    assert!(waits.api && !waits.released && waits.role.is_none());
    let applied = owner
        .apply_document("role: init\napi: {enabled: true, awaitConfig: true}\n", owner.trusts())
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (applied.role, applied.released, applied.path.as_str()),
        (Some("init"), true, "/etc/muster/config.yaml")
    );
    assert!(node.released());
    node.write("/var/lib/muster/bootstrapped", "");
    assert_eq!(owner.apply_document(COMPLETE, owner.trusts()).expect_err("built").reason, "bootstrapped");
}

#[test]
fn the_console_shows_the_address_once_there_is_one_and_not_over_and_over() {
    let (node, operators) = (node(), operators("ops"));
    node.document("api: {enabled: true, listen: '[::]:7000'}\n");
    let owner = node.open();
    let notices = || node.read("/dev/console").matches("pairing code").count();
    owner.refresh_banner();
    assert!(node.read("/dev/console").contains("muster node claim ADDRESS:7000") && notices() == 1);
    node.write("/proc/net/if_inet6", "fd000000000000000000000000000005 02 40 00 80     eth0\n");
    owner.refresh_banner();
    assert!(node.read("/dev/console").contains("muster node claim [fd00::5]:7000"));
    assert!(node.read("/run/issue.d/muster.issue").contains("muster node claim [\\6]:7000"));
    node.write("/proc/net/fib_trie", "  |-- 10.0.0.5\n     /32 host LOCAL\n");
    owner.refresh_banner();
    owner.refresh_banner();
    assert!(node.read("/dev/console").contains("muster node claim 10.0.0.5:7000") && notices() == 3);
    claim(&node, &owner, &operators);
    fs::remove_file(node.at("/proc/net/fib_trie")).expect("removed");
    owner.refresh_banner();
    assert_eq!((notices(), node.has("/run/issue.d/muster.issue")), (3, false), "an owned node shows none");
}

/// The document of the machine asks for another one in each boot; `/run` may outlive one.
#[test]
fn what_was_said_in_another_boot_is_not_said_in_this_one() {
    use muster_core::machine::Hold;
    let (node, operators) = (node(), operators("ops"));
    let asks = format!("role: init\napi: {{operatorCA: {:?}, awaitConfig: true}}\n", operators.pem);
    node.document(&asks);
    let owner = node.open();
    assert_eq!(owner.machine().hold(), Hold::Document);
    assert!(owner.apply_document(&asks, owner.trusts()).expect("taken").released);
    assert_eq!(node.open().machine().hold(), Hold::Released, "the same boot");
    assert_eq!(node.read("/run/muster/described"), muster_sys::clock::this_boot().expect("a boot"));
    fs::write(node.at("/run/muster/described"), "3f1c5d52-0d8f-4f0e-9d8e-000000000000.81734")
        .expect("written");
    assert_eq!(node.open().machine().hold(), Hold::Document, "another one");
    assert!(!node.has("/run/muster/described"), "nor does the bootstrap find it");
}
