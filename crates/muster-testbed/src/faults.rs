//! Things that go wrong on purpose: links, disks, frozen processes, clocks.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::cgroup;
use crate::node::{Node, ip};

/// Where a program is kept while a wrapper stands in its place; under its own name, which it may look at.
const TRUE_PLACE: &str = "/usr/lib/true-clock";

fn true_place(program: &str) -> Result<String> {
    let name = program.rsplit('/').next().filter(|n| !n.is_empty()).context("a program's path")?;
    Ok(format!("{TRUE_PLACE}/{name}"))
}

impl Node {
    /// Pulls the cable: nothing arrives any more in either direction, and neither side is told.
    pub fn cut_link(&self) -> Result<()> {
        ip(&["link", "set", &self.network_names().1, "nomaster"])
    }

    /// Plugs the cable in again.
    pub fn restore_link(&self) -> Result<()> {
        let bridge = crate::net::bridge(self.plan().slot);
        ip(&["link", "set", &self.network_names().1, "master", &bridge])
    }

    /// Stops every process of the node, PID 1 too, without any of them noticing.
    pub fn freeze(&self) -> Result<()> {
        cgroup::set_frozen(&format!("{}/box", self.plan().group()), true)
    }

    /// Lets them go on.
    pub fn thaw(&self) -> Result<()> {
        cgroup::set_frozen(&format!("{}/box", self.plan().group()), false)
    }

    /// Puts a small tmpfs over a folder, with what was in it; `size` as mount(8) takes it, for instance `256k`.
    pub fn small_disk(&self, path: &str, size: &str) -> Result<()> {
        let script = r#"
            keep=$(mktemp -d); mkdir -p "$1"; cp -a "$1/." "$keep/"
            mode=$(stat -c %a "$1"); owner=$(stat -c %u:%g "$1")
            mount -t tmpfs -o "size=$2" small-disk "$1"
            chmod "$mode" "$1"; chown "$owner" "$1"; cp -a "$keep/." "$1/"; rm -rf "$keep""#;
        self.exec(&["bash", "-euc", script, "small-disk", path, size])?.check()?;
        Ok(())
    }

    /// Fills the file system at `path` to the last byte. Only on a [`Node::small_disk`]: a bed must not fill this machine.
    pub fn fill_disk(&self, path: &str) -> Result<()> {
        let script = r#"
            [ "$(stat -f -c %T "$1")" = tmpfs ]
            mountpoint -q "$1"
            dd if=/dev/zero of="$1/.filler" bs=4k 2>/dev/null || true
            dd if=/dev/zero bs=1 of="$1/.filler" oflag=append conv=notrunc 2>/dev/null || true
            (echo x > "$1/.probe") 2>/dev/null || true
            full=yes; [ ! -s "$1/.probe" ] || full=no
            rm -f "$1/.probe"; [ "$full" = yes ]"#;
        self.exec(&["bash", "-euc", script, "fill-disk", path])?
            .check()
            .with_context(|| format!("{path} is no small disk, or did not fill up"))?;
        Ok(())
    }

    /// Makes room again.
    pub fn free_disk(&self, path: &str) -> Result<()> {
        self.exec(&["rm", "-f", "--", &format!("{path}/.filler")])?.check()?;
        Ok(())
    }

    /// Makes a program see another time (`+1y`, `-400d`, as faketime(1) takes them), by a wrapper at its path. One offset per
    /// node at a time.
    ///
    /// The program must be linked dynamically and ask libc for the time ([`crate::Binaries::shim_dynamic`]): libfaketime is preloaded. [`Node::true_clock`] undoes it.
    pub fn skew_clock(&self, program: &str, offset: &str) -> Result<()> {
        let plain = offset.bytes().all(|b| b.is_ascii_alphanumeric() || b"+- :.@".contains(&b));
        if !plain {
            bail!("offset {offset:?} is not for faketime(1)");
        }
        let real = true_place(program)?;
        if self.exec(&["test", "-e", &real])?.ok() {
            bail!("the clock of {program} is skewed already");
        }
        self.exec(&["install", "-d", "-m", "0755", TRUE_PLACE])?.check()?;
        self.exec(&["mv", "-T", "--", program, &real])?.check()?;
        // The offset is in a file, since a program may drop its environment before it first asks for the time.
        self.put("/etc/faketimerc", format!("{offset}\n").as_bytes(), 0o644)?;
        let wrapper = format!(
            "#!/bin/sh\nexport LD_PRELOAD='/usr/$LIB/faketime/libfaketime.so.1' DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1\n\
             exec '{real}' \"$@\"\n"
        );
        self.put(program, wrapper.as_bytes(), 0o755)
    }

    /// Gives the program the true time again.
    pub fn true_clock(&self, program: &str) -> Result<()> {
        self.exec(&["mv", "-fT", "--", &true_place(program)?, program])?.check()?;
        Ok(())
    }

    /// Process ids in the node whose command line matches a pgrep(1) pattern.
    pub fn pids(&self, pattern: &str) -> Result<Vec<u32>> {
        let out = self.exec(&["pgrep", "--full", "--", pattern])?;
        Ok(out.stdout_text().lines().filter_map(|l| l.parse().ok()).collect())
    }

    /// Sends a signal (`KILL`, `STOP`, `CONT`, …) to one process of the node.
    pub fn signal(&self, pid: u32, signal: &str) -> Result<()> {
        self.exec(&["kill", &format!("-{signal}"), &pid.to_string()])?.check()?;
        Ok(())
    }

    /// Every command line of every process in the node, as any local user can read them; for canary scans.
    pub fn command_lines(&self) -> Result<Vec<String>> {
        let root = format!("/proc/{}/root/proc", self.leader()?);
        let mut lines = Vec::new();
        for entry in fs::read_dir(&root)?.flatten() {
            if entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit())
                && let Ok(bytes) = fs::read(entry.path().join("cmdline"))
            {
                lines.push(String::from_utf8_lossy(&bytes).replace('\0', " "));
            }
        }
        Ok(lines)
    }
}
