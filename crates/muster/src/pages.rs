//! One page an error code, from `docs/errors/`, carried in the binary.

macro_rules! pages {
    ($($code:literal)*) => {
        /// Code and page, sorted by code.
        const PAGES: &[(&str, &str)] =
            &[$(($code, include_str!(concat!("../../../docs/errors/", $code, ".md")))),*];
    };
}

pages! {
    "admin-password"
    "admin-sudo"
    "agent-key-missing"
    "agent-refused"
    "agent-unreachable"
    "algorithm"
    "argument"
    "audit-broken"
    "auth-refused"
    "base64"
    "busy"
    "bytes-differ"
    "called-as"
    "certificate"
    "cli-internal"
    "client-ambiguous"
    "client-missing"
    "client-unknown"
    "clock-ahead"
    "clock-behind"
    "code-unknown"
    "config-duplicate"
    "config-key"
    "config-missing"
    "config-type"
    "config-value"
    "confirm-needed"
    "connect-deadline"
    "connect-dropped"
    "connect-unreachable"
    "context-unknown"
    "deadline"
    "deadline-cap"
    "declined"
    "doctor-failed"
    "envelope-1-off"
    "epoch-floor"
    "epoch-jump"
    "epoch-step"
    "exists"
    "expired"
    "field-form"
    "field-missing"
    "file-locked"
    "file-missing"
    "file-too-large"
    "file-unreadable"
    "file-write"
    "fingerprint-differs"
    "fingerprint-needed"
    "floor-lower"
    "floors-malformed"
    "floors-missing"
    "health-gate"
    "host-answer"
    "host-exists"
    "host-key-changed"
    "host-unknown"
    "hosts-failed"
    "identity-missing"
    "input-deadline"
    "intent-form"
    "internal"
    "interrupted"
    "inventory-missing"
    "key-expired"
    "key-file"
    "key-kind"
    "key-not-yet-valid"
    "key-policy"
    "key-unknown"
    "keygen-missing"
    "lint-arithmetic"
    "lint-background"
    "lint-carriage-return"
    "lint-curl-pipe-shell"
    "lint-epoch-jump"
    "lint-epoch-same"
    "lint-eval"
    "lint-failed"
    "lint-long-validity"
    "lint-no-way-back"
    "lint-nul"
    "lint-secret-argv"
    "lint-self-path"
    "lint-shebang"
    "lint-strict-mode"
    "lint-syntax"
    "lint-target-all"
    "lint-template"
    "lint-undeclared"
    "lint-unquoted"
    "lint-unreadable"
    "lint-unused"
    "lint-wide-pattern"
    "lint-xtrace"
    "manifest-missing"
    "name-differs"
    "namespace"
    "no-policy"
    "node-answer"
    "node-busy"
    "node-certificate"
    "node-deadline"
    "node-failed"
    "node-pin-conflict"
    "node-pin-missing"
    "node-refused"
    "node-turned-away"
    "node-unknown"
    "node-unreachable"
    "not-asked"
    "not-root"
    "not-the-machine"
    "not-yet-valid"
    "nothing-selected"
    "open-parameter"
    "outcome-unknown"
    "pairing-code"
    "param-argument"
    "param-form"
    "param-is-value"
    "param-missing"
    "param-name"
    "param-pattern"
    "param-undeclared"
    "passphrase"
    "passphrase-needed"
    "peer-gone"
    "phase-mismatch"
    "phase-missing"
    "phase-unknown"
    "pin-conflict"
    "pin-missing"
    "pki-file"
    "policy-invalid"
    "policy-unsafe"
    "principal"
    "proc-missing"
    "profile"
    "provision-failed"
    "provision-left"
    "provision-obstacle"
    "provision-widens"
    "raw-not-allowed"
    "raw-not-spelled"
    "record-unwritable"
    "revocation-list-unreadable"
    "revoked"
    "rollout-stopped"
    "script-digest"
    "script-failed"
    "script-size"
    "secret-form"
    "secret-on-argv"
    "selector-form"
    "signature-duplicate"
    "signature-form"
    "signature-malformed"
    "signature-missing"
    "signed-form"
    "signed-missing"
    "signer-missing"
    "ssh-protocol"
    "state-missing"
    "state-unsafe"
    "state-unusable"
    "stdin-twice"
    "survivors-remain"
    "target"
    "terminal-needed"
    "threshold"
    "too-large"
    "trust-file"
    "trust-file-malformed"
    "trust-file-missing"
    "trust-file-unsafe"
    "usage"
    "verify-failed"
    "version"
    "would-bootstrap"
    "yaml-limits"
    "yaml-syntax"
    "yaml-unsupported"
}

/// The page of a code.
pub fn page(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(c, _)| *c == code).map(|(_, p)| *p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Code;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let codes: BTreeSet<String> = Code::all().map(|c| c.word().to_owned()).collect();
        let pages: BTreeSet<String> = PAGES.iter().map(|(c, _)| (*c).to_owned()).collect();
        assert_eq!(codes, pages, "the list in this file");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> =
            names.filter_map(|n| n.strip_suffix(".md").map(str::to_owned)).collect();
        assert_eq!(codes, files, "docs/errors");
    }

    #[test]
    fn each_page_says_what_why_and_what_to_do() {
        for code in Code::all() {
            let page = page(code.word()).unwrap();
            assert!(page.starts_with(&format!("# {code}\n")), "{code}");
            for heading in ["## Why it exists", "## What to do", "## What it looks like"] {
                let rest = page.split_once(heading).unwrap_or_else(|| panic!("{code} lacks {heading}")).1;
                assert!(rest.trim_start().len() > 20, "{code}: {heading} is empty");
            }
            let exit = match code {
                Code::Shim(r) => format!("exit code {} of the shim", r.exit().code()),
                Code::Own(c) => format!("exit code {}.", c.exit().code()),
                Code::Lint(_) => "A lint".into(),
            };
            assert!(page.contains(&exit), "{code} does not say {exit:?}");
            // The clause that the code itself carries opens the page, so that the two cannot drift apart.
            let what = page.lines().nth(2).unwrap_or_default();
            assert_eq!(what.trim_end_matches('.').to_lowercase(), code.what().to_lowercase(), "{code}");
        }
    }
}
