//! The doctor against a real host: sound, then broken in every way that a check is for.
#![allow(clippy::disallowed_methods, reason = "tests spawn the real tools and read the clock")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so"
)]

mod sandbox;

use muster_core::{HostName, Phase, ProfileName, UtcTime};
use muster_provision::doctor::attack::{Answer, Attack, Attacker, Canary, Observation, Ran};
use muster_provision::doctor::siege::siege;
use muster_provision::doctor::{self, Known, Report, Subject, Verdict};
use muster_provision::run::{self, Options};
use muster_provision::{AccountName, ControllerKey, FromPattern, HostSpec, PublicKeyLine, ShimBinary};
use sandbox::{Logins, Sandbox, Shell, block_on, word};
use std::collections::BTreeMap;

fn spec(s: &Sandbox) -> HostSpec {
    let shim = ShimBinary::new(std::fs::read("/usr/bin/id").unwrap(), None).unwrap();
    let key = ControllerKey::new(PublicKeyLine::parse(&s.key("controller.pub")).unwrap())
        .with_from(vec![FromPattern::new("127.0.0.0/8").unwrap()])
        .unwrap()
        .with_phases([Phase::Join]);
    let signer = s.key("signer.pub");
    let allowed = format!("muster namespaces=\"muster-intent\" {signer}");
    let mut spec = HostSpec::new(HostName::new("edge-1").unwrap(), shim, allowed.into_bytes(), vec![key]);
    spec.profiles.insert(ProfileName::new("tls-bootstrap").unwrap(), 7);
    spec
}

fn subject() -> Subject {
    Subject { account: AccountName::default(), address: "10.0.0.9".parse().unwrap(), drop_in: None }
}

fn examine(s: &Sandbox, known: &Known) -> Report {
    let evidence = block_on(doctor::gather(&Shell::direct(s), &subject())).unwrap();
    doctor::judge(&subject(), &evidence, known)
}

fn known(spec: &HostSpec) -> Known {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    Known { now: UtcTime::from_unix(now), shim_sha256: Some(spec.shim.sha256().to_owned()) }
}

fn provisioned() -> (Sandbox, HostSpec) {
    let s = Sandbox::start();
    let spec = spec(&s);
    let logins = Logins { sandbox: &s, user: "muster", key: "controller" };
    block_on(run::provision(&Shell::direct(&s), &logins, &spec, &Options::new(word()), &mut run::silent))
        .unwrap();
    (s, spec)
}

fn shown(report: &Report, but: Verdict) -> Vec<String> {
    report
        .checks
        .iter()
        .filter(|c| c.verdict > but)
        .map(|c| format!("{}: {:?} {}", c.id, c.verdict, c.found))
        .collect()
}

/// No time service runs in the sandbox, and `id` answers in the place of the shim.
fn expected(line: &str) -> bool {
    line.starts_with("clock-sync") || (line.starts_with("probe") && line.contains("(muster)"))
}

#[test]
fn a_provisioned_host_passes_every_check_and_says_what_it_found() {
    muster_needs::require!(sandbox::available());
    let (s, spec) = provisioned();
    let before = s.snapshot_strict();
    let report = examine(&s, &known(&spec));
    assert_eq!(before, s.snapshot_strict(), "the doctor only reads");
    let rest: Vec<String> = shown(&report, Verdict::Pass).into_iter().filter(|l| !expected(l)).collect();
    assert!(rest.is_empty(), "{rest:#?}");
    assert!(report.checks.iter().all(|c| !c.found.is_empty() && !c.why.is_empty()));
    let ids: Vec<&str> = report.checks.iter().map(|c| c.id).collect();
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("doctor-ids", ids.join("\n"));
    });
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["checks"][0]["id"], "sshd-valid");
    assert_eq!(json["checks"][0]["verdict"], "pass");
}

