//! What a host shall be: from the inventory and the command line to a checked [`HostSpec`].

use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::files;
use crate::inventory::{Controller, Host, Identity, Inventory, Profile, Provisioning};
use crate::printer::clean;
use crate::profile::signed;
use crate::signer::{self, agent::Agent};
use muster_core::{Phase, ProfileName};
use muster_provision::spec::{EPOCH_MAX_STEP, MAX_DEADLINE, Terms};
use muster_provision::{
    AccountName, ControllerKey, DropIn, EnvelopeOne, FromPattern, HostSpec, PublicKeyLine, ShimBinary,
    SpecFault,
};
use muster_signing::{allowed_signers, revoked};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Largest program that is read as a shim.
const MAX_SHIM: usize = 64 << 20;

/// What the command line says of all hosts alike, read and checked.
#[derive(Debug)]
pub struct Wanted {
    /// The program.
    pub shim: ShimBinary,
    allowed_signers: Vec<u8>,
    revoked_signers: Vec<u8>,
    signers_needed: u32,
    profiles: BTreeMap<ProfileName, u32>,
    controllers: Vec<ControllerKey>,
    max_deadline: Option<u32>,
    epoch_max_step: Option<u32>,
    environment: BTreeMap<String, String>,
    drop_in: Option<DropIn>,
    /// What the folders hold that the inventory names.
    signed: BTreeMap<PathBuf, BTreeMap<ProfileName, u32>>,
    /// The key files that it names.
    keys: BTreeMap<PathBuf, PublicKeyLine>,
}

/// The same as it was typed.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    /// Folders of signed profiles.
    pub profiles: Vec<PathBuf>,
    /// NAME=EPOCH.
    pub allow_profiles: Vec<String>,
    /// The program.
    pub shim_binary: Option<PathBuf>,
    /// What its digest must be.
    pub shim_sha256: Option<String>,
    /// Trust root.
    pub allowed_signers: Option<PathBuf>,
    /// Revocation list.
    pub revoked_signers: Option<PathBuf>,
    /// Threshold.
    pub signers_needed: Option<u32>,
    /// `FILE[;from=…][;phases=…]`
    pub controller_keys: Vec<String>,
    /// Seconds.
    pub max_deadline: Option<u64>,
    /// Step.
    pub epoch_max_step: Option<u32>,
    /// NAME=VALUE.
    pub env: Vec<String>,
    /// Account of a fleet whose bash shim is swapped.
    pub drop_in: Option<String>,
}

fn of_spec(fault: &SpecFault) -> Fault {
    Fault::new(Own::ConfigValue, clean(&fault.part)).why(clean(&fault.why)).fix("Change it, then try again.")
}

/// Reads what all hosts share, and the files that the inventory names for these; every fault at once.
pub fn read(typed: &Typed, inventory: &Inventory, hosts: &[&Host]) -> Result<Wanted, Faults> {
    let mut faults = Vec::new();
    let mut keep = |fault: Fault| faults.push(fault);
    let shim = shim(typed).map_err(&mut keep).ok();
    let allowed = typed.allowed_signers.clone().or_else(|| inventory.trust.allowed_signers.clone());
    let allowed = match allowed {
        Some(path) => files::read(&path, allowed_signers::MAX_BYTES).map_err(&mut keep).ok(),
        None => {
            keep(Fault::new(Own::ConfigMissing, "nothing says whose signatures shall count").fix(
                "Give --allowed-signers FILE, or write `trust: {allowed-signers: FILE}` in the inventory.",
            ));
            None
        }
    };
    // A list of the inventory's own does not belong to another trust root.
    let listed = inventory.trust.revoked_signers.clone().filter(|_| typed.allowed_signers.is_none());
    let revoked = match typed.revoked_signers.clone().or(listed) {
        Some(path) => files::read(&path, revoked::MAX_BYTES).map_err(&mut keep).unwrap_or_default(),
        None => Vec::new(),
    };
    let profiles = profiles(typed, &mut keep);
    let (signed, keys) = named(hosts, typed, &inventory.file, &mut keep);
    let mut controllers = Vec::new();
    for text in &typed.controller_keys {
        match controller(text) {
            Ok(key) => controllers.push(key),
            Err(fault) => keep(fault),
        }
    }
    let environment = environment(typed, &mut keep);
    let drop_in = match typed.drop_in.as_deref().map(AccountName::new) {
        Some(Ok(account)) => Some(DropIn { account }),
        Some(Err(e)) => {
            keep(of_spec(&e));
            None
        }
        None => None,
    };
    let max_deadline = typed.max_deadline.map(|s| u32::try_from(s).unwrap_or(u32::MAX));
    Faults::check(faults)?;
    let (Some(shim), Some(allowed_signers)) = (shim, allowed) else {
        return Err(Fault::new(Own::Fault, "a specification was refused without a reason").into());
    };
    Ok(Wanted {
        shim,
        allowed_signers,
        revoked_signers: revoked,
        signers_needed: typed.signers_needed.or(inventory.trust.signers_needed).unwrap_or(1),
        profiles,
        controllers,
        max_deadline,
        epoch_max_step: typed.epoch_max_step,
        environment,
        drop_in,
        signed,
        keys,
    })
}

