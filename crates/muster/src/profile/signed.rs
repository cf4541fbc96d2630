//! What was signed of a profile: `signed/<phase>.intent` and `signed/<phase>.<n>.sig`.
//!
//! Plain files on purpose: `ssh-keygen -Y verify -n muster-intent -s signed/join.1.sig … < signed/join.intent` says the same
//! as `muster script verify`. A signature file holds one armoured signature over the exact bytes of the intent file.

use super::SIGNED;
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::files;
use muster_core::Phase;
use muster_signing::envelope::{MAX_INTENT, MAX_SIGNATURE, MAX_SIGNATURES};
use muster_signing::intent::Intent;
use muster_signing::sshsig::SshSig;
use std::path::{Path, PathBuf};

/// The namespace of every signature over an intent.
pub const NAMESPACE: &str = "muster-intent";
/// The principal that hosts look signers up by.
pub const PRINCIPAL: &str = "muster";
/// Namespace and principal of the published envelope 1.
pub const V1_NAME: &str = "kpssh";

/// The phases that an intent can be for.
pub const PHASES: [Phase; 5] = [Phase::Install, Phase::Join, Phase::Leave, Phase::Uninstall, Phase::Floor];

/// A signature and its file.
#[derive(Debug)]
pub struct SigFile {
    /// Where.
    pub file: PathBuf,
    /// The armoured text, as it is sent.
    pub armoured: String,
    /// The same, read. Reading is not trusting.
    pub signature: SshSig,
}

/// An intent with its signatures.
#[derive(Debug)]
pub struct SignedPhase {
    /// The intent's file.
    pub file: PathBuf,
    /// The bytes that the signatures are over.
    pub bytes: Vec<u8>,
    /// The same, read.
    pub intent: Intent,
    /// 0 to 8.
    pub signatures: Vec<SigFile>,
}

fn intent_file(folder: &Path, phase: Phase) -> PathBuf {
    folder.join(SIGNED).join(format!("{phase}.intent"))
}

/// The file of the `n`th signature of a phase, from 1.
pub fn signature_file(signed: &Path, phase: Phase, n: usize) -> PathBuf {
    signed.join(format!("{phase}.{n}.sig"))
}

/// That nothing of what was looked for is signed.
pub fn nothing_signed(folder: &Path, what: &str) -> Fault {
    let shown = folder.display();
    let why = if folder.join(SIGNED).is_dir() { "" } else { ": it has no folder signed/" };
    Fault::new(Own::SignedMissing, format!("{shown} {what}{why}"))
        .fix(format!("Sign it with `muster script sign {shown}`."))
}

/// Everything signed in a folder; empty when nothing is.
pub fn read_all(folder: &Path) -> Result<Vec<SignedPhase>, Faults> {
    super::folder::there(folder)?;
    let mut out = Vec::new();
    let mut faults = Vec::new();
    for phase in PHASES {
        if !intent_file(folder, phase).exists() {
            continue;
        }
        match read(folder, phase) {
            Ok(one) => out.push(one),
            Err(f) => faults.push(f),
        }
    }
    Faults::check(faults)?;
    Ok(out)
}

/// What is signed for one phase.
pub fn read(folder: &Path, phase: Phase) -> Result<SignedPhase, Fault> {
    super::folder::there(folder)?;
    let file = intent_file(folder, phase);
    if !file.exists() {
        return Err(nothing_signed(folder, &format!("has no signed intent for {phase}")));
    }
    let (bytes, intent) = read_intent(&file)?;
    if intent.phase() != phase {
        let what = format!("the intent is for {}, not for {phase}", intent.phase());
        return Err(Fault::new(Own::SignedForm, what).at(&file, 3));
    }
    let mut signatures = Vec::new();
    for n in 1..=MAX_SIGNATURES {
        let file = signature_file(&folder.join(SIGNED), phase, n);
        if file.exists() {
            signatures.push(read_signature(&file)?);
        }
    }
    Ok(SignedPhase { file, bytes, intent, signatures })
}

/// Reads an intent's file.
pub fn read_intent(file: &Path) -> Result<(Vec<u8>, Intent), Fault> {
    let bytes = files::read(file, MAX_INTENT)?;
    let intent = Intent::parse(&bytes).map_err(|f| Fault::new(Own::SignedForm, f.why).at(file, f.line))?;
    Ok((bytes, intent))
}

/// Reads a signature's file.
pub fn read_signature(file: &Path) -> Result<SigFile, Fault> {
    let armoured = files::read_text(file, MAX_SIGNATURE)?;
    let signature = SshSig::parse_armored(armoured.as_bytes()).map_err(|r| {
        Fault::new(r.reason, format!("the signature is not usable: {}", r.detail)).at(file, 0)
    })?;
    Ok(SigFile { file: file.to_owned(), armoured, signature })
}

/// Writes a whole new `signed/`, in the place of the old one: all of it or nothing.
pub fn write_all(folder: &Path, phases: &[(Phase, String, Vec<String>)]) -> Result<(), Fault> {
    let place = folder.join(SIGNED);
    let new = files::beside(&place, "new");
    let _ = std::fs::remove_dir_all(&new);
    files::make_folder(&new, 0o755)?;
    let written = phases.iter().try_for_each(|(phase, intent, signatures)| {
        files::write_new(&new.join(format!("{phase}.intent")), intent.as_bytes(), 0o644)?;
        signatures.iter().enumerate().try_for_each(|(i, s)| {
            files::write_new(&signature_file(&new, *phase, i + 1), s.as_bytes(), 0o644)
        })
    });
    let done =
        written.and_then(|()| files::sync_folder(&new)).and_then(|()| files::swap_folder(&new, &place));
    if done.is_err() {
        let _ = std::fs::remove_dir_all(&new);
    }
    done
}

/// The signature beside a script, as `ssh-keygen -Y sign` writes it, for envelope 1.
pub fn v1_signature_file(script: &Path) -> PathBuf {
    let mut name = script.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}
