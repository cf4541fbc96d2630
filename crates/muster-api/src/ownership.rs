//! Document, owner and revocation: `POST /v1/config`, `POST /v1/ca/rotate`, `PUT /v1/ca/crl`.

use serde::{Deserialize, Serialize};

/// What the node shall be.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigRequest {
    /// A `muster:` document, YAML.
    pub document: String,
}

/// What became of a document.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigAnswer {
    /// `applied`.
    pub status: String,
    /// Where the node keeps it.
    pub path: String,
    /// The role that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Whether the API runs after the next boot.
    pub api: bool,
    /// Whether the node is being built now.
    pub released: bool,
}

/// Another owner.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateRequest {
    /// Its certificate, PEM.
    #[serde(rename = "operatorCA")]
    pub operator_ca: String,
    /// A client's certificate under it, PEM: that it is the right file.
    pub proof: String,
    /// By the key of `proof`, over [`rotation_text`]; [`RotationSignature`] spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A signature of a rotation, spelled as in `Muster-Proof`: a SignatureScheme of TLS 1.3 (RFC 8446, 4.2.3) as four hex digits, a space,
/// the signature in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationSignature {
    /// SignatureScheme.
    pub scheme: u16,
    /// The signature.
    pub signature: Vec<u8>,
}

/// Hex digits of the longest signature: RSA of 8192 bits.
const MAX_SIGNATURE: usize = 2048;

impl RotationSignature {
    /// Reads the one spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, signature) = text.split_once(' ')?;
        let hex = |t: &str| t.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let fits = scheme.len() == 4
            && (2..=MAX_SIGNATURE).contains(&signature.len())
            && signature.len().is_multiple_of(2);
        if !fits || !hex(scheme) || !hex(signature) {
            return None;
        }
        let signature = signature.as_bytes().chunks(2).map(|pair| {
            let pair = core::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        Some(Self {
            scheme: u16::from_str_radix(scheme, 16).ok()?,
            signature: signature.collect::<Option<_>>()?,
        })
    }

    /// As it is sent.
    #[must_use]
    pub fn render(&self) -> String {
        self.signature.iter().fold(format!("{:04x} ", self.scheme), |text, byte| format!("{text}{byte:02x}"))
    }
}

/// Who owns the node now.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RotateAnswer {
    /// `rotated`.
    pub status: String,
    /// `SHA256:…` of the new authority.
    #[serde(rename = "operatorCA")]
    pub operator_ca: String,
    /// What comes next.
    pub note: String,
}

/// The list that the node judges by now.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListAnswer {
    /// `taken`.
    pub status: String,
    /// crlNumber, lower-case hex.
    pub number: String,
    /// How many certificates it revokes.
    pub revoked: usize,
    /// When it ends; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_update: Option<String>,
}

/// What a client's key signs for a rotation of the operators' authority: which node changes from whom to whom, and at which
/// list of revoked certificates (its number in lower-case hex, empty where the node has none). Fingerprints are SHA-256 over DER.
#[must_use]
pub fn rotation_text(node: &[u8; 32], old: &[u8; 32], new: &[u8; 32], list: &str) -> Vec<u8> {
    let mut text = b"muster-ca-rotate\0".to_vec();
    for part in [node, old, new] {
        text.extend_from_slice(part);
    }
    text.extend_from_slice(list.as_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s15_a_signature_has_one_spelling() {
        let signature = RotationSignature { scheme: 0x0403, signature: vec![0x30, 0x0a, 0xff] };
        assert_eq!(signature.render(), "0403 300aff");
        assert_eq!(RotationSignature::parse("0403 300aff"), Some(signature));
        for bad in [
            "",
            "0403",
            "0403 ",
            "403 30",
            "0403 3",
            "0403 300AFF",
            "0403  30",
            "0403 30 ",
            "+403 30",
            "0403 +3",
        ] {
            assert_eq!(RotationSignature::parse(bad), None, "{bad}");
        }
        assert!(RotationSignature::parse(&format!("0403 {}", "00".repeat(1025))).is_none());
    }

    #[test]
    fn s15_the_signed_text_names_node_old_new_and_list() {
        let text = rotation_text(&[1; 32], &[2; 32], &[3; 32], "0a");
        assert!(text.starts_with(b"muster-ca-rotate\0\x01"));
        assert_eq!(text.len(), 17 + 96 + 2);
        assert_ne!(text, rotation_text(&[1; 32], &[3; 32], &[2; 32], "0a"));
    }
}
