//! A folder that stands for the node, with programs in it that write down how they were called.
#![allow(clippy::disallowed_methods, reason = "tests put programs in place")]

use crate::places::Places;

pub(super) struct Fake {
    folder: tempfile::TempDir,
    pub(super) places: Places,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// Below another folder than that for temporary files.
    pub(super) fn within(folder: &str) -> Self {
        Self::of(tempfile::Builder::new().prefix("muster-test.").tempdir_in(folder).unwrap())
    }

    fn of(folder: tempfile::TempDir) -> Self {
        std::fs::create_dir_all(folder.path().join("var/lib/muster")).unwrap();
        let places = Places::below(folder.path());
        Self { folder, places }
    }

    /// A file of the node.
    pub(super) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.places.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// A program of the node: a script of bash, which appends its arguments to a log first.
    pub(super) fn program(&self, path: &str, script: &str) -> &Self {
        let log = self.folder.path().join("called");
        let name = path.rsplit('/').next().unwrap();
        let text = format!(
            "#!/bin/bash\nroot='{}'\nprintf '%s' {name} >> '{log}'\nprintf ' [%s]' \"$@\" >> '{log}'\necho >> '{log}'\n{script}\n",
            self.folder.path().display(),
            log = log.display(),
        );
        // By another process: a script that somebody has open for writing cannot be run, and any thread of ours that is
        // starting a program has for a moment all that we have open.
        self.file(&format!("{path}.text"), &text);
        let (text, place) = (self.places.at(&format!("{path}.text")), self.places.at(path));
        let made = std::process::Command::new("/usr/bin/install")
            .args(["-m", "755", "--"])
            .args([text, place])
            .status();
        assert!(made.unwrap().success());
        self
    }

    /// The real program at its place.
    pub(super) fn real(&self, path: &str) -> &Self {
        let place = self.places.at(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(path, place).unwrap();
        self
    }

    /// Every call since the last look.
    pub(super) fn called(&self) -> Vec<String> {
        let log = self.folder.path().join("called");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let _ = std::fs::remove_file(log);
        text.lines().map(str::to_owned).collect()
    }
}

/// What a client of a stream was sent, and whether it is still there.
#[derive(Clone, Default)]
pub(super) struct Client {
    pub(super) sent: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    pub(super) left: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Client {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.sent.lock().unwrap().clone()).unwrap()
    }

    pub(super) fn leave(&self) {
        self.left.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// Waits until `wanted` is in what was sent.
    pub(super) fn until(&self, wanted: &str) {
        let start = std::time::Instant::now();
        while !self.text().contains(wanted) {
            assert!(start.elapsed().as_secs() < 30, "no {wanted:?} in {:?}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl std::io::Write for Client {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if super::Client::gone(self) {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.sent.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl super::Client for Client {
    fn gone(&self) -> bool {
        self.left.load(std::sync::atomic::Ordering::SeqCst)
    }
}
