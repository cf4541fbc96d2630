//! `muster host rotate-key`: another host key for a host that was set up anew, or other controller keys on hosts.

use super::admin::{self, Access, Row};
use super::reach::{Pool, Reach};
use super::spec;
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::inventory::{Endpoint, Host, HostKey};
use crate::printer::{Printer, clean};
use crate::remote::pins::{self, Store};
use crate::remote::prover::Logins;
use crate::remote::session::Session;
use muster_core::UtcTime;
use muster_provision::rotate::{Rotation, rotate};
use muster_provision::{AccountName, ControllerKey, HostShell, files};
use muster_ssh::{Client, Identity, Passphrase};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The hosts.
    pub reach: Reach,
    /// How to get in.
    pub access: Access,
    /// New host keys, as they were typed.
    pub host_keys: Vec<String>,
    /// What must be pinned now.
    pub old_host_key: Option<String>,
    /// The new controller key: the private half's file, or its `.pub` while an agent holds the private half.
    pub controller_key: Option<String>,
    /// The fingerprint of the controller key that goes.
    pub old_controller_key: Option<String>,
    /// Say it only.
    pub plan: bool,
    /// Do not ask.
    pub yes: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Pinned {
    host: String,
    address: String,
    old: Vec<String>,
    new: Vec<String>,
    changed: bool,
    /// Authorities of the inventory whose host certificates this host may prove itself with all the same.
    host_cas: Vec<String>,
}

/// Does the one or the other.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    match &settings.controller_key {
        Some(key) => controller(settings, key, printer),
        None => host_key(settings, printer),
    }
}

fn host_key(settings: &Settings, printer: &mut Printer) -> Outcome {
    let reach = &settings.reach;
    let hosts = reach.hosts()?;
    let [host] = hosts.as_slice() else {
        return Err(Fault::new(
            Own::Usage,
            format!("--host-key is for one host, and {} were chosen", hosts.len()),
        )
        .fix("Name one host: no two hosts share a key.")
        .into());
    };
    let end = &host.ssh;
    let place = pins::place(&end.address, end.port);
    let keys = super::add::keys(&settings.host_keys, &[], (&end.address, end.port))?;
    let store = Store::at(reach.state.as_deref())?;
    let before = store.read()?.of(end);
    written(host, &keys, &reach.inventory.file)?;
    if let Some(old) = &settings.old_host_key
        && !before.iter().any(|k| k.fingerprint() == *old)
    {
        let what = format!("{} is pinned to {}, not to {}", host.name, pins::list(&before), clean(old));
        return Err(Fault::new(Own::PinConflict, what).fix("Find out which key the host had.").into());
    }
    let (old, new) = (pins::list(&before), pins::list(&keys));
    let changed = !settings.plan && old != new;
    if changed {
        let question = format!("Trust {new} instead of {old} at {place} for");
        reach.confirm(settings.yes, true, &hosts, &question)?;
        store.rotate(end, &keys, reach.now)?;
    }
    let row = Pinned {
        host: host.name.to_string(),
        address: place,
        old: before.iter().map(HostKey::fingerprint).collect(),
        new: keys.iter().map(HostKey::fingerprint).collect(),
        changed,
        host_cas: authorities(end),
    };
    if !printer.value(&row) {
        let verb = if changed { "now trusts" } else { "would trust" };
        printer.data(&format!("{} {verb} {new} instead of {old}", row.host));
    }
    if !row.host_cas.is_empty() {
        printer.warn(&format!(
            "{} is still trusted with any key that {} vouches for (host-ca in the inventory), the old one included where it has a \
             certificate",
            row.host,
            row.host_cas.join(" or ")
        ));
    }
    Ok(Exit::Ok)
}

/// What the inventory itself says is trusted beside the pins of the state folder, so the old key would stay trusted there
/// whatever is pinned instead.
fn written(host: &Host, new: &[HostKey], inventory: &Path) -> Result<(), Fault> {
    let stays = |k: &&HostKey| !new.iter().any(|n| n.fingerprint() == k.fingerprint());
    let others: Vec<HostKey> = host.ssh.host_keys.iter().filter(stays).cloned().collect();
    if others.is_empty() {
        return Ok(());
    }
    let list = pins::list(&others);
    let what = format!("the inventory names {list} for {}, which would stay trusted", host.name);
    let fix = "Change host-key there, or take it out; then run this again.";
    Err(Fault::new(Own::PinConflict, what).at(inventory, host.ssh.line).fix(fix))
}

/// The fingerprints of the authorities of an endpoint.
fn authorities(end: &Endpoint) -> Vec<String> {
    end.host_cas.iter().filter_map(|line| HostKey::parse(line)).map(|k| k.fingerprint()).collect()
}

