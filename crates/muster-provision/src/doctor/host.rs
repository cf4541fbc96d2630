//! The login's account, the files on the host and their owners, clock and leftovers.

use super::evidence::Found;
use super::{Check, Evidence, Finding, Known, PROVISION, Subject, Verdict, check, fail, pass, unknown, warn};
use crate::files;

pub(super) fn account(subject: &Subject, e: &Evidence) -> Vec<Check> {
    vec![
        check("account", "the login must open by its listed keys and by nothing else", login(subject, e)),
        check(
            "home",
            "what lies in the login's home is read by sshd and shells before the shim",
            home(subject, e),
        ),
        check(
            "old-keys",
            "keys where the login itself can write are keys that it can add to",
            old_keys(subject, e),
        ),
        check(
            "login-keys",
            "each key that is listed can have any live signed script run",
            login_keys(subject, e),
        ),
    ]
}

fn login(subject: &Subject, e: &Evidence) -> Finding {
    let l = e.login(&subject.account);
    if l.passwd.is_empty() {
        return fail(format!("there is no account {}", subject.account), PROVISION);
    }
    let fields: Vec<&str> = l.passwd.split(':').collect();
    let (uid, home, shell) = (fields.get(2).copied(), fields.get(5).copied(), fields.get(6).copied());
    let mut wrong = Vec::new();
    if uid == Some("0") {
        wrong.push("it is uid 0, so it never passes through sudo".to_owned());
    }
    if home != Some(files::HOME) {
        wrong.push(format!("home {}", home.unwrap_or("?")));
    }
    if shell != Some("/bin/sh") {
        wrong.push(format!("shell {}", shell.unwrap_or("?")));
    }
    match l.password.as_str() {
        "star" => {}
        "locked" => wrong.push("password locked with `!`, which some sshd refuse even for keys".into()),
        "empty" => wrong.push("an empty password".into()),
        _ => wrong.push("a password is set".into()),
    }
    if l.groups != [subject.account.as_str()] {
        wrong.push(format!("groups {}", l.groups.join(" ")));
    }
    if !l.expires.is_empty() {
        wrong.push(format!("it expires on day {}", l.expires));
    }
    if wrong.is_empty() {
        pass("password `*`, /bin/sh, its own group alone")
    } else {
        fail(wrong.join("; "), PROVISION)
    }
}

fn home(subject: &Subject, e: &Evidence) -> Finding {
    let l = e.login(&subject.account);
    let path = l.passwd.split(':').nth(5).unwrap_or_default().to_owned();
    match e.paths.get(&path) {
        None => unknown("the home was not looked at", "look on the host"),
        Some(None) => warn(format!("{path} is not there"), PROVISION),
        Some(Some(f)) => {
            if let Some(why) = unsafe_path(e, &path) {
                return fail(why, PROVISION);
            }
            if !e.in_home.is_empty() {
                return fail(
                    format!("{path} holds {}", e.in_home.join(", ")),
                    "find out who put it there, then remove it",
                );
            }
            if f.mode & 0o777 == 0o755 {
                pass(format!("{path} is root's, 0755 and empty"))
            } else {
                warn(format!("{path} has mode {:o}", f.mode), PROVISION)
            }
        }
    }
}

fn old_keys(subject: &Subject, e: &Evidence) -> Finding {
    let own = e.login(&subject.account);
    let reads_home = own
        .keyword("authorizedkeysfile")
        .is_some_and(|v| v.split_whitespace().any(|p| !p.starts_with('/') || p.contains("%h")));
    if reads_home {
        return fail("sshd reads keys from the login's home", PROVISION);
    }
    if let Some(fleet) = &subject.drop_in {
        let l = e.login(fleet);
        let file = l.keyword("authorizedkeysfile").unwrap_or_default().to_owned();
        if file.split_whitespace().any(|p| !p.starts_with('/') || p.contains("%h")) {
            let found = format!("the fleet's login {fleet} has its keys in its own home ({file})");
            return warn(
                found,
                format!(
                    "when the fleet has moved to {}, remove {fleet}; until then it can add keys to itself",
                    subject.account
                ),
            );
        }
    }
    pass("no login here reads keys from its own home")
}

