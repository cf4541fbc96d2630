//! The commands of root on the machine (S19): `musterd status`, `pairing`, `set-ca`, `rekey`.
//!
//! They ask the core over its control socket and print what it says. Exit 0: done; 1: not.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::core::control::{Asked, Pairing, Status, Told, ask};
use crate::places::CONTROL_SOCKET;

/// Longest file with a certificate, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Where the core is.
#[derive(Args, Debug)]
pub struct Socket {
    /// The core's control socket.
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// What about the pairing.
#[derive(Subcommand, Debug)]
pub enum PairingCommand {
    /// Makes a new code, with all its tries, and shows it on the console.
    Renew(Socket),
    /// Shows code, tries, and who typed wrong codes.
    Status(Socket),
}

/// Who owns the node, and what it waits for.
#[must_use]
pub fn status(socket: &Socket) -> ExitCode {
    run(socket, &Asked::Status)
}

/// The pairing.
#[must_use]
pub fn pairing(command: &PairingCommand) -> ExitCode {
    match command {
        PairingCommand::Renew(socket) => run(socket, &Asked::RenewPairing),
        PairingCommand::Status(socket) => run(socket, &Asked::Pairing),
    }
}

/// Another owner, for a node whose owner lost its key. `-` reads standard input.
#[must_use]
pub fn set_ca(socket: &Socket, file: &Path) -> ExitCode {
    match read(file) {
        Ok(authority) => run(socket, &Asked::SetCa { authority }),
        Err(why) => refused(&why),
    }
}

/// Another serving key, after somebody saw the old one.
#[must_use]
pub fn rekey(socket: &Socket) -> ExitCode {
    run(socket, &Asked::Rekey)
}

fn read(file: &Path) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    } else {
        std::fs::File::open(file).and_then(|f| f.take(MAX_FILE).read_to_string(&mut text)).map_err(failed)?;
    }
    Ok(text)
}

fn run(socket: &Socket, asked: &Asked) -> ExitCode {
    let told = match ask(&socket.socket, asked) {
        Ok(Told::Refused { why }) | Err(why) => return refused(&why),
        Ok(told) => told,
    };
    let text = if socket.json {
        serde_json::to_string(&told).unwrap_or_default()
    } else {
        match &told {
            Told::Status(status) => status_text(status),
            Told::Pairing(pairing) => pairing_text(pairing),
            Told::Fingerprint { fingerprint } => match asked {
                Asked::Rekey => format!(
                    "serving certificate  {fingerprint}\nEvery client must pin it again, and compare it with this."
                ),
                _ => format!("owner  {fingerprint}\nClients of the owner before are let in no longer."),
            },
            Told::Refused { .. } => String::new(),
        }
    };
    crate::printed(&text)
}

fn refused(why: &str) -> ExitCode {
    crate::say::ends(why);
    ExitCode::FAILURE
}

fn rows(rows: &[(&str, Option<String>)]) -> String {
    let shown = rows.iter().filter_map(|(name, value)| Some(format!("{name:<20} {}", value.as_ref()?)));
    shown.collect::<Vec<_>>().join("\n")
}

fn status_text(status: &Status) -> String {
    let owner = status.owner.clone().unwrap_or_else(|| "nobody".to_owned());
    rows(&[
        ("state", Some(status.summary.clone())),
        ("owner", Some(owner)),
        ("by", status.method.clone()),
        ("since", status.since.clone()),
        ("warning", status.unauthenticated.then(|| "whoever came first got this node, or will".to_owned())),
        ("waits for", status.waits_for.clone()),
        ("serving certificate", Some(status.fingerprint.clone())),
        ("listens at", Some(status.listen.clone())),
        ("revocation", Some(status.revocation.clone())),
        ("document", status.document_fault.clone()),
    ])
}

fn pairing_text(pairing: &Pairing) -> String {
    let spent = (!pairing.spent.is_empty()).then(|| pairing.spent.join(", "));
    rows(&[
        ("pairing code", Some(pairing.code.clone())),
        ("tries left", Some(pairing.tries.to_string())),
        ("wrong codes from", spent),
        ("serving certificate", Some(pairing.fingerprint.clone())),
    ])
}
