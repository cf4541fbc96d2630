//! What a thief of the controller key would try, and what each attempt must come to.
//!
//! The matrix is that of field reports on forced commands: every kind of channel and request that
//! the SSH connection protocol knows (RFC 4254 sections 6 and 7, and the extensions in OpenSSH's
//! PROTOCOL file), and the files that shells and sshd read before a forced command. The caller's SSH
//! client carries an attempt out and says what it saw; the verdict is a pure function of that.
//!
//! Output is only believed where it was computed on the host: the text that is sent holds a
//! multiplication, and the attack has come through where its product is in the answer. A shim that
//! quotes what it refuses cannot be taken for one that ran it.

use super::{Check, Finding, check, fail, pass, unknown};
use core::fmt;
use muster_core::ShimExit;

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attack {
    /// `shell` with a command on standard input.
    Shell,
    /// `exec` of a command.
    Exec,
    /// `exec` of text that a careless wrapper would expand.
    Injection,
    /// `pty-req`, then `shell`.
    Pty,
    /// Subsystem `sftp`.
    Sftp,
    /// A subsystem that no host has.
    Subsystem,
    /// `env` with variables that steer shells and loaders.
    Env,
    /// `direct-tcpip` to the host's own sshd.
    LocalForward,
    /// `tcpip-forward` of a port that the host chooses, on its 127.0.0.1: no other account can hold it.
    RemoteForward,
    /// `direct-streamlocal@openssh.com` to [`Attack::SYSTEM_SOCKET`].
    LocalSocket,
    /// `streamlocal-forward@openssh.com` of a path that the siege made room for.
    RemoteSocket,
    /// `auth-agent-req@openssh.com`.
    Agent,
    /// `x11-req` with a cookie such as every client sends: one that sshd finds fault with would be
    /// refused for its form, and say nothing of the forwarding.
    X11,
    /// `tun@openssh.com`: not carried out, but read from sshd's settings.
    Tun,
    /// Authentication by `none`, `password` and `keyboard-interactive`.
    Password,
    /// Shell start-up files in the login's home.
    PlantedShell,
    /// `.ssh/rc` in the login's home.
    PlantedRc,
    /// `.ssh/environment` in the login's home.
    PlantedEnvironment,
    /// `.ssh/authorized_keys` in the login's home, with a key of nobody's.
    PlantedKeys,
}

impl Attack {
    /// Every attempt that needs the login alone, in the order of the report.
    pub const DIRECT: [Self; 15] = [
        Self::Shell,
        Self::Exec,
        Self::Injection,
        Self::Pty,
        Self::Sftp,
        Self::Subsystem,
        Self::Env,
        Self::LocalForward,
        Self::RemoteForward,
        Self::LocalSocket,
        Self::RemoteSocket,
        Self::Agent,
        Self::X11,
        Self::Tun,
        Self::Password,
    ];

    /// Attempts for which something is planted through the admin login first.
    pub const PLANTED: [Self; 4] =
        [Self::PlantedShell, Self::PlantedRc, Self::PlantedEnvironment, Self::PlantedKeys];

    /// The check's id.
    pub fn id(self) -> &'static str {
        match self {
            Self::Shell => "attack-shell",
            Self::Exec => "attack-exec",
            Self::Injection => "attack-injection",
            Self::Pty => "attack-pty",
            Self::Sftp => "attack-sftp",
            Self::Subsystem => "attack-subsystem",
            Self::Env => "attack-env",
            Self::LocalForward => "attack-local-forward",
            Self::RemoteForward => "attack-remote-forward",
            Self::LocalSocket => "attack-local-socket",
            Self::RemoteSocket => "attack-remote-socket",
            Self::Agent => "attack-agent",
            Self::X11 => "attack-x11",
            Self::Tun => "attack-tun",
            Self::Password => "attack-password",
            Self::PlantedShell => "attack-planted-shell",
            Self::PlantedRc => "attack-planted-rc",
            Self::PlantedEnvironment => "attack-planted-environment",
            Self::PlantedKeys => "attack-planted-keys",
        }
    }

    /// What a success would give.
    pub fn why(self) -> &'static str {
        match self {
            Self::Shell | Self::Exec | Self::Injection => "any command as the login",
            Self::Pty => "a terminal under the login",
            Self::Sftp => "reading and writing files as the login",
            Self::Subsystem => "a program of the host other than the shim",
            Self::Env => "steering what runs before the shim",
            Self::LocalForward => "every port that the host can reach",
            Self::RemoteForward => "answering for a service on the host's loopback",
            Self::LocalSocket => "every Unix socket that the login can open",
            Self::RemoteSocket => "a socket file on the host that answers from outside",
            Self::Agent => "the agent of whoever holds the key, for root on the host",
            Self::X11 => "a display of the attacker's on the host, and xauth run before the shim",
            Self::Tun => "a network interface into the host's networks",
            Self::Password => "a way in without the listed keys",
            Self::PlantedShell | Self::PlantedRc | Self::PlantedEnvironment => {
                "code as the login at the next run, planted by whatever could write its home once"
            }
            Self::PlantedKeys => "a key of one's own, added by whatever could write the login's home once",
        }
    }

    /// The command for `exec`, where the attempt has one.
    pub fn command(self, canary: &Canary) -> Option<String> {
        match self {
            Self::Exec => Some(canary.command()),
            Self::Injection => Some(format!("x; {0} $({0}) `{0}` | {0} && {0} '", canary.command())),
            _ => None,
        }
    }

    /// What to write to standard input, then end of file.
    pub fn stdin(self, canary: &Canary) -> Vec<u8> {
        match self {
            Self::Shell | Self::Pty | Self::Subsystem => format!("{}\nexit\n", canary.command()).into_bytes(),
            // SSH_FXP_INIT, version 3 (draft-ietf-secsh-filexfer-02 section 4).
            Self::Sftp => vec![0, 0, 0, 5, 1, 0, 0, 0, 3],
            _ => Vec::new(),
        }
    }

    /// Variables for [`Attack::Env`].
    pub const VARIABLES: [(&'static str, &'static str); 6] = [
        ("BASH_ENV", "/tmp/muster-doctor"),
        ("ENV", "/tmp/muster-doctor"),
        ("LD_PRELOAD", "/tmp/muster-doctor.so"),
        ("PATH", "/tmp"),
        ("MUSTER_DOCTOR", "x"),
        ("KPSSH_ALLOWED_SIGNERS", "/tmp/muster-doctor"),
    ];

    /// The socket for [`Attack::LocalSocket`]: there on every host with systemd, and open to all.
    pub const SYSTEM_SOCKET: &'static str = "/run/systemd/journal/stdout";
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A multiplication that only a shell on the host would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    a: u64,
    b: u64,
}

