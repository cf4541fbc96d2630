//! The walking skeleton: two nodes boot, a login works, a reboot works, a sandboxed unit is enforced.

use anyhow::Result;
use muster_testbed::{Layout, Sudo, Testbed, require_root_or_skip};

#[test]
fn two_nodes_boot_and_take_logins_and_one_reboots() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("skeleton")?;
    let a = bed.node("a")?.boot()?;
    let b = bed.node("b")?.boot()?;
    let key = bed.keygen("admin")?;
    for node in [&a, &b] {
        node.add_ssh_key("root", &key)?;
        let ssh = bed.ssh(node, "root", &key);
        assert_eq!(ssh.run("hostname", b"")?.check()?.stdout_text().trim(), node.name());
        assert_eq!(ssh.over_v6().run("cat", b"over IPv6")?.check()?.stdout_text(), "over IPv6");
    }
    // Each has its own key, and the client is pinned to it.
    assert_ne!(a.host_key("ed25519")?, b.host_key("ed25519")?);
    // They see each other, by name too.
    a.sh("exec 3<>/dev/tcp/b/22; read -r banner <&3; [[ $banner == SSH-2.0-* ]]")?;
    // And nothing else.
    assert_eq!(a.sh("ip route show default; ip -6 route show default")?, "");

    a.put("/root/before", b"kept", 0o600)?;
    let before = a.sh("stat -c %Y /proc/1")?;
    a.reboot()?;
    assert_eq!(a.get("/root/before")?, b"kept");
    assert_eq!(a.exits(), [133], "a reboot is status 133 of nspawn");
    assert_ne!(a.sh("stat -c %Y /proc/1; cat /proc/sys/kernel/random/uuid")?, before);
    assert!(bed.ssh(&a, "root", &key).run("true", b"")?.ok());
    assert!(b.exits().is_empty(), "the other node did not notice");
    Ok(())
}

#[test]
fn a_key_that_is_not_listed_and_a_host_key_that_changed_are_refused() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("refused")?;
    let node = bed.node("a")?.boot()?;
    let (known, stranger) = (bed.keygen("known")?, bed.keygen("stranger")?);
    node.add_ssh_key("root", &known)?;
    assert!(bed.ssh(&node, "root", &known).run("true", b"")?.ok());
    let out = bed.ssh(&node, "root", &stranger).run("true", b"")?;
    assert_eq!(out.code(), Some(255));
    assert!(out.stderr_text().contains("Permission denied"), "{}", out.stderr_text());

    let stale = bed.dir().join("stale_known_hosts");
    std::fs::copy(node.known_hosts()?, &stale)?;
    let stale = format!("UserKnownHostsFile={}", stale.display());
    let pinned = bed.ssh(&node, "root", &known).option(&["-o", &stale]);
    assert!(pinned.run("true", b"")?.ok());
    node.sh("rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh")?;
    node.wait_ssh()?;
    let out = pinned.run("true", b"")?;
    assert_eq!(out.code(), Some(255));
    assert!(out.stderr_text().contains("HOST IDENTIFICATION HAS CHANGED"));
    Ok(())
}

#[test]
fn sudo_asks_for_the_password_where_it_should() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sudo")?;
    let node = bed.node("a")?.boot()?;
    let key = bed.keygen("admin")?;
    node.add_admin("free", &key, Sudo::NoPassword)?;
    node.add_admin("asked", &key, Sudo::Password("correct horse"))?;
    node.add_admin("plain", &key, Sudo::None)?;
    let run = |user: &str, script: &str, stdin: &[u8]| bed.ssh(&node, user, &key).run(script, stdin);
    assert_eq!(run("free", "sudo -n id -u", b"")?.check()?.stdout_text(), "0\n");
    assert!(!run("asked", "sudo -n id -u", b"")?.ok());
    assert_eq!(run("asked", "sudo -S -p '' id -u", b"correct horse\n")?.check()?.stdout_text(), "0\n");
    assert!(!run("asked", "sudo -S -p '' id -u", b"wrong\n")?.ok());
    assert!(!run("plain", "sudo -n id -u", b"")?.ok());
    Ok(())
}

/// Each protection is proven twice: the action works outside the unit and fails inside.
#[test]
fn unit_sandboxing_is_enforced() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sandbox")?;
    let node = bed.node("a")?.boot()?;
    let unit = |properties: &[&str], script: &str| -> Result<bool> {
        let mut argv = vec!["systemd-run", "--quiet", "--wait", "--pipe", "--collect"];
        for p in properties {
            argv.extend(["-p", p]);
        }
        argv.extend(["--", "bash", "-c", script]);
        Ok(node.exec(&argv)?.ok())
    };
    let write = "echo x > /usr/local/probe && rm /usr/local/probe";
    assert!(unit(&[], write)?);
    assert!(!unit(&["ProtectSystem=strict"], write)?);
    assert!(unit(&["ProtectSystem=strict", "ReadWritePaths=/usr/local"], write)?);

    // A system call that nothing else in the shell needs.
    let call = "mkfifo /run/probe && rm /run/probe";
    assert!(unit(&[], call)?);
    assert!(!unit(&["SystemCallFilter=~mknod mknodat"], call)?);
    assert!(!unit(&["SystemCallFilter=~mknod mknodat", "SystemCallErrorNumber=EPERM"], call)?);

    node.sh("useradd --system probe; echo 'probe ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/probe")?;
    let gain = "[ \"$(sudo -n id -u)\" = 0 ]";
    assert!(unit(&["User=probe"], gain)?);
    assert!(!unit(&["User=probe", "NoNewPrivileges=yes"], gain)?);

    let tmp = "[ -e /tmp/outside ]";
    node.sh("touch /tmp/outside")?;
    assert!(unit(&[], tmp)?);
    assert!(!unit(&["PrivateTmp=yes"], tmp)?);
    Ok(())
}

#[test]
fn both_cgroup_layouts_boot() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("layouts")?;
    let node = bed.node("unified")?.cgroups(Layout::Unified).boot()?;
    assert_eq!(node.sh("stat -f -c %T /sys/fs/cgroup")?.trim(), "cgroup2fs");
    if Layout::Hybrid.available() {
        let node = bed.node("hybrid")?.cgroups(Layout::Hybrid).boot()?;
        assert_eq!(node.sh("stat -f -c %T /sys/fs/cgroup /sys/fs/cgroup/unified")?, "tmpfs\ncgroup2fs\n");
    } else {
        eprintln!("this machine is not hybrid, so no node can be");
    }
    Ok(())
}