/// A list may be as long as the shim reads, on the way to the host and back.
#[test]
fn s9_a_revocation_list_over_a_mebibyte_is_provisioned_and_examined() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let mut spec = spec(&s);
    let lines = |n: u32| (0..n).map(|n| format!("SHA256:{n:042}A\n")).collect::<String>().into_bytes();
    spec.revoked_signers = lines(42_000);
    assert!(spec.revoked_signers.len() > 2 << 20);
    let logins = Logins { sandbox: &s, user: "muster", key: "controller" };
    let go = || {
        block_on(run::provision(&Shell::direct(&s), &logins, &spec, &Options::new(word()), &mut run::silent))
    };
    go().unwrap();
    assert!(matches!(go().unwrap(), run::Outcome::Unchanged { .. }));
    let evidence = block_on(doctor::gather(&Shell::direct(&s), &subject())).unwrap();
    let body = &evidence.bodies["/etc/muster/revoked_signers"];
    assert!(*body == spec.revoked_signers, "{} bytes came back", body.len());
    let report = doctor::judge(&subject(), &evidence, &known(&spec));
    assert_eq!(report.checks.iter().find(|c| c.id == "revocation").unwrap().verdict, Verdict::Pass);
    // The bound is the shim's own.
    assert_eq!(muster_shim::paths::REVOKED_MAX, 16 << 20);
    spec.revoked_signers = lines((16 << 20) / 50 + 1);
    let faults = spec.check().unwrap_err();
    assert!(faults.iter().any(|f| f.part == "revoked_signers" && f.why.contains("16 MiB")), "{faults:?}");
}

