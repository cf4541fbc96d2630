//! Whom the list asks, and when.

use super::*;
use std::collections::BTreeSet;

fn asked(effects: &[Effect]) -> Vec<usize> {
    effects.iter().filter_map(|e| if let Effect::Ask(n) = e { Some(*n) } else { None }).collect()
}

#[test]
fn no_more_nodes_are_asked_at_once_than_was_said_and_a_dead_one_holds_up_nobody_else() {
    let mut b = Bench::new(&["a", "b", "c", "d"], 2, (80, 24));
    assert_eq!(asked(&b.event(Event::Tick)), [0, 1]);
    assert_eq!(asked(&b.after(1000)), Vec::<usize>::new(), "both places are taken");
    // a never answers; the others take turns in the other place.
    let mut seen = BTreeSet::new();
    let mut turn = 1;
    for _ in 0..12 {
        b.at += 2000;
        let next = asked(&b.state(turn, well()));
        assert!(next.len() <= 1 && !next.contains(&0), "{next:?}");
        let Some(one) = next.first().copied().or_else(|| asked(&b.after(5000)).first().copied()) else {
            panic!("nobody is asked")
        };
        turn = one;
        seen.insert(turn);
    }
    assert_eq!(seen, BTreeSet::from([1, 2, 3]));
    assert!(b.model.rows[0].asked);
    assert_eq!(b.model.rows[0].word().0, "asking");
}

#[test]
fn a_node_that_is_being_asked_is_not_asked_again_and_one_that_is_dead_ever_less_often() {
    let mut b = Bench::new(&["a"], 16, (80, 24));
    b.event(Event::Tick);
    assert_eq!(asked(&b.after(60_000)), Vec::<usize>::new());
    let mut waits = Vec::new();
    b.dead(0);
    for _ in 0..6 {
        let due = b.model.wake().unwrap();
        waits.push((due - b.at) / 1000);
        b.at = due;
        assert_eq!(asked(&b.event(Event::Tick)), [0]);
        b.dead(0);
    }
    assert_eq!(waits, [10, 20, 40, 60, 60, 60]);
    b.at = b.model.wake().unwrap();
    b.event(Event::Tick);
    b.state(0, well());
    assert_eq!(b.model.rows[0].due, b.at + 5000, "one that is back is asked as before");
}

#[test]
fn nothing_wakes_it_but_a_node_that_is_due_and_an_age_that_is_another() {
    let mut b = Bench::new(&["a"], 16, (80, 24));
    b.event(Event::Tick);
    assert_eq!(b.model.wake(), None, "it is being asked, and nothing is known that could become old");
    b.state(0, well());
    assert_eq!(b.model.wake(), Some(5000));
    b.after(5000);
    assert_eq!(b.model.wake(), Some(10_000), "then what is shown is not of now any more");
}

#[test]
fn what_is_not_pinned_is_not_called_again() {
    let nodes = vec![chosen("loose", false)];
    let model = Model::new(nodes, Duration::from_secs(5), 1, (80, 24));
    let mut b = Bench { model, at: 0, done: Vec::new() };
    assert_eq!(asked(&b.event(Event::Tick)), [0]);
    let fault = chosen("loose", false).pinned().unwrap_err();
    b.event(Event::State(0, Box::new(Err(fault))));
    assert_eq!(asked(&b.after(3_600_000)), Vec::<usize>::new());
    assert_eq!(asked(&b.keys("r")), Vec::<usize>::new());
    assert!(b.screen().contains("! loose  node-pin-missing"), "{}", b.screen());
}

#[test]
fn what_a_node_said_last_stays_in_sight_with_its_age_when_it_is_gone() {
    let mut b = Bench::new(&["edge-1"], 16, (120, 24));
    b.event(Event::Tick);
    b.state(0, well());
    b.after(5000);
    b.at += 15_000;
    b.dead(0);
    let screen = b.screen();
    assert!(screen.contains("! edge-1  node-unreachable  worker"), "{screen}");
    assert!(screen.contains("20s\n"), "{screen}");
    assert!(screen.contains("edge: 192.0.2.7:7443 does not answer: no connection within 15 s."), "{screen}");
}

#[test]
fn a_filter_is_typed_kept_and_taken_away() {
    let mut b = Bench::new(&["edge-1", "edge-2", "core-1"], 16, (80, 24));
    b.event(Event::Tick);
    b.state(0, well());
    b.keys("/core");
    assert_eq!(b.model.listed(), [2]);
    assert_eq!(b.model.cursor, 2, "the cursor stands on what is shown");
    // Keys are text while a filter is typed.
    b.keys("q<back><enter>");
    assert_eq!((b.model.listed(), b.model.filter.as_str()), (vec![2], "core"));
    assert!(b.screen().contains("/core: 1 shown"), "{}", b.screen());
    b.keys("<esc>");
    assert_eq!(b.model.listed(), [0, 1, 2]);
    b.keys("/worker<enter>");
    assert_eq!(b.model.listed(), [0], "what a node is can be looked for");
    b.keys("/x<esc>");
    assert_eq!(b.model.listed(), [0, 1, 2]);
    b.keys("/nothing<enter>");
    assert_eq!(b.keys("<enter>"), [], "there is nothing to open");
    assert!(b.model.view.is_none());
    b.keys("B");
    assert!(b.model.over.is_none(), "nor to reboot");
}

#[test]
fn the_cursor_stays_in_the_list() {
    let mut b = Bench::new(&["a", "b", "c"], 16, (80, 24));
    for (keys, want) in [
        ("k", 0),
        ("j", 1),
        ("<down><down><down>", 2),
        ("<up>", 1),
        ("G", 2),
        ("g", 0),
        ("<end>", 2),
        ("<pgup>", 0),
    ] {
        b.keys(keys);
        assert_eq!(b.model.cursor, want, "{keys}");
    }
}

#[test]
fn q_ends_and_ctrl_c_interrupts_whatever_is_open() {
    let quit = Effect::Quit { interrupted: false };
    assert_eq!(Bench::new(&["a"], 1, (80, 24)).keys("jq").last(), Some(&quit));
    for keys in ["", "?", "/", "<enter>", "C", "<enter>3"] {
        let mut b = Bench::new(&["a"], 1, (80, 24));
        b.event(Event::Tick);
        b.keys(keys);
        assert_eq!(b.keys("<ctrl-z>"), [Effect::Suspend], "{keys}");
        assert_eq!(b.keys("<ctrl-c>"), [Effect::Quit { interrupted: true }], "{keys}");
    }
}
