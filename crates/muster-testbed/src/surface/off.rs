//! What is not set, and why.

/// Something that `systemd-analyze security` finds missing in a unit.
#[derive(Debug)]
pub struct Off {
    /// The unit.
    pub unit: &'static str,
    /// What it is called there.
    pub name: &'static str,
    /// Why the work does not allow it.
    pub why: &'static str,
}

/// What `systemd-analyze security` says of each unit in all, with the systemd of Debian 12 (252). 0 is best, 10 worst.
pub const EXPOSURE: &[(&str, &str)] =
    &[("musterd-core.service", "1.6"), ("musterd-edge.service", "1.2"), (FETCH, "1.3")];

/// Units that are not confined at all, and why.
pub const UNCONFINED: &[(&str, &str)] = &[(
    "muster-bootstrap.service",
    "it makes of the machine what its document says: what installs packages, loads modules, mounts and sets the name of the machine \
     cannot be kept from it. It runs once, as root, takes no input but the document, which it judges as the core does, and listens to nobody",
)];

const CORE: &str = "musterd-core.service";
const EDGE: &str = "musterd-edge.service";
const FETCH: &str = "muster-fetch@.service";

/// One row for each thing that is missing.
pub const OFF: &[Off] = &[
    Off {
        unit: CORE,
        name: "User=/DynamicUser=",
        why: "who asks the service manager to reboot, and reads journals and the state of the machine, is root; what root may is \
              taken away line by line",
    },
    Off {
        unit: CORE,
        name: "PrivateUsers=",
        why: "it tells the edge from others by the user at the other end of the socket, and would see every user as nobody",
    },
    Off {
        unit: CORE,
        name: "PrivateNetwork=",
        why: "the notice on the console names the machine's addresses, and `/proc/net` of another network namespace has others; \
              sockets of IP are forbidden",
    },
    Off {
        unit: CORE,
        name: "RestrictAddressFamilies=~AF_UNIX",
        why: "the edge, root's commands, systemd and the journal are reached over Unix sockets",
    },
    Off {
        unit: CORE,
        name: "PrivateDevices=",
        why: "the pairing code is shown on every console that the kernel has, which are devices",
    },
    Off {
        unit: CORE,
        name: "DeviceAllow=",
        why: "which consoles a machine has is known when it runs; without CAP_MKNOD and CAP_SYS_RAWIO it makes no device and gets through to no hardware",
    },
    Off {
        unit: CORE,
        name: "ProtectProc=",
        why: "it asks to which unit the process at the other end of its socket belongs, and that process is another user's",
    },
    Off {
        unit: CORE,
        name: "ProcSubset=",
        why: "name, boot id, uptime and command line of the kernel are a part of the node's state and read from /proc",
    },
    Off {
        unit: CORE,
        name: "RootDirectory=/RootImage=",
        why: "it runs systemctl, journalctl and others of the machine's programs",
    },
    Off {
        unit: EDGE,
        name: "PrivateNetwork=",
        why: "clients come over the network: this is the half that faces it",
    },
    Off { unit: EDGE, name: "RestrictAddressFamilies=~AF_(INET|INET6)", why: "the same" },
    Off {
        unit: EDGE,
        name: "RestrictAddressFamilies=~AF_UNIX",
        why: "the core is reached over a Unix socket",
    },
    Off {
        unit: EDGE,
        name: "IPAddressDeny=",
        why: "operators come from anywhere; who may reach the port is for the machine's firewall to say",
    },
    Off {
        unit: EDGE,
        name: "PrivateUsers=",
        why: "it needs user namespaces, which hardened machines turn off (`user.max_user_namespaces=0`), and the unit would not start there",
    },
    Off {
        unit: EDGE,
        name: "DeviceAllow=",
        why: "what is missing is the clock's device, which `ProtectClock=` lets be read; `PrivateDevices=` does not show it",
    },
    Off {
        unit: EDGE,
        name: "RootDirectory=/RootImage=",
        why: "its program and libraries are the machine's; Landlock takes every file from it before the first client, where the kernel has it",
    },
    Off { unit: FETCH, name: "PrivateNetwork=", why: "it is there to ask servers" },
    Off { unit: FETCH, name: "RestrictAddressFamilies=~AF_(INET|INET6)", why: "the same" },
    Off {
        unit: FETCH,
        name: "RestrictAddressFamilies=~AF_UNIX",
        why: "the resolver may be reached over a Unix socket (nscd, systemd-resolved)",
    },
    Off {
        unit: FETCH,
        name: "RestrictAddressFamilies=~AF_NETLINK",
        why: "the C library asks with it which addresses the machine has, to order those of a name",
    },
    Off {
        unit: FETCH,
        name: "IPAddressDeny=",
        why: "which servers a document names is known when it is read",
    },
    Off { unit: FETCH, name: "PrivateUsers=", why: "as of the edge" },
    Off { unit: FETCH, name: "DeviceAllow=", why: "as of the edge" },
    Off {
        unit: FETCH,
        name: "RootDirectory=/RootImage=",
        why: "trust anchors and the resolver's configuration are the machine's; Landlock takes every file before a server says anything",
    },
];
