//! `muster ui` on a real terminal, against nodes with real TLS.

use crate::nodes::{Nodes, table, targets};
use crate::run::MUSTER;
use crate::terminal::Terminal;
use muster_client::testing::{Reply, Server, reply};
use std::time::{Duration, Instant};

const STATE: &str = r#"{"hostname":"edge-1","bootstrapped":true,"role":"worker","cluster":"lab","health":{"uptimeSeconds":90,"verdict":"passed"},"management":{"claimedBy":"pairing-code"}}"#;
const SERVICES: &str = r#"{"services":[{"name":"kubelet.service","purpose":"runs pods","restartable":true,"active":"active","sub":"running"}]}"#;
const WIDE: u16 = 100;

fn record(message: &str) -> String {
    let line = format!(
        "{{\"time\":\"2026-11-30T10:00:00.000000Z\",\"unit\":\"kubelet.service\",\"priority\":6,\"message\":\"{message}\"}}\n"
    );
    format!("{:x}\r\n{line}\r\n", line.len())
}

/// Answers as a node does; a journal goes on, so its answer has no end.
fn node(nodes: &Nodes, name: &str, state: &str) -> Server {
    let rest = table(&[
        ("GET /v1/node", 200, state),
        ("GET /v1/services", 200, SERVICES),
        ("POST /v1/services/kubelet.service/restart", 200, SERVICES),
        ("POST /v1/lifecycle/reboot", 202, r#"{"status":"rebooting"}"#),
    ]);
    nodes.node(
        name,
        Box::new(move |seen| match seen.line.contains("/v1/logs?") {
            true => {
                let head = "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n";
                let bytes = [head, &record("the first line"), &record("a second line")].concat().into_bytes();
                Reply { bytes, close: false }
            }
            false => rest(seen),
        }),
    )
}

fn ui(nodes: &Nodes, more: &str) -> Terminal {
    Terminal::start_shell(&nodes.p, WIDE, &format!("sh -c 'echo $$ > pid; exec {MUSTER} ui {more}'"), &[])
}

/// The terminal is as it was: the modes of [`Terminal::end`], and what the screen itself has.
fn ended(t: Terminal, code: i32) -> String {
    let text = t.end(code);
    let mut parser = vt100::Parser::new(24.try_into().unwrap(), WIDE.try_into().unwrap(), 0);
    parser.process(text.as_bytes());
    let screen = parser.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste(), "{text}");
    assert!(text.contains("\u{1b}[?1049h"), "there was a screen: {text}");
    text
}

#[test]
fn a_node_is_found_opened_and_its_journal_followed() {
    let nodes = Nodes::new();
    let server = node(&nodes, "edge-1", STATE);
    let mut t = ui(&nodes, "");
    let screen = t.until_screen(WIDE, "well");
    assert!(screen.contains("muster  1 node: 1 well"), "{screen}");
    assert!(screen.contains("edge-1  well"), "{screen}");
    assert!(t.screen(WIDE).screen().alternate_screen());
    t.answer(b"\r");
    let screen = t.until_screen(WIDE, "[status]");
    assert!(screen.contains("cluster     lab") && screen.contains("claimed by  pairing-code"), "{screen}");
    t.answer(b"2");
    t.until_screen(WIDE, "kubelet.service  active (running)");
    t.answer(b"\r");
    let screen = t.until_screen(WIDE, "kubelet: a second line");
    assert!(screen.contains("kubelet.service: following"), "{screen}");
    t.answer(b"/first\r");
    let screen = t.until_screen(WIDE, "/first");
    assert!(screen.contains("the first line"), "{screen}");
    t.answer(b"q");
    ended(t, 0);
    let asked = targets(&server);
    let logs: Vec<_> = asked.iter().filter(|t| t.contains("logs")).collect();
    assert_eq!(logs, ["GET /v1/logs?unit=kubelet.service&lines=500&follow=true"], "{asked:?}");
}

