//! Where a document may come from, and in which order it is looked for.
//!
//! The first source that has a document wins; whatever fails for another reason than absence stops the search, since to go
//! on would let a broken file be answered by a stranger's. A cloud-config without a `muster:` block says nothing to us and
//! counts as absent.
//!
//! Formats: kernel-parameters(7) for the command line, cloud-init's merged cloud-config.

use crate::values::not_a_url;
use core::fmt;

/// A place that a document may come from, in the order of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// [`Source::FILE`], this machine's own; where a claim or an `apply` writes.
    File,
    /// [`Source::CLOUD_INIT`], what cloud-init merged; only the block counts.
    CloudInit,
    /// `muster.config=` on the kernel's command line.
    KernelCommandLine,
    /// [`Source::IMAGE`], what the image brought along.
    Image,
}

impl Source {
    /// All, in the order of the search.
    pub const ALL: [Self; 4] = [Self::File, Self::CloudInit, Self::KernelCommandLine, Self::Image];
    /// This machine's document.
    pub const FILE: &'static str = "/etc/muster/config.yaml";
    /// cloud-init's merged document.
    pub const CLOUD_INIT: &'static str = "/var/lib/cloud/instance/cloud-config.txt";
    /// The image's document.
    pub const IMAGE: &'static str = "/usr/share/muster/config.yaml";
    /// The kernel parameter.
    pub const PARAMETER: &'static str = "muster.config";

    /// Only its `muster:` block is ours; anything else in it is somebody else's.
    pub const fn is_embedded_only(self) -> bool {
        matches!(self, Self::CloudInit)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => Self::FILE,
            Self::CloudInit => "cloud-init",
            Self::KernelCommandLine => "muster.config= on the kernel's command line",
            Self::Image => Self::IMAGE,
        })
    }
}

/// What `muster.config=` points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// An absolute path.
    File(String),
    /// An https URL.
    Url(String),
}

/// The last `muster.config=` of a kernel command line, if there is one.
pub fn pointer(command_line: &str) -> Result<Option<Pointer>, String> {
    let Some(value) = parameters(command_line)
        .filter_map(|(name, value)| (name == Source::PARAMETER).then_some(value))
        .last()
    else {
        return Ok(None);
    };
    let value = value
        .ok_or("muster.config on the kernel's command line has no value; write muster.config=PATH or =URL")?;
    if value.starts_with('/') {
        return Ok(Some(Pointer::File(value)));
    }
    match not_a_url(&value) {
        None => Ok(Some(Pointer::Url(value))),
        Some(why) => Err(format!(
            "muster.config on the kernel's command line is neither an absolute path nor a URL: {why}"
        )),
    }
}

/// Parameters as the kernel splits them: blanks part them, double quotes hold blanks together and stand around the whole
/// parameter or around its value; there is no escape.
fn parameters(line: &str) -> impl Iterator<Item = (String, Option<String>)> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_ascii_whitespace() && !quoted => words.push(core::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.into_iter().filter(|w| !w.is_empty()).map(|word| match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (word, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pointer_counts_and_quotes_are_honoured() {
        let file = |p: &str| Ok(Some(Pointer::File(p.to_owned())));
        assert_eq!(pointer("root=/dev/sda1 quiet"), Ok(None));
        assert_eq!(pointer("muster.config=/a muster.config=/b\n"), file("/b"));
        assert_eq!(pointer("quiet muster.config=\"/a b\" ro"), file("/a b"));
        assert_eq!(pointer("\"muster.config=/a b\""), file("/a b"));
        assert_eq!(pointer("x=\"muster.config=/a\""), Ok(None));
        assert_eq!(pointer("xmuster.config=/a muster.config.x=/b"), Ok(None));
        assert_eq!(
            pointer("muster.config=https://h/c?a=b"),
            Ok(Some(Pointer::Url("https://h/c?a=b".to_owned())))
        );
        for bad in [
            "muster.config",
            "muster.config=",
            "muster.config=etc/x",
            "muster.config=http://h/x",
            "muster.config=/a muster.config=x",
        ] {
            assert!(pointer(bad).is_err(), "{bad}");
        }
    }
}
