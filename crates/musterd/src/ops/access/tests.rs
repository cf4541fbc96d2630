#![allow(clippy::disallowed_methods, reason = "the real ssh, sshd and ssh-keygen")]

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use super::*;
use crate::ops::testing::Fake;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEDAdgcQoYxSxAYTxIVHmPxc0rMhA/aZjHs7MyOnRwO6 alice@laptop";
const PRINT: &str = "SHA256:";

/// A node whose sshd looks for keys where its drop-in says.
fn node() -> Fake {
    let fake = Fake::new();
    fake.file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/sh\n")
        .file("/etc/ssh/sshd_config.d/other", "")
        .program(
            "/usr/sbin/sshd",
            "if [[ -e $root/etc/ssh/sshd_config.d/10-muster-api.conf ]]; then \
             grep -i ^authorizedkeysfile $root/etc/ssh/sshd_config.d/10-muster-api.conf | sed 's/A.*File/authorizedkeysfile/'; \
             else echo authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2; fi",
        )
        .program("/usr/bin/systemd-run", "while [[ $1 != -- ]]; do shift; done; shift; exec \"$@\"")
        .program("/usr/bin/systemctl", "[[ $3 != is-active || $6 == sshd.service ]]")
        .real("/usr/bin/install")
        .real("/usr/bin/mv")
        .real("/usr/bin/rm");
    fake
}

fn file(fake: &Fake, user: &str) -> String {
    std::fs::read_to_string(fake.places.at(places::SSH_KEYS).join(user)).unwrap_or_default()
}

fn listed(fake: &Fake) -> Vec<SshKey> {
    all(&fake.places).unwrap().iter().flat_map(File::shown).collect()
}

#[test]
fn a_key_is_let_in_listed_and_taken_away_and_never_told() {
    let fake = node();
    assert!(listed(&fake).is_empty());
    let key = added(&fake.places, "alice", &format!("  {KEY}\n")).unwrap();
    assert_eq!((key.user.as_str(), key.kind.as_str()), ("alice", "ssh-ed25519"));
    assert_eq!(key.comment.as_deref(), Some("alice@laptop"));
    assert!(key.fingerprint.starts_with(PRINT));
    let told = serde_json::to_string(&listed(&fake)).unwrap();
    assert!(!told.contains("AAAAC3"), "{told}");
    assert!(file(&fake, "alice").ends_with(&format!("{KEY}\n")));
    added(&fake.places, "alice", KEY).unwrap();
    added(&fake.places, "root", KEY).unwrap();
    assert_eq!(listed(&fake).len(), 2, "once for each account");
    let gone = removed(&fake.places, &key.fingerprint).unwrap();
    assert_eq!(gone.removed.iter().map(|k| k.user.as_str()).collect::<Vec<_>>(), ["alice", "root"]);
    assert_eq!((file(&fake, "alice"), listed(&fake).len()), (String::new(), 0));
    let fault = removed(&fake.places, &key.fingerprint).unwrap_err();
    assert_eq!((fault.kind, fault.reason.as_str()), (Kind::Missing, "no-such-key"));
}

#[test]
fn the_files_are_such_that_sshd_reads_them_as_the_account() {
    let fake = node();
    added(&fake.places, "alice", KEY).unwrap();
    let mode = |path: &str| std::fs::metadata(fake.places.at(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode(places::SSH_KEYS), mode("/var/lib/muster/ssh/alice")), (0o711, 0o644));
}

#[test]
fn what_is_no_plain_key_is_refused_and_not_sent_back() {
    let fake = node();
    for bad in [
        "",
        "s3cret",
        &format!("command=\"id\" {KEY}"),
        &format!("{KEY}\nssh-ed25519 AAAA"),
        &format!("{KEY}\u{7}"),
        &KEY.replace("ssh-ed25519 ", "ssh-rsa "),
        &KEY.replace(' ', "\t"),
        &format!("{KEY}{}", "x".repeat(200)),
    ] {
        let fault = added(&fake.places, "alice", bad).unwrap_err();
        assert_eq!((fault.kind, fault.reason.as_str()), (Kind::Bad, "bad-key"), "{bad}");
        assert!(bad.is_empty() || !format!("{fault:?}").contains(bad));
    }
    assert!(fake.called().is_empty() && listed(&fake).is_empty());
}

#[test]
fn accounts_are_never_made() {
    let fake = node();
    for user in ["bob", "", "..", "../alice", "alice/x", "-x", "alic", "alice:x", "x\ny", &"a".repeat(33)] {
        let fault = added(&fake.places, user, KEY).unwrap_err();
        assert_eq!((fault.kind, fault.reason.as_str()), (Kind::State, "no-such-account"), "{user}");
    }
    assert!(fake.called().is_empty());
}

