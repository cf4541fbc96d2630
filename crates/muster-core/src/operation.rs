//! Every thing that a node can be asked to do, whoever asks and whichever way it comes.
//!
//! The enum is closed and its table is the one place that says who may (least role), what it does to the node (danger), how
//! long it may take, in which states of the node it is allowed, and how its audit event must be kept. Routes, commands, help
//! and documents are made from it. There is no operation that takes a command line, a program or a free unit name.

use core::fmt;

use crate::machine::{Machine, Membership};
use crate::role::Role;

/// What an operation does to the node and to what depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Danger {
    /// Looks.
    Reads,
    /// Changes what can be changed back.
    Changes,
    /// Ends something that does not come back by itself: uptime, membership, ownership.
    Destroys,
    /// Gives away what somebody could use elsewhere.
    HandsOverSecrets,
}

/// In which states of the node an operation is allowed. The node is claimed in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allowed {
    /// Always, also while it is built or taken apart.
    Always,
    /// Not while it is taken apart.
    NotLeaving,
    /// Before it is built: nothing stands on its document yet.
    BeforeBootstrap,
    /// As a member of a cluster.
    Member,
}

/// How the audit event of an allowed call is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Audit {
    /// May wait in memory, and be counted together with others alike.
    Spooled,
    /// Durable before the act, or the act is refused.
    First,
    /// As `First`, but the journal will do where the disk takes nothing: a node with a full disk must still be rebooted.
    FirstOrJournal,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Stable word, in audit events and errors.
    pub name: &'static str,
    /// The least role.
    pub role: Role,
    /// What it does.
    pub danger: Danger,
    /// Seconds that the node gives it.
    pub deadline: u32,
    /// In which states.
    pub allowed: Allowed,
    /// How its event is kept.
    pub audit: Audit,
    /// One clause, for help and documents.
    pub what: &'static str,
}

/// Why the node's state forbids an operation: 409, with a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forbidden {
    /// Nobody has claimed the node; it answers the pairing and nothing else.
    Unclaimed,
    /// It is in no cluster.
    NotAMember,
    /// It is built, or being built, and its document is fixed.
    Bootstrapped,
    /// It is being taken apart.
    Leaving,
}

impl Forbidden {
    /// The stable `reason`.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Unclaimed => "unclaimed",
            Self::NotAMember => "not-a-cluster-node",
            Self::Bootstrapped => "bootstrapped",
            Self::Leaving => "resetting",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::Unclaimed => "Claim it: `muster node claim`, with the code from its console.",
            Self::NotAMember => "Ask a node that is in the cluster.",
            Self::Bootstrapped => "A node in service is not described anew: `muster node reset` it first.",
            Self::Leaving => "Wait until it has come back.",
        }
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $role:ident, $danger:ident, $deadline:expr, $allowed:ident, $audit:ident, $what:literal;)*) => {
        /// A thing that a node can be asked to do. See the module documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Operation { $($(#[doc = $doc])* #[doc = $what] $variant),* }

        impl Operation {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its row of the table.
            #[must_use]
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$variant => Row {
                        name: $name,
                        role: Role::$role,
                        danger: Danger::$danger,
                        deadline: $deadline,
                        allowed: Allowed::$allowed,
                        audit: Audit::$audit,
                        what: $what,
                    }),*
                }
            }
        }
    };
}

/// A call that answers at once.
const AT_ONCE: u32 = 30;
/// A drain waits on budgets of pods; a reset drains first.
const DRAIN: u32 = 15 * 60;
/// A pull of an image is hundreds of megabytes; the node's is the only clock.
const PULL: u32 = 30 * 60;
/// A followed journal.
const FOLLOW: u32 = 60 * 60;

