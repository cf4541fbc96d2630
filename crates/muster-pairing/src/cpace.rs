//! CPace over the group ristretto255 (RFC 9496) with SHA-512, in its initiator-responder form: draft-irtf-cfrg-cpace-21,
//! sections 6 and 7, judged by the vectors of its appendix.
//!
//! Both sides map the password to a point `g` of the group, exchange `y·g`, and hash the common point and all that was
//! sent. Whoever watches or takes part without the password learns nothing but whether one guess was right.
//!
//! Names are the draft's: PRS password, CI channel identifier, sid session id, Y share, AD associated data, K common
//! point, ISK intermediate session key. `sid` is empty here, which the draft allows: what tells sessions apart is in
//! the associated data of the responder, and so in the key.

use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;
use sha2::{Digest, Sha512};
use zeroize::{Zeroize, Zeroizing};

/// `G.DSI` of this suite.
const DSI: &[u8] = b"CPaceRistretto255";
/// `G.DSI || "_ISK"`.
const DSI_ISK: &[u8] = b"CPaceRistretto255_ISK";
/// Block size of SHA-512 in bytes, `H.s_in_bytes`.
const BLOCK: usize = 128;
/// Bytes of a share.
pub const SHARE: usize = 32;

/// A share as it travels: 32 bytes, not yet known to be a point.
pub type Share = [u8; SHARE];

/// The other side's share is no point of the group, or its neutral element: nothing was learned, no guess was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the share is not a point of ristretto255, or the neutral one")]
pub struct BadShare;

/// The key that both sides have in the end, if they used the same password.
pub(crate) struct SessionKey([u8; 64]);

impl Drop for SessionKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl SessionKey {
    pub(crate) fn expose(&self) -> &[u8; 64] {
        &self.0
    }
}

/// One side's secret scalar, and its share.
pub(crate) struct Half {
    scalar: Scalar,
    share: Share,
}

impl Drop for Half {
    fn drop(&mut self) {
        self.scalar.zeroize();
    }
}

impl Half {
    /// From 64 random bytes, reduced to a scalar; `channel` is the channel identifier.
    pub(crate) fn new(password: &[u8], channel: &[u8], mut random: [u8; 64]) -> Self {
        let scalar = Scalar::from_bytes_mod_order_wide(&random);
        random.zeroize();
        Self::of(&generator(password, channel, b""), scalar)
    }

    fn of(generator: &RistrettoPoint, scalar: Scalar) -> Self {
        Self { scalar, share: (generator * scalar).compress().to_bytes() }
    }

    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// The session key, seen from the initiator (`ours` first) or from the responder.
    pub(crate) fn finish(
        &self,
        theirs: &Share,
        role: Role,
        initiator_data: &[u8],
        responder_data: &[u8],
    ) -> Result<SessionKey, BadShare> {
        let common = common_point(&self.scalar, theirs)?;
        let (a, b) = match role {
            Role::Initiator => (&self.share, theirs),
            Role::Responder => (theirs, &self.share),
        };
        Ok(session_key(b"", &common, (a, initiator_data), (b, responder_data)))
    }
}

/// Which side of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Responder,
}

/// `calculate_generator`: the password as a point.
fn generator(prs: &[u8], ci: &[u8], sid: &[u8]) -> RistrettoPoint {
    let text = Zeroizing::new(generator_string(prs, ci, sid));
    let mut hash: [u8; 64] = Sha512::digest(&*text).into();
    let point = RistrettoPoint::from_uniform_bytes(&hash);
    hash.zeroize();
    point
}

/// `generator_string`: zeros fill the first block of the hash, so that the password alone is in it.
fn generator_string(prs: &[u8], ci: &[u8], sid: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * BLOCK);
    prepend_len(&mut out, DSI);
    prepend_len(&mut out, prs);
    let taken = out.len().saturating_add(1);
    prepend_len(&mut out, &vec![0; BLOCK.saturating_sub(taken)]);
    prepend_len(&mut out, ci);
    prepend_len(&mut out, sid);
    out
}

/// `scalar_mult_vfy`: the common point, unless the share is none of the group or the result is neutral.
fn common_point(scalar: &Scalar, share: &Share) -> Result<Zeroizing<[u8; 32]>, BadShare> {
    let point = CompressedRistretto(*share).decompress().ok_or(BadShare)?;
    let common = point * scalar;
    if common.is_identity() {
        return Err(BadShare);
    }
    Ok(Zeroizing::new(common.compress().to_bytes()))
}

fn session_key(sid: &[u8], common: &[u8; 32], a: (&Share, &[u8]), b: (&Share, &[u8])) -> SessionKey {
    let mut text = Zeroizing::new(Vec::with_capacity(256));
    for part in [DSI_ISK, sid, common, a.0, a.1, b.0, b.1] {
        prepend_len(&mut text, part);
    }
    SessionKey(Sha512::digest(&*text).into())
}

/// `prepend_len`: a length in LEB128, then the bytes.
fn prepend_len(out: &mut Vec<u8>, part: &[u8]) {
    let mut rest = part.len();
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap_or(0x7f);
        rest >>= 7;
        if rest == 0 {
            out.push(low);
            break;
        }
        out.push(low | 0x80);
    }
    out.extend_from_slice(part);
}

#[cfg(test)]
#[path = "cpace/tests.rs"]
mod tests;
