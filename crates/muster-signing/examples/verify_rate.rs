//! How long one verification takes in process: `verify_rate MESSAGE SIGNATURE ALLOWED_SIGNERS`.
//!
//! Parses the signature and the file anew each time, as the shim does, and prints the median of
//! batches in nanoseconds. `cargo xtask bench sshsig` runs it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a measuring tool")]

use muster_signing::allowed_signers::{AllowedSigners, ZuluOnly};
use muster_signing::sshsig::SshSig;
use muster_signing::verify::{Check, verify};
use std::time::Instant;

const BATCHES: usize = 31;
const RUNS: u32 = 20;

fn main() {
    let files: Vec<Vec<u8>> = std::env::args().skip(1).map(|path| std::fs::read(path).unwrap()).collect();
    let [message, signature, allowed] = files.as_slice() else { panic!("three files") };
    let mut times: Vec<u128> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..RUNS {
                let check = Check {
                    message,
                    signature: &SshSig::parse_armored(signature).unwrap(),
                    namespace: "kpssh",
                    principal: "kpssh",
                    allowed: &AllowedSigners::parse(allowed, &ZuluOnly).unwrap(),
                    revoked: None,
                    now: muster_core::UtcTime::from_unix(1_795_910_400),
                };
                let _ = std::hint::black_box(verify(&check).unwrap());
            }
            start.elapsed().as_nanos() / u128::from(RUNS)
        })
        .collect();
    times.sort_unstable();
    println!("{}", times[BATCHES / 2]);
}
