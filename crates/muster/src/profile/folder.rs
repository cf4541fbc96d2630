//! A profile's folder as it is on disk, and the intents that signing it would make.

use super::manifest::Manifest;
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::files;
use muster_core::{Phase, UtcTime};
use muster_signing::envelope::MAX_SCRIPT;
use muster_signing::intent::{Draft, OnDisconnect, ParamLine, Target, ValueLine};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// One phase's script.
#[derive(Debug)]
pub struct Script {
    /// Which.
    pub phase: Phase,
    /// Its file.
    pub file: PathBuf,
    /// Its bytes: what is signed, sent and run.
    pub bytes: Vec<u8>,
    /// Their SHA-256.
    pub sha256: [u8; 32],
}

/// A folder with its manifest and scripts.
#[derive(Debug)]
pub struct Folder {
    /// Where.
    pub path: PathBuf,
    /// `profile.yaml`.
    pub manifest: Manifest,
    /// In the order of a host's life.
    pub scripts: Vec<Script>,
}

/// What the command line changes about a manifest.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Another epoch.
    pub epoch: Option<u32>,
    /// Other targets.
    pub targets: Vec<Target>,
    /// Another beginning.
    pub not_before: Option<UtcTime>,
    /// Another end.
    pub not_after: Option<UtcTime>,
    /// Another length, in seconds.
    pub validity: Option<u64>,
}

/// SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The file of a phase's script.
pub fn script_file(folder: &Path, phase: Phase) -> PathBuf {
    folder.join(format!("{phase}.sh"))
}

/// That a profile's folder is there: of one that is mistyped nothing else is worth saying.
pub fn there(folder: &Path) -> Result<(), Fault> {
    let fix = "Name the folder of a profile, which holds profile.yaml and the scripts.";
    match std::fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => {
            Err(Fault::new(Own::FileUnreadable, format!("{} is not a folder", folder.display())).fix(fix))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(Fault::new(Own::FileMissing, format!("there is no folder {}", folder.display())).fix(fix))
        }
        Err(e) => Err(Fault::io(folder, "read", &e)),
    }
}

/// Reads the scripts that are there.
pub fn read_scripts(folder: &Path) -> Result<Vec<Script>, Faults> {
    there(folder)?;
    let mut scripts = Vec::new();
    let mut faults = Vec::new();
    for phase in Phase::SCRIPTED {
        let file = script_file(folder, phase);
        // A link that leads nowhere is there: that it is broken must be said.
        if file.symlink_metadata().is_err() {
            continue;
        }
        match files::read_within(folder, Path::new(&format!("{phase}.sh")), MAX_SCRIPT) {
            Ok(bytes) if bytes.is_empty() => {
                faults.push(Fault::new(Own::ScriptSize, "the script is empty").at(&file, 0));
            }
            Ok(bytes) => scripts.push(Script { phase, file, sha256: sha256(&bytes), bytes }),
            Err(f) if f.code == Own::FileTooLarge.into() => {
                let what = format!("the script is over {MAX_SCRIPT} bytes");
                faults.push(Fault::new(Own::ScriptSize, what).at(&file, 0));
            }
            Err(f) => faults.push(f),
        }
    }
    Faults::check(faults)?;
    Ok(scripts)
}

impl Folder {
    /// Reads a folder.
    pub fn read(path: &Path) -> Result<Self, Faults> {
        let manifest = Manifest::read(path)?;
        let scripts = read_scripts(path)?;
        let mut faults = Vec::new();
        for entry in &manifest.phases {
            if !scripts.iter().any(|s| s.phase == entry.phase) {
                let what = format!("phases names {0} and there is no {0}.sh", entry.phase);
                faults.push(Fault::new(Own::PhaseMissing, what).at(&manifest.file, entry.line));
            }
        }
        if scripts.is_empty() {
            let what = format!("{} has no install.sh, join.sh, leave.sh or uninstall.sh", path.display());
            faults.push(Fault::new(Own::PhaseMissing, what).fix("Add the scripts of the profile."));
        }
        Faults::check(faults)?;
        Ok(Self { path: path.to_owned(), manifest, scripts })
    }

    /// The intents to sign: one a script and one `floor`, all at one epoch (M5).
    pub fn drafts(&self, over: &Overrides, now: UtcTime) -> Result<Vec<Draft>, Fault> {
        let m = &self.manifest;
        let epoch = over.epoch.or(m.epoch).ok_or_else(|| {
            Fault::new(Own::ConfigMissing, "the profile has no epoch")
                .at(&m.file, 0)
                .fix("Add `epoch:` with a whole number, or give --epoch.")
        })?;
        let targets = if over.targets.is_empty() { m.targets.clone() } else { over.targets.clone() };
        let not_before = over.not_before.or(m.validity.not_before).unwrap_or(now);
        let length = over.validity.or(m.validity.length).unwrap_or(super::manifest::DEFAULT_VALIDITY);
        let written_end = if over.validity.is_some() { None } else { m.validity.not_after };
        let not_after = over.not_after.or(written_end).unwrap_or(not_before.plus(length));
        if not_before >= not_after {
            let what = format!("it would be valid from {not_before} to {not_after}, which is never");
            return Err(Fault::new(Own::ConfigValue, what).at(&m.file, 0).fix("Let it end after it begins."));
        }
        let base = Draft {
            profile: m.profile.clone(),
            phase: Phase::Floor,
            script_sha256: None,
            targets,
            values: Vec::new(),
            params: Vec::new(),
            epoch,
            not_before,
            not_after,
            deadline: 60,
            on_disconnect: OnDisconnect::End,
        };
        let mut drafts: Vec<Draft> = self.scripts.iter().map(|s| self.draft(&base, s)).collect();
        drafts.push(base);
        Ok(drafts)
    }

    fn draft(&self, base: &Draft, script: &Script) -> Draft {
        let entry = self.manifest.phase(script.phase);
        let values = self.manifest.values_of(script.phase);
        let params = self.manifest.params_of(script.phase);
        Draft {
            phase: script.phase,
            script_sha256: Some(script.sha256),
            values: values.map(|v| ValueLine { name: v.name.clone(), value: v.bytes.clone() }).collect(),
            params: params
                .map(|p| ParamLine { name: p.name.clone(), optional: p.optional, pattern: p.pattern.clone() })
                .collect(),
            deadline: entry.and_then(|e| e.deadline).unwrap_or(default_deadline(script.phase)),
            on_disconnect: entry.and_then(|e| e.on_disconnect).unwrap_or_default(),
            ..base.clone()
        }
    }
}

/// Seconds; install, join and leave as the published profile form has them.
pub const fn default_deadline(phase: Phase) -> u32 {
    match phase {
        Phase::Install => 600,
        Phase::Join => 300,
        Phase::Leave => 180,
        Phase::Uninstall => 300,
        Phase::Probe | Phase::Floor => 60,
    }
}
