//! From YAML to a [`Document`], with every fault at once.

use crate::document::{
    Api, Cluster, Document, Effect, Join, Mode, Network, NodeSettings, OperatorCa, Role, Taint,
};
use crate::keys::{self, names};
use crate::secret::Secret;
use crate::values::{self, Cidr, LONGEST_WAIT, Place, SecretSource};
use crate::walk::{Fields, duration};
use crate::yaml::{self, Fault, Kind, Node, Reason};
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};

/// The key that the document stands under in a cloud-config.
pub const BLOCK: &str = "muster";

/// Longest document.
const MAX_BYTES: usize = 1024 * 1024;
const DEFAULT_PORT: u16 = 7443;

/// Judges the certificate of an authority, as PEM text, and says why it will not do: none or two of them, a private key beside
/// it, no authority, ended. Certificates and clocks are not this crate's.
pub type AuthorityCheck<'c> = &'c dyn Fn(&str) -> Result<(), String>;

type Walk = crate::walk::Walk<Reason>;

/// Reads a document that stands under `muster:` or alone. `None`: there is none in this text.
pub fn read(text: &str, check: AuthorityCheck<'_>) -> Result<Option<Document>, Vec<Fault>> {
    bounded(text)?;
    match yaml::parse_block(text, BLOCK).map_err(one)? {
        Some(node) => document(&node, check),
        None => document(&yaml::parse(text).map_err(one)?, check),
    }
}

/// Reads the block under `muster:` of a text that is otherwise somebody else's.
pub fn read_embedded(text: &str, check: AuthorityCheck<'_>) -> Result<Option<Document>, Vec<Fault>> {
    bounded(text)?;
    match yaml::parse_block(text, BLOCK).map_err(one)? {
        Some(node) => document(&node, check),
        None => Ok(None),
    }
}

fn bounded(text: &str) -> Result<(), Vec<Fault>> {
    if text.len() <= MAX_BYTES {
        return Ok(());
    }
    Err(one(Fault::new(
        Reason::Limits,
        0,
        format!("the document has {} bytes, {MAX_BYTES} are taken", text.len()),
    )))
}

fn one(fault: Fault) -> Vec<Fault> {
    vec![fault]
}

fn document(root: &Node, check: AuthorityCheck<'_>) -> Result<Option<Document>, Vec<Fault>> {
    if root.kind == Kind::Null {
        return Ok(None);
    }
    let mut reader = Reader { walk: Walk::default(), check };
    let read = reader.top(root);
    let faults = reader.walk.finish();
    match read {
        Some(document) if faults.is_empty() => Ok(Some(document)),
        _ if faults.is_empty() => {
            Err(one(Fault::new(Reason::Type, root.line, "the document was refused without a reason")))
        }
        _ => Err(faults),
    }
}

struct Reader<'c> {
    walk: Walk,
    check: AuthorityCheck<'c>,
}

