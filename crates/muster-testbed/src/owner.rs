//! A node of the daemon on its way to an owner: the documents that say how it comes to one, and the notice on its console.

use anyhow::Result;

use crate::node::Node;
use crate::process::{PATIENCE, until};

/// The document of a node that waits for somebody who claims it, and is then told everything.
pub const WAITS: &str = "muster:\n  api:\n    enabled: true\n";

/// The document of a node whose owner has the authority with this certificate, PEM.
#[must_use]
pub fn owned_by(authority: &str) -> String {
    let pem: String = authority.lines().map(|l| format!("      {l}\n")).collect();
    format!("muster:\n  role: init\n  api:\n    operatorCA: |\n{pem}")
}

/// What somebody who stands before a node reads on its console.
#[derive(Debug, Clone)]
pub struct Notice {
    /// All of it, to what is to be typed.
    pub text: String,
    /// Of the node's serving certificate.
    pub fingerprint: String,
    /// Absent where none is asked for, or none is taken any more.
    pub code: Option<String>,
}

impl Notice {
    /// The newest one of a console, if it is there whole.
    fn newest(console: &str) -> Option<Self> {
        let console = console.replace('\r', "");
        let (_, text) = console.rsplit_once("This machine has no owner.")?;
        let word = |label: &str| {
            let line = text.split_inclusive('\n').find(|l| l.trim_start().starts_with(label))?;
            Some(line.strip_suffix('\n')?.trim_start().strip_prefix(label)?.trim().to_owned())
        };
        // The last line of them all: where it has its end, the others have theirs.
        let typed = word("claim it")?;
        let end = text.find(&typed)? + typed.len();
        let text = format!("This machine has no owner.{}", text.get(..end)?);
        let code = word("pairing code").filter(|code| !code.contains(' '));
        Some(Self { fingerprint: word("fingerprint")?, code, text })
    }
}

impl Node {
    /// Writes the node's own document, as root on the machine would.
    pub fn describe(&self, document: &str) -> Result<()> {
        self.put("/etc/muster/config.yaml", document.as_bytes(), 0o600)
    }

    /// The newest notice on the console; waits for one.
    pub fn notice(&self) -> Result<Notice> {
        self.notice_where("the console shows how to claim the node", |_| true)
    }

    /// The same, once it is as wanted: the last one stands on the console until the next is written.
    pub fn notice_where(&self, what: &str, wanted: impl Fn(&Notice) -> bool) -> Result<Notice> {
        until(what, PATIENCE, || Ok(Notice::newest(&self.console()).filter(&wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\r\nThis machine has no owner. It waits to be claimed.\r\n\r\n  address       198.18.1.10\r\n  \
                         pairing code  1234-5678\r\n  fingerprint   SHA256:a\r\n  claim it      muster node claim 198.18.1.10\r\n";

    #[test]
    fn a_notice_is_read_when_it_is_whole_and_never_of_two() {
        let one = Notice::newest(WHOLE).unwrap();
        assert_eq!((one.code.as_deref(), one.fingerprint.as_str()), (Some("1234-5678"), "SHA256:a"));
        assert!(
            one.text.starts_with("This machine") && one.text.ends_with("claim 198.18.1.10"),
            "{}",
            one.text
        );
        let second = WHOLE.replace("1234-5678", "8765-4321").replace("SHA256:a", "SHA256:b");
        for end in 1..second.len() {
            let seen = Notice::newest(&format!("{WHOLE}{}", &second[..end]));
            let seen = seen.map(|n| (n.code.unwrap(), n.fingerprint));
            let of = |code: &str, print: &str| Some((code.to_owned(), print.to_owned()));
            let begun = second[..end].contains("This machine has no owner.");
            assert!(seen == if begun { None } else { of("1234-5678", "SHA256:a") }, "{end}: {seen:?}");
        }
        let both = format!("{WHOLE}{second}");
        assert_eq!(Notice::newest(&both).unwrap().fingerprint, "SHA256:b");
        let shut = WHOLE.replace("1234-5678", "none: too many wrong ones were typed");
        assert_eq!(Notice::newest(&shut).unwrap().code, None);
    }
}