/// What is done to the host, and which check must notice.
const SABOTAGE: &[(&str, &str)] = &[
    ("sshd-valid", "echo Bogus >>/etc/ssh/sshd_config"),
    ("sshd-pin", "sed -i /ForceCommand/d /etc/ssh/sshd_config.d/00-muster.conf"),
    ("sshd-pin", "sed -i 's,/muster-shim,/muster-Shim,' /etc/ssh/sshd_config.d/00-muster.conf"),
    (
        "sshd-keys-file",
        "sed -i 's,/authorized_keys.d/,/Authorized_keys.d/,' /etc/ssh/sshd_config.d/00-muster.conf",
    ),
    ("sshd-keys-file", "sed -i /AuthorizedKeysFile/d /etc/ssh/sshd_config.d/00-muster.conf"),
    ("old-keys", "sed -i /AuthorizedKeysFile/d /etc/ssh/sshd_config.d/00-muster.conf"),
    ("sshd-auth", "sed -i /AuthenticationMethods/d /etc/ssh/sshd_config.d/00-muster.conf"),
    (
        "sshd-auth",
        "sed -i 's/TrustedUserCAKeys none/TrustedUserCAKeys \\/etc\\/hostname/' /etc/ssh/sshd_config.d/00-muster.conf",
    ),
    ("sshd-tty", "sed -i /PermitTTY/d /etc/ssh/sshd_config.d/00-muster.conf"),
    ("sshd-rc", "sed -i /PermitUserRC/d /etc/ssh/sshd_config.d/00-muster.conf"),
    (
        "sshd-forwarding",
        "sed -i '/DisableForwarding/d; /AllowStreamLocal/d' /etc/ssh/sshd_config.d/00-muster.conf",
    ),
    (
        "sshd-forwarding",
        "sed -i 's/PermitTunnel no/PermitTunnel point-to-point/' /etc/ssh/sshd_config.d/00-muster.conf",
    ),
    (
        "sshd-forwarding",
        "sed -i 's/X11Forwarding no/X11Forwarding yes/' /etc/ssh/sshd_config.d/00-muster.conf",
    ),
    ("sshd-auth-info", "sed -i /ExposeAuthInfo/d /etc/ssh/sshd_config.d/00-muster.conf"),
    ("sshd-keepalive", "sed -i /ClientAliveInterval/d /etc/ssh/sshd_config.d/00-muster.conf"),
    (
        "sshd-keepalive",
        "sed -i 's/ClientAliveCountMax 3/ClientAliveCountMax 0/' /etc/ssh/sshd_config.d/00-muster.conf",
    ),
    ("sshd-environment", "echo 'AcceptEnv LANG BASH_*' >/etc/ssh/sshd_config.d/50-env.conf"),
    ("sshd-environment", "sed -i '1i PermitUserEnvironment yes' /etc/ssh/sshd_config"),
    ("sshd-allowed", "sed -i '1i DenyUsers muster' /etc/ssh/sshd_config"),
    (
        "sshd-pin",
        "printf 'Match Address 10.0.0.0/8\\n    ForceCommand /bin/sh\\n' >/etc/ssh/sshd_config.d/00-early.conf",
    ),
    ("account", "usermod -s /bin/bash muster"),
    ("account", "usermod -p '$6$x$y' muster"),
    ("account", "usermod -aG games muster"),
    ("home", "chown muster /var/lib/muster/home"),
    ("home", "touch /var/lib/muster/home/.bashrc"),
    ("login-keys", "echo '# none' >/etc/muster/authorized_keys.d/muster"),
    ("sudo-exact", "sed -i 's/ \"\"$//' /etc/sudoers.d/muster-shim"),
    ("sudo-exact", "rm /etc/sudoers.d/muster-shim"),
    ("sudo-only", "echo 'muster ALL=(root) NOPASSWD: /usr/bin/less' >/etc/sudoers.d/zz"),
    ("sudo-iolog", "sed -i '/log_input/d; 1i Defaults log_input' /etc/sudoers.d/muster-shim"),
    ("sudo-iolog", "sed -i 's/NOPASSWD:/NOPASSWD: LOG_INPUT:/' /etc/sudoers.d/muster-shim"),
    ("sudo-tty", "sed -i '/requiretty/d; 1i Defaults requiretty' /etc/sudoers.d/muster-shim"),
    ("sudo-env", "sed -i /env_keep/d /etc/sudoers.d/muster-shim"),
    ("sudo-env", "echo 'Defaults:muster !env_reset' >/etc/sudoers.d/zz"),
    ("sudo-env", "sed -i 's/NOPASSWD:/NOPASSWD: SETENV:/' /etc/sudoers.d/muster-shim"),
    ("shim-file", "chmod 775 /usr/bin/muster-shim"),
    ("shim-file", "chmod 777 /usr/bin"),
    ("shim-file", "mv /usr/bin/muster-shim /usr/bin/x; ln -s x /usr/bin/muster-shim"),
    ("shim-digest", "cp /usr/bin/true /usr/bin/muster-shim"),
    ("trust-files", "chown admin /etc/muster/allowed_signers"),
    ("trust-files", "chmod 777 /etc/muster"),
    ("pin-files", "chown muster /etc/muster/authorized_keys.d/muster"),
    ("state-dir", "chmod 750 /var/lib/muster/shim"),
    ("policy", "echo 'host = ' >/etc/muster/shim.toml"),
    ("policy", "sed -i '/profiles/d; /min-epoch/d' /etc/muster/shim.toml"),
    ("envelope-1", "sed -i 's/envelope-1 = false/envelope-1 = true/' /etc/muster/shim.toml"),
    ("signers", "echo 'muster bogus ssh-ed25519 AAAA' >>/etc/muster/allowed_signers"),
    ("signers", "sed -i 's/signers-needed = 1/signers-needed = 2/' /etc/muster/shim.toml"),
    ("revocation", "rm /etc/muster/revoked_signers"),
    ("revocation", "echo nonsense >/etc/muster/revoked_signers"),
    ("floors", "rm /var/lib/muster/shim/floors"),
    ("floors", "echo >>/var/lib/muster/shim/floors"),
    ("provision-open", "mkdir /var/lib/muster/provision/open; echo x >/var/lib/muster/provision/open/id"),
];

