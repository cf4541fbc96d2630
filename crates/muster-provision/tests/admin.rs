//! Floors and key rotation over the admin login, and tools that do not know every line.
#![allow(clippy::disallowed_methods, reason = "tests spawn the real tools")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so"
)]

mod sandbox;

use muster_core::{HostName, Phase, ProfileName};
use muster_provision::floors::{self, FloorError, Floors};
use muster_provision::rotate::{Rotation, rotate};
use muster_provision::run::{self, Options, Outcome, RunError};
use muster_provision::sh::with_lib;
use muster_provision::{AccountName, ControllerKey, HostSpec, PublicKeyLine, ShimBinary, files};
use sandbox::{Logins, Sandbox, Shell, block_on, word};

fn key(s: &Sandbox, name: &str) -> ControllerKey {
    ControllerKey::new(PublicKeyLine::parse(&s.key(&format!("{name}.pub"))).unwrap())
}

fn provisioned() -> (Sandbox, HostSpec) {
    let s = Sandbox::start();
    let shim = ShimBinary::new(std::fs::read("/usr/bin/id").unwrap(), None).unwrap();
    let allowed = format!("muster namespaces=\"muster-intent\" {}", s.key("signer.pub"));
    let controller = key(&s, "controller").with_phases([Phase::Join]);
    let mut spec =
        HostSpec::new(HostName::new("edge-1").unwrap(), shim, allowed.into_bytes(), vec![controller]);
    spec.profiles.insert(ProfileName::new("tls-bootstrap").unwrap(), 7);
    let logins = Logins { sandbox: &s, user: "muster", key: "controller" };
    block_on(run::provision(&Shell::direct(&s), &logins, &spec, &Options::new(word()), &mut run::silent))
        .unwrap();
    (s, spec)
}

#[test]
fn m3_s8_a_floor_is_lowered_by_root_alone_and_written_down_first() {
    muster_needs::require!(sandbox::available());
    let (s, _) = provisioned();
    let shell = Shell::over_ssh(&s);
    let profile = ProfileName::new("tls-bootstrap").unwrap();
    assert_eq!(block_on(floors::show(&shell)).unwrap().floors[&profile], 7);
    let change = block_on(floors::set(&shell, &profile, 3)).unwrap();
    assert_eq!((change.before, change.after, change.event()), (Some(7), 3, "floor-lowered"));
    assert_eq!(
        s.ok(&format!("tail -n 1 {}; stat -c '%U %a' {0}", files::FLOORS)),
        "floor: tls-bootstrap 3\nroot 600\n"
    );
    let log = s.ok(&format!("tail -n 1 {}", files::RUNS_LOG));
    let record: serde_json::Value = serde_json::from_str(&log).unwrap();
    assert_eq!(record["event"], "floor-lowered");
    assert_eq!((&record["floor_before"], &record["floor_after"]), (&7.into(), &3.into()));
    assert_eq!(record["by"], "admin");
    // A new profile has no floor before; setting the same changes nothing.
    let sbc = ProfileName::new("sbc").unwrap();
    assert_eq!(block_on(floors::set(&shell, &sbc, 2)).unwrap().before, None);
    let strict = s.snapshot_strict();
    block_on(floors::set(&shell, &sbc, 2)).unwrap();
    assert_eq!(strict, s.snapshot_strict());
    assert_eq!(
        s.ok(&format!("cat {}", files::FLOORS)),
        "muster-floors: 1\ntime-floor: 1970-01-01T00:00:00Z\nfloor: sbc 2\nfloor: tls-bootstrap 3\n"
    );

    // Not while a run holds the host.
    s.begin_run();
    let e = block_on(floors::set(&shell, &sbc, 1)).unwrap_err();
    assert!(matches!(&e, FloorError::Refused(why) if why.contains("a run is in progress")), "{e}");
    s.end_run();

    // Gone or malformed is never taken for empty; the repair names every profile.
    s.ok(&format!("echo >>{}", files::FLOORS));
    assert!(matches!(block_on(floors::show(&shell)), Err(FloorError::Malformed(_))));
    assert!(matches!(block_on(floors::set(&shell, &sbc, 9)), Err(FloorError::Malformed(_))));
    s.ok(&format!("rm {}", files::FLOORS));
    assert_eq!(block_on(floors::set(&shell, &sbc, 9)), Err(FloorError::Missing));
    let whole = Floors {
        time_floor: muster_core::UtcTime::from_unix(0),
        floors: [(sbc.clone(), 2), (profile, 8)].into(),
    };
    block_on(floors::rebuild(&shell, &whole)).unwrap();
    assert_eq!(block_on(floors::show(&shell)).unwrap(), whole);
    assert_eq!(s.ok(&format!("grep -c floor-set {}", files::RUNS_LOG)), "3\n");
}

