//! The text of every file that is put on a host. Pure: the same spec gives the same bytes.
//!
//! Sources: sudoers(5), sshd_config(5), AUTHORIZED_KEYS FILE FORMAT of sshd(8). `shim.toml` and the
//! floors file are read by `muster-shim`.

use crate::key::ControllerKey;
use crate::spec::{AccountName, EnvelopeOne, HostSpec, OnDisconnect, Terms};
use core::fmt::Write as _;
use muster_core::Phase;

/// The shim.
pub const SHIM: &str = "/usr/bin/muster-shim";
/// Its second name, for fleets that name that path in their sshd and sudoers files.
pub const KPSSH_SHIM: &str = "/opt/kpssh/kpssh-shim";
/// The trust root of the second name.
pub const KPSSH_ALLOWED_SIGNERS: &str = "/etc/kpssh/allowed_signers";
/// Configuration folder.
pub const ETC: &str = "/etc/muster";
/// Who may sign.
pub const ALLOWED_SIGNERS: &str = "/etc/muster/allowed_signers";
/// Whose signatures are void.
pub const REVOKED_SIGNERS: &str = "/etc/muster/revoked_signers";
/// The host's policy.
pub const SHIM_TOML: &str = "/etc/muster/shim.toml";
/// One file of keys per pool login, root-owned (S12).
pub const AUTHORIZED_KEYS_DIR: &str = "/etc/muster/authorized_keys.d";
/// State folder of everything of ours.
pub const VAR: &str = "/var/lib/muster";
/// Home of the pool login: root-owned and empty (S12).
pub const HOME: &str = "/var/lib/muster/home";
/// State of the shim.
pub const SHIM_STATE: &str = "/var/lib/muster/shim";
/// Epoch floors.
pub const FLOORS: &str = "/var/lib/muster/shim/floors";
/// The shim's durable run log.
pub const RUNS_LOG: &str = "/var/lib/muster/shim/runs.log";
/// The shim's lock, one per host.
pub const SHIM_LOCK: &str = "/run/muster/shim/lock";
/// sudo's permission for the pool login.
pub const SUDOERS: &str = "/etc/sudoers.d/muster-shim";
/// sshd's pin of the pool login. 00: the first value that sshd obtains wins.
pub const SSHD_DROP_IN: &str = "/etc/ssh/sshd_config.d/00-muster.conf";
/// sshd's main file, touched only where it does not read the folder above.
pub const SSHD_CONFIG: &str = "/etc/ssh/sshd_config";

/// A line that some versions of a tool do not know: it is left out where the tool refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The text without the line feed.
    pub text: String,
    /// Whether the file is still right without it.
    pub optional: bool,
}

/// A file whose optional lines the host's own tool decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveFile {
    /// Lines in order.
    pub lines: Vec<Line>,
}

impl AdaptiveFile {
    fn new() -> Self {
        Self { lines: Vec::new() }
    }

    fn must(&mut self, text: impl Into<String>) {
        self.lines.push(Line { text: text.into(), optional: false });
    }

    fn may(&mut self, text: impl Into<String>) {
        self.lines.push(Line { text: text.into(), optional: true });
    }

    /// The file with every line, as a current tool takes it.
    pub fn full(&self) -> String {
        self.lines.iter().map(|l| format!("{}\n", l.text)).collect()
    }

    /// The form that the host library reads: `=` in front of what must stay, `?` in front of what
    /// the host's tool may drop.
    pub fn template(&self) -> String {
        self.lines.iter().map(|l| format!("{}{}\n", if l.optional { '?' } else { '=' }, l.text)).collect()
    }
}

const HEADER: &str = "# Written by `muster host provision`: change the inventory, not this. The next one puts it back, or refuses.";

