//! `-Y sign`

use super::options::Options;
use super::{NO, Output, need, path};
use crate::files;
use crate::settings::World;
use crate::signer::agent::Agent;
use crate::signer::{Named, file};
use crate::terminal;
use base64ct::{Base64, Encoding};
use muster_signing::sshsig::{HashAlg, SignerKey};
use muster_ssh::KeyFile;
use std::io::{BufRead, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Longest message taken: it is held in memory.
const MAX_MESSAGE: usize = 1 << 30;
const MAX_KEY: usize = 64 * 1024;

/// How it ended.
pub(super) enum Done {
    Code(u8),
    /// The key is of a kind that only the system's program can use from a file.
    HandOn,
}

pub(super) fn sign(options: &Options, world: &World, out: &mut Output) -> Done {
    match try_sign(options, world, out) {
        Ok(done) => done,
        Err(code) => Done::Code(code),
    }
}

fn try_sign(options: &Options, world: &World, out: &mut Output) -> Result<Done, u8> {
    let key = path(need(options.file.as_ref(), options, "key", out)?);
    let namespace =
        need(options.namespace.as_ref(), options, "namespace", out)?.to_string_lossy().into_owned();
    let hash = options.hash().map_err(|why| {
        out.error(&why);
        NO
    })?;
    let Some(signer) = open(&key, options, world, out)? else { return Ok(Done::HandOn) };
    if options.operands.is_empty() {
        out.talk("Signing data on standard input");
        let bytes = read(Path::new("-"), out)?;
        let text = make(&signer, &bytes, &namespace, hash, out)?;
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Ok(Done::Code(0));
    }
    for operand in &options.operands {
        let file = path(operand);
        out.talk(&format!("Signing file {}", file.display()));
        let bytes = read(&file, out)?;
        let text = make(&signer, &bytes, &namespace, hash, out)?;
        let mut name = file.as_os_str().to_owned();
        name.push(".sig");
        let place = PathBuf::from(name);
        if place.exists() && !overwrite(&place) {
            continue;
        }
        files::replace(&place, text.as_bytes(), 0o644).map_err(|f| {
            out.error(&f.to_string());
            NO
        })?;
        out.talk(&format!("Write signature to {}", place.display()));
    }
    Ok(Done::Code(0))
}

fn read(file: &Path, out: &mut Output) -> Result<Vec<u8>, u8> {
    files::read(file, MAX_MESSAGE).map_err(|f| {
        out.error(&f.to_string());
        NO
    })
}

fn make(
    signer: &Named,
    bytes: &[u8],
    namespace: &str,
    hash: HashAlg,
    out: &mut Output,
) -> Result<String, u8> {
    signer.sign_with(bytes, namespace, hash).map_err(|f| {
        out.error(&format!("Signing failed: {f}"));
        NO
    })
}

/// Asks on standard output and reads from standard input, as ssh-keygen does.
fn overwrite(place: &Path) -> bool {
    let _ = std::io::stdout()
        .write_all(format!("{} already exists.\nOverwrite (y/n)? ", place.display()).as_bytes());
    let _ = std::io::stdout().flush();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok() && line.starts_with(['y', 'Y'])
}

/// The signer of a key file: the agent's when the agent has the key, else the private file beside it.
fn open(key: &Path, options: &Options, world: &World, out: &mut Output) -> Result<Option<Named>, u8> {
    let shown = public_blob(key).ok_or_else(|| {
        out.error(&format!("Couldn't load public key {}", key.display()));
        NO
    })?;
    if let Ok(agent) = Agent::at(world.agent.as_deref())
        && let Ok(held) = agent.identities()
        && held.iter().any(|i| i.blob == shown || Some(i.blob.as_slice()) == plain(&shown).as_deref())
    {
        let exact = held.iter().any(|i| i.blob == shown);
        let named = if exact { agent.named(&shown) } else { agent.named_as(&shown) };
        return named.map(Some).map_err(|f| {
            out.error(&f.to_string());
            NO
        });
    }
    if options.agent_only {
        out.error("Couldn't find key in agent");
        return Err(NO);
    }
    let place = private_file(key);
    let failed = |out: &mut Output, f: &crate::fault::Fault| {
        out.error(&format!("Couldn't load private key {}: {f}", place.display()));
        NO
    };
    let opened = file::read(&place, &mut |_| {
        terminal::passphrase(&format!("Enter passphrase for {}", place.display()))
    });
    let private = match opened.map_err(|f| failed(out, &f))? {
        file::Opened::Key(key) => key,
        file::Opened::Token => return Ok(None),
    };
    let own = private.public_blob().to_vec();
    let certificate = (shown != own).then_some(shown.as_slice());
    if certificate.is_some() && plain(&shown).as_deref() != Some(own.as_slice()) {
        out.error(&format!("Public key {} doesn't match private {}", key.display(), place.display()));
        return Err(NO);
    }
    file::named(&place, private, certificate).map(Some).map_err(|f| failed(out, &f))
}

/// The plain key in a blob that may be a certificate's.
fn plain(blob: &[u8]) -> Option<Vec<u8>> {
    SignerKey::from_blob(blob).ok().map(|k| k.key().blob().to_vec())
}

/// The public half of what was named: a public key or certificate file, a private key file, or the `.pub` beside it.
fn public_blob(key: &Path) -> Option<Vec<u8>> {
    let from_line = |file: &Path| {
        let text = files::read_text(file, MAX_KEY).ok()?;
        let line = text.lines().find(|l| !l.trim().is_empty())?;
        let mut words = line.split_whitespace();
        let (kind, base64) = (words.next()?, words.next()?);
        let blob = Base64::decode_vec(base64).ok()?;
        let shown = SignerKey::from_blob(&blob).ok()?;
        let named = blob.get(4..4 + kind.len()).is_some_and(|b| b == kind.as_bytes());
        named.then(|| shown.blob().to_vec())
    };
    let from_private = |file: &Path| {
        let bytes = Zeroizing::new(files::read(file, MAX_KEY).ok()?);
        let blob = KeyFile::public_half(&bytes).ok()?;
        SignerKey::from_blob(&blob).ok().map(|_| blob)
    };
    let mut beside = key.as_os_str().to_owned();
    beside.push(".pub");
    from_line(key).or_else(|| from_line(Path::new(&beside))).or_else(|| from_private(key))
}

/// The private file of a `.pub` or `-cert.pub` file, where it is there.
fn private_file(key: &Path) -> PathBuf {
    let bytes = key.as_os_str().as_bytes();
    for suffix in [b"-cert.pub".as_slice(), b".pub"] {
        if let Some(stem) = bytes.strip_suffix(suffix) {
            let place = PathBuf::from(std::ffi::OsStr::from_bytes(stem));
            if place.exists() {
                return place;
            }
        }
    }
    key.to_owned()
}
