//! What a thief of the controller key gets: nothing that was not signed for that host, now.
//!
//! The envelopes go over the real `ssh` client with the stolen key, past our own sender, which
//! would refuse to send them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use muster_core::{Phase, UtcTime};
use muster_signing::envelope::v2;
use muster_signing::intent::{Draft, OnDisconnect, Target, ValueLine};
use muster_signing::params::Param;
use muster_signing::sign::{KeySigner, sign};
use muster_testbed::KeyPair;
use sha2::{Digest as _, Sha256};

use super::{PROFILE, Stage};

const SCRIPT: &[u8] = b"#!/usr/bin/env bash\nset -euo pipefail\ntouch /root/ran\n";

/// What is signed for one attack, and how it is bent.
struct Attempt {
    what: &'static str,
    target: Target,
    /// Seconds from now.
    valid: (i64, i64),
    params: Vec<(&'static str, &'static str)>,
    script: &'static [u8],
    /// Exit code and reason that the host must answer with.
    answer: (i32, &'static str),
}

/// Tries all five on the first node; fails if one gets through or is refused for another reason.
pub(super) fn play(stage: &Stage) -> Result<()> {
    let usual = || Attempt {
        what: "",
        target: Target::Any,
        valid: (-60, 3600),
        params: Vec::new(),
        script: SCRIPT,
        answer: (0, ""),
    };
    let attempts = [
        Attempt {
            what: "one byte of the signed script is changed",
            script: b"#!/usr/bin/env bash\nset -euo pipefail\ntouch /root/run\n",
            answer: (2, "script-digest"),
            ..usual()
        },
        Attempt {
            what: "last month's intent is sent again",
            valid: (-2_600_000, -60),
            answer: (6, "expired"),
            ..usual()
        },
        Attempt {
            what: "an intent for edge-2 is sent to edge-1",
            target: Target::Host("edge-2".parse()?),
            answer: (6, "target"),
            ..usual()
        },
        Attempt {
            what: "the endpoint is replaced by the thief's, as a parameter",
            params: vec![("MUSTER_HEARTBEAT_ENDPOINT", "https://thief.invalid")],
            answer: (6, "param-is-value"),
            ..usual()
        },
    ];
    let Some(node) = stage.nodes.first() else { bail!("no node") };
    let key = KeyPair {
        private: stage.folder.join("keys/controller"),
        public: stage.folder.join("keys/controller.pub"),
    };
    let login = stage.bed.ssh(node, "muster", &key);
    for attempt in &attempts {
        let envelope = bent(stage, attempt)?;
        let out = login.run("", &envelope)?;
        verdict(attempt.what, out.code(), &out.stderr_text(), attempt.answer)?;
    }
    // The fifth brings no envelope at all: a shell, a command, a file, a forward.
    for (what, args) in [
        ("a shell", &["-tt"][..]),
        ("a command", &[][..]),
        ("a forwarded port", &["-o", "ExitOnForwardFailure=yes", "-R", "127.0.0.1:0:127.0.0.1:22"][..]),
    ] {
        let out =
            login.clone().option(args).deadline(Duration::from_secs(60)).run("id; touch /root/ran", b"")?;
        if out.stdout_text().contains("uid=") || out.ok() {
            bail!("the login gave {what}: {}", out.stdout_text());
        }
        println!("refused: the stolen key asks for {what}");
    }
    if !node.sh("ls /root/ran /root/run 2>/dev/null || true")?.trim().is_empty() {
        bail!("one of the attacks ran");
    }
    println!("nothing ran");
    Ok(())
}

fn verdict(what: &str, code: Option<i32>, stderr: &str, (exit, reason): (i32, &str)) -> Result<()> {
    let line = stderr.lines().find(|l| l.contains("muster-shim:")).unwrap_or(stderr).trim();
    if code != Some(exit) || !line.contains(&format!("[{reason}]")) {
        bail!("{what}: wanted exit {exit} [{reason}], got {code:?}: {stderr}");
    }
    println!("refused: {what}\n         exit {exit}: {line}");
    Ok(())
}

/// An envelope that the signer signed in good faith, with the attack's change made to it after.
fn bent(stage: &Stage, attempt: &Attempt) -> Result<Vec<u8>> {
    let signer = KeySigner::from_openssh(&std::fs::read(stage.folder.join("keys/signer"))?)?;
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let at = |offset: i64| -> Result<UtcTime> { Ok(UtcTime::from_unix(u64::try_from(now + offset)?)) };
    let draft = Draft {
        profile: PROFILE.parse()?,
        phase: Phase::Join,
        script_sha256: Some(Sha256::digest(SCRIPT).into()),
        targets: vec![attempt.target.clone()],
        values: vec![ValueLine {
            name: "MUSTER_HEARTBEAT_ENDPOINT".to_owned(),
            value: b"spool:example".to_vec(),
        }],
        params: Vec::new(),
        epoch: 1,
        not_before: at(attempt.valid.0)?,
        not_after: at(attempt.valid.1)?,
        deadline: 60,
        on_disconnect: OnDisconnect::End,
    };
    let text = draft.render()?;
    let params: Vec<Param> =
        attempt.params.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    Ok(v2::build(&v2::Parts {
        phase: Phase::Join,
        intent: text.as_bytes(),
        signatures: &[sign(text.as_bytes(), "muster-intent", &signer)?],
        params: &params,
        script: Some(attempt.script),
    })?)
}
