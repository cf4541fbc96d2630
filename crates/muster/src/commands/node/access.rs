//! `muster node ssh-key`

use super::plan;
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::files;
use crate::nodes::session::{Session, Shape, show};
use crate::printer::{Format, Printer, clean};
use muster_api::access::{SshKey, SshKeys, SshRevoked};
use muster_core::Operation;
use std::path::Path;

const MAX_KEY: usize = 8 * 1024;

fn cells(key: &SshKey) -> Vec<String> {
    vec![key.user.clone(), key.kind.clone(), key.fingerprint.clone(), key.comment.clone().unwrap_or_default()]
}

const COLUMNS: &[&str] = &["user", "type", "fingerprint", "comment"];

/// Lets a key in.
pub fn add(session: &Session, user: &str, file: &Path, plan: bool, printer: &mut Printer) -> Outcome {
    let text = files::read_text(file, MAX_KEY)?;
    // Read here as well: a private key must not leave this machine because a file name was mistyped.
    let line = text.trim();
    let public = crate::signer::parse_public(line).filter(|_| !line.contains('\n'));
    if public.is_none() {
        return Err(Fault::new(Own::KeyFile, format!("{} is no public key of one line", file.display()))
            .fix("Give the .pub file.")
            .into());
    }
    if plan {
        return plan::same(&session.chosen, &format!("let {} in as {user}", file.display()), printer);
    }
    let (user, line) = (user.to_owned(), line.to_owned());
    let results = session.each(Operation::SshKeyAdd, move |callee| {
        let (user, line) = (user.clone(), line.clone());
        async move { callee.told(Operation::SshKeyAdd, callee.node.ssh_key_add(&user, &line).await) }
    })?;
    for (chosen, result) in &results {
        if let Some(warning) = result.as_ref().ok().and_then(|key| key.warning.as_deref()) {
            printer.warn(&format!("{}: {}", chosen.name, clean(warning)));
        }
    }
    show(results, &Shape { columns: COLUMNS, cells }, printer)
}

/// Lists the keys that were let in.
pub fn list(session: &Session, printer: &mut Printer) -> Outcome {
    let results = session.each(Operation::SshKeys, |callee| async move {
        callee.told(Operation::SshKeys, callee.node.ssh_keys().await)
    })?;
    if matches!(printer.looks().format, Format::Json | Format::Yaml) {
        let cells = |k: &SshKeys| vec![k.keys.len().to_string()];
        return show(results, &Shape { columns: &["keys"], cells }, printer);
    }
    let exits: Vec<Exit> =
        results.iter().map(|(_, r)| r.as_ref().map_or_else(|f| f.exit(), |_| Exit::Ok)).collect();
    let (mut rows, mut names) = (Vec::new(), Vec::new());
    for (chosen, result) in results {
        match result {
            Ok(all) => {
                names.extend(all.keys.iter().map(|k| k.fingerprint.clone()));
                let row = |k| core::iter::once(chosen.name.clone()).chain(cells(k)).collect::<Vec<_>>();
                rows.extend(all.keys.iter().map(row));
            }
            Err(fault) => printer.fault(&fault),
        }
    }
    if printer.looks().format == Format::Name {
        // What `ssh-key revoke` takes.
        names.iter().for_each(|name| printer.data(&clean(name)));
        return Ok(Exit::of_many(exits));
    }
    match rows.is_empty() {
        // Of a node that did not answer nothing is known.
        true if exits.iter().any(|e| *e != Exit::Ok) => {}
        true => printer.talk("no key was let in over the API"),
        false => printer.table(&["node", "user", "type", "fingerprint", "comment"], &rows),
    }
    Ok(Exit::of_many(exits))
}

/// Lets a key in no longer.
pub fn revoke(session: &Session, fingerprint: &str, plan: bool, printer: &mut Printer) -> Outcome {
    if !muster_signing::key::is_fingerprint(fingerprint) {
        return Err(Fault::new(Own::Usage, format!("--key {fingerprint:?} is no fingerprint"))
            .fix("Write SHA256:… as `muster node ssh-key list` shows it.")
            .into());
    }
    if plan {
        return plan::same(&session.chosen, &format!("let {fingerprint} in no longer"), printer);
    }
    let fingerprint = fingerprint.to_owned();
    let results = session.each(Operation::SshKeyRemove, move |callee| {
        let fingerprint = fingerprint.clone();
        async move { callee.told(Operation::SshKeyRemove, callee.node.ssh_key_remove(&fingerprint).await) }
    })?;
    let cells = |r: &SshRevoked| {
        let of: Vec<&str> = r.removed.iter().map(|k| k.user.as_str()).collect();
        vec![r.status.clone(), of.join(",")]
    };
    show(results, &Shape { columns: &["status", "of"], cells }, printer)
}
