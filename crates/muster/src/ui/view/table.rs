//! Columns that fit: the widest ones are cut first, then the least needed are left out.

use super::style;
use crate::printer::Tone;
use crate::ui::text::{columns, fit, tidy};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// Between two columns.
const GAP: usize = 2;

/// One column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// It is cut down to this where there is too little room.
    pub(super) least: usize,
    /// The greatest is left out first; 0 never.
    pub(super) spare: u8,
}

/// One cell, and how it looks.
pub(super) type Cell = (String, Option<Tone>);

/// The width of each column, 0 for one that is left out.
pub(super) fn widths(columns: &[Column], rows: &[Vec<Cell>], room: usize) -> Vec<usize> {
    let natural: Vec<usize> = (0..columns.len()).map(|n| natural(columns, rows, n)).collect();
    let mut kept = vec![true; columns.len()];
    loop {
        let mut widths: Vec<usize> =
            natural.iter().zip(&kept).map(|(w, kept)| if *kept { *w } else { 0 }).collect();
        let gaps = GAP * kept.iter().filter(|k| **k).count().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(room);
        while over > 0 {
            let slack = |(w, c): (&usize, &Column)| w.saturating_sub(c.least);
            let widest = widths.iter().zip(columns).map(slack).enumerate().max_by_key(|(_, s)| *s);
            match widest.filter(|(_, slack)| *slack > 0).and_then(|(n, _)| widths.get_mut(n)) {
                Some(width) => *width -= 1,
                None => break,
            }
            over -= 1;
        }
        if over == 0 {
            return widths;
        }
        let out = (0..).zip(columns).filter(|(n, c)| c.spare > 0 && kept.get(*n).is_some_and(|k| *k));
        match out.max_by_key(|(_, c)| c.spare).and_then(|(n, _): (usize, _)| kept.get_mut(n)) {
            Some(keep) => *keep = false,
            // The edge of the screen cuts the rest.
            None => return widths,
        }
    }
}

fn natural(all: &[Column], rows: &[Vec<Cell>], n: usize) -> usize {
    let title = all.get(n).map_or(0, |c| columns(c.title));
    rows.iter().filter_map(|r| r.get(n)).map(|(text, _)| columns(text)).max().unwrap_or(0).max(title)
}

/// Draws the titles, and the rows from `top` on; the one under the cursor is reversed.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    all: &[Column],
    rows: &[Vec<Cell>],
    cursor: Option<usize>,
    colour: bool,
) {
    let widths = widths(all, rows, usize::from(area.width));
    let titles: Vec<Cell> = all.iter().map(|c| (c.title.to_owned(), Some(Tone::Strong))).collect();
    if let Some(place) = super::row(area, 0) {
        line(frame, place, &widths, &titles, Style::default(), colour);
    }
    let height = usize::from(area.height.saturating_sub(1));
    let top = super::top(cursor.unwrap_or(0), height);
    for (n, row) in rows.iter().enumerate().skip(top).take(height) {
        let y = u16::try_from(n - top + 1).unwrap_or(u16::MAX);
        let Some(place) = super::row(area, y) else { break };
        let base = match cursor == Some(n) {
            true => Style::default().add_modifier(Modifier::REVERSED),
            false => Style::default(),
        };
        frame.render_widget(Line::default().style(base), place);
        line(frame, place, &widths, row, base, colour);
    }
}

/// Each cell in a place of its own: whatever is in it, the next one begins where it should.
fn line(frame: &mut Frame<'_>, area: Rect, widths: &[usize], cells: &[Cell], base: Style, colour: bool) {
    frame.buffer_mut().set_style(area, base);
    let mut x = area.x;
    for (width, (text, tone)) in widths.iter().zip(cells).filter(|(w, _)| **w > 0) {
        let left = area.right().saturating_sub(x);
        let wide = u16::try_from(*width).unwrap_or(u16::MAX).min(left);
        let place = Rect { x, width: wide, ..area };
        let text = fit(&tidy(text), usize::from(wide));
        frame.render_widget(Line::from(Span::styled(text, base.patch(style(*tone, colour)))), place);
        x = x.saturating_add(wide).saturating_add(GAP as u16).min(area.right());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_is_cut_first_and_the_least_needed_left_out() {
        let columns = [
            Column { title: "A", least: 4, spare: 0 },
            Column { title: "B", least: 2, spare: 2 },
            Column { title: "C", least: 3, spare: 1 },
        ];
        let row = |a: usize, b: usize, c: usize| [a, b, c].map(|n| ("x".repeat(n), None)).to_vec();
        assert_eq!(widths(&columns, &[row(10, 2, 3)], 40), [10, 2, 3]);
        assert_eq!(widths(&columns, &[row(10, 2, 3)], 15), [6, 2, 3]);
        assert_eq!(widths(&columns, &[row(10, 2, 3)], 12), [7, 0, 3]);
        assert_eq!(widths(&columns, &[row(10, 2, 3)], 5), [5, 0, 0]);
        assert_eq!(widths(&columns, &[row(10, 2, 3)], 1), [4, 0, 0]);
        assert_eq!(widths(&columns, &[], 80), [1, 1, 1]);
    }
}