#[test]
fn a_controller_key_is_changed_without_a_moment_without_one() {
    muster_needs::require!(sandbox::available());
    let (s, _) = provisioned();
    s.ok(&format!("ssh-keygen -q -t ed25519 -N '' -C new -f {0}/out/new; ssh-keygen -q -t ed25519 -N '' -f {0}/out/other", s.dir.path().display()));
    let shell = Shell::direct(&s);
    let account = AccountName::default();
    let read = |path: &str| s.ok(&format!("cat {path}")).into_bytes();
    let old = key(&s, "controller").key().fingerprint().to_owned();
    let rotation = |new: &str| {
        Rotation::new(
            &account,
            &read("/etc/muster/authorized_keys.d/muster"),
            &read(files::SHIM_TOML),
            &old,
            &key(&s, new),
        )
        .unwrap()
    };
    let options = || [Options::new(word()), Options::new(word())];
    let can = |k: &str| s.ssh("muster", k, "x", b"").status.success();

    // A proof that fails leaves the old key alone: here the prover holds another key than the one that was added.
    let before = s.snapshot();
    let wrong = Logins { sandbox: &s, user: "muster", key: "new" };
    let e = block_on(rotate(&shell, &wrong, &rotation("other"), &options(), &mut run::silent)).unwrap_err();
    assert!(matches!(e, RunError::NotProven { .. }), "{e}");
    assert_eq!(before, s.snapshot());
    assert!(can("controller"));

    let logins = Logins { sandbox: &s, user: "muster", key: "new" };
    let done = block_on(rotate(&shell, &logins, &rotation("new"), &options(), &mut run::silent)).unwrap();
    assert!(matches!(done, Outcome::Changed { .. }));
    assert!(can("new") && !can("controller"));
    let toml = s.ok(&format!("cat {}", files::SHIM_TOML));
    assert!(toml.contains(key(&s, "new").key().fingerprint()) && !toml.contains(&old), "{toml}");
    // Unprovision still knows what was there before all this.
    block_on(run::unprovision(&shell, &logins, &Options::new(word()), &mut run::silent)).unwrap();
    assert_eq!(s.sh("ls -d /etc/muster /var/lib/muster").status.code(), Some(2));
}

#[test]
fn m10_lines_that_the_hosts_tool_does_not_know_are_left_out_and_no_others() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let adapt = |tool: &str, template: &str| {
        let out = s.sh(&with_lib(&format!("m_adapt {tool} <<'E'\n{template}E\n")));
        (out.status.success(), String::from_utf8(out.stdout).unwrap())
    };
    let sudoers = "=# head\n?Defaults!/usr/bin/muster-shim !log_input\n?Defaults!/usr/bin/muster-shim !option_of_the_future\n=muster ALL=(root) NOPASSWD: /usr/bin/muster-shim \"\"\n";
    assert_eq!(
        adapt("visudo", sudoers),
        (true, "# head\nDefaults!/usr/bin/muster-shim !log_input\nmuster ALL=(root) NOPASSWD: /usr/bin/muster-shim \"\"\n".into())
    );
    assert!(
        !adapt(
            "visudo",
            &sudoers
                .replace("?Defaults!/usr/bin/muster-shim !option", "=Defaults!/usr/bin/muster-shim !option")
        )
        .0
    );
    let sshd = "=Match User muster\n=    ForceCommand /usr/bin/muster-shim\n?    KeywordOfTheFuture yes\n?    PermitUserEnvironment no\n?    DisableForwarding yes\n";
    assert_eq!(
        adapt("sshd", sshd),
        (
            true,
            "Match User muster\n    ForceCommand /usr/bin/muster-shim\n    DisableForwarding yes\n".into()
        )
    );
    assert!(!adapt("sshd", &sshd.replace("?    Keyword", "=    Keyword")).0);
    // A host key is made for the test where there is none yet, and is not left behind.
    s.ok("rm -f /etc/ssh/ssh_host_*; rmdir /run/sshd");
    assert!(adapt("sshd", sshd).0);
    assert_eq!(s.sh("ls -d /run/muster-tmp.* /etc/ssh/ssh_host_*").status.code(), Some(2));
}

#[test]
fn an_sshd_that_knows_no_include_gets_the_block_itself() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    // An sshd before 8.2, as far as its reading of Include goes.
    s.ok("mv /usr/sbin/sshd /usr/sbin/sshd.real; printf '%s\\n' '#!/bin/sh' 'f=/etc/ssh/sshd_config; p=; for a in \"$@\"; do [ \"$p\" = -f ] && f=$a; p=$a; done' \
          'if grep -q ^Include \"$f\"; then echo \"$f: line 1: Bad configuration option: Include\" >&2; exit 255; fi' 'exec /usr/sbin/sshd.real \"$@\"' >/usr/sbin/sshd; chmod 755 /usr/sbin/sshd; \
          sed -i /^Include/d /etc/ssh/sshd_config; printf 'Match User nobody\\n    PermitTTY no\\n' >>/etc/ssh/sshd_config; kill $(cat /run/sshd.pid); sleep 0.3; /usr/sbin/sshd.real");
    let before = s.snapshot();
    let shim = ShimBinary::new(std::fs::read("/usr/bin/id").unwrap(), None).unwrap();
    let allowed = format!("muster namespaces=\"muster-intent\" {}", s.key("signer.pub"));
    let mut spec = HostSpec::new(
        HostName::new("edge-1").unwrap(),
        shim,
        allowed.into_bytes(),
        vec![key(&s, "controller")],
    );
    spec.profiles.insert(ProfileName::new("tls-bootstrap").unwrap(), 7);
    let shell = Shell::direct(&s);
    let logins = Logins { sandbox: &s, user: "muster", key: "controller" };
    let go = || block_on(run::provision(&shell, &logins, &spec, &Options::new(word()), &mut run::silent));
    go().unwrap();
    let text = s.ok("sed -n '/^# BEGIN muster/,$p' /etc/ssh/sshd_config");
    assert!(
        text.contains("Match User muster\n")
            && text.ends_with("# END muster\nMatch User nobody\n    PermitTTY no\n"),
        "{text}"
    );
    assert!(matches!(go().unwrap(), Outcome::Unchanged { .. }));
    block_on(run::unprovision(&shell, &logins, &Options::new(word()), &mut run::silent)).unwrap();
    let files = |t: &str| t.lines().filter(|l| l.contains("etc/ssh")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(files(&before), files(&s.snapshot()));
}
