//! `muster script sign`: all phases of a folder at one epoch, or nothing.

use super::bash_says;
use crate::codes::{Code, Own};
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::files;
use crate::printer::{Listing, Printer, clean};
use crate::profile::check::{self, Remark};
use crate::profile::folder::{self, Folder, Overrides, Script, hex};
use crate::profile::{SIGNED, signed, words};
use crate::shell::Severity;
use crate::signer::agent::Agent;
use crate::signer::{self, Choice, Named, file};
use crate::terminal::Passphrases;
use muster_core::{Phase, UtcTime};
use muster_signing::intent::{Draft, Intent};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Who signs, and where what is needed for it comes from.
#[derive(Debug)]
pub struct Signing {
    /// Which key.
    pub choice: Option<Choice>,
    /// Its passphrase.
    pub passphrases: Passphrases,
    /// The agent's socket.
    pub agent: Option<PathBuf>,
}

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The profile's folder.
    pub folder: PathBuf,
    /// Who signs.
    pub signing: Signing,
    /// What the command line changes about the manifest.
    pub over: Overrides,
    /// Parameters whose openness is accepted.
    pub accept_open: Vec<String>,
    /// An epoch below or far above the last one is accepted.
    pub accept_epoch: bool,
    /// Only show.
    pub plan: bool,
    /// The one now.
    pub now: UtcTime,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    phase: String,
    epoch: Option<u32>,
    sha256: String,
    signer: String,
    file: String,
}

impl Signing {
    /// Opens the signer.
    pub fn open(&self) -> Result<Named, Fault> {
        match &self.choice {
            None => Err(Fault::new(Own::SignerMissing, "no signing key was named")),
            Some(Choice::File(path)) => file::open(path, &mut |prompt| self.passphrases.get(prompt)),
            Some(Choice::Agent(which)) => {
                let agent = Agent::at(self.agent.as_deref())?;
                let path = Path::new(which);
                let public = if path.exists() { Some(signer::read_public(path)?) } else { None };
                agent.find(which, public.as_ref())
            }
        }
    }
}

/// Shows warnings, and refuses on errors.
fn judge(remarks: &[Remark], printer: &mut Printer) -> Result<(), Faults> {
    for r in remarks.iter().filter(|r| r.severity == Severity::Warning) {
        printer.warn(&format!("{}: {} [{}]", r.place, clean(&r.what), r.code));
    }
    Faults::check(remarks.iter().filter(|r| r.severity == Severity::Error).map(Remark::fault).collect())
}

/// Signs all phases anew.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let folder = Folder::read(&settings.folder)?;
    let before = match signed::read_all(&settings.folder) {
        Ok(before) => before,
        Err(_) if settings.accept_epoch => Vec::new(),
        Err(faults) => {
            let what = "what was signed before cannot be read, so the new epoch cannot be compared with it";
            let fix = "Mend or remove the signed files, or give --accept-epoch.";
            let unknown = Fault::new(Own::EpochJump, what).at(&settings.folder.join(SIGNED), 0).fix(fix);
            let all = faults.into_vec().into_iter().chain([unknown]).collect();
            return Faults::check(all).map(|()| Exit::Ok);
        }
    };
    let drafts = folder.drafts(&settings.over, settings.now)?;
    let mut remarks = check::folder(&folder, &settings.accept_open, &bash_says);
    remarks.extend(check::drafts(&folder, &drafts, &before, settings.now));
    if settings.accept_epoch {
        remarks.retain(|r| r.code != Code::Own(Own::EpochJump));
    }
    judge(&remarks, printer)?;
    let texts = render(&folder, &drafts)?;
    for value in &folder.manifest.values {
        if let Some(source) = &value.source {
            let (name, source) = (&value.name, clean(source));
            printer
                .talk(&format!("{name} is the content of {source}, which everybody may read from then on"));
        }
    }
    if settings.plan {
        for (text, draft) in texts.iter().zip(&drafts) {
            show(text, folder.scripts.iter().find(|s| s.phase == draft.phase), settings.now, printer)?;
        }
        return Ok(Exit::Ok);
    }
    let signer = settings.signing.open()?;
    let mut written = Vec::new();
    for (text, draft) in texts.into_iter().zip(&drafts) {
        let signature = one(&signer, text.as_bytes(), signed::NAMESPACE, draft.phase, printer)?;
        written.push((draft.phase, text, vec![signature]));
    }
    signed::write_all(&settings.folder, &written)?;
    let place = settings.folder.join(SIGNED);
    let rows = drafts.iter().zip(&written).map(|(d, (_, text, _))| Row {
        phase: d.phase.to_string(),
        epoch: Some(d.epoch),
        sha256: hex(&folder::sha256(text.as_bytes())),
        signer: signer.fingerprint(),
        file: place.join(format!("{}.intent", d.phase)).display().to_string(),
    });
    listing(rows.collect(), printer);
    if let Some(d) = drafts.first() {
        printer.talk(&format!(
            "signed {} at epoch {}, valid from {} until {}",
            d.profile, d.epoch, d.not_before, d.not_after
        ));
    }
    Ok(Exit::Ok)
}

