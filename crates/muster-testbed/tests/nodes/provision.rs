//! Provisioning a real node over a real login: systemd, sshd, sudo with a password, the shim as it ships.

use anyhow::{Result, bail, ensure};
use muster_core::{HostName, ProfileName, UtcTime};
use muster_provision::doctor::attack::{Answer, Attack, Attacker, Canary, Observation, Ran};
use muster_provision::doctor::siege::siege;
use muster_provision::doctor::{self, Known, Subject, Verdict};
use muster_provision::elevate::{self, Elevation, SudoPassword};
use muster_provision::run::{self, Aftermath, Event, Options, Outcome, RunError};
use muster_provision::{
    AccountName, ControllerKey, FromPattern, HostShell, HostSpec, ProofFailure, Prover, PublicKeyLine,
    ShellError, ShellOutput, ShimBinary,
};
use muster_testbed::{KeyPair, Node, Ssh, Sudo, Testbed, binaries, require_root_or_skip};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PASSWORD: &str = "correct horse";

/// Every await below is ready at once.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(out) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return out;
        }
    }
}

fn word() -> String {
    static N: AtomicU64 = AtomicU64::new(0);
    format!("n{:010}x{:010}", std::process::id(), N.fetch_add(1, Ordering::Relaxed))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The script runs to its end and something in it failed.
    Fails,
    /// The connection is lost after the script and stays lost.
    Dead,
}

/// The admin login over `ssh`, with sudo's password.
struct Shell {
    ssh: Ssh,
    calls: AtomicU64,
    fault: Option<(u64, Fault)>,
}

impl Shell {
    fn run(&self, script: &str, stdin: &[u8]) -> Result<ShellOutput, ShellError> {
        let how = Elevation::Password(SudoPassword::new(PASSWORD)?);
        let marker = word();
        let remote = elevate::remote(&how, &marker, script, stdin)?;
        let out = self
            .ssh
            .run(&remote.command, &remote.stdin)
            .map_err(|e| ShellError::Unreachable(e.to_string()))?;
        elevate::outcome(&marker, out.code().filter(|c| *c != 255), &out.stdout, &out.stderr)
    }
}

impl HostShell for Shell {
    async fn run_root(&self, script: &str, stdin: &[u8]) -> Result<ShellOutput, ShellError> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Some((at, Fault::Dead)) if n > at => Err(ShellError::Unreachable("injected".into())),
            Some((at, fault)) if n == at => {
                let mut out = self.run(script, stdin)?;
                if fault == Fault::Dead {
                    return Err(ShellError::Lost("injected".into()));
                }
                out.status = 1;
                Ok(out)
            }
            _ => self.run(script, stdin),
        }
    }
}

/// Proves with a probe over the pool login and a new admin login.
struct Logins {
    pool: Ssh,
    admin: Ssh,
}

const PROBE: &[u8] = b"muster-envelope: 2\nphase: probe\n";

impl Prover for Logins {
    async fn pool_login(&self) -> Result<String, ProofFailure> {
        let failed = |why: String| ProofFailure { what: "pool login", why };
        let out = self.pool.shell(PROBE).map_err(|e| failed(e.to_string()))?;
        if out.ok() && out.stdout_text().contains("\"muster-probe\"") {
            Ok(out.stdout_text().trim().to_owned())
        } else {
            Err(failed(format!("{:?} {}{}", out.code(), out.stdout_text(), out.stderr_text())))
        }
    }

    async fn admin_login(&self) -> Result<String, ProofFailure> {
        match self.admin.run("true", b"") {
            Ok(o) if o.ok() => Ok("admin".into()),
            Ok(o) => Err(ProofFailure { what: "admin login", why: o.stderr_text() }),
            Err(e) => Err(ProofFailure { what: "admin login", why: e.to_string() }),
        }
    }
}

struct Stage {
    _bed: Testbed,
    node: Node,
    admin: Ssh,
    pool: Ssh,
    stranger: Ssh,
    stranger_line: String,
    spec: HostSpec,
}

