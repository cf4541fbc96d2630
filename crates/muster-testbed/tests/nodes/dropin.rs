//! Envelope 1 through real sshd and sudo, made with nothing but `ssh-keygen` and the plain `ssh` client.

use std::path::Path;

use anyhow::Result;
use muster_testbed::{Testbed, binaries, require_root_or_skip};

#[path = "../../../muster-shim/tests/dropin/rows.rs"]
mod rows;

use crate::host::{Host, Name, Options, b64, sign};

/// The shell shim that the benchmarks compare with: if the rows below hold for it too, they say what the published contract
/// says, and not what ours happens to do.
fn baseline() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/baseline/kpssh-shim")
}

#[test]
fn a_signed_script_runs_as_root_and_a_changed_byte_runs_nothing_with_the_baseline() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("dropin-baseline")?;
    let host = Host::provision(&bed, "a", &Options::new(Name::Kpssh, &baseline()))?;
    signed_script_runs_and_a_changed_byte_does_not(&bed, &host)
}

fn signed_script_runs_and_a_changed_byte_does_not(bed: &Testbed, host: &Host) -> Result<()> {
    let script = "#!/bin/bash\nset -euo pipefail\nid -u\necho \"node=$KPSSH_NODE_NAME\"\nid -u > /root/ran\n";
    let good = host.envelope_one("join", script, "KPSSH_NODE_NAME=edge-1\n")?;
    let out = host.send(&good)?;
    assert_eq!(
        (out.code(), out.stdout_text().as_str()),
        (Some(0), "0\nnode=edge-1\n"),
        "{}",
        out.stderr_text()
    );
    assert_eq!(host.node.get("/root/ran")?, b"0\n");
    host.node.sh("rm /root/ran")?;

    // One byte of the script, changed after it was signed.
    let text = String::from_utf8(good)?;
    let bad =
        text.replace(&b64(script.as_bytes()), &b64(script.replace("id -u\necho", "id -g\necho").as_bytes()));
    assert_ne!(text, bad);
    let out = host.send(bad.as_bytes())?;
    assert_eq!(out.code(), Some(2), "{}", out.stderr_text());
    assert!(out.stderr_text().contains("signature rejected"), "{}", out.stderr_text());

    // A key that nobody listed.
    let stranger = bed.keygen("stranger")?;
    let armored = sign(&bed.dir(), script.as_bytes(), "kpssh", &stranger)?;
    let envelope = format!(
        "kpssh-envelope: 1\nphase: join\nsig-b64: {}\nscript-b64: {}\n",
        b64(&armored),
        b64(script.as_bytes())
    );
    assert_eq!(host.send(envelope.as_bytes())?.code(), Some(2));

    // The right key for another purpose.
    let armored = host.sign(script.as_bytes(), "file")?;
    let envelope = format!(
        "kpssh-envelope: 1\nphase: join\nsig-b64: {}\nscript-b64: {}\n",
        b64(&armored),
        b64(script.as_bytes())
    );
    assert_eq!(host.send(envelope.as_bytes())?.code(), Some(2));
    assert!(!host.node.exec(&["test", "-e", "/root/ran"])?.ok(), "nothing ran");
    Ok(())
}

