//! `--as sh`: one file that does it all on the host itself.

use super::ShimSource;
use crate::files;
use crate::plan::{Action, Plan, Step};
use crate::sh::{LIB, quote};
use base64ct::{Base64, Encoding};
use core::fmt::Write as _;

/// A self-contained, idempotent POSIX sh script for root. `sh FILE` provisions, `sh FILE --check`
/// says what there is to do, `sh FILE --undo` undoes all provisioning.
pub fn sh(plan: &Plan, shim: &ShimSource) -> String {
    let mut out = String::from("#!/bin/sh\n");
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "# Makes this machine a Muster pool host: login {}, plan {}.",
        plan.account(),
        plan.digest()
    );
    out.push_str(
        "# As root: `sh FILE` provisions, `sh FILE --check` says what there is to do, `sh FILE --undo` undoes it all.\n\
         # It may be run again and again. A failure puts everything back.\n\
         m_lib() {\n  cat <<'MUSTER_LIB'\n",
    );
    out.push_str(LIB);
    out.push_str("MUSTER_LIB\n}\neval \"$(m_lib)\"\n");
    let _ = writeln!(out, "ACCOUNT={}\nDIGEST={}", plan.account(), plan.digest());
    let ids: Vec<String> = plan.steps().iter().map(|s| s.id().to_string()).collect();
    let _ = writeln!(out, "STEPS={}", quote(&ids.join(" ")));
    let _ = writeln!(out, "m_manifest() {{\n  cat <<MUSTER_END\n{}MUSTER_END\n}}", plan.manifest("$ID"));
    out.push_str(
        "# What each step checks (c_), does (a_) and reads (i_). A name has `_` where the step has `-`.\n",
    );
    for s in plan.steps() {
        let name = s.id().as_str().replace('-', "_");
        let _ = writeln!(out, "# {}: {}", s.id(), s.what());
        let _ = writeln!(out, "c_{name}() {{\n{}\n}}", s.check());
        let _ = writeln!(out, "a_{name}() {{\n{}\n}}", s.apply());
        let _ = writeln!(out, "i_{name}() {{\n{}\n}}", input(s, shim));
    }
    out.push_str(include_str!("../host/main.sh"));
    out
}

/// A command that prints what the step reads.
fn input(step: &Step, shim: &ShimSource) -> String {
    let program = step.path() == Some(files::SHIM) || step.path() == Some(files::KPSSH_SHIM);
    match (step.action(), shim) {
        (_, ShimSource::Url(url)) if program => format!("m_fetch {}", quote(url)),
        // The second copy is the first one, which was just checked.
        (_, ShimSource::Embedded) if step.path() == Some(files::KPSSH_SHIM) => format!("cat {}", files::SHIM),
        (Action::Adaptive { file, .. }, _) => format!("cat <<'MUSTER_END'\n{}MUSTER_END", file.template()),
        (Action::File { content, .. } | Action::Once { content, .. }, _) if content.is_empty() => ":".into(),
        (Action::File { content, .. } | Action::Once { content, .. }, _) => {
            format!("base64 -d <<'MUSTER_END'\n{}MUSTER_END", base64_lines(content))
        }
        _ => ":".into(),
    }
}

/// Base64 in lines of 76.
fn base64_lines(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + bytes.len() / 57 + 4);
    // 57 bytes are 76 digits; only the last chunk may be padded.
    for chunk in bytes.chunks(57) {
        out.push_str(&Base64::encode_string(chunk));
        out.push('\n');
    }
    out
}
