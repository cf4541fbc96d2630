//! A machine of its own for one test: a thread with a private mount namespace, in which `/etc` is
//! a copy on write, `/run` and `/var/lib` are empty, and a journal listens. The programs under test
//! are the real ones, run as root.

use muster_signing::envelope::{v1, v2};
use muster_signing::intent::{Draft, OnDisconnect, ParamLine, Target, ValueLine};
use muster_signing::params::Param;
use muster_signing::sign::{KeySigner, sign};
use muster_signing::{UtcTime, sshsig};
use sha2::Digest as _;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) const STATE: &str = "/var/lib/muster/shim";
pub(crate) const RUN: &str = "/run/muster/shim";
pub(crate) const MUSTER: &str = "muster-shim";
pub(crate) const KPSSH: &str = "kpssh-shim";

/// A policy that most tests start from.
pub(crate) const POLICY: &str = "host = \"edge-1\"\npools = [\"edge\"]\n[profiles.p]\n";

pub(crate) struct World {
    journal: UnixDatagram,
}

/// Signing keys, made once by the real tool.
pub(crate) struct Keys {
    pub(crate) signer: KeySigner,
    pub(crate) second: KeySigner,
    pub(crate) stranger: KeySigner,
    pub(crate) signer_line: String,
    pub(crate) second_line: String,
    /// `SHA256:...` of the signer.
    pub(crate) signer_fp: String,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = dir.path().join(name);
            let ok = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
                .arg(&path)
                .status();
            assert!(ok.unwrap().success());
            let signer = KeySigner::from_openssh(&fs::read(&path).unwrap()).unwrap();
            let public = fs::read_to_string(path.with_extension("pub")).unwrap();
            let line = public.split(' ').take(2).collect::<Vec<_>>().join(" ");
            (signer, line)
        };
        let (signer, signer_line) = make("signer");
        let (second, second_line) = make("second");
        let (stranger, _) = make("stranger");
        let sig = sign(b"x", "x", &signer).unwrap();
        let signer_fp = sshsig::SshSig::parse_armored(sig.as_bytes()).unwrap().fingerprint();
        Keys { signer, second, stranger, signer_line, second_line, signer_fp, dir }
    })
}

