//! Secret values: where they come from, and how they are kept out of everything that is shown.
//!
//! A secret has no Debug, no Display, no Serialize. It is wiped when dropped. Its encoded forms (base64 at each of the three
//! alignments, hex, percent, JSON and shell escapes) are hidden too, since a tool may print those instead.

use base64ct::{Base64, Base64Unpadded, Encoding};
use muster_core::redact;
use zeroize::Zeroizing;

/// Bytes that are never shown.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, by name, for the one place that needs them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Every form of every secret of this run.
#[derive(Default)]
pub struct Secrets {
    forms: Vec<Zeroizing<Vec<u8>>>,
}

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Secrets({} forms)", self.forms.len())
    }
}

impl Secrets {
    /// Adds a secret in all its forms.
    pub fn add(&mut self, secret: &[u8]) {
        if secret.len() < redact::SHORTEST {
            return;
        }
        self.form(secret.to_vec());
        self.form(Base64::encode_string(secret).into_bytes());
        // Inside a longer text the same bytes begin at one of three places of a base64 group; the characters that depend
        // on the neighbours are left off.
        for lead in 1..=2usize {
            let mut shifted = Zeroizing::new(vec![0u8; lead]);
            shifted.extend_from_slice(secret);
            let text = Zeroizing::new(Base64Unpadded::encode_string(&shifted).into_bytes());
            let end = text.len().saturating_sub(1);
            self.form(text.get(lead + 1..end).unwrap_or_default().to_vec());
        }
        let whole = Base64Unpadded::encode_string(secret.get(..secret.len() / 3 * 3).unwrap_or_default());
        self.form(whole.into_bytes());
        self.form(secret.iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect());
        if let Ok(text) = core::str::from_utf8(secret) {
            let json = serde_json::to_string(text).unwrap_or_default();
            self.form(json.trim_matches('"').as_bytes().to_vec());
            self.form(text.replace('\'', "'\\''").into_bytes());
            self.form(percent(secret));
        }
    }

    fn form(&mut self, bytes: Vec<u8>) {
        let bytes = Zeroizing::new(bytes);
        if bytes.len() >= redact::SHORTEST && !self.forms.contains(&bytes) {
            self.forms.push(bytes);
        }
    }

    /// Adds all of another set.
    pub fn add_all(&mut self, other: &Self) {
        for f in &other.forms {
            self.form(f.to_vec());
        }
    }

    /// Bytes of the longest form: as much of a text that was cut may be the beginning of a secret.
    pub fn longest(&self) -> usize {
        self.forms.iter().map(|f| f.len()).max().unwrap_or(0)
    }

    /// Bytes with every form of every secret replaced. To be done before the bytes are cut.
    pub fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        if self.forms.is_empty() {
            return bytes.to_vec();
        }
        let forms: Vec<&[u8]> = self.forms.iter().map(|f| f.as_slice()).collect();
        redact::redact(bytes, &forms)
    }

    /// The same for text.
    pub fn redact_text(&self, text: &str) -> String {
        if self.forms.is_empty() {
            return text.to_owned();
        }
        String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
    }
}

fn percent(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for &b in bytes {
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') {
            out.push(b);
        } else {
            out.extend_from_slice(format!("%{b:02X}").as_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_forms_are_hidden_at_every_alignment() {
        let secret = b"canary-7f3a9c-canary";
        let mut s = Secrets::default();
        s.add(secret);
        for lead in 0..6 {
            for tail in 0..4 {
                let mut text = vec![b'x'; lead];
                text.extend_from_slice(secret);
                text.extend(vec![b'y'; tail]);
                let shown = s.redact_text(&Base64::encode_string(&text));
                assert!(shown.contains(redact::MARK), "{lead} {tail}: {shown}");
            }
        }
        for shown in
            ["canary-7f3a9c-canary", "63616e6172792d3766336139632d63616e617279", "a=canary-7f3a9c-canary&"]
        {
            assert!(s.redact_text(shown).contains(redact::MARK), "{shown}");
        }
    }

    #[test]
    fn nothing_shows_a_secret_by_accident() {
        let secret = Secret::new(b"canary-canary".to_vec());
        let mut all = Secrets::default();
        all.add(secret.expose());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert!(!format!("{all:?}").contains("canary"));
    }
}
