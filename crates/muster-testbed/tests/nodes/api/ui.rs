//! `muster ui` on a terminal of its own, over a real node.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::operations::operated;
use super::operator::{Operator, nothing_failed, until};
use super::*;
use anyhow::Context as _;
use muster_testbed::binaries;

const COLUMNS: u16 = 110;
const ROWS: u16 = 30;

/// A pseudo-terminal made by script(1), the dashboard on it, then how it ended and the modes that it left.
struct Screen {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    seen: Vec<u8>,
}

impl Screen {
    fn open(operator: &Operator) -> Result<Self> {
        let line = format!(
            "stty cols {COLUMNS} rows {ROWS}; sh -c 'echo $$ >pid; exec {} ui --every 1s'; echo END=$?; stty -a",
            binaries()?.muster.display()
        );
        let args = ["--foreground", "400", "/usr/bin/script", "-qec", &line, "/dev/null"];
        let mut command = operator.command(std::path::Path::new("/usr/bin/timeout"), &args);
        command.env("MUSTER_CLIENT", "pki/clients/alice.pem").env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take().context("stdin")?, child.stdout.take().context("stdout")?);
        Ok(Self { child, input, output, seen: Vec::new() })
    }

    fn now(&self) -> vt100::Parser {
        let mut parser = vt100::Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0);
        parser.process(&self.seen);
        parser
    }

    /// Waits until the screen is as it should be.
    fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let mut bytes = [0u8; 4096];
        loop {
            let text = self.now().screen().contents();
            // A frame ends with where the cursor is, or that there is none.
            if holds(&text) && self.seen.ends_with(b"l") | self.seen.ends_with(b"H") {
                return Ok(text);
            }
            let n = self.output.read(&mut bytes)?;
            anyhow::ensure!(n > 0, "{what}: {text}");
            self.seen.extend_from_slice(&bytes[..n]);
        }
    }

    fn shows(&mut self, what: &str) -> Result<String> {
        self.until(what, |text| text.contains(what))
    }

    fn keys(&mut self, keys: &str) -> Result<()> {
        Ok(self.input.write_all(keys.as_bytes())?)
    }

    /// It ended with this code, and the terminal is as it was.
    fn ended(mut self, code: i32) -> Result<()> {
        self.output.read_to_end(&mut self.seen)?;
        self.child.wait()?;
        let text = String::from_utf8_lossy(&self.seen).into_owned();
        let (_, after) = text.rsplit_once("END=").with_context(|| format!("no end: {text}"))?;
        let words: Vec<&str> = after.split_whitespace().collect();
        assert_eq!(words[0], code.to_string(), "{text}");
        for mode in ["echo", "icanon", "isig", "opost"] {
            assert!(words.contains(&mode), "the terminal was left without {mode}: {text}");
        }
        let parser = self.now();
        let screen = parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste(), "{text}");
        Ok(())
    }
}

/// The numbers of the ticks that are on the screen.
fn ticks(text: &str) -> Vec<u32> {
    let tick = |l: &str| l.trim_end().rsplit_once(' ')?.1.parse().ok();
    text.lines().filter(|l| l.contains("kubelet: tick")).filter_map(tick).collect()
}

