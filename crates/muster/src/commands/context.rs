//! `muster context`

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::contexts::{self, Context, Contexts};
use crate::printer::{Format, Listing, Printer};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Row {
    name: String,
    current: bool,
    inventory: Option<String>,
    client: Option<String>,
    key: Option<String>,
    authority: Option<String>,
}

fn row(context: &Context, current: Option<&str>) -> Row {
    let text = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string());
    Row {
        name: context.name.clone(),
        current: current == Some(context.name.as_str()),
        inventory: text(&context.inventory),
        client: text(&context.caller.client),
        key: text(&context.caller.key),
        authority: text(&context.authority),
    }
}

/// Lists them.
pub fn list(all: &Contexts, current: Option<&str>, printer: &mut Printer) -> Outcome {
    printer.listing(&Listing {
        columns: &["", "name", "inventory", "client"],
        rows: all.all.iter().map(|c| row(c, current)).collect(),
        cells: |r| {
            let mark = if r.current { "*" } else { "" };
            let text = |t: &Option<String>| t.clone().unwrap_or_default();
            vec![mark.to_owned(), r.name.clone(), text(&r.inventory), text(&r.client)]
        },
        name: |r| r.name.clone(),
        empty: "there are no contexts; contexts.yaml in the configuration folder says them",
    });
    Ok(Exit::Ok)
}

/// Uses one from now on.
pub fn choose(all: &Contexts, name: &str, state: Option<&Path>, printer: &mut Printer) -> Outcome {
    let context = all.get(name)?;
    contexts::choose(state, &context.name)?;
    let row = row(context, Some(name));
    if !printer.value(&row) {
        match printer.looks().format {
            Format::Name => printer.data(&row.name),
            _ => printer.talk(&format!("using {name}")),
        }
    }
    Ok(Exit::Ok)
}

/// Shows one.
pub fn show(all: &Contexts, name: Option<&str>, current: Option<&str>, printer: &mut Printer) -> Outcome {
    let Some(name) = name.or(current) else {
        return Err(Fault::new(Own::ContextUnknown, "no context is in use")
            .fix("Use one with `muster context use NAME`, or name it.")
            .into());
    };
    let row = row(all.get(name)?, current);
    if printer.value(&row) {
        return Ok(Exit::Ok);
    }
    if printer.looks().format == Format::Name {
        printer.data(&row.name);
        return Ok(Exit::Ok);
    }
    let mark = if row.current { "  (in use)" } else { "" };
    printer.data(&format!("context     {}{mark}", row.name));
    let key = row
        .key
        .or_else(|| Some("beside the client's certificate".to_owned()).filter(|_| row.client.is_some()));
    for (name, value) in
        [("inventory", row.inventory), ("client", row.client), ("key", key), ("authority", row.authority)]
    {
        if let Some(value) = value {
            printer.data(&format!("{name:<12}{value}"));
        }
    }
    Ok(Exit::Ok)
}
