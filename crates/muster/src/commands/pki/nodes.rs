//! `muster pki rotate` and `muster pki publish`: what an authority's holder does to nodes.

use crate::codes::Own;
use crate::commands::node::confirm::{Meant, Typed, look, meant};
use crate::commands::node::plan;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::files;
use crate::nodes::session::{Callee, Session, Shape, show};
use crate::printer::Printer;
use muster_api::ownership::{ListAnswer, RotateAnswer, RotateRequest, RotationSignature, rotation_text};
use muster_client::{Identity, Node, Target};
use muster_core::{Operation, UtcTime};
use muster_tls::OperatorCa;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const MAX_PEM: usize = 64 * 1024;
const MAX_LIST: usize = 4 << 20;

/// From whom to whom.
#[derive(Debug)]
pub struct Rotation {
    /// Which nodes, as a client of the old authority.
    pub session: Session,
    /// The old authority.
    pub old: PathBuf,
    /// The new one.
    pub new: PathBuf,
    /// The certificate of a client of the new one.
    pub proof: PathBuf,
    /// That client.
    pub identity: Arc<Identity>,
    /// Whether it is meant.
    pub sure: Meant,
}

/// What each node is sent.
struct Change {
    old: OperatorCa,
    new: OperatorCa,
    new_pem: String,
    proof: String,
    identity: Arc<Identity>,
}

fn authority(path: &Path, now: UtcTime) -> Result<(OperatorCa, String), Fault> {
    let text = files::read_text(path, MAX_PEM)?;
    let ca = OperatorCa::from_pem(&text, now).map_err(|f| crate::pki::bad(path, &f))?;
    Ok((ca, text))
}

/// Makes each node obey the new authority, and proves that it does.
pub fn rotate(rotation: Rotation, now: UtcTime, printer: &mut Printer) -> Outcome {
    let (new, new_pem) = authority(&rotation.new, now)?;
    // One that has ended must be got rid of all the same.
    let (old, _) = authority(&rotation.old, UtcTime::from_unix(0))?;
    if old.same_key(&new) {
        return Err(Fault::new(Own::PkiFile, "the new authority has the key of the old one")
            .fix("Make another one with `muster pki init --pki FOLDER`.")
            .into());
    }
    let proof = files::read_text(&rotation.proof, MAX_PEM)?;
    let der = muster_tls::one_certificate(&proof).map_err(|f| crate::pki::bad(&rotation.proof, &f))?;
    let client = new.verify_client(&der, None, now).map_err(|f| crate::pki::bad(&rotation.proof, &f))?;
    if client.role != Some(muster_core::Role::Admin) {
        return Err(Fault::new(
            Own::PkiFile,
            format!("{} is no admin of the new authority", rotation.proof.display()),
        )
        .fix("Issue one: without an admin nobody could rotate, reset or reboot the nodes.")
        .into());
    }
    let session = rotation.session;
    let doing = format!(
        "these obey {} ({}) from now on, and nobody of {} ({}) any more",
        new.name(),
        new.fingerprint(),
        old.name(),
        old.fingerprint()
    );
    let nodes = look(&session, &doing, rotation.sure, printer)?;
    let order = match rotation.sure.plan {
        true => format!("obey {} ({})", new.name(), new.fingerprint()),
        false => "rotate".to_owned(),
    };
    if !meant(&nodes, rotation.sure, Typed::Together, &order, printer)? {
        return Ok(Exit::Ok);
    }
    let change = Arc::new(Change { old, new, new_pem, proof, identity: rotation.identity });
    let results = session.each(Operation::CaRotate, move |callee| {
        let change = Arc::clone(&change);
        async move { one(&callee, &change).await }
    })?;
    show(
        results,
        &Shape {
            columns: &["status", "obeys"],
            cells: |a: &RotateAnswer| vec![a.status.clone(), a.operator_ca.clone()],
        },
        printer,
    )
}

