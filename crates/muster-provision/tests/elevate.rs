//! Becoming root with real sudo, over a real login.
#![allow(clippy::disallowed_methods, reason = "tests spawn the real tools")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so"
)]

mod sandbox;

use muster_provision::ShellError;
use muster_provision::elevate::{self, ElevateError, Elevation, SudoPassword};
use sandbox::{Sandbox, word};

const PASSWORD: &str = "right-one";

fn password(text: &str) -> Elevation {
    Elevation::Password(SudoPassword::new(text).unwrap())
}

struct Ran {
    result: Result<muster_provision::ShellOutput, ShellError>,
    raw: String,
}

fn run(s: &Sandbox, how: &Elevation, script: &str, stdin: &[u8]) -> Ran {
    let marker = word();
    let remote = elevate::remote(how, &marker, script, stdin).unwrap();
    let out = s.ssh("admin", "admin", &remote.command, &remote.stdin);
    let raw = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    Ran { result: elevate::outcome(&marker, out.status.code(), &out.stdout, &out.stderr), raw }
}

/// Shows the script's own standard input and environment of arguments, so that a stray password
/// line would be seen wherever it went.
const SCRIPT: &str =
    "id -u; printf '[%s]' \"$(cat)\"; tr '\\0' ' ' </proc/$$/cmdline | grep -c right-one; exit 7";

fn expect_root(s: &Sandbox, how: &Elevation, case: &str) {
    let ran = run(s, how, SCRIPT, b"line one\nline two");
    assert!(!ran.raw.contains(PASSWORD), "{case}: the password came back: {}", ran.raw);
    let out = ran.result.unwrap_or_else(|e| panic!("{case}: {e}\n{}", ran.raw));
    assert_eq!((out.status, out.text().as_str()), (7, "0\n[line one\nline two]0\n"), "{case}");
}

fn sudoers(s: &Sandbox, text: &str) {
    s.ok(&format!("printf '%s\\n' '{text}' >/etc/sudoers.d/admin; visudo -cf /etc/sudoers.d/admin; rm -rf /run/sudo /var/lib/sudo"));
}

#[test]
fn every_way_to_root_leaves_the_script_its_own_input() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    sudoers(&s, "admin ALL=(ALL) NOPASSWD: ALL");
    expect_root(&s, &Elevation::NoPassword, "NOPASSWD, none given");
    expect_root(&s, &password(PASSWORD), "NOPASSWD, one given: sudo does not read it");
    sudoers(&s, "admin ALL=(ALL) ALL");
    expect_root(&s, &password(PASSWORD), "password");
    sudoers(&s, "Defaults:admin timestamp_timeout=0\nadmin ALL=(ALL) ALL");
    expect_root(&s, &password(PASSWORD), "password, no ticket kept");
    sudoers(&s, "Defaults:admin timestamp_type=global\nadmin ALL=(ALL) ALL");
    expect_root(&s, &password(PASSWORD), "password, first");
    expect_root(&s, &password(PASSWORD), "password, ticket kept from before");
    sudoers(&s, "Defaults use_pty, lecture=always\nadmin ALL=(ALL) ALL");
    expect_root(&s, &password(PASSWORD), "use_pty and a lecture");
    s.ok("usermod -s /bin/dash admin");
    expect_root(&s, &password(PASSWORD), "dash as login shell");
    s.ok("printf 'echo noise; echo noise >&2\\n' >/home/admin/.bashrc; usermod -s /bin/bash admin");
    expect_root(&s, &password(PASSWORD), "a noisy login shell");
    // As root itself: no sudo at all.
    let marker = word();
    let remote = elevate::remote(&Elevation::Root, &marker, SCRIPT, b"x").unwrap();
    let out = s.ok(&format!(
        "printf '{} {}\\n{}x' | {}; true",
        marker,
        SCRIPT.len(),
        SCRIPT.replace('%', "%%").replace('\\', "\\\\").replace('\'', "'\\''"),
        remote.command
    ));
    assert!(out.contains("[x]"), "{out}");
}

