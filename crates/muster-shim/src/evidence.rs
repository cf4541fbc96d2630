//! Who is at the other end, as far as the login's own account does not lie.
//!
//! `SSH_CONNECTION` and the file that `SSH_USER_AUTH` names pass through a process and a file of
//! the pool account. They are recorded as `peer_claimed`, and used only to narrow what may be
//! asked for.

use base64ct::{Base64, Encoding};
use muster_signing::sshsig::SignerKey;
use muster_sys::tcp::Connection;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Keys that one login uses, at most.
const MAX_KEYS: usize = 8;

/// What is known of the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// `SHA256:` fingerprints of the keys that the login used (for a certificate, of the key in
    /// it). Empty is unknown.
    pub keys: Vec<String>,
    /// The connection, by both ends.
    pub connection: Option<Connection>,
}

impl Peer {
    /// Collects the evidence from the variables that sudo let through.
    pub fn collect(
        user_auth: Option<OsString>,
        connection: Option<OsString>,
        sudo_uid: Option<OsString>,
    ) -> Self {
        // Without sudo it was a root login, whose file is root's.
        let uid = match sudo_uid {
            Some(text) => text.to_str().and_then(|t| t.parse().ok()),
            None => Some(0),
        };
        let text =
            user_auth.zip(uid).and_then(|(path, uid)| muster_sys::sshd::read_user_auth(&path, uid).ok());
        Self {
            keys: text.as_deref().map(keys).unwrap_or_default(),
            connection: connection.as_deref().and_then(OsStr::to_str).and_then(Connection::from_ssh),
        }
    }

    /// The address, for a record.
    pub fn address(&self) -> Option<String> {
        self.connection.map(|c| c.peer().to_string())
    }
}

/// Fingerprints of the `publickey TYPE BASE64` lines (sshd_config(5), `ExposeAuthInfo`). One line
/// that cannot be read makes all unknown: a policy that narrows by key must not see fewer keys
/// than there were. So do more than a login uses: each would be in every record.
pub fn keys(text: &[u8]) -> Vec<String> {
    let lines = text.split(|&b| b == b'\n').filter_map(|l| l.strip_prefix(b"publickey "));
    let all: Option<Vec<String>> = lines.take(MAX_KEYS + 1).map(fingerprint).collect();
    all.filter(|k| k.len() <= MAX_KEYS).unwrap_or_default()
}

fn fingerprint(line: &[u8]) -> Option<String> {
    let line = OsStr::from_bytes(line).to_str()?;
    let (_type, encoded) = line.split_once(' ')?;
    let blob = Base64::decode_vec(encoded.split(' ').next()?).ok()?;
    Some(SignerKey::from_blob(&blob).ok()?.key().fingerprint())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "publickey ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz7HwHReFVD8obXVsAnzxaMkScatAfHcoR6XZ";

    #[test]
    fn s4_fingerprints_are_computed_here() {
        let one = keys(format!("{KEY}\n").as_bytes());
        assert_eq!(one.len(), 1);
        assert!(one[0].starts_with("SHA256:") && one[0].len() == 50, "{one:?}");
        assert_eq!(
            keys(format!("password\n{KEY}\n{KEY} comment\n").as_bytes()),
            [one[0].clone(), one[0].clone()]
        );
        assert!(keys(b"").is_empty());
        assert!(keys(b"password\n").is_empty());
        assert!(
            keys(format!("{KEY}\npublickey ssh-ed25519 AAAA\n").as_bytes()).is_empty(),
            "one bad line: unknown"
        );
        assert_eq!(keys(format!("{KEY}\n").repeat(8).as_bytes()).len(), 8);
        assert!(keys(format!("{KEY}\n").repeat(9).as_bytes()).is_empty(), "too many: unknown");
    }

    #[test]
    fn s4_missing_evidence_is_unknown() {
        let p = Peer::collect(None, Some("nonsense".into()), None);
        assert_eq!(p, Peer::default());
        let p = Peer::collect(
            Some("/etc/shadow".into()),
            Some("10.0.0.2 5 10.0.0.1 22".into()),
            Some("0".into()),
        );
        assert_eq!((p.keys.len(), p.address().as_deref()), (0, Some("10.0.0.2")));
        assert!(Peer::collect(Some("/tmp/sshauth.x".into()), None, Some("-1".into())).keys.is_empty());
    }
}
