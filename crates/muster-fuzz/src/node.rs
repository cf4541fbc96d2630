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

/// A key of an agent is the same in each spelling. The first byte says where the blob ends and the signature begins.
pub fn client_key(data: &[u8]) -> Said {
    let (n, rest) = data.split_first().map_or((0, data), |(n, rest)| (usize::from(*n), rest));
    let (blob, signature) = rest.split_at_checked(n).unwrap_or((rest, &[]));
    let Some(key) = muster_tls::ClientKey::from_ssh(blob) else { return Said::Refused };
    assert_eq!(key.ssh(), blob);
    if let Some(made) = key.signature(signature) {
        assert!(made.len() == 64 || made.first() == Some(&0x30) && made.len() <= 104);
    }
    Said::Accepted
}