/// Runs a test in a machine of its own. Without root it is skipped, or fails where CI is set.
pub(crate) fn world(test: impl FnOnce(&World) + Send) {
    muster_needs::require!(muster_needs::root());
    keys();
    let done = std::thread::scope(|s| {
        s.spawn(|| {
            let w = World::enter();
            test(&w);
        })
        .join()
    });
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

pub(crate) fn mount(args: &[&str]) {
    let out = Command::new("mount").args(args).output().unwrap();
    assert!(out.status.success(), "mount {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Copies a program by one: a file that this process had open for writing could not be run (ETXTBSY) while a child that
/// another test has just forked has not yet let go of it.
pub(crate) fn copy_program(from: &str, to: &str) {
    let out = Command::new("cp").args(["--", from, to]).output().unwrap();
    assert!(out.status.success(), "{from}: {}", String::from_utf8_lossy(&out.stderr));
}

impl World {
    fn enter() -> Self {
        // SAFETY: a bare system call; it moves this thread alone, which shares nothing with others
        // that it later changes (CLONE_FS gives it a folder and umask of its own).
        #[allow(unsafe_code, reason = "there is no safe call for it")]
        let r = unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) };
        assert_eq!(r, 0, "unshare: {}", std::io::Error::last_os_error());
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        mount(&["--make-rprivate", "/"]);
        mount(&["-t", "tmpfs", "-o", "mode=755", "muster-test", "/mnt"]);
        for d in ["/mnt/up", "/mnt/work"] {
            fs::create_dir(d).unwrap();
        }
        mount(&[
            "-t",
            "overlay",
            "-o",
            "lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work",
            "overlay",
            "/etc",
        ]);
        mount(&["-t", "tmpfs", "-o", "mode=755", "muster-test", "/run"]);
        mount(&["-t", "tmpfs", "-o", "mode=755", "muster-test", "/var/lib"]);
        for d in ["/etc/muster", "/etc/kpssh"] {
            let _ = fs::remove_dir_all(d);
        }
        fs::create_dir_all("/run/systemd/journal").unwrap();
        let journal = UnixDatagram::bind("/run/systemd/journal/socket").unwrap();
        journal.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        Self { journal }
    }

    /// A file of root's with this mode, and the folders above it.
    pub(crate) fn put(&self, path: &str, text: &str, mode: u32) {
        let path = Path::new(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A host as provisioning leaves it: envelope 2, both test signers listed.
    pub(crate) fn provisioned(&self, policy: &str) -> &Self {
        self.put("/etc/muster/shim.toml", policy, 0o644);
        let k = keys();
        let line = |key: &str| format!("muster namespaces=\"muster-intent\" {key}\n");
        self.put("/etc/muster/allowed_signers", &(line(&k.signer_line) + &line(&k.second_line)), 0o644);
        self.put("/etc/muster/revoked_signers", "", 0o644);
        self.state();
        self
    }

    /// The folder of durable state with its first floors file.
    pub(crate) fn state(&self) {
        self.floors("");
        fs::set_permissions(STATE, fs::Permissions::from_mode(0o700)).unwrap();
    }

    pub(crate) fn floors(&self, lines: &str) {
        self.put(
            &format!("{STATE}/floors"),
            &format!("muster-floors: 1\ntime-floor: 2026-11-01T00:00:00Z\n{lines}"),
            0o600,
        );
    }

    pub(crate) fn floor_of(&self, profile: &str) -> Option<u32> {
        let text = fs::read_to_string(format!("{STATE}/floors")).unwrap();
        text.lines().find_map(|l| l.strip_prefix(&format!("floor: {profile} "))?.parse().ok())
    }

    /// A host of the bash shim: its trust root and nothing of ours.
    pub(crate) fn drop_in(&self) -> &Self {
        self.put(
            "/etc/kpssh/allowed_signers",
            &format!("kpssh namespaces=\"kpssh\" {}\n", keys().signer_line),
            0o644,
        );
        self
    }

    /// Runs the shim to its end.
    pub(crate) fn shim(&self, called: &str, input: &[u8]) -> Out {
        self.call(called).input(input)
    }

    pub(crate) fn call(&self, called: &str) -> Call {
        Call::new(Path::new(env!("CARGO_BIN_EXE_muster-shim")), called)
    }

    /// The shim that stops itself at a step.
    pub(crate) fn call_stopping_at(&self, step: &str) -> Call {
        let exe = std::env::current_exe().unwrap();
        let built = exe.parent().unwrap().parent().unwrap();
        let path = built.join("examples/stoppable-shim");
        let age = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
        if age(&path) < age(Path::new(env!("CARGO_BIN_EXE_muster-shim"))) {
            // `cargo test` builds examples unless it is told which target to build, and one of an
            // older shim would prove nothing.
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "-q", "-p", "muster-shim", "--example", "stoppable-shim"]);
            if built.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success() && path.exists(), "{}", path.display());
        }
        let mut call = Call::new(&path, MUSTER);
        call.command.env("MUSTER_TEST_STOP_AT", step);
        call
    }

    /// Records that came to the journal since the last look, oldest first.
    pub(crate) fn journal(&self) -> Vec<BTreeMap<String, String>> {
        let mut out = Vec::new();
        let mut buf = vec![0u8; 256 * 1024];
        while let Ok(n) = self.journal.recv(&mut buf) {
            let text = String::from_utf8_lossy(&buf[..n]).into_owned();
            assert!(text.ends_with('\n'));
            out.push(
                text.lines()
                    .filter_map(|l| l.split_once('='))
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .collect(),
            );
        }
        out
    }

    /// The events of the journal, in a word each: `start`, `end:ok`, `refused:expired`.
    pub(crate) fn events(&self) -> Vec<String> {
        self.journal().iter().filter_map(event).collect()
    }

    /// Lines of the durable run log.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(format!("{STATE}/runs.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn run_record(&self) -> Option<String> {
        fs::read_to_string(format!("{RUN}/run")).ok()
    }
}

