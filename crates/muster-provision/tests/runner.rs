//! Provisioning carried out on a throw-away machine with real sshd, sudo, useradd and visudo.
//! The same on nodes with systemd is in `muster-testbed`.
#![allow(clippy::disallowed_methods, reason = "tests spawn the real tools")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so"
)]

mod sandbox;

use muster_core::{HostName, ProfileName};
use muster_provision::run::{self, Aftermath, Event, Options, Outcome, RunError};
use muster_provision::spec::{DropIn, EnvelopeOne};
use muster_provision::{AccountName, ControllerKey, FromPattern, HostSpec, Limit, PublicKeyLine, ShimBinary};
use sandbox::{Fault, Logins, Sandbox, Shell, block_on, wait_for, word};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// `id` stands for the shim: an ELF program that tells who the login is.
fn spec(s: &Sandbox) -> HostSpec {
    let shim = ShimBinary::new(std::fs::read("/usr/bin/id").unwrap(), None).unwrap();
    let key = ControllerKey::new(PublicKeyLine::parse(&s.key("controller.pub")).unwrap())
        .with_from(vec![FromPattern::new("127.0.0.0/8").unwrap()])
        .unwrap();
    let signer = s.key("signer.pub");
    let allowed =
        format!("muster namespaces=\"muster-intent\" {}", signer.trim_end().rsplit_once(' ').unwrap().0);
    let mut spec =
        HostSpec::new(HostName::new("edge-1").unwrap(), shim, format!("{allowed}\n").into_bytes(), vec![key]);
    spec.profiles.insert(ProfileName::new("tls-bootstrap").unwrap(), 7);
    spec
}

const POOL: fn(&Sandbox) -> Logins<'_> = |s| Logins { sandbox: s, user: "muster", key: "controller" };

fn options() -> Options {
    Options {
        overall: Duration::from_secs(240),
        confirm_within: Duration::from_secs(120),
        ..Options::new(word())
    }
}

fn provision(shell: &Shell<'_>, spec: &HostSpec) -> Result<Outcome, RunError> {
    provision_meant(shell, spec, &[])
}

/// The same with leave to lose limits.
fn provision_meant(shell: &Shell<'_>, spec: &HostSpec, widen: &[Limit]) -> Result<Outcome, RunError> {
    let options = Options { widen: widen.iter().copied().collect(), ..options() };
    block_on(run::provision(shell, &POOL(shell.sandbox), spec, &options, &mut run::silent))
}

fn unprovision(shell: &Shell<'_>) -> Result<Vec<String>, RunError> {
    block_on(run::unprovision(shell, &POOL(shell.sandbox), &options(), &mut run::silent))
}

fn assert_same(before: &str, after: &str, case: &str) {
    if before == after {
        return;
    }
    let gone = before.lines().filter(|l| !after.contains(l)).take(20);
    let new = after.lines().filter(|l| !before.contains(l)).take(20);
    let diff: Vec<String> = gone.map(|l| format!("- {l}")).chain(new.map(|l| format!("+ {l}"))).collect();
    panic!("{case}: the host is not as it was\n{}", diff.join("\n"));
}

/// After unprovision everything is as before, but for the copies that the account tools keep of the
/// last state: in those there is no trace of us.
fn assert_gone(s: &Sandbox, before: &str, case: &str) {
    let copies = ["etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-"];
    let rest = |text: &str| -> String {
        text.lines()
            .filter(|l| !copies.iter().any(|c| l.ends_with(&format!("  {c}"))))
            .map(|l| format!("{l}\n"))
            .collect()
    };
    assert_same(&rest(before), &rest(&s.snapshot()), case);
    assert_eq!(
        s.sh("grep -c muster /etc/passwd- /etc/shadow- /etc/group- /etc/gshadow- | grep -v ':0$'").stdout,
        b"",
        "{case}"
    );
}

