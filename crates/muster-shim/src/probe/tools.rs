//! Container and Kubernetes tools, with what they say of their version.

use crate::json::Value;
use muster_sys::command::Command;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Tools, and how each is asked for its version.
const TOOLS: &[(&str, &[&str])] = &[
    ("containerd", &["--version"]),
    ("crictl", &["--version"]),
    ("crio", &["--version"]),
    ("docker", &["--version"]),
    ("kubeadm", &["version", "-o", "short"]),
    ("kubelet", &["--version"]),
    ("podman", &["--version"]),
    ("runc", &["--version"]),
];

/// Folders that are searched, in this order.
const FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// One tool's clock, and that of all together.
const ONE: Duration = Duration::from_secs(2);
const ALL: Duration = Duration::from_secs(8);

/// Of each tool that is there, its path and version; `null` for a version that was not asked for or
/// not answered in time. Nothing is started unless `ask`.
pub(super) fn all(ask: bool) -> Value {
    let start = Instant::now();
    let found = TOOLS.iter().filter_map(|(name, args)| Some((*name, find(name)?, *args)));
    Value::object(found.map(|(name, path, args)| {
        let version = if ask && start.elapsed() < ALL { version(&path, args) } else { None };
        let path = Value::text(path.to_string_lossy());
        (name, Value::object([("path", path), ("version", Value::optional(version))]))
    }))
}

fn find(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file())
}

/// The first line of the answer. A program that somebody other than root could have replaced is
/// not run: the asker is not trusted with choosing when root runs it.
fn version(path: &Path, args: &[&str]) -> Option<String> {
    let real = path.canonicalize().ok()?;
    if !real
        .ancestors()
        .all(|part| std::fs::metadata(part).is_ok_and(|m| m.uid() == 0 && m.mode() & 0o022 == 0))
    {
        return None;
    }
    let out = Command::new(&real).args(args).deadline(ONE).keep_output(4096).run().ok()?;
    if !out.ok() {
        return None;
    }
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line: String = text.lines().next()?.trim().chars().take(200).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_not_asked_has_its_path_and_no_version() {
        let (told, silent) = (all(true).to_string(), all(false).to_string());
        assert_eq!(told.matches("\"path\":").count(), silent.matches("\"path\":").count());
        assert_eq!(silent.matches("\"version\":null").count(), silent.matches("\"path\":").count());
    }

    #[test]
    fn only_roots_programs_are_run() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        std::fs::write(&tool, "#!/bin/sh\necho tool 1.2\n").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        // /tmp is writable by everybody, so nothing below it is root's alone.
        assert_eq!(version(&tool, &[]), None);
        assert!(version(Path::new("/bin/true"), &[]).is_none(), "it prints nothing");
        let bash = version(Path::new("/bin/bash"), &["--version"]).unwrap();
        assert!(bash.starts_with("GNU bash"), "{bash}");
    }
}
