//! What `muster host provision --as …` prints, carried out on a node by the tool that it is for: afterwards the host is as the
//! runner itself would have left it, the doctor finds nothing, signed work runs, and it can be put back.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use muster_testbed::{KeyPair, Node, Output, RootfsSpec, Sudo, Testbed, require_root_or_skip};

use super::operator::{Operator, field};

/// A bare node, and an operator who has one key that logs in there as root.
fn bare(bed: &Testbed) -> Result<(Node, Operator, KeyPair)> {
    let of = Operator::of_one_host(bed, "edge-1", "root", Sudo::None)?;
    of.1.tiny()?;
    Ok(of)
}

fn provision(operator: &Operator) -> String {
    operator.provision("edge-1", "--profile tiny")
}

/// The form as it is printed.
fn form(operator: &Operator, name: &str) -> Result<String> {
    Ok(operator.run(&format!("{} --as {name}", provision(operator)), b"")?.good()?.out)
}

/// Nothing is left to do, the doctor with all its attacks finds nothing, and signed work runs.
fn is_provisioned(operator: &Operator) -> Result<()> {
    let rows = operator.run(&format!("{} --plan -o json", provision(operator)), b"")?.good()?.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "unchanged", "{rows:#}");
    let doctor = format!("host doctor edge-1 -o json --shim-binary {}", operator.built.shim.display());
    let ran = operator.run(&doctor, b"")?;
    let rows = ran.json()?;
    let checks = field(&rows, "edge-1", "checks").as_array().context("checks")?;
    let bad: Vec<_> =
        checks.iter().filter(|c| ["fail", "unknown"].contains(&c["verdict"].as_str().unwrap())).collect();
    ensure!(ran.code == 0 && bad.is_empty(), "{bad:#?}\n{}", ran.err);
    let rows = operator.run("host join edge-1 --profile tiny -o json", b"")?.good()?.json()?;
    assert_eq!(field(&rows, "edge-1", "stdout"), "0\n", "{rows:#}");
    Ok(())
}