impl Reader<'_> {
    fn top(&mut self, root: &Node) -> Option<Document> {
        let top = self.walk.fields(root, "the document", &names(keys::TOP))?;
        let role = top.get("role").and_then(|n| self.word(n, "role", keys::ROLES, Role::of));
        let block = |reader: &mut Self, key, known| {
            top.get(key).and_then(|n| reader.walk.fields(n, key, &names(known)))
        };
        let cluster = block(self, "cluster", keys::CLUSTER);
        let join = block(self, "join", keys::JOIN);
        let network = block(self, "network", keys::NETWORK);
        let node = block(self, "node", keys::NODE);
        let api = block(self, "api", keys::API);
        let document = Document {
            role,
            cluster: self.cluster(cluster.as_ref()),
            join: self.join(join.as_ref()),
            network: self.network(network.as_ref()),
            node: self.node(node.as_ref()),
            api: self.api(api.as_ref()),
        };
        let lines = Lines {
            top: root.line,
            role: top.get("role").map(|n| n.line),
            join: join.as_ref().map(Fields::line),
            api: api.as_ref().map(Fields::line),
            names_authority: api
                .as_ref()
                .is_some_and(|a| a.get("operatorCA").or(a.get("operatorCAFrom")).is_some()),
        };
        // Only of a role that was read: one that is mistyped is told already.
        if role.is_some() || lines.role.is_none() {
            self.together(&document, &lines, &join);
        }
        Some(document)
    }

    /// What follows from several keys together.
    fn together(&mut self, document: &Document, lines: &Lines, join: &Option<Fields<'_>>) {
        let api_line = lines.api.unwrap_or(lines.top);
        // An authority that will not do is told already; it still shows what was meant.
        let mode = if lines.names_authority { Mode::Configured } else { document.mode() };
        if document.api.enabled == Some(false) && lines.names_authority {
            let what = "api names an operator CA and enabled: false, which contradict each other";
            self.value(api_line, what, "Take one of them out.");
        }
        if document.api.insecure && mode != Mode::Maintenance {
            let what = "api.insecure has no meaning here: nobody claims this node";
            self.value(api_line, what, "Take it out, or write enabled: true without an operator CA.");
        }
        if document.api.await_config && mode == Mode::Disabled {
            let what = "api.awaitConfig waits for a document that could never come, since the API is off";
            self.value(api_line, what, "Write enabled: true or name an operator CA.");
        }
        if document.role.is_none() && mode == Mode::Disabled {
            let what = "the document names no role and leaves the API off: nobody could ever tell the node";
            let fix = format!(
                "Add role: ({}), or api: with enabled: true or an operator CA.",
                keys::ROLES.join(", ")
            );
            self.walk.fault(Reason::Missing, lines.top, what, Some(fix));
        }
        let joins = matches!(document.role, Some(Role::ControlPlane | Role::Worker));
        let line = lines.join.or(lines.role).unwrap_or(lines.top);
        // A token that is there and does not do is told already.
        let named = |key| join.as_ref().is_some_and(|j| j.get(key).is_some());
        if joins {
            let role = document.role.map_or("", Role::as_str);
            if !named("token") && !named("tokenFrom") {
                let what = format!("role {role} joins a cluster and has no token");
                self.walk.fault(
                    Reason::Missing,
                    line,
                    what,
                    Some("Add token: or tokenFrom: under join.".into()),
                );
            }
            if !named("caCertHashes") {
                let what = format!(
                    "role {role} joins a cluster and has no caCertHashes: it would obey whoever answers"
                );
                let fix =
                    "Add caCertHashes: under join, as `kubeadm token create --print-join-command` prints it.";
                self.walk.fault(Reason::Missing, line, what, Some(fix.into()));
            }
            if document.cluster.endpoint.is_none() {
                let what = format!("role {role} joins a cluster and has no endpoint");
                self.walk.fault(
                    Reason::Missing,
                    line,
                    what,
                    Some("Add endpoint: HOST:PORT under cluster.".into()),
                );
            }
        }
        if document.role == Some(Role::Init) && join.is_some() {
            self.value(
                line,
                "role init makes a cluster and joins none",
                "Take join: out, or choose another role.",
            );
        }
    }

    fn value(&mut self, line: usize, what: impl Into<String>, fix: &str) {
        self.walk.fault(Reason::Value, line, what, Some(fix.to_owned()));
    }

    fn word<T>(
        &mut self,
        node: &Node,
        at: &str,
        words: &[&str],
        of: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.walk.text(node, at)?;
        let found = of(&text);
        if found.is_none() {
            let near = yaml::nearest(&text, words.iter().copied())
                .map(|w| format!("Did you mean {w}? "))
                .unwrap_or_default();
            let what = format!("{at} is {:?}", crate::walk::short(&text));
            self.value(node.line, what, &format!("{near}Write one of: {}.", words.join(", ")));
        }
        found
    }

    fn texts(
        &mut self,
        node: Option<&Node>,
        at: &str,
        form: &str,
        good: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let Some(node) = node else { return Vec::new() };
        let one = |walk: &mut Walk, n| walk.value(n, at, form, |t| good(t).then(|| t.to_owned()));
        self.walk.many(node).iter().filter_map(|n| one(&mut self.walk, n)).collect()
    }

    fn networks(&mut self, node: Option<&Node>, at: &str) -> Vec<Cidr> {
        let Some(node) = node else { return Vec::new() };
        self.walk.many(node).iter().filter_map(|n| self.walk.parsed(n, at)).collect()
    }

    fn flag(&mut self, block: &Fields<'_>, key: &str) -> Option<bool> {
        block.get(key).and_then(|n| self.walk.flag(n, &block.at(key)))
    }

    fn cluster(&mut self, block: Option<&Fields<'_>>) -> Cluster {
        let mut cluster =
            Cluster { name: "kubernetes".into(), endpoint: None, subject_alt_names: Vec::new() };
        let Some(block) = block else { return cluster };
        let label = "lower-case letters, digits and hyphens, at most 63";
        if let Some(name) = block.get("name").and_then(|n| {
            self.walk.value(n, "cluster.name", label, |t| values::is_node_name(t).then(|| t.to_owned()))
        }) {
            cluster.name = name;
        }
        cluster.endpoint = block.get("endpoint").and_then(|n| {
            self.walk.value(n, "cluster.endpoint", "HOST or HOST:PORT, IPv6 in brackets", |t| {
                let (host, port) = values::split_host(t)?;
                let brackets = host.contains(':');
                let (open, close) = if brackets { ("[", "]") } else { ("", "") };
                Some(format!("{open}{host}{close}:{}", port.unwrap_or(6443)))
            })
        });
        let names = "names or addresses, without a port";
        cluster.subject_alt_names =
            self.texts(block.get("subjectAltNames"), "cluster.subjectAltNames", names, values::is_alt_name);
        cluster
    }

    fn join(&mut self, block: Option<&Fields<'_>>) -> Join {
        let Some(block) = block else { return Join::default() };
        let token = block.get("token").and_then(|node| {
            let text = self.walk.text(node, "join.token")?;
            if !values::is_token(&text) {
                // Never quoted: what is nearly a token may be one.
                self.value(
                    node.line,
                    "join.token is no bootstrap token",
                    "Write it as `kubeadm token create` prints it: six, a dot, sixteen.",
                );
                return None;
            }
            Some(Secret::new(text))
        });
        let token_from = block.get("tokenFrom").and_then(|n| self.source(n, "join.tokenFrom"));
        if block.get("token").is_some() && block.get("tokenFrom").is_some() {
            self.value(block.line(), "join has both token and tokenFrom", "Keep one of them.");
        }
        let form = "sha256: and 64 lower-case hex digits";
        let ca_cert_hashes =
            self.texts(block.get("caCertHashes"), "join.caCertHashes", form, values::is_ca_hash);
        Join { token, token_from, ca_cert_hashes }
    }

    fn network(&mut self, block: Option<&Fields<'_>>) -> Network {
        let get = |key| block.and_then(|b| b.get(key));
        let mut read = |key, at: &'static str, default: &str| {
            let found = self.networks(get(key), at);
            let families = |v6| found.iter().filter(|c| c.address().is_ipv6() == v6).count();
            if families(true) > 1 || families(false) > 1 {
                let line = get(key).map_or(0, |n| n.line);
                self.value(
                    line,
                    format!("{at} has two networks of one family"),
                    "Keep one, or one of each family.",
                );
            }
            match get(key) {
                None => default.parse().into_iter().collect(),
                Some(_) => found,
            }
        };
        let network = Network {
            pod_cidr: read("podCIDR", "network.podCIDR", "10.244.0.0/16"),
            service_cidr: read("serviceCIDR", "network.serviceCIDR", "10.96.0.0/12"),
        };
        let pairs = network.pod_cidr.iter().flat_map(|p| network.service_cidr.iter().map(move |s| (p, s)));
        let line = block.map_or(0, Fields::line);
        for (pod, service) in pairs.filter(|(p, s)| p.overlaps(s)) {
            self.value(
                line,
                format!("network.podCIDR {pod} and network.serviceCIDR {service} overlap"),
                "Choose networks that share no address.",
            );
        }
        network
    }

    fn node(&mut self, block: Option<&Fields<'_>>) -> NodeSettings {
        let Some(block) = block else { return NodeSettings::default() };
        let label = "one label: lower-case letters, digits and hyphens, at most 63";
        let name = block.get("name").and_then(|n| {
            self.walk.value(n, "node.name", label, |t| values::is_node_name(t).then(|| t.to_owned()))
        });
        let entries =
            block.get("labels").and_then(|n| self.walk.entries(n, "node.labels")).unwrap_or_default();
        let mut labels = BTreeMap::new();
        for entry in entries {
            if !values::is_label_key(&entry.key) {
                let what = format!("node.labels has the key {:?}", crate::walk::short(&entry.key));
                self.value(entry.line, what, "Write [PREFIX/]NAME as Kubernetes takes it.");
            }
            let value = self.walk.value(
                &entry.value,
                "a label's value",
                "at most 63 letters, digits, dots, hyphens and underscores",
                |t| values::is_label_value(t).then(|| t.to_owned()),
            );
            labels.extend(value.map(|v| (entry.key.clone(), v)));
        }
        let rows = block.get("taints").map(|n| self.walk.many(n)).unwrap_or_default();
        let taints = rows.iter().filter_map(|row| self.taint(row)).collect();
        NodeSettings { name, labels, taints }
    }

    fn taint(&mut self, row: &Node) -> Option<Taint> {
        let row = self.walk.fields(row, "node.taints", &names(keys::TAINT))?;
        let key = row.need(&mut self.walk, "key", "a key as Kubernetes takes it").and_then(|n| {
            self.walk.value(n, "node.taints.key", "[PREFIX/]NAME", |t| {
                values::is_label_key(t).then(|| t.to_owned())
            })
        });
        let effect = row
            .need(&mut self.walk, "effect", &keys::EFFECTS.join(", "))
            .and_then(|n| self.word(n, "node.taints.effect", keys::EFFECTS, Effect::of));
        let value = row.get("value").map(|n| {
            self.walk.value(n, "node.taints.value", "a value as labels have it", |t| {
                values::is_label_value(t).then(|| t.to_owned())
            })
        });
        let value = value.unwrap_or_else(|| Some(String::new()));
        Some(Taint { key: key?, value: value?, effect: effect? })
    }

    fn api(&mut self, block: Option<&Fields<'_>>) -> Api {
        let mut api = Api {
            enabled: None,
            operator_ca: None,
            insecure: false,
            await_config: false,
            listen: SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT)),
            proof_required: false,
            enrol_from: Vec::new(),
        };
        let Some(block) = block else { return api };
        api.enabled = self.flag(block, "enabled");
        api.insecure = self.flag(block, "insecure").unwrap_or(false);
        api.await_config = self.flag(block, "awaitConfig").unwrap_or(false);
        api.operator_ca = self.operator_ca(block);
        if let Some(listen) = block.get("listen").and_then(|n| {
            self.walk.value(n, "api.listen", "ADDRESS:PORT, IPv6 in brackets", |t| {
                t.parse().ok().filter(|a: &SocketAddr| a.port() != 0)
            })
        }) {
            api.listen = listen;
        }
        let proof = block.get("proof").and_then(|n| {
            self.word(n, "api.proof", keys::PROOFS, |t| keys::PROOFS.contains(&t).then(|| t == "required"))
        });
        api.proof_required = proof.unwrap_or(false);
        api.enrol_from = self.networks(block.get("enrolFrom"), "api.enrolFrom");
        api
    }

    fn operator_ca(&mut self, block: &Fields<'_>) -> Option<OperatorCa> {
        let inline = block.get("operatorCA");
        let from = block.get("operatorCAFrom");
        if inline.is_some() && from.is_some() {
            self.value(block.line(), "api has both operatorCA and operatorCAFrom", "Keep one of them.");
        }
        if let Some(node) = inline {
            let pem = self.walk.text(node, "api.operatorCA")?;
            match (self.check)(&pem) {
                Ok(()) => return Some(OperatorCa::Inline(pem)),
                Err(why) => self.value(
                    node.line,
                    format!("api.operatorCA will not do: {why}"),
                    "Give the one certificate that `muster pki init` wrote.",
                ),
            }
        }
        from.and_then(|n| self.source(n, "api.operatorCAFrom")).map(OperatorCa::From)
    }

    fn source(&mut self, node: &Node, at: &'static str) -> Option<SecretSource> {
        let source = self.walk.fields(node, at, &names(keys::SOURCE))?;
        let path = |walk: &mut Walk, key| {
            source.get(key).and_then(|n| {
                walk.value(n, &source.at(key), "an absolute path", |t| {
                    (t.starts_with('/') && !t.contains('\0')).then(|| t.to_owned())
                })
            })
        };
        let (file, auth_file) = (path(&mut self.walk, "file"), path(&mut self.walk, "authFile"));
        let url = source.get("url").and_then(|n| {
            let text = self.walk.text(n, &source.at("url"))?;
            match values::not_a_url(&text) {
                None => Some(text),
                Some(why) => {
                    // Not quoted: it may hold a password.
                    self.value(n.line, format!("{at}.url will not do: {why}"), "Write https://HOST/PATH.");
                    None
                }
            }
        });
        let wait_for = source.get("waitFor").and_then(|n| {
            self.walk.value(n, &source.at("waitFor"), "a time such as 90s or 15m, at most 1h", |t| {
                duration(t).map(Duration::from_secs).filter(|d| *d <= LONGEST_WAIT)
            })
        });
        match (source.get("url").is_some(), source.get("file").is_some()) {
            (true, true) => {
                self.value(source.line(), format!("{at} has both url and file"), "Keep one of them.")
            }
            (false, false) => {
                let fix = "Add url: https://… or file: /….".to_owned();
                self.walk.fault(Reason::Missing, source.line(), format!("{at} names no place"), Some(fix));
            }
            _ => {}
        }
        if auth_file.is_some() && source.get("url").is_none() {
            self.value(source.line(), format!("{at}.authFile goes with a url only"), "Take it out.");
        }
        let place = url.map(|url| Place::Url { url, auth_file }).or(file.map(Place::File))?;
        Some(SecretSource { place, wait_for, reached_through: at })
    }
}

struct Lines {
    top: usize,
    role: Option<usize>,
    join: Option<usize>,
    api: Option<usize>,
    names_authority: bool,
}
