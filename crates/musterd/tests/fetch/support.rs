//! A folder that stands for `/`, the core on it, and what systemd does for fetchers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_core::UtcTime;
use muster_tls::{Authority, Lifetime};

/// Longest wait for what is about to happen.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The certificate of some operators' authority, PEM.
pub(crate) fn authority(name: &str) -> String {
    let now = UtcTime::from_unix(muster_sys::clock::unix_seconds());
    Authority::make(name, Lifetime::AUTHORITY, now, [9; 16]).unwrap().1.certificate
}

/// What happens to a connection of the core's.
pub(crate) type Fetcher = Box<dyn Fn(UnixStream) + Send>;

pub(crate) struct Node {
    root: tempfile::TempDir,
    core: Option<Child>,
    fetchers: Arc<Mutex<Vec<Child>>>,
}

impl Node {
    /// With real fetchers.
    pub(crate) fn new() -> Self {
        Self::make(None)
    }

    /// With something else in their place.
    pub(crate) fn with_fetcher(fetcher: Fetcher) -> Self {
        Self::make(Some(fetcher))
    }

    fn make(fetcher: Option<Fetcher>) -> Self {
        let root = tempfile::tempdir().unwrap();
        for made in ["etc/muster", "var/lib", "run/muster", "proc", "usr/bin", "dev"] {
            fs::create_dir_all(root.path().join(made)).unwrap();
        }
        let node = Self { root, core: None, fetchers: Arc::default() };
        node.put("/dev/console", "", 0o600);
        node.put("/etc/hostname", "edge-1\n", 0o644);
        fs::create_dir_all(node.at("/proc/sys/kernel")).unwrap();
        node.put("/proc/sys/kernel/hostname", "edge-1\n", 0o644);
        let called = node.at("/called");
        node.put("/usr/bin/systemctl", &format!("#!/bin/sh\necho \"$*\" >>'{}'\n", called.display()), 0o755);
        let listener = UnixListener::bind(node.at(musterd::places::FETCH_SOCKET)).unwrap();
        let fetchers = Arc::clone(&node.fetchers);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                match &fetcher {
                    Some(fetcher) => fetcher(stream),
                    None => {
                        let child = Command::new(env!("CARGO_BIN_EXE_musterd"))
                            .arg("fetch")
                            .env_clear()
                            .stdin(Stdio::from(std::os::fd::OwnedFd::from(stream)))
                            .stdout(Stdio::null())
                            .spawn();
                        fetchers.lock().unwrap().push(child.unwrap());
                    }
                }
            }
        });
        node
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn put(&self, path: &str, text: &str, mode: u32) {
        fs::write(self.at(path), text).unwrap();
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn document(&self, text: &str) {
        self.put("/etc/muster/config.yaml", text, 0o600);
    }

    /// Mode B by this URL.
    pub(crate) fn asks(&self, url: &str, more: &str) {
        self.document(&format!("api: {{operatorCAFrom: {{url: '{url}'{more}}}}}\n"));
    }

    /// What the core says, all of it.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.at("/log")).unwrap_or_default()
    }

    pub(crate) fn called(&self) -> String {
        fs::read_to_string(self.at("/called")).unwrap_or_default()
    }

    pub(crate) fn go(&mut self) {
        let uid = muster_sys::system::user_ids().1.to_string();
        let child = Command::new(env!("CARGO_BIN_EXE_musterd"))
            .args(["core", "--edge-uid", &uid, "--state-root"])
            .arg(self.root.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.at("/log")).unwrap())
            .spawn();
        self.core = Some(child.unwrap());
    }

    /// Starts the core, which must fail, and gives what it said.
    pub(crate) fn refused(&mut self) -> String {
        self.go();
        let code = until("the core ends", || self.core.as_mut().unwrap().try_wait().unwrap());
        assert_eq!(code.code(), Some(1), "{}", self.log());
        assert!(!self.is_owned(), "{}", self.log());
        self.log()
    }

    /// Starts the core, which must come to an owner, and ends it again.
    pub(crate) fn owned(&mut self) -> String {
        self.go();
        until("an owner", || {
            let ended = self.core.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "it came to no owner: {}", self.log());
            self.is_owned().then_some(())
        });
        self.kill();
        self.owned_by()
    }

    pub(crate) fn owned_by(&self) -> String {
        fs::read_to_string(self.at("/var/lib/muster/api/operator-ca.pem")).unwrap()
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.at("/var/lib/muster/api/operator-ca.pem").exists()
    }

    pub(crate) fn ended(&mut self) -> bool {
        self.core.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Asks the core to end.
    pub(crate) fn terminate(&self) {
        let pid = self.core.as_ref().unwrap().id().to_string();
        assert!(Command::new("/usr/bin/kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// What the core ended with.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.core.as_mut().unwrap().try_wait().unwrap().map(|s| s.code().unwrap_or(-1))
    }

    pub(crate) fn kill(&mut self) {
        let mut core = self.core.take().unwrap();
        core.kill().unwrap();
        core.wait().unwrap();
    }

    /// What the bootstrap says, on either of its streams.
    pub(crate) fn bootstrap(&self) -> String {
        self.musterd(&["bootstrap", "--state-root", &self.root.path().display().to_string()]).1
    }

    /// What another command says, and its exit code; one of root's at the console is told where the core is.
    pub(crate) fn musterd(&self, args: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_musterd"));
        command.args(args).env_clear();
        if args[0] == "status" {
            command.arg("--socket").arg(self.at(musterd::places::CONTROL_SOCKET));
        }
        let out = command.output().unwrap();
        let said = [out.stdout, out.stderr].iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect();
        (out.status.code().unwrap_or(-1), said)
    }

    /// What is in memory is gone; the socket is systemd's.
    pub(crate) fn reboot(&self) {
        for entry in fs::read_dir(self.at("/run/muster")).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with("fetch.sock") {
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
        }
    }

    /// Fetchers that run.
    pub(crate) fn fetchers(&self) -> Vec<u32> {
        let mut all = self.fetchers.lock().unwrap();
        all.retain_mut(|f| f.try_wait().unwrap().is_none());
        all.iter().map(Child::id).collect()
    }

    pub(crate) fn kill_fetchers(&self) {
        self.fetchers.lock().unwrap().iter_mut().for_each(|f| f.kill().unwrap());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(core) = &mut self.core {
            let _ = core.kill();
            let _ = core.wait();
        }
        for fetcher in self.fetchers.lock().unwrap().iter_mut() {
            let _ = fetcher.kill();
            let _ = fetcher.wait();
        }
    }
}

pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