const TRACES: &str = "cd /; ls -d etc/muster usr/bin/muster-shim var/lib/muster run/muster run/muster-provision* 2>/dev/null || true
    sha256sum etc/passwd etc/group etc/shadow; find etc/ssh etc/sudoers.d -type f | sort | xargs sha256sum; stat -c '%n %a %u %g' etc/ssh/* etc/sudoers.d/*";

fn put_back(operator: &Operator, node: &Node, before: &str) -> Result<()> {
    operator.run("host unprovision edge-1 --yes", b"")?.good()?;
    assert_eq!(node.sh(TRACES)?, before);
    Ok(())
}

#[test]
fn the_script_is_piped_to_a_shell_of_root() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("as-sh")?;
    let (node, operator, _) = bare(&bed)?;
    let before = node.sh(TRACES)?;
    let script = form(&operator, "sh")?;
    let sh = |args: &[&str]| {
        let argv = [&["sh", "-s", "--"], args].concat();
        node.exec_with(&argv, script.as_bytes(), std::time::Duration::from_secs(120))
    };
    let check = sh(&["--check"])?;
    assert!(check.code() == Some(2) && check.stdout_text().contains("to do: "), "{check:?}");
    assert_eq!(node.sh(TRACES)?, before, "it only looked");
    sh(&[])?.check()?;
    assert_eq!(sh(&["--check"])?.check()?.stdout_text(), "");
    assert_eq!(sh(&[])?.check()?.stdout_text(), "muster-provision: nothing to do\n");
    is_provisioned(&operator)?;
    put_back(&operator, &node, &before)?;
    // And by its own means.
    sh(&[])?.check()?;
    is_provisioned(&operator)?;
    sh(&["--undo"])?.check()?;
    assert_eq!(node.sh(TRACES)?, before);
    Ok(())
}

/// A node that has cloud-init, and with it Python.
pub(crate) fn with_cloud_init(name: &str) -> Result<Testbed> {
    // The second provides what the first depends on by another name, which debootstrap does not look for.
    let extra_packages = ["cloud-init", "python3-cffi-backend"].map(str::to_owned).to_vec();
    Testbed::prepare_on(name, &RootfsSpec { extra_packages, ..RootfsSpec::default() })
}

#[test]
fn the_playbook_is_played_over_ssh() -> Result<()> {
    require_root_or_skip!();
    let tool = Path::new("/usr/bin/ansible-playbook");
    muster_testbed::needs::require!(muster_testbed::needs::tool("/usr/bin/ansible-playbook", "ansible-core"));
    let bed = with_cloud_init("as-ansible")?;
    let (node, operator, admin) = bare(&bed)?;
    let before = node.sh(TRACES)?;
    operator.write("play.yml", &form(&operator, "ansible")?)?;
    operator.write(
        "hosts.ini",
        &format!(
            "edge-1 ansible_host={} ansible_user=root ansible_python_interpreter=/usr/bin/python3\n",
            node.addr()
        ),
    )?;
    let ssh = format!(
        "-F none -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o UserKnownHostsFile={}",
        node.known_hosts()?.display()
    );
    let play = |more: &[&str]| -> Result<(bool, String)> {
        let out = Command::new("timeout")
            .args(["300".as_ref(), tool.as_os_str()])
            .args(["-i", "hosts.ini", "--ssh-common-args", &ssh, "play.yml", "--private-key"])
            .arg(&admin.private)
            .arg(format!("-emuster_shim={}", operator.built.shim.display()))
            .args(more)
            .current_dir(&operator.dir)
            .env_clear()
            .env("HOME", &operator.dir)
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("ANSIBLE_NOCOWS", "1")
            .output()?;
        let said = [out.stdout, out.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
        Ok((out.status.success(), said))
    };
    let (ok, said) = play(&["--check"])?;
    ensure!(ok && !said.contains("changed=0 "), "{said}");
    assert_eq!(node.sh(TRACES)?, before, "--check changes nothing: {said}");
    let (ok, said) = play(&[])?;
    ensure!(ok, "{said}");
    is_provisioned(&operator)?;
    let (ok, said) = play(&[])?;
    ensure!(ok && said.contains("changed=0 "), "{said}");
    let (ok, said) = play(&["--check", "--diff"])?;
    ensure!(ok && said.contains("changed=0 "), "{said}");
    put_back(&operator, &node, &before)
}

#[test]
fn the_cloud_config_is_carried_out_at_the_first_boot() -> Result<()> {
    require_root_or_skip!();
    let bed = with_cloud_init("as-cloud-init")?;
    let (node, operator, _) = bare(&bed)?;
    let before = node.sh(TRACES)?;
    let config = form(&operator, "cloud-init")?;
    node.put("/var/lib/cloud/seed/nocloud/user-data", config.as_bytes(), 0o600)?;
    node.put(
        "/var/lib/cloud/seed/nocloud/meta-data",
        b"instance-id: edge-1\nlocal-hostname: edge-1\n",
        0o644,
    )?;
    // Of its modules those that this needs: the others set up apt, locales, disks and users, for which there is no network, and
    // which the testbed has done.
    let ours =
        b"datasource_list: [NoCloud]\nnetwork: {config: disabled}\ncloud_init_modules: [write-files]\n\
                 cloud_config_modules: [runcmd]\ncloud_final_modules: [scripts-user]\n";
    node.put("/etc/cloud/cloud.cfg.d/99-testbed.cfg", ours, 0o644)?;
    let schema =
        node.exec(&["cloud-init", "schema", "--config-file", "/var/lib/cloud/seed/nocloud/user-data"])?;
    ensure!(schema.ok(), "{schema:?}");
    node.reboot()?;
    let status: Output = node.exec(&["cloud-init", "status", "--long", "--wait"])?;
    ensure!(
        status.ok() && status.stdout_text().contains("status: done"),
        "{status:?}\n{}",
        node.sh("cat /var/log/cloud-init-output.log")?
    );
    node.sh("[ ! -e /run/muster-provision.sh ]")?;
    is_provisioned(&operator)?;
    put_back(&operator, &node, &before)
}
