//! One node: what it is, its services, its journal, its audit record.

use super::table::{self, Cell, Column};
use super::{put, row, style, top};
use crate::commands::node::status::full;
use crate::printer::Tone;
use crate::ui::model::{Journal, Loaded, Model, Tab, View};
use crate::ui::text::{age, fit, tidy, wrap};
use muster_api::services::Service;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

const SERVICES: [Column; 5] = [
    Column { title: "UNIT", least: 14, spare: 0 },
    Column { title: "STATE", least: 8, spare: 0 },
    Column { title: "RESTART", least: 3, spare: 2 },
    Column { title: "SINCE", least: 20, spare: 3 },
    Column { title: "WHAT IT IS FOR", least: 10, spare: 4 },
];

/// What stands before a value.
const LABEL: usize = 12;

pub(super) const fn keys(view: &View) -> &'static str {
    match view.tab {
        Tab::Status => "? help  Tab next part  r ask again  Esc back  ·  B reboot  D drain  C cordon",
        Tab::Services => "? help  Enter journal  R restart  Tab next part  Esc back",
        Tab::Journal => "? help  Space pause  / filter  w wrap  a all  K kernel  G end  Esc back",
        Tab::Audit => "? help  Enter whole record  r ask again  Tab next part  Esc back",
    }
}

pub(super) fn draw(model: &Model, view: &View, frame: &mut Frame<'_>, area: Rect) {
    let strong = style(Some(Tone::Strong), model.colour);
    if let Some(of) = model.rows.get(view.node) {
        let (word, _) = of.word();
        let text = format!("{} {} at {}  {word}", of.mark(), of.chosen.name, of.chosen.endpoint);
        put(frame, row(area, 0), &tidy(&text), strong);
    }
    let name = |t: &Tab| if *t == view.tab { format!("[{}]", t.name()) } else { format!(" {} ", t.name()) };
    put(frame, row(area, 1), &Tab::ALL.iter().map(name).collect::<String>(), strong);
    let body = Rect { y: area.y + 2.min(area.height), height: area.height.saturating_sub(3), ..area };
    match view.tab {
        Tab::Status => {
            let lines = status(model, view, usize::from(body.width));
            lines_from(frame, body, lines.iter().skip(view.at), model.colour);
        }
        Tab::Services => services(model, view, frame, body),
        Tab::Journal => journal(&view.journal, frame, body, model.colour),
        Tab::Audit => audit(model, view, frame, body),
    }
}

fn lines_from<'l>(
    frame: &mut Frame<'_>,
    area: Rect,
    lines: impl Iterator<Item = &'l (String, Option<Tone>)>,
    colour: bool,
) {
    for (n, (text, tone)) in (0..area.height).zip(lines) {
        put(frame, row(area, n), text, style(*tone, colour));
    }
}

/// The lines of the first part: what is wrong, then what `muster node status` shows.
pub(crate) fn status(model: &Model, view: &View, width: usize) -> Vec<(String, Option<Tone>)> {
    let mut out = Vec::new();
    let Some(row) = model.rows.get(view.node) else { return out };
    if let Some(fault) = &row.fault {
        let text = format!("error [{}]: {}", fault.code, tidy(&fault.to_string()));
        out.extend(wrap(&text, width).into_iter().map(|l| (l, Some(Tone::Bad))));
        out.push((String::new(), None));
    }
    let Some((node, at)) = &row.told else {
        if row.fault.is_none() {
            out.push(("it is being asked".to_owned(), None));
        }
        return out;
    };
    let (old, _) = age(model.at.saturating_sub(*at));
    out.push((format!("{:<LABEL$}{old}", "said"), None));
    for (name, value) in full(node) {
        let value = tidy(&value);
        for (n, line) in wrap(&value, width.saturating_sub(LABEL)).into_iter().enumerate() {
            let name = if n == 0 { name } else { "" };
            out.push((format!("{name:<LABEL$}{line}"), None));
        }
    }
    out
}

/// What stands where something is not there.
fn instead<T>(loaded: &Loaded<T>, frame: &mut Frame<'_>, area: Rect, colour: bool) {
    let (text, tone) = match loaded {
        Loaded::Asking => ("the node is being asked".to_owned(), None),
        Loaded::There(_) => return,
        Loaded::Not(fault) => {
            (format!("error [{}]: {}", fault.code, tidy(&fault.to_string())), Some(Tone::Bad))
        }
    };
    let lines: Vec<_> = wrap(&text, usize::from(area.width)).into_iter().map(|l| (l, tone)).collect();
    lines_from(frame, area, lines.iter(), colour);
}

