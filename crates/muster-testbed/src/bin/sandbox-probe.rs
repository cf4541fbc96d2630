//! Tries what a sandbox forbids, from inside it, and says what came of each attempt: `NAME ok`, `NAME EPERM`, `NAME killed`.
//!
//! Run on a node by the tests of the units, with the names of the attempts as arguments. Each attempt is made in a child of its own,
//! so that what is ended by a signal ends nothing else. Nothing is changed that outlives it but files that it names `sandbox-probe`.
//!
//! Sources: the manual page of each system call; systemd.exec(5) for what each setting forbids.

#![allow(unsafe_code, reason = "system calls that have no safe interface are what is tried")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each takes numbers, or what lives as long as the call; a test's own process"
)]
#![allow(clippy::disallowed_methods, reason = "running a program is one of the attempts")]

use std::ffi::{CString, c_int, c_long, c_ulong, c_void};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::{env, fs, process, ptr};

type Tried = io::Result<()>;
/// A name, and what is tried by it.
type Named = (&'static str, fn() -> Tried);

/// What is tried, by name. What a test puts there beforehand is said with it.
const ATTEMPTS: &[Named] = &[
    ("write-usr", || make("/usr")),
    ("write-etc", || make("/etc")),
    ("write-var", || make("/var")),
    ("write-etc-muster", || make("/etc/muster")),
    ("write-run-muster", || make("/run/muster")),
    ("write-state", || make("/var/lib/muster")),
    // A home with a file in it.
    ("read-home", || fs::read("/home/probe/file").map(drop)),
    // A file in the machine's own /tmp.
    ("see-tmp", || fs::metadata("/tmp/sandbox-probe-outside").map(drop)),
    ("read-shadow", || fs::read("/etc/shadow").map(drop)),
    ("see-etc-muster", || mark("/etc/muster")),
    ("see-state", || mark("/var/lib/muster")),
    ("see-run-muster", || mark("/run/muster")),
    ("see-root", || mark("/root")),
    ("see-boot", || mark("/boot")),
    ("see-mnt", || mark("/mnt")),
    ("see-media", || mark("/media")),
    ("see-srv", || mark("/srv")),
    // A file of mode 0600 of another user, not in a folder that is private to a unit.
    ("read-foreign", || fs::read("/opt/sandbox-probe-foreign").map(drop)),
    ("kernel-tunable", || fs::OpenOptions::new().write(true).open("/proc/sys/net/ipv4/ip_forward").map(drop)),
    ("see-modules", || mark("/usr/lib/modules")),
    ("kernel-log", kernel_log),
    ("make-cgroup", make_cgroup),
    ("host-name", host_name),
    ("clock", clock),
    ("user-namespace", || unshare(libc::CLONE_NEWUSER)),
    ("mount-namespace", || unshare(libc::CLONE_NEWNS)),
    ("network-namespace", || unshare(libc::CLONE_NEWNET)),
    ("process-namespace", || unshare(libc::CLONE_NEWPID)),
    ("ipc-namespace", || unshare(libc::CLONE_NEWIPC)),
    ("name-namespace", || unshare(libc::CLONE_NEWUTS)),
    ("cgroup-namespace", || unshare(libc::CLONE_NEWCGROUP)),
    ("realtime", realtime),
    ("setuid-file", setuid_file),
    ("personality", personality),
    ("write-and-execute", write_and_execute),
    ("execute-later", execute_later),
    ("other-architecture", other_architecture),
    ("mount", mount),
    ("priority", || done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) })),
    ("change-owner", change_owner),
    ("change-user", || done(unsafe { libc::setresuid(u32::MAX, u32::MAX, u32::MAX) })),
    ("capset", capset),
    ("trace-another", trace_another),
    ("signal-another", || done(unsafe { libc::kill(1, 0) })),
    ("make-device", make_device),
    ("setuid-program", setuid_program),
    // A device that a test made.
    ("see-device", || fs::metadata("/dev/sandbox-probe").map(drop)),
    ("landlock", landlock),
    ("reach-core", reach_core),
    ("reach-control", reach_control),
    ("heard-by-core", heard_by_core),
    ("socket-unix", || socket(libc::AF_UNIX)),
    ("socket-ipv4", || socket(libc::AF_INET)),
    ("socket-ipv6", || socket(libc::AF_INET6)),
    ("socket-netlink", || socket(libc::AF_NETLINK)),
    ("socket-packet", || socket(libc::AF_PACKET)),
    ("send-ip", send_ip),
    ("bind-ip", || std::net::TcpListener::bind("127.0.0.1:0").map(drop)),
    ("shared-memory", || done(unsafe { libc::shmget(SHM_KEY, 4096, 0) })),
    ("leave-shared-memory", || done(unsafe { libc::shmget(SHM_KEY + 1, 4096, libc::IPC_CREAT | 0o666) })),
    ("see-left-memory", || done(unsafe { libc::shmget(SHM_KEY + 1, 0, 0) })),
    ("see-init", || fs::read("/proc/1/stat").map(drop)),
    ("see-kernel", || fs::read("/proc/sys/kernel/osrelease").map(drop)),
    ("open-to-others", open_to_others),
    ("core-dumps", || limit(libc::RLIMIT_CORE)),
    ("many-files", many_files),
    ("last-to-be-ended", last_to_be_ended),
    ("twenty-processes", || processes(20)),
    ("many-processes", || processes(600)),
    ("much-memory", much_memory),
    ("run-a-program", || process::Command::new("/usr/bin/true").status().map(drop)),
];

