//! The life of a run: one at a time, recorded, ended with everything it started.

use crate::world::{
    KPSSH, MUSTER, POLICY, RUN, World, collect, copy_program, one, one_of, probe_two, two, until, until_some,
    wait_for_output, wait_stopped, world,
};
use muster_signing::intent::OnDisconnect;
use muster_sys::procfs;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Processes of this run of the tests that were given this parameter.
fn marked(value: &str) -> usize {
    procfs::with_environment("MUSTER_TAG", value).len()
}

fn tag(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// Far less than any of the scripts here lasts, and more than a busy machine needs. How soon a run ends on a host is measured
/// on nodes.
const SOON: Duration = Duration::from_secs(20);

/// An intent that takes a tag.
fn tagged<'a>(script: &str, tag: &'a str) -> crate::world::Two<'a> {
    two(script).param_line("MUSTER_TAG", "[a-z0-9-]+").param("MUSTER_TAG", tag)
}

fn signal(child: &Child, s: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), s).unwrap();
}

/// What daemonises, ignores TERM, and double-forks.
const ESCAPEES: &str = "trap '' TERM HUP
setsid sleep 61 & nohup sleep 61 >/dev/null 2>&1 &
(setsid bash -c 'trap \"\" TERM; (sleep 61 &); exec sleep 61' &)
( ( ( sleep 61 & ) & ) & )
echo started; sleep 61\n";

const ESCAPEE_COUNT: usize = 6;

fn all_started(tag: &str) {
    until("all of them", || marked(tag) >= ESCAPEE_COUNT);
}

#[test]
fn m9_and_s13_one_run_at_a_time_under_both_names() {
    world(|w| {
        w.provisioned(&format!("envelope-1 = true\n{POLICY}")).drop_in();
        let mut first =
            w.call(MUSTER).start(&two("echo started; until [ -e /run/gate ]; do sleep 0.02; done\n").bytes());
        wait_for_output(&mut first, "started");
        let out = w.shim(KPSSH, &one("echo ran\n", &[]));
        assert_eq!((out.verdict(), out.stdout.as_str()), ((7, "busy"), ""));
        assert!(out.stderr.contains("join since 20"), "{out:?}");
        let probe = w.shim(MUSTER, &probe_two());
        assert!(
            probe.stdout.contains("\"running\":{\"run\":\"") && probe.stdout.contains("\"since\":\"20"),
            "{}",
            probe.stdout
        );
        assert!(
            probe.stdout.contains("\"alive\":true") && probe.stdout.contains("\"verdict\":\"started\""),
            "{}",
            probe.stdout
        );
        fs::write("/run/gate", "").unwrap();
        assert_eq!(collect(first).code, Some(0));
        let probe = w.shim(MUSTER, &probe_two());
        assert!(probe.stdout.contains("\"running\":null"), "{}", probe.stdout);
        assert_eq!(w.shim(KPSSH, &one("echo ran\n", &[])).stdout, "ran\n");
        // The lock is root's alone, so that nobody else can hold it.
        assert_eq!(fs::metadata(format!("{RUN}/lock")).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(RUN).unwrap().mode() & 0o7777, 0o700);
    });
}

