//! Commands.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use muster_ssh::testing::{Setup, Sshd, client};
use muster_ssh::{
    Connection, Exec, ExecFault, Hop, Keepalive, Limits, Output, Retry, Route, Stage, Status, Timing,
    require_sshd_or_skip,
};

use crate::{alone, brisk, resident, when};

async fn up(hop: Hop) -> Connection {
    client().connect(&Route::direct(hop)).await.unwrap()
}

async fn open(sshd: &Sshd) -> Connection {
    up(sshd.hop("host").timing(brisk())).await
}

fn quick() -> Timing {
    Timing { keepalive: Keepalive { interval: Duration::from_millis(700), max: 3 }, ..brisk() }
}

#[tokio::test]
async fn codes_and_signals_and_both_outputs() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    for (command, status) in [
        ("exit 0", Status::Exited(0)),
        ("exit 127", Status::Exited(127)),
        ("exit 255", Status::Exited(255)),
        ("kill -TERM $$", Status::Signaled { name: "TERM".to_owned(), core_dumped: false }),
        ("kill -KILL $$", Status::Signaled { name: "KILL".to_owned(), core_dumped: false }),
    ] {
        let out = connection.exec(command, b"", Limits::default()).await.unwrap();
        assert_eq!(out.status, status, "{command}");
        assert!(out.output_complete);
    }
    let out = connection.exec("echo out; echo err >&2", b"", Limits::default()).await.unwrap();
    assert_eq!((out.stdout.text().as_str(), out.stderr.text().as_str()), ("out\n", "err\n"));
    assert!(connection.is_alive());
    assert_eq!(sshd.log().matches("Accepted publickey").count(), 1, "one connection for all");
}

#[tokio::test]
async fn a_mebibyte_in_comes_out_unchanged() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    let input: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let out = connection.exec("cat", &input, Limits { stdout: 2 << 20, stderr: 0 }).await.unwrap();
    assert_eq!(out.status, Status::Exited(0));
    assert!(out.stdout.bytes == input);
    assert!(!out.stdout.is_cut());
    // A command that does not read its input ends all the same.
    let out = connection.exec("exit 5", &input, Limits::default()).await.unwrap();
    assert_eq!(out.status, Status::Exited(5));
    // Input that nobody reads, and output, at once.
    let command = "head -c 3000000 /dev/zero; cat >/dev/null; echo done >&2";
    let out = connection.exec(command, &input, Limits::default()).await.unwrap();
    assert_eq!((out.stdout.total, out.stderr.text().as_str()), (3_000_000, "done\n"));
}

#[tokio::test]
async fn a_flood_is_bounded_counted_and_does_not_stop_the_command() {
    require_sshd_or_skip!();
    if !alone("exec::a_flood_is_bounded_counted_and_does_not_stop_the_command") {
        return;
    }
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    let before = resident();
    let limits = Limits { stdout: 1000, stderr: 10 };
    let command = "head -c 100000000 /dev/zero; echo 'the very end'; echo 0123456789abc >&2; exit 4";
    let out = connection.run(Exec::new(command).limits(limits)).await.unwrap();
    assert_eq!(out.status, Status::Exited(4));
    assert_eq!((out.stdout.bytes.len(), out.stdout.total), (1000, 100_000_013));
    assert!(out.stdout.is_cut() && out.stdout.last(13) == "the very end\n");
    assert_eq!((out.stderr.bytes.as_slice(), out.stderr.last(4).as_str()), (&b"0123456789"[..], "abc\n"));
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 20, "grew by {grown} bytes");
}

#[tokio::test]
async fn output_is_seen_as_it_comes() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    let mark = sshd.dir().join("seen");
    let mut seen: Vec<(Output, String)> = Vec::new();
    let mut watch = |which, data: &[u8]| {
        seen.push((which, String::from_utf8_lossy(data).into_owned()));
        std::fs::write(&mark, "").unwrap();
    };
    // The second is only said once the first was seen.
    let command = format!("echo one; until [ -e {} ]; do sleep 0.02; done; echo two >&2", mark.display());
    let exec = Exec::new(&command).deadline(Duration::from_secs(60)).watch(&mut watch);
    let out = connection.run(exec.limits(Limits { stdout: 0, stderr: 0 })).await.unwrap();
    assert_eq!(out.stdout.bytes, b"", "the limit is for what is kept, not for what is seen");
    assert_eq!(seen, [(Output::Stdout, "one\n".to_owned()), (Output::Stderr, "two\n".to_owned())]);
}

