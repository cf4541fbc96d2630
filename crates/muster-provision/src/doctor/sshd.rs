//! What sshd makes of the login: `sshd -T -C user=…,host=…,addr=…`.

use super::{Check, Evidence, Finding, PROVISION, Subject, check, fail, pass, unknown, warn};
use crate::doctor::evidence::Login;
use crate::files;

/// Id, why, and the keywords with the value that each must have.
type Want = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

pub(super) fn checks(subject: &Subject, e: &Evidence) -> Vec<Check> {
    let l = e.login(&subject.account);
    let mut out = vec![
        check(
            "sshd-valid",
            "a reload with a broken configuration ends sshd and locks everybody out",
            valid(e),
        ),
        check(
            "sshd-config",
            "the checks below read the default configuration; a listener started with -f reads another one",
            listener(e),
        ),
    ];
    let wants: &[Want] = &[
        (
            "sshd-pin",
            "without ForceCommand the login's key runs any command",
            &[("forcecommand", files::SHIM)],
        ),
        (
            "sshd-keys-file",
            "keys in the login's own home can be added by whatever runs as the login",
            &[("authorizedkeysfile", "/etc/muster/authorized_keys.d/%u")],
        ),
        (
            "sshd-auth",
            "any other way in (password, certificate, host, a command that gives keys) is a way around the listed keys",
            &[
                ("authenticationmethods", "publickey"),
                ("passwordauthentication", "no"),
                ("kbdinteractiveauthentication", "no"),
                ("hostbasedauthentication", "no"),
                ("authorizedkeyscommand", "none"),
                ("trustedusercakeys", "none"),
            ],
        ),
        ("sshd-tty", "a terminal lets a person type at whatever the login runs", &[("permittty", "no")]),
        ("sshd-rc", "~/.ssh/rc runs before the forced command", &[("permituserrc", "no")]),
        (
            "sshd-auth-info",
            "without it no run can say which key asked, and per-key phase lists refuse everything",
            &[("exposeauthinfo", "yes")],
        ),
        (
            "sshd-chroot",
            "in a chroot sudo and the shim would be others than those that were checked",
            &[("chrootdirectory", "none")],
        ),
    ];
    out.extend(wants.iter().map(|(id, why, pairs)| check(id, why, want(&l, pairs))));
    out.insert(
        6,
        check(
            "sshd-forwarding",
            "ForceCommand does not stop forwarding: a port or socket of the host would be open to the key",
            forwarding(&l),
        ),
    );
    out.push(check(
        "sshd-environment",
        "variables from the client steer what runs before the shim",
        environment(&l),
    ));
    out.push(check(
        "sshd-keepalive",
        "a cut link is otherwise noticed after two hours, and a run goes on without a peer",
        keepalive(&l),
    ));
    out.push(check(
        "sshd-allowed",
        "a host-wide list that leaves the login out shuts it out",
        allowed(subject, &l),
    ));
    out
}

fn valid(e: &Evidence) -> Finding {
    match &e.sshd_fault {
        None => pass("sshd -t has nothing to say"),
        Some(f) => fail(format!("sshd -t: {f}"), "mend the line that it names before anything reloads sshd"),
    }
}

fn listener(e: &Evidence) -> Finding {
    if e.sshd_listener.is_empty() {
        return unknown("no pid file of sshd was found", "look how sshd is started here");
    }
    if e.sshd_listener.split_whitespace().any(|w| w == "-f" || w.starts_with("-f/") || w == "-o") {
        return warn(
            format!("started as `{}`", e.sshd_listener),
            "have it read /etc/ssh/sshd_config alone, or check its file by hand",
        );
    }
    pass("the listener reads the default configuration")
}

fn none(l: &Login) -> Option<Finding> {
    l.sshd.is_empty().then(|| {
        unknown("sshd -T gave no answer", "run `sshd -T -C user=LOGIN,host=h,addr=A` on the host and look")
    })
}

fn want(l: &Login, pairs: &[(&str, &str)]) -> Finding {
    if let Some(f) = none(l) {
        return f;
    }
    let wrong: Vec<String> = pairs
        .iter()
        .filter(|(k, v)| l.keyword(k).is_none_or(|have| !same(have, v)))
        .map(|(k, v)| format!("{k} is {}, not {v}", l.keyword(k).unwrap_or("not known")))
        .collect();
    if wrong.is_empty() {
        pass(pairs.iter().map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", "))
    } else {
        fail(wrong.join("; "), PROVISION)
    }
}

