//! Carrying the attempts out, planting included.
//!
//! What is planted is put into the login's home by root over the admin login, which stands for
//! "somebody could write there once". It is taken out again after each attempt, by a timer of the
//! host if the doctor dies, and by the next doctor if even that did not happen.

use super::attack::{Answer, Attack, Attacker, Canary, Observation, judge};
use super::evidence::Login;
use super::{Check, Finding, PROVISION, Verdict, check, fail, pass, unknown, warn};
use crate::sh::{LIB, quote};
use crate::shell::HostShell;
use crate::spec::AccountName;

/// Every attempt, in the order of the report. `word` is a fresh random word of letters and digits;
/// `login` is what sshd makes of the login. Without a shell the planted ones are left out.
pub async fn siege<S: HostShell + Sync, A: Attacker + Sync>(
    shell: Option<&S>,
    attacker: &A,
    (account, login): (&AccountName, &Login),
    canary: &Canary,
    word: &str,
    watch: &mut (dyn FnMut(Attack) + Send),
) -> Vec<Check> {
    let mut out = Vec::new();
    // Room that root makes under a name that nobody knows before, and where only the login can write.
    let room = format!("{word}socket");
    if let Some(shell) = shell {
        // Without it the forwarding is refused for want of a folder, which `settled` does not believe.
        let _ = shell.run_root(&script(account, &room, "m_room"), b"").await;
    }
    let socket = format!("{}/bind/s", folder(&room));
    for attack in Attack::DIRECT {
        watch(attack);
        if attack == Attack::Tun {
            out.push(check(attack.id(), attack.why(), tunnel(login)));
            continue;
        }
        let judged = judge(attack, canary, &attacker.attempt(attack, canary, &socket).await);
        out.push(match attack {
            Attack::X11 => x11(judged, login),
            _ => settled(judged, attack, login),
        });
    }
    if let Some(shell) = shell {
        // With what sshd left in it where an attempt came through.
        let _ = shell.run_root(&script(account, &room, "m_unplant"), b"").await;
        for attack in Attack::PLANTED {
            watch(attack);
            out.push(planted(shell, attacker, account, canary, word, attack).await);
        }
    }
    out
}

/// No attempt is made: SSH libraries open no tunnel channels, and OpenSSH's client must be root on
/// this side to make a device first. sshd decides by `PermitTunnel` alone (serverloop.c); tried on
/// 9.2p1, `DisableForwarding` does not keep it from opening the device.
fn tunnel(login: &Login) -> Finding {
    match login.keyword("permittunnel") {
        None => unknown(
            "not tried, and sshd -T does not say",
            "run `sshd -T -C user=LOGIN,host=h,addr=A` on the host and look",
        ),
        Some("no") => pass("read, not attacked: permittunnel no"),
        Some(other) => fail(
            format!("read, not attacked: permittunnel {other}, which DisableForwarding does not take back"),
            PROVISION,
        ),
    }
}

/// sshd refuses X11 also where it finds no xauth (session.c): that is no refusal of the forwarding.
fn x11(judged: Check, login: &Login) -> Check {
    if judged.verdict != Verdict::Pass || login.keyword("x11forwarding") != Some("yes") {
        return judged;
    }
    let found = format!("{}; but x11forwarding is yes, and it may be for want of xauth alone", judged.found);
    check(judged.id, judged.why, warn(found, PROVISION))
}

/// sshd gives one answer to a forwarding that it must not do and to one that it could not: a port or path
/// that somebody holds, a full disk, nobody who listens. So its refusal counts where its settings say it too.
fn settled(judged: Check, attack: Attack, login: &Login) -> Check {
    let (keyword, closed): (_, &[&str]) = match attack {
        Attack::RemoteForward => ("allowtcpforwarding", &["no", "local"]),
        Attack::LocalSocket => ("allowstreamlocalforwarding", &["no", "remote"]),
        Attack::RemoteSocket => ("allowstreamlocalforwarding", &["no", "local"]),
        _ => return judged,
    };
    let is = |keyword, values: &[&str]| login.keyword(keyword).is_some_and(|v| values.contains(&v));
    let no_port = attack == Attack::RemoteForward && is("permitlisten", &["none"]);
    if judged.verdict != Verdict::Pass || is("disableforwarding", &["yes"]) || is(keyword, closed) || no_port
    {
        return judged;
    }
    let said = login.keyword(keyword).unwrap_or("not known");
    let found = format!(
        "{}; but {keyword} is {said}, and it may be for another reason: a port or path that somebody holds, or nobody there",
        judged.found
    );
    check(judged.id, judged.why, unknown(found, PROVISION))
}

fn folder(word: &str) -> String {
    let word: String = word.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    format!("/run/muster-doctor.{word}")
}

fn script(account: &AccountName, word: &str, call: &str) -> String {
    format!(
        "{LIB}\n{}\nW={}\nA={account}\nH=$(getent passwd {account} | cut -d: -f6)\n{call}\n",
        include_str!("../host/plant.sh"),
        folder(word)
    )
}

