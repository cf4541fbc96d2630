//! The record on real disks: restarts, crashes, rotation, and disks that are full.
#![allow(clippy::disallowed_methods, reason = "a test mounts a small disk")]

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use muster_core::audit::verify;

use super::*;

struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for made in ["var", "var/lib", "var/lib/muster"] {
            fs::create_dir(dir.path().join(made)).unwrap();
        }
        Self { dir }
    }

    fn open(&self) -> Arc<Audit> {
        Arc::new(Audit::open(&Places::below(self.dir.path())).unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("var/lib/muster/audit")
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut all: Vec<_> = fs::read_dir(self.folder()).unwrap().map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    }

    fn text(&self) -> Vec<u8> {
        self.files().iter().flat_map(|f| fs::read(f).unwrap()).collect()
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.text()).unwrap().lines().map(str::to_owned).collect()
    }
}

fn event(name: &str) -> Event {
    Event::new("call").op("health").decision(Decision::Allowed).request(name)
}

fn by(who: u32) -> Event {
    let who =
        Who { name: "x".into(), role: None, serial: String::new(), certificate: format!("SHA256:{who}") };
    event("GET /v1/health").who(who)
}

#[test]
fn m19_the_chain_goes_on_after_a_restart_and_knows_the_heads_it_gave() {
    let bed = Bed::new();
    let mut heads = Vec::new();
    for run in 0..3 {
        let audit = bed.open();
        for n in 0..4 {
            heads.push(audit.first(&event(&format!("{run}.{n}")), Room::Ordinary).unwrap());
        }
        assert_eq!(audit.head(), heads[heads.len() - 1]);
    }
    let report = verify(&bed.text(), None, &heads).unwrap();
    assert_eq!((report.first, report.head, report.torn), (1, heads[11], 0));
    let lines = bed.lines();
    assert!(lines[0].contains("\"event\":\"started\""), "{}", lines[0]);
    assert!(lines[1].contains("\"boot\":\"") && lines[1].contains("\"time\":\"20"), "{}", lines[1]);
}

#[test]
fn m19_what_is_handed_out_is_on_the_disk_and_what_waits_is_not_handed_out() {
    let bed = Bed::new();
    let audit = bed.open();
    let before = audit.head();
    audit.waits(event("waits"));
    assert_eq!(audit.head(), before, "nobody is told of what a power cut would take back");
    assert!(!String::from_utf8(bed.text()).unwrap().contains("waits"));
    let head = audit.first(&event("first"), Room::Ordinary).unwrap();
    assert_eq!(head.seq, before.seq + 2);
    let lines = bed.lines();
    let at = |what: &str| lines.iter().position(|l| l.contains(what)).unwrap();
    assert!(at("waits") < at("first"), "in the order in which they happened");
    audit.waits(event("last"));
    assert_eq!(audit.flush().unwrap().seq, head.seq + 1);
    assert!(verify(&bed.text(), None, &[before, head]).is_ok());
}

#[test]
fn m19_a_torn_tail_is_cut_off_and_a_record_says_so() {
    let bed = Bed::new();
    let head = bed.open().first(&event("whole"), Room::Ordinary).unwrap();
    let file = bed.files().pop().unwrap();
    let mut text = fs::read(&file).unwrap();
    text.extend(b"{\"seq\":3,\"prev\":\"half of a rec");
    fs::write(&file, text).unwrap();
    drop(bed.open());
    let report = verify(&bed.text(), None, &[head]).unwrap();
    assert_eq!(report.torn, 0);
    assert!(bed.lines()[head.seq as usize].contains("\"event\":\"torn-tail\""));
    assert!(bed.lines()[head.seq as usize].contains("\"count\":30"));
}

#[test]
fn m19_a_first_record_that_was_torn_leaves_a_chain_that_begins() {
    let bed = Bed::new();
    drop(bed.open());
    fs::write(bed.files().pop().unwrap(), "{\"seq\":1,\"prev\"").unwrap();
    let audit = bed.open();
    audit.first(&event("x"), Room::Ordinary).unwrap();
    assert_eq!(verify(&bed.text(), None, &[]).unwrap().first, 1);
    assert!(bed.lines()[0].contains("torn-tail"));
}