fn login_keys(subject: &Subject, e: &Evidence) -> Finding {
    let path = format!("{}/{}", files::AUTHORIZED_KEYS_DIR, subject.account);
    let Some(body) = e.bodies.get(&path) else {
        return fail(format!("{path} is not there"), PROVISION);
    };
    let text = String::from_utf8_lossy(body);
    let lines: Vec<(usize, &str)> =
        (1..).zip(text.lines()).filter(|(_, l)| !l.is_empty() && !l.starts_with('#')).collect();
    if lines.is_empty() {
        return fail(format!("{path} lists no key"), PROVISION);
    }
    if let Some((n, _)) = lines.iter().find(|(_, l)| !l.starts_with("restrict,")) {
        return warn(format!("{path} line {n} has no `restrict`"), PROVISION);
    }
    let anywhere = lines.iter().filter(|(_, l)| !l.contains(",from=\"")).count();
    if anywhere > 0 {
        let fix = "give the controller's addresses: `from:` of its entry under `provision: {controllers: …}` in the inventory, then provision";
        return warn(format!("{} keys, {anywhere} of them from any address", lines.len()), fix);
    }
    pass(format!("{} keys, each restricted and bound to addresses", lines.len()))
}

pub(super) fn files(subject: &Subject, e: &Evidence, known: &Known) -> Vec<Check> {
    let mut out = vec![
        check(
            "shim-file",
            "whoever can write the shim, or a folder above it, is root",
            owned(e, &[files::SHIM], 0o755),
        ),
        check(
            "shim-digest",
            "another program in the shim's place runs as root what it likes",
            digest(&e.shim_sum, files::SHIM, known),
        ),
        check(
            "trust-files",
            "whoever can write one of these, or a folder above them, decides what is trusted",
            owned(e, &[files::ALLOWED_SIGNERS, files::REVOKED_SIGNERS, files::SHIM_TOML], 0o644),
        ),
        check("pin-files", "whoever can write one of these can unpin the login", pins(subject, e)),
        check("state-dir", "floors and run records must be root's alone", state(e)),
    ];
    if subject.drop_in.is_some() {
        out.push(check(
            "drop-in-file",
            "the fleet's controllers run this one",
            owned(e, &[files::KPSSH_SHIM, files::KPSSH_ALLOWED_SIGNERS], 0o755),
        ));
        out.push(check(
            "drop-in-digest",
            "another program in the shim's place runs as root what it likes",
            digest(&e.kpssh_sum, files::KPSSH_SHIM, known),
        ));
    }
    out
}

/// Why `path` could be written by somebody other than root; looks at every folder above it (S10).
fn unsafe_path(e: &Evidence, path: &str) -> Option<String> {
    let mut at = path;
    loop {
        match e.paths.get(at) {
            None => return Some(format!("{at} was not looked at")),
            Some(None) => return Some(format!("{at} is not there")),
            Some(Some(f)) => {
                if f.uid != 0 {
                    return Some(format!("{at} belongs to uid {}", f.uid));
                }
                if f.mode & 0o022 != 0 && f.kind != "symbolic-link" {
                    return Some(format!("{at} has mode {:o}", f.mode));
                }
                if f.kind == "symbolic-link" && at == path {
                    return Some(format!("{at} is a symbolic link"));
                }
            }
        }
        if at == "/" {
            return None;
        }
        at = match at.rsplit_once('/') {
            Some(("", _)) | None => "/",
            Some((parent, _)) => parent,
        };
    }
}

fn owned(e: &Evidence, paths: &[&str], most: u32) -> Finding {
    let wrong: Vec<String> = paths.iter().filter_map(|p| unsafe_path(e, p)).collect();
    if !wrong.is_empty() {
        return fail(
            wrong.join("; "),
            format!("make them root's and not writable by group or others, or {PROVISION}"),
        );
    }
    let odd = paths.iter().find_map(|p| {
        let f = e.paths.get(*p)?.as_ref()?;
        (f.kind != "regular-file" && f.kind != "regular-empty-file")
            .then(|| format!("{p} is a {}", f.kind))
            .or_else(|| (f.mode & !most & 0o7777 != 0).then(|| format!("{p} has mode {:o}", f.mode)))
    });
    match odd {
        Some(found) => fail(found, PROVISION),
        None => pass("root's, and nobody else can write them or a folder above"),
    }
}

