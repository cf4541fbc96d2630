//! Which environment variables a host's policy may set for the scripts that run on it.
//!
//! One list for whoever writes the policy and for the shim that reads it: a name that only one of them took would make a host
//! refuse everything after it was provisioned.

/// Variables that steer an interpreter, its loader or its libraries instead of the script, or that the shim sets itself.
const EXACT: [&str; 20] = [
    "CDPATH",
    "ENV",
    "GLOBIGNORE",
    "HOME",
    "IFS",
    "LANG",
    "NODE_OPTIONS",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SHELL",
    "SHELLOPTS",
    "TMPDIR",
    "TZ",
];
/// Beginnings of such names.
const PREFIX: [&str; 8] = ["BASH", "DYLD_", "GLIBC_", "KPSSH_", "LC_", "LD_", "MALLOC_", "MUSTER_"];
/// Bytes of a name.
const MAX: usize = 128;

/// Why a policy may not set a variable of this name, if it may not.
pub fn why_not_set(name: &str) -> Option<&'static str> {
    let form = !name.is_empty()
        && name.len() <= MAX
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !form {
        Some("is not the name of a variable ([A-Za-z_][A-Za-z0-9_]*, at most 128)")
    } else if EXACT.contains(&name) || PREFIX.iter().any(|p| name.starts_with(p)) {
        Some("steers the interpreter or the loader, or is the shim's to set; it is never taken")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_may_be_set_and_interpreters_may_not_be_steered() {
        for name in ["HTTPS_PROXY", "no_proxy", "_", "A1"] {
            assert_eq!(why_not_set(name), None, "{name}");
        }
        for name in ["", "1A", "A-B", "A B", "A=B", "\u{e9}", &"A".repeat(129)] {
            assert!(why_not_set(name).is_some_and(|w| w.contains("not the name")), "{name:?}");
        }
        for name in
            ["PATH", "TZ", "POSIXLY_CORRECT", "BASH_ENV", "LD_PRELOAD", "LC_ALL", "MUSTER_X", "KPSSH_X"]
        {
            assert!(why_not_set(name).is_some_and(|w| w.contains("steers")), "{name}");
        }
    }
}
