//! From the arguments of `muster ui` to plain settings.

use super::node::{Around, every_one, session, told_and_kept};
use crate::args::node::calls::On;
use crate::args::ui::Ui;
use crate::codes::Own;
use crate::fault::{Fault, Faults, Outcome};
use crate::nodes::contexts;
use crate::printer::{Format, Printer};
use crate::settings::{World, span};
use crate::ui;
use std::time::Duration;

/// Who calls, and in which context, as far as it is said by names.
fn about(a: &Ui, world: &World) -> Result<String, Faults> {
    let around = Around::look(&a.caller, world)?;
    let (client, _) = around.caller(&a.caller).files(&a.caller.pki)?;
    let client = client.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let context = match &a.caller.context {
        Some(named) => Some(named.clone()),
        None => contexts::current(world.state.as_deref())?,
    };
    Ok(context.map_or_else(|| format!("as {client}"), |c| format!("as {client}, context {c}")))
}

pub(super) fn dispatch(a: Ui, world: &World, printer: &mut Printer) -> Outcome {
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
    let about = about(&a, world)?;
    let on = On { select: every_one(a.select), caller: a.caller, pace: a.pace };
    let session = session(&on, world)?;
    told_and_kept(session, printer, |session, _| {
        ui::run(ui::Settings { session, every, colour: looks.colour_out && world.colours, about })
    })
}