#[test]
fn a_fresh_host_is_provisioned_once_and_the_second_run_changes_nothing() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let before = s.snapshot();
    let spec = spec(&s);
    let shell = Shell::over_ssh(&s);
    let mut events = Vec::new();
    let first = block_on(run::provision(&shell, &POOL(&s), &spec, &options(), &mut |e| events.push(e)));
    let Ok(Outcome::Changed { steps, proof }) = first else { panic!("{first:?}") };
    assert!(steps.len() > 12 && proof.contains("(muster)"), "{steps:?} {proof}");
    assert!(events.contains(&Event::Reloading) && events.contains(&Event::Proving));
    assert_eq!(
        s.sh("ls /var/lib/muster/provision/open").status.code(),
        Some(2),
        "the transaction is still open"
    );
    assert_eq!(s.ok("ps -eo args | grep -c '[m]uster-revert' || true"), "0\n", "the timer still runs");

    let strict = s.snapshot_strict();
    let second = provision(&shell, &spec).unwrap();
    assert!(matches!(second, Outcome::Unchanged { .. }), "{second:?}");
    assert_same(&strict, &s.snapshot_strict(), "second run");

    unprovision(&shell).unwrap();
    assert_gone(&s, &before, "unprovision");
    assert!(!POOL(&s).sandbox.ssh("muster", "controller", "x", b"").status.success());
}

#[test]
fn s12_the_login_can_write_nothing_that_sshd_reads() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    provision(&Shell::direct(&s), &spec(&s)).unwrap();
    assert_eq!(s.ok("getent passwd muster | cut -d: -f6,7"), "/var/lib/muster/home:/bin/sh\n");
    assert_eq!(s.ok("getent shadow muster | cut -d: -f2"), "*\n");
    assert_eq!(s.ok("stat -c '%U %a' /var/lib/muster/home /etc/muster /etc/muster/authorized_keys.d /etc/muster/authorized_keys.d/muster"), "root 755\nroot 755\nroot 755\nroot 644\n");
    assert_eq!(s.ok("find /var/lib/muster/home | wc -l"), "1\n");
    let writable = s.ok("setpriv --reuid muster --regid muster --clear-groups find /etc/muster /var/lib/muster /etc/ssh /usr/bin/muster-shim -writable 2>/dev/null || true");
    assert_eq!(writable, "");
    let said = s.ok("/usr/sbin/sshd -T -C user=muster,host=h,addr=10.0.0.9");
    for want in [
        "authorizedkeysfile /etc/muster/authorized_keys.d/%u",
        "permituserrc no",
        "disableforwarding yes",
        "exposeauthinfo yes",
        "permittty no",
        "forcecommand /usr/bin/muster-shim",
        "authenticationmethods publickey",
    ] {
        assert!(said.lines().any(|l| l == want), "{want}\n{said}");
    }
    // The admin's own login is as it was.
    assert!(s.ok("/usr/sbin/sshd -T -C user=admin,host=h,addr=10.0.0.9").contains("forcecommand none"));
}

#[test]
fn m11_the_keepalive_of_decision_0002_is_written() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    provision(&Shell::direct(&s), &spec(&s)).unwrap();
    let said = s.ok("/usr/sbin/sshd -T -C user=muster,host=h,addr=10.0.0.9");
    assert!(said.contains("clientaliveinterval 3\n") && said.contains("clientalivecountmax 3\n"), "{said}");
}

#[test]
fn m8_sudoers_refuses_arguments() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    provision(&Shell::direct(&s), &spec(&s)).unwrap();
    let as_pool =
        |cmd: &str| s.sh(&format!("setpriv --reuid muster --regid muster --clear-groups sudo -n -- {cmd}"));
    let plain = as_pool("/usr/bin/muster-shim");
    assert!(String::from_utf8_lossy(&plain.stdout).starts_with("uid=0(root)"), "{plain:?}");
    for refused in [
        "/usr/bin/muster-shim -u",
        "/usr/bin/muster-shim ''",
        "/usr/bin/id",
        "-s",
        "-u admin /usr/bin/muster-shim",
        "/bin/sh",
    ] {
        let out = as_pool(refused);
        assert!(!out.status.success() && out.stdout.is_empty(), "{refused}: {out:?}");
    }
}

