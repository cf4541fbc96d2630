//! One command on a host: sent, fed, read to its end.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::certificate::printable;
use crate::error::Stage;
use crate::link::Link;
use crate::outcome::{Captured, ExecError, ExecFault, ExecOutcome, Limits, Output, Status};
use crate::tunnel::open_abandonable;

/// Sees output as it comes.
pub type Watch<'a> = &'a mut (dyn FnMut(Output, &[u8]) + Send);

/// A command and how to run it.
pub struct Exec<'a> {
    pub(crate) command: &'a str,
    stdin: &'a [u8],
    limits: Limits,
    deadline: Duration,
    linger: Duration,
    watch: Option<Watch<'a>>,
}

impl fmt::Debug for Exec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exec({:?}, {} bytes of input)", self.command, self.stdin.len())
    }
}

impl<'a> Exec<'a> {
    /// `command` is one string for the login shell of the host, or for a ForceCommand to ignore.
    pub fn new(command: &'a str) -> Self {
        Self {
            command,
            stdin: &[],
            limits: Limits::default(),
            deadline: Duration::from_secs(120),
            linger: Duration::from_secs(5),
            watch: None,
        }
    }

    /// Sent whole, then closed. Not kept by this crate after it was sent.
    #[must_use]
    pub fn stdin(mut self, stdin: &'a [u8]) -> Self {
        self.stdin = stdin;
        self
    }

    /// How much output is kept.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// From the start of the command to its end. 120 s unless set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long to wait for more output, or its end, after the command itself has ended: something it
    /// left behind may hold it open for ever. 5 s unless set; the deadline stands above it.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Sees output as it comes, before any limit. Called on the task that runs the command: it must
    /// not block.
    #[must_use]
    pub fn watch(mut self, watch: Watch<'a>) -> Self {
        self.watch = Some(watch);
        self
    }
}

/// Closes a command's channel however its owner goes away.
pub(crate) struct Closer {
    half: Option<Arc<ChannelWriteHalf<Msg>>>,
    link: Arc<Link>,
}

impl Closer {
    pub(crate) fn new(half: &Arc<ChannelWriteHalf<Msg>>, link: &Arc<Link>) -> Self {
        Self { half: Some(Arc::clone(half)), link: Arc::clone(link) }
    }

    /// The host closed it already.
    pub(crate) fn disarm(&mut self) {
        self.half = None;
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.link.session_ends();
        let Some(half) = self.half.take() else { return };
        // Outside a runtime there is no session left that could send it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = half.close().await;
            });
        }
    }
}

/// A session channel, within the deadline.
pub(crate) async fn open_session(
    link: &Arc<Link>,
) -> Result<(ChannelReadHalf, ChannelWriteHalf<Msg>), ExecError> {
    let until = Instant::now() + link.channel_deadline;
    let deadline = || {
        let fault = ExecFault::Deadline { stage: Stage::Channel, after: link.channel_deadline };
        ExecError::new(link.report.hop.clone(), fault)
    };
    loop {
        let held = Arc::clone(link);
        let open = open_abandonable(link, async move { held.handle.channel_open_session().await });
        match timeout_at(until, open).await {
            Ok(Ok(channel)) => return Ok(channel.split()),
            Ok(Err(russh::Error::ChannelOpenFailure(_))) if link.may_still_count_one() => {
                timeout_at(until, sleep(Duration::from_millis(50))).await.map_err(|_| deadline())?;
            }
            Ok(Err(russh::Error::ChannelOpenFailure(reason))) => {
                let said = link.shared.notes().refused.take();
                let why = said.unwrap_or_else(|| reason.description().to_owned());
                let fault = ExecFault::ChannelRefused { why: printable(&why) };
                return Err(ExecError::new(link.report.hop.clone(), fault));
            }
            Ok(Err(_)) => {
                let (hop, why) = link.blame();
                return Err(ExecError::new(hop, ExecFault::ConnectionLost { why }));
            }
            Err(_) => return Err(deadline()),
        }
    }
}

/// Waits for the host's answer to a request on a channel: `Some(true)` = yes, `None` = gone.
pub(crate) async fn answer(reader: &mut ChannelReadHalf) -> Option<bool> {
    loop {
        match reader.wait().await? {
            ChannelMsg::Success => return Some(true),
            ChannelMsg::Failure => return Some(false),
            ChannelMsg::Close => return None,
            _ => {}
        }
    }
}