#[test]
fn what_ends_something_wants_the_name_and_is_sent_once() {
    let nodes = Nodes::new();
    let server = node(&nodes, "edge-1", STATE);
    let reboots = || targets(&server).iter().filter(|t| t.contains("reboot")).count();
    let mut t = ui(&nodes, "edge-1");
    t.until_screen(WIDE, "well");
    t.answer(b"B");
    let screen = t.until_screen(WIDE, "Type `edge-1` to reboot:");
    assert!(screen.contains("this reboots, and what runs there stops"), "{screen}");
    assert!(screen.contains("worker of the cluster lab, up 1m"), "{screen}");
    t.answer(b"edge-2\r");
    t.until_screen(WIDE, "edge-2 was typed, and edge-1 was asked for");
    assert_eq!(reboots(), 0);
    t.answer(b"\r");
    t.answer(b"B");
    t.until_screen(WIDE, "Type `edge-1` to reboot:");
    t.answer(b"edge-1\r");
    t.until_screen(WIDE, "edge-1: rebooting");
    t.answer(b"q");
    ended(t, 0);
    assert_eq!(reboots(), 1);
    assert!(server.seen().iter().any(|s| s.line.contains("reboot") && s.header("muster-proof").is_some()));
}

/// Left before the answer: nobody knows what became of it, and the exit code says so.
#[test]
fn what_was_sent_and_not_answered_is_an_unknown_outcome() {
    let nodes = Nodes::new();
    let rest = table(&[("GET /v1/node", 200, STATE)]);
    let server = nodes.node(
        "edge-1",
        Box::new(move |seen| {
            if seen.line.contains("reboot") {
                std::thread::sleep(Duration::from_secs(5));
            }
            rest(seen)
        }),
    );
    let mut t = ui(&nodes, "");
    t.until_screen(WIDE, "well");
    t.answer(b"B");
    t.until_screen(WIDE, "Type `edge-1` to reboot:");
    t.answer(b"edge-1\r");
    t.until_screen(WIDE, "under way: reboot edge-1");
    // It does not leave it behind without a word.
    t.answer(b"q");
    t.until_screen(WIDE, "waiting for the answer to: reboot edge-1");
    while !server.seen().iter().any(|s| s.line.contains("/v1/proof")) {
        std::thread::sleep(Duration::from_millis(20));
    }
    t.answer(b"\x03");
    let text = ended(t, 8);
    assert!(text.contains("reboot edge-1: it was sent, and Ctrl-C came before the answer"), "{text}");
}

#[test]
fn a_node_that_does_not_answer_does_not_hold_up_the_others_nor_the_keys() {
    let nodes = Nodes::new();
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let pins = format!("edge-0 {} SHA256:{}\n", silent.local_addr().unwrap(), "A".repeat(43));
    nodes.p.write(".local/state/muster/node-pins", pins);
    let _server = node(&nodes, "edge-1", STATE);
    let begun = Instant::now();
    let mut t = ui(&nodes, "--connect-timeout 8s --every 1s");
    let screen = t.until_screen(WIDE, "edge-1  well");
    assert!(screen.contains("edge-0  asking"), "{screen}");
    t.answer(b"j?");
    t.until_screen(WIDE, "Everywhere");
    assert!(begun.elapsed() < Duration::from_secs(8), "the keys waited for the node");
    t.answer(b"\x1b");
    let screen = t.until_screen(WIDE, "node-unreachable");
    assert!(screen.contains("! edge-0  node-unreachable") && screen.contains("edge-1  well"), "{screen}");
    t.answer(b"q");
    ended(t, 0);
}

/// More records than anybody reads: what is typed is heard all the same, and what is kept of them is bounded.
#[test]
fn a_flood_of_records_does_not_hold_up_the_keys() {
    const MANY: usize = 60_000;
    let nodes = Nodes::new();
    let rest = table(&[("GET /v1/node", 200, STATE), ("GET /v1/services", 200, SERVICES)]);
    let _server = nodes.node(
        "edge-1",
        Box::new(move |seen| match seen.line.contains("/v1/logs?") {
            true => {
                let mut text = "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
                text.extend((0..MANY).map(|n| record(&format!("flood {n}"))));
                Reply { bytes: text.into_bytes(), close: false }
            }
            false => rest(seen),
        }),
    );
    let mut t = ui(&nodes, "");
    t.until_screen(WIDE, "well");
    t.answer(b"\r3");
    t.until_screen(WIDE, "flood ");
    let begun = Instant::now();
    t.answer(b"?");
    let screen = t.until_screen(WIDE, "Everywhere");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(!screen.contains(&format!("flood {}", MANY - 1)), "the flood was over before: {screen}");
    t.answer(b"?");
    let screen = t.until_screen(WIDE, &format!("flood {}", MANY - 1));
    assert!(screen.contains("55000 older lines are no longer here"), "{screen}");
    t.answer(b"q");
    ended(t, 0);
}