/// The private half, to prove the new login with, and the public one, to put on hosts.
fn new_key(text: &str, agent: Option<&Path>) -> Result<(ControllerKey, Identity), Fault> {
    let key = spec::controller(text)?;
    let file = PathBuf::from(text.split(';').next().unwrap_or_default());
    let private = if file.extension().is_some_and(|e| e == "pub") { file.with_extension("") } else { file };
    let identity = if private.is_file() {
        // A key with a passphrase belongs into an agent here: it is used by many hosts at once.
        Identity::key_file(&private, Passphrase::None)
            .map_err(|e| Fault::new(Own::KeyFile, "the new key cannot be used").why(clean(&e.to_string())))?
    } else {
        let socket = agent.ok_or_else(|| {
            Fault::new(
                Own::AgentUnreachable,
                "the private half of the new key is neither beside it nor in an agent",
            )
            .fix("Name the private key file, or load it into your agent.")
        })?;
        let print = muster_ssh::Fingerprint::parse(key.key().fingerprint())
            .map_err(|e| Fault::new(Own::Fault, e.to_string()))?;
        Identity::agent(socket, Some(vec![print]))
    };
    Ok((key, identity))
}

fn controller(settings: &Settings, text: &str, printer: &mut Printer) -> Outcome {
    let Settings { reach, access, .. } = settings;
    let hosts = reach.hosts()?;
    let (key, identity) = new_key(text, reach.agent.as_deref())?;
    let new = key.key().fingerprint().to_owned();
    let mut olds = Vec::new();
    for host in &hosts {
        olds.push(match &settings.old_controller_key {
            Some(old) => old.clone(),
            None => only_key(host, reach)?,
        });
    }
    if !settings.plan {
        reach.confirm(
            settings.yes,
            false,
            &hosts,
            &format!("Put controller key {new} in the place of the old one on"),
        )?;
    }
    let fleet = super::fleet::Fleet::new();
    let client = Arc::new(Client::new(|| UtcTime::from_unix(muster_sys::clock::unix_seconds())));
    let mut proofs = Vec::new();
    for host in &hosts {
        let route = reach.pool_as(host, std::slice::from_ref(&identity), &fleet.asker())?;
        proofs.push(Some(Arc::new(Session::new(Arc::clone(&client), route, &host.ssh.user))));
    }
    let mut left = olds.into_iter().zip(proofs);
    let (plan, timeout) = (settings.plan, reach.pace.timeout);
    let rows = admin::on_all(
        "rotate-key",
        (reach, access, Pool::Unused),
        &hosts,
        printer,
        |host, both, shell, reporter| {
            let (name, user, key, next) =
                (host.name.to_string(), host.ssh.user.clone(), key.clone(), left.next());
            async move {
                let broken = || Fault::new(Own::Fault, "there is no key to rotate");
                let (old, proof) = next.ok_or_else(broken)?;
                let proof = proof.ok_or_else(broken)?;
                reporter.stage("reading its keys");
                let bad = |why: String| Fault::new(Own::ProvisionObstacle, clean(&why));
                let account = AccountName::new(&user).map_err(|e| bad(e.to_string()))?;
                let keys = format!("{}/{account}", files::AUTHORIZED_KEYS_DIR);
                let mut read = Vec::new();
                for path in [keys.as_str(), files::SHIM_TOML] {
                    let script = format!("cat {}\n", muster_provision::sh::quote(path));
                    let out =
                        shell.run_root(&script, b"").await.map_err(|e| admin::shell_fault(&e, &shell))?;
                    if out.status != 0 {
                        return Err(bad(format!("{path} cannot be read: {}", out.stderr_tail(200))));
                    }
                    read.push(out.stdout);
                }
                let (Some(policy), Some(listed)) = (read.pop(), read.pop()) else { return Err(broken()) };
                let rotation =
                    Rotation::new(&account, &listed, &policy, &old, &key).map_err(|e| bad(e.to_string()))?;
                let detail = format!("{} in the place of {old}", key.key().fingerprint());
                if plan {
                    return Ok(Row::good(&name, "to do", detail, Vec::new()));
                }
                let options = [admin::options(timeout, false)?, admin::options(timeout, false)?];
                let prover = Logins::new(Some(proof), both.admin, &name);
                let mut watch = |event| admin::tell(&reporter, &event);
                rotate(&shell, &prover, &rotation, &options, &mut watch)
                    .await
                    .map_err(|e| admin::run_fault(&e, &shell))?;
                Ok(Row::good(&name, "changed", detail, Vec::new()))
            }
        },
    )?;
    let exit = admin::conclude(rows, printer);
    if exit == Exit::Ok && !plan {
        printer.hint(
            "name the new key in the inventory, under `identities:` and where `controllers:` lists the old one; that one no longer opens these hosts",
        );
    }
    Ok(exit)
}

/// The one key that the inventory logs in with.
fn only_key(host: &Host, reach: &Reach) -> Result<String, Fault> {
    let keys = spec::controllers_of(host, &reach.inventory, reach.agent.as_deref())?;
    match keys.as_slice() {
        [one] => Ok(one.key().fingerprint().to_owned()),
        more => Err(Fault::new(
            Own::Usage,
            format!("{} has {} keys; which one goes is not said", host.name, more.len()),
        )
        .fix("Give --old-controller-key SHA256:…")),
    }
}
