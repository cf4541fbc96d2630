//! What a released node is built into.
//!
//! A [`Distribution`] makes a node that has an owner and knows what to be a member of its cluster. There is one so far: [`None`], which
//! builds nothing, so that a node can be claimed, operated and reset before there is a cluster to join; what is written down about it
//! is the caller's. A distribution keeps no state of its own that a second run would need: a run that was killed begins again.
#![forbid(unsafe_code)]

use muster_document::{Document, Role};

/// What a node is to become: the part of its document that a distribution sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it is in its cluster.
    pub role: Role,
    /// The cluster's name.
    pub cluster: String,
    /// Where the cluster's API server answers, `HOST:PORT`.
    pub endpoint: Option<String>,
    /// The node's own name, where its document gives one.
    pub name: Option<String>,
}

/// A document that names no role describes nothing that could be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the document names no role, so there is nothing to build")]
pub struct NoRole;

impl Plan {
    /// What a document asks for.
    ///
    /// # Errors
    /// It names no role.
    pub fn of(document: &Document) -> Result<Self, NoRole> {
        Ok(Self {
            role: document.role.ok_or(NoRole)?,
            cluster: document.cluster.name.clone(),
            endpoint: document.cluster.endpoint.clone(),
            name: document.node.name.clone(),
        })
    }
}

/// It could not be built. One line: what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CannotBuild(pub String);

/// A way to make a node a member of a cluster.
pub trait Distribution {
    /// As it is written into the node's record.
    fn name(&self) -> &'static str;

    /// Builds it. Called again after a run that failed or was killed, on whatever that one left.
    ///
    /// # Errors
    /// The node is as far as it got; the next run goes on or begins again.
    fn build(&self, plan: &Plan) -> Result<(), CannotBuild>;
}

/// Builds nothing: the node is released, and in no cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct None;

impl Distribution for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn build(&self, _: &Plan) -> Result<(), CannotBuild> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_of_a_document_with_a_role() {
        let read =
            |text: &str| muster_document::read(text, &|_| Ok(())).expect("a document").expect("there is one");
        let plan = Plan::of(&read("role: init\ncluster: {name: edge}\nnode: {name: edge-1}\n"));
        let plan = plan.expect("it names a role");
        assert_eq!(
            (plan.role, plan.cluster.as_str(), plan.name.as_deref()),
            (Role::Init, "edge", Some("edge-1"))
        );
        assert_eq!(plan.endpoint, Option::None);
        assert_eq!(None.build(&plan), Ok(()));
        assert_eq!(Plan::of(&read("api: {enabled: true}\n")), Err(NoRole));
    }
}