#[test]
fn m10_input_of_the_shim_is_not_logged_and_who_came_is_kept() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    s.ok("printf 'Defaults log_input, log_output, use_pty, requiretty, iolog_dir=/var/log/sudo-io\\n' >/etc/sudoers.d/00-all; chmod 440 /etc/sudoers.d/00-all; sed -i 's/^admin/Defaults:admin !requiretty\\nadmin/' /etc/sudoers.d/admin");
    let mut spec = spec(&s);
    // Shows standard input and environment as the root side gets them.
    spec.shim = ShimBinary::new(std::fs::read("/usr/bin/env").unwrap(), None).unwrap();
    struct Any;
    impl muster_provision::Prover for Any {
        async fn pool_login(&self) -> Result<String, muster_provision::ProofFailure> {
            Ok(String::new())
        }
        async fn admin_login(&self) -> Result<String, muster_provision::ProofFailure> {
            Ok(String::new())
        }
    }
    block_on(run::provision(&Shell::direct(&s), &Any, &spec, &options(), &mut run::silent)).unwrap();
    let got = s.ok("printf canary-on-stdin | setpriv --reuid muster --regid muster --clear-groups env -i SSH_USER_AUTH=/tmp/sshauth.x SSH_CONNECTION='1 2 3 4' LD_PRELOAD=x BASH_ENV=x /usr/bin/sudo -n -- /usr/bin/muster-shim");
    assert!(
        got.contains("SSH_USER_AUTH=/tmp/sshauth.x\n") && got.contains("SSH_CONNECTION=1 2 3 4\n"),
        "{got}"
    );
    assert!(!got.contains("LD_PRELOAD") && !got.contains("BASH_ENV"), "{got}");
    assert_eq!(
        s.sh("find /var/log/sudo-io -type f -exec zcat -f {} + 2>/dev/null | grep -c canary").stdout,
        b"0\n"
    );
    // The log does work on this host: another command is in it.
    s.ok("printf canary-of-admin | setpriv --reuid admin --regid admin --init-groups sudo -n -- /bin/cat");
    s.ok("find /var/log/sudo-io -type f -exec zcat -f {} + | grep -q canary-of-admin");
}

/// Every call of a run, failing in every way: whatever was touched is as it was.
fn inject(fault: Fault, at: impl IntoIterator<Item = u64>) {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    s.ok("install -D -m 4711 -o admin -g games /bin/true /usr/bin/muster-shim; install -D -o admin -m 600 /etc/hostname /etc/muster/shim.toml; mkdir -m 701 /var/lib/muster");
    let before = s.snapshot();
    let spec = spec(&s);
    let mut ended = false;
    for n in at {
        let shell = Shell { fault: Some((n, fault)), ..Shell::direct(&s) };
        // What lies in the place of the policy is no policy.
        match provision_meant(&shell, &spec, &[Limit::Unreadable]) {
            Ok(Outcome::Changed { .. }) => {
                // Either the run was over before call n, or call n was the commit: it was done, only its
                // answer was wrong or lost.
                let over = shell.calls.load(Ordering::Relaxed) <= n;
                assert!(over || fault != Fault::LostBefore, "call {n} failed and the run did not");
                unprovision(&Shell::direct(&s)).unwrap();
                ended = true;
            }
            Ok(other) => panic!("{n}: {other:?}"),
            Err(
                RunError::Shell { aftermath, .. }
                | RunError::Failed { aftermath, .. }
                | RunError::NotProven { aftermath, .. },
            ) => {
                assert!(
                    matches!(aftermath, Aftermath::PutBack | Aftermath::Untouched),
                    "call {n}: {aftermath}"
                );
            }
            Err(e) => panic!("call {n}: {e}"),
        }
        let case = format!("{fault:?} at call {n}");
        if ended {
            assert_gone(&s, &before, &case);
            break;
        }
        assert_same(&before, &s.snapshot(), &case);
    }
    assert!(ended, "the run was never let through, so its end was not tested");
}

#[test]
fn connection_lost_before_any_call_leaves_the_host_as_it_was() {
    // For the host a loss before call n is a loss after call n - 1, which the next test does for each.
    inject(Fault::LostBefore, [0, 1, 2, 13, 60]);
}

