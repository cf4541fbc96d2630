//! `muster pki`: the operators' authority.

pub mod nodes;

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::files;
use crate::pki::{Folder, Revocations, bad, keyfile};
use crate::printer::{Format, Listing, Printer, clean};
use crate::signer::file::random;
use crate::terminal::Passphrases;
use muster_core::{Role, UtcTime};
use muster_tls::{Authority, Client, ClientKey, Lifetime};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What `muster pki init` was asked for.
#[derive(Debug)]
pub struct InitSettings {
    /// Where.
    pub folder: PathBuf,
    /// Common name.
    pub name: String,
    /// How long it is valid.
    pub lifetime: Lifetime,
    /// Where the key's passphrase comes from; none leaves the key open.
    pub passphrase: Option<Passphrases>,
}

/// What `muster pki issue` was asked for.
#[derive(Debug)]
pub struct IssueSettings {
    /// Where the authority is.
    pub folder: PathBuf,
    /// For whom.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// For how long.
    pub lifetime: Lifetime,
    /// Where the authority's passphrase comes from.
    pub authority: Passphrases,
    /// Where the new key's passphrase comes from; none leaves the key open.
    pub passphrase: Option<Passphrases>,
    /// A key that somebody else keeps; otherwise one is made.
    pub public: Option<PathBuf>,
}

/// What `muster pki revoke` was asked for.
#[derive(Debug)]
pub struct RevokeSettings {
    /// Where the authority is.
    pub folder: PathBuf,
    /// Names or serial numbers.
    pub who: Vec<String>,
    /// All certificates of a name.
    pub all: bool,
    /// Seconds from now until the list ends.
    pub ends: Option<u64>,
    /// Where the authority's passphrase comes from.
    pub authority: Passphrases,
    /// Only look.
    pub plan: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Made {
    name: String,
    fingerprint: String,
    certificate: String,
    key: String,
    serial: String,
    not_after: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    name: String,
    role: Option<&'static str>,
    serial: String,
    not_after: String,
    state: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Signed {
    list: String,
    number: u64,
    revoked: usize,
    ends: Option<String>,
    added: Vec<String>,
}

/// A result for programs, or its file's name; `false` when people want to read it.
fn told(made: &impl Serialize, file: &str, printer: &mut Printer) -> bool {
    if printer.value(made) {
        return true;
    }
    let name = printer.looks().format == Format::Name;
    if name {
        printer.data(&clean(file));
    }
    name
}

fn serial() -> Result<[u8; 16], Fault> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    Ok(bytes)
}

/// A name that is a file's name too, and reads the same in a certificate, a log and a shell.
fn check_name(name: &str) -> Result<(), Fault> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"._@-".contains(&b);
    let good = (1..=64).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with(['.', '-']);
    if good {
        return Ok(());
    }
    Err(Fault::new(Own::Usage, format!("{name:?} is no name for a client"))
        .fix("Use at most 64 letters, digits and . _ @ -, beginning with a letter or digit."))
}

/// Common name of an authority.
fn check_title(name: &str) -> Result<(), Fault> {
    if (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
        return Ok(());
    }
    Err(Fault::new(Own::Usage, format!("--name {name:?} is no name for an authority"))
        .fix("Use 1 to 64 printable ASCII characters."))
}

fn exists(paths: &[PathBuf]) -> Result<(), Faults> {
    let there = paths.iter().filter(|p| p.exists());
    Faults::check(
        there.map(|p| Fault::new(Own::Exists, format!("{} is there already", p.display()))).collect(),
    )
}