impl Stage {
    fn set(name: &str) -> Result<Self> {
        let bed = Testbed::prepare(name)?;
        let node = bed.node("a")?.boot()?;
        let keys: Vec<KeyPair> = ["admin", "controller", "signer", "stranger"]
            .iter()
            .map(|n| bed.keygen(n))
            .collect::<Result<_>>()?;
        let [admin, controller, signer, stranger] = keys.as_slice() else { bail!("four keys") };
        node.add_admin("admin", admin, Sudo::Password(PASSWORD))?;
        let shim = ShimBinary::new(std::fs::read(binaries()?.shim)?, None)?;
        let gate = FromPattern::new(&format!("{}/32", bed.gate()))?;
        let key =
            ControllerKey::new(PublicKeyLine::parse(&controller.public_line()?)?).with_from(vec![gate])?;
        let allowed = format!("muster namespaces=\"muster-intent\" {}\n", signer.public_line()?);
        let mut spec = HostSpec::new(HostName::new("edge-1")?, shim, allowed.into_bytes(), vec![key]);
        spec.profiles.insert(ProfileName::new("tls-bootstrap")?, 7);
        Ok(Self {
            admin: bed.ssh(&node, "admin", admin),
            pool: bed.ssh(&node, "muster", controller),
            stranger: bed.ssh(&node, "muster", stranger),
            stranger_line: stranger.public_line()?,
            _bed: bed,
            node,
            spec,
        })
    }

    fn shell(&self, fault: Option<(u64, Fault)>) -> Shell {
        Shell { ssh: self.admin.clone(), calls: AtomicU64::new(0), fault }
    }

    fn logins(&self) -> Logins {
        Logins { pool: self.pool.clone(), admin: self.admin.clone() }
    }

