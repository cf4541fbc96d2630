//! A bed: some nodes on one bridge, made together and removed together.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

use crate::boot::Plan;
use crate::cgroup::Layout;
use crate::net;
use crate::node::{Inner, Node};
use crate::place::{self, Slot};
use crate::rootfs::{Rootfs, RootfsSpec};
use crate::ssh::{KeyPair, Ssh};

/// Some nodes on one bridge. Dropping it removes them, and all that was made for them.
#[derive(Debug)]
pub struct Testbed {
    name: String,
    slot: Option<Slot>,
    number: u8,
    rootfs: Rootfs,
    nodes: Mutex<Vec<Arc<Inner>>>,
    kept: Mutex<bool>,
}

/// A node that is not booted yet.
#[derive(Debug)]
pub struct NodeBuilder<'a> {
    bed: &'a Testbed,
    name: String,
    layout: Layout,
}

impl Testbed {
    /// An empty bed on the usual root file system. `name` is for people: it need not be unique.
    pub fn prepare(name: &str) -> Result<Self> {
        Self::prepare_on(name, &RootfsSpec::default())
    }

    /// An empty bed on a root file system of its own choice.
    pub fn prepare_on(name: &str, spec: &RootfsSpec) -> Result<Self> {
        if let Some(reason) = crate::why_not() {
            bail!("{reason}");
        }
        let rootfs = Rootfs::ensure(spec)?;
        let slot = place::take(name)?;
        let number = slot.number;
        Ok(Self {
            name: name.to_owned(),
            slot: Some(slot),
            number,
            rootfs,
            nodes: Mutex::new(Vec::new()),
            kept: Mutex::new(false),
        })
    }

    /// A new node; its name is its host name.
    pub fn node(&self, name: &str) -> Result<NodeBuilder<'_>> {
        let fits = (1..=20).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !name.starts_with('-');
        if !fits {
            bail!("node name {name:?}: 1 to 20 of a-z, 0-9 and -");
        }
        if self.lock_nodes().iter().any(|n| n.plan.name == name) {
            bail!("node {name:?} is there already");
        }
        Ok(NodeBuilder { bed: self, name: name.to_owned(), layout: Layout::default() })
    }

    /// Folder of the bed on this machine, for keys and the like; removed with it.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        place::folder(self.number)
    }

    /// The slot, from which interface and namespace names follow.
    #[must_use]
    pub fn slot(&self) -> u8 {
        self.number
    }

    /// This machine's own address on the bridge: what nodes see as the client.
    #[must_use]
    pub fn gate(&self) -> std::net::Ipv4Addr {
        net::v4(self.number, net::GATE)
    }

    /// The same for IPv6.
    #[must_use]
    pub fn gate_v6(&self) -> std::net::Ipv6Addr {
        net::v6(self.number, net::GATE)
    }

    /// A new Ed25519 key pair made by `ssh-keygen`, without passphrase.
    pub fn keygen(&self, name: &str) -> Result<KeyPair> {
        KeyPair::generate(&self.dir().join("keys"), name, &["-t", "ed25519"])
    }

    /// A new key pair with other arguments for `ssh-keygen`, such as `["-t", "rsa", "-b", "3072"]`.
    pub fn keygen_with(&self, name: &str, args: &[&str]) -> Result<KeyPair> {
        KeyPair::generate(&self.dir().join("keys"), name, args)
    }

    /// The real `ssh` client, pinned to the node's host keys.
    #[must_use]
    pub fn ssh(&self, node: &Node, user: &str, key: &KeyPair) -> Ssh {
        Ssh::new(node, user, key)
    }

    /// Lets the bed and its nodes outlive this process; `cargo xtask testbed --down` removes it.
    pub fn keep(&self) -> Result<()> {
        if let Some(slot) = &self.slot {
            place::keep(slot)?;
        }
        for node in self.lock_nodes().iter() {
            node.keep()?;
        }
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(())
    }

    fn lock_nodes(&self) -> MutexGuard<'_, Vec<Arc<Inner>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every node knows every other by name; one that is not laid yet is told when it is.
    fn sync_hosts(&self) -> Result<()> {
        let nodes = self.lock_nodes();
        let mut table = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
        for node in nodes.iter() {
            let last = net::last(node.plan.index);
            for addr in [net::v4(self.number, last).to_string(), net::v6(self.number, last).to_string()] {
                table.push_str(&format!("{addr} {}\n", node.plan.name));
            }
        }
        for node in nodes.iter().filter(|n| n.laid.load(Ordering::Acquire)) {
            let path = node.plan.root().join("etc/hosts");
            fs::write(&path, &table)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    /// Every end of a cable knows every other; those whose network is not made yet come with a later call.
    fn sync_neighbours(&self) -> Result<()> {
        let nodes = self.lock_nodes();
        let made: Vec<(u8, &str)> = nodes
            .iter()
            .filter(|n| n.laid.load(Ordering::Acquire))
            .map(|n| (n.plan.index, n.plan.name.as_str()))
            .collect();
        net::introduce(self.number, &made)
    }

    fn save_logs(&self) {
        let root = std::env::var_os("MUSTER_TESTBED_LOGS")
            .map_or_else(|| Path::new("/tmp/muster-testbed-logs").to_owned(), PathBuf::from);
        let to = root.join(format!("{}-{}", self.name, std::process::id()));
        if fs::create_dir_all(&to).is_err() {
            return;
        }
        for node in self.lock_nodes().iter() {
            node.save_logs(&to);
        }
        eprintln!("testbed: journals and consoles of {:?} are in {}", self.name, to.display());
    }
}

impl NodeBuilder<'_> {
    /// What the node sees under `/sys/fs/cgroup`.
    #[must_use]
    pub fn cgroups(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Boots it and waits until systemd is done and sshd listens.
    pub fn boot(self) -> Result<Node> {
        let bed = self.bed;
        let inner = {
            let mut nodes = bed.lock_nodes();
            let index = u8::try_from(nodes.len()).context("too many nodes")?;
            let plan = Plan {
                slot: bed.number,
                index,
                name: self.name.clone(),
                layout: self.layout,
                lower: bed.rootfs.path.clone(),
                dir: bed.dir().join(&self.name),
            };
            let inner = Arc::new(Inner::new(plan));
            nodes.push(Arc::clone(&inner));
            inner
        };
        inner.plan.lay().with_context(|| format!("cannot lay node {}", self.name))?;
        inner.laid.store(true, Ordering::Release);
        bed.sync_hosts()?;
        bed.sync_neighbours()?;
        inner.start()?;
        let node = Node::new(inner);
        node.wait_boot().with_context(|| format!("node {} did not boot", self.name))?;
        Ok(node)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.save_logs();
        }
        let Some(slot) = self.slot.take() else { return };
        if *self.kept.lock().unwrap_or_else(PoisonError::into_inner) {
            return;
        }
        if let Err(e) = place::give_back(slot) {
            eprintln!(
                "testbed: {:?} is not wholly removed: {e:#}; `cargo xtask testbed --down` tries again",
                self.name
            );
        }
        for node in self.lock_nodes().iter() {
            node.reap();
        }
    }
}
