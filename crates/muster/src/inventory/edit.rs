//! Adding a host to an inventory without touching what the operator wrote.

use super::{Inventory, endpoint};
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::files;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What `muster host add` writes down.
#[derive(Clone, Debug)]
pub struct NewHost {
    /// Its name.
    pub name: muster_core::HostName,
    /// Its address.
    pub address: String,
    /// Its port, when it is not 22.
    pub port: Option<u16>,
    /// The pool login, when it is not the default.
    pub user: Option<String>,
    /// Bastions.
    pub via: Vec<String>,
    /// Pools.
    pub pools: Vec<muster_core::PoolName>,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Host certificate authorities.
    pub host_cas: Vec<String>,
    /// The administrator's login.
    pub admin_user: Option<String>,
}

impl NewHost {
    /// As it stands in the file, indented by two.
    pub fn render(&self) -> String {
        let mut out = format!("  {}:\n    ssh:\n      address: {}\n", self.name, quoted(&self.address));
        let mut ssh = |key: &str, value: String| out.push_str(&format!("      {key}: {value}\n"));
        if let Some(port) = self.port {
            ssh("port", port.to_string());
        }
        if let Some(user) = &self.user {
            ssh("user", quoted(user));
        }
        if !self.via.is_empty() {
            ssh("via", list(self.via.iter().map(String::as_str)));
        }
        if !self.host_cas.is_empty() {
            ssh("host-ca", list(self.host_cas.iter().map(String::as_str)));
        }
        if let Some(user) = &self.admin_user {
            out.push_str(&format!("    admin: {{user: {}}}\n", quoted(user)));
        }
        if !self.pools.is_empty() {
            out.push_str(&format!("    pools: {}\n", list(self.pools.iter().map(|p| p.as_str()))));
        }
        if !self.labels.is_empty() {
            let pairs: Vec<String> =
                self.labels.iter().map(|(k, v)| format!("{}: {}", quoted(k), quoted(v))).collect();
            out.push_str(&format!("    labels: {{{}}}\n", pairs.join(", ")));
        }
        out
    }
}

fn list<'t>(items: impl Iterator<Item = &'t str>) -> String {
    format!("[{}]", items.map(quoted).collect::<Vec<_>>().join(", "))
}

/// JSON's strings are YAML's double-quoted ones.
fn quoted(text: &str) -> String {
    let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b));
    let word = text.starts_with(|c: char| c.is_ascii_lowercase())
        && plain
        && !matches!(text, "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n");
    let address = plain && text.bytes().filter(|b| *b == b'.').count() == 3;
    if word || address { text.to_owned() } else { serde_json::to_string(text).unwrap_or_default() }
}

/// Adds a host to a file. The result is read again before it is written: it must hold what was there and the new host.
pub fn add_host(file: &Path, home: Option<&Path>, host: &NewHost) -> Result<(), Faults> {
    let (changed, _) = with_host(file, home, host)?;
    write(file, &changed)?;
    Ok(())
}

/// Puts a changed inventory in the place of the one that is there, which keeps its mode.
pub fn write(file: &Path, text: &str) -> Result<(), Fault> {
    // A link goes on pointing at the file that it points at.
    let real = file.canonicalize().map_err(|e| Fault::io(file, "read", &e))?;
    let meta = std::fs::metadata(&real).map_err(|e| Fault::io(file, "read", &e))?;
    files::replace(&real, text.as_bytes(), meta.permissions().mode() & 0o777)
}

/// What a file would be with one more host: its text, and what it says. Nothing is written.
pub fn with_host(file: &Path, home: Option<&Path>, host: &NewHost) -> Result<(String, Inventory), Faults> {
    let text = files::read_text(file, crate::yaml::MAX_BYTES)?;
    text_with_host(&text, file, home, host)
}

