//! Golden screens, at three sizes.

use super::*;

fn fleet(size: (u16, u16)) -> Bench {
    let mut b = Bench::new(&["edge-1", "edge-2", "edge-3", "core-1"], 16, size);
    b.model.about = "as alice".into();
    b.event(Event::Tick);
    b.state(0, well());
    b.state(2, waiting());
    b.after(5000);
    b.at += 8000;
    b.state(0, well());
    b.event(Event::State(1, Box::new(Err(unreachable("edge-2")))));
    b
}

fn opened(size: (u16, u16), keys: &str) -> Bench {
    let mut b = fleet(size);
    b.keys("<enter>");
    b.keys(keys);
    b
}

#[test]
fn screens_are_golden() {
    for (columns, rows) in [(80, 24), (120, 40), (40, 10)] {
        let size = (columns, rows);
        let mut all = String::new();
        let mut add = |title: &str, b: &Bench| all.push_str(&format!("### {title}\n{}", b.screen()));
        add("list", &fleet(size));
        let mut b = fleet(size);
        b.keys("j");
        add("list, on a node that does not answer", &b);
        add("status", &opened(size, ""));
        let mut b = opened(size, "2");
        let all_services =
            vec![service("kubelet.service", "active", true), service("sshd.service", "failed", false)];
        b.event(Event::Services(b.view_number(), Ok(all_services)));
        add("services", &b);
        let mut b = opened(size, "3");
        for line in ["first", "second of two lines\nunder it", "third"] {
            b.event(Event::Record(b.view_number(), record(line)));
        }
        add("journal", &b);
        let mut b = opened(size, "4");
        let lines = ["     7 2026-11-30T10:00:00Z call allowed  node-state  alice admin".to_owned()];
        b.event(Event::Audit(b.view_number(), Ok(lines.to_vec())));
        add("audit", &b);
        let mut b = fleet(size);
        b.keys("B");
        b.event(Event::Looked(b.view_number(), Box::new(Ok(well()))));
        b.keys("edg");
        add("reboot", &b);
        let mut b = fleet(size);
        b.keys("?");
        add("help", &b);
        insta::assert_snapshot!(format!("screens_{columns}x{rows}"), all);
    }
}

#[test]
fn without_colours_there_are_none_and_everything_bad_still_has_a_mark() {
    let colours = |b: &Bench| {
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
        terminal.draw(|frame| view(&b.model, frame)).unwrap();
        let reset = ratatui::style::Color::Reset;
        terminal.backend().buffer().content().iter().filter(|c| c.fg != reset || c.bg != reset).count()
    };
    let mut b = fleet((120, 24));
    assert_eq!(colours(&b), 0);
    let plain = b.screen();
    for mark in ["! edge-2  node-unreachable", "* edge-3  waits", "  edge-1  well"] {
        assert!(plain.contains(mark), "{mark}: {plain}");
    }
    b.model.colour = true;
    assert!(colours(&b) > 0);
    assert_eq!(b.screen(), plain, "colour is never the only sign");
}