#[test]
fn every_kind_of_damage_is_noticed_by_its_check() {
    muster_needs::require!(sandbox::available());
    let (s, spec) = provisioned();
    let known = known(&spec);
    s.ok("mkdir -p /root/keep; cp -a /etc /root/keep/; cp -a /var/lib/muster /root/keep/; cp -a /usr/bin/muster-shim /root/keep/");
    let put_back = "chmod 755 /usr/bin; rm -rf /var/lib/muster; cp -a /root/keep/muster /var/lib/; rm -f /usr/bin/muster-shim /usr/bin/x; cp -a /root/keep/muster-shim /usr/bin/; \
                    find /etc -mindepth 1 -delete; cp -a /root/keep/etc/. /etc/";
    let mut missed = Vec::new();
    for (id, damage) in SABOTAGE {
        s.ok(damage);
        let report = examine(&s, &known);
        let of = report.checks.iter().find(|c| c.id == *id).unwrap_or_else(|| panic!("no check {id}"));
        if of.verdict != Verdict::Fail {
            missed.push(format!("{id}: `{damage}` gives {:?}: {}", of.verdict, of.found));
        } else {
            assert!(!of.fix.is_empty(), "{id} has no fix");
        }
        s.ok(put_back);
    }
    assert!(missed.is_empty(), "{missed:#?}");
    let known = self::known(&spec);
    let rest: Vec<String> =
        shown(&examine(&s, &known), Verdict::Pass).into_iter().filter(|l| !expected(l)).collect();
    assert!(rest.is_empty(), "put back: {rest:#?}");
    // The caller's own clock.
    let later = Known { now: known.now.plus(3600), ..known };
    assert!(shown(&examine(&s, &later), Verdict::Unknown).iter().any(|l| l.starts_with("clock: Fail")));
}

#[test]
fn m6_envelope_one_fails_verified_trust_in_its_words() {
    muster_needs::require!(sandbox::available());
    let (s, spec) = provisioned();
    s.ok("sed -i 's/envelope-1 = false/envelope-1 = true/' /etc/muster/shim.toml");
    let report = examine(&s, &known(&spec));
    let c = report.checks.iter().find(|c| c.id == "envelope-1").unwrap();
    assert_eq!(c.verdict, Verdict::Fail);
    assert!(
        c.found.contains("replay, phase and parameters open")
            || c.found.contains("replay, phase and parameters are open"),
        "{}",
        c.found
    );
}

#[test]
fn s11_hosts_that_share_a_name_or_a_key_are_told() {
    muster_needs::require!(sandbox::available());
    let (s, _) = provisioned();
    let one = block_on(doctor::gather(&Shell::direct(&s), &subject())).unwrap();
    let mut two = one.clone();
    two.host_keys = vec!["SHA256:other".into()];
    two.machine_id = "other".into();
    let found = doctor::clones(&[("a".into(), one.clone()), ("b".into(), two.clone())]);
    assert_eq!(found.len(), 1);
    assert!(found[0].found.contains("a and b share the name in shim.toml edge-1"), "{}", found[0].found);
    let found = doctor::clones(&[("a".into(), one.clone()), ("b".into(), one)]);
    assert!(found.iter().any(|c| c.found.contains("host key SHA256:")), "{found:?}");
}

/// Attacks as far as the OpenSSH client can ask for them; the rest is `muster-ssh`'s.
struct Client<'a> {
    sandbox: &'a Sandbox,
    user: &'static str,
    key: &'static str,
}

impl Client<'_> {
    fn run(&self, options: &[&str], command: &[&str], stdin: &[u8]) -> Observation {
        let out = self.sandbox.ssh_with(self.user, self.key, options, command, stdin);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        let refused = [
            "PTY allocation request failed",
            "administratively prohibited",
            "forwarding failed",
            "subsystem request failed",
            "Permission denied",
        ];
        if let Some(words) = refused.into_iter().find(|w| stderr.contains(w)) {
            return Observation::refused(words);
        }
        let ran = Ran { stdout: out.stdout, stderr: out.stderr, exit: out.status.code() };
        Observation { answer: Answer::Accepted("session".into()), ran: Some(ran) }
    }
}