/// The same for the text of a file.
pub fn text_with_host(
    text: &str,
    file: &Path,
    home: Option<&Path>,
    host: &NewHost,
) -> Result<(String, Inventory), Faults> {
    let before = Inventory::parse(text, file, home)?;
    if let Some(there) = before.hosts.iter().find(|h| h.name == host.name) {
        let what = format!("host {:?} is there already", host.name.as_str());
        return Err(Fault::new(Own::HostExists, what).at(file, there.line).into());
    }
    if endpoint::address(&host.address).is_none() {
        let what = format!("{:?} is not a host name or IP address", host.address);
        return Err(Fault::new(Own::ConfigValue, what)
            .fix("Give the address alone; port and user have their own options.")
            .into());
    }
    let changed = insert(text, &host.render());
    let names = |i: &Inventory| i.hosts.iter().map(|h| h.name.clone()).collect::<Vec<_>>();
    let mut want = names(&before);
    want.push(host.name.clone());
    want.sort();
    let after = Inventory::parse(&changed, file, home)?;
    let mut got = names(&after);
    got.sort();
    if got != want {
        let what = format!("cannot add to {} without changing more of it", file.display());
        let mut fault = Fault::new(Own::Fault, what).fix("Add the lines below under hosts: by hand.");
        for line in host.render().lines() {
            fault = fault.hint(line);
        }
        return Err(fault.into());
    }
    Ok((changed, after))
}

/// Puts the block at the end of `hosts:`, which is made where it is missing or empty. Line ends stay what they are.
fn insert(text: &str, block: &str) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let block = block.replace('\n', end);
    let ended = |mut out: String| {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push_str(end);
        }
        out
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(at) = lines.iter().position(|l| l.starts_with("hosts:")) else {
        return format!("{}hosts:{end}{block}", ended(text.to_owned()));
    };
    let mut out: String = lines.iter().take(at).copied().collect();
    let head = lines.get(at).copied().unwrap_or_default();
    if matches!(head.trim_end(), "hosts: {}" | "hosts: ~" | "hosts: null") {
        out.push_str(&head.replacen(head.trim_end(), "hosts:", 1));
    } else {
        out.push_str(head);
    }
    let rest = lines.get(at + 1..).unwrap_or_default();
    let inside = |l: &&&str| l.starts_with(' ') || l.trim().is_empty() || l.starts_with('#');
    let mut len = rest.iter().take_while(inside).count();
    // Blank lines and comments at the end belong to what follows.
    while len > 0 && rest.get(len - 1).is_some_and(|l| !l.starts_with(' ') || l.trim().is_empty()) {
        len -= 1;
    }
    out.extend(rest.iter().take(len).copied());
    out = ended(out) + &block;
    out.extend(rest.iter().skip(len).copied());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str) -> NewHost {
        NewHost {
            name: muster_core::HostName::new(name).unwrap(),
            address: "2001:db8::1".into(),
            port: Some(2222),
            user: None,
            via: vec![],
            pools: vec![muster_core::PoolName::new("no").unwrap()],
            labels: vec![("site".into(), "on".into())],
            host_cas: vec![],
            admin_user: Some("debian".into()),
        }
    }

    #[test]
    fn what_was_there_stays_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("inventory.yaml");
        for text in [
            "",
            "# mine\nhosts:\n  a:\n    ssh: {address: b} # keep\n\n# after\ntrust: {}\n",
            "hosts: {}\n",
            "trust: {}\nhosts:",
            "hosts:\n    a:\n        ssh: {address: b}\n",
            "# mine\r\nhosts:\r\n  a: {ssh: {address: b}}\r\ntrust: {}\r\n",
            "hosts: {}\r\n# after\r\n",
        ] {
            std::fs::write(&file, text).unwrap();
            match add_host(&file, None, &new("edge-9")) {
                Ok(()) => {
                    let after = std::fs::read_to_string(&file).unwrap();
                    for line in text.lines().filter(|l| !l.starts_with("hosts:")) {
                        assert!(after.lines().any(|l| l == line), "{text:?} lost {line:?}: {after}");
                    }
                    let ends = |t: &str| (t.contains("\r\n"), t.replace("\r\n", "").contains('\n'));
                    assert!(
                        text.is_empty() || !text.contains('\n') || ends(&after) == ends(text),
                        "{after:?}"
                    );
                    let inv = Inventory::parse(&after, &file, None).unwrap();
                    let host = inv.host("edge-9").unwrap();
                    assert_eq!((host.ssh.address.as_str(), host.ssh.port), ("2001:db8::1", 2222));
                    assert_eq!(host.labels["site"], "on");
                    assert!(add_host(&file, None, &new("edge-9")).is_err());
                }
                // Another indentation cannot be continued; nothing is changed then.
                Err(_) => assert_eq!(std::fs::read_to_string(&file).unwrap(), text),
            }
        }
    }
}