/// Of the segment that a test makes outside.
const SHM_KEY: c_int = 0x6d75_7374;

fn main() {
    let mut args = env::args().skip(1).peekable();
    match args.peek().map(String::as_str) {
        // As the program of setuid-program: whether it became root.
        Some("am-i-root") => process::exit(i32::from(unsafe { libc::geteuid() } != 0)),
        Some("make-shared-memory") => {
            process::exit(i32::from(unsafe { libc::shmget(SHM_KEY, 4096, libc::IPC_CREAT | 0o666) } < 0))
        }
        Some("remove-left-memory") => {
            let left = unsafe { libc::shmget(SHM_KEY + 1, 0, 0) };
            unsafe { libc::shmctl(left, libc::IPC_RMID, ptr::null_mut()) };
            return;
        }
        _ => {}
    }
    for name in args {
        let Some((_, attempt)) = ATTEMPTS.iter().find(|(n, _)| *n == name) else {
            println!("{name} unknown");
            continue;
        };
        println!("{name} {}", in_a_child(*attempt));
    }
    let _ = io::stdout().flush();
}

/// The outcome of an attempt in a process of its own.
fn in_a_child(attempt: fn() -> Tried) -> String {
    let _ = io::stdout().flush();
    // SAFETY: this program has one thread.
    match unsafe { libc::fork() } {
        -1 => "nofork".to_owned(),
        0 => {
            let code = match attempt() {
                Ok(()) => 0,
                Err(e) => e.raw_os_error().unwrap_or(255),
            };
            // SAFETY: ends this process.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of ours, and a number of ours.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            if libc::WIFSIGNALED(status) {
                return "killed".to_owned();
            }
            match libc::WEXITSTATUS(status) {
                0 => "ok".to_owned(),
                code => named(code),
            }
        }
    }
}

fn named(code: i32) -> String {
    let name = match code {
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::EROFS => "EROFS",
        libc::ENOENT => "ENOENT",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EMFILE => "EMFILE",
        libc::EAGAIN => "EAGAIN",
        libc::ESRCH => "ESRCH",
        libc::ECONNRESET => "ECONNRESET",
        libc::ENOSYS => "ENOSYS",
        _ => return format!("error-{code}"),
    };
    name.to_owned()
}

/// Of a call that answers -1 where it fails.
fn done(answer: c_int) -> Tried {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn refused(code: c_int) -> Tried {
    Err(io::Error::from_raw_os_error(code))
}

/// A new file in a folder, taken away again.
fn make(folder: &str) -> Tried {
    let path = format!("{folder}/sandbox-probe");
    fs::write(&path, b"")?;
    fs::remove_file(path)
}

/// A file of this process's own. In /tmp, which is writable in every sandbox here.
fn own(mode: u32) -> io::Result<String> {
    let path = format!("/tmp/sandbox-probe-{}", process::id());
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path)?;
    Ok(path)
}

