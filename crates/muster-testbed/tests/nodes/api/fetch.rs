//! What a document names by a URL: fetched by a process of its own, on real nodes.

use std::net::SocketAddr;

use super::operator::{Operator, holds, nothing_failed, status, until};
use super::*;

#[allow(dead_code, reason = "the daemon's own tests use the rest")]
#[path = "../../../../musterd/tests/fetch/server.rs"]
mod server;

use server::{Server, Signer, ok};

const PORT: u16 = 8443;

/// Mode B by URL: the server is there only after the node has booted, and once the node has its owner it keeps him without it.
#[test]
fn an_authority_by_url_is_waited_for_pinned_and_kept() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("fetch-b")?;
    let node = installed(&bed, "a")?;
    let (alice, signer) = (Operator::new(&bed, "alice")?, Signer::new("pki of the lab"));
    let gate = bed.gate().to_string();
    let document = format!(
        "muster:\n  role: init\n  api:\n    operatorCAFrom:\n      url: https://{gate}:{PORT}/operator-ca.pem\n      waitFor: 10m\n"
    );
    node.put("/etc/muster/config.yaml", document.as_bytes(), 0o600)?;
    node.put("/etc/muster/fetch-ca.pem", signer.pem().as_bytes(), 0o644)?;
    node.reboot()?;
    // It looks parked, not failed, and says what it waits for; no port is open and nothing is built.
    holds(
        &node,
        "systemctl is-active --quiet muster-parked.target musterd-core.service && journalctl -b -u musterd-core -o cat | grep -q 'waits for an owner: api.operatorCAFrom: https://.*connection refused'",
    )?;
    assert_eq!(node.sh("ss -Hltn 'sport = :7443'; ls /var/lib/muster/bootstrapped 2>/dev/null || true")?, "");
    nothing_failed(&node)?;

    let authority = alice.authority()?;
    let server = Server::start(
        SocketAddr::new(bed.gate().into(), PORT),
        signer.shown(&[&gate], (2020, 2040)),
        move |_| ok(&authority),
    );
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    let status = status(&alice, &node)?;
    assert_eq!(status["management"]["claimedBy"].as_str(), Some("configuration"), "{status}");
    assert_eq!(server.heads().len(), 1, "{:?}", server.heads());
    nothing_failed(&node)?;

    // The owner is pinned: who is asked now, and what it would say, is all the same.
    drop(server);
    let mallory = Operator::new(&bed, "mallory")?;
    let other = mallory.authority()?;
    let server = Server::start(
        SocketAddr::new(bed.gate().into(), PORT),
        signer.shown(&[&gate], (2020, 2040)),
        move |_| ok(&other),
    );
    node.reboot()?;
    until("its owner is let in", || Ok(alice.muster(&["node", "status", "a"])?.ok().then_some(())))?;
    assert_eq!(server.connected(), 0, "nobody is asked again");
    Ok(())
}
