//! Words for whoever stands before the machine, or looks at its serial line.
//!
//! Source: the kernel's `/sys/class/tty/console/active`, names of the consoles that kernel messages go to, the preferred one last
//! (Documentation/ABI/testing/sysfs-tty).

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Consoles that are written to.
const MOST: usize = 4;

/// Writes to every active console below `root`, else to `/dev/console`; says to how many. One that does not take it at once is
/// left: nobody may hold up the machine by a terminal that is stopped.
pub fn say(root: &Path, text: &str) -> usize {
    let active = std::fs::read_to_string(root.join("sys/class/tty/console/active")).unwrap_or_default();
    let plain = |name: &&str| name.len() <= 16 && name.bytes().all(|b| b.is_ascii_alphanumeric());
    let names: Vec<&str> = active.split_ascii_whitespace().filter(plain).take(MOST).collect();
    let said = names.iter().filter(|name| write(&root.join("dev").join(name), text)).count();
    if said > 0 { said } else { usize::from(write(&root.join("dev/console"), text)) }
}

/// Links are followed: `/dev` is root's own, and in a container the console is one.
fn write(device: &Path, text: &str) -> bool {
    let flags = i32::try_from((OFlags::NOCTTY | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let open = OpenOptions::new().append(true).custom_flags(flags).open(device);
    open.is_ok_and(|mut d| d.write_all(text.as_bytes()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_active_console_is_written_to_and_else_the_one_of_that_name() {
        let t = tempfile::tempdir().unwrap();
        let dev = t.path().join("dev");
        fs::create_dir_all(&dev).unwrap();
        assert_eq!(say(t.path(), "a"), 0, "there is none, and none is made");
        for name in ["console", "tty0", "ttyS0"] {
            fs::write(dev.join(name), "").unwrap();
        }
        assert_eq!(say(t.path(), "a"), 1);
        let active = t.path().join("sys/class/tty/console");
        fs::create_dir_all(&active).unwrap();
        fs::write(active.join("active"), "tty0 ttyS0 ../console\n").unwrap();
        assert_eq!(say(t.path(), "b"), 2);
        let read = |name| fs::read_to_string(dev.join(name)).unwrap();
        assert_eq!((read("console"), read("tty0"), read("ttyS0")), ("a".into(), "b".into(), "b".into()));
    }
}
