//! What sudo lets the login do: `sudo -l -U LOGIN`, see the OUTPUT it documents in sudo(8) and
//! `Defaults` in sudoers(5).

use super::{Check, Evidence, Finding, PROVISION, Subject, check, fail, pass, unknown, warn};
use crate::doctor::evidence::Login;
use crate::files;

pub(super) fn checks(subject: &Subject, e: &Evidence) -> Vec<Check> {
    let l = e.login(&subject.account);
    let s = Sudo::read(&l, files::SHIM);
    let mut out = vec![
        check(
            "sudo-exact",
            "with arguments allowed, whatever runs as the login chooses what the root side is told",
            exact(&s),
        ),
        check("sudo-only", "every other command is a way to root around the shim", only(&s)),
        check(
            "sudo-iolog",
            "an I/O log holds the secrets of standard input, and its pipes hide a lost peer from the shim",
            iolog(&s),
        ),
        check(
            "sudo-tty",
            "a demanded terminal keeps every run from starting; a given one hides a lost peer",
            tty(&s),
        ),
        check("sudo-env", "without the two variables no run knows which key asked, and from where", env(&s)),
    ];
    if let Some(fleet) = &subject.drop_in {
        let s = Sudo::read(&e.login(fleet), files::KPSSH_SHIM);
        let f = match exact(&s) {
            (super::Verdict::Fail, found, _) if found.contains("any argument") => warn(
                found,
                format!(
                    "write `{} \"\"` in the fleet's sudoers file; our shim refuses arguments by itself",
                    files::KPSSH_SHIM
                ),
            ),
            f => f,
        };
        out.push(check("sudo-drop-in", "the fleet's own sudoers line decides what its login can do", f));
    }
    out
}

/// The parsed listing.
#[derive(Debug, Default)]
struct Sudo {
    answered: bool,
    /// Defaults for the login as a whole.
    general: Vec<String>,
    /// Defaults for the shim alone.
    bound: Vec<String>,
    /// Commands with their tags, as listed.
    commands: Vec<String>,
    shim: &'static str,
}

impl Sudo {
    fn read(l: &Login, shim: &'static str) -> Self {
        let mut s = Self { shim, ..Self::default() };
        let mut section = "";
        for line in &l.sudo {
            let t = line.trim();
            if t.starts_with("Matching Defaults entries") {
                section = "general";
            } else if t.starts_with("User ")
                && (t.contains("may run the following") || t.contains("is not allowed"))
            {
                section = "commands";
                s.answered = true;
            } else if t.starts_with("Runas and Command-specific defaults") {
                section = "bound";
            } else if section == "general" {
                s.general.extend(options(t));
            } else if section == "bound" {
                if let Some(rest) = t.strip_prefix(&format!("Defaults!{shim} ")) {
                    s.bound.extend(options(rest));
                }
            } else if section == "commands" && !t.is_empty() {
                s.commands.push(t.to_owned());
            }
        }
        s
    }

    /// Whether an option is on for the shim: what is bound to the command wins.
    fn on(&self, option: &str) -> bool {
        let state = |list: &[String]| {
            list.iter().rev().find_map(|o| {
                let name = o.strip_prefix('!').unwrap_or(o);
                (name == option).then_some(!o.starts_with('!'))
            })
        };
        state(&self.bound).or_else(|| state(&self.general)).unwrap_or(false)
    }

    fn silent(&self) -> Option<Finding> {
        (!self.answered).then(|| unknown("sudo -l -U gave no answer", "run it on the host as root and look"))
    }
}