operations! {
    Health = "health", Readonly, Reads, AT_ONCE, Always, Spooled, "say that the node answers, and as what the caller counts";
    NodeState = "node-state", Readonly, Reads, AT_ONCE, Always, Spooled, "show role, images, versions, health and ownership";
    Services = "services", Readonly, Reads, AT_ONCE, Always, Spooled, "list the services of the node";
    Logs = "logs", Readonly, Reads, FOLLOW, Always, Spooled, "read or follow the journal of a service, or the kernel's";
    SshKeys = "ssh-keys", Readonly, Reads, AT_ONCE, Always, Spooled, "list the SSH keys that were let in";
    EtcdState = "etcd-state", Readonly, Reads, AT_ONCE, Member, Spooled, "show this member of etcd and the members that it sees";
    AuditRead = "audit-read", Readonly, Reads, FOLLOW, Always, Spooled, "read the audit record and its newest hash";
    ProofNonce = "proof-nonce", Readonly, Reads, AT_ONCE, Always, Spooled, "hand out a number that a signed request must name";
    ServiceRestart = "service-restart", Operator, Changes, AT_ONCE, NotLeaving, First, "restart a service that may be restarted";
    UpgradeStage = "upgrade-stage", Operator, Changes, PULL, NotLeaving, First, "pull an image that the signing policy accepts, for the next boot";
    Cordon = "cordon", Operator, Changes, AT_ONCE, Member, First, "keep new pods off the node";
    Uncordon = "uncordon", Operator, Changes, AT_ONCE, Member, First, "let pods on the node again";
    Drain = "drain", Operator, Changes, DRAIN, Member, First, "move the pods of the node elsewhere";
    UpgradeApply = "upgrade-apply", Admin, Destroys, DRAIN, NotLeaving, First, "boot the staged image";
    UpgradeRollback = "upgrade-rollback", Admin, Changes, AT_ONCE, NotLeaving, First, "make the image before this one the next to boot";
    Reboot = "reboot", Admin, Destroys, AT_ONCE, Always, FirstOrJournal, "reboot";
    Shutdown = "shutdown", Admin, Destroys, AT_ONCE, Always, FirstOrJournal, "power off";
    Reset = "reset", Admin, Destroys, DRAIN, Always, First, "leave the cluster, wipe what belonged to it, and be unclaimed again";
    ConfigApply = "config-apply", Admin, Changes, AT_ONCE, BeforeBootstrap, First, "say what the node shall be";
    CaRotate = "ca-rotate", Admin, Destroys, AT_ONCE, NotLeaving, First, "obey another operator authority from now on";
    CrlUpload = "crl-upload", Readonly, Changes, AT_ONCE, Always, First, "take a revocation list that the operator authority signed";
    Kubeconfig = "kubeconfig", Admin, HandsOverSecrets, AT_ONCE, Member, First, "hand over the cluster administrator's kubeconfig";
    JoinToken = "join-token", Admin, HandsOverSecrets, AT_ONCE, Member, First, "mint a token that another node joins with";
    SshKeyAdd = "ssh-key-add", Admin, Changes, AT_ONCE, NotLeaving, First, "let an SSH key in as an account that is there";
    SshKeyRemove = "ssh-key-remove", Admin, Changes, AT_ONCE, Always, First, "let an SSH key in no longer";
}

impl Operation {
    /// By its stable word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|o| o.row().name == name)
    }

    /// Whether `role` may.
    #[must_use]
    pub fn permits(self, role: Role) -> bool {
        role >= self.row().role
    }

    /// Whether a call needs a signed proof where the node demands proofs: all that destroys or hands over secrets, and what would
    /// make somebody else its owner or let him in.
    #[must_use]
    pub const fn wants_proof(self) -> bool {
        matches!(self.row().danger, Danger::Destroys | Danger::HandsOverSecrets)
            || matches!(self, Self::CaRotate | Self::SshKeyAdd | Self::ConfigApply)
    }

    /// Whether the state of the node allows it.
    ///
    /// # Errors
    /// Why not.
    pub fn allowed_in(self, machine: Machine) -> Result<(), Forbidden> {
        if !machine.is_claimed() {
            return Err(Forbidden::Unclaimed);
        }
        match (self.row().allowed, machine.membership()) {
            (Allowed::Always, _) => Ok(()),
            (_, Membership::Leaving) => Err(Forbidden::Leaving),
            (Allowed::NotLeaving, _) | (Allowed::Member, Membership::Member) => Ok(()),
            (Allowed::Member, _) => Err(Forbidden::NotAMember),
            (Allowed::BeforeBootstrap, Membership::None) => Ok(()),
            (Allowed::BeforeBootstrap, _) => Err(Forbidden::Bootstrapped),
        }
    }
}

#[cfg(test)]
#[path = "operation/tests.rs"]
mod tests;
