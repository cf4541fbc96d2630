//! Against real sshd, ssh-agent and ssh-keygen, and against peers that break the rules.
#![allow(clippy::disallowed_methods, reason = "tests run the real programs")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, which clippy does not count as tests"
)]

mod attempts;
mod chain;
mod exec;
mod hostile;
mod identities;
mod rogue;
mod trust;

use core::time::Duration;
use muster_ssh::{Keepalive, RetryPolicy, Timing};

/// Short deadlines and no retries: a test that must fail should do so soon, and once.
fn brisk() -> Timing {
    let second = Duration::from_secs(1);
    Timing {
        connect: second * 5,
        handshake: second * 10,
        auth: second * 20,
        channel: second * 10,
        keepalive: Keepalive { interval: second * 5, max: 3 },
        retry: RetryPolicy { attempts: 1, first_delay: second / 20, max_delay: second, within: second * 20 },
    }
}

/// Runs the test of this name again in a process of its own, where no other test disturbs what is
/// measured of the process. `true` = this is that process.
fn alone(name: &str) -> bool {
    if std::env::var_os("MUSTER_TEST_ALONE").is_some() {
        return true;
    }
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("MUSTER_TEST_ALONE", "1")
        .output()
        .unwrap();
    let (said, cried) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.contains("1 passed"), "{said}\n{cried}");
    eprintln!("{cried}");
    false
}

/// Returns when a watch has set `begun`: what is then done to a host is done to a command that runs.
async fn when(begun: &core::sync::atomic::AtomicBool) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !begun.load(core::sync::atomic::Ordering::SeqCst) {
        assert!(std::time::Instant::now() < until, "the command never began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// This process's resident bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