/// Splits at commas that are not escaped; `\ ` and quotes stay in the option.
fn options(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            ',' if !quoted && !escaped => {
                out.push(String::new());
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out.into_iter().map(|o| o.trim().to_owned()).filter(|o| !o.is_empty()).collect()
}

fn exact(s: &Sudo) -> Finding {
    if let Some(f) = s.silent() {
        return f;
    }
    let with_empty = format!("{} \"\"", s.shim);
    let lines: Vec<&String> = s.commands.iter().filter(|c| c.contains(s.shim)).collect();
    let Some(last) = lines.last() else {
        return fail(format!("the login may not run {}", s.shim), PROVISION);
    };
    if !last.contains("NOPASSWD:") {
        return fail(format!("`{last}` asks for a password, which the login has not"), PROVISION);
    }
    match lines.iter().find(|c| !c.ends_with(&with_empty)) {
        Some(open) => fail(format!("`{open}` allows any argument"), PROVISION),
        None => pass((*last).clone()),
    }
}

fn only(s: &Sudo) -> Finding {
    if let Some(f) = s.silent() {
        return f;
    }
    let other: Vec<&str> = s.commands.iter().filter(|c| !c.contains(s.shim)).map(String::as_str).collect();
    if other.is_empty() {
        pass("nothing but the shim")
    } else {
        fail(
            format!("also: {}", other.join("; ")),
            "take these lines out of sudoers, or the login out of the group that they are for",
        )
    }
}

fn iolog(s: &Sudo) -> Finding {
    if let Some(f) = s.silent() {
        return f;
    }
    let on: Vec<&str> =
        ["log_input", "log_output", "log_stdin", "log_stdout", "log_stderr", "log_ttyin", "log_ttyout"]
            .into_iter()
            .filter(|o| s.on(o))
            .collect();
    // A tag on the rule itself beats Defaults.
    let tagged = s
        .commands
        .iter()
        .any(|c| c.contains(s.shim) && (has_tag(c, "LOG_INPUT:") || has_tag(c, "LOG_OUTPUT:")));
    if tagged {
        return fail("the rule itself carries LOG_INPUT or LOG_OUTPUT", "take the tag off the rule");
    }
    if on.is_empty() {
        pass("the shim's input and output are not logged")
    } else {
        fail(format!("on for the shim: {}", on.join(", ")), PROVISION)
    }
}

fn has_tag(rule: &str, tag: &str) -> bool {
    rule.split_whitespace().any(|w| w == tag)
}

fn tty(s: &Sudo) -> Finding {
    if let Some(f) = s.silent() {
        return f;
    }
    if s.on("requiretty") {
        return fail("requiretty is on for the shim, so no run starts", PROVISION);
    }
    if s.on("use_pty") {
        return warn("use_pty is on for the shim", PROVISION);
    }
    pass("neither demanded nor given")
}

fn env(s: &Sudo) -> Finding {
    if let Some(f) = s.silent() {
        return f;
    }
    let kept =
        |name: &str| s.bound.iter().chain(&s.general).any(|o| o.starts_with("env_keep") && o.contains(name));
    let lost: Vec<&str> = ["SSH_USER_AUTH", "SSH_CONNECTION"].into_iter().filter(|n| !kept(n)).collect();
    if s.on("setenv") || s.commands.iter().any(|c| c.contains(s.shim) && has_tag(c, "SETENV:")) {
        return fail(
            "the login may set the environment of the root side (setenv)",
            "take SETENV and setenv off for this login",
        );
    }
    if s.general.iter().chain(&s.bound).any(|o| o == "!env_reset") {
        return fail(
            "env_reset is off: the login's whole environment reaches the root side",
            "take `!env_reset` off for this login",
        );
    }
    if lost.is_empty() {
        pass("kept, and nothing else can be set")
    } else {
        fail(format!("not kept: {}", lost.join(", ")), PROVISION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    fn listing(text: &str) -> Sudo {
        let l = Login { sudo: text.lines().map(str::to_owned).collect(), ..Login::default() };
        Sudo::read(&l, files::SHIM)
    }

    const GOOD: &str = r#"Matching Defaults entries for muster on h:
    env_reset, mail_badpass, secure_path=/usr/local/sbin\:/usr/bin, log_input, use_pty

Runas and Command-specific defaults for muster:
    Defaults!/usr/bin/muster-shim !log_input,!log_output, !use_pty, !requiretty, env_keep+="SSH_USER_AUTH SSH_CONNECTION"

User muster may run the following commands on h:
    (root) NOPASSWD: /usr/bin/muster-shim """#;

    #[test]
    fn m10_what_is_bound_to_the_shim_wins() {
        let s = listing(GOOD);
        for f in [exact(&s), only(&s), iolog(&s), tty(&s), env(&s)] {
            assert_eq!(f.0, Verdict::Pass, "{f:?}");
        }
        let open = listing(&GOOD.replace("!log_input,", ""));
        assert_eq!(iolog(&open).0, Verdict::Fail);
        assert_eq!(iolog(&listing(&GOOD.replace("NOPASSWD:", "NOPASSWD: LOG_INPUT:"))).0, Verdict::Fail);
        assert_eq!(tty(&listing(&GOOD.replace("!requiretty", "requiretty"))).0, Verdict::Fail);
        assert_eq!(env(&listing(&GOOD.replace("SSH_CONNECTION", "X"))).0, Verdict::Fail);
        assert_eq!(env(&listing(&GOOD.replace("env_reset,", "!env_reset,"))).0, Verdict::Fail);
    }

    #[test]
    fn m8_a_rule_that_allows_arguments_fails() {
        assert_eq!(exact(&listing(&GOOD.replace(" \"\"", ""))).0, Verdict::Fail);
        assert_eq!(exact(&listing(&GOOD.replace("NOPASSWD: ", ""))).0, Verdict::Fail);
        let more = format!("{GOOD}\n    (root) NOPASSWD: /usr/bin/less");
        assert_eq!(only(&listing(&more)).0, Verdict::Fail);
    }

    #[test]
    fn no_answer_is_unknown() {
        for f in [
            exact(&listing("")),
            only(&listing("")),
            iolog(&listing("")),
            tty(&listing("")),
            env(&listing("")),
        ] {
            assert_eq!(f.0, Verdict::Unknown);
        }
    }
}