#[test]
fn connection_lost_after_any_call_leaves_the_host_as_it_was() {
    inject(Fault::LostAfter, 0..60);
}

#[test]
fn a_failure_in_any_call_leaves_the_host_as_it_was() {
    inject(Fault::Fails, 0..60);
}

#[test]
fn a_host_that_is_left_alone_puts_itself_back() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let spec = spec(&s);
    let calls = {
        let shell = Shell::direct(&s);
        provision(&shell, &spec).unwrap();
        unprovision(&shell).unwrap();
        shell.calls.load(Ordering::Relaxed)
    };
    assert!(calls > 20);
    // In the middle, and with the reload, after which the next call would be the commit.
    let before = s.snapshot();
    for at in [9, 20] {
        let shell = Shell { fault: Some((at, Fault::Dead)), ..Shell::direct(&s) };
        let o = Options {
            // Longer than a busy machine takes to get to the fault: the host must not begin to put back before it.
            overall: Duration::from_secs(20),
            confirm_within: Duration::from_secs(20),
            ..Options::new(word())
        };
        let e = block_on(run::provision(&shell, &POOL(&s), &spec, &o, &mut run::silent)).unwrap_err();
        let RunError::Shell { aftermath, .. } = &e else { panic!("{at}: {e}") };
        assert!(matches!(aftermath, Aftermath::ByTimer(_)), "{at}: {e}");
        wait_for("the host puts itself back", Duration::from_secs(120), || s.snapshot() == before);
        assert!(POOL(&s).sandbox.ssh("admin", "admin", "true", b"").status.success());
    }
}

#[test]
fn a_killed_run_is_gone_on_with_or_put_back_by_the_next() {
    muster_needs::require!(sandbox::available());
    for resume in [true, false] {
        let s = Sandbox::start();
        let before = s.snapshot();
        let spec = spec(&s);
        let dead = Shell { fault: Some((11, Fault::Dead)), ..Shell::direct(&s) };
        provision(&dead, &spec).unwrap_err();
        assert_eq!(s.sh("test -e /var/lib/muster/provision/open").status.code(), Some(0));
        let shell = Shell::direct(&s);
        let mut events = Vec::new();
        let o = Options { resume, ..options() };
        let done = block_on(run::provision(&shell, &POOL(&s), &spec, &o, &mut |e| events.push(e))).unwrap();
        assert!(events.contains(&Event::Unfinished { resumed: resume }), "{events:?}");
        let Outcome::Changed { steps, .. } = done else { panic!("{done:?}") };
        assert_eq!(steps.iter().any(|i| i.as_str() == "home"), !resume, "{steps:?}");
        unprovision(&shell).unwrap();
        assert_gone(&s, &before, "unprovision after a killed run");
    }
}

#[test]
fn a_login_that_is_not_proven_is_not_kept() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let before = s.snapshot();
    // The key may only come from elsewhere, so the pool login fails; then a prover without admin login.
    let mut spec = spec(&s);
    let elsewhere = vec![FromPattern::new("192.0.2.0/24").unwrap()];
    spec.controllers = vec![spec.controllers[0].clone().with_from(elsewhere).unwrap()];
    let e = provision(&Shell::direct(&s), &spec).unwrap_err();
    assert!(
        matches!(&e, RunError::NotProven { source, aftermath: Aftermath::PutBack } if source.what == "pool login"),
        "{e}"
    );
    assert_same(&before, &s.snapshot(), "pool login not proven");
    assert!(s.ok("/usr/sbin/sshd -T -C user=muster,host=h,addr=127.0.0.1").contains("forcecommand none"));
}