fn pins(subject: &Subject, e: &Evidence) -> Finding {
    let keys = format!("{}/{}", files::AUTHORIZED_KEYS_DIR, subject.account);
    let f = owned(e, &[files::SSHD_DROP_IN, files::SUDOERS, &keys], 0o644);
    let sudoers: Option<&Found> = e.paths.get(files::SUDOERS).and_then(Option::as_ref);
    match sudoers {
        Some(s) if f.0 == Verdict::Pass && s.mode != 0o440 => {
            warn(format!("{} has mode {:o}, not 0440", files::SUDOERS, s.mode), PROVISION)
        }
        _ => f,
    }
}

fn state(e: &Evidence) -> Finding {
    if let Some(why) = unsafe_path(e, files::SHIM_STATE) {
        return fail(why, PROVISION);
    }
    match e.paths.get(files::SHIM_STATE).and_then(Option::as_ref) {
        Some(f) if f.mode & 0o077 == 0 => pass(format!("{} is root's alone", files::SHIM_STATE)),
        Some(f) => fail(format!("{} has mode {:o}", files::SHIM_STATE, f.mode), PROVISION),
        None => fail(format!("{} is not there", files::SHIM_STATE), PROVISION),
    }
}

fn digest(sum: &str, path: &str, known: &Known) -> Finding {
    match (&known.shim_sha256, sum) {
        (_, "") => fail(format!("{path} is not there"), PROVISION),
        (Some(want), have) if want == have => pass(format!("sha256 {have}")),
        (Some(want), have) => fail(
            format!("sha256 {have}, not {want}"),
            "find out which version it is; provision again to put the wanted one there",
        ),
        (None, have) => {
            unknown(format!("sha256 {have}"), "give the wanted shim with --shim-binary to have it compared")
        }
    }
}

/// The answer is the shim's JSON document; its version is all that is taken from it here.
fn probe(e: &Evidence) -> Finding {
    let Some(code) = e.probe_exit else {
        return unknown("the shim was not asked: it or the login is not there", PROVISION);
    };
    let answer = e.bodies.get("probe").map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default();
    if code != 0 || !answer.contains("\"muster-probe\"") {
        let tail = crate::shell::one_line_tail(answer.as_bytes(), 200);
        return fail(
            format!("a probe as the login ended with {code}: {tail}"),
            "look at the checks above; the message is sudo's or the shim's",
        );
    }
    let version = answer
        .split_once("\"shim\":")
        .and_then(|(_, rest)| rest.split_once("\"version\":\""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(v, _)| v.to_owned());
    pass(format!("the shim answers, version {}", version.unwrap_or_else(|| "not known".into())))
}

pub(super) fn rest(_: &Subject, e: &Evidence, known: &Known) -> Vec<Check> {
    vec![
        check("probe", "the whole road (login, sudo, shim, policy) is tried, not only its parts", probe(e)),
        check("clock", "a wrong clock voids good intents or revives expired ones", clock(e, known)),
        check("clock-sync", "a clock that nothing sets drifts into a wrong one", sync(e)),
        check("provision-open", "a provisioning that did not end may have left the host half done", open(e)),
        check(
            "proc",
            "without /proc the verified bytes cannot be run from memory",
            if e.proc { pass("mounted") } else { fail("/proc is not mounted", "mount it") },
        ),
    ]
}

fn clock(e: &Evidence, known: &Known) -> Finding {
    let here = known.now.unix();
    let off = e.now.abs_diff(here);
    let word = if e.now < here { "behind" } else { "ahead of" };
    let found = format!("{off} s {word} this machine's");
    match off {
        0..=5 => pass("within 5 s of this machine's"),
        6..=300 => warn(found, "set the host's clock, or this one's"),
        _ => fail(found, "set the host's clock, or this one's: find out which of the two is wrong"),
    }
}

fn sync(e: &Evidence) -> Finding {
    match e.synchronised {
        Some(true) => pass("the kernel says synchronised"),
        Some(false) => {
            warn("the kernel says not synchronised", "run a time service (systemd-timesyncd, chrony)")
        }
        None => unknown(
            "nothing here says whether the clock is set from outside",
            "run a time service (systemd-timesyncd, chrony)",
        ),
    }
}

fn open(e: &Evidence) -> Finding {
    if !e.open.is_empty() {
        return fail(
            format!("transaction {} is open", e.open),
            "run `muster host provision` again: it puts back or goes on",
        );
    }
    if e.record.is_empty() {
        return warn(
            "there is no record of a provisioning, so unprovision could not give back what was there",
            PROVISION,
        );
    }
    pass(format!("the last provisioning, for login {}, ended", e.record))
}
