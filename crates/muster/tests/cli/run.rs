//! Running the binary in a folder of its own, with an environment built from nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The binary under test.
pub(crate) const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

/// A folder and the ways to run things in it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        if name.starts_with(".local/state/") {
            // Whatever the umask of who runs the tests: what others may write is not believed.
            use std::os::unix::fs::PermissionsExt as _;
            for (path, mode) in [(path.as_path(), 0o600), (path.parent().unwrap(), 0o700)] {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.join(name)).unwrap()
    }

    /// A command in this folder with nothing of the caller's environment. `muster` gets a session of its own, which has no
    /// terminal: nothing waits for an answer on the terminal of the one who runs the tests.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut c = if program.as_ref() == MUSTER {
            let mut c = Command::new("/usr/bin/setsid");
            c.arg(MUSTER);
            c
        } else {
            Command::new(program)
        };
        c.current_dir(self.path())
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC");
        c
    }

    /// Runs `muster` with a line of arguments.
    pub(crate) fn muster(&self, line: &str) -> Ran {
        self.muster_with(line, b"")
    }

    /// The same, with something on standard input.
    pub(crate) fn muster_with(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut command = self.command(MUSTER);
        command.args(line.split_whitespace());
        self.finish(command, stdin)
    }

    pub(crate) fn finish(&self, mut command: Command, stdin: &[u8]) -> Ran {
        use std::io::Write;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(stdin);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a line of shell; panics when it fails.
    pub(crate) fn sh(&self, script: &str) -> String {
        let mut c = self.command("/bin/bash");
        c.args(["-euo", "pipefail", "-c", script]);
        let ran = self.finish(c, b"");
        assert_eq!(ran.code, 0, "{script}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// `muster init` with a signer key that needs no passphrase.
    pub(crate) fn fleet(&self) {
        let ran = self.muster("init --danger-no-passphrase -q");
        assert_eq!(ran.code, 0, "{}", ran.err);
    }

    /// A profile of four phases that signs without a warning.
    pub(crate) fn profile(&self, name: &str) {
        self.write(
            &format!("{name}/profile.yaml"),
            "profile: demo\nepoch: 3\ntargets: [pool=edge]\nvalues:\n  MUSTER_CLUSTER_ENDPOINT: {value: \"https://10.0.0.5:6443\", phases: [join]}\n\
             params:\n  MUSTER_NODE_NAME: {pattern: \"[a-z0-9-]{1,63}\", phases: [join]}\nphases:\n  join: {deadline: 15m, on-disconnect: finish}\n",
        );
        for phase in ["install", "leave", "uninstall"] {
            self.write(
                &format!("{name}/{phase}.sh"),
                format!("#!/usr/bin/env bash\nset -euo pipefail\necho {phase}\n"),
            );
        }
        self.write(
            &format!("{name}/join.sh"),
            "#!/usr/bin/env bash\nset -euo pipefail\nprintf '%s %s\\n' \"$MUSTER_CLUSTER_ENDPOINT\" \"$MUSTER_NODE_NAME\"\n",
        );
    }
}
