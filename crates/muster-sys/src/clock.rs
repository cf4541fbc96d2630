//! Clocks. Wall time is read once by a binary and passed on as a value.

use crate::SysError;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Seconds since 1970 by the wall clock; 0 for a clock before it.
pub fn unix_seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0)
}

/// Time since boot, with the time asleep (`CLOCK_BOOTTIME`): what deadlines count in.
pub fn since_boot() -> Duration {
    let t = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// `CLOCK_MONOTONIC`: what systemd's monotonic timestamps count in.
pub fn monotonic() -> Duration {
    let t = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// The kernel's id of this boot, 36 characters (`/proc/sys/kernel/random/boot_id`, random(4)).
pub fn boot_id() -> Result<String, SysError> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = crate::procfs::small(path).map_err(|e| SysError::at("read", path, e))?;
    let text = String::from_utf8_lossy(&text);
    let id = text.trim_end();
    if id.len() != 36 || !id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Err(SysError::at("read", path, std::io::Error::other("it holds no boot id")));
    }
    Ok(id.to_owned())
}

/// What names this boot of this machine: the kernel's id of its boot, and when process 1 was started, in clock ticks since then
/// (proc_pid_stat(5), field 22). The same as long as the machine runs, whatever process 1 executes anew; another one after a reboot,
/// also of a container, whose kernel has not booted and may show the same id as before. Without a `/proc` that shows process 1
/// it is the kernel's id alone.
pub fn this_boot() -> Result<String, SysError> {
    Ok(name_boot(&boot_id()?, crate::procfs::Stat::of(1).map(|init| init.start)))
}

/// The name of a boot, by the kernel's id and the start of process 1 in clock ticks.
pub fn name_boot(kernel: &str, init: Option<u64>) -> String {
    init.map_or_else(|| kernel.to_owned(), |start| format!("{kernel}.{start}"))
}

/// Seconds of so many clock ticks (`_SC_CLK_TCK` of sysconf(3)), in which `/proc` counts when a process was started.
pub fn seconds_of_ticks(ticks: u64) -> u64 {
    // SAFETY: a number of a constant; no memory is passed.
    #[allow(unsafe_code)]
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks / u64::try_from(per_second).unwrap_or(0).max(1)
}

/// Whether the kernel believes that its clock is synchronised: `STA_UNSYNC` of adjtimex(2).
/// `None` when it does not say.
pub fn synchronised() -> Option<bool> {
    // SAFETY: `timex` is plain old data for which all zero bytes are valid; `modes` zero only reads.
    #[allow(unsafe_code)]
    let (state, status) = unsafe {
        let mut t: libc::timex = std::mem::zeroed();
        let state = libc::adjtimex(&mut t);
        (state, t.status)
    };
    if state < 0 { None } else { Some(status & libc::STA_UNSYNC == 0) }
}

/// What a civil time of this machine (`/etc/localtime`, tzset(3)) is in seconds since 1970, as
/// OpenSSH reads `valid-before` without `Z`. `None` when there is no such second, or when `TZ`
/// is set in the environment: the machine's time zone is asked for, never a caller's.
pub fn machine_local_to_unix(y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<u64> {
    if std::env::var_os("TZ").is_some() {
        return None;
    }
    caller_local_to_unix(y, mo, d, h, mi, s)
}

/// The same where the caller's `TZ` counts, as in the tools that an operator runs for himself. Never
/// for a decision on a host.
pub fn caller_local_to_unix(y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<u64> {
    let int = |v: u64| i32::try_from(v).ok();
    // SAFETY: `tm` is plain old data (its `tm_zone` may be null on input); mktime(3) reads and
    // normalises the value that it is given and keeps no pointer to it.
    #[allow(unsafe_code)]
    let secs = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        tm.tm_year = int(y)?.checked_sub(1900)?;
        tm.tm_mon = int(mo)?.checked_sub(1)?;
        tm.tm_mday = int(d)?;
        tm.tm_hour = int(h)?;
        tm.tm_min = int(mi)?;
        tm.tm_sec = int(s)?;
        tm.tm_isdst = -1;
        libc::mktime(&mut tm)
    };
    u64::try_from(secs).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_move_and_boot_id_has_its_form() {
        assert!(unix_seconds() > 1_700_000_000);
        let a = since_boot();
        assert!(since_boot() >= a && a > Duration::ZERO);
        let id = boot_id().unwrap();
        assert_eq!(id.len(), 36);
        assert!(id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'));
        // Where the kernel answers at all, it gives one of two answers.
        let _: Option<bool> = synchronised();
    }

    /// Set for the child of the next test.
    const ASKED: &str = "MUSTER_TEST_THIS_BOOT";

    #[test]
    fn this_boot_is_printed_for_the_next_test() {
        if std::env::var_os(ASKED).is_some() {
            println!("boot={}", this_boot().unwrap());
        }
        assert_eq!(this_boot().unwrap(), this_boot().unwrap());
    }

    /// Two containers one after the other on one kernel: the kernel's id is the same, and the boots are two.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a container is what unshare makes")]
    fn m17_a_container_that_boots_anew_is_another_boot_under_the_same_kernel() {
        muster_needs::require!(muster_needs::root());
        muster_needs::require!(muster_needs::tool("/usr/bin/unshare", "util-linux"));
        let boot = || {
            // What it was started as lives on when it executes something else, as init does when it reloads itself.
            let script = "\"$0\" --exact clock::tests::this_boot_is_printed_for_the_next_test --nocapture; \
                exec \"$0\" --exact clock::tests::this_boot_is_printed_for_the_next_test --nocapture";
            let out = std::process::Command::new("/usr/bin/unshare")
                .args(["--pid", "--fork", "--mount-proc", "/bin/sh", "-c", script])
                .arg(std::env::current_exe().unwrap())
                .env(ASKED, "1")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let said = text.split("boot=").skip(1).filter_map(|t| t.split_whitespace().next());
            let said: Vec<String> = said.map(str::to_owned).collect();
            assert_eq!(said.len(), 2, "{text} {}", String::from_utf8_lossy(&out.stderr));
            assert_eq!(said[0], said[1], "init that executes itself anew is no boot");
            std::thread::sleep(Duration::from_millis(30));
            said[0].clone()
        };
        let (first, second) = (boot(), boot());
        let kernel = boot_id().unwrap();
        assert!(first.starts_with(&kernel) && second.starts_with(&kernel), "{first} {second}");
        assert_ne!(first, second);
        assert_ne!(first, this_boot().unwrap());
    }

    #[test]
    fn s1_local_time_is_the_machines() {
        let got = machine_local_to_unix(2027, 1, 1, 0, 0, 0);
        assert_eq!(got.is_none(), std::env::var_os("TZ").is_some(), "the caller's TZ is no part of it");
        let got = muster_needs::require!(
            got.ok_or("TZ is set, so that local time is not the machine's".to_owned())
        );
        // 2027-01-01T00:00:00Z, give or take the widest zone.
        assert!(got.abs_diff(1_798_761_600) <= 14 * 3600, "{got}");
    }
}