/// Where nothing changes, next to nothing is written and done.
#[test]
fn a_screen_on_which_nothing_changes_costs_nothing() {
    let nodes = Nodes::new();
    let server = node(&nodes, "edge-1", STATE);
    let mut t = ui(&nodes, "--every 1s");
    t.until_screen(WIDE, "well");
    let (begun, asked) = (Instant::now(), server.seen().len());
    let spent = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", nodes.p.read("pid").trim())).unwrap();
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split_whitespace().flat_map(str::parse).collect();
        // proc_pid_stat(5): utime and stime, of the numbers from the fourth field on.
        (fields[10] + fields[11], begun.elapsed())
    };
    let before = spent();
    let written = t.text().len();
    while server.seen().len() < asked + 4 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = spent();
    t.answer(b"q");
    let text = ended(t, 0);
    let screen = text.split("\u{1b}[?2004l").next().unwrap();
    let more = screen.len() - written;
    println!("{more} bytes, {} ticks of the clock in {:?}", after.0 - before.0, after.1 - before.1);
    assert!(more < 400, "{more} bytes: {:?}", &screen[written..]);
}

fn signal(nodes: &Nodes, name: &str) {
    let pid = nodes.p.read("pid");
    nodes.p.sh(&format!("kill -{name} {}", pid.trim()));
}

#[test]
fn the_terminal_is_given_back_after_a_signal_and_after_ctrl_c() {
    let nodes = Nodes::new();
    let _server = node(&nodes, "edge-1", STATE);
    for name in ["TERM", "HUP", "INT", "QUIT"] {
        let mut t = ui(&nodes, "");
        t.until_screen(WIDE, "well");
        t.answer(b"\r3");
        t.until_screen(WIDE, "a second line");
        signal(&nodes, name);
        ended(t, 130);
    }
    let mut t = ui(&nodes, "");
    t.until_screen(WIDE, "well");
    t.answer(b"\x03");
    ended(t, 130);
}

#[test]
fn a_shell_with_jobs_gets_the_terminal_with_ctrl_z_and_gives_it_back() {
    let nodes = Nodes::new();
    let _server = node(&nodes, "edge-1", STATE);
    let jobs = format!("bash -c 'set -m; {MUSTER} ui; echo STOPPED; stty -a; fg >/dev/null'");
    let mut t = Terminal::start_shell(&nodes.p, WIDE, &jobs, &[]);
    t.until_screen(WIDE, "well");
    t.answer(b"\x1a");
    t.until("STOPPED");
    t.until_times("\u{1b}[?1049h", 2);
    let between = t.text().split("STOPPED").nth(1).unwrap().to_owned();
    let modes: Vec<&str> = between.split("\u{1b}[?1049h").next().unwrap().split_whitespace().collect();
    assert!(["echo", "icanon", "isig"].iter().all(|m| modes.contains(m)), "{between}");
    assert!(between.contains("\u{1b}[?1049h"), "it came back: {between}");
    t.until_screen(WIDE, "edge-1  well");
    t.answer(b"q");
    ended(t, 0);
}

/// A stop that was not typed: by `kill` from another terminal, by a supervisor.
#[test]
fn a_stop_from_outside_gives_the_terminal_back_until_it_goes_on() {
    let nodes = Nodes::new();
    let _server = node(&nodes, "edge-1", STATE);
    let jobs =
        format!("set -m\nsh -c 'echo $$ > pid; exec {MUSTER} ui'\necho STOPPED\nstty -a\nfg > /dev/null\n");
    nodes.p.write("jobs", jobs);
    let mut t = Terminal::start_shell(&nodes.p, WIDE, "bash jobs", &[]);
    t.until_screen(WIDE, "well");
    signal(&nodes, "TSTP");
    t.until("STOPPED");
    t.until_times("\u{1b}[?1049h", 2);
    let text = t.text();
    let (before, after) = text.split_once("STOPPED").unwrap();
    assert!(
        before.contains("\u{1b}[?1049l") && before.contains("\u{1b}[?25h"),
        "the shell saw our screen: {before}"
    );
    let modes: Vec<&str> = after.split("\u{1b}[?1049h").next().unwrap().split_whitespace().collect();
    assert!(["echo", "icanon", "isig"].iter().all(|m| modes.contains(m)), "{after}");
    t.until_screen(WIDE, "edge-1  well");
    t.answer(b"q");
    ended(t, 0);
    // Where no shell would ever continue it, it is not stopped, and the screen is there again.
    let mut t = ui(&nodes, "");
    t.until_screen(WIDE, "well");
    signal(&nodes, "TSTP");
    t.until_times("\u{1b}[?1049h", 2);
    t.until_screen(WIDE, "edge-1  well");
    t.answer(b"q");
    ended(t, 0);
}