/// A name is that of a file, and stands in the place of `%u`: what passwd(5) has of it is not enough.
#[test]
fn s17_an_account_with_a_name_that_no_tool_gives_gets_no_key() {
    let fake = node();
    let names = ["..", "../alice", "al/ice", "-x", ".hidden"];
    fake.file("/etc/passwd", &names.map(|n| format!("{n}:x:0:0::/:/bin/sh\n")).concat());
    for user in names {
        let fault = added(&fake.places, user, KEY).unwrap_err();
        assert_eq!((fault.kind, fault.reason.as_str()), (Kind::State, "no-such-account"), "{user}");
    }
    assert!(fake.called().is_empty());
}

#[test]
fn a_key_that_is_too_weak_is_refused() {
    muster_needs::require!(muster_needs::tool("/usr/bin/ssh-keygen", "openssh-client"));
    let (fake, dir) = (node(), tempfile::tempdir().unwrap());
    let file = dir.path().join("key");
    let arguments = ["-q", "-t", "rsa", "-b", "1024", "-N", "", "-f"];
    assert!(Command::new("ssh-keygen").args(arguments).arg(&file).status().unwrap().success());
    let key = std::fs::read_to_string(file.with_extension("pub")).unwrap();
    let fault = added(&fake.places, "alice", &key).unwrap_err();
    assert_eq!((fault.kind, fault.reason.as_str()), (Kind::Bad, "weak-key"));
    assert!(fake.called().is_empty() && listed(&fake).is_empty());
}

#[test]
fn sshds_own_files_stay_and_it_is_told_once() {
    let fake = node();
    added(&fake.places, "alice", KEY).unwrap();
    let drop_in =
        std::fs::read_to_string(fake.places.at("/etc/ssh/sshd_config.d/10-muster-api.conf")).unwrap();
    let wanted = format!(
        "AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys2 {}/%u",
        fake.places.at(places::SSH_KEYS).display()
    );
    assert!(drop_in.lines().any(|l| l == wanted), "{drop_in}");
    let calls = fake.called();
    assert!(calls.iter().any(|c| c.ends_with("[reload] [--] [sshd.service]")), "{calls:?}");
    added(&fake.places, "root", KEY).unwrap();
    assert!(!fake.called().iter().any(|c| c.contains("[reload]")));
    forget(&fake.places).unwrap();
    assert!(!fake.places.at("/etc/ssh/sshd_config.d/10-muster-api.conf").exists());
    assert!(listed(&fake).is_empty());
}

#[test]
fn a_key_that_sshd_would_not_look_at_is_not_listed() {
    let fake = node();
    fake.program("/usr/sbin/sshd", "echo authorizedkeysfile none");
    let fault = added(&fake.places, "alice", KEY).unwrap_err();
    assert_eq!((fault.kind, fault.reason.as_str()), (Kind::State, "sshd"));
    assert!(listed(&fake).is_empty());
    std::fs::remove_file(fake.places.at("/usr/sbin/sshd")).unwrap();
    assert_eq!(added(&fake.places, "alice", KEY).unwrap_err().reason, "no-sshd");
}

