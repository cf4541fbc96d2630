//! From YAML to an [`Inventory`].

use super::api::{self, ApiDefaults, ApiNode};
use super::endpoint::{self, Base, Defaults, read_defaults, read_endpoint};
use super::provisioning::{self, Provisioning};
use super::{Admin, Endpoint, ExecMode, Host, Inventory, Trust, Var, VarValue};
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::shell::is_carried;
use crate::signer::Choice;
use crate::yaml::walk::{Fields, Walk};
use crate::yaml::{self, Kind, Node};
use muster_core::HostName;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const TOP: [&str; 6] = ["muster-inventory", "trust", "signing", "defaults", "bastions", "hosts"];
const HOST: [&str; 9] =
    ["ssh", "admin", "api", "pools", "labels", "vars", "exec-mode", "envelope", "provision"];

pub(super) fn parse(text: &str, file: &Path, home: Option<&Path>) -> Result<Inventory, Faults> {
    let root = yaml::parse(text, file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut reader = Reader { walk: Walk::new(file), base: Base { folder, home }, nodes: Vec::new() };
    let inventory = reader.inventory(&root, file);
    Faults::check(reader.walk.finish())?;
    inventory.ok_or_else(|| {
        Fault::new(Own::Fault, "the inventory was refused without a reason").at(file, 0).into()
    })
}

struct Reader<'f> {
    walk: Walk<'f>,
    base: Base<'f>,
    nodes: Vec<ApiNode>,
}

#[derive(Default)]
struct HostDefaults {
    ssh: Defaults,
    api: ApiDefaults,
    admin: Admin,
    vars: Vec<(String, usize, VarSource)>,
    envelope: Option<u8>,
    provision: Provisioning,
}

#[derive(Clone)]
enum VarSource {
    Plain(String),
    File(PathBuf),
    /// The host's own name.
    Name,
    /// Its address.
    Address,
}