/// Makes the authority, or nothing.
pub fn init(settings: &InitSettings, now: UtcTime, printer: &mut Printer) -> Outcome {
    check_title(&settings.name)?;
    let folder = Folder(&settings.folder);
    let (pem, key) = (folder.path("operator-ca.pem"), folder.path("operator-ca.key"));
    exists(&[pem.clone(), key.clone(), folder.path("issued"), folder.path("revoked.json")])?;
    let secret = chosen(settings.passphrase.as_ref(), "Passphrase for the authority's key")?;
    let (authority, made) = Authority::make(&settings.name, settings.lifetime, now, serial()?)
        .map_err(|f| Fault::new(Own::Fault, "cannot make an authority").why(f.to_string()))?;
    let locked = keyfile::render(&made.key, secret.as_ref())?;
    files::make_folder(&settings.folder, 0o700)?;
    let ignore = folder.path(".gitignore");
    if !ignore.exists() {
        files::write_new(&ignore, b"*.key\n", 0o644)?;
    }
    // The key first: a certificate without its key would be handed to nodes that nobody can ever call.
    pair(&key, locked.as_bytes(), &pem, made.certificate.as_bytes())?;
    let made = Made {
        name: settings.name.clone(),
        fingerprint: authority.ca().fingerprint().to_string(),
        certificate: pem.display().to_string(),
        key: key.display().to_string(),
        serial: made.serial,
        not_after: made.not_after.to_string(),
    };
    if told(&made, &made.certificate, printer) {
        return Ok(Exit::Ok);
    }
    printer.data(&format!("authority   {}  {}", made.name, made.fingerprint));
    printer.data(&format!("            {}  (public; goes to nodes)", made.certificate));
    printer.data(&format!(
        "            {}  (private; whoever holds it makes operators of every node)",
        made.key
    ));
    printer.data(&format!("ends        {}", made.not_after));
    open_key_warning(settings.passphrase.is_none(), printer);
    printer.hint(&format!("next: muster pki issue NAME --role admin --pki {}", settings.folder.display()));
    Ok(Exit::Ok)
}

/// Writes a key and what belongs to it; neither stays without the other.
fn pair(key: &Path, key_bytes: &[u8], pem: &Path, pem_bytes: &[u8]) -> Result<(), Fault> {
    files::write_new(key, key_bytes, 0o600)?;
    files::write_new(pem, pem_bytes, 0o644).inspect_err(|_| {
        let _ = std::fs::remove_file(key);
    })
}

fn chosen(from: Option<&Passphrases>, prompt: &str) -> Result<Option<crate::secret::Secret>, Fault> {
    from.map(|from| from.choose(prompt)).transpose()
}

fn open_key_warning(open: bool, printer: &mut Printer) {
    if open {
        printer.warn("the key has no passphrase: whoever reads the file can act as its owner");
    }
}

/// Issues a client's certificate.
pub fn issue(settings: &IssueSettings, now: UtcTime, printer: &mut Printer) -> Outcome {
    check_name(&settings.name)?;
    let folder = Folder(&settings.folder);
    let clients = folder.path("clients");
    let pem = clients.join(format!("{}.pem", settings.name));
    let key = clients.join(format!("{}.key", settings.name));
    exists(&[pem.clone(), key.clone()])?;
    let kept = settings.public.as_deref().map(client_key).transpose()?;
    let authority = folder.authority(&settings.authority)?;
    let question = format!("Passphrase for the key of {}", settings.name);
    let secret = chosen(settings.passphrase.as_ref().filter(|_| kept.is_none()), &question)?;
    let (role, lifetime, serial) = (settings.role, settings.lifetime, serial()?);
    let issued = match &kept {
        None => authority.issue(&settings.name, role, lifetime, now, serial),
        Some(key) => authority.issue_for(&settings.name, role, lifetime, now, serial, key),
    };
    let issued = issued.map_err(|f| {
        Fault::new(Own::PkiFile, format!("nothing was issued to {}", settings.name)).why(f.to_string())
    })?;
    files::make_folder(&folder.path("issued"), 0o700)?;
    files::make_folder(&clients, 0o700)?;
    // Known here before it exists anywhere else, so that it can be revoked whatever happens next.
    files::write_new(
        &folder.path(&format!("issued/{}.pem", issued.serial)),
        issued.certificate.as_bytes(),
        0o644,
    )?;
    match &kept {
        None => {
            let locked = keyfile::render(&issued.key, secret.as_ref())?;
            pair(&key, locked.as_bytes(), &pem, issued.certificate.as_bytes())?;
        }
        Some(_) => files::write_new(&pem, issued.certificate.as_bytes(), 0o644)?,
    }
    let fingerprint = muster_tls::authority::fingerprint(&issued.certificate).map_err(|f| bad(&pem, &f))?;
    let made = Made {
        name: settings.name.clone(),
        fingerprint: fingerprint.to_string(),
        certificate: pem.display().to_string(),
        key: match &settings.public {
            None => key.display().to_string(),
            Some(public) => public.display().to_string(),
        },
        serial: issued.serial,
        not_after: issued.not_after.to_string(),
    };
    if told(&made, &made.certificate, printer) {
        return Ok(Exit::Ok);
    }
    printer.data(&format!("client      {}  {}", made.name, settings.role));
    printer.data(&format!("            {}", made.certificate));
    match kept.is_some() {
        true => printer.data(&format!("            {}  (its private half stays in the agent)", made.key)),
        false => printer.data(&format!("            {}  (private; hand it over and keep no copy)", made.key)),
    }
    printer.data(&format!("serial      {}", made.serial));
    printer.data(&format!("ends        {}", made.not_after));
    open_key_warning(settings.passphrase.is_none() && kept.is_none(), printer);
    Ok(Exit::Ok)
}