pub(crate) async fn run(link: &Arc<Link>, exec: Exec<'_>) -> Result<ExecOutcome, ExecError> {
    let (mut reader, writer) = open_session(link).await?;
    let writer = Arc::new(writer);
    let mut closer = Closer::new(&writer, link);
    let started = Instant::now();
    let asked = async {
        writer.exec(true, exec.command).await.ok()?;
        answer(&mut reader).await
    };
    match timeout(link.channel_deadline, asked).await {
        Ok(Some(true)) => {}
        Ok(Some(false)) => return Err(ExecError::new(link.report.hop.clone(), ExecFault::RequestRefused)),
        Ok(None) => {
            let (hop, why) = link.blame();
            return Err(ExecError::after_sending(hop, ExecFault::ConnectionLost { why }));
        }
        Err(_) => {
            let fault = ExecFault::Deadline { stage: Stage::Channel, after: link.channel_deadline };
            return Err(ExecError::after_sending(link.report.hop.clone(), fault));
        }
    }
    let mut pass = Pass::new(exec.limits, exec.watch);
    let ended = pass.drive(&mut reader, &writer, exec.stdin, started + exec.deadline, exec.linger).await;
    let took = started.elapsed();
    match ended {
        Ended::Closed => closer.disarm(),
        Ended::Lost | Ended::Lingered => {}
        Ended::Deadline => {
            let fault = ExecFault::Deadline { stage: Stage::Exec, after: exec.deadline };
            let error = ExecError::after_sending(link.report.hop.clone(), fault);
            return Err(error.with_partial(pass.stdout, pass.stderr));
        }
    }
    let output_complete = matches!(ended, Ended::Closed) || pass.eof;
    let status = pass.status.unwrap_or_else(|| {
        let (hop, why) = if matches!(ended, Ended::Closed) && link.is_alive() {
            (
                link.report.hop.clone(),
                "the host closed the channel without saying how the command ended".to_owned(),
            )
        } else {
            link.blame()
        };
        Status::ConnectionLost { why, hop }
    });
    Ok(ExecOutcome { status, stdout: pass.stdout, stderr: pass.stderr, output_complete, took })
}

/// How the exchange with a started command ended.
pub(crate) enum Ended {
    /// The host closed the channel.
    Closed,
    /// The connection is gone.
    Lost,
    /// The command ended, its output did not.
    Lingered,
    /// Too long.
    Deadline,
}

/// Input and output of one command.
pub(crate) struct Pass<'a> {
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    pub(crate) status: Option<Status>,
    pub(crate) eof: bool,
    watch: Option<Watch<'a>>,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(limits: Limits, watch: Option<Watch<'a>>) -> Self {
        Self {
            stdout: Captured::new(limits.stdout),
            stderr: Captured::new(limits.stderr),
            status: None,
            eof: false,
            watch,
        }
    }

    /// Feeds and reads at the same time: a command may fill its output before it reads its input.
    pub(crate) async fn drive(
        &mut self,
        reader: &mut ChannelReadHalf,
        writer: &ChannelWriteHalf<Msg>,
        stdin: &[u8],
        deadline: Instant,
        linger: Duration,
    ) -> Ended {
        let feed = async {
            for chunk in stdin.chunks(32 * 1024) {
                if writer.data_bytes(chunk.to_vec()).await.is_err() {
                    return;
                }
            }
            let _ = writer.eof().await;
        };
        tokio::pin!(feed);
        let mut fed = false;
        let mut patience = deadline;
        loop {
            tokio::select! {
                biased;
                message = reader.wait() => match message {
                    None => return Ended::Lost,
                    Some(ChannelMsg::Close) => return Ended::Closed,
                    Some(message) => {
                        self.take(message);
                        if self.status.is_some() {
                            patience = deadline.min(Instant::now() + linger);
                        }
                    }
                },
                () = &mut feed, if !fed => fed = true,
                () = sleep_until(patience) => {
                    return if self.status.is_some() { Ended::Lingered } else { Ended::Deadline };
                }
            }
        }
    }

    fn take(&mut self, message: ChannelMsg) {
        match message {
            ChannelMsg::Data { data } => {
                self.stdout.push(&data);
                if let Some(watch) = &mut self.watch {
                    watch(Output::Stdout, &data);
                }
            }
            ChannelMsg::ExtendedData { data, ext: 1 } => {
                self.stderr.push(&data);
                if let Some(watch) = &mut self.watch {
                    watch(Output::Stderr, &data);
                }
            }
            ChannelMsg::Eof => self.eof = true,
            ChannelMsg::ExitStatus { exit_status } => self.status = Some(Status::Exited(exit_status)),
            ChannelMsg::ExitSignal { signal_name, core_dumped, .. } => {
                let name = match signal_name {
                    russh::Sig::Custom(name) => printable(&name),
                    known => format!("{known:?}"),
                };
                self.status = Some(Status::Signaled { name, core_dumped });
            }
            _ => {}
        }
    }
}