/// The thread that reads the terminal is woken by signals too, and an Esc is none of them.
#[test]
fn an_esc_is_heard_while_signals_come() {
    let nodes = Nodes::new();
    let _server = node(&nodes, "edge-1", STATE);
    let mut t = ui(&nodes, "");
    t.until_screen(WIDE, "well");
    let pid = nodes.p.read("pid").trim().to_owned();
    let reader = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|e| e.unwrap());
    let reader = reader
        .into_iter()
        .find(|e| std::fs::read_to_string(e.path().join("comm")).is_ok_and(|c| c == "typed\n"));
    let reader = reader.unwrap().file_name().into_string().unwrap();
    for _ in 0..3 {
        t.answer(b"?");
        t.until_screen(WIDE, "Everywhere");
        t.answer(b"\x1b");
        // By the number of a thread: the kernel prefers that one of the process (complete_signal in kernel/signal.c).
        nodes.p.sh(&format!("for i in $(seq 20); do kill -WINCH {reader}; sleep 0.005; done"));
        t.until_screen(WIDE, "edge-1  well");
    }
    t.answer(b"q");
    ended(t, 0);
}

#[test]
fn another_size_is_another_screen() {
    let nodes = Nodes::new();
    let _server = node(&nodes, "edge-1", STATE);
    let mut t = ui(&nodes, "");
    t.until_screen(WIDE, "well");
    assert!(t.text().contains("CLAIMED BY"));
    let before = t.text().len();
    let pid = nodes.p.read("pid");
    nodes.p.sh(&format!("stty -F $(readlink /proc/{}/fd/0) cols 40 rows 8", pid.trim()));
    // At the same moment.
    t.answer(b"?");
    t.until("┘");
    let after = t.text().split_off(before);
    let mut parser = vt100::Parser::new(8.try_into().unwrap(), 40.try_into().unwrap(), 0);
    parser.process(after.as_bytes());
    let rows: Vec<String> = parser.screen().rows(0, 40).collect();
    assert!(rows[0].starts_with('┌') && rows[0].ends_with('┐') && rows[7].starts_with('└'), "{rows:?}");
    t.answer(b"?q");
    ended(t, 0);
}

#[test]
fn off_a_terminal_it_refuses_before_anybody_is_asked_for_anything() {
    let nodes = Nodes::new();
    let server = node(&nodes, "edge-1", STATE);
    let ran = nodes.p.muster("ui");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.starts_with("error[terminal-needed]: ") && ran.out.is_empty(), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 2, "one error and where to read more: {}", ran.err);
    for (line, says) in [
        ("ui -o json", "a dashboard has no --output"),
        ("ui < /dev/null", "is on no terminal"),
        ("ui | cat; exit 2", "is on no terminal"),
    ] {
        let text = Terminal::start_shell(&nodes.p, WIDE, &format!("sh -c '{MUSTER} {line}'"), &[]).end(2);
        assert!(text.contains(says) && !text.contains("1049"), "{line}: {text}");
    }
    let dumb = Terminal::start_in(&nodes.p, WIDE, "ui", &[("TERM", "dumb")]).end(2);
    assert!(dumb.contains("error[terminal-needed]") && !dumb.contains('\u{1b}'), "{dumb}");
    assert_eq!(targets(&server), Vec::<String>::new());
}

#[test]
fn a_passphrase_is_asked_for_before_the_screen_is_taken() {
    let nodes = Nodes::new();
    let server = node(&nodes, "edge-1", STATE);
    nodes.p.write("phrase", "open sesame\n");
    let issued = nodes.p.muster("pki issue bob --role readonly -q --passphrase-file phrase");
    assert_eq!(issued.code, 0, "{}", issued.err);
    let mut t = ui(&nodes, "--client pki/clients/bob.pem");
    t.until("Passphrase");
    assert!(!t.text().contains("\u{1b}[?1049h"), "{}", t.text());
    t.answer(b"open sesame\n");
    t.until_screen(WIDE, "edge-1  well");
    t.answer(b"q");
    let text = ended(t, 0);
    assert!(!text.contains("open sesame"), "{text}");
    let mut t = ui(&nodes, "--client pki/clients/bob.pem");
    t.until("Passphrase");
    let before = server.seen().len();
    t.answer(b"open says me\n");
    let text = t.end(3);
    assert!(text.contains("the passphrase does not open") && !text.contains("1049"), "{text}");
    assert_eq!(server.seen().len(), before);
}