#[tokio::test]
async fn many_commands_side_by_side_on_one_connection() {
    require_sshd_or_skip!();
    let sshd = Sshd::start_with(Setup { config: vec!["MaxSessions 3".to_owned()], ..Setup::default() });
    let connection = open(&sshd).await;
    let one = async |n: u32| {
        let out = connection.exec(&format!("sleep 1; exit {n}"), b"", Limits::default()).await;
        out.map(|o| o.status)
    };
    let (a, b, c) = tokio::join!(one(1), one(2), one(3));
    assert_eq!(
        (a.unwrap(), b.unwrap(), c.unwrap()),
        (Status::Exited(1), Status::Exited(2), Status::Exited(3))
    );
    // sshd counts a session until it has reaped its command, and we make allowance for that.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let (a, b, c, d) = tokio::join!(one(1), one(2), one(3), one(4));
    let refused: Vec<_> = [a, b, c, d].into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1);
    assert!(matches!(refused[0].why(), ExecFault::ChannelRefused { .. }), "{}", refused[0]);
    assert!(refused[0].to_string().contains("MaxSessions"));
    assert_eq!(refused[0].retry(), Retry::Helps);
    // None of them is left over: there is room for three again and again.
    for _ in 0..10 {
        let (a, b, c) = tokio::join!(one(9), one(9), one(9));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
    }
}

#[tokio::test]
async fn one_command_after_the_other_where_the_host_takes_one_at_a_time() {
    require_sshd_or_skip!();
    let sshd = Sshd::start_with(Setup { config: vec!["MaxSessions 1".to_owned()], ..Setup::default() });
    let connection = open(&sshd).await;
    for n in 0..40 {
        let out = connection.exec(&format!("exit {n}"), b"", Limits::default()).await.unwrap();
        assert_eq!(out.status, Status::Exited(n));
    }
}

#[tokio::test]
async fn a_command_over_its_deadline_is_given_up_with_what_it_said() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    let exec = Exec::new("echo begun; echo problem >&2; cat").deadline(Duration::from_secs(60));
    // Input that is never closed from the command's point of view: it waits for its own child.
    let error = connection.run(exec.stdin(b"")).await;
    assert_eq!(error.unwrap().status, Status::Exited(0), "cat ends with its input");
    let begin = Instant::now();
    let after = Duration::from_secs(2);
    let exec = Exec::new("echo begun; echo problem >&2; sleep 60").deadline(after);
    let error = connection.run(exec).await.unwrap_err();
    assert!((after..after * 10).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    assert_eq!(error.why(), &ExecFault::Deadline { stage: Stage::Exec, after });
    assert!(error.may_have_run() && error.to_string().contains("outcome is unknown"), "{error}");
    assert_eq!(error.retry(), Retry::Useless);
    let (stdout, stderr) = error.partial().unwrap();
    assert_eq!((stdout.bytes.as_slice(), stderr.bytes.as_slice()), (&b"begun\n"[..], &b"problem\n"[..]));
    // The connection goes on.
    assert_eq!(connection.exec("exit 2", b"", Limits::default()).await.unwrap().status, Status::Exited(2));
}

#[tokio::test]
async fn a_cancelled_command_sees_its_channel_close() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    let mark = sshd.dir().join("mark");
    // Ends when it can write no more: what a closed channel means to a command.
    let command =
        format!("trap 'touch {}; exit' PIPE; while :; do echo x || exit; sleep 0.05; done", mark.display());
    let begun = AtomicBool::new(false);
    let mut watch = |_: Output, _: &[u8]| begun.store(true, Ordering::SeqCst);
    tokio::select! {
        out = connection.run(Exec::new(&command).watch(&mut watch)) => panic!("{out:?}"),
        () = when(&begun) => (),
    }
    let until = Instant::now() + Duration::from_secs(30);
    while !mark.exists() {
        assert!(Instant::now() < until, "the command still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(connection.exec("exit 2", b"", Limits::default()).await.unwrap().status, Status::Exited(2));
    // And again when the whole connection goes.
    std::fs::remove_file(&mark).unwrap();
    let begun = AtomicBool::new(false);
    let mut watch = |_: Output, _: &[u8]| begun.store(true, Ordering::SeqCst);
    tokio::select! {
        out = connection.run(Exec::new(&command).watch(&mut watch)) => panic!("{out:?}"),
        () = when(&begun) => (),
    }
    drop(connection);
    let until = Instant::now() + Duration::from_secs(30);
    while !mark.exists() {
        assert!(Instant::now() < until, "the command still runs");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_a_command_leaves_behind_does_not_hold_the_run() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    let begin = Instant::now();
    let exec = Exec::new("sleep 30 & echo started; exit 6").linger(Duration::from_secs(1));
    let out = connection.run(exec).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(25));
    assert_eq!((out.status, out.stdout.bytes.as_slice()), (Status::Exited(6), &b"started\n"[..]));
    assert!(!out.output_complete, "and it says that there may have been more");
}

#[tokio::test]
async fn a_killed_sshd_is_an_unknown_outcome_not_a_failure() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    let begun = AtomicBool::new(false);
    let mut watch = |_: Output, _: &[u8]| begun.store(true, Ordering::SeqCst);
    let kill = async {
        when(&begun).await;
        sshd.signal_sessions("KILL");
    };
    let (out, ()) = tokio::join!(connection.run(Exec::new("echo begun; sleep 60").watch(&mut watch)), kill);
    let out = out.unwrap();
    assert!(matches!(out.status, Status::ConnectionLost { .. }), "{out:?}");
    assert_eq!(out.stdout.bytes, b"begun\n");
    assert!(!out.output_complete && !connection.is_alive());
    let error = connection.exec("true", b"", Limits::default()).await.unwrap_err();
    assert_eq!((error.code(), error.may_have_run()), ("connection-lost", false), "{error}");
}