    fn provision(
        &self,
        shell: &Shell,
        options: &Options,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, RunError> {
        block_on(run::provision(shell, &self.logins(), &self.spec, options, watch))
    }

    fn unprovision(&self) -> Result<Vec<String>, RunError> {
        block_on(run::unprovision(&self.shell(None), &self.logins(), &Options::new(word()), &mut run::silent))
    }

    /// Type, mode, owner and link target of everything that could be touched, and every digest.
    fn snapshot(&self) -> Result<String> {
        self.node.sh(
            "cd /; { find etc var/lib/muster opt run/muster $(ls -d run/systemd/transient/muster* 2>/dev/null) -printf '%p %y %m %U %G %l\\n'; \
             find usr/bin usr/sbin -printf '%p %y %m %U %G %l %s %T@\\n' | grep -v '^usr/s\\?bin d '; \
             find etc var/lib/muster opt -type f -exec sha256sum {} +; } 2>/dev/null | sort || true",
        )
    }
}

fn same(before: &str, after: &str, case: &str) {
    let diff: Vec<String> = before
        .lines()
        .filter(|l| !after.contains(l))
        .map(|l| format!("- {l}"))
        .chain(after.lines().filter(|l| !before.contains(l)).map(|l| format!("+ {l}")))
        .take(30)
        .collect();
    assert!(diff.is_empty(), "{case}: the node is not as it was\n{}", diff.join("\n"));
}

/// But for the copies that the account tools keep of the last state.
fn same_but_copies(before: &str, after: &str, case: &str) {
    let rest = |t: &str| -> String {
        let copy = |l: &&str| {
            !["etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-"]
                .iter()
                .any(|c| l.ends_with(&format!("  {c}")))
        };
        t.lines().filter(copy).map(|l| format!("{l}\n")).collect()
    };
    same(&rest(before), &rest(after), case);
}

#[test]
fn a_node_is_provisioned_over_a_sudo_password_and_left_without_a_trace() -> Result<()> {
    require_root_or_skip!();
    let s = Stage::set("provision")?;
    // So that both states have it: the account tools make these on their first use.
    let before = s.snapshot()?;
    let mut events = Vec::new();
    let done = s.provision(&s.shell(None), &Options::new(word()), &mut |e| events.push(e))?;
    let Outcome::Changed { proof, .. } = done else { bail!("{done:?}") };
    ensure!(proof.contains("\"host\":\"edge-1\""), "{proof}");
    ensure!(s.node.sh("systemctl list-units --all --no-legend 'muster*'")?.is_empty(), "the timer is gone");

    // Whatever the login asks for, the shim answers.
    for (command, stdin) in [("id", &b""[..]), ("", b"id\n"), ("bash -i", b"")] {
        let out = s.pool.run(command, stdin)?;
        ensure!(
            out.code() == Some(4) && out.stderr_text().contains("muster-shim: refused"),
            "{command}: {out:?}"
        );
    }
    let second = s.provision(&s.shell(None), &Options::new(word()), &mut run::silent)?;
    ensure!(matches!(second, Outcome::Unchanged { .. }), "{second:?}");

    // A reboot changes nothing.
    s.node.reboot()?;
    s.node.wait_ssh()?;
    ensure!(s.pool.shell(PROBE)?.ok());

    let paths = s.unprovision()?;
    ensure!(paths.len() > 6);
    same_but_copies(&before, &s.snapshot()?, "unprovision");
    ensure!(
        !s.node
            .sh("grep -r muster /etc/passwd- /etc/shadow- /etc/group- /etc/gshadow- || true")?
            .contains("muster")
    );
    ensure!(!s.pool.shell(PROBE)?.ok());
    ensure!(s.admin.run("true", b"")?.ok());
    // The password was on no command line that the journal knows of.
    ensure!(!s.node.journal()?.contains(PASSWORD));
    Ok(())
}

#[test]
fn a_failure_at_any_step_on_a_node_leaves_it_as_it_was() -> Result<()> {
    require_root_or_skip!();
    let s = Stage::set("provisionfail")?;
    let before = s.snapshot()?;
    for n in 2.. {
        let shell = s.shell(Some((n, Fault::Fails)));
        match s.provision(&shell, &Options::new(word()), &mut run::silent) {
            Err(RunError::Failed { aftermath, during, .. }) => {
                ensure!(aftermath == Aftermath::PutBack, "{during}: {aftermath}");
                same(&before, &s.snapshot()?, &during);
                ensure!(
                    s.node.sh("systemctl list-units --all --no-legend 'muster*'")?.is_empty(),
                    "{during}: a timer is left"
                );
            }
            Ok(Outcome::Changed { .. }) => {
                ensure!(n > 15, "call {n} failed and the run did not");
                s.unprovision()?;
                same_but_copies(&before, &s.snapshot()?, "unprovision");
                return Ok(());
            }
            other => bail!("call {n}: {other:?}"),
        }
    }
    Ok(())
}

fn wait_until(what: &str, most: Duration, mut f: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !f()? {
        ensure!(start.elapsed() < most, "{what}: not within {most:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
    Ok(())
}

#[test]
fn a_node_that_is_left_alone_puts_itself_back_by_a_systemd_timer() -> Result<()> {
    require_root_or_skip!();
    let s = Stage::set("provisiondead")?;
    let before = s.snapshot()?;
    // The call that reloads sshd is the last one that gets through.
    let calls = {
        let shell = s.shell(None);
        s.provision(&shell, &Options::new(word()), &mut run::silent)?;
        let calls = shell.calls.load(Ordering::Relaxed);
        s.unprovision()?;
        calls
    };
    let before = {
        let _ = before;
        s.snapshot()?
    };
    let shell = s.shell(Some((calls - 2, Fault::Dead)));
    let o = Options {
        overall: Duration::from_secs(120),
        confirm_within: Duration::from_secs(6),
        ..Options::new(word())
    };
    let e = s.provision(&shell, &o, &mut run::silent).unwrap_err();
    ensure!(matches!(&e, RunError::Shell { during, .. } if during == "reload"), "{e}");
    ensure!(s.node.sh("systemctl list-timers --all --no-legend")?.contains("muster-provision-revert.timer"));
    ensure!(
        s.node
            .sh("sshd -T -C user=muster,host=h,addr=1.2.3.4")?
            .contains("forcecommand /usr/bin/muster-shim")
    );
    wait_until("the node puts itself back", Duration::from_secs(120), || Ok(s.snapshot()? == before))?;
    ensure!(s.node.journal()?.contains("put back (timer)"));
    ensure!(s.admin.run("true", b"")?.ok());
    wait_until("the unit is gone", Duration::from_secs(60), || {
        Ok(s.node.sh("systemctl list-units --all --no-legend 'muster*'")?.is_empty())
    })
}

#[test]
fn a_node_that_was_switched_off_half_way_is_put_back_by_the_next_run() -> Result<()> {
    require_root_or_skip!();
    let s = Stage::set("provisionoff")?;
    let before = s.snapshot()?;
    let dead = s.shell(Some((12, Fault::Dead)));
    s.provision(&dead, &Options::new(word()), &mut run::silent).unwrap_err();
    s.node.power_off()?;
    s.node.power_on()?;
    s.node.wait_ssh()?;
    ensure!(s.node.sh("ls /var/lib/muster/provision/open/index")?.contains("index"));
    let mut events = Vec::new();
    s.provision(&s.shell(None), &Options::new(word()), &mut |e| events.push(e))?;
    ensure!(events.contains(&Event::Unfinished { resumed: false }), "{events:?}");
    s.unprovision()?;
    same_but_copies(&before, &s.snapshot()?, "unprovision");
    Ok(())
}

/// Attacks as far as the OpenSSH client can ask for them.
struct Client<'a>(&'a Stage);

impl Client<'_> {
    fn run(ssh: &Ssh, options: &[&str], command: Option<&str>, stdin: &[u8]) -> Observation {
        let ssh = ssh.clone().option(options);
        let out = match command {
            Some(c) => ssh.run(c, stdin),
            None => ssh.shell(stdin),
        };
        let Ok(out) = out else { return Observation::fault("ssh did not end") };
        let refused = [
            "PTY allocation request failed",
            "administratively prohibited",
            "forwarding failed",
            "subsystem request failed",
            "Permission denied",
        ];
        if let Some(words) = refused.into_iter().find(|w| out.stderr_text().contains(w)) {
            return Observation::refused(words);
        }
        Observation {
            answer: Answer::Accepted("session".into()),
            ran: Some(Ran { exit: out.code(), stdout: out.stdout, stderr: out.stderr }),
        }
    }
}

impl Attacker for Client<'_> {
    async fn attempt(&self, attack: Attack, canary: &Canary, socket: &str) -> Observation {
        let command = attack.command(canary);
        let stdin = attack.stdin(canary);
        let verbose = ["-o", "LogLevel=INFO"];
        let run = |more: &[&str], command: Option<&str>, stdin: &[u8]| {
            Self::run(&self.0.pool, &[&verbose[..], more].concat(), command, stdin)
        };
        match attack {
            Attack::Shell => run(&[], None, &stdin),
            Attack::Exec | Attack::Injection => run(&[], command.as_deref(), &stdin),
            Attack::Pty => run(&["-tt"], None, &stdin),
            Attack::Sftp => run(&["-s"], Some("sftp"), &stdin),
            Attack::Subsystem => run(&["-s"], Some("no-such-thing"), &stdin),
            Attack::LocalForward => run(&["-W", "127.0.0.1:22"], None, b""),
            Attack::RemoteForward => {
                run(&["-o", "ExitOnForwardFailure=yes", "-R", "127.0.0.1:0:127.0.0.1:1"], Some("true"), b"")
            }
            Attack::RemoteSocket => run(
                &["-o", "ExitOnForwardFailure=yes", "-R", &format!("{socket}:127.0.0.1:1")],
                Some("true"),
                b"",
            ),
            Attack::PlantedKeys => Self::run(&self.0.stranger, &verbose, Some("true"), b""),
            Attack::PlantedShell | Attack::PlantedRc | Attack::PlantedEnvironment => run(&[], None, b""),
            _ => Observation::fault("the OpenSSH client does not say what was answered"),
        }
    }

