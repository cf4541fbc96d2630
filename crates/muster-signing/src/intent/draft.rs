//! An intent being written.

use super::{Intent, OnDisconnect, ParamLine, Target, ValueLine};
use crate::{FileFault, UtcTime, base64, sshsig::hex};
use core::fmt::Write as _;
use muster_core::{Phase, ProfileName};

/// The fields of an intent. [`Draft::render`] sorts what the grammar wants sorted, and refuses
/// what [`Intent::parse`] would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The profile.
    pub profile: ProfileName,
    /// The phase; never `Probe`.
    pub phase: Phase,
    /// SHA-256 of the script; `None` for `floor` alone.
    pub script_sha256: Option<[u8; 32]>,
    /// For whom it is.
    pub targets: Vec<Target>,
    /// Signed constants.
    pub values: Vec<ValueLine>,
    /// Declared parameters.
    pub params: Vec<ParamLine>,
    /// 1 and up.
    pub epoch: u32,
    /// Valid from this second on.
    pub not_before: UtcTime,
    /// Valid until before this second.
    pub not_after: UtcTime,
    /// Seconds from fork to the end of the run.
    pub deadline: u32,
    /// What becomes of the run when its peer goes away.
    pub on_disconnect: OnDisconnect,
}

impl Draft {
    /// The text to sign. The lines of a fault are those of the text that would have been.
    pub fn render(&self) -> Result<String, FileFault> {
        let text = self.text();
        // One judge for both directions: what is handed out reads back to the same fields.
        let read = Intent::parse(text.as_bytes())?;
        let mut wanted = self.clone();
        wanted.sort();
        if *read.fields() == wanted {
            Ok(text)
        } else {
            Err(FileFault::at(0, "a field holds what would read back as something else"))
        }
    }

    fn sort(&mut self) {
        self.targets.sort_by_cached_key(Target::to_string);
        self.values.sort_by(|a, b| a.name.cmp(&b.name));
        self.params.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn text(&self) -> String {
        let mut draft = self.clone();
        draft.sort();
        let mut out = String::from("muster-intent: 1\n");
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(out, "{name}: {value}");
        };
        line("profile", draft.profile.as_str());
        line("phase", draft.phase.as_str());
        line("script-sha256", &draft.script_sha256.map_or_else(|| "-".to_owned(), |d| hex(&d)));
        for target in &draft.targets {
            line("target", &target.to_string());
        }
        let values = draft
            .values
            .iter()
            .map(|v| (&v.name, "value", format!("{} {}", v.name, base64::encode(&v.value))));
        let params = draft.params.iter().map(|p| {
            let mark = if p.optional { "?" } else { "" };
            (&p.name, "param", format!("{}{mark} {}", p.name, p.pattern))
        });
        let mut named: Vec<_> = values.chain(params).collect();
        named.sort_by_key(|(name, _, _)| *name);
        for (_, word, text) in &named {
            line(word, text);
        }
        line("epoch", &draft.epoch.to_string());
        line("not-before", &draft.not_before.to_string());
        line("not-after", &draft.not_after.to_string());
        line("deadline", &draft.deadline.to_string());
        if draft.on_disconnect == OnDisconnect::Finish {
            line("on-disconnect", "finish");
        }
        out
    }
}
