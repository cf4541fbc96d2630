//! The lines of the units, each with its proof.

use super::{Needs, Setting};

/// Keys of `[Service]` that say how a unit runs and take nothing away.
pub const ORDINARY: &[&str] = &[
    "Type",
    "ExecStart",
    "Restart",
    "RestartSec",
    "NotifyAccess",
    "SuccessExitStatus",
    "RestartPreventExitStatus",
    "RemainAfterExit",
    "StandardInput",
    "StandardOutput",
    "StandardError",
    // Ends what takes too long; whoever waits for it has an end of his own, which is tested.
    "RuntimeMaxSec",
    "TimeoutStopSec",
    // 0755 is what it is without a word.
    "StateDirectoryMode",
];

const NONE: Setting = Setting { line: "", does: "", beside: &[], attempts: &[], after: &[], needs: None };

/// One row for each line.
pub const SETTINGS: &[Setting] = &[
    Setting {
        line: "User=muster-edge",
        does: "an account that owns nothing",
        attempts: &[
            ("read-shadow", "ok", "EACCES"),
            ("write-etc", "ok", "EACCES"),
            ("signal-another", "ok", "EPERM"),
            ("reach-control", "ok", "EACCES"),
        ],
        ..NONE
    },
    Setting {
        line: "Group=muster-edge",
        does: "the group that may reach the core's socket",
        beside: &["User=nobody"],
        attempts: &[("reach-core", "EACCES", "ok")],
        ..NONE
    },
    Setting {
        line: "User=muster-fetch",
        does: "an account that owns nothing, and that the core's socket is not for",
        attempts: &[
            ("read-shadow", "ok", "EACCES"),
            ("write-etc", "ok", "EACCES"),
            ("signal-another", "ok", "EPERM"),
            ("reach-core", "ok", "EACCES"),
            ("reach-control", "ok", "EACCES"),
        ],
        ..NONE
    },
    Setting {
        line: "StateDirectory=muster",
        does: "/var/lib/muster stays writable",
        beside: &["ProtectSystem=strict"],
        attempts: &[("write-state", "EROFS", "ok")],
        ..NONE
    },
    Setting {
        line: "UMask=0077",
        does: "files that it makes are its own alone",
        attempts: &[("open-to-others", "ok", "EACCES")],
        ..NONE
    },
    Setting {
        line: "LimitCORE=0",
        does: "no core dumps, in which keys would be",
        attempts: &[("core-dumps", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "LimitNOFILE=2048",
        does: "2048 open files",
        attempts: &[("many-files", "ok", "EMFILE")],
        ..NONE
    },
    Setting {
        line: "LimitNOFILE=64",
        does: "64 open files",
        attempts: &[("many-files", "ok", "EMFILE")],
        ..NONE
    },
    Setting {
        line: "TasksMax=512",
        does: "512 threads and processes, children too",
        attempts: &[("many-processes", "ok", "EAGAIN")],
        needs: Some(Needs::Controller("pids")),
        ..NONE
    },
    Setting {
        line: "TasksMax=16",
        does: "16 threads",
        attempts: &[("twenty-processes", "ok", "EAGAIN")],
        needs: Some(Needs::Controller("pids")),
        ..NONE
    },
    Setting {
        line: "TasksMax=4",
        does: "4 threads",
        attempts: &[("twenty-processes", "ok", "EAGAIN")],
        needs: Some(Needs::Controller("pids")),
        ..NONE
    },
    Setting {
        line: "MemoryMax=64M",
        does: "64 MiB of memory",
        attempts: &[("much-memory", "ok", "killed")],
        needs: Some(Needs::Controller("memory")),
        ..NONE
    },
    Setting {
        line: "MemoryMax=128M",
        does: "128 MiB of memory",
        attempts: &[("much-memory", "ok", "killed")],
        needs: Some(Needs::Controller("memory")),
        ..NONE
    },
    Setting {
        line: "OOMScoreAdjust=-500",
        does: "ended late where memory runs out",
        attempts: &[("last-to-be-ended", "EPERM", "ok")],
        needs: Some(Needs::Resource),
        ..NONE
    },
    Setting {
        line: "CapabilityBoundingSet=",
        does: "no capability of root's, for it and its children",
        attempts: &[
            ("read-foreign", "ok", "EACCES"),
            ("mount", "ok", "EPERM"),
            ("trace-another", "ok", "EPERM"),
            ("make-device", "ok", "EPERM"),
            ("socket-packet", "ok", "EPERM"),
            ("setuid-program", "ok", "EPERM"),
        ],
        ..NONE
    },
    Setting {
        line: "NoNewPrivileges=yes",
        does: "no program makes it more than it is",
        attempts: &[("setuid-program", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "RestrictAddressFamilies=AF_UNIX",
        does: "no sockets but Unix",
        attempts: &[
            ("socket-ipv4", "ok", "EAFNOSUPPORT"),
            ("socket-ipv6", "ok", "EAFNOSUPPORT"),
            ("socket-packet", "ok", "EAFNOSUPPORT"),
            ("socket-netlink", "ok", "EAFNOSUPPORT"),
            ("socket-unix", "ok", "ok"),
        ],
        ..NONE
    },
    Setting {
        line: "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        does: "no sockets but Unix and IP",
        attempts: &[
            ("socket-netlink", "ok", "EAFNOSUPPORT"),
            ("socket-packet", "ok", "EAFNOSUPPORT"),
            ("socket-unix", "ok", "ok"),
            ("socket-ipv4", "ok", "ok"),
            ("socket-ipv6", "ok", "ok"),
        ],
        ..NONE
    },
    Setting {
        line: "RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_INET AF_INET6",
        does: "no sockets but IP, and those of the resolver: Unix and netlink",
        attempts: &[
            ("socket-packet", "ok", "EAFNOSUPPORT"),
            ("socket-unix", "ok", "ok"),
            ("socket-netlink", "ok", "ok"),
            ("socket-ipv4", "ok", "ok"),
            ("socket-ipv6", "ok", "ok"),
        ],
        ..NONE
    },
    Setting {
        line: "SocketBindDeny=any",
        does: "listens to nobody",
        attempts: &[("bind-ip", "ok", "EPERM")],
        needs: Some(Needs::Bpf),
        ..NONE
    },
    Setting {
        line: "IPAddressDeny=any",
        does: "no packet of IP in or out, by whatever socket",
        attempts: &[("send-ip", "ok", "EPERM")],
        needs: Some(Needs::Bpf),
        ..NONE
    },
    Setting {
        line: "ProtectSystem=strict",
        does: "the whole tree is read-only",
        attempts: &[("write-usr", "ok", "EROFS"), ("write-etc", "ok", "EROFS"), ("write-var", "ok", "EROFS")],
        ..NONE
    },
    Setting {
        line: "ReadWritePaths=/etc/muster /run/muster -/run/issue.d -/run/agetty.reload",
        does: "but these",
        beside: &["ProtectSystem=strict"],
        attempts: &[("write-etc-muster", "EROFS", "ok"), ("write-run-muster", "EROFS", "ok")],
        ..NONE
    },
    Setting {
        line: "NoExecPaths=/",
        does: "nothing can be run",
        beside: &["ExecPaths=/usr/local/bin/sandbox-probe -/usr/lib -/usr/lib64 -/lib -/lib64"],
        attempts: &[("run-a-program", "ok", "EACCES")],
        ..NONE
    },
    Setting {
        line: "ExecPaths=/usr/bin/musterd -/usr/lib -/usr/lib64 -/lib -/lib64",
        does: "but itself and its libraries",
        beside: &["NoExecPaths=/", "ExecPaths=/usr/local/bin/sandbox-probe"],
        attempts: &[("socket-unix", "did-not-run", "ok"), ("run-a-program", "did-not-run", "EACCES")],
        ..NONE
    },
    Setting {
        line: "InaccessiblePaths=-/etc/muster -/var/lib/muster -/root -/boot -/mnt -/media -/srv",
        does: "these are not there",
        attempts: &[
            ("see-etc-muster", "ok", "ENOENT"),
            ("see-state", "ok", "ENOENT"),
            ("see-root", "ok", "ENOENT"),
            ("see-boot", "ok", "ENOENT"),
            ("see-mnt", "ok", "ENOENT"),
            ("see-media", "ok", "ENOENT"),
            ("see-srv", "ok", "ENOENT"),
        ],
        ..NONE
    },
    Setting {
        line: "InaccessiblePaths=-/etc/muster -/var/lib/muster -/run/muster -/root -/boot -/mnt -/media -/srv",
        does: "these are not there",
        attempts: &[
            ("see-etc-muster", "ok", "ENOENT"),
            ("see-state", "ok", "ENOENT"),
            ("see-run-muster", "ok", "ENOENT"),
            ("see-root", "ok", "ENOENT"),
            ("see-boot", "ok", "ENOENT"),
            ("see-mnt", "ok", "ENOENT"),
            ("see-media", "ok", "ENOENT"),
            ("see-srv", "ok", "ENOENT"),
        ],
        ..NONE
    },
    Setting {
        line: "ProtectHome=yes",
        does: "homes are not there",
        attempts: &[("read-home", "ok", "ENOENT"), ("see-root", "ok", "ENOENT")],
        ..NONE
    },
    Setting {
        line: "PrivateTmp=yes",
        does: "a /tmp of its own",
        attempts: &[("see-tmp", "ok", "ENOENT")],
        ..NONE
    },
    Setting {
        line: "PrivateDevices=yes",
        does: "no devices of the machine",
        attempts: &[("see-device", "ok", "ENOENT"), ("make-device", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "PrivateIPC=yes",
        does: "no shared memory of others",
        attempts: &[("shared-memory", "ok", "ENOENT")],
        ..NONE
    },
    Setting {
        line: "RemoveIPC=yes",
        does: "its shared memory ends with it",
        beside: &["User=daemon"],
        attempts: &[("leave-shared-memory", "ok", "ok")],
        after: &[("see-left-memory", "ok", "ENOENT")],
        ..NONE
    },
    Setting {
        line: "ProtectProc=invisible",
        does: "other users' processes are not there",
        beside: &["User=muster-edge"],
        attempts: &[("see-init", "ok", "ENOENT")],
        ..NONE
    },
    Setting {
        line: "ProcSubset=pid",
        does: "nothing of the kernel's in /proc",
        attempts: &[("see-kernel", "ok", "ENOENT")],
        ..NONE
    },
    Setting {
        line: "ProtectKernelTunables=yes",
        does: "no kernel tunables",
        // A new /proc, where a container's manager has made the first one read-only.
        beside: &["ProtectControlGroups=yes"],
        attempts: &[("kernel-tunable", "ok", "EROFS")],
        ..NONE
    },
    Setting {
        line: "ProtectKernelModules=yes",
        does: "no kernel modules",
        attempts: &[("see-modules", "ok", "ENOENT")],
        ..NONE
    },
    Setting {
        line: "ProtectKernelLogs=yes",
        does: "no kernel log",
        attempts: &[("kernel-log", "ok", "EACCES")],
        ..NONE
    },
    Setting {
        line: "ProtectControlGroups=yes",
        does: "control groups are read-only",
        attempts: &[("make-cgroup", "ok", "EROFS")],
        ..NONE
    },
    Setting {
        line: "ProtectClock=yes",
        does: "the clock is not to be set",
        attempts: &[("clock", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "ProtectHostname=yes",
        does: "nor the name of the machine",
        attempts: &[("host-name", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "RestrictNamespaces=yes",
        does: "no new namespaces",
        attempts: &[
            ("user-namespace", "ok", "EPERM"),
            ("mount-namespace", "ok", "EPERM"),
            ("network-namespace", "ok", "EPERM"),
            ("process-namespace", "ok", "EPERM"),
            ("ipc-namespace", "ok", "EPERM"),
            ("name-namespace", "ok", "EPERM"),
            ("cgroup-namespace", "ok", "EPERM"),
        ],
        ..NONE
    },
    Setting {
        line: "RestrictRealtime=yes",
        does: "no realtime scheduling",
        attempts: &[("realtime", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "RestrictSUIDSGID=yes",
        does: "makes no setuid file",
        attempts: &[("setuid-file", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "LockPersonality=yes",
        does: "stays what kind of process it is",
        attempts: &[("personality", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "MemoryDenyWriteExecute=yes",
        does: "no memory that is written and run",
        attempts: &[("write-and-execute", "ok", "EPERM"), ("execute-later", "ok", "EPERM")],
        ..NONE
    },
    Setting {
        line: "SystemCallArchitectures=native",
        does: "no system calls of another architecture",
        attempts: &[("other-architecture", "ok", "killed")],
        ..NONE
    },
    Setting {
        line: "SystemCallFilter=@system-service",
        does: "the system calls of services",
        attempts: &[("mount", "ok", "killed"), ("trace-another", "ok", "killed"), ("clock", "ok", "killed")],
        ..NONE
    },
    Setting {
        line: "SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp",
        does: "and those by which it gives up more",
        beside: &["SystemCallFilter=@system-service"],
        attempts: &[("landlock", "killed", "ok")],
        ..NONE
    },
    Setting {
        line: "SystemCallFilter=~@privileged @resources @chown @setuid @keyring",
        does: "without those of privilege, ownership, priority and keyrings",
        beside: &["SystemCallFilter=@system-service"],
        attempts: &[
            ("priority", "ok", "killed"),
            ("change-owner", "ok", "killed"),
            ("change-user", "ok", "killed"),
            ("capset", "ok", "killed"),
        ],
        ..NONE
    },
    Setting {
        line: "SystemCallErrorNumber=EPERM",
        does: "a forbidden system call is an error, not the end",
        beside: &["SystemCallFilter=@system-service"],
        attempts: &[("mount", "killed", "EPERM")],
        ..NONE
    },
];