/// Every row through real sshd and sudo. `shell` picks the outcome that the row expects of the shell shim.
fn whole_table(bed: &Testbed, hosts: &[Host], shell: bool) -> Result<()> {
    let stranger = bed.keygen("table-stranger")?;
    let signer = |bytes: &[u8], namespace: &str| hosts[0].sign(bytes, namespace).expect("ssh-keygen signs");
    let other = |bytes: &[u8], namespace: &str| {
        sign(&bed.dir(), bytes, namespace, &stranger).expect("ssh-keygen signs")
    };
    let table = rows::rows(&rows::Keys { signer: &signer, stranger: &other });
    // A few logins at a time: our shim gives exit 7 to a second *run*, so each thread has a host of its own.
    let wrong: Vec<String> = std::thread::scope(|scope| -> Result<Vec<String>> {
        let parts: Vec<_> = hosts
            .iter()
            .enumerate()
            .map(|(n, host)| {
                let mine = table.iter().skip(n).step_by(hosts.len());
                scope.spawn(move || {
                    mine.filter_map(|row| judge(row, host, shell).transpose()).collect::<Result<Vec<_>>>()
                })
            })
            .collect();
        let mut all = Vec::new();
        for part in parts {
            all.extend(part.join().expect("no panic")?);
        }
        Ok(all)
    })?;
    // What values with substitutions would have left.
    for host in hosts {
        host.node.sh("[ ! -e /root/owned ]")?;
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// What is wrong with the outcome of one row, if anything.
fn judge(row: &rows::Row, host: &Host, shell: bool) -> Result<Option<String>> {
    let out = host.send(&row.input)?;
    let (got, stdout, stderr) = (out.code(), out.stdout_text(), out.stderr_text());
    let code = if shell { row.shell.map_or(row.code, |(code, _)| code) } else { row.code };
    let same_output = row.stdout.is_none_or(|want| want == stdout) || (shell && row.shell.is_some());
    let refused = code != 0 && code != 10;
    let quiet = !refused || (stdout.is_empty() && stderr.starts_with("kpssh-shim: "));
    let right = got == Some(code) && same_output && quiet && (shell || stderr.contains(row.stderr));
    Ok((!right)
        .then(|| format!("{}: exit {got:?}, want {code}; stdout {stdout:?}; stderr {stderr:?}", row.name)))
}

/// Hosts with the same keys, so that the rows can be shared out.
fn twins(bed: &Testbed, shim: &Path) -> Result<Vec<Host>> {
    let first = Host::provision(bed, "a", &Options::new(Name::Kpssh, shim))?;
    let trust = first.node.get(Name::Kpssh.allowed_signers())?;
    let second = Host::provision(bed, "b", &Options::new(Name::Kpssh, shim))?;
    second.node.put(Name::Kpssh.allowed_signers(), &trust, 0o644)?;
    Ok(vec![first, second])
}

#[test]
fn dropin_table_holds_for_the_shell_shim() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("table-shell")?;
    whole_table(&bed, &twins(&bed, &baseline())?, true)
}

#[test]
fn dropin_table_holds_for_ours() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("table")?;
    whole_table(&bed, &twins(&bed, &binaries()?.shim)?, false)
}

#[test]
fn a_signed_script_runs_as_root_and_a_changed_byte_runs_nothing() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("dropin")?;
    let host = Host::provision(&bed, "a", &Options::new(Name::Kpssh, &binaries()?.shim))?;
    signed_script_runs_and_a_changed_byte_does_not(&bed, &host)
}

/// What stands around the table: the probe's words, what cannot be trusted, what sudo refuses, what the caller asks for.
#[test]
fn dropin_says_what_the_shell_shim_says_around_the_table() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("dropin-around")?;
    let ours = Host::provision(&bed, "a", &Options::new(Name::Kpssh, &binaries()?.shim))?;
    let shell = Host::provision(&bed, "b", &Options::new(Name::Kpssh, &baseline()))?;
    let probe = b"kpssh-envelope: 1\nphase: probe\n";
    let script = "#!/bin/bash\necho ran\n";
    let words = |host: &Host| Ok::<_, anyhow::Error>(host.send(probe)?.stdout_text());
    let said = words(&ours)?;
    assert_eq!(said, words(&shell)?, "the probe of both, on machines alike");
    let facts: Vec<&str> = said.lines().collect();
    assert_eq!(facts.len(), 4, "{said}");
    assert!(facts[..2].iter().all(|n| n.parse::<u64>().is_ok_and(|n| n > 0)), "{said}");
    assert_eq!(facts[3], "inactive", "no kubelet here");
    for host in [&ours, &shell] {
        // VE20: the command that a caller asks for is never what runs.
        let good = host.envelope_one("join", script, "")?;
        for command in ["id > /tmp/asked", "/opt/kpssh/kpssh-shim --help", "-c id"] {
            let out = host.send_asking(command, &good)?;
            assert_eq!((out.code(), out.stdout_text().as_str()), (Some(0), "ran\n"), "{command}");
        }
        host.node.sh("[ ! -e /tmp/asked ]")?;
        let trust = Name::Kpssh.allowed_signers();
        host.node.sh(&format!("mv {trust} {trust}.away"))?;
        let out = host.send(&good)?;
        assert_eq!(out.code(), Some(2), "no trust root: {}", out.stderr_text());
        assert!(out.stderr_text().contains("signature rejected"), "{}", out.stderr_text());
        host.node.sh(&format!("mv {trust}.away {trust}"))?;
        host.node.sh("mkdir /root/away; mv /etc/sudoers.d/* /root/away/")?;
        let out = host.send(&good)?;
        assert_eq!((out.code(), out.stdout_text().as_str()), (Some(1), ""), "sudo refuses");
        assert!(out.stderr_text().contains("sudo"), "{}", out.stderr_text());
    }
    Ok(())
}