/// `authorized_keys.d/<account>`. `restrict` and `command=` say again what the sshd block says, so
/// that neither file alone opens the login.
pub fn authorized_keys(keys: &[ControllerKey]) -> String {
    let mut out = format!("{HEADER}\n");
    for k in keys {
        out.push_str("restrict,command=\"");
        out.push_str(SHIM);
        out.push('"');
        if !k.from().is_empty() {
            let list: Vec<&str> = k.from().iter().map(|f| f.as_str()).collect();
            // Writing to a String cannot fail; patterns hold no quote by construction.
            let _ = write!(out, ",from=\"{}\"", list.join(","));
        }
        let _ = writeln!(out, " {}", k.key().line());
    }
    out
}

/// Options of M10, for the shim alone: no I/O log (it would hold the secrets of standard input and
/// break the notice of a lost peer), no pty, no tty demanded, and the two variables that tell who
/// came. One line each, because an old sudo refuses the whole line for one option that it does not
/// know. The last one is not optional: without it no run could name its peer.
const SUDO_OPTIONS: &[(&str, bool)] = &[
    ("!log_input", true),
    ("!log_output", true),
    ("!log_stdin", true),
    ("!log_stdout", true),
    ("!log_stderr", true),
    ("!log_ttyin", true),
    ("!log_ttyout", true),
    ("!use_pty", true),
    ("!requiretty", true),
    ("env_keep += \"SSH_USER_AUTH SSH_CONNECTION\"", false),
];

/// `/etc/sudoers.d/muster-shim`. The two quotes after the path allow no argument at all (M8).
pub fn sudoers(account: &AccountName, drop_in: bool) -> AdaptiveFile {
    let mut f = AdaptiveFile::new();
    f.must(HEADER);
    for path in [Some(SHIM), drop_in.then_some(KPSSH_SHIM)].into_iter().flatten() {
        for (option, optional) in SUDO_OPTIONS {
            f.lines.push(Line { text: format!("Defaults!{path} {option}"), optional: *optional });
        }
    }
    f.must(format!("{account} ALL=(root) NOPASSWD: {SHIM} \"\""));
    f
}

/// `00-muster.conf`: everything that the login can do is one program.
pub fn sshd_drop_in(account: &AccountName, drop_in: Option<&AccountName>) -> AdaptiveFile {
    let mut f = AdaptiveFile::new();
    f.must(HEADER);
    f.must(format!("Match User {account}"));
    for line in [
        format!("ForceCommand {SHIM}"),
        "PubkeyAuthentication yes".into(),
        "AuthenticationMethods publickey".into(),
        "PasswordAuthentication no".into(),
        "KbdInteractiveAuthentication no".into(),
        "HostbasedAuthentication no".into(),
        format!("AuthorizedKeysFile {AUTHORIZED_KEYS_DIR}/%u"),
        "AuthorizedKeysCommand none".into(),
        "AuthorizedPrincipalsFile none".into(),
        "AuthorizedPrincipalsCommand none".into(),
        "TrustedUserCAKeys none".into(),
        // A host-wide AllowUsers or AllowGroups would shut the login out; these two lines replace
        // such lists for this account only. DenyUsers and DenyGroups still win.
        format!("AllowUsers {account}"),
        format!("AllowGroups {account}"),
        "ChrootDirectory none".into(),
    ] {
        let optional = line.starts_with("KbdInteractive");
        f.lines.push(Line { text: format!("    {line}"), optional });
    }
    hardening(&mut f);
    if let Some(other) = drop_in {
        // The fleet's own ForceCommand, keys and accounts stay; what it lacks is added.
        f.must(format!("Match User {other}"));
        hardening(&mut f);
    }
    f
}

fn hardening(f: &mut AdaptiveFile) {
    for line in [
        "PermitTTY no",
        "PermitUserRC no",
        "AllowTcpForwarding no",
        "AllowAgentForwarding no",
        "AllowStreamLocalForwarding no",
        "X11Forwarding no",
        "PermitTunnel no",
        "GatewayPorts no",
    ] {
        f.must(format!("    {line}"));
    }
    // 7.4 and 7.6: the lines above say the same to older ones.
    f.may("    DisableForwarding yes");
    f.may("    ExposeAuthInfo yes");
    // M11: a cut link of a quiet session is noticed after 12 to 24 s; the shim watches the rest (decision 0002).
    f.must("    ClientAliveInterval 3");
    f.must("    ClientAliveCountMax 3");
    f.must("    Banner none");
}