impl Attacker for Client<'_> {
    async fn attempt(&self, attack: Attack, canary: &Canary, socket: &str) -> Observation {
        let command = attack.command(canary).unwrap_or_default();
        let stdin = attack.stdin(canary);
        match attack {
            Attack::Shell => self.run(&["-T"], &[], &stdin),
            Attack::Exec | Attack::Injection => self.run(&["-T"], &[&command], &stdin),
            Attack::Pty => self.run(&["-tt"], &[], &stdin),
            Attack::Sftp => self.run(&["-s"], &["sftp"], &stdin),
            Attack::Subsystem => self.run(&["-s"], &["no-such-thing"], &stdin),
            Attack::LocalForward => self.run(&["-W", "127.0.0.1:22"], &[], b""),
            Attack::RemoteForward => self.run(
                &["-T", "-oExitOnForwardFailure=yes", "-R", "127.0.0.1:0:127.0.0.1:1"],
                &["true"],
                b"",
            ),
            Attack::RemoteSocket => self.run(
                &["-T", "-oExitOnForwardFailure=yes", "-R", &format!("{socket}:127.0.0.1:1")],
                &["true"],
                b"",
            ),
            Attack::PlantedKeys => Client { key: "stranger", ..*self }.run(&["-T"], &["true"], b""),
            Attack::PlantedShell | Attack::PlantedRc | Attack::PlantedEnvironment => {
                self.run(&["-T"], &[], b"exit\n")
            }
            _ => Observation::fault("the OpenSSH client does not say what was answered"),
        }
    }

    fn stranger(&self) -> String {
        self.sandbox.key("stranger.pub")
    }
}

fn besiege(s: &Sandbox, user: &'static str, key: &'static str) -> BTreeMap<&'static str, doctor::Check> {
    let shell = Shell::direct(s);
    let client = Client { sandbox: s, user, key };
    let account = AccountName::new(user).unwrap();
    let subject = Subject { account: account.clone(), ..subject() };
    let evidence = block_on(doctor::gather(&shell, &subject)).unwrap();
    let checks = block_on(siege(
        Some(&shell),
        &client,
        (&account, &evidence.login(&account)),
        &Canary::new(0x1234_5678_9abc),
        &word(),
        &mut |_| (),
    ));
    checks.into_iter().map(|c| (c.id, c)).collect()
}

/// A login that nothing pins.
const OPEN_LOGIN: &str = "sed -i '1i PermitUserEnvironment yes' /etc/ssh/sshd_config; useradd -m -s /bin/bash open; install -d -o open -m 700 /home/open/keys; \
          install -o open -m 600 /home/admin/.ssh/authorized_keys /home/open/keys/; rm -f /home/open/.bashrc /home/open/.profile /home/open/.bash_logout; \
          printf 'Match User open\\n    AuthorizedKeysFile keys/authorized_keys .ssh/authorized_keys\\n' >/etc/ssh/sshd_config.d/10-open.conf";

