//! Nodes that mean harm: whatever they answer, the screen has no control character in it, and stays a screen.

use super::*;
use crate::ui::model::Tab;
use muster_api::node::{ResetState, RevocationList};
use proptest::prelude::*;
use ratatui::buffer::Buffer;

const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\n\u{202e}\u{200d}\u{feff}日本\u{301}\u{301}❤\u{fe0f}👨\u{200d}👩\u{0}";

fn evil(text: &str) -> Node {
    let t = || Some(text.to_owned());
    let image = || Some(Image { image: t(), digest: t(), version: t() });
    Node {
        hostname: t(),
        machine_id: t(),
        bootstrapped: true,
        role: t(),
        cluster: t(),
        endpoint: t(),
        os: Os { name: t(), kernel: t(), booted: image(), staged: image(), rollback: image() },
        kubernetes: Kubernetes { version: t(), service: t(), active: false },
        health: NodeHealth {
            greenboot: t(),
            verdict: t(),
            by: t(),
            uptime_seconds: Some(u64::MAX),
            boot_id: t(),
        },
        management: Management {
            claimed_by: t(),
            waits_for: t(),
            operator_ca: t(),
            revocation_list: Some(RevocationList {
                number: t().unwrap_or_default(),
                next_update: t(),
                ..RevocationList::default()
            }),
            ..Management::default()
        },
        reset: Some(ResetState { phase: text.to_owned(), error: t() }),
    }
}

/// Everything that a node can say, in every view, at this size.
fn screens(text: &str, size: (u16, u16)) -> Vec<Buffer> {
    let mut b = Bench::new(&["edge-1", "edge-2"], 16, size);
    let mut out = Vec::new();
    let mut draw = |b: &Bench| {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| view(&b.model, frame)).unwrap();
        out.push(terminal.backend().buffer().clone());
    };
    let fault = || Fault::new(Own::NodeRefused, text);
    b.event(Event::Tick);
    b.state(0, evil(text));
    b.event(Event::State(1, Box::new(Err(fault()))));
    draw(&b);
    b.keys("<enter>");
    draw(&b);
    b.keys("B");
    b.event(Event::Looked(b.view_number(), Box::new(Ok(evil(text)))));
    draw(&b);
    b.keys("x<enter>");
    draw(&b);
    b.keys("<enter>2");
    let mut bad = service(text, text, true);
    (bad.purpose, bad.sub, bad.since) = (text.to_owned(), text.to_owned(), Some(text.to_owned()));
    b.event(Event::Services(b.view_number(), Ok(vec![bad])));
    draw(&b);
    b.keys("R");
    draw(&b);
    b.keys("y");
    draw(&b);
    b.event(Event::Done(0, Ok(text.to_owned())));
    draw(&b);
    b.keys("<enter>");
    assert_eq!(b.model.view.as_ref().map(|v| v.tab), Some(Tab::Journal));
    let record = Record { time: text.into(), unit: Some(text.into()), lost: Some(u64::MAX), ..*record(text) };
    b.event(Event::Record(b.view_number(), Box::new(record)));
    draw(&b);
    b.keys("w");
    draw(&b);
    b.event(Event::Ended(b.view_number(), Err(fault())));
    draw(&b);
    b.keys("4");
    b.event(Event::Audit(b.view_number(), Err(fault())));
    draw(&b);
    out
}

/// Each cell is empty, or one letter that a terminal writes and nothing else; and what is wide is not at the edge.
fn is_harmless(buffer: &Buffer) -> Result<(), String> {
    for (n, cell) in buffer.content().iter().enumerate() {
        let symbol = cell.symbol();
        let bad = symbol.chars().any(|c| {
            c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
        });
        let wide = ratatui::text::Span::raw(symbol).width();
        let at_edge = n % usize::from(buffer.area.width) + wide > usize::from(buffer.area.width);
        if bad || at_edge || symbol.chars().count() > 5 {
            return Err(format!("cell {n}: {symbol:?}"));
        }
    }
    Ok(())
}

#[test]
fn nothing_that_a_node_says_moves_the_cursor_or_the_columns() {
    for size in [(80, 24), (120, 40), (40, 10), (20, 5), (1, 1), (3, 2)] {
        for text in [EVIL, &EVIL.repeat(400), "", "\u{301}\u{301}", &"日".repeat(500)] {
            for buffer in screens(text, size) {
                is_harmless(&buffer).unwrap();
            }
        }
    }
    // It is not thrown away: whoever looks sees that something was there.
    let all = screens(EVIL, (200, 60)).iter().map(|b| format!("{b:?}")).collect::<String>();
    assert!(all.contains("u{1b}]0;owned"), "{all}");
}

#[test]
fn columns_stand_where_they_should_whatever_is_before_them() {
    let mut b = Bench::new(&["edge-1", "edge-2", "edge-3"], 16, (120, 24));
    b.event(Event::Tick);
    b.state(0, well());
    b.state(1, Node { role: Some("日本語日本語".into()), ..well() });
    b.state(2, Node { role: Some("e\u{301}\u{301}👍🏽".into()), ..well() });
    let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
    terminal.draw(|frame| view(&b.model, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let at = |row: u16, what: &str| {
        (0..120).find(|x| {
            (0..)
                .zip(what.chars())
                .all(|(n, c)| buffer.cell((x + n, row)).is_some_and(|cell| cell.symbol() == c.to_string()))
        })
    };
    for what in ["pairing-code", "passed", "3d4h"] {
        let first = at(2, what);
        assert!(first.is_some() && first == at(3, what) && first == at(4, what), "{what}: {}", b.screen());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_text_and_no_size_breaks_a_screen(text in "(?s).{0,300}", columns in 1u16..130, rows in 1u16..45) {
        for buffer in screens(&text, (columns, rows)) {
            prop_assert_eq!(is_harmless(&buffer), Ok(()));
        }
    }

    /// Keys that nobody thought of: no panic, no more nodes asked than was said, and nothing done to a node without an answer to a question.
    #[test]
    fn no_keys_break_it(keys in proptest::collection::vec(0usize..24, 0..80)) {
        const ALL: [&str; 24] = ["j", "k", "<enter>", "<esc>", "<tab>", "1", "2", "3", "4", "/", "x", "R", "B", "C", "?",
            "<pgup>", "<end>", "<home>", "w", " ", "a", "r", "<back>", "<up>"];
        let mut b = Bench::new(&["a", "b", "c"], 2, (60, 12));
        b.event(Event::Tick);
        b.state(0, well());
        for key in keys {
            b.keys(ALL[key]);
            b.event(Event::Record(b.view_number(), record("x")));
            b.event(Event::Services(b.view_number(), Ok(vec![service("a.service", "active", true)])));
            b.event(Event::Looked(b.view_number(), Box::new(Ok(well()))));
            let _ = b.screen();
            prop_assert!(b.model.rows.iter().filter(|r| r.asked).count() <= 2);
        }
        prop_assert!(!b.done.iter().any(|e| matches!(e, Effect::Do(..))));
    }
}
