//! `muster host …` on a real terminal: prompts, the live table, colours, Ctrl-C.

use crate::bench::{Bench, PROBE};
use crate::run::{MUSTER, Place};
use muster_ssh::require_sshd_or_skip;
use muster_ssh::testing::KeyPair;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A terminal made by script(1), with a command on it, then how it ended and what it left the terminal as.
pub(crate) struct Terminal {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    seen: Vec<u8>,
}

impl Terminal {
    fn start(b: &Bench, columns: u16, line: &str, env: &[(&str, &str)]) -> Self {
        Self::start_in(&b.p, columns, line, env)
    }

    pub(crate) fn start_in(p: &Place, columns: u16, line: &str, env: &[(&str, &str)]) -> Self {
        Self::start_shell(p, columns, &format!("{MUSTER} {line}"), env)
    }

    /// With a line of shell instead of arguments.
    pub(crate) fn start_shell(p: &Place, columns: u16, line: &str, env: &[(&str, &str)]) -> Self {
        // Whoever runs the tests may have had SIGINT ignored, as a shell does for what it puts in the background, and what is
        // ignored stays so. A question that nobody answers ends the test, not the hour.
        let mut c = p.command("/usr/bin/env");
        c.args(["--default-signal=INT", "/usr/bin/timeout", "--foreground", "120", "/usr/bin/script"]);
        let line = format!("trap : INT; stty cols {columns} rows 24; {line}; echo END=$?; stty -a");
        c.args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .envs(env.iter().copied());
        let mut child = c.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output, seen: Vec::new() }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits for a word.
    pub(crate) fn until(&mut self, word: &str) {
        self.until_times(word, 1);
    }

    pub(crate) fn until_times(&mut self, word: &str, times: usize) {
        let mut byte = [0u8];
        while self.text().matches(word).count() < times {
            assert_eq!(self.output.read(&mut byte).unwrap(), 1, "no {word}: {}", self.text());
            self.seen.push(byte[0]);
        }
    }

    /// What a terminal of this size shows now.
    pub(crate) fn screen(&self, columns: u16) -> vt100::Parser {
        let (rows, columns) = (24.try_into().unwrap(), columns.try_into().unwrap());
        let mut parser = vt100::Parser::new(rows, columns, 0);
        parser.process(&self.seen);
        parser
    }

    /// Waits until the screen has a text.
    pub(crate) fn until_screen(&mut self, columns: u16, what: &str) -> String {
        let mut bytes = [0u8; 4096];
        loop {
            let screen = self.screen(columns);
            let text = screen.screen().contents();
            // A frame ends with where the cursor is, or that there is none.
            if text.contains(what) && self.seen.ends_with(b"l") | self.seen.ends_with(b"H") {
                return text;
            }
            let n = self.output.read(&mut bytes).unwrap();
            assert_ne!(n, 0, "no {what}: {text}");
            self.seen.extend_from_slice(&bytes[..n]);
        }
    }

    /// Types. Whoever asks has begun to listen before it asks.
    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).unwrap();
    }

    /// All that was seen; the command ended with `code` and left the terminal as it was.
    pub(crate) fn end(mut self, code: i32) -> String {
        self.output.read_to_end(&mut self.seen).unwrap();
        let text = self.text();
        self.child.wait().unwrap();
        assert!(text.contains(&format!("END={code}\r\n")), "not {code}: {text}");
        let words: Vec<&str> = text.rsplit("END=").next().unwrap().split_whitespace().collect();
        for mode in ["echo", "icanon", "isig"] {
            assert!(words.contains(&mode), "the terminal was left without {mode}: {text}");
        }
        text
    }
}

fn locked(b: &Bench) {
    let key = KeyPair::generate_with(b.p.path(), "locked", "ed25519", "open sesame");
    b.sshd.authorize(&format!("{}\n", key.public()));
    b.inventory(&["h1", "h2"], "locked");
}

/// A table that is drawn and taken away again, and one question for a key that opens several hosts.
#[test]
fn a_live_table_and_one_passphrase_for_all_hosts() {
    require_sshd_or_skip!();
    let b = Bench::new();
    locked(&b);
    // In a narrow one too.
    for columns in [100, 20] {
        b.answer("sleep 1; echo said", PROBE);
        let mut t = Terminal::start(&b, columns, "host join h1 h2 --profile tiny --parallel 2", &[]);
        t.until("Passphrase of ");
        t.answer(b"open sesame\n");
        let text = t.end(0);
        assert_eq!(text.matches("Passphrase of ").count(), 1, "{text}");
        assert!(text.contains("\u{1b}[") && text.contains("join"), "nothing was drawn: {text}");
        assert!(text.contains("h1 | said") && text.contains("h2: ok in"), "{text}");
        assert!(!text.contains("open sesame"), "{text}");
        assert_eq!(b.sent(), 2);
    }
    // Off a terminal nobody is asked, and the error says which key it is about.
    let ran = b.join("");
    assert_eq!(
        (ran.code, crate::bench::row(&ran)["reason"].as_str()),
        (5, Some("auth-refused")),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("locked"), "{}", ran.out);
}

