//! Verifying an SSH signature: `muster ssh-keygen -Y verify` against the real `ssh-keygen`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::median;
use super::report::Section;
use crate::run::{cargo, root, run as spawn};

const KINDS: &[(&str, &[&str])] = &[
    ("Ed25519", &["-t", "ed25519"]),
    ("ECDSA P-256", &["-t", "ecdsa", "-b", "256"]),
    ("ECDSA P-521", &["-t", "ecdsa", "-b", "521"]),
    ("RSA 4096", &["-t", "rsa", "-b", "4096"]),
];
const TURNS: usize = 40;

/// Runs it and writes the table.
pub(crate) fn run() -> Result<Section> {
    let profile = ["build", "--locked", "--profile", "shim"];
    spawn(cargo()?.args(profile).args(["--package", "muster-signing", "--example", "verify_rate"]))?;
    spawn(cargo()?.args(["build", "--locked", "--release", "--package", "muster"]))?;
    let target = root()?.join("target");
    let (rate, muster) = (target.join("shim/examples/verify_rate"), target.join("release/muster"));
    let mut body = format!(
        "A message of 16 KiB. Process: start to exit, {TURNS} turns each, median. In process: parse signature and file, verify.\n\n\
         | key | `ssh-keygen`, ms | `muster ssh-keygen`, ms | in process, ms |\n|---|---|---|---|\n"
    );
    for (name, args) in KINDS {
        let dir = tempfile::tempdir()?;
        let dir = dir.path();
        make(dir, args)?;
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            theirs.push(verify(Command::new("ssh-keygen"), dir)?);
            let mut c = Command::new(&muster);
            c.arg("ssh-keygen");
            ours.push(verify(c, dir)?);
        }
        let out = Command::new(&rate)
            .current_dir(dir)
            .args(["message", "message.sig", "allowed"])
            .output()
            .context("verify_rate")?;
        let nanos: f64 =
            String::from_utf8_lossy(&out.stdout).trim().parse().context("verify_rate's answer")?;
        writeln!(body, "| {name} | {:.2} | {:.2} | {:.3} |", median(&theirs), median(&ours), nanos / 1e6)?;
    }
    Ok(Section { title: "SSHSIG verification", body })
}

fn make(dir: &Path, kind: &[&str]) -> Result<()> {
    fs::write(dir.join("message"), vec![b'm'; 16 * 1024])?;
    let keygen = |args: &[&str]| -> Result<()> {
        let out = Command::new("ssh-keygen").current_dir(dir).args(args).stdin(Stdio::null()).output()?;
        if !out.status.success() {
            bail!("ssh-keygen {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(())
    };
    keygen(&[kind, &["-q", "-N", "", "-f", "key"]].concat())?;
    keygen(&["-q", "-Y", "sign", "-f", "key", "-n", "kpssh", "message"])?;
    let public = fs::read_to_string(dir.join("key.pub"))?;
    fs::write(dir.join("allowed"), format!("kpssh namespaces=\"kpssh\" {public}"))?;
    Ok(())
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
