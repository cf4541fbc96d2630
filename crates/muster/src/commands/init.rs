//! `muster init`: keys, trust files, inventory; nothing that is there is touched.

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::files;
use crate::printer::Printer;
use crate::signer::{self, file};
use crate::terminal::Passphrases;
use muster_signing::key::PublicKey;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// Where.
    pub folder: PathBuf,
    /// An existing public key to trust instead of a new one.
    pub signer_public: Option<PathBuf>,
    /// Where the new signer key's passphrase comes from; none leaves the key open.
    pub passphrase: Option<Passphrases>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Made {
    folder: String,
    signer: Half,
    controller: Half,
    allowed_signers: String,
    revoked_signers: String,
    inventory: String,
}

#[derive(Serialize)]
struct Half {
    fingerprint: String,
    public: String,
    private: Option<String>,
}

/// A file to be made.
struct Plan {
    path: PathBuf,
    bytes: zeroize::Zeroizing<Vec<u8>>,
    mode: u32,
}

/// Makes everything, or nothing.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let folder = &settings.folder;
    let paths = [
        "keys/signer",
        "keys/signer.pub",
        "keys/controller",
        "keys/controller.pub",
        "keys/.gitignore",
        "trust/allowed_signers",
        "trust/revoked_signers",
        "inventory.yaml",
    ];
    let there = paths.iter().map(|p| folder.join(p)).filter(|p| p.exists());
    Faults::check(
        there.map(|p| Fault::new(Own::Exists, format!("{} is there already", p.display()))).collect(),
    )?;

    let mut plans = Vec::new();
    let mut plan = |name: &str, bytes: Vec<u8>, mode| {
        plans.push(Plan { path: folder.join(name), bytes: zeroize::Zeroizing::new(bytes), mode });
    };
    let (signer, signer_private) = match &settings.signer_public {
        Some(path) => (signer::read_public(path)?, None),
        None => {
            let secret = match &settings.passphrase {
                Some(from) => Some(from.choose("Passphrase for the signer key")?),
                None => None,
            };
            let key = file::generate("muster signer")?;
            plan("keys/signer", file::render(&key, secret.as_ref())?.as_bytes().to_vec(), 0o600);
            (public_of(&key)?, Some(folder.join("keys/signer")))
        }
    };
    signer::check_kind(&signer)?;
    plan("keys/signer.pub", format!("{} muster signer\n", signer.line()).into_bytes(), 0o644);
    let controller = file::generate("muster controller")?;
    plan("keys/controller", file::render(&controller, None)?.as_bytes().to_vec(), 0o600);
    let controller = public_of(&controller)?;
    plan("keys/controller.pub", format!("{} muster controller\n", controller.line()).into_bytes(), 0o644);
    plan("keys/.gitignore", b"*\n!.gitignore\n!*.pub\n".to_vec(), 0o644);
    plan("trust/allowed_signers", allowed_signers(&signer).into_bytes(), 0o644);
    plan("trust/revoked_signers", REVOKED.as_bytes().to_vec(), 0o644);
    plan("inventory.yaml", inventory(&signer, signer_private.is_some()).into_bytes(), 0o644);
    write(folder, &plans)?;

    let at = |name: &str| folder.join(name).display().to_string();
    let made = Made {
        folder: folder.display().to_string(),
        signer: Half {
            fingerprint: signer.fingerprint(),
            public: at("keys/signer.pub"),
            private: signer_private.map(|p| p.display().to_string()),
        },
        controller: Half {
            fingerprint: controller.fingerprint(),
            public: at("keys/controller.pub"),
            private: Some(at("keys/controller")),
        },
        allowed_signers: at("trust/allowed_signers"),
        revoked_signers: at("trust/revoked_signers"),
        inventory: at("inventory.yaml"),
    };
    say(&made, settings, printer);
    Ok(Exit::Ok)
}