#[test]
fn m9_killed_at_each_step_no_second_run_is_beside_the_first() {
    world(|w| {
        w.provisioned(POLICY);
        let steps = muster_shim::steps::Step::ALL;
        for (n, step) in (1u32..).zip(steps) {
            let name = format!("{step:?}");
            let t = tag(&format!("m9-{}", name.to_lowercase()));
            let mut child = w.call_stopping_at(&name).start(&tagged(ESCAPEES, &t).epoch(n).bytes());
            if step >= muster_shim::steps::Step::Ended {
                // It stops after the run; end that run by hand.
                all_started(&t);
                signal(&child, Signal::TERM);
            } else if name == "Started" {
                wait_stopped(&child);
                all_started(&t);
            }
            wait_stopped(&child);
            let floor = w.floor_of("p");
            signal(&child, Signal::KILL);
            child.wait().unwrap();
            let alive_after_kill = marked(&t);
            assert_eq!(alive_after_kill > 0, name == "Started", "{name}: {alive_after_kill}");
            // The next one runs, and finds nobody of the one before.
            let look = "echo \"$MUSTER_TAG\"\n";
            let out = w.shim(MUSTER, &tagged(look, "next").epoch(n).bytes());
            assert_eq!((out.code, out.stdout.as_str()), (Some(0), "next\n"), "{name}: {out:?}");
            assert_eq!(marked(&t), 0, "{name}");
            assert_eq!(w.run_record(), None, "{name}");
            let raised = step >= muster_shim::steps::Step::FloorRaised;
            assert_eq!(floor == Some(n), raised, "{name}: {floor:?}");
            let events = w.events();
            let starts = events.iter().filter(|e| *e == "start").count();
            let ends = events.iter().filter(|e| e.starts_with("end:")).count();
            let interrupted = events.iter().any(|e| e == "end:interrupted");
            let recorded = step >= muster_shim::steps::Step::RunRecorded
                && step < muster_shim::steps::Step::RunForgotten;
            assert_eq!(interrupted, recorded, "{name}: {events:?}");
            assert!(ends >= starts, "{name}: every start has an end: {events:?}");
        }
    });
}

#[test]
fn m9_a_lock_file_that_was_removed_lets_nobody_in() {
    world(|w| {
        w.provisioned(POLICY);
        let mut first = w.call(MUSTER).start(&two("echo started; sleep 61\n").bytes());
        wait_for_output(&mut first, "started");
        fs::remove_file(format!("{RUN}/lock")).unwrap();
        let out = w.shim(MUSTER, &two("echo ran\n").bytes());
        assert_eq!((out.verdict(), out.stdout.as_str()), ((7, "busy"), ""));
        signal(&first, Signal::TERM);
        assert_eq!(collect(first).code, Some(12));
    });
}

#[test]
fn m10_a_reader_that_goes_away_ends_the_run() {
    world(|w| {
        w.provisioned(POLICY);
        let t = tag("m10-stream");
        let mut child = w.call(MUSTER).start(&tagged(ESCAPEES, &t).bytes());
        wait_for_output(&mut child, "started");
        all_started(&t);
        let t0 = Instant::now();
        drop(child.stdout.take());
        let out = collect(child);
        assert_eq!(out.verdict(), (12, "peer-gone"), "{out:?}");
        assert!(t0.elapsed() < SOON, "{:?}", t0.elapsed());
        assert_eq!(marked(&t), 0);
        assert_eq!(w.events(), ["start", "end:peer-gone"]);
    });
}

