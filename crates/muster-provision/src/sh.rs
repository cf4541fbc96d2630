//! Writing shell: quoting, and the library that every host script starts with.

/// The functions under `host/`, checked with `sh -n` and run for real by the tests.
pub const LIB: &str =
    concat!(include_str!("host/lib.sh"), include_str!("host/account.sh"), include_str!("host/txn.sh"));

/// The script that a transaction keeps on the host to put everything back: its own copy of the
/// library, because the connection may never come back.
pub fn revert_script() -> String {
    format!("{LIB}\nm_revert \"$@\"\nexit $?\n")
}

/// `text` as one word of POSIX sh. NUL cannot be a part of a word and is left out; nothing that
/// this crate quotes can hold one, because every such value is checked where it is made.
pub fn quote(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-:=@%+,".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\0', "").replace('\'', r"'\''"))
}

/// A whole script: the library, then `body`.
pub fn with_lib(body: &str) -> String {
    format!("REVOKED_MAX={}\n{LIB}\n{body}\n", muster_signing::revoked::MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(quote("/usr/bin/muster-shim"), "/usr/bin/muster-shim");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's $(x) `y` \\"), r"'it'\''s $(x) `y` \'");
        assert_eq!(quote("a\nb"), "'a\nb'");
    }
}