pub(crate) fn event(r: &BTreeMap<String, String>) -> Option<String> {
    let e = r.get("MUSTER_EVENT")?;
    Some(match e.as_str() {
        "end" => format!("end:{}", r["MUSTER_VERDICT"]),
        "refused" => format!("refused:{}", r["MUSTER_REASON"]),
        e => e.to_owned(),
    })
}

/// One call of the shim.
pub(crate) struct Call {
    pub(crate) command: Command,
}

#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Out {
    /// The id that the shim gave the run, in its first line.
    pub(crate) fn run(&self) -> Option<&str> {
        let (line, _) = self.stderr.split_once('\n')?;
        line.strip_prefix("muster-shim: run ").filter(|id| id.len() == 32)
    }

    /// Standard error after that line.
    pub(crate) fn said(&self) -> &str {
        match self.run() {
            Some(_) => self.stderr.split_once('\n').map_or("", |(_, rest)| rest),
            None => &self.stderr,
        }
    }

    /// Exit code, and the stable reason when standard error names one.
    pub(crate) fn verdict(&self) -> (i32, &str) {
        let words = ["refused [", "ended ["];
        let tail = words.iter().find_map(|w| self.stderr.split_once(w)).map_or("", |(_, tail)| tail);
        let reason = tail.split_once(']').map_or("", |(r, _)| r);
        (self.code.unwrap_or(-1), reason)
    }
}

impl Call {
    fn new(program: &Path, called: &str) -> Self {
        let mut command = Command::new(program);
        command.arg0(called).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn input(mut self, input: &[u8]) -> Out {
        let mut child = self.command.spawn().unwrap();
        feed(&mut child, input);
        collect(child)
    }

    /// Starts it and gives it its input; the caller watches.
    pub(crate) fn start(mut self, input: &[u8]) -> Child {
        let mut child = self.command.spawn().unwrap();
        feed(&mut child, input);
        child
    }
}

fn feed(child: &mut Child, input: &[u8]) {
    // A shim that refuses before it has read everything closes the pipe, as over ssh.
    let _ = child.stdin.take().unwrap().write_all(input);
}

pub(crate) fn collect(child: Child) -> Out {
    let out = child.wait_with_output().unwrap();
    Out {
        code: out.status.code(),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// Reads standard output up to this text.
pub(crate) fn wait_for_output(child: &mut Child, text: &str) {
    let mut got = Vec::new();
    let out = child.stdout.as_mut().unwrap();
    let mut byte = [0u8; 1];
    while !String::from_utf8_lossy(&got).contains(text) {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "ended after {:?}", String::from_utf8_lossy(&got));
        got.push(byte[0]);
    }
}

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, || {
        found = look();
        found.is_some()
    });
    found.unwrap()
}

/// Waits for a process to be stopped.
pub(crate) fn wait_stopped(child: &Child) {
    let pid = i32::try_from(child.id()).unwrap();
    until("the shim to stop itself", || muster_sys::procfs::Stat::of(pid).is_some_and(|s| s.state == 'T'));
}

/// An envelope 1 by the listed signer.
pub(crate) fn one(script: &str, params: &[(&str, &str)]) -> Vec<u8> {
    one_of("join", script, params)
}

pub(crate) fn one_of(phase: &str, script: &str, params: &[(&str, &str)]) -> Vec<u8> {
    let signature = sign(script.as_bytes(), "kpssh", &keys().signer).unwrap();
    v1::build(&v1::Parts {
        phase: muster_core::Phase::from_word(phase).unwrap(),
        script: script.as_bytes(),
        signature: signature.as_bytes(),
        params: &owned(params),
    })
    .unwrap()
}