/// A root-owned program called sshd, with something between it and the shim that keeps the pipes
/// open, as sudo does when it logs what passes.
fn behind_sshd(w: &World, input: &[u8]) -> (Child, i32) {
    copy_program("/bin/bash", "/mnt/sshd");
    fs::write("/mnt/input", input).unwrap();
    let between = format!(
        "echo between $$; cat /mnt/input | (exec -a muster-shim {}) 2>&1; echo code $?",
        env!("CARGO_BIN_EXE_muster-shim")
    );
    let _ = w;
    let mut sshd = Command::new("/mnt/sshd")
        .args(["-c", &format!("bash -c '{between}' & wait")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_output(&mut sshd, "started");
    let pid = i32::try_from(sshd.id()).unwrap();
    (sshd, pid)
}

#[test]
fn m10_the_end_of_sshd_ends_the_run_though_the_streams_stay_open() {
    world(|w| {
        w.provisioned(POLICY);
        let t = tag("m10-sshd");
        let (mut sshd, _) = behind_sshd(w, &tagged(ESCAPEES, &t).bytes());
        all_started(&t);
        let t0 = Instant::now();
        sshd.kill().unwrap();
        sshd.wait().unwrap();
        until("the run to be gone", || marked(&t) == 0);
        assert!(t0.elapsed() < SOON, "{:?}", t0.elapsed());
        let mut rest = String::new();
        sshd.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(rest.contains("code 12") && rest.contains("sshd process"), "{rest}");
    });
}

#[test]
fn m11_a_peer_that_does_not_answer_for_15_seconds_is_gone() {
    world(|w| {
        w.provisioned(POLICY);
        // SAFETY: a bare system call that moves this thread, and what it starts, to a network of its own.
        #[allow(unsafe_code, reason = "there is no safe call for it")]
        let r = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(r, 0);
        let sh = |line: &str| {
            assert!(Command::new("sh").args(["-ec", line]).status().unwrap().success(), "{line}")
        };
        sh("ip netns add peer; ip link add v0 type veth peer name v1; ip link set v1 netns peer
            ip addr add 192.0.2.1/24 dev v0; ip link set v0 up
            ip -n peer addr add 192.0.2.2/24 dev v1; ip -n peer link set v1 up");
        let server = TcpListener::bind("192.0.2.1:0").unwrap();
        let local = server.local_addr().unwrap();
        let dial = format!("exec 3<>/dev/tcp/192.0.2.1/{}; exec sleep 60", local.port());
        let mut client =
            Command::new("ip").args(["netns", "exec", "peer", "bash", "-c", &dial]).spawn().unwrap();
        let (mut accepted, peer) = server.accept().unwrap();
        let connection = format!("{} {} {} {}", peer.ip(), peer.port(), local.ip(), local.port());
        let mut child =
            w.call(MUSTER).env("SSH_CONNECTION", &connection).start(&two("echo started; sleep 50\n").bytes());
        wait_for_output(&mut child, "started");
        accepted.write_all(b"answered").unwrap();
        std::thread::sleep(Duration::from_millis(200));
        // Nothing leaves the peer any more, answers neither.
        sh("tc -n peer qdisc add dev v1 root pfifo limit 0");
        let t0 = Instant::now();
        accepted.write_all(b"into the void").unwrap();
        let out = collect(child);
        assert_eq!(out.verdict(), (12, "peer-gone"), "{out:?}");
        assert!(out.stderr.contains("no answer"), "{out:?}");
        assert!((14..40).contains(&t0.elapsed().as_secs()), "{:?}", t0.elapsed());
        client.kill().unwrap();
        client.wait().unwrap();
    });
}

#[test]
fn m12_a_run_that_may_finish_outlives_its_peer_and_keeps_its_lock() {
    world(|w| {
        w.provisioned(POLICY);
        let script = "echo started; until [ -e /run/gate ]; do sleep 0.02; done; echo done > /run/finished\n";
        let finish = |d: &mut muster_signing::intent::Draft| d.on_disconnect = OnDisconnect::Finish;
        let mut child = w.call(MUSTER).start(&two(script).with(finish).bytes());
        wait_for_output(&mut child, "started");
        drop((child.stdout.take(), child.stderr.take()));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(w.shim(MUSTER, &two("echo ran\n").bytes()).verdict(), (7, "busy"));
        fs::write("/run/gate", "").unwrap();
        assert_eq!(collect(child).code, Some(0));
        assert_eq!(fs::read_to_string("/run/finished").unwrap(), "done\n");
        // It keeps its deadline, and a signal ends it all the same.
        let mut child = w
            .call(MUSTER)
            .start(&two("echo started; sleep 61\n").with(finish).with(|d| d.deadline = 3).bytes());
        wait_for_output(&mut child, "started");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(collect(child).code, Some(11));
        let mut child = w.call(MUSTER).start(&two("echo started; sleep 61\n").with(finish).bytes());
        wait_for_output(&mut child, "started");
        signal(&child, Signal::HUP);
        assert_eq!(collect(child).verdict(), (12, "peer-gone"));
    });
}

#[test]
fn m12_a_run_that_may_finish_may_print_after_its_peer_is_gone() {
    world(|w| {
        w.provisioned(POLICY);
        let script =
            "echo started; for n in 1 2 3 4 5 6 7 8; do sleep 0.1; echo $n || exit 9; echo $n >&2; done
            echo done > /run/finished\n";
        let finish = |d: &mut muster_signing::intent::Draft| d.on_disconnect = OnDisconnect::Finish;
        let mut child = w.call(MUSTER).start(&two(script).with(finish).bytes());
        wait_for_output(&mut child, "started");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(collect(child).code, Some(0));
        assert_eq!(fs::read_to_string("/run/finished").unwrap(), "done\n");
        // More than a pipe holds: it is emptied once nobody has taken anything for 15 s.
        let script = "echo started; sleep 0.5; head -c 300000 /dev/zero && echo done > /run/emptied\n";
        let mut child = w.call(MUSTER).start(&two(script).with(finish).bytes());
        wait_for_output(&mut child, "started");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(collect(child).code, Some(0));
        assert_eq!(fs::read_to_string("/run/emptied").unwrap(), "done\n");
    });
}

#[test]
fn m12_envelope_1_ends_on_disconnect_unless_the_policy_says_finish() {
    world(|w| {
        w.drop_in();
        let script = "echo started; until [ -e /run/gate ]; do sleep 0.02; done; echo done > /run/finished\n";
        let go = || {
            let mut child = w.call(KPSSH).start(&one_of("leave", script, &[]));
            wait_for_output(&mut child, "started");
            drop(child.stdout.take());
            child
        };
        assert_eq!(collect(go()).code, Some(12));
        assert!(fs::metadata("/run/finished").is_err());
        w.put(
            "/etc/muster/shim.toml",
            "envelope-1 = true\nrevoked-signers = \"optional\"\n[envelope1]\non-disconnect = \"finish\"\n",
            0o644,
        );
        let child = go();
        std::thread::sleep(Duration::from_millis(500));
        fs::write("/run/gate", "").unwrap();
        assert_eq!(collect(child).code, Some(0));
        assert!(fs::metadata("/run/finished").is_ok());
    });
}

#[test]
fn s5_a_run_is_ended_at_its_deadline() {
    world(|w| {
        w.provisioned(POLICY);
        let t = tag("s5");
        let t0 = Instant::now();
        let out = w.shim(MUSTER, &tagged(ESCAPEES, &t).with(|d| d.deadline = 1).bytes());
        assert_eq!(out.verdict(), (11, "deadline"), "{out:?}");
        assert!((1..20).contains(&t0.elapsed().as_secs()), "{:?}", t0.elapsed());
        assert_eq!(marked(&t), 0);
        assert_eq!(w.events(), ["start", "end:deadline"]);
        w.drop_in();
        w.put(
            "/etc/muster/shim.toml",
            "envelope-1 = true\nrevoked-signers = \"optional\"\n[envelope1]\ndeadline = { join = 1 }\n",
            0o644,
        );
        assert_eq!(w.shim(KPSSH, &one("sleep 61\n", &[])).verdict(), (11, "deadline"));
    });
}

#[test]
fn t13_a_hopper_is_ended_in_bounded_time() {
    world(|w| {
        w.provisioned(POLICY);
        let t = tag("t13");
        let hop = "hop() { trap '' TERM; (hop) & exit; }; for i in 1 2 3; do (hop) & done; echo started; sleep 61\n";
        let mut child = w.call(MUSTER).start(&tagged(hop, &t).bytes());
        wait_for_output(&mut child, "started");
        std::thread::sleep(Duration::from_millis(200));
        let t0 = Instant::now();
        signal(&child, Signal::TERM);
        assert_eq!(collect(child).code, Some(12));
        assert!(t0.elapsed() < SOON, "{:?}", t0.elapsed());
        assert_eq!(marked(&t), 0);
    });
}

#[test]
fn s6_slow_input_is_refused_and_holds_no_lock() {
    world(|w| {
        w.drop_in();
        let mut slow = w.call(KPSSH);
        let t0 = Instant::now();
        let mut child = slow.command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"kpssh-envelope: 1\n").unwrap();
        assert_eq!(w.shim(KPSSH, &one("echo ran\n", &[])).stdout, "ran\n");
        let out = collect(child);
        assert_eq!(out.verdict(), (4, "input-deadline"), "{out:?}");
        assert!((29..60).contains(&t0.elapsed().as_secs()), "{:?}", t0.elapsed());
    });
}

#[test]
fn s7_stragglers_are_ended_on_envelope_2_and_left_on_envelope_1() {
    world(|w| {
        w.provisioned(&format!("envelope-1 = true\n{POLICY}")).drop_in();
        let t = tag("s7");
        let script = "(setsid sleep 61 >/dev/null 2>&1 &); nohup sleep 61 >/dev/null 2>&1 & echo ran\n";
        let out = w.shim(MUSTER, &tagged(script, &t).bytes());
        assert_eq!((out.code, out.stdout.as_str()), (Some(0), "ran\n"));
        assert_eq!(marked(&t), 0);
        let end = w.journal().pop().unwrap();
        assert_eq!((end["MUSTER_VERDICT"].as_str(), end["MUSTER_STRAGGLERS"].as_str()), ("ok", "2"));
        let out = w.shim(KPSSH, &one(&format!("export MUSTER_TAG={t}\n{script}"), &[]));
        assert_eq!(out.stdout, "ran\n");
        let end = w.journal().pop().unwrap();
        assert_eq!((end["MUSTER_VERDICT"].as_str(), end["MUSTER_STRAGGLERS"].as_str()), ("ok", "2"));
        // A process has the tag in its environment once it is no copy of bash any more.
        until("both to be sleep", || marked(&t) == 2);
        let left = procfs::with_environment("MUSTER_TAG", &t);
        // What is left holds neither the lock nor anything else of the next run's.
        assert_eq!(w.shim(KPSSH, &one("echo again\n", &[])).stdout, "again\n");
        for p in left {
            kill_process(Pid::from_raw(p).unwrap(), Signal::KILL).unwrap();
        }
    });
}

#[test]
fn m9_a_shim_below_a_marked_process_ends_neither_it_nor_itself() {
    world(|w| {
        w.provisioned(POLICY);
        let id = format!("{:032x}", std::process::id());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        w.put(
            &format!("{RUN}/run"),
            &format!(
                "muster-run: 1\nrun: {id}\nboot: {}\nshim: 1 1\ngroup: -\nphase: join\nsince: 2026-11-29T00:00:00Z\nenvelope: 2\nprofile: p\nepoch: 1\nintent: -\nscript: -\n",
                boot.trim_end()
            ),
            0o600,
        );
        fs::set_permissions(RUN, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write("/mnt/input", two("echo ran\n").bytes()).unwrap();
        let t = tag("m9-marked");
        let line = "env -u MUSTER_RUN_ID MUSTER_TAG=$TAG-free sleep 61 >/dev/null 2>&1 & free=$!
            MUSTER_TAG=$TAG-left sleep 61 >/dev/null 2>&1 &
            # Until then the first of them is a process with the mark too.
            until grep -q sleep /proc/$free/comm; do :; done
            (exec -a muster-shim \"$0\") < /mnt/input; echo code $?
            kill -0 $free && echo free lives; kill $free";
        let out = Command::new("/bin/bash")
            .args(["-c", line, env!("CARGO_BIN_EXE_muster-shim")])
            .env("MUSTER_RUN_ID", &id)
            .env("TAG", &t)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert_eq!(text, "ran\ncode 0\nfree lives\n", "{out:?}");
        assert_eq!(marked(&format!("{t}-left")), 0, "what has the mark is ended");
        assert_eq!(w.events(), ["end:interrupted", "start", "end:ok"]);
    });
}

#[test]
fn m9_a_peer_that_reads_nothing_does_not_keep_the_host_busy() {
    world(|w| {
        w.provisioned(POLICY);
        // As much on standard error as a pipe holds, so that there is no room for the shim's line.
        let script = "until [ -e /run/gate ]; do sleep 0.02; done; head -c 65536 /dev/zero >&2; echo started; exit 3\n";
        let mut first = w.call(MUSTER).start(&two(script).bytes());
        let mut line = String::new();
        BufReader::with_capacity(64, first.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        fs::write("/run/gate", "").unwrap();
        wait_for_output(&mut first, "started");
        until("the host to be free", || w.shim(MUSTER, &two("echo ran\n").bytes()).stdout == "ran\n");
        let pid = i32::try_from(first.id()).unwrap();
        until("the shim to end", || procfs::Stat::of(pid).is_none_or(|s| s.state == 'Z'));
        assert_eq!(first.wait().unwrap().code(), Some(10));
        assert_eq!(w.run_record(), None);
        assert!(w.events().contains(&"end:failed".to_owned()));
    });
}

#[test]
fn m12_envelope_1_leaves_nothing_when_peer_and_bash_go_at_once() {
    world(|w| {
        w.drop_in();
        let t = tag("m12-at-once");
        let go = |last: &str| {
            let _ = fs::remove_file("/run/gate");
            let script = format!(
                "export MUSTER_TAG={t}\n(setsid sleep 61 >/dev/null 2>&1 &)\necho started\n\
                 until [ -e /run/gate ]; do sleep 0.02; done\n{last}\n"
            );
            let mut child = w.call(KPSSH).start(&one(&script, &[]));
            wait_for_output(&mut child, "started");
            let shim = i32::try_from(child.id()).unwrap();
            let bash = || procfs::descendants(shim).into_iter().find_map(procfs::Stat::of);
            let bash = until_some("bash", || bash().filter(|s| s.comm == "bash")).pid;
            signal(&child, Signal::STOP);
            wait_stopped(&child);
            drop(child.stdout.take());
            fs::write("/run/gate", "").unwrap();
            until("bash to end", || procfs::Stat::of(bash).is_some_and(|s| s.state == 'Z'));
            signal(&child, Signal::CONT);
            collect(child).code
        };
        assert_eq!(go("exit 3"), Some(12));
        assert_eq!(marked(&t), 0);
        // A script that did all it was to do leaves what it started, as with the bash shim.
        assert_eq!(go("exit 0"), Some(0));
        until("the one that is left", || marked(&t) == 1);
        let left = procfs::with_environment("MUSTER_TAG", &t);
        kill_process(Pid::from_raw(left[0]).unwrap(), Signal::KILL).unwrap();
    });
}

#[test]
fn a_run_that_cannot_be_watched_is_ended_and_recorded_as_what_it_is() {
    world(|w| {
        w.provisioned(POLICY);
        let t = tag("fault");
        let script = "echo started; sleep 61\n";
        let input = tagged(script, &t).with(|d| d.on_disconnect = OnDisconnect::Finish).bytes();
        let mut child = w.call(MUSTER).start(&input);
        wait_for_output(&mut child, "started");
        // poll(2) refuses more descriptors than the limit.
        let limit = |n: &str| {
            let pid = child.id().to_string();
            let ok = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={n}:")]).status();
            assert!(ok.unwrap().success());
        };
        limit("2");
        std::thread::sleep(Duration::from_secs(3));
        limit("1024");
        let out = collect(child);
        assert_eq!(out.verdict(), (1, "internal"), "{out:?}");
        assert!(out.stderr.contains("ended [internal]"), "{out:?}");
        assert_eq!(marked(&t), 0);
        assert_eq!(w.events(), ["start", "end:fault"]);
        assert_eq!(w.run_record(), None);
    });
}
