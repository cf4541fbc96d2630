//! The CLI's own error codes, beside the shim's [`Reason`]s: one closed set of stable words.
//!
//! Each code is the name of a page under `docs/errors/`. Codes are added, never reused.

use crate::exit::Exit;
use crate::shell::Rule;
use core::fmt;
use muster_core::{Reason, ShimExit};

macro_rules! codes {
    ($($(#[$sec:meta])* $variant:ident = $code:literal, $exit:ident, $what:literal, $fix:literal;)*) => {
        /// What went wrong on this side of the connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Own {
            $(#[doc = $what] $variant,)*
        }

        impl Own {
            /// Every code of the CLI.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable word.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            /// The exit code it leads to.
            pub const fn exit(self) -> Exit {
                match self { $(Self::$variant => Exit::$exit),* }
            }

            /// What happened, in one clause.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$variant => $what),* }
            }

            /// What to do about it, in one sentence.
            pub const fn fix(self) -> &'static str {
                match self { $(Self::$variant => $fix),* }
            }
        }
    };
}

codes! {
    // the command line
    Usage = "usage", Usage, "the command line does not parse", "Run the command with --help.";
    SecretOnArgv = "secret-on-argv", Usage, "a secret's value was given on the command line", "Write it into a file and use --secret NAME=@FILE, or pipe it in with NAME=-.";
    SecretForm = "secret-form", BadInput, "a secret cannot be used as it is", "Give 8 to 65536 bytes of one line, without NUL, CR or LF.";
    ParamArgument = "param-argument", Usage, "a --param is not NAME=VALUE, names one thing twice, or gives many hosts what each has its own of", "Write --param NAME=VALUE, each name once.";
    StdinTwice = "stdin-twice", Usage, "standard input was asked for twice", "Let one option read `-` and give the others a file.";
    TerminalNeeded = "terminal-needed", Usage, "a command that draws on a terminal has none", "Run it on a terminal, or run `muster node list --watch`, which needs none.";
    CodeUnknown = "code-unknown", BadInput, "there is no error code of that name", "Run `muster explain` to list them.";

    // files and YAML
    FileMissing = "file-missing", BadInput, "a file is not there", "Check the path.";
    FileUnreadable = "file-unreadable", BadInput, "a file cannot be read", "Check its owner and mode.";
    FileTooLarge = "file-too-large", BadInput, "a file is over its bound", "Give a smaller file.";
    FileWrite = "file-write", Internal, "a file could not be written", "Check the folder's owner, mode and free space.";
    Exists = "exists", Refused, "something is already there and would be overwritten", "Move it away, or choose another place.";
    YamlSyntax = "yaml-syntax", BadInput, "a file is not well-formed YAML", "Mend the line that the message names.";
    YamlUnsupported = "yaml-unsupported", BadInput, "a file uses a part of YAML that is not taken here", "Write it out: one document, no anchors, aliases, tags or merge keys.";
    YamlLimits = "yaml-limits", BadInput, "a YAML file is too large or too deep", "Keep it under 8 MiB, 2,000,000 nodes and 32 levels.";
    ConfigKey = "config-key", BadInput, "a key is not known", "Take it out, or write the key that was meant.";
    ConfigDuplicate = "config-duplicate", BadInput, "a key stands twice in one mapping", "Keep one of them.";
    ConfigMissing = "config-missing", BadInput, "a required key is missing", "Add it.";
    ConfigType = "config-type", BadInput, "a value has the wrong shape", "Write it in the form that the message names.";
    ConfigValue = "config-value", BadInput, "a value is not allowed", "Write it in the form that the message names.";
    TrustFile = "trust-file", BadInput, "an allowed_signers or revocation file is not usable", "Mend the line that the message names.";

    // inventory and selection
    InventoryMissing = "inventory-missing", BadInput, "no inventory was found", "Run `muster init`, or name one with -i.";
    HostUnknown = "host-unknown", BadInput, "the inventory has no such host", "Look at `muster host list`.";
    HostExists = "host-exists", Refused, "the inventory already has a host of that name", "Choose another name, or edit the inventory.";
    SelectorForm = "selector-form", Usage, "a selector does not parse", "Write key=value, key!=value, key or !key, separated by commas.";
    NothingSelected = "nothing-selected", BadInput, "no host was selected", "Name hosts, or use -l SELECTOR or --all.";
    ConfirmNeeded = "confirm-needed", Refused, "this changes hosts and nobody is there to confirm it", "Look at it with --plan, then add --yes.";
    Declined = "declined", Refused, "the operator said no", "Nothing was changed.";
    PinMissing = "pin-missing", Refused, "no host key is pinned for a host or bastion", "Pin it with `muster host add --host-key`, or list host-key or host-ca in the inventory.";
    PinConflict = "pin-conflict", Refused, "a different host key is pinned already", "Find out why the key changed, then use `muster host rotate-key`.";
    FileLocked = "file-locked", Busy, "another program holds a file that is to be changed", "Let it end, or find out why it hangs, then run the command again.";
    StateUnusable = "state-unusable", Internal, "the state folder or a file in it cannot be used", "Mend or remove the file that the message names.";
    StateUnsafe = "state-unsafe", Refused, "a file of the state folder could have been changed by somebody else", "Look at what is in it, then give it to yourself alone.";

    // profiles and signing
    ManifestMissing = "manifest-missing", BadInput, "the folder has no profile.yaml", "Name a profile's folder.";
    PhaseMissing = "phase-missing", BadInput, "the profile has no script for a phase that needs one", "Add the script, or take the phase out of profile.yaml.";
    ScriptSize = "script-size", Refused, "a script is over 1 MiB or empty", "Hosts refuse it: keep scripts short and fetch what is large by digest.";
    OpenParameter = "open-parameter", Refused, "whom a host obeys would be left to whoever sends the parameter", "Make it a signed value in profile.yaml, or accept it by name with --accept-open.";
    LintFailed = "lint-failed", Failed, "a profile has lint errors", "Mend the lines that are named.";
    EpochJump = "epoch-jump", Refused, "the epoch is too far from the last signed one", "Look for a typing error; hosts take at most 1000 in one step.";
    SignedMissing = "signed-missing", BadInput, "the profile holds no signed intent for this phase", "Sign it with `muster script sign`.";
    SignedForm = "signed-form", BadInput, "a signed file does not parse", "Sign again.";
    SignatureDuplicate = "signature-duplicate", Refused, "this signer has signed already", "Sign with another key: one identity counts once.";
    SignerMissing = "signer-missing", BadInput, "no signing key was named", "Give --key FILE or --signer-agent KEY, or set signing: in the inventory.";
    KeyFile = "key-file", BadInput, "a key file is not usable", "Give an OpenSSH key file that only you can read.";
    KeyKind = "key-kind", BadInput, "a key is of a kind or size that is not taken", "Use Ed25519, ECDSA, or RSA of 3072 to 8192 bits.";
    PkiFile = "pki-file", BadInput, "a certificate, a revocation list or a key of the API's authority will not do", "Check that the file is the one that was meant.";
    ClientUnknown = "client-unknown", BadInput, "no certificate of that name or serial number was issued here", "Run `muster pki list`.";
    ClientAmbiguous = "client-ambiguous", BadInput, "several certificates of that name are valid", "Name the serial number, or give --all.";
    Passphrase = "passphrase", BadInput, "the passphrase does not open the key", "Type it again, or check the passphrase file.";
    PassphraseNeeded = "passphrase-needed", BadInput, "a passphrase is needed and there is no terminal to ask on", "Give --passphrase-file.";
    AgentUnreachable = "agent-unreachable", BadInput, "the SSH agent does not answer", "Start ssh-agent and check SSH_AUTH_SOCK.";
    AgentKeyMissing = "agent-key-missing", BadInput, "the SSH agent does not hold the key", "Add it with ssh-add.";
    AgentRefused = "agent-refused", Refused, "the SSH agent did not sign", "Confirm or touch when asked, and check the agent's constraints.";
    VerifyFailed = "verify-failed", Refused, "a signed profile does not verify", "Read the reason in the message.";
    KeygenMissing = "keygen-missing", Internal, "the system's ssh-keygen was not found", "Install openssh-client.";

    // reaching hosts
    ConnectUnreachable = "connect-unreachable", Unreachable, "the host or a bastion does not answer", "Check address, port, route and firewall.";
    ConnectDropped = "connect-dropped", Unreachable, "the connection was dropped before the SSH greeting", "Look at the host's sshd log: a penalty, MaxStartups or a firewall closed it.";
    ConnectDeadline = "connect-deadline", Unreachable, "connecting took longer than its deadline", "Look at the link, or raise --connect-timeout.";
    HostKeyChanged = "host-key-changed", Unreachable, "the host showed a key that is not the pinned one", "Find out why before anything else; a re-imaged host needs `muster host rotate-key`.";
    IdentityMissing = "identity-missing", BadInput, "there is no key to log in with", "Name one with `ssh: {identities: …}` or `admin: {identities: …}` in the inventory, give --admin-key for an administrator's login, or load one into an SSH agent.";
    AuthRefused = "auth-refused", Unreachable, "the host accepted none of the identities", "Read what each identity was refused for.";
    SshProtocol = "ssh-protocol", Unreachable, "the SSH connection failed", "Read the message.";
    RawNotSpelled = "raw-not-spelled", Refused, "a host is in raw mode, where unsigned code would run as root", "Say --danger-raw to mean it, or migrate the host to verified.";
    RawNotAllowed = "raw-not-allowed", Refused, "--danger-raw was given for a host that is not raw", "Leave it out: the inventory says verified.";
    OutcomeUnknown = "outcome-unknown", OutcomeUnknown, "the connection was lost during a run", "Probe the host: it names its last run and verdict.";
    HostAnswer = "host-answer", HostRefused, "the host's answer is not one that the shim gives", "Check with `muster host doctor` what the login is pinned to.";
    HostsFailed = "hosts-failed", Failed, "some hosts failed", "Read the summary; each line names its reason.";
    Interrupted = "interrupted", Interrupted, "ended by the operator", "Probe the hosts that were running.";

    // provisioning
    AdminPassword = "admin-password", BadInput, "sudo on the host wants a password and none was given", "Give --admin-password-file, or run on a terminal to be asked.";
    AdminSudo = "admin-sudo", Unreachable, "the administrator's login does not become root", "Let it run commands as root with sudo, or log in as root.";
    ProvisionObstacle = "provision-obstacle", Refused, "the host is in a state that must be mended before it can be provisioned", "Mend what the message names.";
    ProvisionWidens = "provision-widens", Refused, "provisioning would take away limits that are on the host", "Keep the limits that the message names, or mean their loss with --widen.";
    ProvisionFailed = "provision-failed", Failed, "provisioning failed and what it made was put back", "Read the step that the message names.";
    ProvisionLeft = "provision-left", Failed, "provisioning failed and not everything could be put back", "Read what is left in the message and mend it over the console.";
    DoctorFailed = "doctor-failed", Failed, "the doctor found failed checks", "Each failed check names its fix.";
    FloorLower = "floor-lower", Refused, "this would lower an epoch floor", "Lowering lets older signed scripts run again: say --lower to mean it.";

    // nodes and their API
    NodeUnknown = "node-unknown", BadInput, "there is no node of that name", "Look at `muster node list`, or name an address that is pinned.";
    NodePinMissing = "node-pin-missing", Refused, "no certificate is pinned for a node", "Claim it with `muster node claim`, or pin it with `muster node pin --fingerprint`.";
    NodePinConflict = "node-pin-conflict", Refused, "a different certificate is pinned for the node already", "Find out why it changed; then use `muster node pin --replace`.";
    NodeUnreachable = "node-unreachable", Unreachable, "a node's API does not answer", "Check address, port (7443), route, firewall, and `systemctl status musterd-edge` on the node.";
    NodeAnswer = "node-answer", HostRefused, "what answers is not a node as this version knows it", "Check address and port; then compare the versions of `muster` and of the node.";
    NodeCertificate = "node-certificate", Unreachable, "a node shows a certificate that is not the pinned one", "Find out why before anything else; a node that was reset is claimed anew, one that was rekeyed is pinned with --replace.";
    NodeTurnedAway = "node-turned-away", Unreachable, "a node does not let this client in", "Use a certificate of the authority that the node obeys.";
    NodeRefused = "node-refused", HostRefused, "a node refused a call", "Read the node's reason in the message.";
    NodeFailed = "node-failed", Failed, "a node could not do what it was asked", "Read the node's reason in the message, then its journal: `muster node logs`.";
    NodeBusy = "node-busy", Busy, "a node cannot take the call now", "Try again after the time that the message names.";
    NodeDeadline = "node-deadline", Deadline, "a node did not answer in the time that --timeout gave it", "Give it longer, or look at the link.";
    NotAsked = "not-asked", Refused, "a node was not asked, since one before it failed", "Mend that one; then run the command again for the rest.";
    ClientMissing = "client-missing", BadInput, "no client certificate was named", "Issue one with `muster pki issue`, and name it with --client, a context, or `defaults: {api: {client: …}}` in the inventory.";
    NotTheMachine = "not-the-machine", Refused, "what answered is not the machine whose code was typed", "Do not try again: check the address, then look at the machine's console.";
    FingerprintDiffers = "fingerprint-differs", Refused, "a node shows another fingerprint than the one that was given", "Check the address and what was read on the console; nothing was claimed or pinned.";
    FingerprintNeeded = "fingerprint-needed", Refused, "nothing proves that what answers is the node", "Give --fingerprint with what its console or journal shows.";
    PairingCode = "pairing-code", BadInput, "a pairing code is needed, or what was given is none", "Read it on the node's console: eight symbols, as in XXXX-XXXX.";
    WouldBootstrap = "would-bootstrap", HostRefused, "a claim would make the node build what its own document says", "Send the document that is meant with --document, or mean its own with --yes.";
    NameDiffers = "name-differs", Refused, "what was typed is not the name that was asked for", "Nothing was changed. Type the name exactly as it is shown.";
    HealthGate = "health-gate", Refused, "a node is not well, so it is not upgraded", "Mend the node first; `muster node status` shows what is wrong.";
    RolloutStopped = "rollout-stopped", Failed, "a roll-out stopped at a node", "Look at the node that the message names; the same command goes on from there.";
    ContextUnknown = "context-unknown", BadInput, "there is no context of that name", "Run `muster context list`.";
    AuditBroken = "audit-broken", Failed, "an audit record does not hold together, or lacks what was seen of it", "Keep what there is, and ask who had root on the node.";

    Fault = "cli-internal", Internal, "an operation of muster itself failed", "Read the message; it names the operation and the system's error.";
}