type Signed = BTreeMap<PathBuf, BTreeMap<ProfileName, u32>>;

/// The profiles and keys that the inventory names by file, each read once.
fn named(
    hosts: &[&Host],
    typed: &Typed,
    inventory: &Path,
    keep: &mut dyn FnMut(Fault),
) -> (Signed, BTreeMap<PathBuf, PublicKeyLine>) {
    let (mut signed, mut keys) = (Signed::new(), BTreeMap::new());
    let mut seen = BTreeSet::new();
    for host in hosts {
        for profile in host.provision.profiles.iter().flatten() {
            let Profile::Signed(folder) = profile else { continue };
            if !signed.contains_key(folder) {
                signed.insert(folder.clone(), signed_in(folder, keep));
            }
        }
        // Keys that the call names stand in the place of all of these.
        let named = host.provision.controllers.iter().flatten().filter(|_| typed.controller_keys.is_empty());
        for controller in named {
            if !seen.insert(&controller.key) {
                continue;
            }
            match public_line(&controller.key) {
                Ok(line) => drop(keys.insert(controller.key.clone(), line)),
                Err(fault) => {
                    keep(fault.hint(format!("{} line {} names it", inventory.display(), controller.line)))
                }
            }
        }
    }
    (signed, keys)
}

/// The profiles that are signed in a folder, with their least epochs.
fn signed_in(folder: &Path, keep: &mut dyn FnMut(Fault)) -> BTreeMap<ProfileName, u32> {
    let mut out: BTreeMap<ProfileName, u32> = BTreeMap::new();
    match signed::read_all(folder) {
        Err(more) => more.into_vec().into_iter().for_each(keep),
        Ok(all) if all.is_empty() => {
            let fix = format!(
                "Sign it with `muster script sign {}`: hosts get its name and epoch.",
                folder.display()
            );
            keep(signed::nothing_signed(folder, "holds nothing signed").fix(fix));
        }
        Ok(all) => {
            for one in all {
                let least = out.entry(one.intent.profile().clone()).or_insert(one.intent.epoch());
                *least = (*least).min(one.intent.epoch());
            }
        }
    }
    out
}

/// The shim that is named, or the one beside this program.
pub fn shim(typed: &Typed) -> Result<ShimBinary, Fault> {
    let path = match &typed.shim_binary {
        Some(path) => path.clone(),
        None => beside_us()?,
    };
    let bytes = files::read(&path, MAX_SHIM)?;
    ShimBinary::new(bytes, typed.shim_sha256.as_deref()).map_err(|e| of_spec(&e).at(&path, 0))
}

fn beside_us() -> Result<PathBuf, Fault> {
    let ours = std::env::current_exe().ok();
    let beside = ours.as_deref().and_then(Path::parent).map(|p| p.join("muster-shim"));
    let places = beside.into_iter().chain([PathBuf::from("/usr/bin/muster-shim")]);
    places.into_iter().find(|p| p.is_file()).ok_or_else(|| {
        Fault::new(Own::FileMissing, "no muster-shim beside this program and none in /usr/bin")
            .fix("Give --shim-binary FILE, the one of the release for the hosts' architecture.")
    })
}

