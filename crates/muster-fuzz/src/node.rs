//! What a node and its client say to each other.

use crate::Said;
use muster_api::logs::Record;
use muster_api::upgrade::StageEvent;
use muster_api::{Fault, Nonce, ProofHeader};
use muster_client::Lines;

/// Lines are the same however the pieces fall; what is read of a line can be written and read again.
pub fn answer(data: &[u8]) -> Said {
    let (size, text) = data.split_first().map_or((1, data), |(n, rest)| (usize::from(*n).max(1), rest));
    let (mut lines, mut got) = (Lines::default(), Vec::new());
    for piece in text.chunks(size) {
        lines.push(piece).expect("an input is shorter than a line may be");
        got.extend(core::iter::from_fn(|| lines.take()));
    }
    let rest = lines.rest();
    assert!(!rest.contains(&b'\n'));
    got.push(rest);
    assert_eq!(got.join(&b'\n'), text);
    let mut said = Said::Refused;
    for line in &got {
        macro_rules! again {
            ($kind:ty) => {
                if let Ok(read) = serde_json::from_slice::<$kind>(line) {
                    let text = serde_json::to_vec(&read).expect("our own type");
                    assert_eq!(serde_json::from_slice::<$kind>(&text).expect("our own text"), read);
                    said = Said::Accepted;
                }
            };
        }
        again!(Fault);
        again!(Record);
        again!(StageEvent);
        again!(Nonce);
    }
    said
}

/// A header has one spelling.
pub fn proof(data: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(data) else { return Said::Refused };
    match ProofHeader::parse(text) {
        Some(read) => {
            assert_eq!(read.to_string(), text);
            assert!(text.is_ascii() && !read.signature.is_empty());
            Said::Accepted
        }
        None => Said::Refused,
    }
}
