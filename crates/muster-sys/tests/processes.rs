//! Supervision on the real kernel. Each test runs alone in a process of its own, because a
//! subreaper reaps every child that its process has.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]
#![allow(clippy::disallowed_methods, reason = "tests start real processes")]
#![allow(
    unsafe_code,
    reason = "a forked child is the one process with a single thread that the test runner lets us have"
)]

use muster_sys::cgroup::Cgroup;
use muster_sys::child::{self, Child, Exit, Spec, Stream};
use muster_sys::clock::since_boot;
use muster_sys::procfs::{self, Stat};
use muster_sys::signals::EndingSignals;
use muster_sys::tree::{Tree, become_subreaper, end_orphans};
use muster_sys::watch::{Deadline, Event, Gone, ReadFault, Reading, Watch, standard_streams, write_soon};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::CString;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

const ALONE: &str = "MUSTER_TEST_ALONE";
const MARK: &str = "MUSTER_RUN_ID";

/// Runs `body` in a process that has no other thread and no other child: the test program is
/// started again for this test alone, and forks.
fn alone(test: &str, body: fn()) {
    if std::env::var_os(ALONE).is_some() {
        return in_fork(body);
    }
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{test}: {:?}\n{text}", out.status);
    assert!(text.contains("1 passed"), "{text}");
}

fn in_fork(body: fn()) {
    let (r, w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    // SAFETY: the only other thread is the test runner's, which waits for this one and holds no
    // lock; the child ends by _exit and runs nothing of the runner's.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let ok = std::panic::catch_unwind(body).is_ok();
        let said = ok && rustix::io::write(&w, b"k").is_ok();
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!said)) }
    }
    drop(w);
    let mut said = Vec::new();
    std::fs::File::from(r).read_to_end(&mut said).unwrap();
    // With SIGCHLD ignored there is no status to wait for, hence the pipe.
    let _ = rustix::process::waitpid(Pid::from_raw(pid), rustix::process::WaitOptions::empty());
    assert_eq!(said, b"k", "the forked test failed, see above");
}

fn c(s: &str) -> CString {
    CString::new(s).unwrap()
}

