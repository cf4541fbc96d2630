//! Followed journals.

use super::*;
use crate::ui::model::{MAX_BYTES, MAX_LINES};

fn followed(size: (u16, u16)) -> Bench {
    let mut b = Bench::new(&["edge-1"], 16, size);
    b.event(Event::Tick);
    b.keys("<enter>");
    let effects = b.keys("3");
    let view = b.view_number();
    assert_eq!(effects, [Effect::Follow { node: 0, unit: None, view }]);
    b
}

impl Bench {
    fn lines(&mut self, from: usize, n: usize) {
        for i in from..from + n {
            let view = self.view_number();
            self.event(Event::Record(view, record(&format!("line {i}."))));
        }
    }

    /// The first and the last line of the journal that are on the screen.
    fn seen(&self) -> (String, String) {
        let screen = self.screen();
        let words: Vec<String> = screen
            .split('\n')
            .filter_map(|l| Some(l.split(" line ").nth(1)?.split('.').next()?.to_owned()))
            .collect();
        (words.first().cloned().unwrap_or_default(), words.last().cloned().unwrap_or_default())
    }
}

fn pair(a: usize, b: usize) -> (String, String) {
    (a.to_string(), b.to_string())
}

#[test]
fn it_is_followed_held_and_followed_again() {
    let mut b = followed((80, 14));
    b.lines(0, 30);
    assert_eq!(b.seen(), pair(20, 29));
    b.keys(" ");
    b.lines(30, 5);
    assert_eq!(b.seen(), pair(20, 29), "{}", b.screen());
    assert!(b.screen().contains("held, 5 newer"), "{}", b.screen());
    b.keys("kk");
    assert_eq!(b.seen(), pair(18, 27));
    b.keys("<pgup><pgup><pgup>");
    assert_eq!(b.seen(), pair(0, 9), "the first page is full");
    b.keys("k");
    assert_eq!(b.seen(), pair(0, 9));
    b.keys("j");
    assert_eq!(b.seen(), pair(1, 10), "and the next key moves");
    b.keys("G");
    b.lines(35, 1);
    assert_eq!(b.seen(), pair(26, 35));
    assert!(b.screen().contains("all services: following"), "{}", b.screen());
    b.keys("g ");
    assert_eq!(b.seen(), pair(26, 35), "Space goes on");
}

#[test]
fn a_filter_shows_what_has_it_and_keeps_the_rest() {
    let mut b = followed((80, 14));
    b.lines(0, 30);
    b.keys("/LINE 2<enter>");
    assert_eq!(b.seen(), pair(20, 29), "2 and 20 to 29, and a page of ten");
    b.keys("k");
    assert_eq!(b.seen(), pair(2, 28));
    b.keys("<esc>");
    b.keys("G");
    assert_eq!(b.seen(), pair(20, 29));
    assert!(b.model.view.is_some(), "the filter is taken away before the view");
}

#[test]
fn what_is_kept_is_bounded_by_lines_and_by_bytes() {
    let mut b = followed((80, 14));
    b.lines(0, MAX_LINES + 100);
    let journal = &b.model.view.as_ref().unwrap().journal;
    assert_eq!((journal.lines.len(), journal.gone), (MAX_LINES, 100));
    assert!(b.screen().contains("100 older lines are no longer here"), "{}", b.screen());
    for _ in 0..20 {
        // As large as a record may be, and longer.
        let view = b.view_number();
        b.event(Event::Record(view, record(&"x\n".repeat(300_000))));
        b.event(Event::Record(view, record(&"y".repeat(1 << 20))));
    }
    let journal = &b.model.view.as_ref().unwrap().journal;
    let bytes: usize = journal.lines.iter().map(|l| l.text.len()).sum();
    assert!(bytes <= MAX_BYTES && journal.lines.len() <= MAX_LINES, "{bytes}");
    assert!(b.screen().contains("the message is longer than is shown"), "{}", b.screen());
}

#[test]
fn what_was_let_go_while_it_is_held_moves_the_screen_to_what_there_is() {
    let mut b = followed((80, 14));
    b.lines(0, 30);
    b.keys("g");
    b.lines(30, MAX_LINES);
    assert_eq!(b.seen(), pair(30, 39), "the oldest page that is left: {}", b.screen());
    b.keys("j");
    assert_eq!(b.seen(), pair(31, 40), "{}", b.screen());
}

#[test]
fn it_ends_with_its_view_and_what_still_comes_is_for_nobody() {
    for keys in ["<esc>", "1", "<tab>"] {
        let mut b = followed((80, 14));
        let old = b.view_number();
        let effects = b.keys(keys);
        assert!(effects.contains(&Effect::Unfollow), "{keys}: {effects:?}");
        b.event(Event::Record(old, record("late")));
        let late = b.model.view.as_ref().map_or(0, |v| v.journal.lines.len());
        assert!(late <= 1, "{keys}");
        assert!(!b.screen().contains("late"), "{keys}");
    }
    // Of another service: the old one's lines are not taken for the new one's.
    let mut b = followed((80, 14));
    let old = b.view_number();
    b.keys("2");
    let view = b.view_number();
    b.event(Event::Services(view, Ok(vec![service("kubelet.service", "active", true)])));
    let effects = b.keys("<enter>");
    let unit = Some("kubelet.service".to_owned());
    assert_eq!(effects, [Effect::Follow { node: 0, unit, view: b.view_number() }]);
    b.event(Event::Record(old, record("late")));
    assert!(!b.screen().contains("late"));
    assert!(b.screen().contains("kubelet.service: following"), "{}", b.screen());
    let effects = b.keys("K");
    assert!(
        matches!(effects.as_slice(), [Effect::Follow { unit: Some(k), .. }] if k == "kernel"),
        "{effects:?}"
    );
    let effects = b.keys("a");
    assert!(matches!(effects.as_slice(), [Effect::Follow { unit: None, .. }]), "{effects:?}");
}

#[test]
fn the_end_is_said_and_it_can_be_followed_again() {
    let mut b = followed((80, 14));
    b.lines(0, 3);
    let view = b.view_number();
    b.event(Event::Ended(view, Err(unreachable("edge-1"))));
    assert!(b.screen().contains("ended: node-unreachable; r follows it again"), "{}", b.screen());
    assert_eq!(b.seen(), pair(0, 2), "what came stays");
    let effects = b.keys("r");
    assert!(effects.iter().any(|e| matches!(e, Effect::Follow { .. })), "{effects:?}");
    assert!(b.screen().contains("following"), "{}", b.screen());
    b.event(Event::Ended(b.view_number(), Ok(())));
    assert!(b.screen().contains("ended by the node"), "{}", b.screen());
}

#[test]
fn records_that_were_lost_are_said_where_they_are_missing() {
    let mut b = followed((80, 14));
    let view = b.view_number();
    b.event(Event::Record(view, Box::new(Record { lost: Some(7), ..*record("after") })));
    let screen = b.screen();
    let (lost, after) = (screen.find("7 records were lost here"), screen.find("kubelet: after"));
    assert!(lost.is_some() && lost < after, "{screen}");
}

#[test]
fn long_lines_are_wrapped_when_that_is_wanted() {
    let mut b = followed((40, 10));
    let view = b.view_number();
    b.event(Event::Record(view, record("a message that is longer than forty columns are wide, END")));
    assert!(!b.screen().contains("END"), "{}", b.screen());
    b.keys("w");
    assert!(b.screen().contains("END"), "{}", b.screen());
}
