//! RSA file keys: the private operation is aws-lc's, which is hardened against timing; the pure-Rust one is not used.
//!
//! aws-lc takes a key as PKCS#1 DER (RFC 8017, A.1.2), whose two CRT exponents an OpenSSH key file does not hold. They are worked
//! out once, here, by plain long division on this machine.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA512;
use muster_signing::sign::{SignFault, Signer};
use ssh_key::private::RsaKeypair;
use zeroize::Zeroizing;

/// An RSA key that signs `rsa-sha2-512`.
pub(super) struct RsaSigner {
    key: KeyPair,
    blob: Vec<u8>,
}

impl RsaSigner {
    /// Takes an opened key file; `blob` is its public key or certificate.
    pub(super) fn new(pair: &RsaKeypair, blob: Vec<u8>) -> Option<Self> {
        let der = pkcs1(pair)?;
        Some(Self { key: KeyPair::from_der(&der).ok()?, blob })
    }
}

impl Signer for RsaSigner {
    fn public_blob(&self) -> &[u8] {
        &self.blob
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault> {
        let mut signature = vec![0u8; self.key.public_modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), data, &mut signature)
            .map_err(|_| SignFault("the RSA operation failed".into()))?;
        let mut out = Vec::new();
        for part in [b"rsa-sha2-512".as_slice(), &signature] {
            let len = u32::try_from(part.len()).map_err(|_| SignFault("the signature is too long".into()))?;
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(part);
        }
        Ok(out)
    }
}

fn pkcs1(pair: &RsaKeypair) -> Option<Zeroizing<Vec<u8>>> {
    let (public, private) = (pair.public(), pair.private());
    let d = private.d().as_positive_bytes()?;
    let p = private.p().as_positive_bytes()?;
    let q = private.q().as_positive_bytes()?;
    let dp = remainder(d, &minus_one(p)?);
    let dq = remainder(d, &minus_one(q)?);
    let parts = [
        &[0u8][..],
        public.n().as_positive_bytes()?,
        public.e().as_positive_bytes()?,
        d,
        p,
        q,
        &dp,
        &dq,
        private.iqmp().as_positive_bytes()?,
    ];
    let mut body = Zeroizing::new(Vec::new());
    for number in parts {
        integer(&mut body, number);
    }
    let mut out = Zeroizing::new(vec![0x30]);
    length(&mut out, body.len());
    out.extend_from_slice(&body);
    Some(out)
}

fn integer(out: &mut Vec<u8>, number: &[u8]) {
    let zeros = number.iter().take_while(|b| **b == 0).count().min(number.len().saturating_sub(1));
    let digits = number.get(zeros..).unwrap_or_default();
    let pad = digits.first().is_some_and(|b| *b >= 0x80);
    out.push(0x02);
    length(out, digits.len() + usize::from(pad));
    if pad {
        out.push(0);
    }
    out.extend_from_slice(digits);
}

fn length(out: &mut Vec<u8>, len: usize) {
    let bytes = len.to_be_bytes();
    let digits: Vec<u8> = bytes.iter().copied().skip_while(|b| *b == 0).collect();
    if len < 0x80 {
        out.push(digits.last().copied().unwrap_or(0));
    } else {
        out.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
        out.extend_from_slice(&digits);
    }
}

/// An odd number less one.
fn minus_one(number: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(number.to_vec());
    let last = out.last_mut()?;
    if *last & 1 == 0 {
        return None;
    }
    *last -= 1;
    Some(out)
}

/// `value mod modulus`, bit by bit; both big-endian.
fn remainder(value: &[u8], modulus: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut rest = Zeroizing::new(vec![0u8; modulus.len() + 1]);
    let mut wide = Zeroizing::new(vec![0u8]);
    wide.extend_from_slice(modulus);
    for byte in value {
        for bit in (0..8).rev() {
            let mut carry = (byte >> bit) & 1;
            for b in rest.iter_mut().rev() {
                let next = *b >> 7;
                *b = (*b << 1) | carry;
                carry = next;
            }
            if rest.as_slice() >= wide.as_slice() {
                let mut borrow = 0u16;
                for (r, m) in rest.iter_mut().rev().zip(wide.iter().rev()) {
                    let diff = u16::from(*r).wrapping_sub(u16::from(*m)).wrapping_sub(borrow);
                    borrow = (diff >> 8) & 1;
                    *r = (diff & 0xff) as u8;
                }
            }
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn remainder_is_right(a: u128, m in 1u128..) {
            let r = remainder(&a.to_be_bytes(), &m.to_be_bytes());
            let got = r.iter().fold(0u128, |n, b| (n << 8) | u128::from(*b));
            proptest::prop_assert_eq!(got, a % m);
        }
    }
}