impl Canary {
    /// From 64 random bits.
    pub fn new(seed: u64) -> Self {
        // Seven digits each: the product has thirteen or fourteen and no shell overflows.
        Self { a: 1_000_003 + (seed >> 32) % 8_999_990, b: 1_000_003 + (seed & 0xffff_ffff) % 8_999_990 }
    }

    /// A command that prints the product.
    pub fn command(&self) -> String {
        format!("echo $(({}*{}))", self.a, self.b)
    }

    /// What it prints.
    pub fn product(&self) -> String {
        (self.a * self.b).to_string()
    }
}

/// What the server said to the one thing that the attempt is about: the channel's opening, the
/// request, the global request, the authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It refused; its words.
    Refused(String),
    /// It agreed; to what (names of variables, methods, the port).
    Accepted(String),
    /// Nothing can be said: the connection failed, or the client cannot ask.
    Fault(String),
}

/// What ran in the session, where one was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Standard output, cut as the caller likes.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Exit code; `None` for a signal or none.
    pub exit: Option<i32>,
}

impl Ran {
    fn says(&self, text: &str) -> bool {
        let has = |hay: &[u8]| hay.windows(text.len()).any(|w| w == text.as_bytes());
        has(&self.stdout) || has(&self.stderr)
    }

    /// Nothing on standard output, and an exit code by which the shim says that nothing ran.
    fn is_refusal(&self) -> bool {
        let code = self.exit.and_then(|c| u8::try_from(c).ok()).and_then(ShimExit::from_code);
        self.stdout.is_empty() && matches!(code, Some(c) if (1..=7).contains(&c.code()))
    }

    fn code(&self) -> String {
        self.exit.map_or_else(|| "-".into(), |c| c.to_string())
    }

    /// The shim's own refusal.
    fn is_shim(&self) -> bool {
        self.says("muster-shim: ") || self.says("kpssh-shim: ")
    }
}

/// What came of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The server's answer.
    pub answer: Answer,
    /// What ran, where a session was opened.
    pub ran: Option<Ran>,
}

impl Observation {
    /// Refused outright.
    pub fn refused(words: impl Into<String>) -> Self {
        Self { answer: Answer::Refused(words.into()), ran: None }
    }

    /// Agreed to.
    pub fn accepted(what: impl Into<String>) -> Self {
        Self { answer: Answer::Accepted(what.into()), ran: None }
    }

    /// Nothing can be said.
    pub fn fault(why: impl Into<String>) -> Self {
        Self { answer: Answer::Fault(why.into()), ran: None }
    }
}

/// Carries attempts out with the pool login's key.
pub trait Attacker {
    /// One attempt, over a connection that a failed attempt before it cannot have spoilt. For the
    /// planted ones it is a plain login with an empty standard input, except that
    /// [`Attack::PlantedKeys`] logs in with the stranger's key. `socket` is the path for
    /// [`Attack::RemoteSocket`].
    fn attempt(
        &self,
        attack: Attack,
        canary: &Canary,
        socket: &str,
    ) -> impl Future<Output = Observation> + Send;

    /// The public line of a key that no host lists and whose private half the attacker holds.
    fn stranger(&self) -> String;
}

const FIX: &str = "run `muster host provision`; what is left after that is in /etc/ssh or in PAM: see the sshd checks above";