#[test]
fn m19_a_record_that_was_changed_stays_to_be_seen_and_the_chain_goes_on() {
    let bed = Bed::new();
    let audit = bed.open();
    let heads: Vec<_> =
        (0..4).map(|n| audit.first(&event(&format!("n{n}")), Room::Ordinary).unwrap()).collect();
    drop(audit);
    let file = bed.files().pop().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("n1", "nX")).unwrap();
    let audit = bed.open();
    audit.first(&event("after"), Room::Ordinary).unwrap();
    assert!(verify(&bed.text(), None, &[]).is_err(), "nothing heals what somebody changed");
    let lines = bed.lines();
    assert_eq!(lines.iter().filter(|l| l.contains("\"event\":\"broken-chain\"")).count(), 1, "{lines:#?}");
    // From the last record on it holds.
    let last = lines.iter().position(|l| l.contains("n3")).unwrap();
    let tail = lines[last..].iter().map(|l| format!("{l}\n")).collect::<String>();
    assert!(verify(tail.as_bytes(), None, &heads[3..]).is_ok());
    // What is no chain at all is put aside, not thrown away.
    drop(audit);
    fs::write(&file, "not a chain\n").unwrap();
    drop(bed.open());
    let names: Vec<_> =
        bed.files().iter().map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["broken-00000000000000000001", "chain-00000000000000000001.jsonl"]);
}

#[test]
fn m19_the_first_record_of_a_file_names_the_last_hash_of_the_one_before() {
    let bed = Bed::new();
    let audit = bed.open();
    audit.disk().files.shorten(2000);
    let heads: Vec<_> =
        (0..30).map(|n| audit.first(&event(&format!("n{n:02}")), Room::Ordinary).unwrap()).collect();
    let files = bed.files();
    assert!(files.len() > 3, "{files:?}");
    let mut after = None;
    for file in &files {
        let report = verify(&fs::read(file).unwrap(), after, &[]).unwrap();
        assert!(file.to_string_lossy().ends_with(&format!("chain-{:020}.jsonl", report.first)));
        after = Some(report.head);
    }
    assert_eq!(after, Some(heads[29]));
    // A reader goes from file to file, from any record on, and no further than it is told.
    for (from, until) in [(0, 31), (1, 31), (7, 20), (30, 31), (31, 31)] {
        let mut cursor = audit.cursor(from).unwrap();
        let mut read = Vec::new();
        while let Some(line) = cursor.next(until).unwrap() {
            read.extend_from_slice(line);
        }
        assert_eq!(cursor.after(), until.max(from));
        let known: Vec<_> = heads.iter().copied().filter(|h| h.seq > from && h.seq <= until).collect();
        let report = verify(&read, None, &known).unwrap();
        assert_eq!((report.first, report.before), (if until > from { from + 1 } else { 0 }, 0));
    }
    // And a restart goes on in the last of them.
    drop(audit);
    let head = bed.open().first(&event("again"), Room::Ordinary).unwrap();
    assert_eq!(verify(&bed.text(), None, &heads).unwrap().head, head);
}

#[test]
fn m19_the_oldest_files_go_when_there_are_too_many() {
    let bed = Bed::new();
    let audit = bed.open();
    audit.disk().files.shorten(300);
    for n in 0..40 {
        audit.first(&event(&format!("n{n:02}")), Room::Ordinary).unwrap();
    }
    assert_eq!(bed.files().len(), 16);
    let report = verify(&bed.text(), None, &[]).unwrap();
    assert_eq!((report.first, report.head), (26, audit.head()));
    assert_eq!(
        audit.cursor(0).unwrap().next(99).unwrap().map(|l| l.starts_with(b"{\"seq\":26,")),
        Some(true)
    );
}

