//! Names that are matched, signed, or turned into words of a record: checked once, at the edge.

use core::fmt;

/// Why a text is not a name of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {shown:?} is not of the form {form}")]
pub struct BadName {
    kind: &'static str,
    shown: String,
    form: &'static str,
}

fn is_alnum(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// First byte `[a-z0-9]`, then at most 62 of `[a-z0-9-]`, and `.` where `dots`.
fn checked(kind: &'static str, text: &str, dots: bool) -> Result<String, BadName> {
    let form = if dots { "[a-z0-9][a-z0-9.-]{0,62}" } else { "[a-z0-9][a-z0-9-]{0,62}" };
    let bytes = text.as_bytes();
    let head = bytes.first().copied().is_some_and(is_alnum);
    let rest = bytes.iter().all(|&b| is_alnum(b) || b == b'-' || (dots && b == b'.'));
    if head && rest && bytes.len() <= 63 {
        Ok(text.to_owned())
    } else {
        Err(BadName { kind, shown: text.chars().take(80).collect(), form })
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $ty:ident, $kind:literal, dots: $dots:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $ty(String);

        impl $ty {
            /// Checks `text` and takes it.
            pub fn new(text: &str) -> Result<Self, BadName> {
                checked($kind, text, $dots).map(Self)
            }

            /// The name as it was checked.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl core::str::FromStr for $ty {
            type Err = BadName;
            fn from_str(s: &str) -> Result<Self, BadName> {
                Self::new(s)
            }
        }
    };
}

name!(
    /// What a set of signed phases is called. No dots: it becomes a key in files and records.
    ProfileName, "profile name", dots: false
);
name!(
    /// What a host calls itself in `shim.toml`, and what an intent's `target: host=` names.
    HostName, "host name", dots: true
);
name!(
    /// A group of hosts, named in `shim.toml` and by an intent's `target: pool=`.
    PoolName, "pool name", dots: true
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for good in ["a", "0", "tls-bootstrap", &"a".repeat(63)] {
            assert!(ProfileName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a.b", "a/b", "../x", "a b", "a\n", &"a".repeat(64), "\u{e9}"] {
            assert!(ProfileName::new(bad).is_err(), "{bad}");
        }
        assert!(HostName::new("edge-1.example.net").is_ok());
        assert!(HostName::new(".a").is_err());
        assert!(PoolName::new("*").is_err());
    }
}
