//! The list of nodes.

use super::table::{self, Cell, Column};
use super::{put, row, style};
use crate::commands::node::status;
use crate::printer::Tone;
use crate::ui::model::{Model, Row};
use crate::ui::text::{age, tidy};
use muster_api::node::Node;
use ratatui::Frame;
use ratatui::layout::Rect;
use std::collections::BTreeMap;

pub(super) const KEYS: &str =
    "? help  Enter open  / filter  r ask again  q quit  ·  B reboot  D drain  C cordon";

const COLUMNS: [Column; 8] = [
    Column { title: "  NODE", least: 12, spare: 0 },
    Column { title: "STATE", least: 16, spare: 0 },
    Column { title: "ROLE", least: 8, spare: 4 },
    Column { title: "CLAIMED BY", least: 12, spare: 6 },
    Column { title: "HEALTH", least: 6, spare: 3 },
    Column { title: "VERSION", least: 10, spare: 5 },
    Column { title: "UP", least: 4, spare: 2 },
    Column { title: "AGE", least: 3, spare: 1 },
];

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let listed = model.listed();
    put(frame, row(area, 0), &title(model, listed.len()), style(Some(Tone::Strong), model.colour));
    let rows: Vec<&Row> = listed.iter().filter_map(|n| model.rows.get(*n)).collect();
    let cells: Vec<Vec<Cell>> = rows.iter().map(|r| cells(model, r)).collect();
    let cursor = listed.iter().position(|n| *n == model.cursor);
    let body = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(3), ..area };
    table::draw(frame, body, &COLUMNS, &cells, cursor, model.colour);
    if area.height > 4
        && let Some(selected) = cursor.and_then(|at| rows.get(at))
    {
        let (text, tone) = detail(selected);
        put(frame, row(area, area.height - 2), &text, style(tone, model.colour));
    }
}

fn title(model: &Model, shown: usize) -> String {
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &model.rows {
        *words.entry(row.word().0).or_default() += 1;
    }
    let words: Vec<String> = words.iter().map(|(word, n)| format!("{n} {word}")).collect();
    let all = model.rows.len();
    let nodes = if all == 1 { "node" } else { "nodes" };
    let filter = match model.filter.is_empty() {
        true => String::new(),
        false => format!("  /{}: {shown} shown", tidy(&model.filter)),
    };
    format!("muster  {all} {nodes}: {}{filter}  {}", words.join(", "), tidy(&model.about))
}

/// The image in a word, its own one for its version or what stands last in its reference; else the version of Kubernetes, else the name
/// of the system.
fn version(n: &Node) -> String {
    let image = n.os.booted.as_ref().and_then(|i| {
        let last = i.image.as_deref().and_then(|r| r.rsplit('/').next()).map(str::to_owned);
        i.version.clone().or(last).or_else(|| i.digest.clone())
    });
    image
        .filter(|i| !i.is_empty())
        .or_else(|| n.kubernetes.version.clone())
        .or_else(|| n.os.name.clone())
        .unwrap_or_default()
}

fn cells(model: &Model, row: &Row) -> Vec<Cell> {
    let (word, tone) = row.word();
    let of = |f: fn(&Node) -> String| (row.node().map(|n| tidy(&f(n))).unwrap_or_default(), None);
    let shown = row.told.as_ref().map(|(_, at)| age(model.at.saturating_sub(*at)).0);
    vec![
        (format!("{} {}", row.mark(), tidy(&row.chosen.name)), None),
        (word.to_owned(), tone),
        of(status::role),
        of(status::owner),
        of(status::verdict),
        of(version),
        of(|n| n.health.uptime_seconds.map(status::uptime).unwrap_or_default()),
        (shown.unwrap_or_default(), None),
    ]
}

/// The node under the cursor in one line: what is wrong with it, else who it is.
fn detail(row: &Row) -> (String, Option<Tone>) {
    if let Some(fault) = &row.fault {
        return (tidy(&fault.to_string()), Some(Tone::Bad));
    }
    let mut text = format!("{} at {}", row.chosen.name, row.chosen.endpoint);
    if let Some(node) = row.node() {
        let named = [
            ("cluster ", node.cluster.clone()),
            ("claimed by ", Some(status::owner(node)).filter(|o| !o.is_empty())),
            ("", node.os.booted.as_ref().map(status::image).filter(|i| !i.is_empty())),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                text += &format!(", {name}{value}");
            }
        }
    }
    (tidy(&text), None)
}