#[test]
fn what_was_there_comes_back_with_owner_mode_and_kind() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    s.ok("mkdir -p /etc/kpssh /opt/kpssh; printf '#!/bin/sh\\n# the bash shim\\n' >/opt/kpssh/kpssh-shim; chmod 755 /opt/kpssh/kpssh-shim; chown admin /opt/kpssh; \
          useradd -m kpssh; echo 'kpssh ALL=(root) NOPASSWD: /opt/kpssh/kpssh-shim' >/etc/sudoers.d/kpssh; ln -s /etc/hostname /etc/sudoers.d/muster-shim; ln -s /nowhere /usr/bin/muster-shim");
    s.ok(&format!("printf 'kpssh namespaces=\"kpssh\" %s\\n' \"$(cut -d' ' -f1-2 {}/out/signer.pub)\" >/etc/kpssh/allowed_signers", s.dir.path().display()));
    let before = s.snapshot();
    let mut spec = spec(&s);
    spec.drop_in = Some(DropIn::default());
    spec.envelope_one = EnvelopeOne::Taken(Default::default());
    let shell = Shell::direct(&s);
    provision(&shell, &spec).unwrap();
    assert_eq!(
        s.ok("cmp /opt/kpssh/kpssh-shim /usr/bin/muster-shim && readlink /usr/bin/muster-shim || echo file"),
        "file\n"
    );
    let said = s.ok("/usr/sbin/sshd -T -C user=kpssh,host=h,addr=10.0.0.9");
    assert!(
        said.contains("clientaliveinterval 3\n") && said.contains("authorizedkeysfile .ssh/authorized_keys"),
        "{said}"
    );

    // Without the drop-in again: the bash shim is back at once.
    spec.drop_in = None;
    assert!(matches!(provision(&shell, &spec).unwrap_err(), RunError::Widens(_)));
    let back = provision_meant(&shell, &spec, &[Limit::DropIn]).unwrap();
    let Outcome::Changed { .. } = back else { panic!() };
    assert_eq!(s.ok("tail -n 1 /opt/kpssh/kpssh-shim"), "# the bash shim\n");
    assert!(matches!(provision(&shell, &spec).unwrap(), Outcome::Unchanged { .. }));

    unprovision(&shell).unwrap();
    assert_gone(&s, &before, "unprovision");
}

#[test]
fn an_existing_trust_file_with_a_bad_line_stops_the_swap() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    s.ok("mkdir /etc/kpssh; printf '# fleet\\nkpssh bogus-option ssh-ed25519 AAAA\\n' >/etc/kpssh/allowed_signers");
    let before = s.snapshot();
    let mut spec = spec(&s);
    spec.drop_in = Some(DropIn::default());
    spec.envelope_one = EnvelopeOne::Taken(Default::default());
    let e = provision(&Shell::direct(&s), &spec).unwrap_err();
    assert!(matches!(e, RunError::Obstacles(_)));
    let text = e.to_string();
    assert!(text.contains("/etc/kpssh/allowed_signers line 2"), "{text}");
    assert!(text.contains("account kpssh: the fleet's login is not on this host"), "{text}");
    assert_same(&before, &s.snapshot(), "stopped");
}

#[test]
fn an_sshd_that_does_not_read_the_folder_is_made_to() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    // A host-wide list shuts everybody else out; the login is let in for itself alone.
    s.ok("sed -i '/^Include/d' /etc/ssh/sshd_config; printf 'AllowUsers admin\\nMatch User nobody\\n    PermitTTY no\\n' >>/etc/ssh/sshd_config");
    s.reload_sshd();
    let before = s.snapshot();
    let shell = Shell::direct(&s);
    provision(&shell, &spec(&s)).unwrap();
    assert_eq!(s.ok("head -n 1 /etc/ssh/sshd_config"), "Include /etc/ssh/sshd_config.d/00-muster.conf\n");
    assert!(matches!(provision(&shell, &spec(&s)).unwrap(), Outcome::Unchanged { .. }));
    unprovision(&shell).unwrap();
    assert_gone(&s, &before, "unprovision");
}

#[test]
fn an_account_that_is_not_ours_is_not_taken() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    s.ok("useradd -m muster");
    let before = s.snapshot();
    let mut spec = spec(&s);
    let e = provision(&Shell::direct(&s), &spec).unwrap_err().to_string();
    assert!(
        e.contains("account muster") && e.contains("choose another login for the host in the inventory"),
        "{e}"
    );
    spec.account = AccountName::new("admin").unwrap();
    let e = provision(&Shell::over_ssh(&s), &spec).unwrap_err().to_string();
    assert!(e.contains("the admin login itself"), "{e}");
    assert_same(&before, &s.snapshot(), "refused");
}