#[test]
fn m19_a_file_that_is_removed_under_the_writer_is_noticed() {
    let bed = Bed::new();
    let audit = bed.open();
    let seen = audit.first(&event("gone"), Room::Ordinary).unwrap();
    fs::remove_file(bed.files().pop().unwrap()).unwrap();
    let head = audit.first(&event("kept"), Room::Ordinary).unwrap();
    let lines = bed.lines();
    assert!(lines[0].contains("broken-chain") && lines[1].contains("kept"), "{lines:#?}");
    let report = verify(&bed.text(), None, &[seen, head]).unwrap();
    assert_eq!((report.first, report.before), (seen.seq + 1, 1), "the gap is plain to whoever saw a head");
    assert!(verify(&bed.text(), Some(seen), &[head]).is_ok());
}

#[test]
fn m19_heads_go_to_the_journal_once_each() {
    let bed = Bed::new();
    fs::create_dir_all(bed.dir.path().join("run/systemd/journal")).unwrap();
    let journal = UnixDatagram::bind(bed.dir.path().join("run/systemd/journal/socket")).unwrap();
    journal.set_nonblocking(true).unwrap();
    let audit = bed.open();
    audit.tell_head();
    let mut buf = [0; 1024];
    let n = journal.recv(&mut buf).unwrap();
    let text = String::from_utf8_lossy(&buf[..n]);
    assert!(text.contains(&format!("MUSTER_AUDIT_HEAD={}\n", audit.head())), "{text}");
    audit.tell_head();
    assert!(journal.recv(&mut buf).is_err(), "nothing new, nothing said");
}

#[test]
fn m19_text_of_strangers_is_cut_and_is_no_line_of_its_own() {
    let bed = Bed::new();
    let audit = bed.open();
    let evil = format!("a\n{{\"seq\":9}}\u{7f}\u{85}\"\\{}", "\u{1f4a3}".repeat(5000));
    let event = event(&evil).reason(&evil).address(&evil).detail(&evil).certificate(&evil);
    audit.first(&event, Room::Ordinary).unwrap();
    assert_eq!(verify(&bed.text(), None, &[]).unwrap().head, audit.head());
    assert_eq!(bed.lines().len(), 2);
    serde_json::from_str::<serde_json::Value>(&bed.lines()[1]).unwrap();
}

#[test]
fn s16_above_ten_a_second_of_one_client_only_their_number_is_kept() {
    let bed = Bed::new();
    let audit = bed.open();
    for _ in 0..500 {
        audit.waits(by(1));
    }
    audit.waits(by(2));
    std::thread::sleep(Duration::from_millis(1100));
    audit.flush().unwrap();
    let lines = bed.lines();
    let count = |what: &str| lines.iter().filter(|l| l.contains(what)).count();
    assert_eq!(count("\"event\":\"call\""), 11, "ten of the one, and the one of the other");
    assert_eq!(count("\"count\":490"), 1, "{lines:#?}");
    assert!(verify(&bed.text(), None, &[]).is_ok());
}

#[test]
fn s16_however_many_clients_what_waits_is_bounded() {
    let mut spool = Spool::default();
    let at = Instant::now();
    for n in 0..200_000_u64 {
        let address = format!("2001:db8:{:x}:{:x}::1", n >> 16, n & 0xffff);
        spool.push(Event::new("handshake").reason("ended").address(&address), UtcTime::from_unix(n), at);
    }
    spool.close(at + Duration::from_secs(60));
    assert!(spool.len() <= 1024);
    let all = spool.waiting("b").concat();
    assert!(all.contains("\"event\":\"uncounted\"") || spool.len() > 256, "what was lost is counted");
    assert_eq!(spool.sum(), 200_000);
}

/// What the disk takes, in the order in which a writer asks for it.
fn taken(spool: &mut Spool, at: Instant) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        spool.close(at);
        let waiting = spool.waiting("b");
        if waiting.is_empty() {
            return all;
        }
        spool.written(waiting.len());
        all.extend(waiting);
    }
}