fn kernel_log() -> Tried {
    // nspawn(1) has a pipe in the place of the kernel's; opened so that nobody is waited for.
    let log = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/proc/kmsg")?;
    // What is laid over it has no mode at all, which root does not mind.
    if log.metadata()?.mode() & 0o777 == 0 { refused(libc::EACCES) } else { Ok(()) }
}

/// What a test put into each of these folders.
fn mark(folder: &str) -> Tried {
    fs::metadata(format!("{folder}/sandbox-probe-mark")).map(drop)
}

/// Asks which Landlock there is, which changes nothing.
fn landlock() -> Tried {
    // LANDLOCK_CREATE_RULESET_VERSION of <linux/landlock.h>
    // SAFETY: no rules, no length, a flag.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0, 1) };
    done(c_int::try_from(answer).unwrap_or(-1))
}

/// As whoever may reach the core, or may not: the folder of its socket says who.
fn reach_core() -> Tried {
    std::os::unix::net::UnixStream::connect("/run/muster/edge/core.sock").map(drop)
}

/// Whether the core waits for what is said to it, or closes the connection at once.
fn heard_by_core() -> Tried {
    let mut core = std::os::unix::net::UnixStream::connect("/run/muster/edge/core.sock")?;
    core.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
    match io::Read::read(&mut core, &mut [0u8; 1]) {
        Ok(_) => Err(io::Error::from_raw_os_error(libc::ECONNRESET)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(e) => Err(e),
    }
}

fn reach_control() -> Tried {
    std::os::unix::net::UnixStream::connect("/run/muster/control.sock").map(drop)
}

fn make_cgroup() -> Tried {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/");
    let path = format!("/sys/fs/cgroup{own}/sandbox-probe");
    fs::create_dir(&path)?;
    fs::remove_dir(path)
}

fn host_name() -> Tried {
    let name = fs::read_to_string("/etc/hostname")?;
    // SAFETY: the name lives as long as the call.
    done(unsafe { libc::sethostname(name.trim().as_ptr().cast(), name.trim().len()) })
}

/// Reads the state of the clock, which the settings forbid along with setting it: a test that sets a clock sets this machine's.
fn clock() -> Tried {
    // SAFETY: zeroes are a request that changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    done(unsafe { libc::adjtimex(&raw mut state) })
}

fn unshare(flags: c_int) -> Tried {
    // SAFETY: this process ends after it.
    done(unsafe { libc::unshare(flags) })
}

fn realtime() -> Tried {
    let wanted = libc::sched_param { sched_priority: 1 };
    done(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) })
}

fn setuid_file() -> Tried {
    let path = own(0o700)?;
    let changed = fs::set_permissions(&path, fs::Permissions::from_mode(0o4700));
    fs::remove_file(path)?;
    changed
}

fn personality() -> Tried {
    /// PER_LINUX32 of <sys/personality.h>.
    const OTHER: c_ulong = 0x0008;
    done(unsafe { libc::personality(OTHER) })
}

fn page(protection: c_int) -> io::Result<*mut c_void> {
    // SAFETY: a new mapping, nowhere in particular.
    let at = unsafe {
        libc::mmap(ptr::null_mut(), 4096, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at) }
}

fn write_and_execute() -> Tried {
    page(libc::PROT_WRITE | libc::PROT_EXEC).map(drop)
}

fn execute_later() -> Tried {
    let at = page(libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: a page of ours.
    done(unsafe { libc::mprotect(at, 4096, libc::PROT_READ | libc::PROT_EXEC) })
}

/// getpid(2) by the gate of 32-bit programs. Whoever filters them by architecture ends the process.
#[cfg(target_arch = "x86_64")]
fn other_architecture() -> Tried {
    let answer: c_long;
    // SAFETY: number 20 of i386 takes nothing and changes nothing.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _)
    };
    if answer > 0 { Ok(()) } else { refused(libc::ENOSYS) }
}

#[cfg(not(target_arch = "x86_64"))]
fn other_architecture() -> Tried {
    refused(libc::ENOSYS)
}

