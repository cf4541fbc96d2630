//! What stands over everything else, and the keys while it does: help, something to be read, and the questions before something is
//! changed. What is asked, and what counts as an answer, is the command's own ([`confirm`]).

use super::edit;
use crate::commands::node::confirm;
use crate::fault::Fault;
use crate::ui::keys::{HELP, Key};
use crate::ui::model::{Deed, Effect, Model, Over};
use crate::ui::text::tidy;
use muster_api::node::Node;

/// Shows a fault until a key is pressed.
pub(super) fn say(model: &mut Model, fault: &Fault) {
    let title = format!("error [{}]", fault.code);
    model.over = Some(Over::Said { title, text: tidy(&fault.to_string()) });
}

/// What the node is to which something is to be done: now its name is asked for. Nothing is ended half blind.
pub(super) fn looked(model: &mut Model, of: u64, result: Result<Node, Fault>) {
    let (node, action) = match &model.over {
        Some(Over::Looking { node, action, view }) if *view == of => (*node, *action),
        // Called off.
        _ => return,
    };
    match result {
        Err(fault) => say(model, &fault),
        Ok(state) => {
            let Some(row) = model.rows.get(node) else { return };
            let radius = confirm::radius(&row.chosen, &state);
            let word = confirm::word(&[(row.chosen.clone(), state)]);
            model.over = Some(Over::Typed { node, action, radius, word, typed: String::new() });
        }
    }
}

/// A key while something stands over everything else.
pub(super) fn key(model: &mut Model, key: Key) -> Vec<Effect> {
    match model.over.take() {
        Some(Over::Help(top)) => {
            model.over = match key {
                Key::Esc | Key::Enter | Key::Char('q' | '?') => None,
                _ => Some(Over::Help(super::moved(top, HELP.len(), 10, key))),
            };
            Vec::new()
        }
        Some(Over::Ask { node, deed }) => match key {
            Key::Char('y' | 'Y') => begin(model, node, deed),
            _ => {
                model.message = Some("nothing was done".to_owned());
                Vec::new()
            }
        },
        Some(Over::Looking { .. }) if key == Key::Esc => {
            model.message = Some("nothing was done".to_owned());
            Vec::new()
        }
        Some(Over::Typed { node, action, radius, word, mut typed }) => match key {
            Key::Esc => {
                model.message = Some("nothing was done".to_owned());
                Vec::new()
            }
            Key::Enter => match confirm::judge(Some(typed.trim()), &word, action.word()) {
                Ok(()) => begin(model, node, Deed::Act(action)),
                Err(fault) => {
                    say(model, &fault);
                    Vec::new()
                }
            },
            _ => {
                edit(&mut typed, key);
                model.over = Some(Over::Typed { node, action, radius, word, typed });
                Vec::new()
            }
        },
        Some(Over::Said { .. }) | None => Vec::new(),
        Some(looking @ Over::Looking { .. }) => {
            model.over = Some(looking);
            Vec::new()
        }
    }
}

fn begin(model: &mut Model, node: usize, deed: Deed) -> Vec<Effect> {
    model.doing = Some(deed.words(&model.name(node)));
    vec![Effect::Do(node, deed)]
}