fn numbers(records: &[String]) -> u64 {
    let count = |r: &String| r.split("\"count\":").nth(1)?.split(',').next()?.parse::<u64>().ok();
    records.iter().map(|r| count(r).unwrap_or(1)).sum()
}

/// The window ends while the disk takes nothing and the ring is full; then the disk takes it, and nobody else comes.
#[test]
fn s16_a_flood_is_counted_to_its_end_when_nothing_follows_it() {
    let mut spool = Spool::default();
    let begun = Instant::now();
    let mut pushed = 0;
    for second in 0..30 {
        for n in 0..2000 {
            spool.push(
                by(second * 100 + n % 300),
                UtcTime::from_unix(7),
                begun + Duration::from_secs(second.into()),
            );
            pushed += 1;
        }
    }
    assert!(spool.len() >= 1024 - 256, "{}", spool.len());
    let after = begun + Duration::from_secs(31);
    let records = taken(&mut spool, after);
    assert!(spool.is_empty(), "what was counted waits for nobody: {} left", spool.sum());
    assert_eq!(numbers(&records), pushed);
    assert!(
        records.iter().all(|r| r.contains("1970-01-01T00:00:07Z")),
        "also of what nothing more is known of"
    );
}

/// The time of day jumps as it likes; windows go on, and each event has the time that it was told.
#[test]
fn s16_a_clock_that_jumps_shortens_no_window_and_makes_none_longer() {
    let mut spool = Spool::default();
    let begun = Instant::now();
    // 1970, 2038, 2106, back again, and before 1970, which reads as 0.
    let days = [0, 2_147_483_648, 4_294_967_296, 1_798_761_600, 0];
    for (second, day) in (0..).zip(days) {
        let at = begun + Duration::from_secs(second);
        let mut records = taken(&mut spool, at);
        for _ in 0..500 {
            spool.push(by(1), UtcTime::from_unix(day), at);
        }
        // In the same second of the monotonic clock there is no more, whatever the other clock does meanwhile.
        for other in days {
            spool.push(by(1), UtcTime::from_unix(other), at + Duration::from_millis(999));
        }
        records.extend(taken(&mut spool, at + Duration::from_millis(999)));
        let one_by_one = records.iter().filter(|r| r.contains("\"event\":\"call\"")).count();
        assert_eq!(one_by_one, 10, "{second}");
        let told = taken(&mut spool, at + Duration::from_millis(1000));
        assert_eq!(told.len(), 1, "the window is over after a second: {told:?}");
        assert!(
            told[0].contains("\"count\":495") && told[0].contains(&UtcTime::from_unix(day).to_string()),
            "{told:?}"
        );
        assert!(spool.is_empty());
    }
}

/// It ends in the middle of a flood: the last word is there, and every number.
#[test]
fn s16_m19_a_core_that_ends_in_a_flood_writes_down_that_it_ends_and_what_it_counted() {
    let bed = Bed::new();
    let audit = bed.open();
    let mut pushed = 0;
    // A second of it for the ring, and one that finds it full.
    for round in 0..8 {
        for n in 0..1000 {
            audit.spool().push(
                by(round * 1000 + n),
                now(),
                Instant::now() + Duration::from_secs(2 * u64::from(round)),
            );
            pushed += 1;
        }
    }
    audit.ends();
    let lines = bed.lines();
    assert!(lines.last().unwrap().contains("\"event\":\"stopped\""), "{:?}", lines.last());
    let ours: Vec<_> =
        lines.iter().filter(|l| !l.contains("\"started\"") && !l.contains("\"stopped\"")).cloned().collect();
    assert_eq!(numbers(&ours), pushed);
    assert!(verify(&bed.text(), None, &[]).is_ok());
}

