//! A server that proves its host key and then breaks its word: the trusted host gone bad. It is the
//! server half of the SSH library, since no sshd can be made to do this.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use muster_ssh::testing::{KeyPair, Sshd, client};
use muster_ssh::{
    Address, Cause, Connection, Exec, ExecFault, Hop, HostTrust, Limits, Route, Stage, Status, Timing,
    require_sshd_or_skip,
};
use russh::server::{self, Auth, ChannelOpenHandle, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, Sig};
use tempfile::TempDir;

use crate::{alone, brisk, resident};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Never says whether a key would do.
    StallLogin,
    /// Takes a channel's opening and says nothing.
    StallOpen,
    /// Takes a command and says nothing.
    StallExec,
    /// Starts a command and closes its channel without a word on how it ended.
    NoStatus,
    /// Ends a command and never closes its channel.
    NoClose,
    /// Ends it by a signal with a name that is an attack on a terminal.
    OddSignal,
    /// Opens channels of every sort to the client.
    Unasked,
    /// Sends without end, and ignores what is closed.
    Flood,
    /// Connects on, to nowhere.
    Tarpit,
}

struct Rogue {
    mode: Mode,
    held: Vec<Channel<Msg>>,
    opening: Vec<ChannelOpenHandle>,
}

impl server::Handler for Rogue {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, _: &str, _: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        if self.mode == Mode::StallLogin {
            std::future::pending::<()>().await;
        }
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.mode == Mode::StallOpen {
            self.opening.push(reply);
        } else {
            reply.accept().await;
        }
        self.held.push(channel);
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        self.held.push(channel);
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        _: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.mode == Mode::StallExec {
            return Ok(());
        }
        session.channel_success(id)?;
        match self.mode {
            Mode::NoStatus => {
                session.data(id, "half a wo")?;
                session.close(id)?;
            }
            Mode::NoClose => {
                session.data(id, "done\n")?;
                session.exit_status_request(id, 3)?;
            }
            Mode::OddSignal => {
                let sig = Sig::Custom("\u{1b}[2J\nOK".repeat(100));
                session.exit_signal_request(id, sig, true, "\u{7}", "")?;
                session.close(id)?;
            }
            Mode::Unasked => {
                let handle = session.handle();
                tokio::spawn(async move {
                    for _ in 0..3 {
                        assert!(handle.channel_open_session().await.is_err());
                        assert!(handle.channel_open_agent().await.is_err());
                        assert!(handle.channel_open_x11("127.0.0.1", 1).await.is_err());
                        assert!(handle.channel_open_forwarded_tcpip("a", 1, "b", 2).await.is_err());
                        assert!(handle.channel_open_forwarded_streamlocal("/x").await.is_err());
                        assert!(
                            handle.channel_open_direct_tcpip("169.254.169.254", 80, "b", 2).await.is_err()
                        );
                        assert!(handle.channel_open_direct_streamlocal("/run/docker.sock").await.is_err());
                    }
                    handle.exit_status_request(id, 21).await.unwrap();
                    handle.close(id).await.unwrap();
                });
            }
            Mode::Flood => {
                let handle = session.handle();
                tokio::spawn(async move {
                    let block = vec![b'x'; 32 * 1024];
                    loop {
                        if handle.data(id, block.clone()).await.is_err()
                            || handle.extended_data(id, 1, block.clone()).await.is_err()
                            || handle.extended_data(id, 77, block.clone()).await.is_err()
                        {
                            return;
                        }
                    }
                });
            }
            _ => {}
        }
        Ok(())
    }
}

struct Server {
    dir: TempDir,
    key: KeyPair,
    login: KeyPair,
    port: u16,
}

/// On a runtime of its own, so that it is as independent as a process.
fn serve(mode: Mode) -> Server {
    let dir = TempDir::new().unwrap();
    let key = KeyPair::generate(dir.path(), "host", "ed25519");
    let login = KeyPair::generate(dir.path(), "login", "ed25519");
    let config = Arc::new(server::Config {
        keys: vec![russh::keys::PrivateKey::read_openssh_file(&key.path).unwrap()],
        ..server::Config::default()
    });
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let rogue = Rogue { mode, held: Vec::new(), opening: Vec::new() };
                tokio::spawn(server::run_stream(Arc::clone(&config), socket, rogue));
            }
        });
    });
    Server { dir, key, login, port }
}