#[tokio::test]
async fn a_stalled_host_is_noticed_while_reading_and_while_writing() {
    require_sshd_or_skip!();
    // The second goes on after its input, so that a machine on which the stop comes late is not taken
    // for a host that answered.
    let commands = [("echo begun; sleep 60", 0), ("echo begun; cat >/dev/null; sleep 60", 64 << 20)];
    for (command, input) in commands {
        let sshd = Sshd::start();
        let connection = up(sshd.hop("host").timing(quick())).await;
        let input = vec![0; input];
        let begun = AtomicBool::new(false);
        let mut watch = |_: Output, _: &[u8]| begun.store(true, Ordering::SeqCst);
        let stall = async {
            when(&begun).await;
            sshd.signal_sessions("STOP");
            Instant::now()
        };
        let exec = Exec::new(command).stdin(&input).watch(&mut watch);
        let (out, since) = tokio::join!(connection.run(exec), stall);
        let took = since.elapsed();
        sshd.signal_sessions("CONT");
        let Status::ConnectionLost { why, .. } = out.unwrap().status else { panic!("{command}") };
        assert!(why.contains("silent"), "{command}: {why}");
        assert!(took < Duration::from_secs(12), "{command}: {took:?}");
    }
}

#[tokio::test]
async fn keepalives_hold_a_quiet_connection_up() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = up(sshd.hop("host").timing(quick())).await;
    // Far longer than the silence that is allowed.
    let out = connection.exec("sleep 5; exit 9", b"", Limits::default()).await.unwrap();
    assert_eq!(out.status, Status::Exited(9));
    // And a consumer that is slow itself is not taken for a silent host.
    let mut watch = |_: Output, _: &[u8]| std::thread::sleep(Duration::from_millis(150));
    let exec = Exec::new("head -c 300000 /dev/zero; exit 8").watch(&mut watch);
    assert_eq!(connection.run(exec).await.unwrap().status, Status::Exited(8));
}

#[tokio::test]
async fn a_host_that_rekeys_every_mebibyte_changes_nothing() {
    require_sshd_or_skip!();
    for cipher in ["aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes256-ctr"] {
        let config =
            vec!["RekeyLimit 1M".to_owned(), format!("Ciphers {cipher}"), "LogLevel DEBUG1".to_owned()];
        let sshd = Sshd::start_with(Setup { config, ..Setup::default() });
        let connection = open(&sshd).await;
        let input: Vec<u8> = (0..8u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let limits = Limits { stdout: 9 << 20, stderr: 0 };
        let out = connection.run(Exec::new("cat").stdin(&input).limits(limits)).await.unwrap();
        assert_eq!(out.status, Status::Exited(0), "{cipher}");
        assert!(out.stdout.bytes == input, "{cipher}");
        assert!(sshd.log().matches("SSH2_MSG_NEWKEYS received").count() > 4, "{cipher}");
    }
}

#[tokio::test]
async fn fifty_connections_are_small() {
    require_sshd_or_skip!();
    if !alone("exec::fifty_connections_are_small") {
        return;
    }
    let sshd = Sshd::start();
    let client = client();
    let route = Route::direct(sshd.hop("host").timing(brisk()));
    let warm = client.connect(&route).await.unwrap();
    warm.exec("true", b"", Limits::default()).await.unwrap();
    let before = resident();
    let mut held = Vec::new();
    for _ in 0..50 {
        let connection = client.connect(&route).await.unwrap();
        connection.exec("head -c 200000 /dev/zero", b"", Limits { stdout: 1000, stderr: 0 }).await.unwrap();
        held.push(connection);
    }
    let each = resident().saturating_sub(before) / 50;
    eprintln!("{each} bytes a connection");
    assert!(each < 1 << 20, "{each} bytes a connection");
}
