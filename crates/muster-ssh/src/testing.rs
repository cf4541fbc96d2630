//! Real `sshd`, `ssh-agent` and `ssh-keygen` for tests, here and in other crates. Behind the feature
//! `testing`; never in a shipped binary.
//!
//! Each [`Sshd`] lives in a temporary directory of its own on a port of its own, on loopback, as the
//! user who runs the test (root or not), and takes its sessions with it when it is dropped. It logs to
//! a file, so that what it said before it answered has been said when its answer is there.
//!
//! `MUSTER_TEST_SSHD_ROOT` names the root file system of another Debian release (made by debootstrap
//! with openssh-server, and with this machine's `/tmp` mounted on its `/tmp`), whose sshd is then run
//! in place of this machine's: the whole suite against another version of OpenSSH. It needs root.
#![allow(clippy::disallowed_methods, reason = "tests run the real programs")]
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot set up must fail, and say where")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use muster_core::UtcTime;
use tempfile::TempDir;

use crate::{Address, Client, Fingerprint, Hop, HostTrust, Identity, Passphrase};

/// What a test against a real sshd needs.
///
/// # Errors
///
/// What is missing, as the reason why the test cannot run.
pub fn sshd_here() -> Result<(), String> {
    let needed = ["/usr/sbin/sshd", "/usr/bin/ssh-keygen", "/usr/bin/ssh-agent", "/usr/bin/ssh-add"];
    match needed.into_iter().find(|p| !Path::new(p).exists()) {
        None => Ok(()),
        Some(p) => Err(format!("{p} is not installed (apt install openssh-server)")),
    }
}

/// Ends the test as skipped, with the reason, where sshd is missing. Under `CI` it fails instead. The caller's tests need
/// `muster-needs`; this crate does not, as it ships.
#[macro_export]
macro_rules! require_sshd_or_skip {
    () => {
        ::muster_needs::require!($crate::testing::sshd_here())
    };
}