async fn planted<S: HostShell + Sync, A: Attacker + Sync>(
    shell: &S,
    attacker: &A,
    account: &AccountName,
    canary: &Canary,
    word: &str,
    attack: Attack,
) -> Check {
    let (kind, input) = match attack {
        Attack::PlantedRc => ("rc", String::new()),
        Attack::PlantedEnvironment => ("environment", String::new()),
        Attack::PlantedKeys => ("keys", format!("{}\n", attacker.stranger())),
        _ => ("shell", String::new()),
    };
    let gave_up = |why: String| {
        check(attack.id(), attack.why(), unknown(format!("not tried: {why}"), "run the doctor again"))
    };
    // A folder of its own for each: the timer of one must not take out another.
    let word = &format!("{word}{kind}");
    let plant = script(account, word, &format!("m_plant {}", quote(kind)));
    match shell.run_root(&plant, input.as_bytes()).await {
        Ok(o) if o.status == 0 => {}
        Ok(o) => {
            let why = o.stderr_tail(200).replace("muster-provision: ", "");
            // What was put there before it failed goes too.
            let _ = shell.run_root(&script(account, word, "m_unplant"), b"").await;
            return gave_up(why);
        }
        Err(e) => return gave_up(e.to_string()),
    }
    let seen = attacker.attempt(attack, canary, "").await;
    let after = shell.run_root(&script(account, word, "m_seen"), b"").await;
    let ran = match after {
        Ok(o) if o.status == 0 => o.text().trim() == "ran",
        Ok(o) => return gave_up(o.stderr_tail(200)),
        Err(e) => return gave_up(e.to_string()),
    };
    judge(attack, canary, &verdict(attack, seen, ran))
}

/// For planted files it does not matter what the login answered, but whether the planted code ran;
/// an attempt that never got as far as a login proves nothing.
fn verdict(attack: Attack, seen: Observation, ran: bool) -> Observation {
    match (attack, seen.answer) {
        (_, Answer::Fault(why)) => Observation::fault(why),
        (Attack::PlantedKeys, answer) => Observation { answer, ran: None },
        (_, _) if ran => Observation::accepted("the planted file was run"),
        (_, Answer::Refused(why)) => Observation::fault(format!("the login itself was refused: {why}")),
        (_, Answer::Accepted(_)) => Observation::refused("the planted file was not run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_judged_by_what_sshd_says_and_an_x11_refusal_too() {
        let login = |k: &str, v: &str| Login { sshd: vec![(k.into(), v.into())], ..Login::default() };
        for (value, verdict) in [
            ("no", Verdict::Pass),
            ("yes", Verdict::Fail),
            ("point-to-point", Verdict::Fail),
            ("ethernet", Verdict::Fail),
        ] {
            assert_eq!(tunnel(&login("permittunnel", value)).0, verdict, "{value}");
        }
        assert_eq!(tunnel(&login("disableforwarding", "yes")).0, Verdict::Unknown);
        let of = |seen: Observation, value: &str| {
            x11(judge(Attack::X11, &Canary::new(7), &seen), &login("x11forwarding", value)).verdict
        };
        assert_eq!(of(Observation::refused("x"), "no"), Verdict::Pass);
        assert_eq!(of(Observation::refused("x"), "yes"), Verdict::Warn);
        assert_eq!(of(Observation::accepted("x"), "no"), Verdict::Fail);
    }

    /// Whoever holds the port makes sshd refuse: without a setting that forbids it, that is no pass.
    #[test]
    fn a_refusal_that_may_be_a_failure_to_bind_is_no_pass() {
        let of = |attack, keyword: &str, value: &str, seen: Observation| {
            let login = Login { sshd: vec![(keyword.into(), value.into())], ..Login::default() };
            settled(judge(attack, &Canary::new(7), &seen), attack, &login).verdict
        };
        let (tcp, unix) = ("allowtcpforwarding", "allowstreamlocalforwarding");
        for (attack, keyword, value, verdict) in [
            (Attack::RemoteForward, tcp, "yes", Verdict::Unknown),
            (Attack::RemoteForward, tcp, "remote", Verdict::Unknown),
            (Attack::RemoteForward, tcp, "local", Verdict::Pass),
            (Attack::RemoteForward, tcp, "no", Verdict::Pass),
            (Attack::RemoteForward, "permitlisten", "none", Verdict::Pass),
            (Attack::RemoteForward, "permitlisten", "127.0.0.1:8080", Verdict::Unknown),
            (Attack::RemoteForward, "disableforwarding", "yes", Verdict::Pass),
            (Attack::RemoteForward, unix, "no", Verdict::Unknown),
            (Attack::RemoteSocket, unix, "yes", Verdict::Unknown),
            (Attack::RemoteSocket, unix, "remote", Verdict::Unknown),
            (Attack::RemoteSocket, unix, "local", Verdict::Pass),
            (Attack::RemoteSocket, "nothing", "", Verdict::Unknown),
            (Attack::LocalSocket, unix, "yes", Verdict::Unknown),
            (Attack::LocalSocket, unix, "local", Verdict::Unknown),
            (Attack::LocalSocket, unix, "remote", Verdict::Pass),
            (Attack::LocalForward, tcp, "yes", Verdict::Pass),
        ] {
            assert_eq!(
                of(attack, keyword, value, Observation::refused("x")),
                verdict,
                "{attack} {keyword} {value}"
            );
            let through = of(attack, keyword, value, Observation::accepted("x"));
            assert_eq!(through, Verdict::Fail, "{attack}: settings are no excuse");
        }
    }

    #[test]
    fn a_planted_file_passes_only_when_a_login_happened_and_it_did_not_run() {
        let c = Canary::new(7);
        let of = |a, o, ran| judge(a, &c, &verdict(a, o, ran)).verdict;
        let login = || Observation::accepted("");
        assert_eq!(of(Attack::PlantedRc, login(), false), Verdict::Pass);
        assert_eq!(of(Attack::PlantedRc, login(), true), Verdict::Fail);
        assert_eq!(of(Attack::PlantedRc, Observation::refused("x"), false), Verdict::Unknown);
        assert_eq!(of(Attack::PlantedKeys, login(), false), Verdict::Fail);
        assert_eq!(of(Attack::PlantedKeys, Observation::refused("publickey"), false), Verdict::Pass);
    }
}