#[test]
fn unprovision_waits_for_no_run_and_ends_no_run() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let shell = Shell::direct(&s);
    provision(&shell, &spec(&s)).unwrap();
    s.begin_run();
    let strict = s.snapshot_strict();
    let e = unprovision(&shell).unwrap_err().to_string();
    assert!(e.contains("a run is in progress"), "{e}");
    assert_same(&strict, &s.snapshot_strict(), "refused");
    s.end_run();
    unprovision(&shell).unwrap();
    assert_eq!(s.sh("ls -d /run/muster /var/lib/muster /etc/muster 2>/dev/null").stdout, b"");
}

#[test]
fn drift_is_mended_and_the_floors_stay() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let shell = Shell::direct(&s);
    let before = s.snapshot();
    provision(&shell, &spec(&s)).unwrap();
    s.ok("sed -i 's/ 7$/ 9/' /var/lib/muster/shim/floors; chmod 666 /etc/muster/shim.toml; usermod -s /bin/bash -aG games muster; echo >>/etc/sudoers.d/muster-shim");
    let Outcome::Changed { steps, .. } = provision(&shell, &spec(&s)).unwrap() else { panic!() };
    let ids: Vec<&str> = steps.iter().map(|i| i.as_str()).collect();
    assert_eq!(ids, ["account", "shim-toml", "sudoers"]);
    assert_eq!(
        s.ok("tail -n 1 /var/lib/muster/shim/floors; stat -c %a /etc/muster/shim.toml; id -Gn muster"),
        "floor: tls-bootstrap 9\n644\nmuster\n"
    );
    // Gone with its folder still there: nobody starts from an empty floor in silence.
    s.ok("rm /var/lib/muster/shim/floors");
    let e = provision(&shell, &spec(&s)).unwrap_err().to_string();
    assert!(e.contains("/var/lib/muster/shim/floors") && e.contains("floor set"), "{e}");
    unprovision(&shell).unwrap();
    assert_gone(&s, &before, "unprovision");
}

/// Two processes: a commit that takes its time, and the timer's revert that waits for the lock.
#[test]
fn a_timer_that_fires_during_a_commit_does_not_undo_it() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let script = s.dir.path().join("out/race.sh");
    let body = r#"
echo 'exit 0' | (m_begin t1 digest 3600) || exit 9
(m_need_open t1 && echo new | m_file /etc/muster-race 0644) || exit 8
rm -f /run/go
{ until [ -e /run/go ]; do sleep 0.05; done; sleep 1; echo "transaction: t1"; } | (m_commit t1) &
m_commits=$!
until ! flock -n /run/muster-provision.lock true; do sleep 0.05; done
: >/run/go
(m_revert timer t1)
echo "revert $?"
wait "$m_commits"
echo "commit $?"
(m_kept t1)
echo "kept $?"
cat /etc/muster-race
"#;
    s.write(&script, muster_provision::sh::with_lib(body).as_bytes());
    let said = s.ok(&format!("sh {}", script.display()));
    assert_eq!(said, "revert 0\ncommit 0\nkept 0\nnew\n");
}

/// The one who waited for a lock whose file is gone has locked nothing that others see.
#[test]
fn a_lock_that_was_taken_away_is_locked_anew() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let script = s.dir.path().join("out/lock.sh");
    let body = r#"
(m_lock; sleep 2; rm -f /run/muster-provision.lock) &
sleep 0.5
(m_lock 30 && : >/run/second && sleep 4; rm -f /run/muster-provision.lock) &
while [ ! -e /run/second ]; do sleep 0.1; done
(m_lock 1) 2>&1
echo "third $?"
wait
(m_lock 1)
echo "fourth $?"
"#;
    s.write(&script, muster_provision::sh::with_lib(body).as_bytes());
    let said = s.ok(&format!("sh {}", script.display()));
    assert_eq!(said, "muster-provision: another provisioning holds this host\nthird 40\nfourth 0\n");
}

