//! A node's clock and its clients' disagree.
//!
//! A node here has this machine's clock, and the program asks the kernel for it where no preloaded library sees that; so dates lie
//! instead: what a node of another time would meet. What a jump of the clock does to a core that runs is tried with a clock that is
//! given to it, in `crates/musterd/src/core/tests`.

use std::process::Command;

use super::*;
use muster_testbed::Output;

/// openssl-ca(1): the operator's own authority, with dates of our choice.
const CONFIG: &str = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=default\npolicy=p\nx509_extensions=e\n\
                      unique_subject=no\n[p]\norganizationName=supplied\ncommonName=supplied\n[e]\nbasicConstraints=critical,CA:false\n\
                      keyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n";

fn issue(alice: &Operator, name: &str, from: &str, to: &str) -> Result<()> {
    alice.write("ca.cnf", CONFIG)?;
    alice.write("index.txt", "")?;
    let script = format!(
        "openssl req -new -newkey ed25519 -nodes -keyout pki/clients/{name}.key -subj /O=muster:admin/CN={name} -out {name}.csr && \
         chmod 600 pki/clients/{name}.key && \
         openssl ca -batch -notext -config ca.cnf -cert pki/operator-ca.pem -keyfile pki/operator-ca.key -in {name}.csr \
         -out pki/clients/{name}.pem -startdate {from} -enddate {to}"
    );
    Output::of(&mut alice.command("/bin/bash".as_ref(), &["-c", &script]), b"", Duration::from_secs(30))?
        .check()?;
    Ok(())
}

/// What a node says to somebody with this certificate, by a client that does not judge it itself.
fn asks(rig: &Rig, name: &str) -> Result<String> {
    let script = format!(
        "(printf 'GET /v1/health HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n') | openssl s_client -ign_eof -connect {}:7443 \
         -cert pki/clients/{name}.pem -key pki/clients/{name}.key 2>&1 || true",
        rig.node.addr()
    );
    let mut command: Command = rig.alice.command("/bin/bash".as_ref(), &["-c", &script]);
    Ok(Output::of(&mut command, b"", Duration::from_secs(30))?.stdout_text())
}

#[test]
fn fault_clock_off_a_client_that_has_ended_or_not_begun_is_told_so() -> Result<()> {
    require_root_or_skip!();
    let rig = Rig::claimed("fault-clock", |_, _| Ok(()))?;
    let alice = &rig.alice;
    // A node that is years behind, and one that is years ahead.
    issue(alice, "future", "20330101000000Z", "20340101000000Z")?;
    issue(alice, "past", "20200101000000Z", "20210101000000Z")?;
    issue(alice, "now", "20200101000000Z", "20340101000000Z")?;
    assert!(asks(&rig, "now")?.contains("200 OK"), "{}", asks(&rig, "now")?);
    for (name, reason) in [("future", "not-yet-valid"), ("past", "expired")] {
        let said = asks(&rig, name)?;
        assert!(
            !said.contains("200 OK") && (said.contains("certificate expired") || said.contains("401")),
            "{name}: {said}"
        );
        until("its record", || {
            let of =
                |r: &Value| r["event"] == "handshake" && r["decision"] == "denied" && r["reason"] == reason;
            Ok(records(&rig.node)?.iter().any(of).then_some(()))
        })?;
        // And the operator is told which of the two machines to look at.
        let out = alice.muster_as(name, &["node", "status", "a"], b"")?;
        assert!(!out.ok() && out.stderr_text().contains("clock"), "{}", out.stderr_text());
        assert_eq!(out.code(), Some(5));
    }
    Ok(())
}

/// M18: past its end a list lets look, and the next list, and nothing else; the next one heals it.
#[test]
fn fault_clock_m18_a_list_that_ends_while_the_node_runs_lets_only_look() -> Result<()> {
    require_root_or_skip!();
    let rig = Rig::claimed("fault-crl", |_, _| Ok(()))?;
    let alice = &rig.alice;
    alice.issue("mallory", "readonly")?;
    alice.issue("bob", "admin")?;
    alice.muster(&["pki", "revoke", "mallory", "--ends", "8s"])?.check()?;
    alice.muster(&["pki", "publish", "a"])?.check()?;
    let restart = || alice.muster(&["node", "restart", "a", "--unit", "kubelet"]);
    // The service is not there: what is refused before that is the list.
    until("the list has ended", || Ok(restart()?.stderr_text().contains("revocation-ended").then_some(())))?;
    assert_eq!(restart()?.code(), Some(6));
    alice.muster(&["node", "status", "a"])?.check()?;
    assert!(!alice.muster_as("mallory", &["node", "status", "a"], b"")?.ok(), "who is on it stays out");
    rig.node.sh("systemctl restart musterd-core")?;
    rig.answers()?;
    assert!(restart()?.stderr_text().contains("revocation-ended"), "also after a start");
    alice.muster(&["pki", "revoke", "bob"])?.check()?;
    alice.muster(&["pki", "publish", "a"])?.check()?;
    assert!(!restart()?.stderr_text().contains("revocation-ended"), "a newer list heals it");
    assert!(!alice.muster_as("bob", &["node", "status", "a"], b"")?.ok());
    nothing_failed(&rig.node)
}