/// The verdict over one attempt.
pub fn judge(attack: Attack, canary: &Canary, seen: &Observation) -> Check {
    check(attack.id(), attack.why(), finding(attack, canary, seen))
}

fn finding(attack: Attack, canary: &Canary, seen: &Observation) -> Finding {
    if let Answer::Fault(why) = &seen.answer {
        return unknown(
            format!("not tried to the end: {why}"),
            "run the doctor again; if it stays so, try by hand",
        );
    }
    if let Some(ran) = &seen.ran {
        if ran.says(&canary.product()) {
            return fail("a command of ours ran on the host", FIX);
        }
        // SSH_FXP_VERSION.
        if attack == Attack::Sftp && ran.stdout.get(4) == Some(&2) && ran.stdout.len() >= 9 {
            return fail("an SFTP server answered", FIX);
        }
    }
    match (attack, &seen.answer) {
        (_, Answer::Fault(why)) => unknown(why.clone(), FIX),
        (_, Answer::Refused(words)) => pass(format!("refused: {}", short(words))),
        // A session is what the login has; what counts is what runs in it.
        (
            Attack::Shell | Attack::Exec | Attack::Injection | Attack::Sftp | Attack::Subsystem,
            Answer::Accepted(_),
        ) => match &seen.ran {
            // sshd passes no standard error of a subsystem on; the code is all that is seen.
            Some(ran) if matches!(attack, Attack::Sftp | Attack::Subsystem) && ran.is_refusal() => {
                pass(format!("nothing answered; it ended with the shim's code {}", ran.code()))
            }
            Some(ran) if ran.is_shim() => pass(format!("the shim answered, exit {}", ran.code())),
            Some(ran) => fail(format!("something other than the shim answered, exit {}", ran.code()), FIX),
            None => unknown("a session was opened, and what ran in it is not known", "run the doctor again"),
        },
        (_, Answer::Accepted(what)) => fail(format!("accepted: {}", short(what)), FIX),
    }
}

fn short(text: &str) -> String {
    crate::shell::one_line_tail(text.as_bytes(), 160)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    const CANARY: Canary = Canary { a: 1_234_567, b: 7_654_321 };

    fn ran(stdout: &[u8], stderr: &str, exit: i32) -> Observation {
        let ran = Ran { stdout: stdout.to_vec(), stderr: stderr.as_bytes().to_vec(), exit: Some(exit) };
        Observation { answer: Answer::Accepted(String::new()), ran: Some(ran) }
    }

    fn verdict(a: Attack, o: &Observation) -> Verdict {
        judge(a, &CANARY, o).verdict
    }

    #[test]
    fn ve21_only_the_road_to_the_shim_passes() {
        let shim = ran(b"", "muster-shim: refused [version]: …", 4);
        for a in Attack::DIRECT {
            assert_eq!(
                verdict(a, &Observation::refused("administratively prohibited")),
                Verdict::Pass,
                "{a}"
            );
            assert_eq!(verdict(a, &Observation::fault("cut")), Verdict::Unknown, "{a}");
            assert_ne!(
                verdict(a, &Observation::accepted("")),
                Verdict::Pass,
                "{a}: agreed to, and nothing else is known"
            );
            let session = matches!(
                a,
                Attack::Shell | Attack::Exec | Attack::Injection | Attack::Sftp | Attack::Subsystem
            );
            assert_eq!(verdict(a, &shim) == Verdict::Pass, session, "{a}");
        }
    }

    #[test]
    fn a_command_that_ran_fails_whoever_says_so_and_a_quoted_one_does_not() {
        let product = CANARY.product();
        assert_eq!(
            verdict(Attack::Exec, &ran(format!("{product}\n").as_bytes(), "muster-shim: x", 4)),
            Verdict::Fail
        );
        let quoted = ran(b"", &format!("muster-shim: refused [version]: {:?}", CANARY.command()), 4);
        assert_eq!(verdict(Attack::Shell, &quoted), Verdict::Pass);
        assert_eq!(verdict(Attack::Shell, &ran(b"bash: x\n", "", 0)), Verdict::Fail);
        assert_eq!(verdict(Attack::Sftp, &ran(&[0, 0, 0, 5, 2, 0, 0, 0, 3], "", 0)), Verdict::Fail);
    }

    #[test]
    fn canaries_are_not_in_what_is_sent() {
        for seed in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let c = Canary::new(seed);
            for a in Attack::DIRECT {
                let sent = [a.command(&c).unwrap_or_default().into_bytes(), a.stdin(&c)].concat();
                assert!(!String::from_utf8_lossy(&sent).contains(&c.product()), "{a}");
            }
        }
    }

    #[test]
    fn ids_are_distinct() {
        let all: std::collections::BTreeSet<&str> =
            Attack::DIRECT.iter().chain(&Attack::PLANTED).map(|a| a.id()).collect();
        assert_eq!(all.len(), Attack::DIRECT.len() + Attack::PLANTED.len());
    }
}