impl Reader<'_> {
    fn inventory(&mut self, root: &Node, file: &Path) -> Option<Inventory> {
        let top = self.walk.fields(root, "the inventory", &TOP)?;
        if let Some(n) = top.get("muster-inventory") {
            self.walk
                .value(n, "muster-inventory", "1, the only version there is", |t| (t == "1").then_some(()));
        }
        let trust = top.get("trust").map(|n| self.trust(n)).unwrap_or_default();
        let signing = top.get("signing").and_then(|n| self.signing(n));
        let defaults = top.get("defaults").map(|n| self.defaults(n)).unwrap_or_default();
        let bastions = top.get("bastions").map(|n| self.bastions(n, &defaults.ssh)).unwrap_or_default();
        let hosts = top.get("hosts").map(|n| self.hosts(n, &defaults)).unwrap_or_default();
        for host in &hosts {
            for hop in host.ssh.via.iter().filter(|h| !bastions.contains_key(*h)) {
                let near = yaml::nearest(hop, bastions.keys().map(String::as_str));
                let fix =
                    near.map_or("Add it under bastions:.".to_owned(), |n| format!("Did you mean {n:?}?"));
                let what =
                    format!("hosts.{}.ssh.via names the bastion {hop:?}, which is not there", host.name);
                self.walk.fault(Own::ConfigValue, host.ssh.line, what, Some(fix));
            }
        }
        self.same_place(&hosts);
        let nodes = core::mem::take(&mut self.nodes);
        api::same_place(&mut self.walk, &nodes);
        Some(Inventory { file: file.to_owned(), trust, signing, bastions, hosts, nodes, api: defaults.api })
    }

    /// Two names for one login would run two phases on one machine at once.
    fn same_place(&mut self, hosts: &[Host]) {
        let mut seen: HashMap<(&str, u16, &[String]), &Host> = HashMap::new();
        for host in hosts {
            let place = (host.ssh.address.as_str(), host.ssh.port, host.ssh.via.as_slice());
            if let Some(first) = seen.insert(place, host) {
                let what =
                    format!("hosts.{} is at the same address and port as hosts.{}", host.name, first.name);
                self.walk.fault(Own::ConfigValue, host.line, what, Some("Keep one of them.".into()));
            }
        }
    }

    fn path(&mut self, f: &Fields<'_>, key: &str) -> Option<PathBuf> {
        let node = f.get(key)?;
        let text = self.walk.text(node, &f.at(key))?;
        Some(self.base.path(&text))
    }

    fn trust(&mut self, node: &Node) -> Trust {
        let known = ["allowed-signers", "revoked-signers", "signers-needed"];
        let Some(f) = self.walk.fields(node, "trust", &known) else { return Trust::default() };
        let signers_needed = f.get("signers-needed").and_then(|n| {
            let form = "a whole number from 1 to 8";
            self.walk
                .value(n, "trust.signers-needed", form, |t| t.parse().ok().filter(|n| (1..=8).contains(n)))
        });
        Trust {
            allowed_signers: self.path(&f, "allowed-signers"),
            revoked_signers: self.path(&f, "revoked-signers"),
            signers_needed,
        }
    }

    fn signing(&mut self, node: &Node) -> Option<Choice> {
        let f = self.walk.fields(node, "signing", &["key", "agent"])?;
        let agent = f.get("agent").and_then(|n| self.walk.text(n, "signing.agent"));
        match (self.path(&f, "key"), agent) {
            (Some(key), None) => Some(Choice::File(key)),
            (None, Some(which)) => Some(Choice::Agent(which)),
            _ => {
                let fix = Some("Write `key: PATH` or `agent: SHA256:…`.".into());
                self.walk.fault(Own::ConfigValue, f.line(), "signing names no one key", fix);
                None
            }
        }
    }

    fn defaults(&mut self, node: &Node) -> HostDefaults {
        let known = ["ssh", "api", "admin", "vars", "envelope", "provision"];
        let Some(f) = self.walk.fields(node, "defaults", &known) else { return HostDefaults::default() };
        HostDefaults {
            ssh: f.get("ssh").map(|n| read_defaults(&mut self.walk, n, self.base)).unwrap_or_default(),
            api: f.get("api").map(|n| api::defaults(&mut self.walk, n, self.base)).unwrap_or_default(),
            admin: f
                .get("admin")
                .map(|n| self.admin(n, "defaults.admin", &Admin::default()))
                .unwrap_or_default(),
            vars: f.get("vars").map(|n| self.vars(n, "defaults.vars")).unwrap_or_default(),
            envelope: f.get("envelope").and_then(|n| self.envelope(n, "defaults.envelope")),
            provision: self.provision(&f),
        }
    }

    fn bastions(&mut self, node: &Node, defaults: &Defaults) -> BTreeMap<String, Endpoint> {
        let mut out = BTreeMap::new();
        // A bastion is never behind itself: the chain of hops stands at the host.
        let defaults = Defaults { via: Vec::new(), ..defaults.clone() };
        for e in self.walk.entries(node, "bastions").unwrap_or_default() {
            let at = format!("bastions.{}", e.key);
            if let Some(end) = read_endpoint(&mut self.walk, &e.value, (&e.key, &at), &defaults, self.base) {
                if !end.via.is_empty() {
                    let fix = "List the whole chain in the host's via, first hop first.";
                    self.walk.fault(
                        Own::ConfigKey,
                        e.line,
                        format!("{at} has a via of its own"),
                        Some(fix.into()),
                    );
                }
                out.insert(e.key.clone(), end);
            }
        }
        out
    }

    fn hosts(&mut self, node: &Node, defaults: &HostDefaults) -> Vec<Host> {
        let mut out = Vec::new();
        for e in self.walk.entries(node, "hosts").unwrap_or_default() {
            match HostName::new(&e.key) {
                Ok(name) => out.extend(self.host(name, e.line, &e.value, defaults)),
                Err(bad) => self.walk.fault(Own::ConfigValue, e.line, bad.to_string(), None),
            }
        }
        out
    }

    fn host(&mut self, name: HostName, line: usize, node: &Node, defaults: &HostDefaults) -> Option<Host> {
        let at = format!("hosts.{name}");
        let f = self.walk.fields(node, &at, &HOST)?;
        // Who is reached by the API alone has no login.
        let ssh = match (f.get("ssh"), f.get("api")) {
            (None, Some(_)) => None,
            _ => f.need(&mut self.walk, "ssh", "at least an address").and_then(|n| {
                read_endpoint(&mut self.walk, n, (name.as_str(), &f.at("ssh")), &defaults.ssh, self.base)
            }),
        };
        let admin = match f.get("admin") {
            Some(n) => self.admin(n, &f.at("admin"), &defaults.admin),
            None => defaults.admin.clone(),
        };
        let pools = f.get("pools").map(|n| self.pools(n, &f.at("pools"))).unwrap_or_default();
        let labels = f.get("labels").map(|n| self.labels(n, &f.at("labels"))).unwrap_or_default();
        let own = f.get("vars").map(|n| self.vars(n, &f.at("vars"))).unwrap_or_default();
        let exec_mode = f.get("exec-mode").and_then(|n| {
            self.walk.value(n, &f.at("exec-mode"), "verified or raw", |t| match t {
                "verified" => Some(ExecMode::Verified),
                "raw" => Some(ExecMode::Raw),
                _ => None,
            })
        });
        let envelope = f.get("envelope").and_then(|n| self.envelope(n, &f.at("envelope")));
        let provision = self.provision(&f).over(&defaults.provision);
        if let Some(node) = f.get("api") {
            let address = ssh.as_ref().map(|s| s.address.as_str());
            let of = api::Of { name: &name, line, pools: &pools, labels: &labels, address };
            self.nodes.extend(api::read(&mut self.walk, node, &f.at("api"), &of, defaults.api.port));
        }
        let ssh = ssh?;
        let vars = merge(&defaults.vars, own, &name, &ssh.address);
        Some(Host {
            line,
            ssh,
            admin,
            pools,
            labels,
            vars,
            exec_mode: exec_mode.unwrap_or_default(),
            envelope: envelope.or(defaults.envelope).unwrap_or(2),
            provision,
            name,
        })
    }

    fn envelope(&mut self, node: &Node, at: &str) -> Option<u8> {
        self.walk.value(node, at, "1 or 2", |t| t.parse().ok().filter(|v| matches!(v, 1 | 2)))
    }

    fn provision(&mut self, f: &Fields<'_>) -> Provisioning {
        let read = |n| provisioning::read(&mut self.walk, n, &f.at("provision"), self.base);
        f.get("provision").map(read).unwrap_or_default()
    }

    fn admin(&mut self, node: &Node, at: &str, defaults: &Admin) -> Admin {
        let Some(f) = self.walk.fields(node, at, &["user", "identities"]) else { return Admin::default() };
        let user = f.get("user").and_then(|n| endpoint::user(&mut self.walk, n, &f.at("user")));
        let identities = match f.get("identities") {
            Some(n) => endpoint::identities(&mut self.walk, n, &f.at("identities"), self.base),
            None => defaults.identities.clone(),
        };
        Admin { user: user.or_else(|| defaults.user.clone()), identities }
    }

    fn pools(&mut self, node: &Node, at: &str) -> Vec<muster_core::PoolName> {
        let items = self.walk.many(node);
        items.iter().filter_map(|i| self.walk.parsed(i, at)).collect()
    }

    fn labels(&mut self, node: &Node, at: &str) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        for e in self.walk.entries(node, at).unwrap_or_default() {
            let word = |t: &str| {
                !t.is_empty()
                    && t.len() <= 63
                    && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b))
            };
            if !word(&e.key) {
                let fix = Some("Use letters, digits, `.`, `_`, `/`, `-`.".into());
                self.walk.fault(Own::ConfigValue, e.line, format!("{at} has the label {:?}", e.key), fix);
                continue;
            }
            let form = "1 to 63 letters, digits, `.`, `_`, `/`, `-`";
            let value = self
                .walk
                .value(&e.value, &format!("{at}.{}", e.key), form, |t| word(t).then(|| t.to_owned()));
            out.extend(value.map(|v| (e.key.clone(), v)));
        }
        out
    }

    fn var_source(&mut self, f: &Fields<'_>, at: &str) -> Option<VarSource> {
        match (f.get("secret-file"), f.get("from")) {
            (Some(_), None) => self.path(f, "secret-file").map(VarSource::File),
            (None, Some(n)) => self.walk.value(n, &f.at("from"), "name or address", |t| match t {
                "name" => Some(VarSource::Name),
                "address" => Some(VarSource::Address),
                _ => None,
            }),
            _ => {
                let fix = "Write a text, {secret-file: PATH}, {from: name} or {from: address}.";
                self.walk.fault(
                    Own::ConfigValue,
                    f.line(),
                    format!("{at} names no one source"),
                    Some(fix.into()),
                );
                None
            }
        }
    }

    fn vars(&mut self, node: &Node, at: &str) -> Vec<(String, usize, VarSource)> {
        let mut out = Vec::new();
        for e in self.walk.entries(node, at).unwrap_or_default() {
            if !is_carried(&e.key) || !e.key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                let fix = Some("Use MUSTER_ or KPSSH_ and letters, digits, underscores.".into());
                self.walk.fault(Own::ConfigValue, e.line, format!("{at} has the name {:?}", e.key), fix);
                continue;
            }
            let at = format!("{at}.{}", e.key);
            let source = match &e.value.kind {
                Kind::Map(_) => {
                    let Some(f) = self.walk.fields(&e.value, &at, &["secret-file", "from"]) else { continue };
                    self.var_source(&f, &at)
                }
                _ => {
                    let form = "one line of text";
                    let value = self.walk.value(&e.value, &at, form, |t| {
                        (!t.contains(['\0', '\n', '\r'])).then(|| t.to_owned())
                    });
                    value.map(VarSource::Plain)
                }
            };
            out.extend(source.map(|s| (e.key.clone(), e.line, s)));
        }
        out
    }
}