fn owned(params: &[(&str, &str)]) -> Vec<Param> {
    params.iter().map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec())).collect()
}

/// An envelope 2 to be: good as it stands, changed by the test.
pub(crate) struct Two<'a> {
    pub(crate) draft: Draft,
    pub(crate) script: Option<String>,
    pub(crate) params: Vec<(&'a str, &'a str)>,
    pub(crate) signers: Vec<&'a KeySigner>,
    pub(crate) namespace: &'a str,
}

pub(crate) fn now() -> UtcTime {
    UtcTime::from_unix(muster_sys::clock::unix_seconds())
}

pub(crate) fn at(offset: i64) -> UtcTime {
    UtcTime::from_unix(now().unix().saturating_add_signed(offset))
}

/// A join of profile `p` at epoch 1 for everybody, valid now.
pub(crate) fn two<'a>(script: &str) -> Two<'a> {
    let draft = Draft {
        profile: muster_core::ProfileName::new("p").unwrap(),
        phase: muster_core::Phase::Join,
        script_sha256: Some(sha2::Sha256::digest(script.as_bytes()).into()),
        targets: vec![Target::Any],
        values: Vec::new(),
        params: Vec::new(),
        epoch: 1,
        not_before: at(-3600),
        not_after: at(3600),
        deadline: 60,
        on_disconnect: OnDisconnect::End,
    };
    Two {
        draft,
        script: Some(script.to_owned()),
        params: Vec::new(),
        signers: vec![&keys().signer],
        namespace: "muster-intent",
    }
}

impl<'a> Two<'a> {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        change(&mut self.draft);
        self
    }

    pub(crate) fn epoch(self, epoch: u32) -> Self {
        self.with(|d| d.epoch = epoch)
    }

    pub(crate) fn phase(mut self, phase: &str) -> Self {
        self.draft.phase = muster_core::Phase::from_word(phase).unwrap();
        if phase == "floor" {
            (self.draft.script_sha256, self.script) = (None, None);
        }
        self
    }

    pub(crate) fn param_line(self, name: &str, pattern: &str) -> Self {
        self.with(|d| {
            let optional = name.ends_with('?');
            d.params.push(ParamLine {
                name: name.trim_end_matches('?').to_owned(),
                optional,
                pattern: pattern.to_owned(),
            });
        })
    }

    pub(crate) fn value_line(self, name: &str, value: &str) -> Self {
        self.with(|d| d.values.push(ValueLine { name: name.to_owned(), value: value.as_bytes().to_vec() }))
    }

    pub(crate) fn param(mut self, name: &'a str, value: &'a str) -> Self {
        self.params.push((name, value));
        self
    }

    pub(crate) fn signers(mut self, signers: &[&'a KeySigner]) -> Self {
        self.signers = signers.to_vec();
        self
    }

    pub(crate) fn intent(&self) -> String {
        self.draft.render().unwrap()
    }

    /// The lines, built without the checks of the real builder, so that what it would refuse can
    /// be sent all the same.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let intent = self.intent();
        let b64 = |b: &[u8]| base64ct::Base64::encode_string(b);
        use base64ct::Encoding as _;
        let mut out = format!(
            "muster-envelope: 2\nphase: {}\nintent-b64: {}\n",
            self.draft.phase,
            b64(intent.as_bytes())
        );
        for s in &self.signers {
            let sig = sign(intent.as_bytes(), self.namespace, *s).unwrap();
            out += &format!("sig-b64: {}\n", b64(sig.as_bytes()));
        }
        if !self.params.is_empty() {
            let block: String = self.params.iter().map(|(n, v)| format!("{n}={v}\n")).collect();
            out += &format!("params-b64: {}\n", b64(block.as_bytes()));
        }
        if let Some(script) = &self.script {
            out += &format!("script-b64: {}\n", b64(script.as_bytes()));
        }
        out.into_bytes()
    }
}

pub(crate) fn probe_two() -> Vec<u8> {
    v2::build_probe()
}
