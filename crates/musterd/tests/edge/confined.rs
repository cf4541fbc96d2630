//! What the edge cannot do, tried after it gave it up, in a process of its own; and what it still can.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;

use crate::core::Core;
use crate::process::Edge;

const WHERE: &str = "MUSTER_TEST_CONFINED";

/// The other process: the folder of the test, and an address that listens outside.
fn child() -> Option<(PathBuf, SocketAddr)> {
    let told = std::env::var(WHERE).ok()?;
    let (folder, address) = told.split_once('|')?;
    Some((folder.into(), address.parse().ok()?))
}

/// The version of this kernel's Landlock, 0 where there is none (`landlock_create_ruleset(2)`).
#[allow(unsafe_code, reason = "no crate tells it without giving something up")]
fn landlock() -> i32 {
    const VERSION: libc::c_ulong = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes no pointer and no size, and changes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// What takes which version of Landlock.
const TCP: i32 = 4;
const ABSTRACT: i32 = 6;

/// A listener that has no file, by a name of this test's own.
fn abstract_name(folder: &std::path::Path) -> UnixAddr {
    UnixAddr::from_abstract_name(folder.as_os_str().as_encoded_bytes()).expect("a name")
}

#[test]
fn m15_a_confined_edge_has_no_file_no_program_and_no_way_out() {
    if let Some((folder, address)) = child() {
        tries(&folder, address);
        std::process::exit(77);
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "secret").expect("a file");
    let outside = TcpListener::bind("127.0.0.1:0").expect("a port");
    let unix = UnixListener::bind(folder.path().join("core.sock")).expect("a socket");
    let _abstract = UnixListener::bind_addr(&abstract_name(folder.path())).expect("a socket");
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = unix.accept().expect("the child");
        stream.write_all(b"frame").expect("the child");
    });
    let told = format!("{}|{}", folder.path().display(), outside.local_addr().expect("a port"));
    let out = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "confined::m15_a_confined_edge_has_no_file_no_program_and_no_way_out",
            "--nocapture",
        ])
        .env(WHERE, told)
        .output()
        .expect("it starts");
    assert_eq!(out.status.code(), Some(77), "{out:?}");
    answering.join().expect("the child connected");
    assert!(!folder.path().join("new").exists());
    for (what, takes) in [("connections of TCP", TCP), ("abstract sockets of Unix", ABSTRACT)] {
        if landlock() < takes {
            let has = landlock();
            muster_needs::skip_part(&format!(
                "{what} were not judged: that takes version {takes} of Landlock, and this kernel has {has}"
            ));
        }
    }
}

/// In the child. A panic is no 77.
fn tries(folder: &std::path::Path, address: SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, socket};
    let mut inherited = std::fs::File::open(folder.join("file")).expect("before");
    let version = landlock();
    let before = UnixStream::connect_addr(&abstract_name(folder)).expect("before");
    let line = musterd::edge::confine::confine().expect("confined");
    let said = match version {
        0 => "there is no Landlock here".to_owned(),
        ABSTRACT.. => "(Landlock, all of it)".to_owned(),
        older => format!("(Landlock {older};"),
    };
    assert!(line.contains(&said), "version {version}: {line}");
    drop(before);

    // Files: none by name, not even to look.
    assert!(std::fs::File::open(folder.join("file")).is_err());
    assert!(std::fs::write(folder.join("new"), "x").is_err());
    assert!(std::fs::remove_file(folder.join("file")).is_err());
    assert!(std::fs::read_dir(folder).is_err());
    assert!(std::fs::read_to_string("/proc/self/environ").is_err());
    assert!(std::fs::rename(folder.join("file"), folder.join("new")).is_err());
    // Programs, processes and threads.
    assert!(Command::new("/bin/true").status().is_err());
    assert!(std::thread::Builder::new().spawn(|| {}).is_err());
    let target = rustix::process::getpid();
    assert!(rustix::process::kill_process(target, rustix::process::Signal::USR1).is_err());
    // The network: streams that come in, and nothing that goes out.
    assert_eq!(TcpStream::connect(address).is_err(), version >= TCP, "version {version}");
    let reached = UnixStream::connect_addr(&abstract_name(folder));
    assert_eq!(reached.is_err(), version >= ABSTRACT, "version {version}");
    assert!(UdpSocket::bind("127.0.0.1:0").is_err());
    for (family, kind) in [
        (AddressFamily::NETLINK, SocketType::RAW),
        (AddressFamily::PACKET, SocketType::RAW),
        (AddressFamily::INET, SocketType::RAW),
        (AddressFamily::VSOCK, SocketType::STREAM),
        (AddressFamily::UNIX, SocketType::DGRAM),
    ] {
        assert!(socket(family, kind, None).is_err(), "{family:?}");
    }
    // More than it has.
    assert!(rustix::thread::capabilities(None).is_err());

    // What its work needs goes on: what is open, the core's socket, clients.
    let mut text = String::new();
    inherited.read_to_string(&mut text).expect("what is open stays open");
    assert_eq!(text, "secret");
    let mut core = UnixStream::connect(folder.join("core.sock")).expect("the core");
    let mut frame = [0; 5];
    core.read_exact(&mut frame).expect("the core");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.set_nonblocking(true).expect("ioctl FIONBIO");
    assert!(listener.accept().is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
    println!("{line}");
}

