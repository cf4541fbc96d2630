//! What changes a node: what is asked, what counts as an answer, and what is then done.

use super::*;
use crate::commands::node::action::Action;
use crate::ui::model::Deed;

fn done(b: &Bench) -> Vec<&Effect> {
    b.done.iter().filter(|e| matches!(e, Effect::Do(..))).collect()
}

fn asked_for_a_name(keys: &str) -> Bench {
    let mut b = Bench::new(&["edge-1"], 16, (120, 24));
    b.event(Event::Tick);
    b.state(0, well());
    let effects = b.keys(keys);
    assert_eq!(effects, [Effect::Look(0, b.view_number())]);
    b
}

#[test]
fn what_ends_something_is_shown_fresh_and_wants_the_nodes_own_name() {
    for (key, action, means) in [
        ("B", Action::Reboot, "this reboots, and what runs there stops"),
        ("S", Action::Shutdown, "this powers off, and somebody must be there to switch it on again"),
        ("D", Action::Drain, "this moves the pods off"),
    ] {
        let mut b = asked_for_a_name(key);
        assert!(b.screen().contains("asking edge-1 what it is"), "{}", b.screen());
        // Its own name, which the inventory does not decide.
        let node = Node { hostname: Some("rack-7".into()), ..well() };
        let view = b.view_number();
        b.event(Event::Looked(view, Box::new(Ok(node))));
        let screen = b.screen();
        for part in [
            means,
            "edge-1 at 192.0.2.7:7443, calls itself rack-7, worker of the cluster lab, up 3d4h",
            &format!("Type `rack-7` to {}:", action.word()),
        ] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        // `y` is what one types to a question; here it is text.
        b.keys("y<enter>");
        assert!(b.screen().contains("error [name-differs]"), "{}", b.screen());
        assert_eq!(done(&b), Vec::<&Effect>::new());
        b.keys("<esc>");
        b.keys(key);
        let view = b.view_number();
        b.event(Event::Looked(view, Box::new(Ok(Node { hostname: Some("rack-7".into()), ..well() }))));
        b.keys("edge-1<enter>");
        assert!(b.screen().contains("error [name-differs]"), "{}", b.screen());
        assert_eq!(done(&b), Vec::<&Effect>::new());
        b.keys("<enter>");
        b.keys(key);
        let view = b.view_number();
        b.event(Event::Looked(view, Box::new(Ok(Node { hostname: Some("rack-7".into()), ..well() }))));
        b.keys("rack-8<back>7<enter>");
        assert_eq!(done(&b), [&Effect::Do(0, Deed::Act(action))], "{}", b.screen());
    }
}

#[test]
fn nothing_typed_and_esc_are_a_no() {
    for (keys, says) in [("<enter>", "error [declined]"), ("edge-1<esc>", "nothing was done")] {
        let mut b = asked_for_a_name("B");
        let view = b.view_number();
        b.event(Event::Looked(view, Box::new(Ok(well()))));
        b.keys(keys);
        assert!(b.screen().contains(says), "{keys}: {}", b.screen());
        assert_eq!(done(&b), Vec::<&Effect>::new());
    }
}

#[test]
fn a_node_that_does_not_say_what_it_is_is_not_ended() {
    let mut b = asked_for_a_name("B");
    let view = b.view_number();
    b.event(Event::Looked(view, Box::new(Err(unreachable("edge-1")))));
    assert!(b.screen().contains("error [node-unreachable]"), "{}", b.screen());
    b.keys("edge-1<enter>");
    assert_eq!(done(&b), Vec::<&Effect>::new());
}

#[test]
fn what_was_called_off_does_not_come_back_and_an_old_answer_opens_nothing() {
    let mut b = asked_for_a_name("B");
    let old = b.view_number();
    b.keys("<esc>");
    b.event(Event::Looked(old, Box::new(Ok(well()))));
    assert!(b.model.over.is_none());
    b.keys("S");
    b.event(Event::Looked(old, Box::new(Ok(well()))));
    assert!(b.screen().contains("asking edge-1"), "the answer to another question: {}", b.screen());
}

#[test]
fn a_change_wants_a_yes_and_only_one_is_under_way() {
    let mut b = Bench::new(&["edge-1"], 16, (80, 24));
    b.event(Event::Tick);
    for no in ["n", "<enter>", "<esc>", "q"] {
        b.keys("C");
        assert!(b.screen().contains("cordon edge-1?"), "{}", b.screen());
        b.keys(no);
        assert!(b.screen().contains("nothing was done"), "{no}: {}", b.screen());
    }
    assert_eq!(done(&b), Vec::<&Effect>::new());
    b.keys("Cy");
    assert_eq!(done(&b), [&Effect::Do(0, Deed::Act(Action::Cordon))]);
    // Until it is answered, nothing else is begun, and `q` does not leave it behind.
    b.keys("UyB");
    assert!(b.screen().contains("one thing at a time; under way: cordon edge-1"), "{}", b.screen());
    assert!(!b.keys("q").contains(&Effect::Quit { interrupted: false }));
    assert!(b.screen().contains("waiting for the answer to: cordon edge-1"), "{}", b.screen());
    b.event(Event::Done(0, Err(unreachable("edge-1"))));
    assert!(b.screen().contains("error [node-unreachable]"), "{}", b.screen());
    assert_eq!(done(&b).len(), 1);
    b.keys("<esc>Uy");
    b.event(Event::Done(0, Ok("edge-1: uncordoned".into())));
    assert!(b.screen().contains("edge-1: uncordoned"), "{}", b.screen());
    assert_eq!(b.keys("q").last(), Some(&Effect::Quit { interrupted: false }));
}

#[test]
fn pasted_text_presses_no_keys() {
    let mut b = Bench::new(&["edge-1"], 16, (80, 24));
    b.event(Event::Tick);
    b.event(Event::Paste("Cyq\nB".into()));
    b.keys("C");
    b.event(Event::Paste("y".into()));
    assert_eq!(done(&b), Vec::<&Effect>::new());
    b.keys("<esc>/");
    b.event(Event::Paste("ed\u{1b}ge\nB".into()));
    assert_eq!(b.model.filter, "edge", "one line, as text");
    assert!(b.model.typing, "and not sent off");
}

#[test]
fn a_service_is_restarted_where_the_node_says_that_it_may_be() {
    let mut b = Bench::new(&["edge-1"], 16, (80, 24));
    b.event(Event::Tick);
    let effects = b.keys("<enter>2");
    let view = b.view_number();
    assert_eq!(effects, [Effect::Services(0, view)]);
    let all =
        vec![service("musterd-core.service", "active", false), service("kubelet.service", "failed", true)];
    b.event(Event::Services(view, Ok(all)));
    b.keys("R");
    assert!(b.screen().contains("musterd-core.service may not be restarted from here"), "{}", b.screen());
    b.keys("jR");
    assert!(b.screen().contains("restart kubelet.service on edge-1?"), "{}", b.screen());
    b.keys("y");
    assert_eq!(done(&b), [&Effect::Do(0, Deed::Restart("kubelet.service".into()))]);
    // What it is now is asked for when it is done.
    let effects = b.event(Event::Done(0, Ok("done".into())));
    assert!(effects.contains(&Effect::Services(0, view)), "{effects:?}");
}
