//! The `api:` side: nodes whose API is called, and who calls them.

use super::endpoint::{self, Base};
use crate::codes::Own;
use crate::yaml::Node;
use crate::yaml::walk::Walk;
use muster_client::{DEFAULT_PORT, Endpoint};
use muster_core::{HostName, PoolName};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// A node whose API is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiNode {
    /// Its name here.
    pub name: HostName,
    /// Its line.
    pub line: usize,
    /// Where its API is.
    pub endpoint: Endpoint,
    /// Its pools.
    pub pools: Vec<PoolName>,
    /// For selectors.
    pub labels: BTreeMap<String, String>,
}

/// `defaults.api`: who calls, and whom nodes obey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiDefaults {
    /// Where the API listens unless a node says otherwise.
    pub port: Option<u16>,
    /// A client's certificate.
    pub client: Option<PathBuf>,
    /// Its key; beside the certificate when not said.
    pub key: Option<PathBuf>,
    /// The operators' authority, which a claim hands over.
    pub authority: Option<PathBuf>,
}

/// What a node has of its host.
pub(super) struct Of<'o> {
    pub(super) name: &'o HostName,
    pub(super) line: usize,
    pub(super) pools: &'o [PoolName],
    pub(super) labels: &'o BTreeMap<String, String>,
    /// Where it is logged in to.
    pub(super) address: Option<&'o str>,
}

pub(super) fn defaults(walk: &mut Walk<'_>, node: &Node, base: Base<'_>) -> ApiDefaults {
    let known = ["port", "client", "key", "authority"];
    let Some(f) = walk.fields(node, "defaults.api", &known) else { return ApiDefaults::default() };
    let port = f.get("port").and_then(|n| endpoint::port(walk, n, &f.at("port")));
    let mut path = |key: &str| {
        let text = f.get(key).and_then(|n| walk.text(n, &f.at(key)));
        text.map(|t| base.path(&t))
    };
    ApiDefaults { port, client: path("client"), key: path("key"), authority: path("authority") }
}

pub(super) fn read(
    walk: &mut Walk<'_>,
    node: &Node,
    at: &str,
    of: &Of<'_>,
    default_port: Option<u16>,
) -> Option<ApiNode> {
    let f = walk.fields(node, at, &["address", "port"])?;
    let port = f.get("port").and_then(|n| endpoint::port(walk, n, &f.at("port")));
    let form = "a host name or IP address";
    let address = match (f.get("address"), of.address) {
        (None, Some(address)) => address.to_owned(),
        _ => {
            let node = f.need(walk, "address", form)?;
            walk.value(node, &f.at("address"), form, endpoint::address)?
        }
    };
    // Both were judged before; what an address is to a login it is to the API.
    let endpoint = Endpoint::new(&address, port.or(default_port).unwrap_or(DEFAULT_PORT))?;
    let (pools, labels) = (of.pools.to_vec(), of.labels.clone());
    Some(ApiNode { name: of.name.clone(), line: of.line, endpoint, pools, labels })
}

/// Two names for one node would upgrade it twice at once.
pub(super) fn same_place(walk: &mut Walk<'_>, nodes: &[ApiNode]) {
    let mut seen: HashMap<&Endpoint, &ApiNode> = HashMap::new();
    for node in nodes {
        if let Some(first) = seen.insert(&node.endpoint, node) {
            let what = format!(
                "hosts.{}.api is at the same address and port as hosts.{}.api",
                node.name, first.name
            );
            walk.fault(Own::ConfigValue, node.line, what, Some("Keep one of them.".into()));
        }
    }
}
