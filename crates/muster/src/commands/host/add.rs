//! `muster host add`: a host and the key that it must prove to have. Nothing is asked of the network, so that nobody on it
//! can answer.

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::inventory::{self, HostKey, NewHost};
use crate::printer::{Printer, clean};
use crate::remote::pins::{self, Store};
use crate::signer;
use muster_core::{HostName, PoolName, UtcTime};
use muster_ssh::{Address, KnownHosts};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The inventory's file.
    pub file: PathBuf,
    /// What `~/` means in it.
    pub home: Option<PathBuf>,
    /// Where pins are.
    pub state: Option<PathBuf>,
    /// The host.
    pub host: NewHost,
    /// Its keys.
    pub keys: Vec<HostKey>,
    /// The one `now`.
    pub now: UtcTime,
    /// Say it only.
    pub plan: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Added {
    host: String,
    inventory: String,
    pinned: Vec<String>,
    host_ca: Vec<String>,
    written: bool,
}

/// Writes the host down, then pins its keys; both or neither.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let Settings { file, host, keys, .. } = settings;
    if keys.is_empty() && host.host_cas.is_empty() {
        return Err(Fault::new(Own::PinMissing, format!("nothing says whom {} must prove to be", host.name))
            .why("a key that is taken from the network at first contact is whoever answers there")
            .fix("Read the fingerprint off the host's console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and give \
                  --host-key, or give --known-hosts-line or --host-ca.")
            .into());
    }
    let (text, after) = inventory::with_host(file, settings.home.as_deref(), host)?;
    let new = after.host(host.name.as_str())?;
    let (end, who) = (&new.ssh, if new.admin.user.is_none() { " --admin-user USER" } else { "" });
    let store = Store::at(settings.state.as_deref())?;
    crate::remote::login::trust(end, keys)?;
    if settings.plan {
        printer.talk(&format!("would add to {}:", file.display()));
        printer.raw(host.render().as_bytes());
        printer.talk(&format!(
            "would pin {} at {}: {}",
            end.name,
            pins::place(&end.address, end.port),
            pins::list(keys)
        ));
        return Ok(Exit::Ok);
    }
    let new = !keys.is_empty() && store.add(end, keys, settings.now)?;
    if let Err(fault) = inventory::write(file, &text) {
        if new {
            store.take_back(end, settings.now)?;
        }
        return Err(fault.into());
    }
    let added = Added {
        host: host.name.to_string(),
        inventory: file.display().to_string(),
        pinned: keys.iter().map(HostKey::fingerprint).collect(),
        host_ca: host.host_cas.clone(),
        written: true,
    };
    if !printer.value(&added) {
        match printer.looks().format {
            crate::printer::Format::Name => printer.data(&added.host),
            _ => printer.talk(&format!(
                "added {} to {}; it must prove {}",
                host.name,
                file.display(),
                whom(keys, host)
            )),
        }
    }
    printer.hint(&format!(
        "next: muster host provision {}{who} --profile PROFILE, where PROFILE is signed (muster script sign PROFILE)",
        host.name
    ));
    Ok(Exit::Ok)
}

fn whom(keys: &[HostKey], host: &NewHost) -> String {
    let keys = keys.iter().map(HostKey::fingerprint);
    keys.chain((!host.host_cas.is_empty()).then(|| "a certificate of its host CA".to_owned()))
        .collect::<Vec<_>>()
        .join(" or ")
}

/// Keys of the command line: `--host-key` in any form but a known_hosts line, and `--known-hosts-line`, whose names must fit.
pub fn keys(
    host_keys: &[String],
    lines: &[String],
    (address, port): (&str, u16),
) -> Result<Vec<HostKey>, Faults> {
    let mut keys = Vec::new();
    let mut faults = Vec::new();
    for text in host_keys {
        match HostKey::parse(text) {
            Some(key) => keys.push(key),
            None => faults.push(
                Fault::new(Own::ConfigValue, format!("--host-key {:?} is not a host key", clean(text))).fix(
                    "Give SHA256:… with 43 characters, or a public key line such as `ssh-ed25519 AAAA…`.",
                ),
            ),
        }
    }
    for line in lines {
        match known_hosts(line, address, port) {
            Ok(key) => keys.push(key),
            Err(fault) => faults.push(fault),
        }
    }
    Faults::check(faults)?;
    keys.dedup_by_key(|k| k.fingerprint());
    Ok(keys)
}

fn known_hosts(line: &str, address: &str, port: u16) -> Result<HostKey, Fault> {
    let bad = |why: String| {
        Fault::new(Own::ConfigValue, "--known-hosts-line does not pin this host").why(clean(&why))
    };
    let known = KnownHosts::parse("the line", line.as_bytes()).map_err(|e| bad(e.to_string()))?;
    let place = Address::parse(address).map_err(|e| bad(e.to_string()))?;
    let trust = known.trust(&place, port).map_err(|_| {
        bad(format!("it does not name {}", pins::place(address, port)))
            .fix("Give a line for this address and port ([ADDRESS]:PORT where the port is not 22).")
    })?;
    if !trust.authorities().is_empty() {
        return Err(bad("it is a @cert-authority line".into()).fix("Give its key with --host-ca."));
    }
    HostKey::parse(line).ok_or_else(|| bad("it holds no key that hosts have".into()))
}

/// What `--host-ca` names: a key line, or a file.
pub fn authority(text: &str) -> Result<String, Fault> {
    let key = match signer::parse_public(text) {
        Some(key) => key,
        None => signer::read_public(Path::new(text))?,
    };
    Ok(key.line())
}

/// The pieces of a new host, checked.
pub fn new_host(a: &crate::args::host::Add) -> Result<NewHost, Faults> {
    let mut faults = Vec::new();
    let usage =
        |e: &dyn core::fmt::Display| Fault::new(Own::ConfigValue, e.to_string()).fix("Choose another name.");
    let name = HostName::new(&a.name).map_err(|e| usage(&e))?;
    let mut pools = Vec::new();
    for text in &a.pool {
        match PoolName::new(text) {
            Ok(pool) => pools.push(pool),
            Err(e) => faults.push(usage(&e)),
        }
    }
    let mut labels = Vec::new();
    for text in &a.label {
        match text.split_once('=') {
            Some((key, value)) => labels.push((key.to_owned(), value.to_owned())),
            None => faults.push(
                Fault::new(Own::Usage, format!("--label {:?} has no `=`", clean(text)))
                    .fix("Write --label KEY=VALUE."),
            ),
        }
    }
    let mut host_cas = Vec::new();
    for text in &a.host_ca {
        match authority(text) {
            Ok(line) => host_cas.push(line),
            Err(fault) => faults.push(fault),
        }
    }
    Faults::check(faults)?;
    let address =
        a.address.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(&a.address).to_owned();
    Ok(NewHost {
        name,
        address,
        port: a.port,
        user: a.user.clone(),
        via: a.via.clone(),
        pools,
        labels,
        host_cas,
        admin_user: a.admin_user.clone(),
    })
}

/// The port that a new host will have: what it says, or the inventory's default.
pub fn port(file: &Path, home: Option<&Path>, host: &NewHost) -> Result<u16, Faults> {
    let (_, after) = inventory::with_host(file, home, host)?;
    Ok(after.host(host.name.as_str())?.ssh.port)
}
