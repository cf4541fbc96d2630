//! What stands over everything else.

use super::{input, put, row, style};
use crate::commands::node::confirm::question;
use crate::printer::Tone;
use crate::ui::keys::HELP;
use crate::ui::model::{Deed, Model, Over};
use crate::ui::text::{columns, tidy, wrap};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear};

/// Widest box.
const WIDEST: u16 = 100;
/// What stands before what a key does.
const KEY: usize = 14;

pub(super) fn draw(model: &Model, over: &Over, frame: &mut Frame<'_>, area: Rect) {
    let inner = usize::from(area.width.min(WIDEST).saturating_sub(2));
    match over {
        Over::Help(top) => {
            let lines = help(inner);
            let most = lines.len().saturating_sub(usize::from(area.height.saturating_sub(2)));
            let lines: Vec<_> = lines.into_iter().skip((*top).min(most)).collect();
            boxed(model, frame, area, " help: Esc closes, arrows scroll ", &lines);
        }
        Over::Said { title, text } => {
            let lines = plain(wrap(text, inner));
            boxed(model, frame, area, &format!(" {title}: any key goes on "), &lines);
        }
        Over::Looking { node, action, .. } => {
            let text = format!("asking {} what it is, before: {}", model.name(*node), action.word());
            boxed(model, frame, area, " Esc calls it off ", &plain(wrap(&text, inner)));
        }
        Over::Ask { node, deed } => {
            let mut lines = plain(wrap(&format!("{}?", deed.words(&model.name(*node))), inner));
            if let Deed::Act(action) = deed {
                lines.extend(plain(wrap(action.means(), inner)));
            }
            boxed(model, frame, area, " y does it, any other key does not ", &lines);
        }
        Over::Typed { action, radius, word, typed, .. } => {
            let mut lines = plain(wrap(&format!("{}:", action.means()), inner));
            let strong = |l: String| (format!("  {l}"), Some(Tone::Strong));
            lines.extend(wrap(&tidy(radius), inner.saturating_sub(2)).into_iter().map(strong));
            lines.extend(plain(wrap(&tidy(&question(word, action.word())), inner)));
            lines.push((String::new(), None));
            let place = boxed(model, frame, area, " Enter does it, Esc does not ", &lines);
            // What is typed is always in sight, however little of the rest is.
            let last = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(place.height).saturating_sub(1);
            if let Some(line) = row(place, last) {
                frame.render_widget(Clear, line);
                input(frame, line, &format!("> {}", tidy(typed)));
            }
        }
    }
}

fn plain(lines: Vec<String>) -> Vec<(String, Option<Tone>)> {
    lines.into_iter().map(|l| (l, None)).collect()
}

fn help(width: usize) -> Vec<(String, Option<Tone>)> {
    let mut out = Vec::new();
    for (key, what) in HELP {
        if key.is_empty() {
            out.push(((*what).to_owned(), Some(Tone::Strong)));
            continue;
        }
        for (n, line) in wrap(what, width.saturating_sub(KEY)).into_iter().enumerate() {
            let key = if n == 0 { *key } else { "" };
            let pad = KEY.saturating_sub(columns(key) + 2);
            out.push((format!("  {key}{}{line}", " ".repeat(pad)), None));
        }
    }
    out
}

/// Draws a box around lines, in the middle, as large as they are or as there is room; gives what is inside.
fn boxed(
    model: &Model,
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: &[(String, Option<Tone>)],
) -> Rect {
    let widest = lines.iter().map(|(l, _)| columns(l)).max().unwrap_or(0).max(columns(title));
    let width = u16::try_from(widest + 2).unwrap_or(u16::MAX).min(area.width).min(WIDEST);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(title.to_owned()).style(Style::default());
    let inside = block.inner(place);
    frame.render_widget(block, place);
    for (n, (text, tone)) in (0..inside.height).zip(lines) {
        put(frame, row(inside, n), text, style(*tone, model.colour));
    }
    inside
}
