//! From the arguments of `muster host …` to plain settings.

use super::read_inventory;
use crate::args::host::{Add, AdminArgs, Host, Pace, Select, phase as args, provision};
use crate::commands::host;
use crate::commands::host::admin::Access;
use crate::commands::host::provision::Form;
use crate::commands::host::reach::{self, Reach};
use crate::commands::host::spec::Typed;
use crate::commands::host::values::Given;
use crate::fault::{Fault, Faults, Outcome};
use crate::inventory;
use crate::printer::Printer;
use crate::remote::login::AdminOverride;
use crate::settings::{World, span};
use muster_core::Phase;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) fn dispatch(command: Host, world: &World, printer: &mut Printer) -> Outcome {
    match command {
        Host::List(a) => host::list::list(&read_inventory(&a.select.inventory, world)?, &a.select, printer),
        Host::Probe(a) => host::probe::run(&reach(&a.select, &a.pace, world)?, printer),
        Host::Install(a) => phase(Phase::Install, a, world, printer),
        Host::Join(a) => phase(Phase::Join, a, world, printer),
        Host::Leave(a) => phase(Phase::Leave, a, world, printer),
        Host::Uninstall(a) => phase(Phase::Uninstall, a, world, printer),
        Host::Add(a) => add(&a, world, printer),
        Host::Provision(a) => provision(*a, world, printer),
        Host::Unprovision(a) => {
            let settings = host::provision::Undo {
                reach: reach(&a.select, &a.pace, world)?,
                access: access(a.admin),
                plan: a.plan,
                yes: a.yes,
            };
            host::provision::undo(&settings, printer)
        }
        Host::Doctor(a) => {
            let settings = host::doctor::Settings {
                reach: reach(&a.select, &a.pace, world)?,
                access: access(a.admin),
                shim: Typed { shim_binary: a.shim_binary, ..Typed::default() },
                drop_in: a.drop_in,
                attack: !a.no_attack,
            };
            host::doctor::run(&settings, printer)
        }
        Host::RotateKey(a) => {
            let settings = host::rotate::Settings {
                reach: reach(&a.select, &a.pace, world)?,
                access: access(a.admin),
                host_keys: a.host_key,
                old_host_key: a.old_host_key,
                controller_key: a.controller_key,
                old_controller_key: a.old_controller_key,
                plan: a.plan,
                yes: a.yes,
            };
            host::rotate::run(&settings, printer)
        }
        Host::Floor(provision::Floor::Set(a)) => {
            let mut floors = BTreeMap::new();
            for text in &a.floor {
                let (profile, epoch) = host::spec::profile_epoch("--floor", text)?;
                floors.insert(profile, epoch);
            }
            let settings = host::floor::Settings {
                reach: reach(&a.select, &a.pace, world)?,
                access: access(a.admin),
                floors,
                rebuild: a.rebuild,
                lower: a.lower,
                plan: a.plan,
                yes: a.yes,
            };
            host::floor::set(&settings, printer)
        }
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

fn add(a: &Add, world: &World, printer: &mut Printer) -> Outcome {
    let file = inventory::find(a.inventory.inventory.as_deref(), world.config.as_deref())?;
    let new = host::add::new_host(a)?;
    let port = host::add::port(&file, world.home.as_deref(), &new)?;
    let keys = host::add::keys(&a.host_key, &a.known_hosts_line, (&new.address, port))?;
    let settings = host::add::Settings {
        file,
        home: world.home.clone(),
        state: world.state.clone(),
        host: new,
        keys,
        now: world.now,
        plan: a.plan,
    };
    host::add::run(&settings, printer)
}

fn provision(a: provision::Provision, world: &World, printer: &mut Printer) -> Outcome {
    let max_deadline = a.spec.max_deadline.as_deref().map(|t| span("--max-deadline", t)).transpose()?;
    let settings = host::provision::Settings {
        reach: reach(&a.select, &a.pace, world)?,
        access: access(a.admin),
        spec: Typed {
            profiles: a.spec.profile,
            allow_profiles: a.spec.allow_profile,
            shim_binary: a.spec.shim_binary,
            shim_sha256: a.spec.shim_sha256,
            allowed_signers: a.spec.allowed_signers,
            revoked_signers: a.spec.revoked_signers,
            signers_needed: a.spec.signers_needed,
            controller_keys: a.spec.controller_key,
            max_deadline,
            epoch_max_step: a.spec.epoch_max_step,
            env: a.spec.env,
            drop_in: a.spec.drop_in,
        },
        plan: a.plan,
        form: a.form.map(|f| match f {
            provision::As::CloudInit => Form::CloudInit,
            provision::As::Ansible => Form::Ansible,
            provision::As::Sh => Form::Sh,
        }),
        resume: a.resume,
        widen: host::provision::limits(&a.widen)?,
        yes: a.yes,
    };
    host::provision::run(&settings, printer)
}

fn access(a: AdminArgs) -> Access {
    Access {
        over: AdminOverride { user: a.admin_user, keys: a.admin_key },
        password_file: a.sudo_password_file,
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
