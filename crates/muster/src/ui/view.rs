//! Draws what is known. Whatever is drawn was cleaned by [`tidy`].

mod list;
mod node;
mod over;
mod table;

pub(crate) use node::status;

use super::model::Model;
use super::text::{columns, fit, tidy};
use crate::printer::Tone;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Draws all of it.
pub(crate) fn view(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    match &model.view {
        None => list::draw(model, frame, area),
        Some(view) => node::draw(model, view, frame, area),
    }
    bottom(model, frame, area);
    if let Some(over) = &model.over {
        over::draw(model, over, frame, area);
    }
}

/// How a tone looks; without colour by weight alone, and never by either alone: a word or a mark says the same.
pub(crate) fn style(tone: Option<Tone>, colour: bool) -> Style {
    let plain = Style::default();
    match (tone, colour) {
        (Some(Tone::Bad), true) => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
        (Some(Tone::Warn), true) => plain.fg(Color::Yellow),
        (Some(Tone::Good), true) => plain.fg(Color::Green),
        (Some(Tone::Bad | Tone::Strong), _) => plain.add_modifier(Modifier::BOLD),
        (Some(Tone::Faint), true) => plain.add_modifier(Modifier::DIM),
        _ => plain,
    }
}

/// The line of an area, where it has one of that number.
fn row(area: Rect, n: u16) -> Option<Rect> {
    (n < area.height).then(|| Rect { y: area.y + n, height: 1, ..area })
}

/// Puts a text on a line, cut to it.
fn put(frame: &mut Frame<'_>, area: Option<Rect>, text: &str, style: Style) {
    if let Some(area) = area {
        // Here once more, so that no text has a way around it.
        let text = fit(&tidy(text), usize::from(area.width));
        frame.render_widget(Line::from(Span::styled(text, style)).style(style), area);
    }
}

/// The first row that is shown of a list, so that the one under the cursor is.
fn top(cursor: usize, height: usize) -> usize {
    (cursor + 1).saturating_sub(height)
}

/// The last line: what is typed, else what is said, else the keys.
fn bottom(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(line) = row(area, area.height.saturating_sub(1)) else { return };
    if model.typing {
        let filter = match &model.view {
            None => &model.filter,
            Some(view) => &view.journal.filter,
        };
        let text = format!("/{}", tidy(filter));
        input(frame, line, &text);
        return;
    }
    let strong = style(Some(Tone::Strong), model.colour);
    if let Some(message) = &model.message {
        put(frame, Some(line), message, strong);
    } else if let Some(doing) = &model.doing {
        put(frame, Some(line), &format!("under way: {doing}"), strong);
    } else {
        let keys = match &model.view {
            None => list::KEYS,
            Some(view) => node::keys(view),
        };
        put(frame, Some(line), keys, style(Some(Tone::Faint), model.colour));
    }
}

/// A line that is typed, its end in sight and the cursor behind it.
fn input(frame: &mut Frame<'_>, area: Rect, text: &str) {
    let width = usize::from(area.width.saturating_sub(1));
    let mut start = text.char_indices().map(|(at, _)| at);
    let mut shown = text;
    while columns(shown) > width {
        start.next();
        let at = start.clone().next().unwrap_or(text.len());
        shown = text.get(at..).unwrap_or_default();
    }
    put(frame, Some(area), shown, Style::default());
    let x = area.x + u16::try_from(columns(shown)).unwrap_or(0);
    frame.set_cursor_position(Position { x, y: area.y });
}