#[test]
fn the_dashboard_shows_a_node_follows_its_journal_restarts_and_reboots_it() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("dashboard")?;
    let (node, alice) = operated(&bed)?;
    let mut screen = Screen::open(&alice)?;
    let list = screen.shows("1 well")?;
    assert!(list.contains("  a") && list.contains("configuration"), "{list}");
    screen.keys("\r")?;
    let shown = screen.shows("hostname    ")?;
    assert!(shown.contains("claimed by  configuration"), "{shown}");
    screen.keys("2")?;
    let services = screen
        .until("services", |text| text.contains("WHAT IT IS FOR") && text.contains("kubelet.service"))?;
    assert!(services.contains("active (running)") && services.contains("musterd-core.service"), "{services}");

    // A journal line by line as it comes, and held.
    screen.keys("\r")?;
    let followed = screen.until("ticks that go on", |text| ticks(text).len() > 8)?;
    let seen = ticks(&followed);
    assert!(seen.windows(2).all(|w| w[1] == w[0] + 1), "none is missed and none comes twice: {seen:?}");
    assert!(followed.contains("kubelet.service: following"), "{followed}");
    let newest = *seen.last().context("a tick")?;
    screen.until("the next ticks", |text| ticks(text).last().is_some_and(|n| *n > newest + 3))?;
    screen.keys(" ")?;
    screen.shows("kubelet.service: held")?;
    // Frames are not drawn for each: on a busy machine no number is sure to be seen.
    let newer = |text: &str| -> u32 {
        let before = text.split_once(" newer").and_then(|(before, _)| before.rsplit(' ').next());
        before.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let first = screen.until("newer ones", |text| newer(text) >= 4)?;
    let (held, seen) = (ticks(&first), newer(&first));
    screen.until("more of them", |text| newer(text) > seen && ticks(text) == held)?;
    assert!(!node.sh("pgrep -fc 'journalctl.*--follow' || true")?.trim().eq("0"));
    screen.keys("2")?;
    screen.shows("WHAT IT IS FOR")?;
    until("the stream ends with its view", || {
        Ok(node.sh("pgrep -fc 'journalctl.*--follow' || true")?.trim().eq("0").then_some(()))
    })?;

    // The audit record, which knows of the journal that was followed.
    screen.keys("4")?;
    screen.shows("logs")?;

    // A restart, with a yes.
    let pid = || node.sh("systemctl show --property=MainPID --value kubelet.service");
    let before = pid()?;
    screen.keys("2")?;
    let services = screen
        .until("services", |text| text.contains("WHAT IT IS FOR") && text.contains("kubelet.service"))?;
    let place = services.lines().skip(3).position(|l| l.starts_with("kubelet.service")).context("kubelet")?;
    screen.keys(&format!("g{}R", "j".repeat(place)))?;
    screen.shows("restart kubelet.service on a?")?;
    screen.keys("y")?;
    screen.shows("a: kubelet.service is active")?;
    assert_ne!(pid()?, before);

    // A reboot, with the node's own name; what is shown goes on through it.
    node.sh("touch /run/before")?;
    let name = node.sh("hostname")?.trim().to_owned();
    screen.keys("B")?;
    let asked = screen.shows(&format!("Type `{name}` to reboot:"))?;
    assert!(asked.contains("this reboots, and what runs there stops"), "{asked}");
    screen.keys(&format!("{name}\r"))?;
    screen.shows("rebooting")?;
    screen.keys("\x1b")?;
    screen.until("the node is gone for a while", |text| {
        text.contains("node-unreachable") || text.contains("node-answer")
    })?;
    node.wait_boot()?;
    node.sh("! test -e /run/before")?;
    screen.keys("r")?;
    screen.shows("1 well")?;
    screen.keys("q")?;
    screen.ended(0)?;
    nothing_failed(&node)
}

#[test]
fn the_terminal_is_given_back_when_a_followed_journal_is_ended_by_a_signal() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("dashboard-ends")?;
    let (node, alice) = operated(&bed)?;
    for signal in ["TERM", "HUP"] {
        let mut screen = Screen::open(&alice)?;
        screen.shows("1 well")?;
        screen.keys("\r3")?;
        screen.until("ticks", |text| ticks(text).len() > 2)?;
        let pid = std::fs::read_to_string(alice.file("pid"))?;
        let status = std::process::Command::new("kill").args(["-s", signal, pid.trim()]).status()?;
        assert!(status.success());
        screen.ended(130)?;
        until("the stream ends with its client", || {
            Ok(node.sh("pgrep -fc 'journalctl.*--follow' || true")?.trim().eq("0").then_some(()))
        })?;
    }
    nothing_failed(&node)
}
