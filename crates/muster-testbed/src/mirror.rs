//! The distribution and mirror that this machine itself uses, so that nodes are built from the place it already trusts.
//!
//! Formats: sources.list(5), both the one-line and the deb822 form.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Where `debootstrap` gets a suite from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirror {
    pub(crate) url: String,
    pub(crate) suite: String,
}

/// What debootstrap itself takes when it is told nothing.
const DEFAULT_URL: &str = "http://deb.debian.org/debian";
const DEFAULT_SUITE: &str = "bookworm";

/// The mirror of this machine's own release, or debootstrap's default where none is configured.
pub(crate) fn of_this_machine() -> Result<Mirror> {
    let release = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let suite = codename(&release).unwrap_or_else(|| DEFAULT_SUITE.to_owned());
    let mut files = vec![Path::new("/etc/apt/sources.list").to_owned()];
    if let Ok(dir) = fs::read_dir("/etc/apt/sources.list.d") {
        let mut more: Vec<_> = dir.flatten().map(|e| e.path()).collect();
        more.sort();
        files.extend(more);
    }
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let deb822 = file.extension().is_some_and(|e| e == "sources");
        let url = if deb822 { deb822_url(&text, &suite) } else { one_line_url(&text, &suite) };
        if let Some(url) = url {
            return Ok(Mirror { url, suite });
        }
    }
    Ok(Mirror { url: DEFAULT_URL.to_owned(), suite })
}

fn codename(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME="))?;
    Some(value.trim_matches('"').to_owned())
}

fn usable(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://") || url.starts_with("file:")
}

/// `deb [options] URL SUITE COMPONENT…`
fn one_line_url(text: &str, suite: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = rest.strip_prefix('[').map_or(Some(rest), |o| o.split_once(']').map(|(_, r)| r))?;
        let mut words = rest.split_whitespace();
        let url = words.next()?;
        (words.next()? == suite && words.any(|c| c == "main") && usable(url)).then(|| url.to_owned())
    })
}

/// Stanzas of `Field: value`, separated by empty lines.
fn deb822_url(text: &str, suite: &str) -> Option<String> {
    text.split("\n\n").find_map(|stanza| {
        let field =
            |name: &str| stanza.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':').map(str::trim));
        let has =
            |name: &str, word: &str| field(name).is_some_and(|v| v.split_whitespace().any(|w| w == word));
        if !has("Types", "deb") || !has("Suites", suite) || !has("Components", "main") {
            return None;
        }
        if field("Enabled").is_some_and(|v| v.eq_ignore_ascii_case("no")) {
            return None;
        }
        field("URIs")?.split_whitespace().find(|u| usable(u)).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_form_with_options_and_other_suites() {
        let text = "# deb http://old/ bookworm main\n\
                    deb http://a.example/security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/x.gpg] http://b.example/debian bookworm main contrib\n";
        assert_eq!(one_line_url(text, "bookworm").as_deref(), Some("http://b.example/debian"));
        assert_eq!(one_line_url(text, "trixie"), None);
    }

    #[test]
    fn deb822_form_with_comments_and_a_disabled_stanza() {
        let text = "Types: deb\nURIs: http://off.example/\nSuites: bookworm\nComponents: main\nEnabled: no\n\n\
                    Types: deb\n# snapshot\nURIs: http://c.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n";
        assert_eq!(deb822_url(text, "bookworm").as_deref(), Some("http://c.example/debian"));
        assert_eq!(deb822_url(text, "bookworm-security"), None);
    }

    #[test]
    fn codename_with_and_without_quotes() {
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bookworm\n").as_deref(), Some("bookworm"));
        assert_eq!(codename("VERSION_CODENAME=\"noble\"\n").as_deref(), Some("noble"));
        assert_eq!(codename("ID=x\n"), None);
    }
}
