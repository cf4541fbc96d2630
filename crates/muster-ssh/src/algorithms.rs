//! What is offered to a host, and what is refused of what it offers.
//!
//! Key exchange: X25519 (with ML-KEM-768 where the host has it), NIST curves, the fixed groups 14, 16
//! and 18 with SHA-2. No group exchange: the host would choose the group. Ciphers: AES-256-GCM first,
//! then ChaCha20-Poly1305, then AES-CTR with SHA-2 MACs. No compression, no SHA-1 anywhere.
//!
//! Terrapin (CVE-2023-48795): strict key exchange is always offered. A host that does not have it may
//! still be spoken to with AES-GCM, which the attack does not reach (its packet counter is not the
//! sequence number that the attack shifts), and with nothing else.

use std::borrow::Cow;
use std::sync::Arc;

use russh::keys::ssh_key::{Algorithm, EcdsaCurve, HashAlg};
use russh::{Preferred, cipher, client, compression, kex, mac};

use crate::fingerprint::KeyKind;
use crate::trust::HostTrust;

/// What a server that has strict key exchange puts in its first list.
const STRICT: &str = "kex-strict-s-v00@openssh.com";

const KEX: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::DH_G14_SHA256,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
    // The library looks for the server's word among our own names before it believes it.
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
];

const CIPHERS: &[cipher::Name] = &[
    cipher::AES_256_GCM,
    cipher::AES_128_GCM,
    cipher::CHACHA20_POLY1305,
    cipher::AES_256_CTR,
    cipher::AES_128_CTR,
];

const MACS: &[mac::Name] = &[mac::HMAC_SHA512_ETM, mac::HMAC_SHA256_ETM, mac::HMAC_SHA512, mac::HMAC_SHA256];

const COMPRESSION: &[compression::Name] = &[compression::NONE];

/// A channel's window: what a peer may have under way to us.
pub(crate) const WINDOW: u32 = 256 * 1024;

fn host_algorithms(kind: KeyKind) -> Vec<Algorithm> {
    match kind {
        KeyKind::Ed25519 => vec![Algorithm::Ed25519],
        KeyKind::EcdsaP256 => vec![Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 }],
        KeyKind::EcdsaP384 => vec![Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 }],
        KeyKind::EcdsaP521 => vec![Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 }],
        // Never `hash: None`, which is SHA-1.
        KeyKind::Rsa => {
            vec![
                Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
                Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
            ]
        }
    }
}

/// The client's settings for one handshake: `kinds` are the plain host keys worth asking for.
pub(crate) fn config(
    trust: &HostTrust,
    kinds: &[KeyKind],
    keepalive: core::time::Duration,
) -> Arc<client::Config> {
    let all = |kinds: &[KeyKind]| kinds.iter().flat_map(|k| host_algorithms(*k)).collect::<Vec<_>>();
    let certificates = if trust.takes_certificates() { all(&KeyKind::ALL) } else { Vec::new() };
    Arc::new(client::Config {
        client_id: russh::SshId::Standard(Cow::Borrowed(concat!(
            "SSH-2.0-muster_",
            env!("CARGO_PKG_VERSION")
        ))),
        window_size: WINDOW,
        maximum_packet_size: 32 * 1024,
        channel_buffer_size: 16,
        preferred: Preferred {
            kex: Cow::Borrowed(KEX),
            key: Cow::Owned(all(kinds)),
            host_key_certificates: Cow::Owned(certificates),
            cipher: Cow::Borrowed(CIPHERS),
            mac: Cow::Borrowed(MACS),
            compression: Cow::Borrowed(COMPRESSION),
        },
        keepalive_interval: Some(keepalive),
        // Silence is judged where the bytes arrive (see `stream`): the library's own count stands
        // still while it is stuck in a write, which is when it matters.
        keepalive_max: 0,
        nodelay: true,
        ..client::Config::default()
    })
}

/// Judges the server's first list of algorithms.
pub(crate) fn terrapin_safe(kex: &str, ciphers: &str) -> bool {
    if kex.split(',').any(|n| n == STRICT) {
        return true;
    }
    let theirs: Vec<&str> = ciphers.split(',').collect();
    let chosen = CIPHERS.iter().map(AsRef::as_ref).find(|ours: &&str| theirs.contains(ours));
    // With nothing in common the library says so itself.
    chosen.is_none_or(|c| c.contains("-gcm@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terrapin_needs_strict_key_exchange_or_gcm() {
        let strict = "curve25519-sha256,kex-strict-s-v00@openssh.com";
        let old = "curve25519-sha256,ext-info-s";
        assert!(terrapin_safe(strict, "chacha20-poly1305@openssh.com"));
        assert!(terrapin_safe(old, "chacha20-poly1305@openssh.com,aes256-gcm@openssh.com"));
        assert!(!terrapin_safe(old, "chacha20-poly1305@openssh.com,aes256-ctr"));
        assert!(!terrapin_safe(old, "aes256-ctr"));
        assert!(!terrapin_safe("kex-strict-c-v00@openssh.com", "aes256-ctr"));
    }

    #[test]
    fn st13_no_sha1_name_is_ever_offered() {
        let names = KEX.iter().map(|n| n.as_ref().to_owned());
        let names = names.chain(CIPHERS.iter().map(|n| n.as_ref().to_owned()));
        let names = names.chain(MACS.iter().map(|n| n.as_ref().to_owned()));
        let hosts = KeyKind::ALL.into_iter().flat_map(host_algorithms).map(|a| a.to_string());
        for name in names.chain(hosts) {
            assert!(!name.ends_with("sha1") && name != "ssh-rsa" && !name.contains("cbc"), "{name}");
        }
    }
}
