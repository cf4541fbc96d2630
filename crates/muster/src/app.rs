//! From arguments to an exit code.

mod audit;
mod context;
mod host;
mod node;
mod pki;
mod ui;

use crate::args::{Cli, Command, Global, InventoryFile, SignerArgs, script};
use crate::codes::Own;
use crate::commands;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::inventory::{self, Inventory};
use crate::printer::{Looks, Printer};
use crate::profile::folder::Overrides;
use crate::profile::manifest::parse_target;
use crate::profile::verify::Root;
use crate::settings::{World, span, time};
use crate::signer::Choice;
use crate::terminal::Passphrases;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use std::ffi::OsString;

/// Runs one command; the number is the process's exit code.
pub fn run(arguments: Vec<OsString>, world: &World) -> u8 {
    // The front keeps ssh-keygen's own grammar, which clap must not touch.
    if arguments.get(1).is_some_and(|a| a == "ssh-keygen") {
        return crate::keygen::run(arguments.get(2..).unwrap_or_default(), world);
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(e) => return refuse(&e, &arguments, world).code(),
    };
    let looks = world.looks(&cli.global);
    let mut printer = Printer::new(Box::new(std::io::stdout()), Box::new(std::io::stderr()), looks);
    match dispatch(cli.command, world, &mut printer) {
        // What was asked for is not where it was to be.
        Ok(Exit::Ok) if printer.out_failed() => Exit::Internal.code(),
        Ok(exit) => exit.code(),
        Err(faults) => tell(&faults, &mut printer).code(),
    }
}

/// Tells why a command did not do its job.
fn tell(faults: &Faults, printer: &mut Printer) -> Exit {
    printer.faults(faults);
    if let Some(first) = faults.iter().next() {
        printer.hint(&format!("`muster explain {}` says more", first.code));
    }
    faults.exit()
}

/// Help and version are answers; everything else is a fault of one line.
fn refuse(error: &clap::Error, arguments: &[OsString], world: &World) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A reader of the help that goes away is no fault.
        let _ = error.print();
        return Exit::Ok;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Exit::Usage;
    }
    let global = Global { output: Default::default(), color: Default::default(), quiet: false };
    let looks = Looks { live: false, ..world.looks(&global) };
    let mut printer = Printer::new(Box::new(std::io::stdout()), Box::new(std::io::stderr()), looks);
    let mut fault = usage(&error.render().to_string());
    fault.hints.extend(misplaced(error, arguments));
    printer.fault(&fault);
    Exit::Usage
}

/// Where an option stands before the command that knows it: how the two go together.
fn misplaced(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg)? else { return None };
    let mut command = Cli::command();
    let mut names = vec![command.get_name().to_owned()];
    for word in arguments.iter().filter_map(|w| w.to_str()) {
        if let Some(next) = command.find_subcommand(word).cloned() {
            names.push(word.to_owned());
            command = next;
        }
    }
    let knows = |a: &clap::Arg| {
        let long = a.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long));
        long || a
            .get_short()
            .is_some_and(|short| option.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4])))
    };
    let known = names.len() > 1 && command.get_arguments().any(knows);
    known.then(|| format!("{option} stands after the command: {} … {option} …", names.join(" ")))
}

/// clap's several lines as one line and its tips as hints.
fn usage(text: &str) -> Fault {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let mut what = Vec::new();
    let mut hints = Vec::new();
    let mut fix = None;
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            hints.push(tip.to_owned());
        } else if let Some(usage) = line.strip_prefix("Usage: ") {
            let words: Vec<&str> =
                usage.split_whitespace().take_while(|w| !w.starts_with(['[', '<', '-'])).collect();
            fix = Some(format!("Run `{} --help`.", words.join(" ")));
        } else if !line.starts_with("For more information") {
            what.push(line.to_owned());
        }
    }
    let mut fault = Fault::new(Own::Usage, what.join(" "));
    fault.fix = fix;
    fault.hints = hints;
    fault
}

fn dispatch(command: Command, world: &World, printer: &mut Printer) -> Outcome {
    match command {
        Command::Init(a) => {
            let passphrase = (!a.danger_no_passphrase).then_some(Passphrases { file: a.passphrase_file });
            let settings =
                commands::init::Settings { folder: a.folder, signer_public: a.signer_public, passphrase };
            commands::init::run(&settings, printer)
        }
        Command::Script(script::Script::Lint(a)) => {
            let settings = commands::script::lint::Settings {
                folder: a.folder,
                accept_open: a.accept_open,
                strict: a.strict,
            };
            commands::script::lint::run(&settings, printer)
        }
        Command::Script(script::Script::Sign(a)) | Command::Sign(a) => sign(a, world, printer),
        Command::Script(script::Script::Verify(a)) | Command::Verify(a) => verify(a, world, printer),
        Command::Script(script::Script::Show(a)) => commands::script::show::run(&a.path, world.now, printer),
        Command::Host(a) => host::dispatch(a, world, printer),
        Command::Node(a) => node::dispatch(a, world, printer),
        Command::Enroll(a) => node::dispatch(crate::args::node::Node::Claim(a), world, printer),
        Command::Context(a) => context::dispatch(a, world, printer),
        Command::Audit(a) => audit::dispatch(*a, world, printer),
        Command::Pki(a) => pki::dispatch(a, world, printer),
        Command::Ui(a) => ui::dispatch(*a, world, printer),
        Command::Explain { code } => commands::explain::run(code.as_deref(), printer),
        Command::Completion { shell } => commands::generate::completion(shell, printer),
        Command::SshKeygen { .. } => Err(Fault::new(Own::Usage, "options stand before ssh-keygen")
            .fix("Write `muster ssh-keygen …` with nothing between.")
            .into()),
    }
}

