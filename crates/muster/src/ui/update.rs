//! From an event to what is shown and what is to be done. Nothing is done here.

mod over;

use super::keys::Key;
use super::model::{Deed, Effect, Event, Journal, Loaded, Model, Over, Tab, View};
use super::text::tidy;
use crate::commands::node::action::Action;
use muster_api::logs::KERNEL;

/// Most bytes of what is typed.
const MAX_TYPED: usize = 253;

/// Takes an event that came in `at` milliseconds after the beginning.
pub(crate) fn update(model: &mut Model, at: u64, event: Event) -> Vec<Effect> {
    model.at = at;
    let mut effects = match event {
        Event::Key(key) => key_pressed(model, key),
        Event::Paste(text) => {
            paste(model, &text);
            Vec::new()
        }
        Event::Resize(columns, rows) => {
            model.size = (columns, rows);
            Vec::new()
        }
        Event::Tick => Vec::new(),
        Event::State(node, result) => {
            model.told(node, *result);
            Vec::new()
        }
        Event::Services(..) | Event::Audit(..) | Event::Record(..) | Event::Ended(..) => {
            came(model, event);
            Vec::new()
        }
        Event::Looked(view, result) => {
            over::looked(model, view, *result);
            Vec::new()
        }
        Event::Done(node, result) => {
            model.doing = None;
            match result {
                Ok(said) => model.message = Some(tidy(&said)),
                Err(fault) => over::say(model, &fault),
            }
            refresh(model, Some(node));
            Vec::new()
        }
    };
    effects.extend(model.ask());
    effects.extend(services(model));
    effects
}

/// What a view waits for. What is for another view is too late.
fn came(model: &mut Model, event: Event) {
    let (at, every, number) = (model.at, model.every, model.number);
    let Some(view) = model.view.as_mut() else { return };
    match event {
        Event::Services(of, result) if of == number => {
            view.services_asked = false;
            view.services_due = at.saturating_add(every);
            view.services = Loaded::of(result);
        }
        Event::Audit(of, result) if of == number => {
            view.audit = Loaded::of(result);
            if let (Tab::Audit, Loaded::There(lines)) = (view.tab, &view.audit) {
                view.at = lines.len().saturating_sub(1);
            }
        }
        Event::Record(of, record) if of == number => view.journal.take(&record),
        Event::Ended(of, result) if of == number => view.journal.end = Some(result),
        _ => {}
    }
}

/// The services that are looked at are asked for again and again, as the list is.
fn services(model: &mut Model) -> Option<Effect> {
    let (at, number) = (model.at, model.number);
    let view = model.view.as_mut().filter(|v| v.tab == Tab::Services)?;
    if view.services_asked || view.services_due > at {
        return None;
    }
    view.services_asked = true;
    Some(Effect::Services(view.node, number))
}

fn refresh(model: &mut Model, node: Option<usize>) {
    let at = model.at;
    let pinned = (0..).zip(&mut model.rows).filter(|(_, r)| r.chosen.pin.is_some());
    for (_, row) in pinned.filter(|(n, _)| node.is_none_or(|node| node == *n)) {
        row.due = at;
    }
    if let Some(view) = &mut model.view {
        view.services_due = at;
    }
}

fn key_pressed(model: &mut Model, key: Key) -> Vec<Effect> {
    match key {
        Key::Ctrl('c') => return vec![Effect::Quit { interrupted: true }],
        Key::Ctrl('z') => return vec![Effect::Suspend],
        _ => model.message = None,
    }
    if model.over.is_some() {
        return over::key(model, key);
    }
    if model.typing {
        typed(model, key);
        return Vec::new();
    }
    match key {
        Key::Char('q') => return quit(model),
        Key::Char('?') => model.over = Some(Over::Help(0)),
        Key::Char('/') => model.typing = filter(model).is_some(),
        Key::Char('r') => return again(model),
        Key::Char('B') => return look(model, Action::Reboot),
        Key::Char('S') => return look(model, Action::Shutdown),
        Key::Char('D') => return look(model, Action::Drain),
        Key::Char('C') => ask(model, Deed::Act(Action::Cordon)),
        Key::Char('U') => ask(model, Deed::Act(Action::Uncordon)),
        _ if model.view.is_some() => return in_view(model, key),
        _ => return in_list(model, key),
    }
    Vec::new()
}

fn quit(model: &mut Model) -> Vec<Effect> {
    match &model.doing {
        None => vec![Effect::Quit { interrupted: false }],
        Some(doing) => {
            model.message = Some(format!("waiting for the answer to: {doing}; Ctrl-C leaves without it"));
            Vec::new()
        }
    }
}

/// The filter of what is looked at.
fn filter(model: &mut Model) -> Option<&mut String> {
    match &mut model.view {
        None => Some(&mut model.filter),
        Some(view) if view.tab == Tab::Journal => Some(&mut view.journal.filter),
        Some(_) => None,
    }
}