async fn one(callee: &Callee, change: &Change) -> Result<RotateAnswer, Fault> {
    let name = &callee.chosen.name;
    let state = callee.told(Operation::NodeState, callee.node.state().await)?;
    obeys_the_old(name, state.management.operator_ca.as_deref(), change)?;
    let list = state.management.revocation_list.map(|l| l.number).unwrap_or_default();
    let node = callee.chosen.pinned()?;
    let text = rotation_text(
        node.bytes(),
        change.old.fingerprint().bytes(),
        change.new.fingerprint().bytes(),
        &list,
    );
    let (scheme, signature) = change
        .identity
        .sign(&text)
        .ok_or_else(|| Fault::new(Own::PkiFile, "the new client's key does not sign"))?;
    let request = RotateRequest {
        operator_ca: change.new_pem.clone(),
        proof: change.proof.clone(),
        signature: Some(RotationSignature { scheme, signature }.render()),
    };
    let answer = callee.told(Operation::CaRotate, callee.node.rotate(&request).await)?;
    if answer.operator_ca != change.new.fingerprint().to_string() {
        let what = format!("{name}: the node says that it obeys {}", answer.operator_ca);
        return Err(Fault::new(Own::NodeAnswer, what).exit_with(Exit::OutcomeUnknown));
    }
    prove(callee, change).await?;
    Ok(answer)
}

/// Whether a node obeys whom it is to be taken from. One that does not would refuse the signature, with less to say about it.
fn obeys_the_old(name: &str, obeys: Option<&str>, change: &Change) -> Result<(), Fault> {
    let (old, new) = (change.old.fingerprint().to_string(), change.new.fingerprint().to_string());
    match obeys {
        Some(now) if now == new => Err(Fault::new(
            Own::PkiFile,
            format!("{name}: it obeys {new} already, the authority that it was to get"),
        )
        .fix("Nothing is to be done for it.")),
        Some(now) if now != old => Err(Fault::new(
            Own::PkiFile,
            format!("{name}: it obeys {now}, and is to be taken from {old}, which is another authority"),
        )
        .fix(
            "Name the folder of the authority that it obeys: `muster node status` shows which one that is.",
        )),
        _ => Ok(()),
    }
}

/// How often and for how long a node that changed its owner is asked for the new client.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// The new client must be let in, or there is nobody left who is. The node closes its door and opens another one for it, which
/// takes a moment.
async fn prove(callee: &Callee, change: &Change) -> Result<(), Fault> {
    let target = Target { identity: Some(Arc::clone(&change.identity)), ..callee.node.target().clone() };
    let mut last = None;
    for _ in 0..TRIES {
        match Node::new(target.clone()).health().await {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
    let why = last.map(|e| e.to_string()).unwrap_or_default();
    let what = format!(
        "{}: it obeys {} now, and the new client is not let in",
        callee.chosen.name,
        change.new.fingerprint()
    );
    // It was rotated all the same.
    Err(Fault::new(Own::NodeTurnedAway, what).why(why).exit_with(Exit::Failed))
}

/// Hands the list over. The node takes it for the authority's signature, whoever brings it.
pub fn publish(session: &Session, list: &Path, plan: bool, printer: &mut Printer) -> Outcome {
    let bytes = files::read(list, MAX_LIST).map_err(|fault| match fault.code == Own::FileMissing.into() {
        true => fault.fix("Sign a list with `muster pki revoke`."),
        false => fault,
    })?;
    if plan {
        return plan::same(&session.chosen, &format!("get {}", list.display()), printer);
    }
    let bytes = Arc::new(bytes);
    let results = session.each(Operation::CrlUpload, move |callee| {
        let bytes = Arc::clone(&bytes);
        async move { callee.told(Operation::CrlUpload, callee.node.revocation_list(&bytes).await) }
    })?;
    let cells = |a: &ListAnswer| {
        let ends = a.next_update.clone().unwrap_or_else(|| "does not end".to_owned());
        vec![a.status.clone(), a.number.clone(), a.revoked.to_string(), ends]
    };
    show(results, &Shape { columns: &["status", "number", "revoked", "ends"], cells }, printer)
}