    fn stranger(&self) -> String {
        self.0.stranger_line.clone()
    }
}

#[test]
fn the_doctor_finds_a_provisioned_node_sound_and_its_login_standing() -> Result<()> {
    require_root_or_skip!();
    let s = Stage::set("doctor")?;
    // A host that logs everything that goes through sudo, which the drop-in must hold off (M10).
    s.node.put(
        "/etc/sudoers.d/00-log",
        b"Defaults log_input, log_output, use_pty, iolog_dir=/var/log/sudo-io\n",
        0o440,
    )?;
    s.provision(&s.shell(None), &Options::new(word()), &mut run::silent)?;
    let subject = Subject { account: AccountName::default(), address: s._bed.gate().into(), drop_in: None };
    let shell = s.shell(None);
    let evidence = block_on(doctor::gather(&shell, &subject))?;
    let now = UtcTime::from_unix(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let known = Known { now, shim_sha256: Some(s.spec.shim.sha256().to_owned()) };
    let report = doctor::judge(&subject, &evidence, &known);
    let bad: Vec<String> = report
        .checks
        .iter()
        // A node has no time service; the key is not limited to phases here.
        .filter(|c| c.verdict != Verdict::Pass && !["clock-sync", "key-policy"].contains(&c.id))
        .map(|c| format!("{}: {:?} {}", c.id, c.verdict, c.found))
        .collect();
    ensure!(bad.is_empty(), "{bad:#?}");

    let before = s.snapshot()?;
    let account = AccountName::default();
    let checks = block_on(siege(
        Some(&shell),
        &Client(&s),
        (&account, &evidence.login(&account)),
        &Canary::new(0xfeed_beef_1234),
        &word(),
        &mut |_| (),
    ));
    let untried = ["attack-env", "attack-local-socket", "attack-agent", "attack-x11", "attack-password"];
    for c in &checks {
        let wanted = if untried.contains(&c.id) { Verdict::Unknown } else { Verdict::Pass };
        ensure!(c.verdict == wanted, "{c:?}");
    }
    same(&before, &s.snapshot()?, "nothing stays planted");

    // And what the login is given on standard input is in no log of sudo's.
    let out = s.pool.shell(b"muster-envelope: 2\nphase: join\nparams-b64: Y2FuYXJ5LXNlY3JldA==\n")?;
    ensure!(!out.ok());
    let found = s
        .node
        .sh("find /var/log/sudo-io -type f -exec zcat -f {} + 2>/dev/null | grep -c Y2FuYXJ5 || true")?;
    ensure!(found.trim() == "0", "the shim's input was logged");
    Ok(())
}
