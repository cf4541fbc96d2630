//! `muster host provision|unprovision|doctor|rotate-key|floor`

use super::{AdminArgs, Pace, Select};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Forms of a plan for other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// user-data for cloud-init.
    CloudInit,
    /// An Ansible playbook.
    Ansible,
    /// A shell script.
    Sh,
}

/// Make hosts run what is signed for them and nothing else.
#[derive(Debug, Args)]
pub struct Provision {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// How to get in.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What hosts shall be.
    #[command(flatten)]
    pub spec: SpecArgs,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
    /// Look at the hosts and say what would be done; nothing is changed.
    #[arg(long)]
    pub plan: bool,
    /// Write the plan for one host in another tool's form to standard output, and connect to nothing.
    #[arg(long = "as", value_enum, value_name = "FORM", conflicts_with = "plan")]
    pub form: Option<As>,
    /// Go on with an earlier provisioning that did not end, instead of putting it back first.
    #[arg(long)]
    pub resume: bool,
    /// Limits on the host that may be lost, as --plan and the refusal name them: `from`, `phases`, …
    #[arg(long, value_name = "LIMIT,…", value_delimiter = ',', conflicts_with = "form")]
    pub widen: Vec<String>,
    /// Do not ask before many hosts are changed.
    #[arg(long)]
    pub yes: bool,
}

/// What hosts shall be.
#[derive(Clone, Debug, Args)]
pub struct SpecArgs {
    /// A signed profile that may run there, beside those of the inventory: its name, and its epoch as the lowest that is taken.
    #[arg(long, value_name = "FOLDER")]
    pub profile: Vec<PathBuf>,
    /// A profile that may run there, by name and lowest epoch.
    #[arg(long, value_name = "NAME=EPOCH")]
    pub allow_profile: Vec<String>,
    /// The muster-shim binary; otherwise the one beside this program.
    #[arg(long, value_name = "FILE")]
    pub shim_binary: Option<PathBuf>,
    /// What its SHA-256 must be.
    #[arg(long, value_name = "HEX", requires = "shim_binary")]
    pub shim_sha256: Option<String>,
    /// Whose signatures count; otherwise what the inventory's `trust:` says.
    #[arg(long, value_name = "FILE")]
    pub allowed_signers: Option<PathBuf>,
    /// Whose signatures are void; otherwise what the inventory's `trust:` says.
    #[arg(long, value_name = "FILE")]
    pub revoked_signers: Option<PathBuf>,
    /// How many distinct signers an intent needs; otherwise what the inventory's `trust:` says, or 1.
    #[arg(long, value_name = "N")]
    pub signers_needed: Option<u32>,
    #[allow(rustdoc::broken_intra_doc_links, reason = "the help shows the brackets as they are")]
    /// A public key that may open the pool login, perhaps limited: FILE[;from=CIDR,…][;phases=join,leave].
    /// Otherwise `controllers:` of the inventory's `provision:`, or the public halves of what it logs in with.
    #[arg(long, value_name = "FILE")]
    pub controller_key: Vec<String>,
    /// The longest deadline that an intent may ask for.
    #[arg(long, value_name = "DURATION")]
    pub max_deadline: Option<String>,
    /// How far above a host's floor one intent's epoch may be.
    #[arg(long, value_name = "N")]
    pub epoch_max_step: Option<u32>,
    /// A variable that every script gets, such as a proxy. Not for secrets.
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Also take the place of the bash shim of an existing fleet, whose login keeps its account, keys and settings.
    #[arg(long, value_name = "ACCOUNT", num_args = 0..=1, default_missing_value = "kpssh")]
    pub drop_in: Option<String>,
}

/// Put hosts back as they were.
#[derive(Debug, Args)]
pub struct Unprovision {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// How to get in.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
    /// Look at the hosts and say what would be done; nothing is changed.
    #[arg(long)]
    pub plan: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
}

/// Check how hosts are set up.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// How to get in.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
    /// The shim to compare with; otherwise the one beside this program, where there is one.
    #[arg(long, value_name = "FILE")]
    pub shim_binary: Option<PathBuf>,
    /// Also look at the login of a fleet whose bash shim was swapped.
    #[arg(long, value_name = "ACCOUNT", num_args = 0..=1, default_missing_value = "kpssh")]
    pub drop_in: Option<String>,
    /// Only look; do not attack the login.
    #[arg(long)]
    pub no_attack: bool,
}

/// Pin another host key, or put other controller keys on hosts.
#[derive(Debug, Args)]
pub struct RotateKey {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// The new key of one host that was set up anew: a SHA256: fingerprint read off its console, or a public key line.
    #[arg(long, value_name = "KEY", conflicts_with = "controller_key")]
    pub host_key: Vec<String>,
    /// The fingerprint of the key that is pinned now, to be sure that the right one is given up.
    #[arg(long, value_name = "SHA256:…", requires = "host_key")]
    pub old_host_key: Option<String>,
    /// The key that takes the place of another in opening the pool login: its private key file, or its .pub file while an agent
    /// holds the private half; limits as for `provision`.
    #[arg(long, value_name = "FILE", required_unless_present = "host_key")]
    pub controller_key: Option<String>,
    /// The fingerprint of the controller key that goes; otherwise the one that the inventory logs in with.
    #[arg(long, value_name = "SHA256:…", requires = "controller_key")]
    pub old_controller_key: Option<String>,
    /// How to get in, for --controller-key.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
    /// Say what would be done, and change nothing.
    #[arg(long)]
    pub plan: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
}

/// Epoch floors.
#[derive(Debug, Subcommand)]
pub enum Floor {
    /// Ask hosts for the lowest epoch that they take, per profile.
    Show(super::phase::Probe),
    /// Write a floor as root over the administrator's login; the only way down.
    Set(FloorSet),
    /// Send the signed floor intent of a profile, which voids everything older of it.
    Raise(FloorRaise),
}

/// Write a floor.
#[derive(Debug, Args)]
pub struct FloorSet {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// A profile and the lowest epoch that shall be taken.
    #[arg(long, value_name = "PROFILE=EPOCH", required = true)]
    pub floor: Vec<String>,
    /// Write the whole file anew from these, where it is gone or does not parse.
    #[arg(long)]
    pub rebuild: bool,
    /// Mean it where it lowers a floor: older signed scripts can run again.
    #[arg(long)]
    pub lower: bool,
    /// How to get in.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
    /// Say what would be done, and change nothing.
    #[arg(long)]
    pub plan: bool,
    /// Do not ask before many hosts are changed.
    #[arg(long)]
    pub yes: bool,
}

/// Send a signed floor intent.
#[derive(Debug, Args)]
pub struct FloorRaise {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// The signed profile's folder.
    #[arg(long, value_name = "FOLDER")]
    pub profile: PathBuf,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
    /// Say what would be sent where, and connect to nothing.
    #[arg(long)]
    pub plan: bool,
    /// Do not ask before many hosts are changed.
    #[arg(long)]
    pub yes: bool,
}
