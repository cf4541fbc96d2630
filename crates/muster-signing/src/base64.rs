//! Base64 (RFC 4648 section 4): strict for our own formats, and with white space skipped where
//! OpenSSH skips it.

use base64ct::{Base64, Base64Unpadded, Encoding};

/// Standard alphabet, padded, canonical, nothing else.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let text = core::str::from_utf8(text).ok()?;
    Base64::decode_vec(text).ok()
}

/// As [`decode`], after the white space of C's `isspace` was dropped, as OpenSSH's decoder does.
pub(crate) fn decode_spaced(text: &[u8]) -> Option<Vec<u8>> {
    let kept: Vec<u8> = text.iter().copied().filter(|b| !is_c_space(*b)).collect();
    decode(&kept)
}

pub(crate) fn is_c_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

pub(crate) fn encode_unpadded(bytes: &[u8]) -> String {
    Base64Unpadded::encode_string(bytes)
}

pub(crate) fn decode_unpadded(text: &str) -> Option<Vec<u8>> {
    Base64Unpadded::decode_vec(text).ok()
}