/// Any stable code: the CLI's own, the shim's, or a lint rule's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// One of the CLI's own.
    Own(Own),
    /// One of the shim's, found here before sending or told by a host.
    Shim(Reason),
    /// A lint rule's.
    Lint(Rule),
}

impl Code {
    /// Every code.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = Own::ALL.iter().map(|c| Self::Own(*c));
        let shim = Reason::ALL.iter().map(|r| Self::Shim(*r));
        own.chain(shim).chain(Rule::ALL.iter().map(|r| Self::Lint(*r)))
    }

    /// Finds a code by its word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::all().find(|c| c.word() == word)
    }

    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Own(c) => c.code(),
            Self::Shim(r) => r.code(),
            Self::Lint(r) => r.code(),
        }
    }

    /// What happened, in one clause.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Own(c) => c.what(),
            Self::Shim(r) => r.what(),
            Self::Lint(r) => r.what(),
        }
    }

    /// What to do, in one sentence.
    pub const fn fix(self) -> &'static str {
        match self {
            Self::Own(c) => c.fix(),
            Self::Shim(r) => r.fix(),
            Self::Lint(r) => r.fix(),
        }
    }

    /// The CLI's exit code when this is found *here*, before anything was sent.
    pub const fn exit(self) -> Exit {
        match self {
            Self::Own(c) => c.exit(),
            Self::Shim(_) | Self::Lint(_) => Exit::Refused,
        }
    }
}

