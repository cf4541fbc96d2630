//! Pairing: an operator who read a code of 40 bits from a machine's console claims that machine over a network that
//! nobody trusts.
//!
//! Nothing here does I/O, reads a clock or draws randomness: time and random bytes are arguments. The parts:
//!
//! - [`code`]: the code, as it is minted, shown and typed.
//! - [`cpace`]: the key exchange, CPace over ristretto255 with SHA-512, draft-irtf-cfrg-cpace-21, with its vectors.
//! - [`exchange`]: who proves what in which order, as types: nothing that depends on the key leaves the node before
//!   the operator has proven to know the code, and nothing is believed by the operator before the node has.
//! - [`door`]: how often and how fast one may try, and how many exchanges may be open at a time.
//! - [`message`]: the JSON bodies of `POST /v1/enroll`.
//!
//! What holds: one finished exchange buys one guess of the code, however many run at a time and whoever aborts them; a
//! relay that shows its own certificate, or swaps the authority, the document or the acknowledgement, fails the proof.
//! What does not: whoever reads the console has the code, and a neighbour can use up the tries (they only delay).
#![forbid(unsafe_code)]

pub mod code;
pub mod cpace;
pub mod door;
pub mod exchange;
pub mod message;

pub use code::{BadCode, Code};
pub use exchange::{Claim, Confirmation, Operator, Outcome};
