//! `probe`: facts of this host, unsigned, read-only. Takes no lock and writes no file.
//!
//! On envelope 1 the answer is the published one: processors, `MemTotal` in kB, machine, and the
//! kubelet's state as `systemctl is-active` prints it, one a line. On envelope 2 it is one JSON
//! document, described in `docs/shim.md`.
//!
//! The asker is whoever holds the login, so nothing here is steered by it: fixed paths, fixed
//! arguments, a clock on every tool, and no tool is run that somebody other than root could have
//! put there.

mod facts;
mod tools;

#[cfg(feature = "fuzzing")]
pub(crate) use facts::os_field;

use crate::history::PastRun;
use crate::json::Value;
use crate::runfile::RunRecord;
use muster_core::UtcTime;

/// What only the rest of the shim knows. Everything else the probe reads itself.
#[derive(Debug)]
pub struct Inside {
    /// The one `now` of this call.
    pub now: UtcTime,
    /// When this shim was built; the floor of its clock.
    pub build_date: UtcTime,
    /// Whether tools may be started for their version: one probe at a time does that.
    pub ask_tools: bool,
    /// The policy, or why there is none.
    pub policy: Result<PolicySummary, String>,
    /// The run that holds the host.
    pub running: Option<Running>,
    /// The newest runs on record, newest first.
    pub runs: Vec<PastRun>,
}

/// What a sender needs to know of `shim.toml` so as not to ship what would be refused.
#[derive(Debug, Default)]
pub struct PolicySummary {
    /// SHA-256 of the file, lower hex.
    pub digest: String,
    /// What the host is called.
    pub host: Option<String>,
    /// The pools it is in.
    pub pools: Vec<String>,
    /// Whether envelope 1 is taken.
    pub envelope_one: bool,
    /// How many distinct signers an intent needs.
    pub signers_needed: usize,
    /// The longest deadline that is taken, seconds.
    pub max_deadline: u32,
    /// Profiles, each with the lowest epoch that is taken now.
    pub profiles: Vec<(String, u32)>,
}

/// A run that has begun and has no end yet.
#[derive(Debug)]
pub struct Running {
    /// Its record.
    pub record: RunRecord,
    /// Whether its shim is still there; `false` means that the next run will clean up after it.
    pub alive: bool,
}

/// The published four lines.
pub fn one() -> String {
    let kubelet = facts::kubelet_state().unwrap_or_default();
    let memory = facts::meminfo("MemTotal").unwrap_or(0);
    let (_, machine) = muster_sys::system::kernel();
    format!("{}\n{memory}\n{machine}\n{kubelet}\n", muster_sys::system::processors())
}

/// The JSON document, ended by a line feed.
pub fn two(inside: &Inside) -> String {
    let mut all = vec![("muster-probe", Value::Number(1))];
    all.extend(facts::members(inside.now));
    all.push(("tools", tools::all(inside.ask_tools)));
    let shim = [
        ("version", Value::text(env!("CARGO_PKG_VERSION"))),
        ("build-date", Value::text(inside.build_date.to_string())),
    ];
    all.push(("shim", Value::object(shim)));
    all.push(("policy", policy(&inside.policy)));
    all.push(("running", Value::or_null(inside.running.as_ref(), running)));
    all.push(("last-run", Value::or_null(inside.runs.first(), past_run)));
    all.push(("runs", Value::List(inside.runs.iter().map(past_run).collect())));
    format!("{}\n", Value::object(all))
}

fn policy(policy: &Result<PolicySummary, String>) -> Value {
    let p = match policy {
        Err(fault) => return Value::object([("fault", Value::text(fault))]),
        Ok(p) => p,
    };
    let profiles = p.profiles.iter().map(|(name, floor)| (name, Value::Number(u64::from(*floor))));
    Value::object([
        ("sha256", Value::text(&p.digest)),
        ("host", Value::optional(p.host.as_deref())),
        ("pools", Value::texts(&p.pools)),
        ("envelope-1", Value::Bool(p.envelope_one)),
        ("signers-needed", Value::Number(p.signers_needed as u64)),
        ("max-deadline", Value::Number(u64::from(p.max_deadline))),
        ("profiles", Value::object(profiles)),
    ])
}

fn running(r: &Running) -> Value {
    let mut all = vec![("run", Value::text(r.record.run.as_str()))];
    all.extend(r.record.what.members());
    all.push(("since", Value::text(r.record.since.to_string())));
    all.push(("alive", Value::Bool(r.alive)));
    Value::object(all)
}