fn profiles(typed: &Typed, keep: &mut dyn FnMut(Fault)) -> BTreeMap<ProfileName, u32> {
    let mut out: BTreeMap<ProfileName, u32> = BTreeMap::new();
    for folder in &typed.profiles {
        for (name, epoch) in signed_in(folder, keep) {
            let least = out.entry(name).or_insert(epoch);
            *least = (*least).min(epoch);
        }
    }
    for text in &typed.allow_profiles {
        match profile_epoch("--allow-profile", text) {
            Ok((name, epoch)) => {
                out.insert(name, epoch);
            }
            Err(fault) => keep(fault),
        }
    }
    out
}

/// `NAME=EPOCH`
pub fn profile_epoch(option: &str, text: &str) -> Result<(ProfileName, u32), Fault> {
    let parsed = text.split_once('=').and_then(|(name, epoch)| {
        Some((ProfileName::new(name).ok()?, epoch.parse::<u32>().ok().filter(|e| *e > 0)?))
    });
    parsed.ok_or_else(|| {
        Fault::new(Own::Usage, format!("{option} {:?} is not NAME=EPOCH", clean(text)))
            .fix(format!("Write {option} tls-bootstrap=7: a profile and a whole number from 1."))
    })
}

fn environment(typed: &Typed, keep: &mut dyn FnMut(Fault)) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for text in &typed.env {
        match text.split_once('=') {
            Some((name, value)) => {
                out.insert(name.to_owned(), value.to_owned());
            }
            None => keep(Fault::new(Own::Usage, "an --env has no `=`").fix("Write --env NAME=VALUE.")),
        }
    }
    out
}

/// `FILE[;from=CIDR,…][;phases=a,b]`
pub fn controller(text: &str) -> Result<ControllerKey, Fault> {
    let mut parts = text.split(';');
    let file = PathBuf::from(parts.next().unwrap_or_default());
    let mut key = ControllerKey::new(public_line(&file)?);
    for part in parts {
        key = match part.split_once('=') {
            Some(("from", list)) => {
                let from = list.split(',').map(FromPattern::new).collect::<Result<Vec<_>, _>>();
                from.and_then(|from| key.with_from(from)).map_err(|e| of_spec(&e))?
            }
            Some(("phases", list)) => {
                let phases: Option<Vec<Phase>> = list.split(',').map(Phase::from_word).collect();
                let phases = phases.ok_or_else(|| {
                    Fault::new(Own::Usage, format!("--controller-key: {:?} are not phases", clean(list)))
                        .fix("Use install, join, leave, uninstall, floor, joined by commas.")
                })?;
                key.with_phases(phases)
            }
            _ => {
                let what = format!("--controller-key: {:?} is neither from= nor phases=", clean(part));
                return Err(Fault::new(Own::Usage, what).fix("Write FILE[;from=CIDR,…][;phases=join,leave]."));
            }
        };
    }
    Ok(key)
}

/// The public key of a `.pub` file, or of the one beside a private key file.
pub fn public_line(file: &Path) -> Result<PublicKeyLine, Fault> {
    let is_public = file.extension().is_some_and(|e| e == "pub");
    let mut beside = file.as_os_str().to_owned();
    beside.push(".pub");
    let public = if is_public { file.to_owned() } else { PathBuf::from(beside) };
    let key = if public.exists() || is_public {
        signer::read_public(&public)?
    } else {
        // The public half stands in front of the encrypted part.
        let pem = zeroize::Zeroizing::new(files::read(file, allowed_signers::MAX_BYTES)?);
        let bad = |why: String| {
            Fault::new(Own::KeyFile, "cannot read its public half").why(clean(&why)).at(file, 0)
        };
        let parsed = muster_ssh::KeyFile::parse(&pem).map_err(|e| bad(e.to_string()))?;
        muster_signing::key::PublicKey::from_blob(parsed.public_blob()).map_err(|e| bad(e.to_string()))?
    };
    PublicKeyLine::parse(&key.line()).map_err(|e| of_spec(&e).at(file, 0))
}

