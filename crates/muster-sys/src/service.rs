//! What a service manager gives to a service and wants to hear of it: listening sockets and a line of status.
//!
//! Sources: sd_listen_fds(3), sd_notify(3), systemd.socket(5). Outside a manager there is neither, and nothing fails.

use crate::SysError;
use rustix::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that a manager passes (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// More sockets than any unit of ours has.
const MOST: RawFd = 16;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// A socket that the manager opened.
#[derive(Debug)]
pub struct Given {
    /// `FileDescriptorName=` of its unit.
    pub name: String,
    /// The socket.
    pub socket: OwnedFd,
}

/// The sockets that were passed to this process, in the order of the manager; none where they are not for this process. Once:
/// a second call gives none.
///
/// # Errors
/// More than belong to any unit of ours, or a descriptor that is not there.
pub fn sockets() -> Result<Vec<Given>, SysError> {
    let word = |name| std::env::var(name).unwrap_or_default();
    let ours = word("LISTEN_PID") == crate::system::pid().to_string();
    let count: RawFd = word("LISTEN_FDS").parse().unwrap_or(0);
    if !ours || count <= 0 || TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    let bad = |why: &str| SysError::new("take the sockets of the service manager", io::Error::other(why));
    if count > MOST {
        return Err(bad("there are too many"));
    }
    let names = word("LISTEN_FDNAMES");
    let mut names = names.split(':');
    let mut out = Vec::new();
    for raw in FIRST..FIRST.saturating_add(count) {
        // SAFETY: the manager opened these numbers for this process and nobody else in it knows them; `TAKEN` lets that
        // be said once. One that is not open is found by the next call, and owned by nobody then.
        #[allow(unsafe_code)]
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        if let Err(e) = rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC) {
            // Not ours to close.
            std::mem::forget(socket);
            return Err(SysError::new("take the sockets of the service manager", e));
        }
        out.push(Given { name: names.next().unwrap_or_default().to_owned(), socket });
    }
    Ok(out)
}

/// Tells the manager how it goes: `READY=1`, `STATUS=…`, one assignment a line. Without a manager nobody is told, and that is no
/// error; neither is one that does not listen, because nothing may depend on it.
pub fn tell(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.as_encoded_bytes();
    let address = match path {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        path => SocketAddrUnix::new(path),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    if let (Ok(address), Ok(socket)) = (address, socket) {
        let _ = rustix::net::sendto(&socket, state.as_bytes(), SendFlags::NOSIGNAL, &address);
    }
}

/// Who is at the other end of a Unix socket, as it was when it connected (SO_PEERCRED, unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User id.
    pub uid: u32,
    /// Process id, in our namespace.
    pub pid: i32,
}

impl Peer {
    /// Of a connected socket.
    ///
    /// # Errors
    /// It is not one.
    pub fn of(socket: impl AsFd) -> Result<Self, SysError> {
        let cred = rustix::net::sockopt::socket_peercred(socket.as_fd())
            .map_err(|e| SysError::new("ask who is at the other end of a socket", e))?;
        Ok(Self { uid: cred.uid.as_raw(), pid: cred.pid.as_raw_nonzero().get() })
    }

    /// The unit of the service manager that the process runs in, where the v2 hierarchy names one.
    #[must_use]
    pub fn unit(&self) -> Option<String> {
        let text = crate::procfs::small(format!("/proc/{}/cgroup", self.pid)).ok()?;
        unit_in(&String::from_utf8_lossy(&text)).map(str::to_owned)
    }
}

/// The innermost service or scope that the v2 line of a `/proc/PID/cgroup` names (cgroups(7)).
pub fn unit_in(text: &str) -> Option<&str> {
    let path = text.lines().find_map(|l| l.strip_prefix("0::"))?;
    path.split('/').rev().find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

/// What a client sees of the other end of a stream: whether it has closed its side or all of it.
pub fn is_closed(socket: impl AsFd) -> bool {
    let mut byte = [0u8; 1];
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    match rustix::net::recv(socket.as_fd(), &mut byte, flags) {
        Ok((_, 0)) => true,
        Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn s17_the_peer_is_told_by_the_kernel() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let peer = Peer::of(&ours).unwrap();
        assert_eq!((peer.uid, peer.pid), (crate::system::user_ids().1, crate::system::pid()));
        assert!(!is_closed(&ours));
        drop(theirs);
        assert!(is_closed(&ours));
    }

    #[test]
    fn s17_the_unit_is_the_innermost_that_v2_names() {
        for (text, unit) in [
            ("0::/system.slice/musterd-edge.service\n", Some("musterd-edge.service")),
            (
                "12:cpu:/a.service\n0::/machine/x.service/system.slice/musterd-edge.service/sub\n",
                Some("musterd-edge.service"),
            ),
            ("0::/user.slice/session-3.scope\n", Some("session-3.scope")),
            ("0::/\n", None),
            ("1:name=systemd:/system.slice/a.service\n", None),
            ("", None),
        ] {
            assert_eq!(unit_in(text), unit, "{text}");
        }
    }

    #[test]
    fn without_a_manager_there_are_no_sockets_and_nobody_to_tell() {
        // Under a manager this process would have been started by it, and not by cargo.
        assert!(sockets().unwrap().is_empty());
        tell("STATUS=nobody hears this");
    }
}