impl From<Own> for Code {
    fn from(c: Own) -> Self {
        Self::Own(c)
    }
}

impl From<Rule> for Code {
    fn from(r: Rule) -> Self {
        Self::Lint(r)
    }
}

impl From<Reason> for Code {
    fn from(r: Reason) -> Self {
        Self::Shim(r)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The CLI's exit code for what a host's shim ended with.
pub const fn exit_of_shim(exit: ShimExit) -> Exit {
    match exit {
        ShimExit::Ok => Exit::Ok,
        ShimExit::Internal
        | ShimExit::SignatureRejected
        | ShimExit::BadParam
        | ShimExit::MalformedEnvelope
        | ShimExit::UnknownPhase
        | ShimExit::IntentRefused => Exit::HostRefused,
        ShimExit::Busy => Exit::Busy,
        ShimExit::ScriptFailed => Exit::ScriptFailed,
        ShimExit::Deadline => Exit::Deadline,
        ShimExit::PeerGone => Exit::OutcomeUnknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_are_distinct_across_both_sides_and_found_again() {
        let mut seen = HashSet::new();
        for c in Code::all() {
            assert!(seen.insert(c.word()), "{c} twice");
            assert_eq!(Code::from_word(c.word()), Some(c));
            assert!(
                c.word().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{c}"
            );
            assert!(c.fix().ends_with('.'), "{c}");
            assert_ne!(c.exit(), Exit::Ok, "{c}");
        }
    }
}
