//! From the arguments of `muster host …` to plain settings.

use super::read_inventory;
use crate::args::host::{Host, Pace, Select, phase as args, provision};
use crate::commands::host;
use crate::commands::host::reach::{self, Reach};
use crate::commands::host::values::Given;
use crate::fault::{Fault, Faults, Outcome};
use crate::printer::Printer;
use crate::settings::{World, span};
use muster_core::Phase;
use std::time::Duration;

pub(super) fn dispatch(command: Host, world: &World, printer: &mut Printer) -> Outcome {
    match command {
        Host::List(a) => host::list::list(&read_inventory(&a.select.inventory, world)?, &a.select, printer),
        Host::Probe(a) => host::probe::run(&reach(&a.select, &a.pace, world)?, printer),
        Host::Install(a) => phase(Phase::Install, a, world, printer),
        Host::Join(a) => phase(Phase::Join, a, world, printer),
        Host::Leave(a) => phase(Phase::Leave, a, world, printer),
        Host::Uninstall(a) => phase(Phase::Uninstall, a, world, printer),
        Host::Floor(provision::Floor::Show(a)) => {
            host::probe::floors(&reach(&a.select, &a.pace, world)?, printer)
        }
        Host::Floor(provision::Floor::Raise(a)) => {
            let settings = host::phase::Settings {
                reach: reach(&a.select, &a.pace, world)?,
                phase: Phase::Floor,
                folder: a.profile,
                given: Given::default(),
                plan: a.plan,
                yes: a.yes,
                danger_raw: false,
            };
            host::phase::run(&settings, printer)
        }
    }
}

fn phase(phase: Phase, a: args::Run, world: &World, printer: &mut Printer) -> Outcome {
    // Arguments first: a secret on the command line is said before anything else is looked at.
    let given = Given::read(&a.param, &a.secret)?;
    let settings = host::phase::Settings {
        reach: reach(&a.select, &a.pace, world)?,
        phase,
        folder: a.profile,
        given,
        plan: a.plan,
        yes: a.yes,
        danger_raw: a.danger_raw,
    };
    host::phase::run(&settings, printer)
}

fn reach(select: &Select, pace: &Pace, world: &World) -> Result<Reach, Faults> {
    Ok(Reach {
        selection: select.selection()?,
        pace: pace_of(pace)?,
        inventory: read_inventory(&select.inventory, world)?,
        state: world.state.clone(),
        agent: world.agent.clone(),
        home: world.home.clone(),
        now: world.now,
    })
}

fn pace_of(pace: &Pace) -> Result<reach::Pace, Fault> {
    let seconds = |option, text: &str| span(option, text).map(Duration::from_secs);
    Ok(reach::Pace {
        parallel: usize::from(pace.parallel),
        timeout: pace.timeout.as_deref().map(|t| seconds("--timeout", t)).transpose()?,
        connect: seconds("--connect-timeout", &pace.connect_timeout)?,
    })
}