/// A TOML basic string. Values are checked to hold no control characters.
fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn toml_list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", items.map(toml_string).collect::<Vec<_>>().join(", "))
}

/// `shim.toml`.
pub fn shim_toml(spec: &HostSpec) -> String {
    let mut out = format!("{HEADER}\n");
    let mut put = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    put(format!("host = {}", toml_string(spec.host.as_str())));
    put(format!("pools = {}", toml_list(spec.pools.iter().map(|p| p.as_str()))));
    put(format!("envelope-1 = {}", spec.envelope_one != EnvelopeOne::Refused));
    put(format!("signers-needed = {}", spec.signers_needed));
    put("revoked-signers = \"required\"".into());
    put(format!("max-deadline = {}", spec.max_deadline));
    put(format!("epoch-max-step = {}", spec.epoch_max_step));
    for (name, epoch) in &spec.profiles {
        put(format!("\n[profiles.{name}]\nmin-epoch = {epoch}"));
    }
    if let EnvelopeOne::Taken(Terms { on_disconnect, deadlines, namespace, principal }) = &spec.envelope_one {
        let word = match on_disconnect {
            OnDisconnect::End => "end",
            OnDisconnect::Finish => "finish",
        };
        put(format!("\n[envelope1]\non-disconnect = \"{word}\""));
        for (key, value) in [("namespace", namespace), ("principal", principal)] {
            if let Some(value) = value {
                put(format!("{key} = {}", toml_string(value)));
            }
        }
        if !deadlines.is_empty() {
            let list: Vec<String> = deadlines.iter().map(|(p, s)| format!("{p} = {s}")).collect();
            put(format!("deadline = {{ {} }}", list.join(", ")));
        }
    }
    if !spec.environment.is_empty() {
        put("\n[environment]".into());
        for (name, value) in &spec.environment {
            put(format!("{name} = {}", toml_string(value)));
        }
    }
    put_key_policy(&mut out, &spec.controllers);
    out
}

/// A `[keys]` table for all keys as soon as one is limited: a key that a table leaves out has no
/// phase at all.
fn put_key_policy(out: &mut String, keys: &[ControllerKey]) {
    if keys.iter().all(|k| k.phases().is_none()) {
        return;
    }
    for k in keys {
        let phases = match k.phases() {
            Some(p) => toml_list(p.iter().map(|p| p.as_str())),
            None => toml_list(ALL_PHASES.iter().map(|p| p.as_str())),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\n[keys.{}]\nphases = {phases}", toml_string(k.key().fingerprint()));
    }
}

/// Every phase that a key can be limited to.
pub const ALL_PHASES: [Phase; 6] =
    [Phase::Probe, Phase::Install, Phase::Join, Phase::Leave, Phase::Uninstall, Phase::Floor];

/// `revoked_signers`: an empty list is written as a comment, so that nobody takes the file for one
/// that was cut off.
pub fn revoked_signers(spec: &HostSpec) -> Vec<u8> {
    if spec.revoked_signers.is_empty() {
        b"# Nobody yet. One public key or SHA256 fingerprint a line.\n".to_vec()
    } else {
        spec.revoked_signers.clone()
    }
}

/// The first floors file: the current epochs (M4) and no time, because only signed times count
/// (M14). It is written once; after that it is the shim's.
pub fn floors(spec: &HostSpec) -> String {
    let mut out = String::from("muster-floors: 1\ntime-floor: 1970-01-01T00:00:00Z\n");
    for (name, epoch) in &spec.profiles {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "floor: {name} {epoch}");
    }
    out
}