fn render(folder: &Folder, drafts: &[Draft]) -> Result<Vec<String>, Faults> {
    let mut faults = Vec::new();
    let mut texts = Vec::new();
    for draft in drafts {
        match draft.render() {
            Ok(text) => texts.push(text),
            Err(f) => faults.push(
                Fault::new(
                    Own::ConfigValue,
                    format!("the intent for {} cannot be written: {}", draft.phase, f.why),
                )
                .at(&folder.manifest.file, 0)
                .fix("Mend what it names in profile.yaml."),
            ),
        }
    }
    Faults::check(faults)?;
    Ok(texts)
}

fn show(text: &str, script: Option<&Script>, now: UtcTime, printer: &mut Printer) -> Result<(), Faults> {
    let intent = Intent::parse(text.as_bytes())
        .map_err(|f| Fault::new(Own::Fault, "a rendered intent does not parse").why(f.to_string()))?;
    let shown = words::shown(&intent, script, Vec::new(), now);
    if !printer.value(&shown) {
        for line in words::heading(&shown, now).into_iter().chain(words::phase(&shown)) {
            printer.data(&line);
        }
    }
    Ok(())
}

fn one(
    signer: &Named,
    bytes: &[u8],
    namespace: &str,
    phase: Phase,
    printer: &mut Printer,
) -> Result<String, Fault> {
    if signer.waits() {
        printer.talk(&format!("signing {phase} with {}: confirm or touch if asked", signer.place));
    }
    signer.sign(bytes, namespace)
}

fn listing(rows: Vec<Row>, printer: &mut Printer) {
    printer.listing(&Listing {
        columns: &["phase", "signer", "file"],
        rows,
        cells: |r| vec![r.phase.clone(), r.signer.clone(), r.file.clone()],
        name: |r| r.file.clone(),
        empty: "",
    });
}

