//! `muster host floor set`: a floor by root's hand over the administrator's login; the only way down (M3).

use super::admin::{self, Access, Row};
use super::fleet::Reporter;
use super::reach::{Pool, Reach};
use crate::codes::Own;
use crate::fault::{Fault, Outcome};
use crate::printer::{Printer, clean};
use crate::remote::shell::AdminShell;
use muster_core::{ProfileName, Reason, UtcTime};
use muster_provision::floors::{self, FloorError, Floors};
use std::collections::BTreeMap;

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The hosts.
    pub reach: Reach,
    /// How to get in.
    pub access: Access,
    /// Profiles, each with the lowest epoch that shall be taken.
    pub floors: BTreeMap<ProfileName, u32>,
    /// Write the file anew.
    pub rebuild: bool,
    /// Lowering is meant.
    pub lower: bool,
    /// Say it only.
    pub plan: bool,
    /// Do not ask.
    pub yes: bool,
}

/// Sets the floors.
pub fn set(settings: &Settings, printer: &mut Printer) -> Outcome {
    let Settings { reach, access, .. } = settings;
    let hosts = reach.hosts()?;
    let wanted = list(&settings.floors);
    if !settings.plan {
        let how = if settings.rebuild { "Write all floors anew as" } else { "Set floors to" };
        reach.confirm(
            settings.yes,
            settings.lower || settings.rebuild,
            &hosts,
            &format!("{how} {wanted} on"),
        )?;
    }
    let (lower, rebuild, plan) = (settings.lower, settings.rebuild, settings.plan);
    let rows = admin::on_all(
        "floor set",
        (reach, access, Pool::Unused),
        &hosts,
        printer,
        |host, _, shell, reporter| {
            let one = One { host: host.name.to_string(), floors: settings.floors.clone(), shell, reporter };
            async move {
                if rebuild {
                    return one.rebuild(plan).await;
                }
                one.set(lower, plan).await
            }
        },
    )?;
    Ok(admin::conclude(rows, printer))
}

struct One {
    host: String,
    floors: BTreeMap<ProfileName, u32>,
    shell: AdminShell,
    reporter: Reporter,
}

impl One {
    fn bad(&self, error: &FloorError) -> Fault {
        match error {
            FloorError::Shell(e) => admin::shell_fault(e, &self.shell),
            FloorError::Missing => Fault::new(Reason::FloorsMissing, clean(&error.to_string())),
            FloorError::Malformed(_) => Fault::new(Reason::FloorsMalformed, clean(&error.to_string())),
            FloorError::Refused(_) => Fault::new(Own::ProvisionObstacle, clean(&error.to_string())),
        }
    }

    async fn set(&self, lower: bool, plan: bool) -> Result<Row, Fault> {
        self.reporter.stage("reading its floors");
        let now = floors::show(&self.shell).await.map_err(|e| self.bad(&e))?.floors;
        let lowered = self.floors.iter().find(|(p, e)| now.get(p).is_some_and(|n| *e < n));
        if let Some((profile, epoch)) = lowered.filter(|_| !lower) {
            let there = now.get(profile).copied().unwrap_or_default();
            let what = format!("the floor of {profile} is {there}, and {epoch} is below it");
            return Err(Fault::new(Own::FloorLower, what));
        }
        let changes: BTreeMap<_, _> =
            self.floors.iter().filter(|(p, e)| now.get(p) != Some(e)).map(|(p, e)| (p.clone(), *e)).collect();
        let detail = format!("{}; before: {}", list(&self.floors), list(&now));
        if changes.is_empty() {
            return Ok(Row::good(&self.host, "unchanged", detail, Vec::new()));
        }
        if plan {
            return Ok(Row::good(
                &self.host,
                "to do",
                detail,
                changes.keys().map(ToString::to_string).collect(),
            ));
        }
        let mut done = Vec::new();
        for (profile, epoch) in &changes {
            self.reporter.stage(format!("writing the floor of {profile}"));
            let change = floors::set(&self.shell, profile, *epoch).await.map_err(|e| self.bad(&e))?;
            done.push(format!("{} {profile} {epoch}", change.event()));
        }
        Ok(Row::good(&self.host, "changed", detail, done))
    }

    async fn rebuild(&self, plan: bool) -> Result<Row, Fault> {
        let detail = format!("all floors: {}", list(&self.floors));
        if plan {
            return Ok(Row::good(&self.host, "to do", detail, Vec::new()));
        }
        self.reporter.stage("writing its floors anew");
        // The newest signed time that the host had seen is lost with the file; the shim's build date stands in its place.
        let all = Floors { time_floor: UtcTime::from_unix(0), floors: self.floors.clone() };
        floors::rebuild(&self.shell, &all).await.map_err(|e| self.bad(&e))?;
        Ok(Row::good(&self.host, "changed", detail, Vec::new()))
    }
}

fn list(floors: &BTreeMap<ProfileName, u32>) -> String {
    let all: Vec<String> = floors.iter().map(|(p, e)| format!("{p}={e}")).collect();
    if all.is_empty() { "none".into() } else { all.join(" ") }
}