#[test]
fn a_wrong_passphrase_is_said_and_ctrl_c_at_the_question_stops() {
    require_sshd_or_skip!();
    let b = Bench::new();
    locked(&b);
    let mut t = Terminal::start(&b, 100, "host join h1 --profile tiny", &[]);
    for n in 1..=3 {
        t.until_times("Passphrase of ", n);
        t.answer(b"open says me\n");
    }
    let text = t.end(5);
    assert_eq!(text.matches("Passphrase of ").count(), 3, "{text}");
    assert!(text.contains("passphrase") && text.contains("auth-refused"), "{text}");
    assert!(!text.contains("open says me"), "{text}");
    let mut t = Terminal::start(&b, 100, "host join h1 h2 --profile tiny --parallel 1", &[]);
    t.until("Passphrase of ");
    t.answer(b"open ses\x03");
    let text = t.end(130);
    assert!(text.contains("stopping: 1 not begun") && text.contains("not-started"), "{text}");
    assert!(!text.contains("open ses") && text.matches("Passphrase of ").count() == 1, "{text}");
    assert_eq!(b.sent(), 0);
}

#[test]
fn what_destroys_asks_and_only_yes_is_yes() {
    require_sshd_or_skip!();
    let b = Bench::new();
    b.p.write("tiny/uninstall.sh", "set -euo pipefail\ntrue\n");
    assert_eq!(b.p.muster("script sign tiny").code, 0);
    let line = "host uninstall h1 --profile tiny";
    for (answer, code) in [(&b"n\n"[..], 4), (b"\n", 4), (b"yess\n", 4), (b"\x04", 4), (b"\x03", 130)] {
        let mut t = Terminal::start(&b, 100, line, &[]);
        t.until("Run uninstall on h1? [y/N] ");
        t.answer(answer);
        let text = t.end(code);
        assert_eq!(text.contains("declined"), code == 4, "{text}");
        assert_eq!(b.sent(), 0, "{text}");
    }
    for line in [
        "host unprovision h1",
        "host floor set h1 --floor tiny=1 --lower",
        "host floor set h1 --floor tiny=1 --rebuild",
    ] {
        let mut t = Terminal::start(&b, 100, line, &[]);
        t.until(" h1? [y/N] ");
        t.answer(b"no\n");
        t.end(4);
        // Off a terminal there is nobody to ask.
        let mut c = b.p.command("/usr/bin/setsid");
        c.args(["--wait", MUSTER]).args(line.split_whitespace());
        let ran = b.p.finish(c, b"y\n");
        assert_eq!(ran.code, 4, "{line}: {}", ran.err);
        assert!(ran.err.contains("error[confirm-needed]"), "{line}: {}", ran.err);
    }
    let mut t = Terminal::start(&b, 100, line, &[]);
    t.until("[y/N] ");
    t.answer(b"Y\n");
    t.end(0);
    assert_eq!(b.sent(), 1);
}

#[test]
fn ctrl_c_typed_once_lets_what_runs_go_on() {
    require_sshd_or_skip!();
    let b = Bench::new();
    b.inventory(&["h1", "h2"], &b.sshd.login().path.display().to_string());
    b.answer("echo begun; until [ -e go ]; do sleep 0.05; done; echo over", PROBE);
    let mut t = Terminal::start(&b, 100, "host join h1 h2 --profile tiny --parallel 1", &[]);
    t.until("h1 | begun");
    t.answer(b"\x03");
    t.until("stopping: ");
    b.p.write("go", "");
    let text = t.end(130);
    assert!(text.contains("stopping: 1 not begun; 1 go on") && text.contains("h1 | over"), "{text}");
    assert!(text.contains("not-started"), "{text}");
    assert_eq!(b.sent(), 1);
}

#[test]
fn colours_only_on_a_terminal_that_wants_them() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let coloured = |text: &str| {
        text.split("\u{1b}[").skip(1).any(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';');
            end.is_some_and(|at| rest[at..].starts_with('m'))
        })
    };
    for (line, code) in [("host join nosuch --profile tiny", 3), ("host join h1 --profile tiny", 0)] {
        let plain = Terminal::start(&b, 100, line, &[("NO_COLOR", "1")]).end(code);
        assert!(!coloured(&plain), "{line}: {plain}");
        let never = Terminal::start(&b, 100, &format!("{line} --color never"), &[]).end(code);
        assert!(!coloured(&never), "{line}: {never}");
        let dumb = Terminal::start(&b, 100, line, &[("TERM", "dumb")]).end(code);
        assert!(!dumb.contains('\u{1b}'), "{line}: {dumb}");
        let ran = b.p.muster(line);
        assert!(!format!("{}{}", ran.out, ran.err).contains('\u{1b}'), "{line}");
    }
    let shown = Terminal::start(&b, 100, "host join nosuch --profile tiny", &[]).end(3);
    assert!(coloured(&shown), "{shown}");
}
