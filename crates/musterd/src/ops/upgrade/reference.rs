//! The name of an image, in the one spelling that is taken.
//!
//! `HOST[:PORT]/PATH[:TAG]` or `HOST[:PORT]/PATH@sha256:…`. Host, path and tag are those of the distribution project's reference
//! grammar (github.com/distribution/reference), but for what would make two readers see two images: a host must look like one
//! (a dot, a port, or `localhost`), since container tools take `a/b` for an image of Docker Hub; the Hub itself is written
//! `docker.io/library/…`; a tag and a digest together are refused. So the name is, byte for byte, what the policy is asked about
//! and what is pulled.

use core::fmt;

/// Bytes of the longest name: the grammar's own bound for host and path, and a digest.
const MAX: usize = 255 + 1 + "sha256:".len() + 64;

/// A name of that form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    text: String,
    /// Bytes of host and path.
    name: usize,
    /// Bytes of the host, with its port.
    host: usize,
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReference {
    /// Empty, or too long.
    #[error("an image's name has 1 to {MAX} bytes")]
    Length,
    /// Without a slash.
    #[error("an image's name begins with its registry: HOST[:PORT]/PATH")]
    NoRegistry,
    /// The host is none.
    #[error(
        "the registry must be a host name in lower case with a dot or a port, or `localhost`; container tools would look elsewhere else"
    )]
    Host,
    /// Another spelling of Docker Hub.
    #[error("images of Docker Hub are written out: docker.io/library/NAME or docker.io/OWNER/NAME")]
    Hub,
    /// The path.
    #[error(
        "the path of an image is of lower-case letters and digits, with `.`, `_`, `__` or `-` between them"
    )]
    Path,
    /// The tag.
    #[error("a tag is 1 to 128 of letters, digits, `_`, `.` and `-`, and does not begin with the last two")]
    Tag,
    /// The digest.
    #[error("a digest is `sha256:` and 64 lower-case hexadecimal digits, and there is no tag before it")]
    Digest,
}

impl Reference {
    /// Reads a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadReference> {
        if text.is_empty() || text.len() > MAX {
            return Err(BadReference::Length);
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let (host, path) = rest.split_once('/').ok_or(BadReference::NoRegistry)?;
        if !is_host(host) {
            return Err(BadReference::Host);
        }
        let (path, tag) = match path.rsplit_once(':') {
            // A colon before a slash is no tag, and no path either.
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (path, None),
        };
        let name = host.len() + 1 + path.len();
        if name > 255 || !path.split('/').all(is_component) {
            return Err(BadReference::Path);
        }
        if host == "index.docker.io" || (host == "docker.io" && !path.contains('/')) {
            return Err(BadReference::Hub);
        }
        if digest.is_some_and(|d| tag.is_some() || !is_digest(d)) {
            return Err(BadReference::Digest);
        }
        if !tag.is_none_or(is_tag) {
            return Err(BadReference::Tag);
        }
        Ok(Self { text: text.to_owned(), name, host: host.len() })
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host and path, without tag and digest.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.get(..self.name).unwrap_or(&self.text)
    }

    /// The host, with its port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.text.get(..self.host).unwrap_or(&self.text)
    }

    /// The digest, where it names one.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.text.get(self.name..)?.strip_prefix('@')
    }

    /// With the tag that counts where none is written, as container tools read it.
    #[must_use]
    pub fn exact(&self) -> String {
        if self.text.len() == self.name { format!("{}:latest", self.text) } else { self.text.clone() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let label = |l: &str| {
        let inner = l.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        !l.is_empty() && inner && !l.starts_with('-') && !l.ends_with('-')
    };
    let digits = |p: &str| (1..=5).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
    name.split('.').all(label)
        && port.is_none_or(digits)
        && (name.contains('.') || port.is_some() || name == "localhost")
}

/// Letters and digits, with `.`, `_`, `__` or any number of `-` between two runs of them.
fn is_component(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut separator = Vec::new();
    let mut seen = false;
    for b in text.bytes() {
        if alphanumeric(b) {
            let ok = match separator.as_slice() {
                [] | b"." | b"_" | b"__" => true,
                many => many.iter().all(|b| *b == b'-'),
            };
            if !ok || (!seen && !separator.is_empty()) {
                return false;
            }
            separator.clear();
            seen = true;
        } else {
            separator.push(b);
        }
    }
    seen && separator.is_empty()
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
        && tag.bytes().next().is_some_and(word)
}

fn is_digest(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_one_image_to_every_reader_is_taken() {
        let digest = format!("quay.io/a/b@sha256:{}", "0a".repeat(32));
        for good in [
            "quay.io/a",
            "quay.io/a/b:latest",
            "registry.example.com:5000/os/node:1.2_3-x",
            "localhost/x",
            "localhost:5000/x__y/a.b/c---d",
            "10.0.0.1:5000/x",
            "docker.io/library/debian",
            &digest,
        ] {
            let reference = Reference::parse(good).unwrap_or_else(|e| panic!("{good}: {e}"));
            assert_eq!(reference.as_str(), good);
            assert!(good.starts_with(reference.name()) && reference.name().starts_with(reference.host()));
        }
        let parsed = Reference::parse("localhost:5000/a/b:t").unwrap();
        assert_eq!(
            (parsed.host(), parsed.name(), parsed.digest()),
            ("localhost:5000", "localhost:5000/a/b", None)
        );
        assert_eq!(Reference::parse("quay.io/a").unwrap().exact(), "quay.io/a:latest");
        assert_eq!(Reference::parse("quay.io/a:1").unwrap().exact(), "quay.io/a:1");
        assert!(Reference::parse(&digest).unwrap().digest().is_some_and(|d| d.starts_with("sha256:")));
    }

    #[test]
    fn what_two_readers_could_take_for_two_images_is_refused() {
        use BadReference as B;
        let short = format!("quay.io/a@sha256:{}", "a".repeat(63));
        let upper = format!("quay.io/a@sha256:{}", "A".repeat(64));
        let both = format!("quay.io/a:1@sha256:{}", "a".repeat(64));
        let long = format!("quay.io/{}", "a".repeat(256));
        for (bad, why) in [
            ("", B::Length),
            ("debian", B::NoRegistry),
            ("fedora/bootc", B::Host),
            ("Quay.io/a", B::Host),
            ("quay.io:/a", B::Host),
            ("quay.io:123456/a", B::Host),
            ("quay..io/a", B::Host),
            ("-quay.io/a", B::Host),
            ("docker://quay.io/a", B::Host),
            ("oci:/tmp/x", B::Host),
            ("docker.io/debian", B::Hub),
            ("index.docker.io/library/debian", B::Hub),
            ("quay.io/", B::Path),
            ("quay.io//a", B::Path),
            ("quay.io/A", B::Path),
            ("quay.io/a/../b", B::Path),
            ("quay.io/-a", B::Path),
            ("quay.io/a-", B::Path),
            ("quay.io/a_-b", B::Path),
            ("quay.io/a b", B::Path),
            ("quay.io/a\n", B::Path),
            ("quay.io/a:", B::Tag),
            ("quay.io/a:-x", B::Tag),
            ("quay.io/a:1:2", B::Path),
            ("quay.io/a@md5:00", B::Digest),
            (&short, B::Digest),
            (&upper, B::Digest),
            (&both, B::Digest),
            (&long, B::Path),
            ("--apply", B::NoRegistry),
        ] {
            assert_eq!(Reference::parse(bad), Err(why), "{bad}");
        }
    }
}
