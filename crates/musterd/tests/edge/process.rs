//! The edge as a process, or in this one where a test needs shorter limits.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use musterd::edge::{Limits, Options};

use crate::core::{Core, serve};

/// The program, until it is dropped.
pub(crate) struct Edge {
    pub(crate) child: Child,
    lines: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl Edge {
    pub(crate) fn start(core: &Core) -> Self {
        Self::at(&core.socket())
    }

    pub(crate) fn at(socket: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_musterd"))
            .args(["edge", "--socket"])
            .arg(socket)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the edge starts");
        let lines: Arc<(Mutex<Vec<String>>, Condvar)> = Arc::default();
        let (out, keep) = (child.stderr.take().expect("piped"), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                eprintln!("{line}");
                keep.0.lock().unwrap().push(line);
                keep.1.notify_all();
            }
        });
        Self { child, lines }
    }

    /// The first line with this in it.
    pub(crate) fn line(&self, part: &str) -> String {
        self.nth_line(part, 0)
    }

    pub(crate) fn nth_line(&self, part: &str, n: usize) -> String {
        let end = Instant::now() + Duration::from_secs(20);
        let mut lines = self.lines.0.lock().unwrap();
        loop {
            if let Some(line) = lines.iter().filter(|l| l.contains(part)).nth(n) {
                return line.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no `{part}` in {lines:#?}");
            lines = self.lines.1.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        address(&self.line("listening at"))
    }
}

pub(crate) fn address(line: &str) -> SocketAddr {
    let (_, rest) = line.split_once("listening at ").expect("a line of the edge");
    rest.split(',').next().and_then(|a| a.parse().ok()).expect("an address")
}

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An edge in this process, with limits of a test.
pub(crate) fn inside(core: &Core, limits: Limits) -> SocketAddr {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port");
    let claimed = core.serve_now().authority.is_some();
    let next = serve(claimed.then_some(&*core.authority), free);
    core.set_serve(next);
    let options = Options { socket: core.socket(), limits, confine: false };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a loop");
        runtime.block_on(musterd::edge::serve(&options, std::future::pending()));
    });
    let end = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(free).is_err() {
        assert!(Instant::now() < end, "the edge does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    free
}