fn mount() -> Tried {
    let (kind, at) = (c"tmpfs", c"/mnt");
    done(unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) })?;
    done(unsafe { libc::umount(at.as_ptr()) })
}

/// To itself, which everybody may.
fn change_owner() -> Tried {
    let path = own(0o600)?;
    let meta = fs::metadata(&path)?;
    let changed = std::os::unix::fs::chown(&path, Some(meta.uid()), Some(meta.gid()));
    fs::remove_file(path)?;
    changed
}

/// Gives up what it has, which everybody may.
fn capset() -> Tried {
    // _LINUX_CAPABILITY_VERSION_3 of <linux/capability.h>; no process but this, no capability.
    let header = [0x2008_0522_u32, 0];
    let none = [0_u32; 6];
    // SAFETY: structures of ours, of the size that this version has.
    let answer = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    done(c_int::try_from(answer).unwrap_or(-1))
}

fn trace_another() -> Tried {
    // SAFETY: takes numbers; what was begun ends with this process.
    let answer = unsafe { libc::ptrace(libc::PTRACE_SEIZE, 1, 0, 0) };
    done(c_int::try_from(answer).unwrap_or(-1))?;
    // SAFETY: init was seized, and runs.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, 1, 0, 0) };
    Ok(())
}

fn make_device() -> Tried {
    let path = CString::new(format!("/tmp/sandbox-probe-device-{}", process::id()))?;
    // The numbers of /dev/null.
    done(unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 3)) })?;
    done(unsafe { libc::unlink(path.as_ptr()) })
}

/// Whether a program of root's that is setuid makes somebody else root. A test put it there.
fn setuid_program() -> Tried {
    const NOBODY: u32 = 65_534;
    if unsafe { libc::geteuid() } == 0 {
        done(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) })?;
        done(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) })?;
    }
    let ended = process::Command::new("/usr/local/bin/sandbox-probe-setuid").arg("am-i-root").status()?;
    if ended.success() { Ok(()) } else { refused(libc::EPERM) }
}

fn socket(family: c_int) -> Tried {
    // SAFETY: takes numbers; it is closed with this process.
    done(unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
}

fn send_ip() -> Tried {
    let from = std::net::UdpSocket::bind("127.0.0.1:0")?;
    from.send_to(b"x", "127.0.0.1:9").map(drop)
}

fn open_to_others() -> Tried {
    let path = own(0o666)?;
    let mode = fs::metadata(&path)?.mode();
    fs::remove_file(path)?;
    if mode & 0o077 == 0 { refused(libc::EACCES) } else { Ok(()) }
}

fn limits(of: u32) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    done(unsafe { libc::getrlimit(of, &raw mut limit) })?;
    Ok(limit)
}

/// Whether it may have more than nothing.
fn limit(of: u32) -> Tried {
    if limits(of)?.rlim_max == 0 { refused(libc::EPERM) } else { Ok(()) }
}

fn many_files() -> Tried {
    let mut all = limits(libc::RLIMIT_NOFILE)?;
    all.rlim_cur = all.rlim_max;
    // It may be forbidden, and then the limit is what it is.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const all) };
    (0..2100).try_for_each(|_| done(unsafe { libc::dup(0) }))
}

fn last_to_be_ended() -> Tried {
    let own: i32 = fs::read_to_string("/proc/self/oom_score_adj")?.trim().parse().unwrap_or(0);
    if own < 0 { Ok(()) } else { refused(libc::EPERM) }
}

/// As many at once, or the error of the first that there was no room for. They end with their parent's word.
fn processes(count: usize) -> Tried {
    let mut all = Vec::with_capacity(count);
    let mut made = Ok(());
    for _ in 0..count {
        match unsafe { libc::fork() } {
            -1 => {
                made = Err(io::Error::last_os_error());
                break;
            }
            0 => loop {
                // SAFETY: waits for the signal that ends it.
                unsafe { libc::pause() };
            },
            child => all.push(child),
        }
    }
    for child in all {
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
    made
}

fn much_memory() -> Tried {
    let mut all = vec![0_u8; 192 << 20];
    all.iter_mut().step_by(4096).for_each(|b| *b = 1);
    std::hint::black_box(all);
    Ok(())
}
