//! A bad cable: frames between a node and its bridge pass through this process, late or not at all.
//!
//! `tc netem` would do the same, but not every kernel has it (`CONFIG_NET_SCH_NETEM`). The node's cable is taken off the
//! bridge; a second pair of interfaces takes its place there, and two packet sockets join them. `PACKET_VNET_HDR` carries the
//! offload state of each frame, so that checksums and segments left to "hardware" stay right. Source: packet(7).

use std::collections::VecDeque;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::net;
use crate::node::{Node, ip};
use crate::process::try_call;

/// A frame with its offload header: at most 64 KiB and a little.
const FRAME: usize = 70_000;
/// Frames on their way in one direction; more are dropped, as a real queue does.
const QUEUE: usize = 10_000;

/// How bad a cable is, in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cable {
    /// Added to the way of each frame.
    pub delay: Duration,
    /// Of 100 frames, how many are lost; drawn from a fixed sequence, so that a run can be repeated.
    pub loss_percent: u8,
}

/// The bad cable is in place for as long as this lives.
#[derive(Debug)]
pub struct BadCable {
    node: Node,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Node {
    /// Puts a worse cable between the node and its bridge. Dropping the result puts the good one back.
    pub fn bad_cable(&self, cable: Cable) -> Result<BadCable> {
        let (_, good) = self.network_names();
        let (outer, inner) = names(self);
        self.cut_link()?;
        ip(&["link", "add", &outer, "type", "veth", "peer", "name", &inner])?;
        for name in [&outer, &inner, &good] {
            ip(&["link", "set", name, "addrgenmode", "none"])?;
        }
        ip(&["link", "set", &outer, "master", &net::bridge(self.plan().slot), "up"])?;
        ip(&["link", "set", &inner, "up"])?;
        let (here, there) = (Arc::new(packet_socket(&good)?), Arc::new(packet_socket(&inner)?));
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (from, to, seed) in [(&here, &there, 1), (&there, &here, 2)] {
            let line = Arc::new(Line::default());
            threads.push(spawn_reader(Arc::clone(from), Arc::clone(&line), Arc::clone(&stop), cable, seed));
            threads.push(spawn_writer(Arc::clone(to), line, Arc::clone(&stop)));
        }
        Ok(BadCable { node: self.clone(), stop, threads })
    }
}

impl Drop for BadCable {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        try_call("ip", &["link", "del", &names(&self.node).0]);
        if let Err(e) = self.node.restore_link() {
            eprintln!("testbed: the cable of {} is still out: {e:#}", self.node.name());
        }
    }
}

/// Both begin as the node's own cable does, so that they go with the slot even if this process is killed.
fn names(node: &Node) -> (String, String) {
    let cable = node.network_names().1;
    (format!("{cable}o"), format!("{cable}i"))
}

/// Frames in flight in one direction, oldest first.
#[derive(Debug, Default)]
struct Line {
    frames: Mutex<VecDeque<(Instant, Vec<u8>)>>,
    arrived: Condvar,
}

fn spawn_reader(
    from: Arc<OwnedFd>,
    line: Arc<Line>,
    stop: Arc<AtomicBool>,
    cable: Cable,
    seed: u64,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut frame = vec![0; FRAME];
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        while !stop.load(Ordering::Relaxed) {
            let Ok(n) = receive(&from, &mut frame) else { continue };
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random % 100 < u64::from(cable.loss_percent) {
                continue;
            }
            let mut frames = line.frames.lock().unwrap_or_else(PoisonError::into_inner);
            if frames.len() < QUEUE {
                frames.push_back((Instant::now() + cable.delay, frame[..n].to_vec()));
                line.arrived.notify_one();
            }
        }
    })
}

fn spawn_writer(to: Arc<OwnedFd>, line: Arc<Line>, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let mut frames = line.frames.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let wait = match frames.front() {
                Some((due, _)) if *due <= now => {
                    let frame = frames.pop_front();
                    drop(frames);
                    if let Some((_, bytes)) = frame {
                        send(&to, &bytes);
                    }
                    continue;
                }
                Some((due, _)) => *due - now,
                None => Duration::from_millis(100),
            };
            drop(line.arrived.wait_timeout(frames, wait.min(Duration::from_millis(100))));
        }
    })
}

#[allow(unsafe_code, reason = "packet sockets have no safe interface in std")]
fn packet_socket(interface: &str) -> Result<OwnedFd> {
    let index: i32 = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))
        .with_context(|| format!("no interface {interface}"))?
        .trim()
        .parse()?;
    let every = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain socket(2); a negative result is checked before it becomes an owner.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(every)) };
    if fd < 0 {
        return Err(io::Error::last_os_error()).context("packet socket");
    }
    // SAFETY: fd is new, open and ours.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &libc::timeval { tv_sec: 0, tv_usec: 100_000 })?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: every,
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is a whole sockaddr_ll and its length is given.
    let bound = unsafe {
        libc::bind(fd, std::ptr::from_ref(&address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if bound < 0 {
        return Err(io::Error::last_os_error()).with_context(|| format!("bind to {interface}"));
    }
    Ok(socket)
}

#[allow(unsafe_code, reason = "packet sockets have no safe interface in std")]
fn set_option<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> Result<()> {
    // SAFETY: value is a plain C struct or integer, and its own size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()).context("setsockopt") } else { Ok(()) }
}

#[allow(unsafe_code, reason = "packet sockets have no safe interface in std")]
fn receive(socket: &OwnedFd, frame: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for the length that is given.
    let n = unsafe { libc::recv(socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// A frame that cannot be sent is a lost frame.
#[allow(unsafe_code, reason = "packet sockets have no safe interface in std")]
fn send(socket: &OwnedFd, frame: &[u8]) {
    // SAFETY: the buffer is readable for the length that is given.
    let _ = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
}