/// The inventory that is named, or found.
fn read_inventory(named: &InventoryFile, world: &World) -> Result<Inventory, Faults> {
    let file = inventory::find(named.inventory.as_deref(), world.config.as_deref())?;
    Inventory::read(&file, world.home.as_deref())
}

/// The inventory where it only adds defaults: one that is named must be there, one that is not found is none.
fn maybe_inventory(named: &InventoryFile, world: &World) -> Result<Option<Inventory>, Faults> {
    match inventory::find(named.inventory.as_deref(), world.config.as_deref()) {
        Ok(file) => Inventory::read(&file, world.home.as_deref()).map(Some),
        Err(_) => Ok(None),
    }
}

fn choice(signer: &SignerArgs, inventory: Option<&Inventory>) -> Option<Choice> {
    match (&signer.key, &signer.signer_agent) {
        (Some(key), _) => Some(Choice::File(key.clone())),
        (None, Some(which)) => Some(Choice::Agent(which.clone())),
        (None, None) => inventory.and_then(|i| i.signing.clone()),
    }
}

fn sign(a: script::Sign, world: &World, printer: &mut Printer) -> Outcome {
    let named = a.signer.key.is_some() || a.signer.signer_agent.is_some();
    let inventory = if named { None } else { maybe_inventory(&a.inventory, world)? };
    let mut targets = Vec::new();
    for text in &a.target {
        targets.push(parse_target(text).ok_or_else(|| {
            Fault::new(Own::Usage, format!("--target {text:?} is not a target"))
                .fix("Write host=NAME, pool=NAME or *.")
        })?);
    }
    let over = Overrides {
        epoch: a.epoch,
        targets,
        not_before: a.not_before.as_deref().map(|t| time("--not-before", t)).transpose()?,
        not_after: a.not_after.as_deref().map(|t| time("--not-after", t)).transpose()?,
        validity: a.validity.as_deref().map(|t| span("--validity", t)).transpose()?,
    };
    let signing = commands::script::sign::Signing {
        choice: choice(&a.signer, inventory.as_ref()),
        passphrases: Passphrases { file: a.signer.passphrase_file },
        agent: world.agent.clone(),
    };
    let settings = commands::script::sign::Settings {
        folder: a.folder,
        signing,
        over,
        accept_open: a.accept_open,
        accept_epoch: a.accept_epoch,
        plan: a.plan,
        now: world.now,
    };
    match (a.envelope, a.add) {
        (script::Envelope::Two, false) => commands::script::sign::run(&settings, printer),
        (script::Envelope::Two, true) => commands::script::sign::add(&settings, printer),
        (script::Envelope::One, false) => commands::script::sign::envelope_one(&settings, printer),
        (script::Envelope::One, true) => Err(Fault::new(Own::Usage, "envelope 1 carries one signature")
            .fix("Use envelope 2 for several signers.")
            .into()),
    }
}

fn verify(a: script::Verify, world: &World, printer: &mut Printer) -> Outcome {
    let inventory = maybe_inventory(&a.inventory, world)?;
    let trust = inventory.as_ref().map(|i| &i.trust);
    let allowed = a.allowed_signers.clone().or_else(|| trust.and_then(|t| t.allowed_signers.clone()));
    let allowed = allowed.ok_or_else(|| {
        Fault::new(Own::ConfigMissing, "no allowed_signers file was named")
            .fix("Give --allowed-signers FILE, or an inventory with trust: allowed-signers.")
    })?;
    // A revocation list of the inventory does not judge another trust file than its own.
    let own = a.allowed_signers.is_none();
    let listed = trust.filter(|_| own).and_then(|t| t.revoked_signers.clone());
    let revoked = a.revoked_signers.or(listed);
    let needed =
        a.signers_needed.or_else(|| trust.filter(|_| own).and_then(|t| t.signers_needed)).unwrap_or(1);
    let envelope_one = a.envelope == script::Envelope::One;
    let host = match &a.host {
        None => None,
        Some(name) => {
            let bad = |e: muster_core::BadName| {
                Fault::new(Own::Usage, e.to_string()).fix("Give the name of a host.")
            };
            let name = muster_core::HostName::new(name).map_err(bad)?;
            let mut pools = Vec::new();
            for p in &a.pool {
                pools.push(muster_core::PoolName::new(p).map_err(bad)?);
            }
            let known = inventory.as_ref().and_then(|i| i.host(name.as_str()).ok());
            if pools.is_empty() {
                pools = known.map(|h| h.pools.clone()).unwrap_or_default();
            }
            Some((name, pools))
        }
    };
    let settings = commands::script::verify::Settings {
        folder: a.folder,
        root: Root::read(&allowed, revoked.as_deref(), needed, envelope_one)?,
        host,
        at: a.at.as_deref().map(|t| time("--at", t)).transpose()?.unwrap_or(world.now),
        envelope_one,
    };
    commands::script::verify::run(&settings, printer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn claps_lines_become_one() {
        let e = Cli::try_parse_from(["muster", "host", "lsit"]).unwrap_err();
        let fault = usage(&e.render().to_string());
        assert_eq!(fault.to_string(), "unrecognized subcommand 'lsit'. Run `muster host --help`.");
        assert_eq!(fault.hints, ["a similar subcommand exists: 'list'"]);
        let e = Cli::try_parse_from(["muster", "sign"]).unwrap_err();
        assert!(usage(&e.render().to_string()).to_string().contains("<FOLDER>"));
    }
}