/// sshd takes its own words (`none`) in any case and may print them as they were written. A path is another one when one
/// letter has another case.
fn same(have: &str, wanted: &str) -> bool {
    if wanted.starts_with('/') { have == wanted } else { have.eq_ignore_ascii_case(wanted) }
}

fn forwarding(l: &Login) -> Finding {
    if let Some(f) = none(l) {
        return f;
    }
    // DisableForwarding never reaches tunnels, and agents and X11 not before 10.0 without its
    // distribution's repair (CVE-2025-32728). sshd before 7.4 does not know it.
    let disabled = l.keyword("disableforwarding") == Some("yes");
    let reached = ["allowtcpforwarding", "allowstreamlocalforwarding"];
    let others = ["allowagentforwarding", "x11forwarding", "permittunnel"];
    let open: Vec<&str> = reached
        .into_iter()
        .filter(|_| !disabled)
        .chain(others)
        .filter(|k| l.keyword(k) != Some("no"))
        .collect();
    match (disabled, open.is_empty()) {
        (true, true) => pass("disableforwarding yes, and agents, X11 and tunnels are off"),
        (false, true) => pass("every kind of forwarding is off"),
        (true, false) => {
            let open = open.join(", ");
            fail(
                format!("disableforwarding is yes and does not reach everywhere what is on: {open}"),
                PROVISION,
            )
        }
        (false, false) => {
            fail(format!("disableforwarding is not yes, and on: {}", open.join(", ")), PROVISION)
        }
    }
}

fn environment(l: &Login) -> Finding {
    if let Some(f) = none(l) {
        return f;
    }
    if l.keyword("permituserenvironment").is_some_and(|v| v != "no") {
        return fail(
            "permituserenvironment is on",
            "set `PermitUserEnvironment no` in /etc/ssh/sshd_config (it cannot be set for one login)",
        );
    }
    let accepted: Vec<&str> = l.keywords("acceptenv").flat_map(str::split_whitespace).collect();
    let steering: Vec<&str> = accepted.iter().copied().filter(|p| !harmless(p)).collect();
    if !steering.is_empty() {
        return fail(
            format!("acceptenv takes {}", steering.join(" ")),
            "take these patterns out of AcceptEnv in /etc/ssh (it cannot be taken back for one login)",
        );
    }
    if accepted.is_empty() {
        return pass("no variable is taken from the client");
    }
    pass(format!("acceptenv takes {} only, which the shim does not read", accepted.join(" ")))
}

/// Locale variables, as Debian and Red Hat ship them.
fn harmless(pattern: &str) -> bool {
    pattern == "LANG"
        || pattern == "LANGUAGE"
        || pattern == "XMODIFIERS"
        || pattern == "COLORTERM"
        || pattern == "NO_COLOR"
        || pattern.starts_with("LC_")
}

fn keepalive(l: &Login) -> Finding {
    let number = |k: &str| l.keyword(k).and_then(|v| v.parse::<u64>().ok());
    match (number("clientaliveinterval"), number("clientalivecountmax")) {
        // Measured (decision 0002): interval x (count + 1) seconds, on 9.2p1 twice that.
        (Some(i), Some(n)) if i > 0 && n > 0 && i.saturating_mul(n.saturating_add(1)) <= 30 => {
            let least = i.saturating_mul(n.saturating_add(1));
            pass(format!("the lost peer of a quiet session is missed after {least} to {} s", 2 * least))
        }
        (Some(i), Some(n)) => fail(format!("clientaliveinterval {i}, clientalivecountmax {n}"), PROVISION),
        _ => unknown("sshd -T gave no answer", "look on the host"),
    }
}

fn allowed(subject: &Subject, l: &Login) -> Finding {
    if let Some(f) = none(l) {
        return f;
    }
    let name = subject.account.as_str();
    let lists = |k: &'static str| -> Vec<String> {
        l.keywords(k).flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    for (k, denied) in
        [("denyusers", true), ("denygroups", true), ("allowusers", false), ("allowgroups", false)]
    {
        let entries = lists(k);
        let named = entries.iter().any(|e| e == name || e.split('@').next() == Some(name) || e == "*");
        if !entries.is_empty() && named == denied {
            return fail(
                format!("{k} {}", entries.join(" ")),
                format!("let {name} in, or take it out of the list, in /etc/ssh"),
            );
        }
    }
    pass("no list shuts the login out")
}