#[test]
fn ve21_ve26_a_pinned_login_stands_and_an_open_one_falls() {
    muster_needs::require!(sandbox::available());
    let (s, _) = provisioned();
    let dir = s.dir.path().display().to_string();
    s.ok(&format!("ssh-keygen -q -t ed25519 -N '' -f {dir}/out/stranger"));
    let before = s.snapshot();
    let seen = besiege(&s, "muster", "controller");
    // `id` stands for the shim here, so what answers in a session is not told to be ours.
    for id in [
        "attack-pty",
        "attack-local-forward",
        "attack-remote-forward",
        "attack-remote-socket",
        "attack-planted-shell",
        "attack-planted-rc",
        "attack-planted-environment",
        "attack-planted-keys",
        "attack-subsystem",
        "attack-tun",
    ] {
        assert_eq!(seen[id].verdict, Verdict::Pass, "{:?}", seen[id]);
    }
    for id in ["attack-shell", "attack-exec", "attack-injection", "attack-sftp"] {
        assert!(seen[id].found.contains("other than the shim"), "{:?}", seen[id]);
    }
    assert_eq!(before, s.snapshot(), "nothing stays planted");
    assert_eq!(s.sh("ls -d /run/muster-doctor.*").status.code(), Some(2));
    assert_eq!(s.ok("ps -eo args | grep -c '[m]uster-doctor' || true"), "0\n", "a timer is left");

    // The same against a login that nothing pins: each attempt that can come through does.
    s.ok(OPEN_LOGIN);
    s.reload_sshd();
    let seen = besiege(&s, "open", "admin");
    for id in [
        "attack-shell",
        "attack-exec",
        "attack-injection",
        "attack-pty",
        "attack-local-forward",
        "attack-remote-forward",
        "attack-remote-socket",
        "attack-sftp",
        "attack-planted-shell",
        "attack-planted-rc",
        "attack-planted-environment",
        "attack-planted-keys",
    ] {
        assert_eq!(seen[id].verdict, Verdict::Fail, "{:?}", seen[id]);
    }
    assert_eq!(s.ok("ls -A /home/open | grep -v bash_history"), "keys\n");
}

/// Somebody with an account of no rights on the host, who knows the doctor and would rather have it find nothing.
const LOCAL_ACCOUNT: &str = r#"useradd -m -s /bin/sh mallory
cat >/home/mallory/watch <<'END'
touch /var/tmp/muster-doctor.sock
python3 -c 'import socket,time; s=socket.socket(); s.bind(("127.0.0.1",47123)); s.listen(); time.sleep(600)' &
n=0
while [ $n -lt 20000 ]; do
  n=$((n + 1))
  for d in /run/muster-doctor.*; do
    for f in $d/seen/ran $d/bind/s $d/mark $d/list $(ls $d/seen 2>/dev/null | sed "s,^,$d/seen/,"); do
      { echo x >>$f; rm -f $f; ln -s /dev/null $f; chmod 400 $f; } 2>/dev/null
    done
  done
  sleep 0.01
done
END
setpriv --reuid mallory --regid mallory --init-groups -- sh /home/mallory/watch </dev/null >/dev/null 2>&1 &"#;

#[test]
fn ve26_a_local_account_makes_no_attack_look_refused() {
    muster_needs::require!(sandbox::available());
    let (s, _) = provisioned();
    let dir = s.dir.path().display().to_string();
    s.ok(&format!("ssh-keygen -q -t ed25519 -N '' -f {dir}/out/stranger"));
    s.ok(LOCAL_ACCOUNT);
    let planted = ["attack-planted-shell", "attack-planted-rc", "attack-planted-environment"];
    let bound = ["attack-remote-forward", "attack-remote-socket"];
    // On a pinned login it can make nothing look as if it came through.
    let seen = besiege(&s, "muster", "controller");
    for id in planted.iter().chain(&bound) {
        assert_eq!(seen[id].verdict, Verdict::Pass, "{:?}", seen[id]);
    }
    s.ok(OPEN_LOGIN);
    s.reload_sshd();
    let seen = besiege(&s, "open", "admin");
    for id in planted.iter().chain(&bound) {
        assert_eq!(seen[id].verdict, Verdict::Fail, "{:?}", seen[id]);
    }
    // A refusal for another reason than a setting that forbids it says nothing.
    s.ok("printf '    PermitListen 127.0.0.1:8080\\n' >>/etc/ssh/sshd_config.d/10-open.conf");
    s.reload_sshd();
    let seen = besiege(&s, "open", "admin");
    assert_eq!(
        seen["attack-remote-forward"].verdict,
        Verdict::Unknown,
        "{:?}",
        seen["attack-remote-forward"]
    );
    assert_eq!(s.sh("ls -d /run/muster-doctor.*").status.code(), Some(2));
    s.ok("pgrep -u mallory python3 && pgrep -u mallory -f watch");
}
