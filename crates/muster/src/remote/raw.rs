//! Raw mode: an unsigned script into `sudo bash -s`, for the time of a migration.
//!
//! What goes over standard input: `set -euo pipefail`, one `export NAME='value'` a parameter in the order of the names, then
//! the script. Nothing of it is ever on a command line. Nothing here checks who wrote the script: that is what raw means.

use muster_signing::params::Param;

/// What is asked of the login shell.
pub fn command(user: &str) -> &'static str {
    if user == "root" { "bash -s" } else { "sudo bash -s" }
}

/// The facts that a probe without a shim can ask for, as an ordinary user; fixed text.
pub const PROBE: &str =
    "nproc; awk '/^MemTotal:/ {print $2}' /proc/meminfo; uname -m; systemctl is-active kubelet || :";

/// The bytes for standard input. `params` are ascending by name; the names are checked where they are read.
pub fn input(params: &[Param], script: &[u8]) -> Vec<u8> {
    let mut out = b"set -euo pipefail\n".to_vec();
    for (name, value) in params {
        out.extend_from_slice(b"export ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"='");
        for &b in value {
            match b {
                b'\'' => out.extend_from_slice(b"'\\''"),
                b => out.push(b),
            }
        }
        out.extend_from_slice(b"'\n");
    }
    out.extend_from_slice(script);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_quoting_in_a_real_shell() {
        let hard: Vec<Param> =
            [("KPSSH_A", "it's '$(id)' `x` \\ \"q\""), ("KPSSH_B", ""), ("MUSTER_C", "a\tb  ")]
                .into_iter()
                .map(|(n, v)| (n.to_owned(), v.as_bytes().to_vec()))
                .collect();
        let script =
            input(&hard, b"printf '<%s>' \"$KPSSH_A\" \"$KPSSH_B\" \"$MUSTER_C\"; false; echo not here\n");
        #[allow(clippy::disallowed_methods, reason = "a test runs the real shell")]
        let mut child = std::process::Command::new("/bin/bash")
            .arg("-s")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &script).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "<it's '$(id)' `x` \\ \"q\"><><a\tb  >");
        assert_eq!(out.status.code(), Some(1), "errexit is on");
    }
}