/// An edge that fell says what it likes, as often as it likes.
#[test]
fn s16_what_the_edge_tells_takes_no_room_from_what_the_core_saw_and_little_of_the_disk() {
    let mut spool = Spool::default();
    let begun = Instant::now();
    let mut written = 0;
    for second in 0..600_u64 {
        let at = begun + Duration::from_secs(second);
        for n in 0..500_u64 {
            let event = Event::new("refused").decision(Decision::Denied).reason(&format!("r{}", n % 20));
            let address = format!("10.{}.{}.1", n % 250, second % 250);
            // Also where the core judged and nobody is known: whose address it is stands on the edge's word.
            let event = event.address(&address);
            let event = if n % 2 == 0 { event.told_by_edge() } else { event };
            spool.push(event, UtcTime::from_unix(0), at);
        }
        spool.push(by(7), UtcTime::from_unix(0), at);
        let waiting = spool.waiting("b");
        assert!(waiting.iter().any(|r| r.contains("SHA256:7")), "{second}: the core's own is pushed out");
        written += waiting.len();
        spool.written(waiting.len());
        while !spool.is_empty_ring() {
            let waiting = spool.waiting("b").len();
            written += waiting;
            spool.written(waiting);
        }
    }
    // One by one sixty a minute, as numbers sixty-four kinds and one line more; and the core's own, one a second.
    assert!(written <= 600 + 10 * (60 + 64 + 1), "{written}");
    spool.settle();
    assert!(spool.sum() > 0 && spool.told_is_empty(), "what is left is told at the end");
}

#[test]
fn s16_one_neighbour_has_one_identity_whatever_his_address() {
    let of = |address: &str| Event::new("handshake").address(address).identity();
    assert_eq!(of("[2001:db8:1:2:3::4]:1234"), of("2001:db8:1:2:ffff::1"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("192.0.2.1:1"), of("192.0.2.1:2"));
    assert_eq!(of("nonsense"), of("other nonsense"));
}

/// A disk of a few MiB at the bed's state folder; unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, what: &[&str]) -> Result<Self, String> {
        muster_needs::root()?;
        let done = Command::new("/usr/bin/mount").args(what).arg(at).output().map_err(|e| e.to_string())?;
        if done.status.success() {
            Ok(Self(at.to_owned()))
        } else {
            Err(format!("cannot mount {what:?}: {}", String::from_utf8_lossy(&done.stderr)))
        }
    }

    fn fill(&self) {
        use std::io::Write as _;
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        for size in [64 * 1024, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        drop(file.sync_all());
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("/usr/bin/umount").arg(&self.0).status();
    }
}

fn a_full_disk(bed: &Bed, disk: &Disk) {
    fs::create_dir_all(bed.dir.path().join("run/systemd/journal")).unwrap();
    let audit = bed.open();
    let before = audit.first(&event("before"), Room::Ordinary).unwrap();
    disk.fill();
    // Refusals and reads go on, and change nothing on the disk.
    for n in 0..3000 {
        audit.waits(by(n));
    }
    // What was taken in a step before is used up first.
    let refused = (0..2000).find(|_| audit.first(&event("a change"), Room::Ordinary).is_err());
    assert!(refused.is_some(), "room that is kept is not for this");
    assert!(audit.first(&event("a change"), Room::Ordinary).is_err(), "what changes the node is refused");
    // What destroys is written down, a thousand times, because room was kept for it.
    let mut heads = vec![before];
    for n in 0..1000 {
        heads.push(audit.first(&event(&format!("reset {n}")), Room::Reserved).unwrap());
    }
    assert!(audit.first(&event("a change"), Room::Ordinary).is_err());
    drop(audit);
    // A crash in the middle of it changes none of that.
    let audit = bed.open();
    heads.push(audit.first(&event("reset after a restart"), Room::Reserved).unwrap());
    disk.empty();
    audit.waits(by(1));
    audit.flush().unwrap();
    heads.push(audit.first(&event("a change"), Room::Ordinary).unwrap());
    assert_eq!(verify(&bed.text(), None, &heads).unwrap().torn, 0);
}

#[test]
fn s16_a_full_disk_keeps_room_for_intents_of_what_destroys_tmpfs() {
    let bed = Bed::new();
    let at = bed.dir.path().join("var/lib/muster");
    let disk = muster_needs::require!(Disk::mount(&at, &["-t", "tmpfs", "-o", "size=6m,mode=0755", "none"]));
    a_full_disk(&bed, &disk);
}