impl Server {
    fn hop(&self, timing: Timing) -> Hop {
        assert!(self.dir.path().exists());
        let trust = HostTrust::parse(&self.key.public()).unwrap();
        Hop::new("rogue", Address::parse("127.0.0.1").unwrap(), "root", trust)
            .port(self.port)
            .identity(self.login.identity())
            .timing(timing)
    }
}

async fn open(server: &Server) -> Connection {
    client().connect(&Route::direct(server.hop(brisk()))).await.unwrap()
}

#[tokio::test]
async fn deadlines_hold_against_a_host_that_proved_itself() {
    require_sshd_or_skip!();
    // Only the stage that stalls is short: what a host does, it may do slowly.
    let after = Duration::from_secs(2);
    let begin = Instant::now();
    let timing = Timing { auth: after, ..brisk() };
    let error = client().connect(&Route::direct(serve(Mode::StallLogin).hop(timing))).await.unwrap_err();
    assert_eq!(error.cause(), &Cause::Deadline { stage: Stage::Auth, after });
    for mode in [Mode::StallOpen, Mode::StallExec] {
        let timing = Timing { channel: after, ..brisk() };
        let connection = client().connect(&Route::direct(serve(mode).hop(timing))).await.unwrap();
        let error = connection.exec("x", b"", Limits::default()).await.unwrap_err();
        assert_eq!(error.why(), &ExecFault::Deadline { stage: Stage::Channel, after }, "{mode:?}");
        assert_eq!(
            error.may_have_run(),
            mode == Mode::StallExec,
            "a command that was sent may have been run"
        );
    }
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn st20_a_flood_from_a_host_that_proved_itself_is_bounded() {
    require_sshd_or_skip!();
    if !alone("rogue::st20_a_flood_from_a_host_that_proved_itself_is_bounded") {
        return;
    }
    let connection = open(&serve(Mode::Flood)).await;
    let before = resident();
    let exec = Exec::new("x").limits(Limits { stdout: 10, stderr: 10 }).deadline(Duration::from_secs(5));
    let error = connection.run(exec).await.unwrap_err();
    assert_eq!(error.code(), "deadline");
    let (stdout, stderr) = error.partial().unwrap();
    assert!(stdout.total > 1 << 20 && stderr.total > 1 << 20 && stdout.bytes.len() == 10);
    let grown = resident().saturating_sub(before);
    assert!(grown < 24 << 20, "grew by {grown} bytes, the server in this process included");
}

#[tokio::test]
async fn a_command_that_does_not_say_how_it_ended_has_no_known_outcome() {
    require_sshd_or_skip!();
    let out = open(&serve(Mode::NoStatus)).await.exec("x", b"", Limits::default()).await.unwrap();
    let Status::ConnectionLost { why, .. } = &out.status else { panic!("{out:?}") };
    assert!(why.contains("without saying how"), "{why}");
    assert_eq!(out.stdout.bytes, b"half a wo");
    let connection = open(&serve(Mode::NoClose)).await;
    let exec = Exec::new("x").linger(Duration::from_millis(300));
    let out = connection.run(exec).await.unwrap();
    assert_eq!((out.status, out.output_complete), (Status::Exited(3), false));
    let out = open(&serve(Mode::OddSignal)).await.exec("x", b"", Limits::default()).await.unwrap();
    let Status::Signaled { name, core_dumped: true } = out.status else { panic!("{out:?}") };
    assert!(name.len() < 500 && !name.contains(char::is_control), "{name:?}");
}

#[tokio::test]
async fn nothing_that_a_host_opens_to_us_is_accepted() {
    require_sshd_or_skip!();
    let connection = open(&serve(Mode::Unasked)).await;
    let out = connection.exec("x", b"", Limits::default()).await.unwrap();
    assert_eq!(out.status, Status::Exited(21));
    assert_eq!(connection.unasked_channels(), 21);
}

#[tokio::test]
async fn a_bastion_that_connects_to_nowhere_is_a_deadline_of_the_next_hop() {
    require_sshd_or_skip!();
    let rogue = serve(Mode::Tarpit);
    let target = Sshd::start();
    let timing = Timing { handshake: Duration::from_millis(700), ..brisk() };
    let route = Route::via(vec![rogue.hop(brisk())], target.hop("behind").timing(timing));
    let error = client().connect(&route).await.unwrap_err();
    assert_eq!(
        error.cause(),
        &Cause::Deadline { stage: Stage::Handshake, after: Duration::from_millis(700) }
    );
    assert_eq!(error.hop().index, 2);
    assert!(!target.log().contains("Connection from"));
}
