//! Stage 1: the pool account's process, and real sudo between it and root.

use crate::world::{Out, POLICY, World, collect, copy_program, keys, two, world};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const POOL: u32 = 4_242;

/// The pool account, the sudoers line, and the program at its fixed path.
fn installed(w: &World) {
    let add = |path: &str, line: &str| {
        let mut f = fs::OpenOptions::new().append(true).open(path).unwrap();
        writeln!(f, "{line}").unwrap();
    };
    add("/etc/passwd", &format!("muster:x:{POOL}:{POOL}::/nonexistent:/bin/sh"));
    add("/etc/group", &format!("muster:x:{POOL}:"));
    add("/etc/shadow", "muster:*:20000:0:99999:7:::");
    let line = "Defaults!/usr/bin/muster-shim env_keep+=\"SSH_USER_AUTH SSH_CONNECTION\"\n\
        muster ALL=(root) NOPASSWD: /usr/bin/muster-shim \"\"\n";
    w.put("/etc/sudoers.d/muster-shim", line, 0o440);
    for d in ["/mnt/bin-up", "/mnt/bin-work"] {
        fs::create_dir(d).unwrap();
    }
    let options = "lowerdir=/usr/bin,upperdir=/mnt/bin-up,workdir=/mnt/bin-work";
    let ok = Command::new("mount").args(["-t", "overlay", "-o", options, "overlay", "/usr/bin"]).status();
    assert!(ok.unwrap().success());
    copy_program(env!("CARGO_BIN_EXE_muster-shim"), "/usr/bin/muster-shim");
    fs::set_permissions("/usr/bin/muster-shim", fs::Permissions::from_mode(0o755)).unwrap();
}

fn as_pool(program: &str, args: &[&str], env: &[(&str, &str)], input: &[u8]) -> Out {
    let mut c = Command::new(program);
    c.args(args).env_clear().envs(env.iter().copied()).uid(POOL).gid(POOL).current_dir("/tmp");
    let mut child = c.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    collect(child)
}

#[test]
fn m8_the_pool_account_gets_root_for_the_shim_alone_and_brings_nothing() {
    muster_needs::require!(muster_needs::tool("/usr/bin/sudo", "sudo"));
    world(|w| {
        w.provisioned(POLICY);
        installed(w);
        let script = "echo \"uid $(id -u) home $HOME tz [$TZ] lang $LANG evil [$EVIL$BASH_ENV$SUDO_COMMAND] in $(pwd)\"\n";
        let env = [
            ("TZ", "Asia/Tokyo"),
            ("LANG", "tr_TR.UTF-8"),
            ("EVIL", "x"),
            ("BASH_ENV", "/tmp/x"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("PATH", "/tmp"),
            ("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22"),
        ];
        let out = as_pool("/usr/bin/muster-shim", &[], &env, &two(script).bytes());
        assert_eq!(
            (out.code, out.stdout.as_str()),
            (Some(0), "uid 0 home /root tz [] lang C.UTF-8 evil [] in /\n"),
            "{out:?}"
        );
        let start =
            w.journal().into_iter().find(|r| r.get("MUSTER_EVENT").is_some_and(|e| e == "start")).unwrap();
        assert_eq!(start["MUSTER_PEER_CLAIMED_ADDRESS"], "192.0.2.7");
        // The shim refuses an argument by itself, and sudo refuses it for whoever asks sudo directly.
        let out = as_pool("/usr/bin/muster-shim", &["--x"], &[], b"");
        assert_eq!(out.verdict(), (1, "argument"));
        for command in [&["/usr/bin/muster-shim", "--x"][..], &["/usr/bin/id"], &["/bin/bash"]] {
            let mut args = vec!["-n", "--"];
            args.extend(command);
            let out = as_pool("/usr/bin/sudo", &args, &[], b"");
            assert_eq!(out.code, Some(1), "{command:?} {out:?}");
            assert_eq!(out.stdout, "");
        }
        // Another name for the program is still the program at its fixed path, by its base name.
        let out =
            as_pool("/usr/bin/sudo", &["-n", "--", "/usr/bin/muster-shim"], &[], &two("id -u\n").bytes());
        assert_eq!(out.stdout, "0\n", "{out:?}");
    });
}

#[test]
fn s4_the_logins_key_is_read_from_the_accounts_own_file_only() {
    muster_needs::require!(muster_needs::tool("/usr/bin/sudo", "sudo"));
    world(|w| {
        w.provisioned(POLICY);
        installed(w);
        let public = fs::read_to_string(keys().dir.path().join("signer.pub")).unwrap();
        let line = format!("publickey {}\n", public.split(' ').take(2).collect::<Vec<_>>().join(" "));
        let path = format!("/tmp/sshauth.S{}", std::process::id());
        let claimed = |owner: u32| {
            fs::write(&path, &line).unwrap();
            std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
            let out = as_pool("/usr/bin/muster-shim", &[], &[("SSH_USER_AUTH", &path)], &two("id\n").bytes());
            assert_eq!(out.code, Some(0), "{out:?}");
            fs::remove_file(&path).unwrap();
            let records = w.journal();
            records.iter().find_map(|r| r.get("MUSTER_PEER_CLAIMED_KEYS").cloned())
        };
        assert_eq!(claimed(POOL), Some(keys().signer_fp.clone()));
        assert_eq!(claimed(0), None, "somebody else's file is no evidence");
    });
}

#[test]
fn without_leave_from_sudo_it_is_sudos_own_1() {
    muster_needs::require!(muster_needs::tool("/usr/bin/sudo", "sudo"));
    world(|w| {
        w.provisioned(POLICY);
        installed(w);
        fs::remove_file("/etc/sudoers.d/muster-shim").unwrap();
        let out = as_pool("/usr/bin/muster-shim", &[], &[], &two("id\n").bytes());
        assert_eq!((out.code, out.stdout.as_str()), (Some(1), ""), "{out:?}");
        assert!(out.stderr.contains("sudo"), "{out:?}");
        assert!(w.events().is_empty());
    });
}