/// A key that an agent keeps, by its public half.
fn client_key(file: &Path) -> Result<ClientKey, Fault> {
    let public = crate::signer::read_public(file)?;
    ClientKey::from_ssh(public.blob()).ok_or_else(|| {
        Fault::new(Own::KeyKind, format!("the key of {} cannot sign for TLS", file.display()))
            .fix("Use Ed25519, or ECDSA on P-256 or P-384, not in a security token.")
    })
}

fn state(client: &Client, revocations: &Revocations, now: UtcTime) -> &'static str {
    match () {
        () if revocations.revoked.contains_key(&client.serial) => "revoked",
        () if client.not_after < now => "ended",
        () => "valid",
    }
}

/// Lists what was issued.
pub fn list(folder: &Path, now: UtcTime, printer: &mut Printer) -> Outcome {
    let folder = Folder(folder);
    let ca = folder.ca()?;
    let revocations = folder.revocations()?;
    let row = |c: Client| Row {
        state: state(&c, &revocations, now),
        role: c.role.map(Role::as_str),
        not_after: c.not_after.to_string(),
        name: c.name,
        serial: c.serial,
    };
    printer.listing(&Listing {
        columns: &["NAME", "ROLE", "STATE", "ENDS", "SERIAL"],
        rows: folder.issued(&ca)?.into_iter().map(row).collect(),
        cells: |r: &Row| {
            let role = r.role.unwrap_or("-").to_owned();
            vec![r.name.clone(), role, r.state.to_owned(), r.not_after.clone(), r.serial.clone()]
        },
        name: |r| r.name.clone(),
        empty: "nothing was issued yet: muster pki issue NAME --role ROLE",
    });
    Ok(Exit::Ok)
}

/// Finds whom to revoke: by serial number, or by name.
fn find(
    who: &str,
    issued: &[Client],
    revocations: &Revocations,
    all: bool,
    now: UtcTime,
) -> Result<Vec<String>, Fault> {
    let wanted = who.to_ascii_lowercase();
    if let Some(one) = issued.iter().find(|c| c.serial == wanted) {
        return Ok(vec![one.serial.clone()]);
    }
    let named: Vec<&Client> = issued.iter().filter(|c| c.name == who).collect();
    let valid: Vec<&&Client> = named.iter().filter(|c| state(c, revocations, now) == "valid").collect();
    match (named.as_slice(), valid.as_slice()) {
        ([], _) => Err(Fault::new(Own::ClientUnknown, format!("nothing was issued to {who:?}"))),
        (named, _) if all => Ok(named.iter().map(|c| c.serial.clone()).collect()),
        (_, [one]) => Ok(vec![one.serial.clone()]),
        // All of them ended or were revoked: to say it again harms nobody.
        (named, []) => Ok(named.iter().map(|c| c.serial.clone()).collect()),
        (_, many) => {
            let serials: Vec<&str> = many.iter().map(|c| c.serial.as_str()).collect();
            let what = format!("{who:?} has {} valid certificates: {}", many.len(), serials.join(", "));
            Err(Fault::new(Own::ClientAmbiguous, what))
        }
    }
}