/// The clock of this machine.
pub fn now() -> UtcTime {
    UtcTime::from_unix(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

/// A client with the clock of this machine.
pub fn client() -> Client {
    Client::new(now)
}

/// The user who runs the test.
pub fn user() -> String {
    let out = Command::new("/usr/bin/id").arg("-un").output().expect("id runs");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Runs a program to its end and gives its standard output; it must succeed.
pub fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {}: {err}", out.status);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A key pair in files.
#[derive(Clone, Debug)]
pub struct KeyPair {
    /// The private key; the public one is beside it with `.pub`.
    pub path: PathBuf,
}

impl KeyPair {
    /// `ssh-keygen -t kind`, where kind may carry bits: `ed25519`, `ecdsa-384`, `rsa-3072`.
    pub fn generate(dir: &Path, name: &str, kind: &str) -> Self {
        Self::generate_with(dir, name, kind, "")
    }

    /// The same, encrypted with a passphrase.
    pub fn generate_with(dir: &Path, name: &str, kind: &str, passphrase: &str) -> Self {
        let path = dir.join(name);
        let shown = path.to_str().expect("a UTF-8 path");
        let (kind, bits) = kind.split_once('-').unwrap_or((kind, ""));
        let mut args = vec!["-q", "-t", kind, "-N", passphrase, "-C", name, "-f", shown];
        if !bits.is_empty() {
            args.extend(["-b", bits]);
        }
        run("/usr/bin/ssh-keygen", &args);
        Self { path }
    }

    /// The public key's line.
    pub fn public(&self) -> String {
        let text = std::fs::read_to_string(self.public_path()).expect("the public key is there");
        text.trim().to_owned()
    }

    /// The public key's file.
    pub fn public_path(&self) -> PathBuf {
        with_suffix(&self.path, ".pub")
    }

    /// Its fingerprint, as `ssh-keygen` says.
    pub fn fingerprint(&self) -> Fingerprint {
        let path = self.public_path();
        let line = run("/usr/bin/ssh-keygen", &["-l", "-E", "sha256", "-f", path.to_str().expect("UTF-8")]);
        let word = line.split_ascii_whitespace().nth(1).expect("a second word");
        Fingerprint::parse(word).expect("a fingerprint")
    }

    /// Signs `subject`'s public key and gives the certificate's file. `args` are what `ssh-keygen -s`
    /// takes beside: `-h`, `-n`, `-V`, `-O`, `-z`.
    pub fn certify(&self, subject: &Self, id: &str, args: &[&str]) -> PathBuf {
        let (ca, public) = (self.path.clone(), subject.public_path());
        let mut all = vec!["-q", "-s", ca.to_str().expect("UTF-8"), "-I", id];
        all.extend(args);
        all.push(public.to_str().expect("UTF-8"));
        run("/usr/bin/ssh-keygen", &all);
        with_suffix(&subject.path, "-cert.pub")
    }

    /// As an identity, with no certificate that may lie beside it.
    pub fn identity(&self) -> Identity {
        let pem = std::fs::read(&self.path).expect("the private key is there");
        Identity::key(&format!("file {}", self.path.display()), &pem, Passphrase::None).expect("a usable key")
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// What an [`Sshd`] is to be.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where it listens; `127.0.0.1` unless set.
    pub listen: IpAddr,
    /// Kinds of host key, as [`KeyPair::generate`] takes them.
    pub host_keys: Vec<String>,
    /// Further lines for its configuration. First match wins, and these stand first.
    pub config: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            host_keys: vec!["ed25519".to_owned()],
            config: Vec::new(),
        }
    }
}

/// A running sshd.
pub struct Sshd {
    dir: TempDir,
    child: Child,
    listen: IpAddr,
    port: u16,
    host_keys: Vec<KeyPair>,
    login: KeyPair,
    log: PathBuf,
}

impl core::fmt::Debug for Sshd {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Sshd({}:{})", self.listen, self.port)
    }
}

impl Sshd {
    /// With one Ed25519 host key, on 127.0.0.1.
    pub fn start() -> Self {
        Self::start_with(Setup::default())
    }

    /// As asked. A login key is made and authorized for the user who runs the test.
    pub fn start_with(setup: Setup) -> Self {
        let dir = TempDir::with_prefix("muster-sshd-").expect("a temporary directory");
        let host_keys: Vec<KeyPair> =
            setup.host_keys.iter().map(|k| KeyPair::generate(dir.path(), &format!("host_{k}"), k)).collect();
        let login = KeyPair::generate(dir.path(), "login", "ed25519");
        Self::start_in(dir, &setup, host_keys, login)
    }

    /// With keys that exist already.
    pub fn start_in(dir: TempDir, setup: &Setup, host_keys: Vec<KeyPair>, login: KeyPair) -> Self {
        let authorized = dir.path().join("authorized_keys");
        std::fs::write(&authorized, format!("{}\n", login.public())).expect("authorized_keys is written");
        if user() == "root" {
            std::fs::create_dir_all("/run/sshd").expect("/run/sshd");
        }
        for _ in 0..20 {
            // Somebody else may take the port before sshd does: then another one.
            let port = free_port(setup.listen);
            let config = write_config(dir.path(), setup, port, &host_keys, &authorized);
            if let Some((child, log)) = spawn(&config) {
                return Self { dir, child, listen: setup.listen, port, host_keys, login, log };
            }
        }
        panic!("sshd does not start in {}", dir.path().display());
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn address(&self) -> Address {
        Address::Ip(self.listen)
    }

    /// A directory that lives as long as it does.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its host keys, in the order of the setup.
    pub fn host_keys(&self) -> &[KeyPair] {
        &self.host_keys
    }

    /// The first host key.
    pub fn host_key(&self) -> &KeyPair {
        self.host_keys.first().expect("an sshd has a host key")
    }

    /// The key that may log in.
    pub fn login(&self) -> &KeyPair {
        &self.login
    }

    /// Its first host key, pinned.
    pub fn trust(&self) -> HostTrust {
        HostTrust::parse(&self.host_key().public()).expect("a host key to pin")
    }

    /// A hop to it: pinned, with the login key, as the user who runs the test.
    pub fn hop(&self, name: &str) -> Hop {
        self.hop_with(name, self.trust()).identity(self.login.identity())
    }

    /// A hop to it without an identity.
    pub fn hop_with(&self, name: &str, trust: HostTrust) -> Hop {
        Hop::new(name, self.address(), user(), trust).port(self.port)
    }

    /// The listener's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Every process of every session.
    pub fn session_pids(&self) -> Vec<u32> {
        descendants(self.child.id())
    }

    /// Sends a signal to all sessions (not to the listener): `STOP`, `CONT`, `KILL`.
    pub fn signal_sessions(&self, signal: &str) {
        for pid in self.session_pids() {
            signal_pid(pid, signal);
        }
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        read_log(&self.log)
    }

    /// Waits until the log holds `text`.
    pub fn wait_log(&self, text: &str) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if self.log().contains(text) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Replaces what may log in: `authorized_keys` lines.
    pub fn authorize(&self, lines: &str) {
        std::fs::write(self.dir.path().join("authorized_keys"), lines).expect("authorized_keys is written");
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        for pid in self.session_pids() {
            signal_pid(pid, "KILL");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the sshd under test knows a line of configuration.
pub fn knows(line: &str) -> bool {
    let dir = TempDir::with_prefix("muster-sshd-").expect("a temporary directory");
    let key = KeyPair::generate(dir.path(), "host", "ed25519");
    let config = dir.path().join("config");
    std::fs::write(&config, format!("{line}\nHostKey {}\n", key.path.display()))
        .expect("a config is written");
    let out = sshd().arg("-t").arg("-f").arg(&config).stdin(Stdio::null()).output().expect("sshd runs");
    out.status.success()
}

/// Every process of it writes at the end.
fn appended(log: &Path) -> Stdio {
    let file = std::fs::File::options().create(true).append(true).open(log);
    file.expect("a log file").into()
}

/// A port on which nobody listens, nor can while this lives.
#[derive(Debug)]
pub struct ClosedPort {
    port: u16,
    /// Bound, and never made to listen.
    _socket: tokio::net::TcpSocket,
}

impl ClosedPort {
    /// One that is free on an address.
    pub fn on(address: IpAddr) -> Self {
        Self::at(SocketAddr::new(address, 0)).expect("a free port")
    }

    /// This one, unless somebody has it.
    ///
    /// # Errors
    ///
    /// That of bind(2).
    pub fn at(address: SocketAddr) -> std::io::Result<Self> {
        let v6 = address.is_ipv6();
        let socket = if v6 { tokio::net::TcpSocket::new_v6() } else { tokio::net::TcpSocket::new_v4() }?;
        socket.bind(address)?;
        let port = socket.local_addr()?.port();
        Ok(Self { port, _socket: socket })
    }

    /// Its number.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A port that is free on an address, now.
fn free_port(listen: IpAddr) -> u16 {
    let listener = TcpListener::bind((listen, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn write_config(dir: &Path, setup: &Setup, port: u16, keys: &[KeyPair], authorized: &Path) -> PathBuf {
    let mut text = setup.config.join("\n");
    text.push('\n');
    for key in keys {
        text.push_str(&format!("HostKey {}\n", key.path.display()));
    }
    let listen =
        if setup.listen.is_ipv6() { format!("[{}]", setup.listen) } else { setup.listen.to_string() };
    text.push_str(&format!(
        "ListenAddress {listen}:{port}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
         PermitRootLogin yes\nPasswordAuthentication no\nChallengeResponseAuthentication no\nUseDNS no\n\
         LogLevel VERBOSE\nMaxStartups 1000\nSubsystem sftp internal-sftp\n\
         SetEnv HOME={}\n",
        authorized.display(),
        // bash under sshd reads ~/.bashrc, and the one of whoever runs the test may do anything.
        dir.display()
    ));
    let path = dir.join(format!("sshd_config.{port}"));
    std::fs::write(&path, text).expect("sshd_config is written");
    path
}

fn sshd() -> Command {
    match std::env::var_os("MUSTER_TEST_SSHD_ROOT") {
        None => Command::new("/usr/sbin/sshd"),
        Some(root) => {
            let mut command = Command::new("/usr/sbin/chroot");
            command.arg(root).arg("/usr/sbin/sshd");
            command
        }
    }
}

fn read_log(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

fn spawn(config: &Path) -> Option<(Child, PathBuf)> {
    let log = with_suffix(config, ".log");
    let mut child = sshd()
        .args(["-D", "-e", "-f"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(appended(&log))
        .spawn()
        .expect("sshd runs");
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        let text = read_log(&log);
        if text.contains("Server listening on") {
            return Some((child, log));
        }
        if child.try_wait().ok().flatten().is_some() {
            assert!(text.contains("in use"), "sshd: {text}");
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// All descendants of a process.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // pid (comm) state ppid …; comm may hold spaces and brackets.
        let rest = stat.rsplit_once(") ").map(|(_, r)| r).unwrap_or_default();
        if let Some(parent) = rest.split(' ').nth(1).and_then(|p| p.parse::<u32>().ok()) {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// `kill -SIGNAL pid`; a process that is gone already is fine.
pub fn signal_pid(pid: u32, signal: &str) {
    let _ = Command::new("/bin/kill")
        .arg(format!("-{signal}"))
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

/// A running `ssh-agent`.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    socket: PathBuf,
}

impl AgentProcess {
    /// On a socket in `dir`.
    pub fn start(dir: &Path) -> Self {
        let socket = dir.join("agent.sock");
        let child = Command::new("/usr/bin/ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            // It asks for confirmation with whatever the desktop of the one who runs the tests has.
            .env("SSH_ASKPASS", "/bin/false")
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("ssh-agent runs");
        let until = Instant::now() + Duration::from_secs(10);
        // The file is there before anybody listens behind it.
        while std::os::unix::net::UnixStream::connect(&socket).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, socket }
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// `ssh-add` with this agent.
    pub fn add(&self, args: &[&str]) {
        let out = Command::new("/usr/bin/ssh-add")
            .args(args)
            .env("SSH_AUTH_SOCK", &self.socket)
            .stdin(Stdio::null())
            .output()
            .expect("ssh-add runs");
        assert!(out.status.success(), "ssh-add: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Loads a key pair (and the certificate beside it, where there is one).
    pub fn load(&self, key: &KeyPair) {
        self.add(&["-q", key.path.to_str().expect("UTF-8")]);
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
