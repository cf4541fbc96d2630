//! A plan in other words: text for people, a POSIX sh script, cloud-config, an Ansible playbook.
//!
//! The script, and the cloud-config that carries it, use the same host library as the runner: the
//! same checks, the same transaction, the same undo, so `muster host unprovision` works on what
//! they made. None of the three can prove a second login; each says so at its end.

mod ansible;
mod cloud;
mod script;

pub use ansible::ansible;
pub use cloud::cloud_init;
pub use script::sh;

use crate::plan::{Action, Plan, StepId};
use crate::spec::sha256_hex;
use core::fmt::Write as _;

/// Where a rendering takes the shim from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShimSource {
    /// Inside the rendering, as base64.
    Embedded,
    /// Fetched by the host; its digest is checked before it is put in place.
    Url(String),
}

impl ShimSource {
    /// An `https:` or `http:` address of printable ASCII without quotes, blanks or `$`.
    pub fn url(text: &str) -> Result<Self, RenderError> {
        let scheme = text.starts_with("https://") || text.starts_with("http://");
        let plain = text.bytes().all(|b| b.is_ascii_graphic() && !b"'\"`\\$<>{}|^".contains(&b));
        if scheme && plain && text.len() <= 2048 {
            Ok(Self::Url(text.to_owned()))
        } else {
            Err(RenderError {
                what: "shim url",
                why: format!("{text:?} is not a plain https: or http: address"),
            })
        }
    }
}

/// Why a plan cannot be put in that form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct RenderError {
    /// Which part.
    pub what: &'static str,
    /// Why, and what to do.
    pub why: String,
}

/// The plan for a person to read: each step, what it writes, how it is undone. With `todo` (from
/// [`crate::run::preview`]) it says which steps a host still needs. With `contents` the text of each
/// text file stands below its step.
pub fn text(plan: &Plan, todo: Option<&[StepId]>, contents: bool) -> String {
    let mut out =
        format!("Plan {} for login {}, {} steps\n", short(plan.digest()), plan.account(), plan.steps().len());
    for (n, s) in plan.steps().iter().enumerate() {
        let mark = match todo {
            None => "",
            Some(t) if t.contains(s.id()) => " [to do]",
            Some(_) => " [in place]",
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "\n{:>2}. {}{mark}: {}", n + 1, s.id(), s.what());
        if let Some(line) = facts(s.action()) {
            let _ = writeln!(out, "    {line}");
        }
        let _ = writeln!(out, "    undo: {}", s.undo());
        if contents && let Some(body) = body(s.action()) {
            for l in body.lines() {
                let _ = writeln!(out, "    | {l}");
            }
        }
    }
    out.push_str(
        "\nThen: `visudo -cf` and `sshd -t` must agree, sshd is reloaded, and a second login must be proven\n\
         while this one stays open; else everything is put back, by the host itself if need be.\n",
    );
    out
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

fn facts(action: &Action) -> Option<String> {
    Some(match action {
        Action::Dir { path, mode, .. } => format!("{path}/ root:root {mode:04o}"),
        Action::File { path, mode, content } | Action::Once { path, mode, content } => {
            format!(
                "{path} root:root {mode:04o}, {} bytes, sha256 {}",
                content.len(),
                short(&sha256_hex(content))
            )
        }
        Action::Adaptive { path, mode, file, .. } => {
            let optional = file.lines.iter().filter(|l| l.optional).count();
            format!(
                "{path} root:root {mode:04o}, {} lines, {optional} of them only where the host's tool knows them",
                file.lines.len()
            )
        }
        Action::Account { .. } | Action::Pin { .. } => return None,
    })
}

/// The text of a file that is text.
fn body(action: &Action) -> Option<String> {
    match action {
        Action::File { content, .. } | Action::Once { content, .. } => {
            let text = core::str::from_utf8(content).ok()?;
            (!text.contains('\0') && text.len() < 65_536).then(|| text.to_owned())
        }
        Action::Adaptive { file, .. } => Some(file.full()),
        Action::Dir { .. } | Action::Account { .. } | Action::Pin { .. } => None,
    }
}

/// A YAML literal block of `text`, indented by `indent` blanks, beginning right after `key: `.
/// Text that a literal block cannot hold becomes a double-quoted scalar: a reader of YAML 1.1 ends a
/// line at U+0085, U+2028 and U+2029 too, so what follows one would stand outside of the block.
fn yaml_block(text: &str, indent: usize) -> String {
    if text.chars().any(crate::text::is_hidden) || text.trim_matches('\n').is_empty() {
        return yaml_quoted(text);
    }
    let chomp = if text.ends_with("\n\n") {
        "+"
    } else if text.ends_with('\n') {
        ""
    } else {
        "-"
    };
    let pad = " ".repeat(indent);
    // The indentation indicator says two: content that begins with blanks stays as it is.
    let mut out = format!("|2{chomp}\n");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if line.is_empty() {
            out.push('\n');
        } else {
            let _ = writeln!(out, "{pad}{line}");
        }
    }
    out
}