fn typed(model: &mut Model, key: Key) {
    match key {
        Key::Enter => model.typing = false,
        Key::Esc => {
            model.typing = false;
            filter(model).map(String::clear).unwrap_or_default();
        }
        _ => {
            let Some(text) = filter(model) else { return };
            edit(text, key);
        }
    }
    into_list(model);
}

/// A line that is typed.
fn edit(text: &mut String, key: Key) {
    match key {
        Key::Char(c) if text.len() < MAX_TYPED => text.push(c),
        Key::Backspace => {
            text.pop();
        }
        Key::Ctrl('u') => text.clear(),
        _ => {}
    }
}

/// Pasted text is text where something is typed, and nothing elsewhere: it presses no keys.
fn paste(model: &mut Model, pasted: &str) {
    let line: String =
        pasted.split(['\n', '\r']).next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    let text = match &mut model.over {
        Some(Over::Typed { typed, .. }) => Some(typed),
        Some(_) => None,
        None if model.typing => filter(model),
        None => None,
    };
    if let Some(text) = text {
        line.chars().for_each(|c| edit(text, Key::Char(c)));
        into_list(model);
    }
}

/// The cursor stands on a row that is shown.
fn into_list(model: &mut Model) {
    let listed = model.listed();
    if !listed.contains(&model.cursor)
        && let Some(first) = listed.first()
    {
        model.cursor = *first;
    }
}

fn again(model: &mut Model) -> Vec<Effect> {
    let node = model.view.as_ref().map(|v| v.node);
    refresh(model, node);
    match model.view.as_ref().map(|v| v.tab) {
        Some(Tab::Journal) => follow(model, None),
        Some(Tab::Audit) => audit(model),
        _ => Vec::new(),
    }
}

fn in_list(model: &mut Model, key: Key) -> Vec<Effect> {
    let listed = model.listed();
    let place = listed.iter().position(|n| *n == model.cursor).unwrap_or(0);
    match key {
        Key::Enter | Key::Right | Key::Char('l') => return open(model),
        Key::Esc => model.filter.clear(),
        _ => {
            let place = moved(place, listed.len(), page(model), key);
            if let Some(n) = listed.get(place) {
                model.cursor = *n;
            }
        }
    }
    Vec::new()
}

/// Lines of what is scrolled that are on the screen; the others are titles, what is said and the keys.
fn page(model: &Model) -> usize {
    let around = match model.view.as_ref().map(|v| v.tab) {
        None | Some(Tab::Services | Tab::Journal) => 4,
        Some(Tab::Status | Tab::Audit) => 3,
    };
    usize::from(model.size.1.saturating_sub(around)).max(1)
}

/// Where a key moves to, in a list of so many.
pub(crate) fn moved(place: usize, len: usize, page: usize, key: Key) -> usize {
    let to = match key {
        Key::Up | Key::Char('k') => place.saturating_sub(1),
        Key::Down | Key::Char('j') => place.saturating_add(1),
        Key::PageUp | Key::Ctrl('b') => place.saturating_sub(page),
        Key::PageDown | Key::Ctrl('f') => place.saturating_add(page),
        Key::Home | Key::Char('g') => 0,
        Key::End | Key::Char('G') => usize::MAX,
        _ => place,
    };
    to.min(len.saturating_sub(1))
}

fn open(model: &mut Model) -> Vec<Effect> {
    let Some(node) = model.subject() else { return Vec::new() };
    model.number += 1;
    model.view = Some(View {
        node,
        tab: Tab::Status,
        services: Loaded::Asking,
        services_due: model.at,
        services_asked: false,
        audit: Loaded::Asking,
        journal: Journal::default(),
        at: 0,
    });
    Vec::new()
}

/// Opens a part of a node, with what it needs; leaves the one before, and its journal with it.
fn tab(model: &mut Model, tab: Tab) -> Vec<Effect> {
    let Some(view) = model.view.as_mut() else { return Vec::new() };
    if view.tab == tab {
        return Vec::new();
    }
    let left = view.tab;
    (view.tab, view.at) = (tab, 0);
    let mut effects = match left {
        Tab::Journal => vec![Effect::Unfollow],
        _ => Vec::new(),
    };
    match tab {
        Tab::Journal => effects.extend(follow(model, None)),
        Tab::Audit => effects.extend(audit(model)),
        Tab::Services => {
            view.services_due = model.at;
            view.services_asked = false;
            model.number += 1;
        }
        Tab::Status => {}
    }
    effects
}

/// Follows a journal from its newest lines on: that of the service that is named, else the one that was looked at last.
fn follow(model: &mut Model, unit: Option<Option<String>>) -> Vec<Effect> {
    model.number += 1;
    let Some(view) = model.view.as_mut() else { return Vec::new() };
    view.tab = Tab::Journal;
    let unit = unit.unwrap_or_else(|| view.journal.unit.clone());
    let before = core::mem::replace(&mut view.journal, Journal::of(unit.clone()));
    (view.journal.filter, view.journal.wrap) = (before.filter, before.wrap);
    vec![Effect::Follow { node: view.node, unit, view: model.number }]
}