fn services(model: &Model, view: &View, frame: &mut Frame<'_>, area: Rect) {
    let Loaded::There(all) = &view.services else {
        return instead(&view.services, frame, area, model.colour);
    };
    let cells = |s: &Service| -> Vec<Cell> {
        let tone = match s.active.as_str() {
            "active" => Some(Tone::Good),
            "failed" => Some(Tone::Bad),
            _ => None,
        };
        let mark = if tone == Some(Tone::Bad) { "! " } else { "" };
        vec![
            (tidy(&s.name), None),
            (tidy(&format!("{mark}{} ({})", s.active, s.sub)), tone),
            (if s.restartable { "yes" } else { "" }.to_owned(), None),
            (tidy(s.since.as_deref().unwrap_or_default()), None),
            (tidy(&s.purpose), None),
        ]
    };
    let rows: Vec<Vec<Cell>> = all.iter().map(cells).collect();
    table::draw(frame, area, &SERVICES, &rows, Some(view.at.min(rows.len().saturating_sub(1))), model.colour);
}

fn audit(model: &Model, view: &View, frame: &mut Frame<'_>, area: Rect) {
    let Loaded::There(lines) = &view.audit else {
        return instead(&view.audit, frame, area, model.colour);
    };
    let height = usize::from(area.height);
    let at = view.at.min(lines.len().saturating_sub(1));
    let shown = lines.iter().enumerate().skip(top(at, height));
    for (n, (number, line)) in (0..area.height).zip(shown) {
        let base = match number == at {
            true => Style::default().add_modifier(Modifier::REVERSED),
            false => Style::default(),
        };
        put(frame, row(area, n), line, base);
    }
}

/// How a journal stands, in words.
fn heading(journal: &Journal) -> (String, Option<Tone>) {
    let of = journal.unit.as_deref().map_or_else(|| "all services".to_owned(), tidy);
    let newer = journal.held.map(|held| journal.shown().rev().take_while(|l| l.number > held).count());
    let (how, tone) = match (&journal.end, newer) {
        (Some(Err(fault)), _) => (format!("ended: {}; r follows it again", fault.code), Some(Tone::Bad)),
        (Some(Ok(())), _) => ("ended by the node; r follows it again".to_owned(), Some(Tone::Warn)),
        (None, Some(newer)) => (format!("held, {newer} newer; Space goes on"), Some(Tone::Warn)),
        (None, None) => ("following".to_owned(), Some(Tone::Strong)),
    };
    let mut text = format!("{of}: {how}");
    if !journal.filter.is_empty() {
        text += &format!("  /{}", tidy(&journal.filter));
    }
    if journal.gone > 0 {
        text += &format!("  ({} older lines are no longer here)", journal.gone);
    }
    (text, tone)
}

fn journal(journal: &Journal, frame: &mut Frame<'_>, area: Rect, colour: bool) {
    let (text, tone) = heading(journal);
    put(frame, row(area, 0), &text, style(tone, colour));
    let body = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area };
    let (height, width) = (usize::from(body.height), usize::from(body.width));
    let mut rows: Vec<(String, Option<Tone>)> = Vec::new();
    // From the bottom up, until the screen is full.
    let bottom =
        journal.held.map(|_| journal.place(height, width)).and_then(|(all, at, _)| all.get(at).copied());
    for line in journal.shown().rev().skip_while(|l| bottom.is_some_and(|bottom| l.number > bottom)) {
        if rows.len() >= height {
            break;
        }
        match journal.wrap {
            true => rows.extend(wrap(&line.text, width).into_iter().rev().map(|l| (l, line.tone))),
            false => rows.push((fit(&line.text, width), line.tone)),
        }
    }
    rows.truncate(height);
    rows.reverse();
    if let (true, Some(Err(fault))) = (rows.is_empty(), &journal.end) {
        rows.extend(wrap(&tidy(&fault.to_string()), width).into_iter().map(|l| (l, Some(Tone::Bad))));
    }
    lines_from(frame, body, rows.iter(), colour);
}
