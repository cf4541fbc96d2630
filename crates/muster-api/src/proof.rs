//! A request that is signed by itself: what the client's key signs, and how it is sent.
//!
//! Who ends TLS could else say anything in a client's name. The text that is signed names the one request:
//!
//! ```text
//! muster-proof 1\n
//! METHOD SP PATH[?QUERY]\n        as sent, canonical
//! SHA-256 of the body\n           lower-case hex
//! SHA-256 of the node's certificate (DER)\n
//! the number that the node gave\n
//! ```
//!
//! It begins otherwise than what TLS lets a client sign (64 spaces), so that neither passes as the other. The header is
//! `Muster-Proof: 1 NUMBER SCHEME SIGNATURE`: a SignatureScheme of TLS 1.3 (RFC 8446, 4.2.3) as four hex digits, the signature in
//! lower-case hex.

use core::fmt;

/// What is signed.
#[must_use]
pub fn proof_text(request: &str, body: &[u8; 32], node: &[u8; 32], nonce: &str) -> Vec<u8> {
    format!("muster-proof 1\n{request}\n{}\n{}\n{nonce}\n", Hex(body), Hex(node)).into_bytes()
}

/// Longest header: the signature of an RSA key of 8192 bits is 2048 digits.
const MAX_HEADER: usize = 4096;
/// Hex digits of the number.
const NONCE: usize = 32;

/// The header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofHeader {
    /// The number that the node gave: 32 lower-case hex digits.
    pub nonce: String,
    /// SignatureScheme.
    pub scheme: u16,
    /// The signature.
    pub signature: Vec<u8>,
}

impl ProofHeader {
    /// Reads the one spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_HEADER {
            return None;
        }
        let mut words = text.split(' ');
        let (version, nonce, scheme, signature) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        if version != "1" || words.next().is_some() || nonce.len() != NONCE || unhex(nonce).is_none() {
            return None;
        }
        let scheme = match unhex(scheme)?.as_slice() {
            [a, b] => u16::from_be_bytes([*a, *b]),
            _ => return None,
        };
        let signature = unhex(signature).filter(|s| !s.is_empty())?;
        Some(Self { nonce: nonce.to_owned(), scheme, signature })
    }
}

impl fmt::Display for ProofHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 {} {:04x} {}", self.nonce, self.scheme, Hex(&self.signature))
    }
}

/// `GET /v1/proof`: a number for one signed request.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nonce {
    /// 32 hex digits.
    pub nonce: String,
    /// It is good for so long.
    pub seconds: u64,
    /// Whether the node asks for a proof where one can be asked for.
    pub required: bool,
}

struct Hex<'b>(&'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| pair.iter().try_fold(0, |sum: u8, b| Some(sum << 4 | digit(*b)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m15_the_text_names_request_body_node_and_number() {
        let nonce = "0123456789abcdef".repeat(2);
        let text = proof_text("POST /v1/lifecycle/cordon?undo=true", &[1; 32], &[0xab; 32], &nonce);
        let wanted = format!(
            "muster-proof 1\nPOST /v1/lifecycle/cordon?undo=true\n{}\n{}\n{nonce}\n",
            "01".repeat(32),
            "ab".repeat(32)
        );
        assert_eq!(String::from_utf8(text), Ok(wanted));
    }

    #[test]
    fn m15_a_header_has_one_spelling() {
        let nonce = "0123456789abcdef".repeat(2);
        let header = ProofHeader { nonce: nonce.clone(), scheme: 0x0403, signature: vec![0x30, 0x44] };
        let text = header.to_string();
        assert_eq!(text, format!("1 {nonce} 0403 3044"));
        assert_eq!(ProofHeader::parse(&text), Some(header));
        for bad in [
            String::new(),
            format!("2 {nonce} 0403 3044"),
            format!("1 {nonce} 403 3044"),
            format!("1 {nonce} 0403 "),
            format!("1 {nonce} 0403"),
            format!("1 {nonce} 0403 304"),
            format!("1 {nonce} 0403 3044 "),
            format!("1  {nonce} 0403 3044"),
            format!("1 {} 0403 3044", nonce.to_uppercase()),
            format!("1 {} 0403 3044", &nonce[2..]),
            format!("1 {nonce} 0403 {}", "30".repeat(MAX_HEADER)),
        ] {
            assert_eq!(ProofHeader::parse(&bad), None, "{bad}");
        }
    }
}
