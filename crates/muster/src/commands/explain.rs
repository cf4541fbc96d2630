//! `muster explain`

use crate::codes::{Code, Own};
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::pages;
use crate::printer::{Listing, Printer};
use crate::yaml;
use serde::Serialize;

#[derive(Serialize)]
struct Row {
    code: String,
    side: &'static str,
    what: &'static str,
    fix: &'static str,
}

fn row(code: Code) -> Row {
    let side = match code {
        Code::Own(_) => "cli",
        Code::Shim(_) => "host",
        Code::Lint(_) => "lint",
    };
    Row { code: code.word().to_owned(), side, what: code.what(), fix: code.fix() }
}

/// Explains one code, or lists all.
pub fn run(wanted: Option<&str>, printer: &mut Printer) -> Outcome {
    let Some(word) = wanted else {
        printer.listing(&Listing {
            columns: &["code", "side", "what"],
            rows: Code::all().map(row).collect(),
            cells: |r: &Row| vec![r.code.clone(), r.side.to_owned(), r.what.to_owned()],
            name: |r: &Row| r.code.clone(),
            empty: "",
        });
        return Ok(Exit::Ok);
    };
    let word = word.trim_matches(['[', ']']);
    let (Some(code), Some(page)) = (Code::from_word(word), pages::page(word)) else {
        let fault = Fault::new(Own::CodeUnknown, format!("no error code {word:?}"));
        return Err(match yaml::nearest(word, Code::all().map(Code::word)) {
            Some(near) => fault.fix(format!("Did you mean {near:?}? `muster explain` lists all.")),
            None => fault,
        }
        .into());
    };
    if !printer.value(&row(code)) {
        printer.raw(page.as_bytes());
    }
    Ok(Exit::Ok)
}
