//! Getting a text from a URL by way of a fetcher ([`crate::fetch`]): the core itself has no network.
//!
//! The fetcher is believed in nothing: what comes back is bounded in bytes and time, is frames or nothing, and is untrusted bytes then.
//! There is no file between the two. The socket is root's alone to connect to, and root made it: else nobody gets the token that goes
//! along.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use muster_sys::service::Peer;
use muster_sys::system;
use zeroize::Zeroizing;

use super::disk::Disk;
use super::documents;
use super::owner::Patience;
use super::stream::Timed;
use super::units;
use crate::fetch::words::{MAX_ANCHORS, Told, Wanted, Why};
use crate::places;
use crate::wire::{Broken, Kind, frame, read_body, read_message, write_body};

/// In which a fetcher begins: its unit waits for the network, which at a boot may take its time.
const BEGINS: Duration = Duration::from_secs(180);
/// In which a server must have answered.
const ANSWERS: u16 = 30;
/// What a fetcher may take beyond that.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at whether we are to end.
const LOOKS: Duration = Duration::from_millis(100);

/// What came of it.
pub(super) enum Fetched {
    /// Bytes of somebody.
    Got(Zeroizing<Vec<u8>>),
    /// Nothing. Why, and whether it may be there later.
    Not {
        /// In words that name no text of the other end's.
        why: String,
        /// Trying again may help.
        later: bool,
    },
    /// Neither, in the time that it was given.
    Late,
    /// Told to end meanwhile.
    Ended,
}

impl Fetched {
    fn never(why: String) -> Self {
        Self::Not { why, later: false }
    }
}

/// What a question may take, and the token that goes along.
pub(super) struct Bounds<'b> {
    /// For the header `Authorization: Bearer`.
    pub bearer: Option<&'b str>,
    /// Bytes of the body.
    pub max: u32,
    /// In which all of it is over, with the start of a fetcher. `None`: as long as its parts may take, [`BEGINS`] and what follows.
    pub longest: Option<Duration>,
}

/// Time that runs out, where there is an end to it.
#[derive(Clone, Copy)]
struct Until(Option<Instant>);

impl Until {
    /// What is left of `usual`.
    fn left(self, usual: Duration) -> Duration {
        self.0.map_or(usual, |until| until.saturating_duration_since(Instant::now()).min(usual))
    }
}

/// Gets the body of `url`.
pub(super) fn fetch(disk: &Disk, url: &str, bounds: &Bounds<'_>, patience: Patience<'_>) -> Fetched {
    let until = Until(bounds.longest.map(|longest| Instant::now() + longest));
    match fetched(disk, url, bounds, until, patience) {
        // Whatever did not come in its own time was cut off by ours.
        Fetched::Not { .. } if until.left(Duration::MAX).is_zero() => Fetched::Late,
        other => other,
    }
}

fn fetched(disk: &Disk, url: &str, bounds: &Bounds<'_>, until: Until, patience: Patience<'_>) -> Fetched {
    let begun = anchors(disk).and_then(|anchors| Ok((anchors, connect(disk, until)?)));
    let (anchors, stream) = match begun {
        Ok(begun) => begun,
        Err(why) => return Fetched::never(why),
    };
    let bearer = bounds.bearer.map(str::to_owned);
    let wanted = Wanted { url: url.to_owned(), max: bounds.max, seconds: ANSWERS, bearer };
    let (tell, told) = mpsc::channel();
    let ours = match stream.try_clone() {
        Ok(ours) => ours,
        Err(e) => return Fetched::never(format!("cannot ask a fetcher: {e}")),
    };
    let asks = std::thread::Builder::new().name("fetch".to_owned()).spawn(move || {
        let _ = tell.send(talk(&ours, wanted, &anchors, until));
    });
    if let Err(e) = asks {
        return Fetched::never(format!("cannot start a thread: {e}"));
    }
    loop {
        match told.try_recv() {
            Ok(fetched) => return fetched,
            Err(TryRecvError::Disconnected) => {
                return Fetched::never("the thread that asked a fetcher ended".to_owned());
            }
            Err(TryRecvError::Empty) if !patience(LOOKS) => {
                // The thread and the fetcher end by this.
                let _ = stream.shutdown(Shutdown::Both);
                return Fetched::Ended;
            }
            Err(TryRecvError::Empty) => {}
        }
    }
}