#[test]
fn unprovision_of_what_is_not_provisioned_changes_nothing_and_is_no_error() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let shell = Shell::direct(&s);
    let bare = s.snapshot_strict();
    assert_eq!(unprovision(&shell).unwrap(), Vec::<String>::new());
    assert_same(&bare, &s.snapshot_strict(), "never provisioned");
    provision(&shell, &spec(&s)).unwrap();
    assert_ne!(block_on(run::unprovision_preview(&shell)).unwrap(), []);
    // Its record is lost: that is not the same as nothing to undo.
    s.ok("mv /var/lib/muster/provision /root/kept");
    let held = s.snapshot_strict();
    for e in [
        unprovision(&shell).unwrap_err().to_string(),
        block_on(run::unprovision_preview(&shell)).unwrap_err().to_string(),
    ] {
        assert!(e.contains("nothing is recorded") && e.contains("/etc/sudoers.d/muster-shim"), "{e}");
    }
    assert_same(&held, &s.snapshot_strict(), "refused");
    s.ok("mv /root/kept /var/lib/muster/provision");
    assert_ne!(unprovision(&shell).unwrap(), Vec::<String>::new());
    let gone = s.snapshot_strict();
    assert_eq!(unprovision(&shell).unwrap(), Vec::<String>::new());
    assert_eq!(block_on(run::unprovision_preview(&shell)).unwrap(), []);
    assert_same(&gone, &s.snapshot_strict(), "the second time");
}

/// A limit that an earlier call set is not lost by a later one that says nothing of it.
#[test]
fn a_limit_of_the_host_is_kept_unless_its_loss_is_meant() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let shell = Shell::direct(&s);
    let mut narrow = spec(&s);
    narrow.max_deadline = 600;
    let mut wide = narrow.clone();
    wide.max_deadline = 7200;
    wide.controllers = vec![ControllerKey::new(PublicKeyLine::parse(&s.key("controller.pub")).unwrap())];
    provision(&shell, &narrow).unwrap();
    let before = s.snapshot_strict();
    let preview = block_on(run::preview(&shell, &wide, &options())).unwrap();
    assert_eq!(
        preview.changes.iter().filter_map(|c| c.widens).collect::<Vec<_>>(),
        [Limit::From, Limit::MaxDeadline]
    );
    let mut some = options();
    some.widen.insert(Limit::From);
    for (options, words) in
        [(options(), "from 127.0.0.0/8 -> any address"), (some, "max-deadline: 600 -> 7200")]
    {
        let e = block_on(run::provision(&shell, &POOL(&s), &wide, &options, &mut run::silent)).unwrap_err();
        assert!(matches!(e, RunError::Widens(_)) && e.to_string().contains(words), "{e}");
        assert_same(&before, &s.snapshot_strict(), "refused");
    }
    // One that was killed half-way with leave to widen is no leave for the next.
    let mut meant = options();
    meant.overall = Duration::from_secs(300);
    meant.widen.extend([Limit::From, Limit::MaxDeadline]);
    let dying = Shell { fault: Some((6, Fault::Dead)), ..Shell::direct(&s) };
    assert!(block_on(run::provision(&dying, &POOL(&s), &wide, &meant, &mut run::silent)).is_err());
    assert!(s.ok("cat /etc/muster/shim.toml").contains("max-deadline = 7200"), "it was killed too early");
    let e = provision(&shell, &wide).unwrap_err();
    assert!(matches!(e, RunError::Widens(_)), "{e}");
    assert!(s.ok("cat /etc/muster/shim.toml").contains("max-deadline = 600"), "what was begun is put back");
    block_on(run::provision(&shell, &POOL(&s), &wide, &meant, &mut run::silent)).unwrap();
    assert!(!s.ok("cat /etc/muster/authorized_keys.d/muster").contains("from="));
    // Back again is narrower: nothing needs to be meant.
    provision(&shell, &narrow).unwrap();
}
