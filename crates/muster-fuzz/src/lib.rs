//! What each fuzz target does with its input.
//!
//! One function a target, called by two: the libFuzzer binary under `fuzz/fuzz_targets/`, which
//! looks for inputs that break it, and the test `tests/corpus.rs`, which replays the kept corpus in
//! every ordinary test run. A body asserts what must hold of a parser beyond "no panic": that what
//! it accepted reads back as the same, that a refusal is one bounded line, that a stricter reader
//! accepts nothing that a laxer one refuses.
//!
//! Development only: nothing that ships depends on this crate. Its panics are the findings.
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a panic is how a fuzz target reports"
)]

pub mod audit;
pub mod cli;
pub mod document;
pub mod edge;
pub mod envelope;
pub mod host;
pub mod intent;
pub mod node;
pub mod operator;
pub mod ops;
pub mod pairing;
pub mod params;
pub mod peer;
pub mod provision;
pub mod ssh;
pub mod text;
pub mod tls;
pub mod trust;

/// What the parser said. The replay test wants to see both for every target, so that a corpus which
/// never gets past the first check does not count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The input was taken, and every assertion about what was taken held.
    Accepted,
    /// The input was refused, in one bounded line.
    Refused,
}

/// A target: its name (of the binary and of the corpus folder) and its body.
#[derive(Clone, Copy)]
pub struct Target {
    /// As in `fuzz/Cargo.toml`.
    pub name: &'static str,
    /// Where the body is, so that a test can see that the binary calls this one.
    pub path: &'static str,
    /// What it does with an input.
    pub body: fn(&[u8]) -> Said,
}

macro_rules! targets {
    ($($name:ident = $module:ident :: $body:ident;)*) => {
        /// Every target. A test compares this list with the binaries and the corpus folders.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            path: concat!("muster_fuzz::", stringify!($module), "::", stringify!($body)),
            body: $module::$body,
        }),*];
    };
}

targets! {
    address = peer::address;
    agent_answer = peer::agent_answer;
    allowed_signers = trust::allowed_signers;
    audit_chain = audit::chain;
    audit_heads = operator::audit_heads;
    bootc_status = ops::bootc_status;
    certificate = ssh::certificate;
    client_certificate = tls::client_certificate;
    client_key = node::client_key;
    contexts = operator::contexts;
    controller_key = provision::controller_key;
    doctor_answer = provision::doctor_answer;
    doctor_files = provision::doctor_files;
    document = document::document;
    document_values = document::values;
    envelope_1 = envelope::one;
    envelope_2 = envelope::two;
    envelope_2_parts = envelope::two_from_parts;
    frames = edge::frames;
    host_certificate = peer::host_certificate;
    host_key_text = peer::host_key_text;
    host_spec = provision::host_spec;
    image_policy = ops::image_policy;
    intent = intent::intent;
    inventory = cli::inventory;
    inventory_edit = cli::inventory_edit;
    journal_record = ops::journal_record;
    keygen_call = cli::keygen_call;
    known_hosts = peer::known_hosts;
    krl = trust::krl;
    manifest = cli::manifest;
    names = text::names;
    node_answer = node::answer;
    node_pins = operator::node_pins;
    operator_ca = tls::operator_ca;
    operator_host_key = operator::host_key;
    option_values = cli::values;
    pairing_code = pairing::code;
    pairing_exchange = pairing::exchange;
    pairing_message = pairing::message;
    params_1 = params::one;
    params_2 = params::two;
    pins = operator::pins;
    pki_revoked = operator::pki_revoked;
    private_key = ssh::private_key;
    probe_answer = operator::probe_answer;
    proof_header = node::proof;
    provision_facts = provision::provision_facts;
    public_key = ssh::public_key;
    public_key_line = ssh::public_key_line;
    request_line = edge::request_line;
    revoked_signers = trust::revoked_signers;
    root_answer = provision::root_answer;
    rotate_files = provision::rotate_files;
    script = cli::script;
    shim_answer = operator::shim_answer;
    shim_decide = host::decide_for_nobody;
    shim_floors = host::floors;
    shim_kernel_lines = host::kernel_lines;
    shim_run_log = host::run_log;
    shim_run_record = host::run_record;
    shim_system_files = host::system_files;
    shim_toml = host::shim_toml;
    shim_user_auth = host::user_auth;
    shown_output = cli::shown_output;
    ssh_handshake = peer::handshake;
    ssh_key_file = peer::key_file;
    sshsig = ssh::sshsig;
    sshsig_blob = ssh::sshsig_blob;
    times = text::times;
    user_certificate = peer::user_certificate;
    yaml = operator::yaml;
}

/// Bytes that a message may take. A parameter pattern (1024) may be quoted whole; everything else
/// from outside is cut far shorter.
const MAX_MESSAGE: usize = 2048;

/// A refusal is one line that a terminal, a log and a journal record can take as it is.
pub(crate) fn refused(why: &dyn core::fmt::Display) -> Said {
    refused_within(MAX_MESSAGE, why)
}

/// As [`refused`], where a message lists several texts from outside.
pub(crate) fn refused_within(most: usize, why: &dyn core::fmt::Display) -> Said {
    let text = why.to_string();
    assert!(!text.is_empty(), "a refusal says nothing");
    assert!(text.len() <= most, "a refusal of {} bytes: {text:?}", text.len());
    assert!(!text.chars().any(char::is_control), "a refusal with control characters: {text:?}");
    Said::Refused
}

/// As [`refused`], from a result whose good value does not matter.
pub(crate) fn said<T, E: core::fmt::Display>(result: Result<T, E>) -> Said {
    match result {
        Ok(_) => Said::Accepted,
        Err(why) => refused(&why),
    }
}