/// A kernel without Landlock, for which a filter stands that knows none of its calls: what the list of calls takes is taken all the same,
/// and the line says what stays.
#[test]
fn m15_without_landlock_the_list_of_calls_holds_and_the_line_says_what_stays() {
    if let Some((folder, address)) = child() {
        without(&folder, address);
        std::process::exit(77);
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "secret").expect("a file");
    let outside = TcpListener::bind("127.0.0.1:0").expect("a port");
    let told = format!("{}|{}", folder.path().display(), outside.local_addr().expect("a port"));
    let out = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "confined::m15_without_landlock_the_list_of_calls_holds_and_the_line_says_what_stays",
            "--nocapture",
        ])
        .env(WHERE, told)
        .output()
        .expect("it starts");
    assert_eq!(out.status.code(), Some(77), "{out:?}");
    assert_eq!(std::fs::read(folder.path().join("file")).expect("a file"), b"secret");
    assert!(!folder.path().join("new").exists());
}

/// In the child. A panic is no 77.
fn without(folder: &std::path::Path, address: SocketAddr) {
    use seccompiler::{SeccompAction, SeccompFilter};
    let calls =
        [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];
    let unknown = SeccompFilter::new(
        calls.into_iter().map(|call| (call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
        std::env::consts::ARCH.try_into().expect("an architecture"),
    );
    let unknown: seccompiler::BpfProgram = unknown.expect("a filter").try_into().expect("a filter");
    rustix::thread::set_no_new_privs(true).expect("before");
    seccompiler::apply_filter(&unknown).expect("before");
    assert_eq!(landlock(), 0);
    let line = musterd::edge::confine::confine().expect("no Landlock is no error");
    assert!(line.contains("there is no Landlock here: connections and abstract sockets stay"), "{line}");
    assert!(std::fs::File::open(folder.join("file")).is_err());
    assert!(std::fs::write(folder.join("new"), "x").is_err());
    assert!(std::fs::remove_file(folder.join("file")).is_err());
    assert!(std::fs::rename(folder.join("file"), folder.join("new")).is_err());
    assert!(Command::new("/bin/true").status().is_err());
    assert!(std::thread::Builder::new().spawn(|| {}).is_err());
    assert!(UdpSocket::bind("127.0.0.1:0").is_err());
    // As the line says: this is what such a kernel leaves a fallen edge.
    assert!(TcpStream::connect(address).is_ok());
}

/// What a fetcher has when it reads the first byte of a server: what is open, and nothing new.
#[test]
fn a_confined_fetcher_has_no_new_socket_either() {
    if let Some((folder, address)) = child() {
        fetches(&folder, address);
        std::process::exit(77);
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "secret").expect("a file");
    let outside = TcpListener::bind("127.0.0.1:0").expect("a port");
    let _core = UnixListener::bind(folder.path().join("core.sock")).expect("a socket");
    let told = format!("{}|{}", folder.path().display(), outside.local_addr().expect("a port"));
    let out = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "confined::a_confined_fetcher_has_no_new_socket_either", "--nocapture"])
        .env(WHERE, told)
        .output()
        .expect("it starts");
    assert_eq!(out.status.code(), Some(77), "{out:?}");
}

/// In the child. A panic is no 77.
fn fetches(folder: &std::path::Path, address: SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, socket};
    let mut server = TcpStream::connect(address).expect("before");
    let unconnected = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("before");
    let bound = TcpListener::bind("127.0.0.1:0").expect("before");
    musterd::edge::confine::confine_without_sockets().expect("confined");
    for family in [AddressFamily::UNIX, AddressFamily::INET, AddressFamily::INET6, AddressFamily::NETLINK] {
        for kind in [SocketType::STREAM, SocketType::DGRAM] {
            assert!(socket(family, kind, None).is_err(), "{family:?} {kind:?}");
        }
    }
    let core = rustix::net::SocketAddrUnix::new(folder.join("core.sock")).expect("a path");
    assert!(rustix::net::connect(&unconnected, &core).is_err(), "nor is one used that it had");
    assert!(rustix::net::listen(&bound, 1).is_err() && bound.accept().is_err());
    assert!(std::fs::File::open(folder.join("file")).is_err());
    assert!(std::fs::write(folder.join("new"), "x").is_err());
    assert!(Command::new("/bin/true").status().is_err());
    assert!(std::thread::Builder::new().spawn(|| {}).is_err());
    server.write_all(b"goes on").expect("what is open stays open");
}

#[test]
fn the_program_is_confined_before_its_first_client() {
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let _ = edge.address();
    let status = std::fs::read_to_string(format!("/proc/{}/status", edge.child.id())).expect("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_else(|| panic!("{status}"));
        line.trim_start_matches(':').trim().to_owned()
    };
    assert_eq!(field("Seccomp"), "2");
    assert_eq!(field("NoNewPrivs"), "1");
    assert_eq!(field("Threads"), "1");
    for set in ["CapEff", "CapPrm", "CapInh"] {
        assert_eq!(field(set).trim_start_matches('0'), "", "{set}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", edge.child.id())).expect("limits");
    let core_size = limits.lines().find(|l| l.starts_with("Max core file size")).expect("a line");
    assert_eq!(core_size.split_whitespace().nth(4), Some("0"), "{core_size}");
}