#[test]
fn a_wrong_password_costs_one_try_and_feeds_nothing_to_sudo() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    // Everything that PAM is asked to check is written down.
    s.ok("touch /run/pam-saw; chmod 666 /run/pam-saw; printf '#!/bin/sh\\ncat >>/run/pam-saw; echo >>/run/pam-saw\\n' >/usr/local/bin/saw; chmod 755 /usr/local/bin/saw; \
          sed -i '1i auth optional pam_exec.so expose_authtok /usr/local/bin/saw' /etc/pam.d/sudo");
    sudoers(&s, "admin ALL=(ALL) ALL");
    let ran = run(&s, &password("wrong-one"), SCRIPT, b"secret file content\n");
    assert!(
        matches!(ran.result, Err(ShellError::Elevate(ElevateError::PasswordWrong(_)))),
        "{:?} {}",
        ran.result,
        ran.raw
    );
    let saw = s.ok("tr '\\0' '\\n' </run/pam-saw | grep -v '^$'");
    assert_eq!(saw, "wrong-one\n", "PAM was asked for more than the one try");
}

#[test]
fn sudo_that_logs_input_does_not_get_the_password() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    for rule in [
        "admin ALL=(ALL) NOPASSWD: ALL",
        "admin ALL=(ALL) ALL",
        "Defaults timestamp_timeout=0\nadmin ALL=(ALL) ALL",
    ] {
        sudoers(&s, &format!("Defaults log_input, log_output, iolog_dir=/var/log/sudo-io\n{rule}"));
        let ran = run(&s, &password(PASSWORD), "cat >/dev/null", b"data");
        assert_eq!(ran.result.unwrap().status, 0, "{}", ran.raw);
        let found = s.sh(&format!("find /var/log/sudo-io -type f -exec zcat -f {{}} + | grep -c {PASSWORD}"));
        assert_eq!(
            String::from_utf8_lossy(&found.stdout),
            "0\n",
            "{rule}: the password is in sudo's I/O log"
        );
        assert!(
            s.ok("find /var/log/sudo-io -type f | wc -l").trim() != "0",
            "{rule}: nothing was logged, so nothing was tested"
        );
    }
}

#[test]
fn refusals_of_sudo_are_told_apart() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let refused = |how: &Elevation| match run(&s, how, "id", b"").result {
        Err(ShellError::Elevate(e)) => e,
        other => panic!("{other:?}"),
    };
    sudoers(&s, "admin ALL=(ALL) ALL");
    assert_eq!(refused(&Elevation::NoPassword), ElevateError::PasswordNeeded);
    sudoers(&s, "nobody ALL=(ALL) ALL");
    assert!(matches!(refused(&password(PASSWORD)), ElevateError::NotAllowed(_)));
    sudoers(&s, "admin ALL=(ALL) /usr/bin/id");
    assert!(matches!(refused(&password(PASSWORD)), ElevateError::NotAllowed(_)));
    sudoers(&s, "Defaults requiretty\nadmin ALL=(ALL) NOPASSWD: ALL");
    assert_eq!(refused(&Elevation::NoPassword), ElevateError::NeedsTty);
    assert_eq!(refused(&password(PASSWORD)), ElevateError::NeedsTty);
    s.ok("mv /usr/bin/sudo /usr/bin/sudo.away");
    assert_eq!(refused(&Elevation::NoPassword), ElevateError::NoSudo);
    assert_eq!(refused(&password(PASSWORD)), ElevateError::NoSudo);
}

#[test]
fn a_lost_connection_is_not_an_outcome() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    sudoers(&s, "admin ALL=(ALL) NOPASSWD: ALL");
    let ran = run(&s, &Elevation::NoPassword, "echo half; kill -KILL $PPID $$", b"");
    assert!(matches!(ran.result, Err(ShellError::Lost(_))), "{:?}", ran.result);
}