#[test]
fn s16_a_full_disk_keeps_room_for_intents_of_what_destroys_ext4() {
    let bed = Bed::new();
    let at = bed.dir.path().join("var/lib/muster");
    let image = bed.dir.path().join("disk");
    let made = fs::File::create(&image).and_then(|f| f.set_len(16 << 20)).is_ok()
        && Command::new("/usr/sbin/mkfs.ext4")
            .args(["-q", "-F", "-m", "0"])
            .arg(&image)
            .status()
            .is_ok_and(|s| s.success());
    if !made {
        return muster_needs::skip_part("mkfs.ext4 is not here");
    }
    let image = image.to_string_lossy().into_owned();
    match Disk::mount(&at, &["-o", "loop", &image]) {
        Ok(disk) => a_full_disk(&bed, &disk),
        Err(why) => muster_needs::skip_part(&why),
    }
}

#[test]
fn m19_a_disk_that_does_not_answer_holds_up_nobody_for_ever() {
    const LONGEST: Duration = Duration::from_secs(1);
    let bed = Bed::new();
    let mut audit = bed.open();
    let hangs = Arc::clone(&audit.disk().files.hangs);
    // This one has the time that a disk has which is only busy.
    let head = audit.first(&event("before"), Room::Ordinary).unwrap();
    Arc::get_mut(&mut audit).unwrap().hand = Arc::new(Hand::new(LONGEST));
    let hold = hangs.lock().unwrap();
    // Who meets it first, and who comes meanwhile, waits so long.
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..3 {
            let audit = &audit;
            scope.spawn(move || {
                let kept = audit.first(&event(&format!("hangs {n}")), Room::Reserved);
                assert!(matches!(kept, Err(NotKept::Hangs)), "{kept:?}");
            });
        }
    });
    assert!((LONGEST..3 * LONGEST).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    // The thread began a little later than the first of them did.
    let until = Instant::now() + Duration::from_secs(20);
    while !audit.hand.is_given_up() {
        assert!(Instant::now() < until, "it is waited for, for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Who comes later hears it at once; who reads waits for nothing.
    let begun = Instant::now();
    for _ in 0..20 {
        assert!(matches!(audit.first(&event("later"), Room::Reserved), Err(NotKept::Hangs)));
        assert!(matches!(audit.flush(), Err(NotKept::Hangs)));
        audit.waits(event("waits"));
        assert_eq!(audit.head(), head);
        audit.tell_head();
        let mut cursor = audit.cursor(0).unwrap();
        while cursor.next(head.seq).unwrap().is_some() {}
    }
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    drop(hold);
    // It answers again, and so do we. What was in the middle of it is on the disk; what nobody waited for is not.
    let until = Instant::now() + Duration::from_secs(20);
    let mut tries = 0;
    while audit.first(&event(&format!("after {tries}")), Room::Ordinary).is_err() {
        assert!(Instant::now() < until, "it goes on hanging");
        tries += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    let report = verify(&bed.text(), None, &[head, audit.head()]).unwrap();
    assert_eq!(report.head, audit.head());
    let lines = bed.lines();
    let with = |what: &str| lines.iter().filter(|l| l.contains(what)).count();
    assert_eq!(
        (with("\"hangs "), with("\"later\""), with("\"waits\""), with(&format!("\"after {tries}\""))),
        (1, 0, 10, 1),
        "{lines:#?}"
    );
}

#[test]
fn the_thread_that_waits_for_the_disk_leaves_and_comes_again() {
    let bed = Bed::new();
    let audit = bed.open();
    let there = || audit.hand.works();
    for n in 0..2 {
        audit.first(&event(&format!("{n}")), Room::Ordinary).unwrap();
        assert!(there());
        let until = Instant::now() + Duration::from_secs(20);
        while there() {
            assert!(Instant::now() < until, "it stays");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert_eq!(verify(&bed.text(), None, &[]).unwrap().head, audit.head());
}