/// Adds a signature to every phase that is signed already.
pub fn add(settings: &Settings, printer: &mut Printer) -> Outcome {
    let scripts = folder::read_scripts(&settings.folder)?;
    let phases = signed::read_all(&settings.folder)?;
    if phases.is_empty() {
        let fault = signed::nothing_signed(&settings.folder, "holds nothing signed to add to");
        return Err(fault.fix("Sign it first, without --add.").into());
    }
    let mut faults = Vec::new();
    for p in &phases {
        let script = scripts.iter().find(|s| s.phase == p.intent.phase());
        let same = p.intent.check_script(script.map(|s| &s.sha256));
        let live =
            if settings.now >= p.intent.not_after() { p.intent.check_validity(settings.now) } else { Ok(()) };
        for refusal in [same.err(), live.err()].into_iter().flatten() {
            faults.push(Fault::new(refusal.reason, refusal.to_string()).at(&p.file, 0));
        }
    }
    Faults::check(faults)?;
    for p in &phases {
        let script = scripts.iter().find(|s| s.phase == p.intent.phase());
        let shown = words::shown(&p.intent, script, words::fingerprints(p), settings.now);
        for line in words::heading(&shown, settings.now).into_iter().chain(words::phase(&shown)) {
            printer.talk(&line);
        }
    }
    if settings.plan {
        return Ok(Exit::Ok);
    }
    let signer = settings.signing.open()?;
    let fingerprint = signer.fingerprint();
    let mut writes = Vec::new();
    for p in &phases {
        if let Some(there) = p.signatures.iter().find(|s| s.signature.fingerprint() == fingerprint) {
            let what = format!("{fingerprint} has signed {} already", p.intent.phase());
            return Err(Fault::new(Own::SignatureDuplicate, what).at(&there.file, 0).into());
        }
        let place = free(&settings.folder, p.intent.phase())?;
        writes.push((place, one(&signer, &p.bytes, signed::NAMESPACE, p.intent.phase(), printer)?, p));
    }
    for (i, (place, text, _)) in writes.iter().enumerate() {
        if let Err(fault) = files::write_new(place, text.as_bytes(), 0o644) {
            for (done, ..) in writes.iter().take(i) {
                let _ = std::fs::remove_file(done);
            }
            return Err(fault.into());
        }
    }
    let rows = writes.iter().map(|(place, _, p)| Row {
        phase: p.intent.phase().to_string(),
        epoch: Some(p.intent.epoch()),
        sha256: hex(p.intent.digest()),
        signer: fingerprint.clone(),
        file: place.display().to_string(),
    });
    listing(rows.collect(), printer);
    Ok(Exit::Ok)
}

fn free(folder: &Path, phase: Phase) -> Result<PathBuf, Fault> {
    let max = muster_signing::envelope::MAX_SIGNATURES;
    let place =
        (1..=max).map(|n| signed::signature_file(&folder.join(SIGNED), phase, n)).find(|p| !p.exists());
    place.ok_or_else(|| {
        Fault::new(
            Own::SignatureDuplicate,
            format!("{phase} has {max} signatures already, which is all that an envelope takes"),
        )
        .fix("Take one away, or sign anew.")
    })
}

/// Signs the scripts' bytes alone, for fleets of the published envelope 1.
pub fn envelope_one(settings: &Settings, printer: &mut Printer) -> Outcome {
    let scripts = folder::read_scripts(&settings.folder)?;
    if scripts.is_empty() {
        let what =
            format!("{} has no install.sh, join.sh, leave.sh or uninstall.sh", settings.folder.display());
        return Err(Fault::new(Own::PhaseMissing, what).into());
    }
    let mut remarks = Vec::new();
    for s in &scripts {
        remarks.extend(check::script_alone(s, &settings.accept_open, &bash_says));
    }
    judge(&remarks, printer)?;
    printer.warn("envelope 1 signs the script's bytes and nothing else: any phase, any time, any parameter");
    if settings.plan {
        return Ok(Exit::Ok);
    }
    let signer = settings.signing.open()?;
    let mut texts = Vec::new();
    for s in &scripts {
        texts.push(one(&signer, &s.bytes, signed::V1_NAME, s.phase, printer)?);
    }
    let mut rows = Vec::new();
    for (s, text) in scripts.iter().zip(&texts) {
        let file = signed::v1_signature_file(&s.file);
        files::replace(&file, text.as_bytes(), 0o644)?;
        rows.push(Row {
            phase: s.phase.to_string(),
            epoch: None,
            sha256: hex(&s.sha256),
            signer: signer.fingerprint(),
            file: file.display().to_string(),
        });
    }
    listing(rows, printer);
    Ok(Exit::Ok)
}