/// A plan: whose certificates they are.
fn would_revoke(serials: &[String], issued: &[Client], printer: &mut Printer) -> Outcome {
    #[derive(Serialize)]
    struct Row {
        serial: String,
        name: String,
        does: &'static str,
    }
    let name = |serial: &String| issued.iter().find(|c| c.serial == *serial).map(|c| c.name.clone());
    let row = |serial: &String| Row {
        serial: serial.clone(),
        name: name(serial).unwrap_or_default(),
        does: "be revoked",
    };
    printer.listing(&Listing {
        columns: &["serial", "name", "would"],
        rows: serials.iter().map(row).collect(),
        cells: |r| vec![r.serial.clone(), r.name.clone(), r.does.to_owned()],
        name: |r| r.serial.clone(),
        empty: "nobody would be revoked; the list would be signed again",
    });
    printer.talk("this is a plan: nothing was signed");
    Ok(Exit::Ok)
}

/// Revokes, and signs the list.
pub fn revoke(settings: &RevokeSettings, now: UtcTime, printer: &mut Printer) -> Outcome {
    let folder = Folder(&settings.folder);
    let ca = folder.ca()?;
    // Opened first: nobody waits for the lock while somebody is asked for a passphrase.
    let authority = if settings.plan { None } else { Some(folder.authority(&settings.authority)?) };
    // Two at once would both read the same list, and the second one's would let in again whom the first revoked.
    let _held = if settings.plan { None } else { Some(folder.hold()?) };
    let mut revocations = folder.revocations()?;
    let issued = folder.issued(&ca)?;
    let mut added = Vec::new();
    let mut faults = Vec::new();
    for who in &settings.who {
        match find(who, &issued, &revocations, settings.all, now) {
            Ok(serials) => added.extend(serials),
            Err(fault) => faults.push(fault),
        }
    }
    Faults::check(faults)?;
    added.retain(|serial| !revocations.revoked.contains_key(serial));
    added.sort();
    added.dedup();
    let Some(authority) = authority else {
        return would_revoke(&added, &issued, printer);
    };
    revocations.revoked.extend(added.iter().map(|serial| (serial.clone(), now.unix())));
    revocations.number = revocations.number.checked_add(1).ok_or_else(|| {
        Fault::new(Own::PkiFile, "no list has a number after the last one")
            .at(&folder.path("revoked.json"), 0)
    })?;
    let ends = settings.ends.map(|secs| now.plus(secs));
    let list = authority
        .revoke(&revocations.all(), revocations.number, ends, now)
        .map_err(|f| Fault::new(Own::PkiFile, "no list was signed").why(f.to_string()))?;
    // The number is spent before the list exists: two lists must never have one number.
    files::replace(&folder.path("revoked.json"), revocations.render().as_bytes(), 0o600)?;
    let path = folder.path("operator-ca.crl");
    files::replace(&path, list.as_bytes(), 0o644)?;
    let signed = Signed {
        list: path.display().to_string(),
        number: revocations.number,
        revoked: revocations.revoked.len(),
        ends: ends.map(|t| t.to_string()),
        added,
    };
    if told(&signed, &signed.list, printer) {
        return Ok(Exit::Ok);
    }
    for serial in &signed.added {
        printer.data(&format!("revoked     {serial}"));
    }
    let ends = signed.ends.as_deref().unwrap_or("does not end");
    printer.data(&format!(
        "list        {}  number {}, {} revoked, {ends}",
        signed.list, signed.number, signed.revoked
    ));
    Ok(Exit::Ok)
}
