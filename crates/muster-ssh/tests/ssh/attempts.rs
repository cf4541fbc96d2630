//! The doctor's attacks, against an sshd that lets everything pass and one that is pinned.

use muster_ssh::testing::{ClosedPort, Setup, Sshd, client};
use muster_ssh::{Attempt, AttemptOutcome, Connection, Route, Status, require_sshd_or_skip};

use crate::brisk;

async fn open(sshd: &Sshd) -> Connection {
    client().connect(&Route::direct(sshd.hop("host").timing(brisk()))).await.unwrap()
}

fn said(outcome: &AttemptOutcome) -> (String, Option<Status>) {
    match outcome {
        AttemptOutcome::Accepted { ran: Some(ran), .. } => (ran.stdout.text(), ran.status.clone()),
        other => panic!("{other:?}"),
    }
}

/// A socket that exists and listens, for as long as the test runs.
fn socket(sshd: &Sshd) -> (std::os::unix::net::UnixListener, String) {
    let path = sshd.dir().join("listening");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    (listener, path.display().to_string())
}

#[tokio::test]
async fn an_open_login_accepts_everything() {
    require_sshd_or_skip!();
    // sshd only looks whether xauth is there before it agrees.
    let config = [
        "AcceptEnv *",
        "X11Forwarding yes",
        "XAuthLocation /bin/true",
        "PermitTunnel yes",
        "GatewayPorts no",
    ];
    let sshd = Sshd::start_with(Setup { config: config.map(str::to_owned).to_vec(), ..Setup::default() });
    let (_listener, path) = socket(&sshd);
    let new = sshd.dir().join("new").display().to_string();
    let connection = open(&sshd).await;
    let exec = connection.attempt(Attempt::Exec { command: "echo $((6*7)); exit 3", stdin: b"" }).await;
    assert_eq!(said(&exec), ("42\n".to_owned(), Some(Status::Exited(3))));
    let shell = connection.attempt(Attempt::Shell { stdin: b"echo $((6*7))\nexit 4\n" }).await;
    let (text, status) = said(&shell);
    assert!(text.contains("42") && status == Some(Status::Exited(4)), "{shell:?}");
    let direct = connection.attempt(Attempt::DirectTcpip { host: "127.0.0.1", port: sshd.port() }).await;
    assert!(said(&direct).0.starts_with("SSH-2.0-OpenSSH"), "{direct:?}");
    let closed = ClosedPort::on("127.0.0.1".parse().unwrap());
    let nobody = closed.port();
    if muster_ssh::testing::user() == "root" {
        let outcome = connection.attempt(Attempt::Pty).await;
        assert!(matches!(outcome, AttemptOutcome::Accepted { .. }), "{outcome:?}");
    } else {
        // An sshd that is not root cannot give the terminal to the user, and ends.
        muster_needs::skip_part("a terminal needs an sshd that is root");
    }
    for attempt in [
        Attempt::Subsystem { name: "sftp", stdin: b"" },
        Attempt::DirectTcpip { host: "127.0.0.1", port: nobody },
        Attempt::DirectStreamlocal { path: &path },
        Attempt::TcpipForward { address: "127.0.0.1", port: 0 },
        Attempt::StreamlocalForward { path: &new },
        Attempt::AgentForward,
        Attempt::X11,
        Attempt::Env { name: "BASH_ENV", value: "/tmp/x" },
    ] {
        let outcome = connection.attempt(attempt).await;
        assert!(matches!(outcome, AttemptOutcome::Accepted { .. }), "{attempt:?}: {outcome:?}");
    }
    assert!(connection.attempt(Attempt::Subsystem { name: "no-such", stdin: b"" }).await.is_refused());
    assert!(connection.is_alive());
}

#[tokio::test]
async fn a_pinned_login_refuses_and_runs_only_what_is_forced() {
    require_sshd_or_skip!();
    let config = [
        "ForceCommand echo forced; exit 5",
        "DisableForwarding yes",
        // Before 10.0, and without its distribution's repair, sshd lets DisableForwarding not reach
        // agents and X11 (CVE-2025-32728).
        "AllowAgentForwarding no",
        "PermitTTY no",
        "PermitUserRC no",
        "X11Forwarding no",
    ];
    let sshd = Sshd::start_with(Setup { config: config.map(str::to_owned).to_vec(), ..Setup::default() });
    let (_listener, path) = socket(&sshd);
    let new = sshd.dir().join("new").display().to_string();
    let connection = open(&sshd).await;
    for attempt in [
        Attempt::Pty,
        Attempt::DirectTcpip { host: "127.0.0.1", port: sshd.port() },
        Attempt::DirectStreamlocal { path: &path },
        Attempt::TcpipForward { address: "127.0.0.1", port: 0 },
        Attempt::TcpipForward { address: "", port: 0 },
        Attempt::StreamlocalForward { path: &new },
        Attempt::AgentForward,
        Attempt::X11,
        Attempt::Env { name: "BASH_ENV", value: "/tmp/x" },
        Attempt::Env { name: "LC_ALL", value: "C" },
    ] {
        let outcome = connection.attempt(attempt).await;
        assert!(outcome.is_refused(), "{attempt:?}: {outcome:?}");
    }
    assert!(!std::path::Path::new(&new).exists());
    for attempt in [
        Attempt::Shell { stdin: b"echo $((6*7))\n" },
        Attempt::Exec { command: "echo $((6*7))", stdin: b"" },
        Attempt::Subsystem { name: "sftp", stdin: b"" },
    ] {
        let outcome = connection.attempt(attempt).await;
        assert_eq!(said(&outcome), ("forced\n".to_owned(), Some(Status::Exited(5))), "{attempt:?}");
    }
    assert!(connection.is_alive(), "refusals do not end a connection");
    assert_eq!(connection.unasked_channels(), 0);
}

/// Why the doctor does not take each refusal of X11 for a refusal of the forwarding.
#[tokio::test]
async fn x11_is_refused_for_want_of_xauth_too() {
    require_sshd_or_skip!();
    let config = ["X11Forwarding yes", "XAuthLocation /nonexistent/xauth"];
    let sshd = Sshd::start_with(Setup { config: config.map(str::to_owned).to_vec(), ..Setup::default() });
    let connection = open(&sshd).await;
    assert!(connection.attempt(Attempt::X11).await.is_refused());
}

#[tokio::test]
async fn a_host_that_goes_away_is_unknown_not_refused() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let connection = open(&sshd).await;
    sshd.signal_sessions("KILL");
    tokio::time::sleep(core::time::Duration::from_millis(300)).await;
    for attempt in [
        Attempt::Pty,
        Attempt::TcpipForward { address: "", port: 0 },
        Attempt::DirectTcpip { host: "::1", port: 1 },
    ] {
        let outcome = connection.attempt(attempt).await;
        assert!(matches!(outcome, AttemptOutcome::Unknown { .. }), "{attempt:?}: {outcome:?}");
    }
}