/// An sshd on loopback whose configuration is that of the node.
struct Sshd(std::process::Child, u16);

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn real_sshd(fake: &Fake) -> Sshd {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let root = fake.places.root().display().to_string();
    let key = format!("{root}/host");
    let made =
        Command::new("/usr/bin/ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &key]).status();
    assert!(made.unwrap().success());
    fake.file(
        "/etc/ssh/sshd_config",
        &format!(
            "Include {root}/etc/ssh/sshd_config.d/*.conf\nPort {port}\nListenAddress 127.0.0.1\nHostKey {key}\n\
             PidFile none\nSubsystem sftp internal-sftp\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        ),
    );
    fake.program("/usr/sbin/sshd", "exec /usr/sbin/sshd -f \"$root/etc/ssh/sshd_config\" \"$@\"");
    fake.program("/usr/bin/systemctl", "[[ $3 != reload ]] || kill -HUP \"$(cat \"$root/pid\")\"");
    let config = format!("{root}/etc/ssh/sshd_config");
    let _ = std::fs::create_dir("/run/sshd");
    let child = Command::new("/usr/sbin/sshd").args(["-D", "-e", "-f", &config]).spawn().unwrap();
    fake.file("/pid", &child.id().to_string());
    Sshd(child, port)
}

fn login(fake: &Fake, sshd: &Sshd) -> bool {
    let key = fake.places.at("/client").display().to_string();
    let ssh = Command::new("/usr/bin/ssh")
        .args([
            "-F",
            "none",
            "-i",
            &key,
            "-p",
            &sshd.1.to_string(),
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "BatchMode=yes",
        ])
        .args([
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "ConnectTimeout=10",
        ])
        .args(["-o", "PreferredAuthentications=publickey"])
        // Served within sshd: no shell, whose files on this machine are not ours to wait for.
        .args(["-s", "root@127.0.0.1", "sftp"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    ssh.status.success()
}

#[test]
fn the_real_sshd_lets_the_key_in_and_not_after_it_was_taken_away() {
    muster_needs::require!(muster_needs::root());
    muster_needs::require!(muster_needs::tool("/usr/sbin/sshd", "openssh-server"));
    muster_needs::require!(muster_needs::tool("/usr/bin/ssh", "openssh-client"));
    // Not below /tmp: sshd refuses keys below a folder that others may write to.
    let fake = Fake::within("/var/lib");
    fake.file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n").file("/etc/ssh/sshd_config.d/other", "");
    fake.program("/usr/bin/systemd-run", "while [[ $1 != -- ]]; do shift; done; shift; exec \"$@\"")
        .real("/usr/bin/install")
        .real("/usr/bin/mv")
        .real("/usr/bin/rm");
    let sshd = real_sshd(&fake);
    let client = fake.places.at("/client").display().to_string();
    let made =
        Command::new("/usr/bin/ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &client]).status();
    assert!(made.unwrap().success());
    let start = std::time::Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", sshd.1)).is_err() {
        assert!(start.elapsed().as_secs() < 30, "sshd does not answer");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!login(&fake, &sshd), "nobody let it in yet");
    let public = std::fs::read_to_string(fake.places.at("/client.pub")).unwrap();
    let key = added(&fake.places, "root", &public).unwrap();
    let start = std::time::Instant::now();
    while !login(&fake, &sshd) {
        // It reads its files anew a moment after it was told.
        assert!(start.elapsed().as_secs() < 20, "the key does not log in");
    }
    let shown = Command::new("/usr/bin/ssh-keygen").args(["-l", "-f", &client]).output().unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains(&key.fingerprint), "as ssh-keygen prints it");
    removed(&fake.places, &key.fingerprint).unwrap();
    assert!(!login(&fake, &sshd), "it was taken away");
}

/// The real attribute, and a machine that says that it has SELinux. On one that has it the policy decides as well.
#[test]
fn where_selinux_is_on_keys_carry_the_label_that_sshd_may_read_from_their_writing_and_from_each_start() {
    muster_needs::require!(muster_needs::root());
    let fake = node();
    let folder = fake.places.at(places::SSH_KEYS);
    let label = |name: &str| {
        let label = muster_sys::label::of(&folder.join(name)).unwrap();
        label.map(|l| String::from_utf8_lossy(&l).trim_end_matches('\0').to_owned())
    };
    assert_eq!(added(&fake.places, "root", KEY).unwrap().warning, None);
    assert_eq!(label("root"), None, "SELinux is off");
    fake.file("/sys/fs/selinux/enforce", "1");
    let may = muster_sys::label::set_type(&fake.places.at("/etc"), "etc_t");
    muster_needs::require!(may.map(drop).map_err(|e| e.line()));
    assert_eq!(added(&fake.places, "alice", KEY).unwrap().warning, None);
    let ours = Some("system_u:object_r:ssh_home_t:s0".to_owned());
    assert_eq!((label(""), label("alice"), label("root")), (ours.clone(), ours.clone(), None));
    // Somebody relabels the machine, and the core starts.
    for name in ["", "alice", "root"] {
        muster_sys::label::set_type(&folder.join(name), "var_lib_t").unwrap();
    }
    relabel(&fake.places);
    assert_eq!((label(""), label("alice"), label("root")), (ours.clone(), ours.clone(), ours));
}

/// A key that sshd cannot read is no key that works, and whoever sent it is told.
#[test]
fn a_label_that_cannot_be_set_is_a_warning_of_the_answer() {
    let fake = node();
    fake.file("/sys/fs/selinux/enforce", "1");
    folder(&fake.places).unwrap();
    // No file of this account is there to be labelled.
    let why = label(&fake.places, &["nobody"]).unwrap_err();
    assert!(why.contains("label") && why.lines().count() == 1, "{why}");
    let told =
        serde_json::to_value(SshKey { warning: Some(why), ..Line::parse(KEY).unwrap().shown("alice") });
    assert!(told.unwrap()["warning"].as_str().unwrap().contains("label"));
}