fn public_of(key: &ssh_key::PrivateKey) -> Result<PublicKey, Fault> {
    let fault = |why: String| Fault::new(Own::Fault, "a new key cannot be read back").why(why);
    let blob = key.public_key().to_bytes().map_err(|e| fault(e.to_string()))?;
    PublicKey::from_blob(&blob).map_err(|e| fault(e.to_string()))
}

/// Writes all files; what was made is taken away again when one cannot be.
fn write(folder: &Path, plans: &[Plan]) -> Result<(), Fault> {
    let mut made = Vec::new();
    let result = files::make_folder(&folder.join("keys"), 0o700)
        .and_then(|()| files::make_folder(&folder.join("trust"), 0o755))
        .and_then(|()| {
            plans.iter().try_for_each(|p| {
                files::write_new(&p.path, &p.bytes, p.mode)?;
                made.push(&p.path);
                Ok(())
            })
        });
    if result.is_err() {
        for path in made {
            let _ = std::fs::remove_file(path);
        }
    }
    result
}

fn allowed_signers(signer: &PublicKey) -> String {
    format!(
        "# Whose signed scripts run as root. One line a signer: principal, options, key (ssh-keygen(1), ALLOWED SIGNERS).\n\
         # Add valid-before=\"YYYYMMDDZ\" to let a key run out; the Z is required.\n\
         muster namespaces=\"muster-intent\" {}\n",
        signer.line()
    )
}

const REVOKED: &str = "# Keys whose signatures no longer count: one public key or SHA256: fingerprint a line. Empty revokes nobody.\n";

fn inventory(signer: &PublicKey, has_file: bool) -> String {
    let signing = if has_file {
        "  key: keys/signer".to_owned()
    } else {
        format!("  agent: \"{}\"", signer.fingerprint())
    };
    format!(
        "# Which hosts there are and how they are reached. `muster host add` adds to the end of hosts:.\n\
         muster-inventory: 1\n\n\
         trust:\n  allowed-signers: trust/allowed_signers\n  revoked-signers: trust/revoked_signers\n\n\
         signing:\n{signing}\n\n\
         defaults:\n  ssh:\n    user: muster\n    identities: [keys/controller]\n\
         \u{20}\u{20}# Sent where a profile declares it.\n  vars:\n    MUSTER_NODE_NAME: {{from: name}}\n\n\
         hosts: {{}}\n"
    )
}

fn say(made: &Made, settings: &Settings, printer: &mut Printer) {
    if printer.value(made) {
        return;
    }
    let private = match &made.signer.private {
        Some(path) => format!("{path}  (private; move it offline: CI secret, vault, another machine)"),
        None => format!(
            "not here: in the token, agent or vault of {}",
            settings.signer_public.as_deref().unwrap_or(Path::new("-")).display()
        ),
    };
    for (label, text) in [
        ("signer", made.signer.fingerprint.clone()),
        ("", private),
        ("", format!("{}  (public)", made.signer.public)),
        ("controller", made.controller.fingerprint.clone()),
        (
            "",
            format!(
                "{}  (private; whoever holds it may ask hosts for what was signed)",
                made.controller.private.as_deref().unwrap_or("-")
            ),
        ),
        ("", format!("{}  (public; goes to hosts)", made.controller.public)),
        ("trust", format!("{}  (public; goes to hosts)", made.allowed_signers)),
        ("", format!("{}  (goes to hosts)", made.revoked_signers)),
        ("inventory", made.inventory.clone()),
    ] {
        printer.data(&format!("{label:<11}{text}"));
    }
    if settings.signer_public.is_none() && settings.passphrase.is_none() {
        printer.warn("the signer key has no passphrase: whoever reads the file can run code as root on every host that trusts it");
    }
    printer.hint("the controller never needs the signer's private half: keep the two on different machines");
    let there = if settings.folder == Path::new(".") {
        String::new()
    } else {
        format!("cd {} ; ", settings.folder.display())
    };
    printer.hint(&format!(
        "next: {there}muster host add NAME --address ADDRESS --host-key SHA256:… ; muster script sign PROFILE ; \
         muster host provision NAME --profile PROFILE"
    ));
}
