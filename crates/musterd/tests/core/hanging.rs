//! A disk that does not answer: one that is frozen (fsfreeze(8)) hangs every write and none of the reads, as a bad disk or a lost one of a
//! network does.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_core::Role;
use muster_core::audit::verify;
use musterd::wire::Ask;

use crate::support::{Node, Operators, SOON, document};

/// How long anybody waits for the disk, and the rest of a call beside it.
const BOUND: Duration = Duration::from_secs(10 + 5);
/// For what waits for no disk.
const QUICK: Duration = Duration::from_secs(3);

/// A file system of its own under the node's state.
struct Disk {
    at: PathBuf,
    frozen: bool,
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(args).output().map_err(|e| format!("{program}: {e}"))?;
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() { Ok(()) } else { Err(format!("{program}: {why}")) }
}

impl Disk {
    fn under(node: &Node) -> Result<Self, String> {
        muster_needs::root()?;
        muster_needs::tool("/usr/sbin/mkfs.ext4", "e2fsprogs")?;
        muster_needs::tool("/usr/sbin/fsfreeze", "util-linux")?;
        let (image, at) = (node.path("/disk.img"), node.path("/var/lib/muster"));
        fs::create_dir_all(&at).unwrap();
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        run("/usr/sbin/mkfs.ext4", &["-q", image.to_str().unwrap()])?;
        run("/usr/bin/mount", &["-o", "loop", image.to_str().unwrap(), at.to_str().unwrap()])?;
        Ok(Self { at, frozen: false })
    }

    fn freeze(&mut self, frozen: bool) {
        let way = if frozen { "--freeze" } else { "--unfreeze" };
        run("/usr/sbin/fsfreeze", &[way, self.at.to_str().unwrap()]).unwrap();
        self.frozen = frozen;
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.frozen {
            let _ = run("/usr/sbin/fsfreeze", &["--unfreeze", self.at.to_str().unwrap()]);
        }
        let _ = run("/usr/bin/umount", &["-l", self.at.to_str().unwrap()]);
    }
}

/// What the journal was told until now.
fn all_of(journal: &UnixDatagram) -> String {
    let (mut told, mut datagram) = (String::new(), vec![0; 64 << 10]);
    while let Ok(n) = journal.recv(&mut datagram) {
        told.push_str(&String::from_utf8_lossy(&datagram[..n]));
    }
    told
}

#[test]
fn m19_s16_on_a_disk_that_hangs_reads_go_on_a_reboot_goes_to_the_journal_and_changes_are_refused_in_time() {
    let operators = Operators::new(1);
    let mut node = Node::with_document(&document(&operators, ""));
    let mut disk = muster_needs::require!(Disk::under(&node));
    fs::create_dir_all(node.path("/run/systemd/journal")).unwrap();
    let journal = UnixDatagram::bind(node.path("/run/systemd/journal/socket")).unwrap();
    journal.set_nonblocking(true).unwrap();
    node.go();
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    let reader = edge.open(&operators.proof("bob", Role::Readonly, 3));
    assert_eq!(edge.health(&reader).unwrap().reply.status, 200);
    node.records(&["\"op\":\"health\""]);

    disk.freeze(true);
    let edge = &edge;
    let read = |ask: Ask, request: &str, longest: Duration| {
        let begun = Instant::now();
        let got = edge.call(&reader, ask, request);
        assert_eq!(got.reply.status, 200, "{got:?}");
        assert!(begun.elapsed() < longest, "{request}: {:?}", begun.elapsed());
        got
    };
    let record = Ask::AuditRead { after: None, follow: false };
    std::thread::scope(|scope| {
        // The way out of it, and the first one who meets it.
        let reboot = scope.spawn(|| {
            let begun = Instant::now();
            let got = edge.call(&handle, Ask::Reboot, "POST /v1/lifecycle/reboot");
            assert_eq!(got.reply.status, 202, "{got:?}");
            assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
        });
        let audit = scope.spawn(|| read(record.clone(), "GET /v1/audit", BOUND));
        let begun = Instant::now();
        while !reboot.is_finished() {
            assert!(begun.elapsed() < 2 * BOUND);
            read(Ask::Health, "GET /v1/health", QUICK);
            read(Ask::NodeState, "GET /v1/node", QUICK);
            std::thread::sleep(Duration::from_millis(200));
        }
        reboot.join().unwrap();
        assert!(verify(&audit.join().unwrap().body, None, &[]).unwrap().head.seq > 0);
    });
    let until = Instant::now() + SOON;
    while !node.called().lines().any(|l| l.ends_with(" reboot")) {
        assert!(Instant::now() < until, "{}", node.called());
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = all_of(&journal);
    assert!(told.contains("\"event\":\"intent\"") && told.contains("\"op\":\"reboot\""), "{told}");
    while !node.log().contains("its disk has not answered for 10 seconds") {
        assert!(Instant::now() < until, "nobody is told: {}", node.log());
        std::thread::sleep(Duration::from_millis(50));
    }

    // It is known by now, and nobody waits for it any more.
    for (ask, request, body) in [
        (Ask::ConfigApply, "POST /v1/config", b"{}".as_slice()),
        (Ask::Reset, "POST /v1/lifecycle/reset", b"{\"confirm\":\"x\"}"),
        (Ask::CrlUpload, "PUT /v1/ca/crl", b"x"),
    ] {
        let begun = Instant::now();
        let got = edge.call_with(&handle, ask, request, body, None);
        assert_eq!((got.reply.status, got.reason().as_str()), (500, "audit"), "{got:?}");
        assert!(got.json()["fix"].as_str().unwrap().contains("waits for"), "{got:?}");
        assert!(begun.elapsed() < QUICK, "{request}: {:?}", begun.elapsed());
    }
    read(record.clone(), "GET /v1/audit", QUICK);

    disk.freeze(false);
    let until = Instant::now() + SOON;
    let apply = || edge.call_with(&handle, Ask::ConfigApply, "POST /v1/config", b"{}", None);
    while apply().reason() == "audit" {
        assert!(Instant::now() < until, "it answers again, and nothing is taken");
        std::thread::sleep(Duration::from_millis(200));
    }
    // All of it is in the record then: what was done, and what was not.
    node.records(&["\"op\":\"reboot\"", "\"event\":\"outcome\"", "\"status\":202"]);
    for op in ["config-apply", "reset", "crl-upload"] {
        let op = format!("\"op\":\"{op}\"");
        let records = node.records(&[&op, "\"event\":\"call\"", "\"reason\":\"audit\""]);
        assert!(records.iter().all(|r| r["decision"] == "denied"), "{records:#?}");
        assert!(!node.chain().lines().any(|l| l.contains(&op) && l.contains("\"status\":200")));
    }
    verify(node.chain().as_bytes(), None, &[]).unwrap();
    assert_eq!(node.stop(), Some(0));
}