/// A double-quoted scalar in ASCII (YAML 1.1, section 5.6 and 1.2, section 5.7).
fn yaml_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push_str("\"\n");
    out
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::disallowed_methods,
        clippy::unwrap_used,
        reason = "tests spawn the real tools, and one that cannot go on says so"
    )]
    use super::*;
    use std::process::{Command, Stdio};

    /// Debian's ansible-core and cloud-init both read YAML with this.
    fn py_yaml() -> Result<String, String> {
        ["/usr/bin/python3", "python3"]
            .into_iter()
            .find(|p| Command::new(p).args(["-c", "import yaml"]).output().is_ok_and(|o| o.status.success()))
            .map(str::to_owned)
            .ok_or("no python3 with PyYAML here (package python3-yaml)".into())
    }

    #[test]
    fn whatever_text_is_given_pyyaml_reads_the_same_bytes() {
        let python = muster_needs::require!(py_yaml());
        let odd = (0..0x100u32).chain(0x2000..0x2070).chain([
            0x61c, 0xd7ff, 0xe000, 0xfdd0, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x1_0000, 0x1_fffe, 0xe_0001,
            0x10_ffff,
        ]);
        let mut texts: Vec<String> =
            ["\n", "\n\n", "a\n  ", "  a\n", "\n a\n\n\n", "\ta\n", "- a: b # c\n", "a\n\n b "]
                .map(str::to_owned)
                .into();
        for c in odd.filter_map(char::from_u32) {
            texts.extend([
                format!("{c}"),
                format!("{c}\n"),
                format!("# a{c}- hosts: all{c}  tasks: []\nb\n"),
                format!("a\n{c}b{c}{c}\n\n"),
            ]);
        }
        let mut yaml = String::new();
        for (n, t) in texts.iter().enumerate() {
            let _ = write!(yaml, "k{n}:\n  content: {}", yaml_block(t, 4));
        }
        let program = "import sys, yaml\n\
            d = yaml.safe_load(sys.stdin.buffer.read())\n\
            for k in sorted(d, key=lambda k: int(k[1:])):\n    print(d[k]['content'].encode('utf-8').hex())\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.yml");
        std::fs::write(&path, yaml).unwrap();
        let out = Command::new(python)
            .args(["-c", program])
            .stdin(Stdio::from(std::fs::File::open(&path).unwrap()))
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let said = String::from_utf8(out.stdout).unwrap();
        let read: Vec<&str> = said.lines().collect();
        assert_eq!(read.len(), texts.len());
        for (t, hex) in texts.iter().zip(read) {
            let want: String = t.bytes().map(|b| format!("{b:02x}")).collect();
            assert_eq!(want, hex, "{t:?}");
        }
    }

    #[test]
    fn urls_that_would_need_quoting_are_refused() {
        assert!(ShimSource::url("https://mirror.example/muster-shim?v=1.2").is_ok());
        for bad in
            ["ftp://x/y", "https://x/$(id)", "https://x/ y", "https://x/'y", "https://x/{{y}}", "muster-shim"]
        {
            assert!(ShimSource::url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn yaml_blocks() {
        assert_eq!(yaml_block("a\n  b\n", 4), "|2\n    a\n      b\n");
        assert_eq!(yaml_block("a", 2), "|2-\n  a\n");
        assert_eq!(yaml_block("a\n\n", 2), "|2+\n  a\n\n");
        assert_eq!(yaml_block("", 2), "\"\"\n");
    }
}