/// The keys that the inventory logs in to a host's pool login with.
pub fn controllers_of(
    host: &Host,
    inventory: &Inventory,
    agent: Option<&Path>,
) -> Result<Vec<ControllerKey>, Fault> {
    let mut keys = Vec::new();
    for identity in &host.ssh.identities {
        let line = match identity {
            Identity::File { key, .. } => public_line(key)?,
            Identity::Agent(Some(which)) => {
                let key = Agent::at(agent)?.find(which, None)?;
                PublicKeyLine::parse(&key.public.line()).map_err(|e| of_spec(&e))?
            }
            // Any key of an agent's is not a key that somebody chose for this.
            Identity::Agent(None) => continue,
        };
        keys.push(ControllerKey::new(line));
    }
    if keys.is_empty() {
        return Err(Fault::new(
            Own::ConfigMissing,
            format!("nothing says which keys may open the pool login of {}", host.name),
        )
        .at(&inventory.file, host.line)
        .fix("Give --controller-key FILE.pub, or name key files under `identities:`."));
    }
    Ok(keys)
}

impl Wanted {
    /// What the inventory lists, with the limits that stand beside each.
    fn listed(&self, listed: &[Controller]) -> Result<Vec<ControllerKey>, Fault> {
        let mut out = Vec::new();
        for one in listed {
            // Every file that is named was read before.
            let Some(line) = self.keys.get(&one.key) else {
                return Err(Fault::new(Own::Fault, "a key of the inventory was not read"));
            };
            let key = ControllerKey::new(line.clone()).with_from(one.from.clone());
            let key = key.map_err(|e| of_spec(&e))?;
            out.push(match &one.phases {
                Some(phases) => key.with_phases(phases.iter().copied()),
                None => key,
            });
        }
        Ok(out)
    }

    /// What the inventory lists, and what the call names in the place of those of the same name.
    fn profiles_of(&self, here: &Provisioning) -> BTreeMap<ProfileName, u32> {
        let mut out = BTreeMap::new();
        for profile in here.profiles.iter().flatten() {
            match profile {
                Profile::Signed(folder) => {
                    out.extend(self.signed.get(folder).into_iter().flatten().map(|(n, e)| (n.clone(), *e)))
                }
                Profile::Named(name, epoch) => drop(out.insert(name.clone(), *epoch)),
            }
        }
        out.extend(self.profiles.clone());
        out
    }

    /// For one host.
    pub fn for_host(
        &self,
        host: &Host,
        inventory: &Inventory,
        agent: Option<&Path>,
    ) -> Result<HostSpec, Faults> {
        let here = &host.provision;
        let controllers = match (self.controllers.as_slice(), &here.controllers) {
            ([], None) => controllers_of(host, inventory, agent)?,
            ([], Some(listed)) => self.listed(listed)?,
            (given, _) => given.to_vec(),
        };
        let mut spec =
            HostSpec::new(host.name.clone(), self.shim.clone(), self.allowed_signers.clone(), controllers);
        spec.account = AccountName::new(&host.ssh.user).map_err(|e| of_spec(&e))?;
        spec.pools = host.pools.iter().cloned().collect::<BTreeSet<_>>();
        spec.revoked_signers.clone_from(&self.revoked_signers);
        spec.signers_needed = self.signers_needed;
        spec.profiles = self.profiles_of(here);
        spec.max_deadline = self.max_deadline.or(here.max_deadline).unwrap_or(MAX_DEADLINE);
        spec.epoch_max_step = self.epoch_max_step.or(here.epoch_max_step).unwrap_or(EPOCH_MAX_STEP);
        spec.environment.clone_from(&here.env);
        spec.environment.extend(self.environment.clone());
        let fleet = here.drop_in.clone().flatten().map(|account| DropIn { account });
        spec.drop_in = self.drop_in.clone().or(fleet);
        let taken = host.envelope == 1 || spec.drop_in.is_some();
        spec.envelope_one = match &here.envelope_one {
            Some(Some(terms)) => EnvelopeOne::Taken(terms.clone()),
            None if taken => EnvelopeOne::Taken(Terms::default()),
            Some(None) | None => EnvelopeOne::Refused,
        };
        let faults = spec.check().err().unwrap_or_default();
        let about = |f: &SpecFault| of_spec(f).hint(format!("this is about host {}", host.name));
        Faults::check(faults.iter().map(about).collect())?;
        Ok(spec)
    }
}
