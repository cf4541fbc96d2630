//! From the arguments of `muster context` to its commands.

use crate::args::context::Context;
use crate::commands::context;
use crate::fault::Outcome;
use crate::nodes::contexts::{self, Contexts};
use crate::printer::Printer;
use crate::settings::World;

pub(super) fn dispatch(command: Context, world: &World, printer: &mut Printer) -> Outcome {
    let all = Contexts::read(world.config.as_deref(), world.home.as_deref())?;
    let current = contexts::current(world.state.as_deref())?;
    match command {
        Context::List => context::list(&all, current.as_deref(), printer),
        Context::Use { name } => context::choose(&all, &name, world.state.as_deref(), printer),
        Context::Show { name } => context::show(&all, name.as_deref(), current.as_deref(), printer),
    }
}
