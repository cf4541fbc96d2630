//! `musterd fetch`: gets one text from an https URL for the core, which has no network.
//!
//! One process for one request, started by systemd for one connection of the core's (`muster-fetch.socket`, `Accept=yes`), as a user
//! that owns nothing. The request comes over that connection and the answer goes back over it, so nothing of either is on a command
//! line, in an environment or in a file, and there is no file that this user could put something else in the place of.
//!
//! ```text
//! request ─▶ trust anchors, name, connection ─▶ everything given up ─▶ TLS, HTTP ─▶ answer
//! ```
//!
//! What a server sends is read after `edge::confine` took files, sockets, programs and all other system calls:
//! whoever takes this process over by its answer can lie about the content, to the core that asked, and nothing else. Before that, only
//! the resolver reads what the network says.
//!
//! - [`words`]: what core and fetcher say to each other, and why something was not got.
//! - `reach`: trust anchors, name, connection.
//! - `get`: TLS and HTTP.

mod get;
mod reach;
pub mod words;

use std::io::{ErrorKind as K, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use self::words::{MAX_ANCHORS, Told, Wanted, Why};
use crate::edge::confine;
use crate::say;
use crate::wire::{Broken, message, read_body, read_message, write_body};

/// For the request, once the core knows that we are there.
const REQUEST: Duration = Duration::from_secs(10);

/// The program: the connection is standard input.
#[must_use]
pub fn main() -> ExitCode {
    let done = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|e| e.to_string())
        .map(|fd| serve(&UnixStream::from(fd)));
    match done {
        // A core that was killed, or told to end, has no use for an answer.
        Ok(Err(Broken::Io(e))) if matches!(e.kind(), K::BrokenPipe | K::ConnectionReset) => ExitCode::SUCCESS,
        Ok(Err(why)) => {
            say::confined('3', &format!("fetch: {why}"));
            ExitCode::FAILURE
        }
        Ok(Ok(())) => ExitCode::SUCCESS,
        Err(why) => {
            say::confined('3', &format!("fetch: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// What is asked for a URL: the host by which the certificate is judged, the port, and what is asked for there. `None` for what is not asked.
#[must_use]
pub fn asks(url: &str) -> Option<(String, u16, String)> {
    reach::Target::of(url).ok().map(|t| (t.at.0, t.at.1, t.path.to_string()))
}

/// Answers the one request of a connection.
fn serve(core: &UnixStream) -> Result<(), Broken> {
    core.set_read_timeout(Some(REQUEST))?;
    core.set_write_timeout(Some(REQUEST))?;
    let mut core = core;
    core.write_all(&message(&Told::Begun)?)?;
    let Some(wanted) = read_message::<Wanted>(&mut core)? else { return Ok(()) };
    let anchors = read_body(&mut core, MAX_ANCHORS)?;
    let got = got(core, &wanted, &anchors);
    // The watch over its end shares the socket, and left it so that a long answer would not fit.
    core.set_nonblocking(false)?;
    let answer = match got {
        Ok(body) => {
            let mut bytes = Zeroizing::new(message(&Told::Got)?);
            write_body(&mut *bytes, &body)?;
            bytes
        }
        Err(why) => Zeroizing::new(message(&Told::Failed { why })?),
    };
    core.write_all(&answer)?;
    Ok(())
}

fn got(core: &UnixStream, wanted: &Wanted, anchors: &[u8]) -> Result<Zeroizing<Vec<u8>>, Why> {
    let until = Instant::now() + Duration::from_secs(wanted.seconds.into());
    let target = reach::Target::of(&wanted.url)?;
    let config = reach::config(anchors)?;
    let stream = reach::connect(&target, until)?;
    // What it needs of files and descriptors is made before there are none.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|_| Why::Ours)?;
    confine::confine_without_sockets().map_err(|why| {
        say::confined('3', &format!("fetch: {why}"));
        Why::Ours
    })?;
    let core = core.try_clone().map_err(|_| Why::Ours)?;
    runtime.block_on(async {
        let left = until.saturating_duration_since(Instant::now());
        tokio::select! {
            got = get::get(stream, config, &target, wanted) => got,
            () = tokio::time::sleep(left) => Err(Why::Slow),
            () = get::left(core) => Err(Why::Ours),
        }
    })
}