/// What is left of a text when the sequences that are ours are taken away: none of them sets a title, a colour or anything but
/// where the next letter goes and how heavy it is.
fn colours(text: &str) -> bool {
    text.split("\u{1b}[").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';' && c != '?').unwrap_or(rest.len());
        let (numbers, rest) = rest.split_at(end);
        rest.starts_with('m')
            && numbers.split(';').any(|n| matches!(n.parse(), Ok(30..=38 | 40..=48 | 90..=107)))
    })
}

#[test]
fn colours_only_where_they_are_wanted_and_known() {
    let nodes = Nodes::new();
    let _server = node(&nodes, "edge-1", STATE);
    for (line, env, want) in [
        ("ui", &[][..], true),
        ("ui", &[("NO_COLOR", "1")][..], false),
        ("ui --color never", &[][..], false),
        ("ui", &[("TERM", "vt220")][..], false),
        ("ui", &[("TERM", "xterm-mono")][..], false),
    ] {
        let mut t = Terminal::start_in(&nodes.p, WIDE, line, env);
        t.until_screen(WIDE, "edge-1  well");
        t.answer(b"q");
        let text = ended(t, 0);
        assert_eq!(colours(&text), want, "{line} {env:?}: {text:?}");
    }
}

#[test]
fn bg10_a_hostile_node_writes_nothing_to_the_terminal_but_letters() {
    let nodes = Nodes::new();
    let evil = r"x\u001b]0;owned\u0007\u001b[2J\u009b31m\r\n\u202e日本";
    let state = format!(
        r#"{{"hostname":"{evil}","bootstrapped":true,"role":"{evil}","cluster":"{evil}","health":{{"verdict":"{evil}"}},"management":{{"claimedBy":"{evil}"}}}}"#
    );
    let services = format!(
        r#"{{"services":[{{"name":"{evil}","purpose":"{evil}","restartable":true,"active":"{evil}","sub":"{evil}"}}]}}"#
    );
    let line = record(evil).replace("kubelet.service", evil);
    let length = line.split_once("\r\n").unwrap().1.len() - 2;
    let line = format!("{length:x}\r\n{}", line.split_once("\r\n").unwrap().1);
    let rest = table(&[("GET /v1/node", 200, &state), ("GET /v1/services", 200, &services)]);
    let fault = format!(r#"{{"error":"{evil}","reason":"{evil}"}}"#);
    let _server = nodes.node(
        "edge-1",
        Box::new(move |seen| match seen.line.as_str() {
            l if l.contains("/v1/logs?") => {
                let head = "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n";
                Reply { bytes: [head, &line].concat().into_bytes(), close: false }
            }
            l if l.contains("/v1/audit") => reply(409, "", fault.as_bytes()),
            _ => rest(seen),
        }),
    );
    let mut t = ui(&nodes, "");
    t.until_screen(WIDE, "well");
    for (keys, shows) in [
        ("\r", "hostname    x\\u{1b}]0;owned"),
        ("2", "x\\u{1b}"),
        ("3", "x\\u{1b}]0;owned"),
        ("4", "error ["),
    ] {
        t.answer(keys.as_bytes());
        t.until_screen(WIDE, shows);
    }
    t.answer(b"q");
    let text = ended(t, 0);
    let screen = text.split("END=").next().unwrap();
    for bad in ["\u{1b}]", "\u{7}", "\u{9b}", "\u{202e}"] {
        assert!(!screen.contains(bad), "{bad:?}: {screen:?}");
    }
}

/// A thread that panics while the terminal is ours. In a process of its own, on a terminal of its own.
#[test]
fn the_terminal_is_given_back_by_a_panic() {
    const HERE: &str = "MUSTER_TEST_PANICS_HERE";
    if std::env::var_os(HERE).is_some() {
        let mut screen = muster::ui::screen::Screen::take().unwrap();
        screen.draw(|_| {}).unwrap();
        std::thread::spawn(|| panic!("of a thread")).join().unwrap_err();
        panic!("of ours");
    }
    let nodes = crate::run::Place::new();
    let this = std::env::current_exe().unwrap();
    let line = format!("{} --exact ui::the_terminal_is_given_back_by_a_panic --nocapture", this.display());
    let text = ended(Terminal::start_shell(&nodes, WIDE, &line, &[(HERE, "1")]), 101);
    let (before, after) = text.split_once("\u{1b}[?1049l").unwrap();
    assert!(!before.contains("of a thread"), "it is said where it can be read: {text}");
    assert!(after.contains("of a thread") && after.contains("of ours"), "{text}");
}