fn audit(model: &mut Model) -> Vec<Effect> {
    model.number += 1;
    let Some(view) = model.view.as_mut() else { return Vec::new() };
    view.audit = Loaded::Asking;
    vec![Effect::Audit(view.node, model.number)]
}

fn in_view(model: &mut Model, key: Key) -> Vec<Effect> {
    let Some(view) = model.view.as_mut() else { return Vec::new() };
    let place = Tab::ALL.iter().position(|t| *t == view.tab).unwrap_or(0);
    let beside = |by: usize| Tab::ALL.get((place + by) % Tab::ALL.len()).copied();
    let wanted = match key {
        Key::Tab | Key::Right | Key::Char('l') => beside(1),
        Key::BackTab | Key::Left | Key::Char('h') => beside(Tab::ALL.len() - 1),
        Key::Char(c @ '1'..='4') => {
            c.to_digit(10).and_then(|n| Tab::ALL.get((n as usize).wrapping_sub(1))).copied()
        }
        _ => None,
    };
    if let Some(wanted) = wanted {
        return tab(model, wanted);
    }
    match (view.tab, key) {
        (Tab::Journal, Key::Esc) if !view.journal.filter.is_empty() => view.journal.filter.clear(),
        (_, Key::Esc) => {
            let followed = view.tab == Tab::Journal;
            model.view = None;
            // What still comes is for nobody.
            model.number += 1;
            return if followed { vec![Effect::Unfollow] } else { Vec::new() };
        }
        (Tab::Services, Key::Enter | Key::Char('R')) => return on_service(model, key),
        (Tab::Audit, Key::Enter) => {
            if let Loaded::There(lines) = &view.audit
                && let Some(line) = lines.get(view.at)
            {
                model.over = Some(Over::Said { title: "record".to_owned(), text: line.trim().to_owned() });
            }
        }
        (Tab::Journal, Key::Char('a')) => return follow(model, Some(None)),
        (Tab::Journal, Key::Char('K')) => return follow(model, Some(Some(KERNEL.to_owned()))),
        (Tab::Journal, _) => scroll(model, key),
        _ => {
            let page = page(model);
            let len = length(model, page);
            if let Some(view) = model.view.as_mut() {
                view.at = moved(view.at, len, page, key);
            }
        }
    }
    Vec::new()
}

/// How far the open part can be scrolled, or its cursor be moved.
fn length(model: &Model, page: usize) -> usize {
    let Some(view) = &model.view else { return 0 };
    let width = usize::from(model.size.0);
    match view.tab {
        Tab::Services => match &view.services {
            Loaded::There(all) => all.len(),
            _ => 0,
        },
        Tab::Audit => match &view.audit {
            Loaded::There(lines) => lines.len(),
            _ => 0,
        },
        Tab::Status => super::view::status(model, view, width).len().saturating_sub(page) + 1,
        Tab::Journal => 0,
    }
}

fn on_service(model: &mut Model, key: Key) -> Vec<Effect> {
    let Some(view) = model.view.as_ref() else { return Vec::new() };
    let Loaded::There(all) = &view.services else { return Vec::new() };
    let Some(service) = all.get(view.at) else { return Vec::new() };
    let unit = service.name.clone();
    if key == Key::Enter {
        return follow(model, Some(Some(unit)));
    }
    if service.restartable {
        ask(model, Deed::Restart(unit));
    } else {
        model.message = Some(format!("{} may not be restarted from here", tidy(&unit)));
    }
    Vec::new()
}

/// Moves in a journal. At its end it is followed again.
fn scroll(model: &mut Model, key: Key) {
    let page = page(model);
    let width = usize::from(model.size.0);
    let Some(view) = model.view.as_mut() else { return };
    let journal = &mut view.journal;
    let (numbers, at, first) = journal.place(page, width);
    let last = numbers.len().saturating_sub(1);
    match key {
        Key::Char('w') => journal.wrap = !journal.wrap,
        Key::Char(' ') if journal.held.is_some() => journal.held = None,
        Key::Char(' ') => journal.held = numbers.get(last).copied(),
        _ => {
            let to = moved(at, numbers.len(), page, key).max(first);
            if to == at {
                return;
            }
            journal.held = if to >= last { None } else { numbers.get(to).copied() };
        }
    }
}

fn look(model: &mut Model, action: Action) -> Vec<Effect> {
    let Some(node) = free(model) else { return Vec::new() };
    model.number += u64::from(model.view.is_none());
    let view = model.number;
    model.over = Some(Over::Looking { node, action, view });
    vec![Effect::Look(node, view)]
}

fn ask(model: &mut Model, deed: Deed) {
    if let Some(node) = free(model) {
        model.over = Some(Over::Ask { node, deed });
    }
}

/// The node that something is to be done to; none while something is under way.
fn free(model: &mut Model) -> Option<usize> {
    if let Some(doing) = &model.doing {
        model.message = Some(format!("one thing at a time; under way: {doing}"));
        return None;
    }
    model.subject()
}