fn merge(
    defaults: &[(String, usize, VarSource)],
    own: Vec<(String, usize, VarSource)>,
    name: &HostName,
    address: &str,
) -> Vec<Var> {
    let mut all: BTreeMap<String, (usize, VarSource)> = BTreeMap::new();
    for (name, line, source) in defaults.iter().cloned().chain(own) {
        all.insert(name, (line, source));
    }
    let value = |source| match source {
        VarSource::Plain(text) => VarValue::Plain(text),
        VarSource::File(path) => VarValue::SecretFile(path),
        VarSource::Name => VarValue::Plain(name.to_string()),
        VarSource::Address => VarValue::Plain(address.to_owned()),
    };
    all.into_iter().map(|(name, (line, source))| Var { name, line, value: value(source) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn read(text: &str) -> Result<Inventory, Vec<String>> {
        Inventory::parse(text, Path::new("fleet/inventory.yaml"), Some(Path::new("/home/o")))
            .map_err(|f| f.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_whole_one() {
        let inv = read(&format!(
            "muster-inventory: 1\ntrust: {{allowed-signers: trust/allowed_signers, signers-needed: 2}}\n\
             signing: {{agent: \"SHA256:x\"}}\n\
             defaults:\n  ssh: {{user: pool, identities: [~/.ssh/c, agent]}}\n  vars: {{MUSTER_A: x, MUSTER_B: y, MUSTER_NODE_NAME: {{from: name}}, MUSTER_IP: {{from: address}}}}\n\
             bastions:\n  gate: {{address: 192.0.2.1, user: jump, host-key: {KEY}}}\n\
             hosts:\n  edge-1:\n    ssh:\n      address: \"[2001:db8::1]\"\n      via: gate\n    pools: edge\n    labels: {{site: berlin}}\n    \
             vars: {{MUSTER_B: z, MUSTER_T: {{secret-file: tok}}}}\n  old:\n    ssh: {{address: a, port: 2222}}\n    exec-mode: raw\n    envelope: 1\n"
        ))
        .unwrap();
        let host = inv.host("edge-1").unwrap();
        assert_eq!(host.ssh.user, "pool");
        assert_eq!(
            host.ssh.identities[0],
            endpoint::Identity::File { key: "/home/o/.ssh/c".into(), certificate: None }
        );
        assert_eq!(inv.route(host).iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["gate", "edge-1"]);
        assert_eq!(
            host.vars.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(),
            ["MUSTER_A", "MUSTER_B", "MUSTER_IP", "MUSTER_NODE_NAME", "MUSTER_T"]
        );
        assert!(matches!(&host.vars[2].value, VarValue::Plain(t) if t == "2001:db8::1"));
        assert!(matches!(&host.vars[3].value, VarValue::Plain(t) if t == "edge-1"));
        assert!(matches!(&host.vars[4].value, VarValue::SecretFile(p) if p == Path::new("fleet/tok")));
        assert_eq!(host.exec_mode, ExecMode::Verified);
        assert_eq!(inv.host("old").unwrap().exec_mode, ExecMode::Raw);
        assert_eq!(inv.trust.allowed_signers.as_deref(), Some(Path::new("fleet/trust/allowed_signers")));
        assert!(inv.host("edge-2").unwrap_err().to_string().contains("Did you mean \"edge-1\"?"));
    }

    #[test]
    fn every_fault_with_its_line_and_the_nearest_key() {
        for (text, wants) in [
            ("host: {}\n", vec![":1: unknown key \"host\" in the inventory. Did you mean \"hosts\"?"]),
            (
                "hosts:\n  a:\n    ssh: {adress: b, prot: 1}\n",
                vec![
                    ":3: unknown key \"adress\" in hosts.a.ssh. Did you mean \"address\"?",
                    ":3: unknown key \"prot\"",
                    ":3: hosts.a.ssh has no \"address\"",
                ],
            ),
            ("hosts:\n  A_b: {ssh: {address: a}}\n", vec![":2: host name \"A_b\""]),
            (
                "hosts:\n  a: {ssh: {address: root@b, port: 0, user: \"x y\"}}\n",
                vec![
                    ":2: hosts.a.ssh.address is \"root@b\"",
                    ":2: hosts.a.ssh.user",
                    ":2: hosts.a.ssh.port is \"0\"",
                ],
            ),
            ("hosts:\n  a: {ssh: {address: b, host-key: \"SHA256:zz\"}}\n", vec![":2: hosts.a.ssh.host-key"]),
            (
                "hosts:\n  a: {ssh: {address: b, via: gate}}\n",
                vec![":2: hosts.a.ssh.via names the bastion \"gate\""],
            ),
            (
                "hosts:\n  a: {ssh: {address: b}}\n  c: {ssh: {address: b}}\n",
                vec![":3: hosts.c is at the same address and port as hosts.a"],
            ),
            ("hosts:\n  a: {ssh: {address: b}, exec-mode: Raw}\n", vec![":2: hosts.a.exec-mode is \"Raw\""]),
            ("defaults: {exec-mode: raw}\n", vec![":1: unknown key \"exec-mode\" in defaults"]),
            (
                "hosts:\n  a: {ssh: {address: b}, api: {prot: 1}}\n",
                vec![":2: unknown key \"prot\" in hosts.a.api"],
            ),
            ("hosts:\n  a: {api: {port: 1}}\n", vec![":2: hosts.a.api has no \"address\""]),
            (
                "hosts:\n  a: {api: {address: b}}\n  c: {api: {address: b}}\n",
                vec![":3: hosts.c.api is at the same address and port as hosts.a.api"],
            ),
            (
                "hosts:\n  a: {ssh: {address: b}, vars: {PATH: x, MUSTER_A: {file: x}}}\n",
                vec![
                    ":2: hosts.a.vars has the name \"PATH\"",
                    ":2: unknown key \"file\"",
                    ":2: hosts.a.vars.MUSTER_A names no one source",
                ],
            ),
            ("bastions:\n  g: {address: a, via: h}\n", vec![":2: bastions.g has a via of its own"]),
            ("signing: {key: a, agent: b}\n", vec![":1: signing names no one key"]),
            ("muster-inventory: 2\n", vec![":1: muster-inventory is \"2\""]),
        ] {
            let got = read(text).unwrap_err();
            assert_eq!(got.len(), wants.len(), "{text}: {got:#?}");
            for (g, w) in got.iter().zip(wants) {
                assert!(g.contains(w), "{text}: {g}");
            }
        }
    }

    #[test]
    fn cl5_a_large_inventory_is_read() {
        let mut text = String::from("hosts:\n");
        for i in 0..40_000 {
            text.push_str(&format!("  h{i}:\n    ssh:\n      address: 10.{}.{}.{}\n    pools: [edge, pool-{}]\n    labels: {{site: berlin-{}, rack: r{}}}\n", i / 65536, i / 256 % 256, i % 256, i % 7, i % 11, i % 13));
        }
        assert!(text.len() > 4 * 1024 * 1024);
        assert_eq!(read(&text).unwrap().hosts.len(), 40_000);
        let bad = "hosts:\n".to_owned() + &(0..1000).map(|i| format!("  h{i}: {{}}\n")).collect::<String>();
        let faults = read(&bad).unwrap_err();
        assert!(faults.len() <= 40);
    }
}
