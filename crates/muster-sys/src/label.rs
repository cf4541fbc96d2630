//! The SELinux label of a file: its extended attribute `security.selinux` (xattr(7), security(7)).
//!
//! Sources: `user:role:type` or `user:role:type:range` with a zero byte at its end, as the kernel gives and takes it
//! (security/selinux/hooks.c, `selinux_inode_setxattr`); user, role and type have no colon, a range may have some. Where SELinux is on,
//! the owner of a file may set it, as far as the policy lets him; where it is off, that takes CAP_SYS_ADMIN.

use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::SysError;

const NAME: &str = "security.selinux";
/// Longest label that is read; the kernel's own bound is a page.
const MAX: usize = 4096;
/// Of a file that has none, with the user, the role and the range that files of the system have.
const USUAL: [&str; 3] = ["system_u", "object_r", "s0"];

/// The label with another type, or `None` where it has that type already.
///
/// # Errors
/// It is no label.
pub fn with_type(now: Option<&[u8]>, kind: &str) -> Result<Option<Vec<u8>>, &'static str> {
    let [user, role, range] = USUAL;
    let Some(now) = now else {
        return Ok(Some(format!("{user}:{role}:{kind}:{range}\0").into_bytes()));
    };
    let text = core::str::from_utf8(now.strip_suffix(b"\0").unwrap_or(now)).map_err(|_| "it is no text")?;
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    let (user, role, old, range) = match parts.as_slice() {
        [user, role, old] => (user, role, old, None),
        [user, role, old, range] => (user, role, old, Some(range)),
        _ => return Err("it is no `user:role:type`"),
    };
    if *old == kind {
        return Ok(None);
    }
    let range = range.map_or_else(String::new, |range| format!(":{range}"));
    Ok(Some(format!("{user}:{role}:{kind}{range}\0").into_bytes()))
}

/// The label of a file or folder; a link is not followed.
///
/// # Errors
/// The system's word.
pub fn of(path: &Path) -> Result<Option<Vec<u8>>, SysError> {
    let mut label = vec![0; MAX];
    match rustix::fs::lgetxattr(path, NAME, &mut label[..]) {
        Ok(length) => {
            label.truncate(length);
            Ok(Some(label))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(e) => Err(SysError::at("read the label of", path, e)),
    }
}

/// Gives a file or folder a label of this type, unless it has it. Whether it was given one.
///
/// # Errors
/// The system's word, or that of the policy.
pub fn set_type(path: &Path, kind: &str) -> Result<bool, SysError> {
    let bad = |why| SysError::at("read the label of", path, std::io::Error::other(why));
    let Some(label) = with_type(of(path)?.as_deref(), kind).map_err(bad)? else { return Ok(false) };
    rustix::fs::lsetxattr(path, NAME, &label, XattrFlags::empty())
        .map_err(|e| SysError::at("label", path, e))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_changes_and_the_rest_of_a_label_stays() {
        let of = |now: Option<&[u8]>| with_type(now, "ssh_home_t");
        let text = |label: &str| Ok(Some(label.as_bytes().to_vec()));
        assert_eq!(of(None), text("system_u:object_r:ssh_home_t:s0\0"));
        assert_eq!(of(Some(b"system_u:object_r:var_lib_t:s0\0")), text("system_u:object_r:ssh_home_t:s0\0"));
        assert_eq!(of(Some(b"u:r:var_lib_t:s0-s0:c0.c1023")), text("u:r:ssh_home_t:s0-s0:c0.c1023\0"));
        assert_eq!(of(Some(b"u:r:var_lib_t\0")), text("u:r:ssh_home_t\0"), "a policy without ranges");
        assert_eq!(of(Some(b"u:r:ssh_home_t:s0\0")), Ok(None));
        for none in [&b""[..], b"u:r", b"\xff:r:t\0"] {
            assert!(of(Some(none)).is_err(), "{none:?}");
        }
    }

    /// The real attribute, on real file systems: a kernel without SELinux takes it from root.
    #[test]
    fn a_label_is_on_the_file_and_is_set_once() {
        muster_needs::require!(muster_needs::root());
        for place in [std::env::temp_dir(), "/dev/shm".into()] {
            let folder = tempfile::tempdir_in(&place).unwrap();
            let file = folder.path().join("alice");
            std::fs::write(&file, "x").unwrap();
            for path in [folder.path(), &file] {
                let given = set_type(path, "ssh_home_t");
                muster_needs::require!(given.as_ref().map(|_| ()).map_err(|e| format!(
                    "{}: {}",
                    place.display(),
                    e.line()
                )));
                assert!(given.unwrap(), "it had none");
                let label = of(path).unwrap().unwrap();
                assert!(
                    label.starts_with(b"system_u:object_r:ssh_home_t:s0"),
                    "{}",
                    String::from_utf8_lossy(&label)
                );
                assert!(!set_type(path, "ssh_home_t").unwrap());
            }
            // As a relabelling of the whole machine leaves it.
            assert!(set_type(&file, "var_lib_t").unwrap() && set_type(&file, "ssh_home_t").unwrap());
            set_type(&folder.path().join("nobody"), "ssh_home_t").unwrap_err();
        }
    }
}