/// What servers are judged by, where root says it; empty where the machine's own anchors count.
fn anchors(disk: &Disk) -> Result<Vec<u8>, String> {
    let text = documents::text(&disk.root()?, places::FETCH_ANCHORS, MAX_ANCHORS as u64)?;
    match text {
        Some(text) if text.trim().is_empty() => Err(format!(
            "{} is empty, so it trusts nobody; remove it, or put certificates into it",
            places::FETCH_ANCHORS
        )),
        text => Ok(text.unwrap_or_default().into_bytes()),
    }
}

fn connect(disk: &Disk, until: Until) -> Result<UnixStream, String> {
    units::start_fetching(disk.places(), until.left(units::TIME))?;
    let path = disk.places().at(places::FETCH_SOCKET);
    let stream = UnixStream::connect(&path)
        .map_err(|e| format!("{}: {e}: `systemctl status muster-fetch.socket`", path.display()))?;
    // Of a socket that listens it is who made it listen: the service manager.
    let peer = Peer::of(&stream).map_err(|e| e.line())?;
    if peer.uid != system::user_ids().1 {
        return Err(format!("{} is of user {}, and nothing is asked there", path.display(), peer.uid));
    }
    Ok(stream)
}

fn talk(stream: &UnixStream, wanted: Wanted, anchors: &[u8], until: Until) -> Fetched {
    match answer(stream, wanted, anchors, until) {
        Ok(fetched) => fetched,
        // Killed, or never started: no word of the source's, so it may be better the next time.
        Err(Broken::Io(e)) if ended(&e) => Fetched::Not {
            why: "the fetcher ended without an answer; `journalctl -u 'muster-fetch@*'` may say why"
                .to_owned(),
            later: true,
        },
        Err(Broken::Io(e)) if late(&e) => Fetched::never("the fetcher did not answer in time".to_owned()),
        Err(Broken::Io(e)) => Fetched::never(format!("the connection to the fetcher: {e}")),
        Err(Broken::Body(_)) => Fetched::never(Why::Long.to_string()),
        Err(_) => Fetched::never("the fetcher does not speak as it should".to_owned()),
    }
}

fn late(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn ended(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(e.kind(), K::UnexpectedEof | K::BrokenPipe | K::ConnectionReset | K::ConnectionAborted)
}

fn answer(stream: &UnixStream, mut wanted: Wanted, anchors: &[u8], until: Until) -> Result<Fetched, Broken> {
    let mut begins = Timed::new(stream, until.left(BEGINS));
    let begun = match read_message(&mut begins) {
        Err(Broken::Io(e)) if late(&e) => {
            return Ok(Fetched::Not {
                why: "no fetcher was started in time: is network-online.target reached?".to_owned(),
                later: true,
            });
        }
        begun => expected(begun?)?,
    };
    if begun != Told::Begun {
        return Err(Broken::Message("it has not begun".to_owned()));
    }
    // Rounded up: it is this end that cuts, and a fetcher is not to say "too slow" of a server that was not given its time.
    let seconds = until.left(Duration::from_secs(ANSWERS.into())).as_secs() + 1;
    wanted.seconds = u16::try_from(seconds).map_or(ANSWERS, |seconds| seconds.min(ANSWERS));
    let answers = Duration::from_secs(wanted.seconds.into()) + GRACE;
    let mut answers = Timed::new(stream, until.left(answers));
    // What is in between holds the token too.
    let json = Zeroizing::new(serde_json::to_vec(&wanted).map_err(|e| Broken::Message(e.to_string()))?);
    let mut request = Zeroizing::new(frame(Kind::Message, &json)?);
    write_body(&mut *request, anchors)?;
    answers.write_all(&request)?;
    Ok(match expected(read_message(&mut answers)?)? {
        Told::Begun => return Err(Broken::Message("it begins again".to_owned())),
        Told::Failed { why } => Fetched::Not { why: why.to_string(), later: why.is_not_there_yet() },
        Told::Got => {
            let max = usize::try_from(wanted.max).unwrap_or(usize::MAX);
            Fetched::Got(Zeroizing::new(read_body(&mut answers, max)?))
        }
    })
}

fn expected(told: Option<Told>) -> Result<Told, Broken> {
    told.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
}
