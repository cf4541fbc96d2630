//! What the edge gives up before its first client, whatever its unit gave it.
//!
//! - every capability, and the way to new privileges;
//! - files: Landlock, with no rule at all, so that nothing is opened, made, run or removed by name; no connection of TCP to
//!   anybody, no abstract Unix socket and no signal out of its domain, where the kernel knows these (Linux 5.13, 6.7, 6.12; versions 1,
//!   4 and 6 of Landlock). Where it does not, connections and abstract sockets stay, and the line that is logged says so;
//! - system calls: a list of what an event loop with sockets needs, where everything else is EPERM: no file that is opened or removed,
//!   no signal, no program, no process, no thread, no other kind of socket, no memory that is made executable;
//! - core dumps and tracing by its own user: the node's key is in its memory.
//!
//! What is left is what it has open, Unix sockets by path where the folder lets its user in, and clients that come. Sources:
//! landlock(7), seccomp(2), prctl(2), getrlimit(2).

use std::collections::BTreeMap;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Gives it up, for this thread and those that it makes, and says in one line what holds.
///
/// # Errors
/// What could not be given up. A kernel without Landlock is no error: the line says so.
pub fn confine() -> Result<String, String> {
    give_up(Sockets::Streams)
}

/// The same, and with it every new socket: what is open is what there is.
///
/// # Errors
/// As [`confine`].
pub fn confine_without_sockets() -> Result<String, String> {
    give_up(Sockets::None)
}

/// Which sockets may still be made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sockets {
    /// Streams of Unix or TCP.
    Streams,
    None,
}

fn give_up(sockets: Sockets) -> Result<String, String> {
    fn told<E: core::fmt::Display>(what: &'static str) -> impl Fn(E) -> String {
        move |e| format!("cannot give up {what}: {e}")
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Its unit may have forbidden even to ask, and then there is nothing to give up.
    if capabilities(None).map_err(told("capabilities"))? != none {
        set_capabilities(None, none).map_err(told("capabilities"))?;
    }
    set_no_new_privs(true).map_err(told("new privileges"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(told("core dumps"))?;
    for limit in [Resource::Core, Resource::Nproc] {
        setrlimit(limit, Rlimit { current: Some(0), maximum: Some(0) }).map_err(told("limits"))?;
    }
    let files = files().map_err(told("files"))?;
    // Last, because the others are system calls too.
    seccompiler::apply_filter(&filter(sockets).map_err(told("system calls"))?)
        .map_err(told("system calls"))?;
    Ok(format!("confined: no capabilities, system calls by list, {files}"))
}

fn files() -> Result<String, landlock::RulesetError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V6))?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?
        .restrict_self()?;
    Ok(held(status.ruleset, status.landlock.into()))
}

/// What holds, and what a kernel that knows less of Landlock leaves.
fn held(ruleset: RulesetStatus, abi: ABI) -> String {
    let version = abi as i32;
    match (ruleset, abi) {
        (RulesetStatus::NotEnforced, _) => {
            "no files but by the list (there is no Landlock here: connections and abstract sockets stay)"
                .to_owned()
        }
        (RulesetStatus::FullyEnforced, _) => "no files and no connections (Landlock, all of it)".to_owned(),
        (RulesetStatus::PartiallyEnforced, abi) if abi >= ABI::V4 => {
            format!(
                "no files and no connections (Landlock {version}; abstract sockets stay, for which it takes 6)"
            )
        }
        (RulesetStatus::PartiallyEnforced, _) => format!(
            "no files (Landlock {version}; connections stay, for which it takes 4, and abstract sockets, for which it takes 6)"
        ),
    }
}

/// System calls that are taken with any arguments.
const CALLS: &[libc::c_long] = &[
    // sockets and what is open
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_fcntl,
    // the event loop
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // memory, apart from what is made executable
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // time, random numbers, signals, the end
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What makes another connection.
const CONNECTING: &[libc::c_long] = &[libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept4];

/// System calls that are taken where an older name is still used.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[libc::c_long] = &[libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[libc::c_long] = &[];

fn filter(sockets: Sockets) -> Result<BpfProgram, seccompiler::BackendError> {
    let is = |argument, op, value: libc::c_int| {
        SeccompCondition::new(argument, Len::Dword, op, u64::from(value.unsigned_abs()))
    };
    let masked = |mask: libc::c_int| Op::MaskedEq(u64::from(mask.unsigned_abs()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    if sockets == Sockets::Streams {
        rules.extend(CONNECTING.iter().map(|call| (*call, Vec::new())));
        // A stream of Unix or TCP; without the flags that are in the type (socket(2)).
        let kind = masked(0xf);
        rules.insert(
            libc::SYS_socket,
            [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6]
                .into_iter()
                .map(|family| {
                    SeccompRule::new(vec![is(0, Op::Eq, family)?, is(1, kind.clone(), libc::SOCK_STREAM)?])
                })
                .collect::<Result<_, _>>()?,
        );
    }
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![SeccompRule::new(vec![is(2, masked(libc::PROT_EXEC), 0)?])?]);
    }
    // FIONBIO, which fits: the numbers of ioctl(2) are 32 bits.
    let nonblocking = SeccompCondition::new(1, Len::Dword, Op::Eq, libc::FIONBIO)?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(vec![nonblocking])?]);
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, errno, SeccompAction::Allow, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_does_not_know_is_said() {
        use RulesetStatus::{FullyEnforced, NotEnforced, PartiallyEnforced};
        for (status, abi, stays) in [
            (FullyEnforced, ABI::V6, [false, false]),
            (FullyEnforced, ABI::V7, [false, false]),
            // Ubuntu 24.04, Debian 12 and the first of all.
            (PartiallyEnforced, ABI::V5, [false, true]),
            (PartiallyEnforced, ABI::V4, [false, true]),
            (PartiallyEnforced, ABI::V3, [true, true]),
            (PartiallyEnforced, ABI::V2, [true, true]),
            (PartiallyEnforced, ABI::V1, [true, true]),
            (NotEnforced, ABI::Unsupported, [true, true]),
        ] {
            let line = held(status, abi);
            let (_, open) = line.split_once('(').unwrap();
            assert_eq!(["connections", "abstract sockets"].map(|what| open.contains(what)), stays, "{line}");
            assert_eq!(line.contains("no connections"), !stays[0], "{line}");
            assert!(line.starts_with("no files"), "{line}");
        }
    }
}