fn bash(script: &str, mark: &str) -> Spec {
    Spec {
        program: c("/bin/bash"),
        argv: vec![c("bash"), c("-c"), c(script)],
        env: vec![c("PATH=/usr/bin:/bin"), c(&format!("{MARK}={mark}"))],
        cwd: c("/"),
        umask: 0o077,
        stdin: Stream::Null,
        stdout: Stream::Inherit,
        stderr: Stream::Inherit,
        new_session: true,
        die_with_parent: true,
        pass: None,
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = since_boot() + Duration::from_secs(60);
    while !done() {
        assert!(since_boot() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn start(script: &str, mark: &str) -> (Child, Tree) {
    become_subreaper().unwrap();
    let child = child::spawn(&bash(script, mark), None).unwrap();
    let tree = Tree::new(child.pid());
    (child, tree)
}

fn end(tree: &mut Tree, mark: &str) -> muster_sys::tree::Ended {
    tree.end(None, (MARK, mark), Duration::from_millis(300), Duration::from_secs(20))
}

fn mark(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

#[test]
fn s2_a_child_starts_with_nothing_left_to_chance() {
    alone(
        "s2_a_child_starts_with_nothing_left_to_chance",
        s2_a_child_starts_with_nothing_left_to_chance_body,
    );
}

fn s2_a_child_starts_with_nothing_left_to_chance_body() {
    let leak: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let sealed = muster_sys::memfd::Sealed::new("t", b"echo \"$0 $1\"; pwd; umask; \
        grep -cE 'Sig(Blk|Ign):.0000000000000000' /proc/self/status; env | sort; ps -o sid= -p $$ | tr -d ' '; echo $$; for n in 3 4 5 6 7 8 9 10 249 250 251; do [ -e /proc/$$/fd/$n ] && echo fd $n; done; read x || echo eof").unwrap();
    let (r, w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let mut spec = bash("", "x");
    spec.argv = vec![c("bash"), c("/proc/self/fd/250"), c("arg")];
    spec.pass = Some((sealed.as_fd().try_clone_to_owned().unwrap(), 250));
    spec.env = vec![c("PATH=/usr/bin:/bin"), c("A=b c")];
    spec.stdout = Stream::Fd(w);
    let _block = EndingSignals::catch().unwrap();
    become_subreaper().unwrap();
    let child = child::spawn(&spec, None).unwrap();
    drop(spec);
    let mut text = String::new();
    std::fs::File::from(r).read_to_string(&mut text).unwrap();
    let mut tree = Tree::new(child.pid());
    until("the end", || tree.reap() == muster_sys::tree::Left::Nothing);
    assert_eq!(tree.leader_exit(), Some(Exit::Code(0)), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(&lines[..4], ["/proc/self/fd/250 arg", "/", "0077", "2"], "{text}");
    let pid = child.pid().to_string();
    let rest: Vec<&str> = lines[4..]
        .iter()
        .copied()
        .filter(|l| !l.starts_with("_=") && !l.starts_with("SHLVL") && !l.starts_with("PWD"))
        .collect();
    assert_eq!(rest, ["A=b c", "PATH=/usr/bin:/bin", pid.as_str(), pid.as_str(), "fd 250", "eof"], "{text}");
}

#[test]
fn a_failed_start_names_the_step_and_leaves_no_child() {
    alone(
        "a_failed_start_names_the_step_and_leaves_no_child",
        a_failed_start_names_the_step_and_leaves_no_child_body,
    );
}

fn a_failed_start_names_the_step_and_leaves_no_child_body() {
    let mut spec = bash("true", "x");
    spec.program = c("/nonexistent/bash");
    let e = child::spawn(&spec, None).unwrap_err();
    assert_eq!(e.to_string(), "execute /nonexistent/bash");
    let mut spec = bash("true", "x");
    spec.cwd = c("/nonexistent");
    let e = child::spawn(&spec, None).unwrap_err();
    assert!(e.to_string().contains("folder") && e.is_missing(), "{}", e.line());
    assert!(procfs::descendants(muster_sys::system::pid()).is_empty());
}

#[test]
fn t13_setsid_nohup_double_fork_and_trapped_term_are_ended() {
    alone(
        "t13_setsid_nohup_double_fork_and_trapped_term_are_ended",
        t13_setsid_nohup_double_fork_and_trapped_term_are_ended_body,
    );
}

fn t13_setsid_nohup_double_fork_and_trapped_term_are_ended_body() {
    let name = "t13_setsid_nohup_double_fork_and_trapped_term_are_ended";
    let m = mark(name);
    let (child, mut tree) = start(
        "trap '' TERM HUP INT
         setsid sleep 60 &
         nohup sleep 60 >/dev/null 2>&1 &
         (setsid bash -c 'trap \"\" TERM; (sleep 60 &) ; exec sleep 60' &)
         ( ( ( sleep 60 & ) & ) & )
         kill -STOP $$ & sleep 60",
        &m,
    );
    until("all of them", || {
        procfs::descendants(muster_sys::system::pid()).len() >= 6
            && procfs::with_environment(MARK, &m).len() >= 6
    });
    let ended = end(&mut tree, &m);
    assert!(ended.found >= 6 && ended.survivors == 0, "{ended:?}");
    assert_eq!(tree.leader_exit(), Some(Exit::Signal(9)));
    assert!(procfs::with_environment(MARK, &m).is_empty());
    assert!(Stat::of(child.pid()).is_none());
}

#[test]
fn t13_a_hopper_that_forks_and_exits_is_ended_in_bounded_time() {
    alone(
        "t13_a_hopper_that_forks_and_exits_is_ended_in_bounded_time",
        t13_a_hopper_that_forks_and_exits_is_ended_in_bounded_time_body,
    );
}

fn t13_a_hopper_that_forks_and_exits_is_ended_in_bounded_time_body() {
    let name = "t13_a_hopper_that_forks_and_exits_is_ended_in_bounded_time";
    let m = mark(name);
    // Each one starts the next and leaves at once; four of them in parallel.
    let hop = "hop() { trap '' TERM; (hop) & exit; }; for i in 1 2 3 4; do (hop) & done; sleep 60";
    let (_child, mut tree) = start(hop, &m);
    std::thread::sleep(Duration::from_millis(300));
    let t0 = since_boot();
    let ended = end(&mut tree, &m);
    let took = since_boot() - t0;
    assert_eq!(ended.survivors, 0, "{ended:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(procfs::with_environment(MARK, &m).is_empty());
}

#[test]
fn s7_a_hopper_that_outlives_its_leader_is_a_straggler_at_every_look() {
    alone(
        "s7_a_hopper_that_outlives_its_leader_is_a_straggler_at_every_look",
        s7_a_hopper_that_outlives_its_leader_is_a_straggler_at_every_look_body,
    );
}

fn s7_a_hopper_that_outlives_its_leader_is_a_straggler_at_every_look_body() {
    let m = mark("s7-hopper");
    let (child, mut tree) = start("hop() { (hop) & exit; }; (hop) & exit 0", &m);
    until("the leader to end", || {
        tree.reap();
        tree.leader_exit().is_some()
    });
    assert_eq!(tree.leader_exit(), Some(Exit::Code(0)), "{child:?}");
    for look in 0..2000 {
        assert!(tree.stragglers(None) > 0, "look {look}");
    }
    assert_eq!(end(&mut tree, &m).survivors, 0);
    assert_eq!(tree.stragglers(None), 0);
}

#[test]
fn a_line_that_nobody_takes_holds_nobody_up() {
    let (r, w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let soon = Duration::from_millis(100);
    write_soon(w.as_fd(), b"one\n", soon).unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&w).unwrap();
    rustix::io::write(&w, &vec![b'x'; size - 4096]).unwrap();
    let t0 = since_boot();
    assert!(write_soon(w.as_fd(), b"two\n", soon).is_err());
    assert!((100..5000).contains(&(since_boot() - t0).as_millis()));
    drop(r);
    assert!(write_soon(w.as_fd(), b"three\n", soon).is_err());
}

#[test]
fn a_script_that_heeds_term_may_tidy_up() {
    alone("a_script_that_heeds_term_may_tidy_up", a_script_that_heeds_term_may_tidy_up_body);
}

fn a_script_that_heeds_term_may_tidy_up_body() {
    let name = "a_script_that_heeds_term_may_tidy_up";
    let m = mark(name);
    let (child, mut tree) = start("trap 'exit 5' TERM; while :; do sleep 0.02; done", &m);
    // Bit n-1 is signal n: TERM is 15.
    let catches = || {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.pid())).ok()?;
        u64::from_str_radix(text.lines().find_map(|l| l.strip_prefix("SigCgt:\t"))?, 16).ok()
    };
    until("the trap", || catches().is_some_and(|s| s & 0x4000 != 0));
    let ended = tree.end(None, (MARK, &m), Duration::from_secs(20), Duration::from_secs(40));
    assert_eq!(ended.survivors, 0);
    assert_eq!(tree.leader_exit(), Some(Exit::Code(5)));
}

#[test]
fn t14_the_group_holds_the_run_and_its_kill_ends_it() {
    muster_needs::require!(muster_needs::root());
    alone(
        "t14_the_group_holds_the_run_and_its_kill_ends_it",
        t14_the_group_holds_the_run_and_its_kill_ends_it_body,
    );
}

fn t14_the_group_holds_the_run_and_its_kill_ends_it_body() {
    let name = "t14_the_group_holds_the_run_and_its_kill_ends_it";
    let m = mark(name);
    let group =
        muster_needs::require!(Cgroup::make(&m).map_err(|e| format!("no v2 group can be made here: {e:?}")));
    become_subreaper().unwrap();
    let child = child::spawn(&bash("(setsid sleep 60 &); sleep 60", &m), Some(&group)).unwrap();
    child.group().unwrap();
    until("both", || group.pids().len() >= 3 || procfs::descendants(muster_sys::system::pid()).len() >= 2);
    assert!(group.pids().contains(&child.pid()));
    assert!(group.remove().is_err(), "a group with processes stays");
    let again = Cgroup::reopen(group.path(), &m).unwrap();
    assert!(Cgroup::reopen(group.path(), "other").is_none());
    let mut tree = Tree::new(child.pid());
    let ended = tree.end(Some(&again), (MARK, &m), Duration::ZERO, Duration::from_secs(10));
    assert_eq!(ended.survivors, 0);
    assert!(group.pids().is_empty());
    group.remove().unwrap();
    assert!(!group.path().exists());
}

#[test]
fn a_group_that_cannot_be_entered_is_said_and_the_run_goes_on() {
    muster_needs::require!(muster_needs::root());
    alone(
        "a_group_that_cannot_be_entered_is_said_and_the_run_goes_on",
        a_group_that_cannot_be_entered_is_said_and_the_run_goes_on_body,
    );
}

fn a_group_that_cannot_be_entered_is_said_and_the_run_goes_on_body() {
    let name = "a_group_that_cannot_be_entered_is_said_and_the_run_goes_on";
    let m = mark(name);
    let group =
        muster_needs::require!(Cgroup::make(&m).map_err(|e| format!("no v2 group can be made here: {e:?}")));
    group.remove().unwrap();
    become_subreaper().unwrap();
    let child = child::spawn(&bash("exit 3", &m), Some(&group)).unwrap();
    assert!(child.group().is_err());
    let mut tree = Tree::new(child.pid());
    until("the end", || tree.reap() == muster_sys::tree::Left::Nothing);
    assert_eq!(tree.leader_exit(), Some(Exit::Code(3)));
}

#[test]
fn m9_a_child_dies_with_its_supervisor_and_orphans_are_found_by_their_mark() {
    alone(
        "m9_a_child_dies_with_its_supervisor_and_orphans_are_found_by_their_mark",
        m9_a_child_dies_with_its_supervisor_and_orphans_are_found_by_their_mark_body,
    );
}

fn m9_a_child_dies_with_its_supervisor_and_orphans_are_found_by_their_mark_body() {
    let name = "m9_a_child_dies_with_its_supervisor_and_orphans_are_found_by_their_mark";
    let m = mark(name);
    let odd = format!("62.{}", std::process::id());
    // SAFETY: this process has one thread.
    let supervisor = Pid::from_raw(unsafe { libc::fork() });
    let Some(supervisor) = supervisor else {
        let script = format!("(setsid sleep 60 &); (setsid bash -c 'env -i sleep {odd}; :' &) ; sleep 60; :");
        let _run = start(&script, &m);
        std::thread::sleep(Duration::from_secs(60));
        return;
    };
    let unmarked = || {
        procfs::pids().into_iter().filter(|p| {
            std::fs::read(format!("/proc/{p}/cmdline"))
                .is_ok_and(|c| c == format!("sleep\0{odd}\0").as_bytes())
        })
    };
    until("the run", || procfs::with_environment(MARK, &m).len() >= 4 && unmarked().count() == 1);
    kill_process(supervisor, Signal::KILL).unwrap();
    rustix::process::waitpid(Some(supervisor), rustix::process::WaitOptions::empty()).unwrap();
    // One bash is an escapee; the run's own dies with its supervisor.
    until("bash to die with it", || {
        let bash = |p: &i32| Stat::of(*p).is_some_and(|s| s.comm == "bash");
        procfs::with_environment(MARK, &m).iter().filter(|p| bash(p)).count() == 1
    });
    assert!(!procfs::with_environment(MARK, &m).is_empty(), "the escapee is still there");
    assert!(end_orphans(None, (MARK, &m), Duration::from_secs(10)));
    assert_eq!(unmarked().count(), 0, "what a marked process started without the mark");
    assert!(procfs::with_environment(MARK, &m).is_empty());
}

fn watch_case(script: &str, deadline: Duration, act: impl FnOnce(&Child, OwnedFd)) -> (Event, Child, Tree) {
    become_subreaper().unwrap();
    let signals = EndingSignals::catch().unwrap();
    let (r, w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let child = child::spawn(&bash(script, "w"), None).unwrap();
    let tree = Tree::new(child.pid());
    let deadline = Deadline::after(deadline).unwrap();
    act(&child, r);
    let streams = [w.as_fd()];
    let watch =
        Watch { child: child.pidfd(), streams: &streams, sshd: None, signals: &signals, deadline: &deadline };
    let e = watch.next(true, None).unwrap();
    (e, child, tree)
}

#[test]
fn t2_watch_tells_the_four_events_apart() {
    alone("t2_watch_tells_the_four_events_apart", t2_watch_tells_the_four_events_apart_body);
}

fn t2_watch_tells_the_four_events_apart_body() {
    let long = Duration::from_secs(60);
    let mut kept = Vec::new();
    let (e, _c, mut t) = watch_case("exit 0", long, |_, r| kept.push(r));
    assert_eq!(e, Event::ChildEnded { gone: None });
    t.reap();
    let (e, _c, mut t) = watch_case("sleep 60", long, |_, r| drop(r));
    assert_eq!(e, Event::PeerGone(Gone::Stream));
    end(&mut t, "w");
    let (e, _c, mut t) = watch_case("sleep 60", Duration::from_millis(50), |_, r| kept.push(r));
    assert_eq!(e, Event::Deadline);
    end(&mut t, "w");
    let (e, _c, mut t) = watch_case("sleep 60", long, |_, r| {
        kept.push(r);
        kill_process(Pid::from_raw(muster_sys::system::pid()).unwrap(), Signal::TERM).unwrap();
    });
    assert_eq!(e, Event::PeerGone(Gone::Signal(15)));
    end(&mut t, "w");
    // Both at once: the child ended, and the peer was gone by then.
    let (e, _c, mut t) = watch_case("exit 1", long, |c, r| {
        until("its end", || Stat::of(c.pid()).is_some_and(|s| s.state == 'Z'));
        drop(r);
    });
    assert_eq!(e, Event::ChildEnded { gone: Some(Gone::Stream) });
    t.reap();
}

#[test]
fn s6_reading_is_bounded_in_bytes_and_time() {
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let (first, whole) = (Duration::from_secs(60), Duration::from_secs(60));
    let (r, w) = pipe();
    rustix::io::write(&w, b"hello").unwrap();
    drop(w);
    let short = Duration::from_millis(150);
    let read = |fd: &OwnedFd, max| Reading::new(fd.as_fd(), max, short, short).finish();
    let mut reading = Reading::new(r.as_fd(), 5, first, whole);
    assert!(reading.is_whole() && reading.is_whole());
    assert_eq!(reading.finish().unwrap(), b"hello");
    let (r, w) = pipe();
    rustix::io::write(&w, b"hello!").unwrap();
    drop(w);
    let mut reading = Reading::new(r.as_fd(), 5, first, whole);
    assert!(reading.is_whole(), "more than is taken is whole enough");
    assert!(matches!(reading.finish(), Err(ReadFault::TooLong)));
    let (r, w) = pipe();
    rustix::io::write(&w, b"hel").unwrap();
    let mut reading = Reading::new(r.as_fd(), 5, first, whole);
    assert!(!reading.is_whole());
    rustix::io::write(&w, b"lo").unwrap();
    drop(w);
    assert_eq!(reading.finish().unwrap(), b"hello");
    let (r, w) = pipe();
    assert!(matches!(read(&r, 5), Err(ReadFault::TooSlow)));
    // A byte now and then does not stretch the time.
    let t0 = since_boot();
    let feeder = std::thread::spawn(move || {
        while rustix::io::write(&w, b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(matches!(read(&r, 4096), Err(ReadFault::TooSlow)));
    assert!(since_boot() - t0 < Duration::from_secs(20));
    drop(r);
    feeder.join().unwrap();
}

#[test]
fn s2_start_forgets_what_the_caller_left() {
    let name = "s2_start_forgets_what_the_caller_left";
    if std::env::var_os(ALONE).is_none() {
        let out = Command::new("/bin/bash")
            .args(["-c", "trap '' TERM CHLD; umask 000; ulimit -Sf 100; ulimit -Sn 300; cd /tmp; exec 7</dev/null; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .envs([(ALONE, "1"), ("TZ", "Asia/Tokyo"), ("LD_AUDIT", ""), ("KEEP", "kept")])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(text.contains("s2-start-done"), "{text}");
        return;
    }
    in_fork(s2_start_body);
}

fn s2_start_body() {
    let status = || std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = || {
        let text = status();
        let word = text.lines().find_map(|l| l.strip_prefix("SigIgn:\t")).unwrap();
        u64::from_str_radix(word, 16).unwrap()
    };
    // Bit n-1 is signal n: TERM 15, CHLD 17, PIPE 13.
    assert!(std::fs::metadata("/proc/self/fd/7").is_ok());
    assert_eq!(ignored() & 0x0001_5000, 0x0001_5000);
    let before = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok();
    let [kept, none] = muster_sys::environment::start(["KEEP", "NONE"]).unwrap();
    assert_eq!((kept.as_deref(), none), (Some("kept".as_ref()), None));
    assert_eq!(std::env::vars_os().count(), 0);
    assert!(std::fs::metadata("/proc/self/fd/7").is_err());
    assert_eq!(ignored(), 0x1000);
    assert_eq!(std::env::current_dir().unwrap(), std::path::Path::new("/"));
    assert!(status().contains("Umask:\t0077"), "{}", status());
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let soft = |name: &str| {
        let line = limits.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        line.split_ascii_whitespace().next().unwrap().to_owned()
    };
    let now = [soft("Max core file size"), soft("Max open files"), soft("Max file size")];
    assert_eq!(now, ["0", "1024", "unlimited"], "{limits}");
    assert!(muster_sys::environment::start(["KEEP"]).is_err(), "only once");
    assert!(before && standard_streams().iter().all(|s| rustix::io::fcntl_getfd(s).is_ok()));
    println!("s2-start-done");
}

#[test]
fn m9_a_process_whose_environment_never_comes_holds_nobody_up() {
    muster_needs::require!(muster_needs::root());
    alone(
        "m9_a_process_whose_environment_never_comes_holds_nobody_up",
        m9_a_process_whose_environment_never_comes_holds_nobody_up_body,
    );
}

fn m9_a_process_whose_environment_never_comes_holds_nobody_up_body() {
    // SAFETY: a bare system call in a process of its own.
    #[allow(unsafe_code, reason = "there is no safe call for it")]
    let r = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
    let t = tempfile::tempdir().unwrap();
    let fifo = t.path().join("never");
    let run = |program: &str, args: &[&str]| {
        let ok = Command::new(program).args(args).status().unwrap().success();
        assert!(ok, "{program} {args:?}");
    };
    run("mount", &["--make-rprivate", "/"]);
    run("mkfifo", &[fifo.to_str().unwrap()]);
    // Root's and somebody else's: a FIFO that nobody writes to stands in the place of their environment.
    let sleeper = |uid: u32, mark: &str| {
        let mut c = Command::new("sleep");
        std::os::unix::process::CommandExt::uid(c.arg("60").env(MARK, mark), uid).spawn().unwrap()
    };
    let mut stalled: Vec<_> = [0, 65_534, 65_534].map(|uid| sleeper(uid, "another")).into();
    for child in &stalled {
        run("mount", &["--bind", fifo.to_str().unwrap(), &format!("/proc/{}/environ", child.id())]);
    }
    let m = mark("m9-stalled");
    let mut marked = [sleeper(0, &m), sleeper(65_534, &m)];
    let began = since_boot();
    until("the marks", || procfs::with_environment(MARK, &m).len() == 2);
    assert!(end_orphans(None, (MARK, &m), Duration::from_secs(20)));
    assert!(since_boot() - began < Duration::from_secs(15), "{:?}", since_boot() - began);
    for child in &mut marked {
        assert_eq!(child.wait().unwrap().code(), None, "killed");
    }
    for child in &mut stalled {
        assert!(child.try_wait().unwrap().is_none(), "what does not answer is left alone");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
