//! Verifying an SSH signature: ours in process, ours as a process, and the real `ssh-keygen`, which is always a process.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::report::Section;
use super::{median, stopped};
use crate::run::{cargo, root, run as spawn};

/// Key kinds by name, with what `ssh-keygen` makes one from.
const KINDS: &[(&str, &[&str])] = &[
    ("Ed25519", &["-t", "ed25519"]),
    ("ECDSA P-256", &["-t", "ecdsa", "-b", "256"]),
    ("RSA 3072", &["-t", "rsa", "-b", "3072"]),
    ("sk-Ed25519", &["-t", "ed25519-sk", "-w", DUMMY]),
];
/// OpenSSH's own stand-in for a hardware key (package openssh-tests).
const DUMMY: &str = "/usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so";
const TURNS: usize = 101;

/// Runs it and writes the table.
pub(crate) fn run() -> Result<Section> {
    let profile = ["build", "--locked", "--profile", "shim"];
    spawn(cargo()?.args(profile).args(["--package", "muster-signing", "--example", "verify_rate"]))?;
    spawn(cargo()?.args(["build", "--locked", "--release", "--package", "muster"]))?;
    let target = root()?.join("target");
    let (rate, muster) = (target.join("shim/examples/verify_rate"), target.join("release/muster"));
    let mut body = format!(
        "A message of 16 KiB, one line in the allowed_signers file. In process: the signature and the file are parsed anew for each\n\
         verification, as the shim does, with the shim's own build profile. As a process: from start to exit, {TURNS} turns each, in turn,\n\
         medians. The other side: {}.\n\n\
         | key | ours in process, a second | `ssh-keygen -Y verify`, a second | `ssh-keygen`, ms | `muster ssh-keygen`, ms | empty program, ms |\n\
         |---|---|---|---|---|---|\n",
        super::version("ssh", "-V")?
    );
    let mut slower = Vec::new();
    for (name, args) in KINDS {
        let dir = tempfile::tempdir()?;
        if !make(dir.path(), args)? {
            writeln!(body, "| {name} | not run: {DUMMY} is not here | | | | |")?;
            continue;
        }
        let row = Row::measure(dir.path(), &muster, &rate)?;
        if row.ours > row.theirs {
            slower.push(*name);
        }
        writeln!(
            body,
            "| {name} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} |",
            1e3 / row.within,
            1e3 / row.theirs,
            row.theirs,
            row.ours,
            row.empty
        )?;
    }
    body.push_str(
        "\nA shim in shell starts `ssh-keygen` for each signature: next to that, what the verification itself takes is little.\n",
    );
    if slower.is_empty() {
        body.push_str("As a process ours is at least as fast for every kind.\n");
    } else {
        writeln!(body, "As a process ours is slower than `ssh-keygen` for: {}.", slower.join(", "))?;
    }
    Ok(Section { title: "SSHSIG verification", body })
}

/// Milliseconds.
struct Row {
    within: f64,
    theirs: f64,
    ours: f64,
    /// /bin/true, started in the same way.
    empty: f64,
}

impl Row {
    fn measure(dir: &Path, muster: &Path, rate: &Path) -> Result<Self> {
        let (mut theirs, mut ours, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            stopped()?;
            theirs.push(verify(Command::new("ssh-keygen"), dir)?);
            let mut c = Command::new(muster);
            c.arg("ssh-keygen");
            ours.push(verify(c, dir)?);
            empty.push(verify(Command::new("true"), dir)?);
        }
        let out = Command::new(rate).current_dir(dir).args(["message", "message.sig", "allowed"]).output()?;
        let nanos: f64 = String::from_utf8_lossy(&out.stdout)
            .trim()
            .parse()
            .with_context(|| format!("verify_rate: {}", String::from_utf8_lossy(&out.stderr)))?;
        Ok(Self { within: nanos / 1e6, theirs: median(&theirs), ours: median(&ours), empty: median(&empty) })
    }
}

/// A key, a message, its signature and the file that trusts it; `false` where there is no such key here.
fn make(dir: &Path, kind: &[&str]) -> Result<bool> {
    if kind.contains(&DUMMY) && !Path::new(DUMMY).exists() {
        return Ok(false);
    }
    fs::write(dir.join("message"), vec![b'm'; 16 * 1024])?;
    let keygen = |args: &[&str]| -> Result<()> {
        let mut c = Command::new("ssh-keygen");
        c.current_dir(dir).args(args).env("SSH_SK_PROVIDER", DUMMY).env_remove("SSH_AUTH_SOCK");
        let out = c.stdin(Stdio::null()).output()?;
        if !out.status.success() {
            bail!("ssh-keygen {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(())
    };
    keygen(&[kind, &["-q", "-N", "", "-f", "key"]].concat())?;
    keygen(&["-q", "-Y", "sign", "-f", "key", "-n", "kpssh", "message"])?;
    let public = fs::read_to_string(dir.join("key.pub"))?;
    fs::write(dir.join("allowed"), format!("kpssh namespaces=\"kpssh\" {public}"))?;
    Ok(true)
}

/// Milliseconds from start to exit.
fn verify(mut program: Command, dir: &Path) -> Result<f64> {
    program
        .current_dir(dir)
        .args(["-Y", "verify", "-f", "allowed", "-I", "kpssh", "-n", "kpssh", "-s", "message.sig"])
        .stdin(File::open(dir.join("message"))?)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let status = program.status()?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    if !status.success() {
        bail!("{program:?}: {status}");
    }
    Ok(took)
}
