//! From the arguments of `muster ui` to plain settings.

use super::node::{every_one, session};
use crate::args::node::calls::On;
use crate::args::ui::Ui;
use crate::codes::Own;
use crate::fault::{Fault, Outcome};
use crate::printer::{Format, Printer};
use crate::settings::{World, span};
use crate::ui;
use std::time::Duration;

pub(super) fn dispatch(a: Ui, world: &World, printer: &Printer) -> Outcome {
    let looks = printer.looks();
    if looks.format != Format::Table {
        return Err(Fault::new(Own::Usage, "a dashboard has no --output")
            .fix("Run `muster node list --watch` with it.")
            .into());
    }
    // Before a passphrase is asked for.
    if !world.screen {
        return Err(
            Fault::new(Own::TerminalNeeded, "muster ui is on no terminal that it could draw on").into()
        );
    }
    let every = span("--every", &a.every).map(Duration::from_secs)?;
    let mut about = Vec::new();
    about.extend(a.caller.context.as_ref().map(|c| format!("context {c}")));
    let on = On { select: every_one(a.select), caller: a.caller, pace: a.pace };
    let session = session(&on, world)?;
    let about = about.join(", ");
    ui::run(ui::Settings { session, every, colour: looks.colour_out && world.colours, about })
}