fn past_run(r: &PastRun) -> Value {
    let number = |n: Option<u32>| Value::or_null(n, |n| Value::Number(n.into()));
    let mut all = vec![("run", Value::text(r.run.as_str()))];
    all.extend(r.what.members());
    all.extend([
        ("started", Value::optional(r.started.map(|t| t.to_string()))),
        ("verdict", Value::text(&r.verdict)),
        ("reason", Value::optional(r.reason.as_deref())),
        ("exit-code", number(r.exit_code)),
        ("signal", number(r.signal)),
        ("time", Value::text(r.time.to_string())),
    ]);
    Value::object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::record::RunId;
    use muster_core::{Phase, ProfileName};

    fn inside(policy: Result<PolicySummary, String>) -> Inside {
        let at = UtcTime::from_unix(1_795_910_400);
        Inside { now: at, build_date: at, ask_tools: true, policy, running: None, runs: Vec::new() }
    }

    #[test]
    fn envelope_one_is_four_lines() {
        let text = one();
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        assert_eq!(lines.len(), 4, "{text:?}");
        assert!(lines[0].parse::<u32>().unwrap() >= 1);
        assert!(lines[1].parse::<u64>().unwrap() > 1024);
        assert!(!lines[2].is_empty());
    }

    #[test]
    fn envelope_two_is_one_line_with_every_fact() {
        let mut full = inside(Ok(PolicySummary {
            host: Some("edge-1".into()),
            profiles: vec![("heartbeat".into(), 7)],
            ..PolicySummary::default()
        }));
        let since = UtcTime::from_unix(1_795_910_000);
        let what = Identity {
            envelope: 2,
            phase: Phase::Join,
            profile: ProfileName::new("heartbeat").ok(),
            epoch: Some(7),
            intent: Some([0xab; 32]),
            script: None,
        };
        let id = |c: &str| RunId::parse(&c.repeat(32)).unwrap();
        full.running = Some(Running {
            record: RunRecord::of_this_process(id("a"), "boot", what.clone(), since),
            alive: true,
        });
        full.runs = vec![PastRun {
            run: id("c"),
            what: Identity { phase: Phase::Leave, epoch: None, ..what },
            started: Some(since),
            verdict: "failed".into(),
            reason: Some("script-failed".into()),
            exit_code: Some(3),
            signal: None,
            time: since,
        }];
        let text = two(&full);
        assert_eq!(text.lines().count(), 1);
        let (run, digest) = (|c: &str| c.repeat(32), "ab".repeat(32));
        let running = format!(
            "\"running\":{{\"run\":\"{}\",\"envelope\":2,\"phase\":\"join\",\"profile\":\"heartbeat\",\"epoch\":7,\
             \"intent-sha256\":\"{digest}\",\"script-sha256\":null,\"since\":\"2026-11-28T23:53:20Z\",\"alive\":true}}",
            run("a")
        );
        let last = format!(
            "{{\"run\":\"{}\",\"envelope\":2,\"phase\":\"leave\",\"profile\":\"heartbeat\",\"epoch\":null,\
             \"intent-sha256\":\"{digest}\",\"script-sha256\":null,\"started\":\"2026-11-28T23:53:20Z\",\
             \"verdict\":\"failed\",\"reason\":\"script-failed\",\"exit-code\":3,\"signal\":null,\
             \"time\":\"2026-11-28T23:53:20Z\"}}",
            run("c")
        );
        for part in [
            "\"muster-probe\":1",
            "\"clock\":{\"now\":\"2026-11-29T00:00:00Z\"",
            "\"policy\":{\"sha256\":\"\",\"host\":\"edge-1\",\"pools\":[],",
            "\"profiles\":{\"heartbeat\":7}",
            &running,
            &format!("\"last-run\":{last},\"runs\":[{last}]"),
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
        for key in
            ["os", "kernel", "cpus", "memory-kib", "swap-kib", "cgroup", "disk", "kubelet", "tools", "shim"]
        {
            assert!(text.contains(&format!("\"{key}\":")), "{key} not in {text}");
        }
    }

    #[test]
    fn a_host_without_policy_says_why() {
        let text = two(&inside(Err("no /etc/muster/shim.toml".into())));
        assert!(text.contains("\"policy\":{\"fault\":\"no /etc/muster/shim.toml\"}"), "{text}");
        assert!(text.contains("\"running\":null,\"last-run\":null,\"runs\":[]}"), "{text}");
    }
}
