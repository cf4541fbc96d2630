//! From the arguments of `muster audit` to its commands.

use super::node::on_nodes;
use crate::args::audit::{Audit, Verify};
use crate::codes::Own;
use crate::commands::audit::{self, tail};
use crate::fault::{Fault, Outcome};
use crate::printer::Printer;
use crate::settings::World;
use muster_core::audit::Head;

pub(super) fn dispatch(command: Audit, world: &World, printer: &mut Printer) -> Outcome {
    match command {
        Audit::Verify(a) if a.file.is_empty() => {
            on_nodes(&a.on, world, printer, |s, p| audit::verify(&s, a.since_known, p))
        }
        Audit::Verify(a) => files(&a, printer),
        Audit::Tail(a) => on_nodes(&a.on.on(), world, printer, |s, p| tail::run(&s, a.lines, a.follow, p)),
    }
}

fn files(a: &Verify, printer: &mut Printer) -> Outcome {
    let mut heads: Vec<Head> = Vec::new();
    for text in &a.head {
        heads.push(text.parse().map_err(|e: muster_core::audit::BadHead| {
            Fault::new(Own::Usage, format!("--head {text:?} is none: {e}")).fix("Write SEQ:HASH.")
        })?);
    }
    audit::verify_files(&a.file, &heads, printer)
}
