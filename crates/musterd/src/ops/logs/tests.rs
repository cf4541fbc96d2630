use std::sync::Arc;
use std::time::Instant;

use super::*;
use crate::ops::testing::{Client as Watcher, Fake};

/// A journal of a file with one record on a line: what is in it, its last lines, and what is appended.
const JOURNAL: &str = r#"
lines=all follow=
for word; do case $word in --lines=*) lines=${word#--lines=};; --follow) follow=-f;; esac; done
touch "$root/journal"
if [[ $lines == all ]]; then exec tail -n +1 $follow -s 0.02 "$root/journal"; fi
exec tail -n "$lines" "$root/journal""#;

fn record(n: u32) -> String {
    format!(
        r#"{{"__CURSOR":"i={n}","__REALTIME_TIMESTAMP":"1000000000000000","__MONOTONIC_TIMESTAMP":"{n}","_BOOT_ID":"0a","_SYSTEMD_UNIT":"kubelet.service","MESSAGE":"line {n}"}}"#
    )
}

struct Node {
    fake: Fake,
    feeds: Feeds,
    written: u32,
}

impl Node {
    fn new() -> Self {
        let fake = Fake::new();
        fake.program("/usr/bin/journalctl", JOURNAL);
        Self { fake, feeds: Feeds::default(), written: 0 }
    }

    fn write(&mut self, records: u32) {
        use std::io::Write as _;
        let mut file =
            std::fs::File::options().create(true).append(true).open(self.fake.places.at("/journal")).unwrap();
        let mut text = String::new();
        for _ in 0..records {
            self.written += 1;
            text += &record(self.written);
            text.push('\n');
        }
        file.write_all(text.as_bytes()).unwrap();
    }

    fn follow(&self, lines: u32) -> (Watcher, std::thread::JoinHandle<io::Result<()>>) {
        let stream =
            begin(&self.fake.places, &self.feeds, Source::Unit("kubelet.service"), (lines, None), true)
                .unwrap();
        let client = Watcher::default();
        let mut mine = client.clone();
        (client, std::thread::spawn(move || stream.pump(&mut mine, Duration::from_secs(60))))
    }

    fn read(&self, lines: u32) -> Result<String, Fault> {
        let mut client = Watcher::default();
        let stream = begin(&self.fake.places, &self.feeds, Source::All, (lines, None), false)?;
        stream.pump(&mut client, Duration::from_secs(1)).unwrap();
        Ok(client.text())
    }
}

fn numbers(text: &str) -> Vec<u32> {
    let number = |line: &str| {
        let record: Record = serde_json::from_str(line).unwrap();
        record.message.strip_prefix("line ").unwrap().parse().unwrap()
    };
    text.lines().map(number).collect()
}

#[test]
fn the_newest_records_come_oldest_first_and_end() {
    let mut node = Node::new();
    node.write(1000);
    assert_eq!(numbers(&node.read(5).unwrap()), [996, 997, 998, 999, 1000]);
    assert_eq!(numbers(&node.read(10_000).unwrap()).len(), 1000);
    let call = node.fake.called().pop().unwrap();
    assert!(
        call.starts_with("journalctl [--quiet] [--no-pager] [--output=json] [--all] [--output-fields="),
        "{call}"
    );
    for unit in UNITS {
        assert!(call.contains(&format!("[--unit={}]", unit.name)), "no unit means those of the list: {call}");
    }
}

#[test]
fn a_follower_gets_what_was_and_what_comes_each_once_and_in_order() {
    let mut node = Node::new();
    node.write(50);
    let (client, thread) = node.follow(10);
    client.until("line 50\"");
    for _ in 0..20 {
        node.write(5);
    }
    client.until("line 150\"");
    client.leave();
    thread.join().unwrap().unwrap();
    assert_eq!(numbers(&client.text()), (41..=150).collect::<Vec<_>>());
}

#[test]
fn two_hundred_followers_of_one_service_share_one_child() {
    let mut node = Node::new();
    node.write(3);
    let followers: Vec<_> = (0..200).map(|_| node.follow(1)).collect();
    node.write(100);
    for (client, _) in &followers {
        client.until("line 103\"");
    }
    assert_eq!(node.feeds.count(), 1);
    let children = node.fake.called().iter().filter(|c| c.contains("[--follow]")).count();
    assert_eq!(children, 1);
    let mut threads = Vec::new();
    for (client, thread) in followers {
        assert_eq!(numbers(&client.text()), (3..=103).collect::<Vec<_>>());
        client.leave();
        threads.push(thread);
    }
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    assert_eq!(node.feeds.count(), 0);
}

#[test]
fn the_child_ends_with_its_last_follower_and_another_begins_anew() {
    let mut node = Node::new();
    node.fake.program(
        "/usr/bin/journalctl",
        &format!("[[ $* == *--follow* ]] && echo $$ >> $root/pids\n{JOURNAL}"),
    );
    node.write(1);
    let (client, thread) = node.follow(1);
    client.until("line 1\"");
    client.leave();
    thread.join().unwrap().unwrap();
    let pid: i32 = std::fs::read_to_string(node.fake.places.at("/pids")).unwrap().trim().parse().unwrap();
    let start = Instant::now();
    while muster_sys::procfs::Stat::of(pid).is_some_and(|s| s.state != 'Z') {
        assert!(start.elapsed().as_secs() < 20, "the child of nobody lives");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (client, thread) = node.follow(1);
    node.write(1);
    client.until("line 2\"");
    client.leave();
    thread.join().unwrap().unwrap();
}

#[test]
fn a_follower_reads_this_machine_whatever_boot_the_kernel_shows() {
    let node = Node::new();
    let id = "0123456789abcdef0123456789abcdef";
    node.fake.file("/etc/machine-id", &format!("{id}\n"));
    let (client, thread) = node.follow(1);
    client.leave();
    thread.join().unwrap().unwrap();
    let calls = node.fake.called();
    let follow = calls.iter().find(|c| c.contains("[--follow]")).unwrap();
    assert!(follow.ends_with(&format!("[--merge] [_MACHINE_ID={id}]")), "{follow}");
    node.fake.file("/etc/machine-id", "--file=/etc/shadow\n");
    let (client, thread) = node.follow(1);
    client.leave();
    thread.join().unwrap().unwrap();
    assert!(!node.fake.called().iter().any(|c| c.contains("shadow") || c.contains("--merge")));
}

/// A client that takes nothing until it is let.
struct Slow(Watcher, Arc<std::sync::Barrier>, bool);

impl io::Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !std::mem::replace(&mut self.2, true) {
            self.1.wait();
            self.1.wait();
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Client for Slow {
    fn gone(&self) -> bool {
        self.0.gone()
    }
}

#[test]
fn a_client_that_reads_slowly_loses_records_and_is_told_and_holds_nobody() {
    let mut node = Node::new();
    node.write(1);
    let stream =
        begin(&node.fake.places, &node.feeds, Source::Unit("kubelet.service"), (1, None), true).unwrap();
    let (client, barrier) = (Watcher::default(), Arc::new(std::sync::Barrier::new(2)));
    let mut slow = Slow(client.clone(), Arc::clone(&barrier), false);
    let thread = std::thread::spawn(move || stream.pump(&mut slow, Duration::from_secs(60)));
    barrier.wait();
    let (quick, other) = node.follow(1);
    node.write(20_000);
    quick.until("line 20001\"");
    barrier.wait();
    client.until("line 20001\"");
    let text = client.text();
    let lost: u64 = text.lines().filter_map(|l| serde_json::from_str::<Record>(l).unwrap().lost).sum();
    let got = numbers(&text);
    assert!(lost > 5000, "{lost}");
    // One that it had already may be among those that the feed lost.
    assert!((20_001..=20_002).contains(&(got.len() as u64 + lost)), "{} and {lost}", got.len());
    assert!(got.windows(2).all(|w| w[0] < w[1]));
    for (client, thread) in [(client, thread), (quick, other)] {
        client.leave();
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn a_follower_ends_after_its_hour_and_a_quiet_one_not_before() {
    let mut node = Node::new();
    node.write(1);
    let stream = begin(&node.fake.places, &node.feeds, Source::All, (1, None), true).unwrap();
    let start = Instant::now();
    stream.pump(&mut Watcher::default(), Duration::from_millis(700)).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(700));
}

#[test]
fn what_is_wrong_with_a_request_is_said_before_the_first_byte() {
    for name in ["ssh", "kubelet.socket", "--since=0", "*", "", "Kernel"] {
        let fault = Source::find(Some(name)).unwrap_err();
        assert_eq!((fault.kind, fault.reason.as_str()), (muster_api::Kind::Bad, "unknown-unit"), "{name}");
    }
    assert_eq!(Source::find(Some("kernel")).unwrap(), Source::Kernel);
    assert_eq!(Source::find(Some("kubelet")).unwrap(), Source::Unit("kubelet.service"));
    assert_eq!(count(Some(0)).unwrap_err().reason, "lines");
    assert_eq!(
        (count(None).unwrap(), count(Some(7)).unwrap(), count(Some(u32::MAX)).unwrap()),
        (200, 7, 10_000)
    );
    assert_eq!(start(Some(0)).unwrap_err().reason, "since");
    assert!(start(Some(60)).unwrap().is_some_and(|t| t + 60 <= muster_sys::clock::unix_seconds()));
}

#[test]
fn a_journal_that_fails_is_a_failure_and_an_empty_one_is_not() {
    let node = Node::new();
    assert_eq!(node.read(5).unwrap(), "");
    node.fake.program("/usr/bin/journalctl", "echo s3cret >&2; exit 1");
    let fault = node.read(5).unwrap_err();
    assert_eq!(fault.kind, muster_api::Kind::Failed);
    assert!(!format!("{fault:?}").contains("s3cret"));
    let bare = Fake::new();
    assert_eq!(
        begin(&bare.places, &Feeds::default(), Source::All, (1, None), true).err().unwrap().reason,
        "journal"
    );
}

#[test]
fn the_kernels_records_are_of_the_kernel_alone() {
    let node = Node::new();
    let stream = begin(&node.fake.places, &node.feeds, Source::Kernel, (3, Some(1000)), false).unwrap();
    stream.pump(&mut Watcher::default(), Duration::from_secs(1)).unwrap();
    let call = node.fake.called().pop().unwrap();
    assert!(call.ends_with("[--dmesg] [--lines=3] [--since=@1000]") && !call.contains("--unit"), "{call}");
}
