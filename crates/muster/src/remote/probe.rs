//! What `probe` answered: one JSON document on envelope 2, four lines on envelope 1 (and on hosts without a shim).
//!
//! A host's answer is data from outside: bounded, read whole or refused, shown only after control characters were escaped.

use super::answer::NotTheShim;
use muster_core::UtcTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest answer that is read.
pub const MAX_ANSWER: usize = 256 * 1024;

/// Characters of one word of a host's that are kept.
const MAX_WORD: usize = 80;
/// Characters of a host's text that are quoted in a message.
const MAX_QUOTE: usize = 300;

/// What a host said of itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// Envelope 2.
    Two(Box<Two>),
    /// Envelope 1, and raw hosts.
    One(One),
}

/// The published four facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct One {
    /// Processors.
    pub cpus: u32,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// `uname -m`.
    pub machine: String,
    /// As `systemctl is-active kubelet` says; may be empty.
    pub kubelet: String,
}

/// The document of envelope 2.
#[derive(Clone, Debug, PartialEq)]
pub struct Two {
    /// All of it, as the host wrote it.
    pub document: Map<String, Value>,
    /// The host's clock.
    pub now: UtcTime,
    /// What it says of its policy.
    pub policy: Result<Policy, String>,
    /// The run that holds it.
    pub running: Option<Running>,
    /// The last run on record.
    pub last: Option<LastRun>,
    /// The last runs on record, newest first; `None` where the host's shim does not tell them.
    pub runs: Option<Vec<LastRun>>,
}

/// What a host's policy lets a sender know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Policy {
    /// What it calls itself.
    pub host: Option<String>,
    /// Its pools.
    pub pools: Vec<String>,
    /// Whether it takes envelope 1.
    #[serde(rename = "envelope-1")]
    pub envelope_one: bool,
    /// Distinct signers that an intent needs.
    pub signers_needed: u32,
    /// The longest deadline, seconds.
    pub max_deadline: u32,
    /// Profiles that may run, each with the lowest epoch that is taken now.
    pub profiles: std::collections::BTreeMap<String, u32>,
}

/// A run that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its id.
    pub run: String,
    /// Its phase.
    pub phase: String,
    /// SHA-256 of its intent in hex, where it has one.
    pub intent: Option<String>,
    /// Since when, by the host's clock.
    pub since: UtcTime,
    /// Whether its shim lives.
    pub alive: bool,
}

/// A run on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// Its id.
    pub run: String,
    /// Its phase.
    pub phase: String,
    /// SHA-256 of its intent in hex, where it has one.
    pub intent: Option<String>,
    /// When it began, by the host's clock, where that is on record.
    pub started: Option<UtcTime>,
    /// How it ended; `started` when no end is on record.
    pub verdict: String,
    /// When that was recorded, by the host's clock.
    pub time: UtcTime,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Wire {
    muster_probe: u32,
    clock: WireClock,
    policy: Value,
    running: Option<WireRunning>,
    last_run: Option<WireLast>,
    runs: Option<Vec<WireLast>>,
}

#[derive(Deserialize)]
struct WireClock {
    now: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WireRunning {
    run: String,
    phase: String,
    intent_sha256: Option<String>,
    since: String,
    alive: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WireLast {
    run: String,
    phase: String,
    intent_sha256: Option<String>,
    started: Option<String>,
    verdict: String,
    time: String,
}

impl Two {
    /// Reads the document.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotTheShim> {
        let cut =
            |text: &str, most: usize| -> String { crate::printer::clean(text).chars().take(most).collect() };
        let not = |why: String| NotTheShim { why: format!("its probe {why}") };
        if bytes.len() > MAX_ANSWER {
            return Err(not(format!("is over {MAX_ANSWER} bytes")));
        }
        let document: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|_| not("is not one JSON object".into()))?;
        let wire: Wire = serde_json::from_value(Value::Object(document.clone()))
            .map_err(|e| not(format!("lacks what is needed: {}", cut(&e.to_string(), MAX_QUOTE))))?;
        if wire.muster_probe != 1 {
            return Err(not(format!(
                "is of version {}, which this program does not know",
                wire.muster_probe
            )));
        }
        let time = |text: &str| UtcTime::parse(text).map_err(|_| not("holds a time that is none".into()));
        let policy = match wire.policy.get("fault").and_then(Value::as_str) {
            Some(fault) => Err(cut(fault, MAX_QUOTE)),
            None => Ok(serde_json::from_value(wire.policy)
                .map_err(|e| not(format!("holds no policy: {}", cut(&e.to_string(), MAX_QUOTE))))?),
        };
        let word = |text: String| cut(&text, MAX_WORD);
        let running = match wire.running {
            Some(r) => Some(Running {
                since: time(&r.since)?,
                run: word(r.run),
                phase: word(r.phase),
                intent: r.intent_sha256.map(word),
                alive: r.alive,
            }),
            None => None,
        };
        let past = |l: WireLast| -> Result<LastRun, NotTheShim> {
            Ok(LastRun {
                time: time(&l.time)?,
                started: l.started.as_deref().map(time).transpose()?,
                run: word(l.run),
                phase: word(l.phase),
                intent: l.intent_sha256.map(word),
                verdict: word(l.verdict),
            })
        };
        let last = wire.last_run.map(past).transpose()?;
        let runs = wire.runs.map(|all| all.into_iter().map(past).collect()).transpose()?;
        Ok(Self { now: time(&wire.clock.now)?, document, policy, running, last, runs })
    }

    /// A text of the document by its path, for a table.
    pub fn text(&self, path: &[&str]) -> String {
        let mut at = path.split_first().and_then(|(first, rest)| Some((self.document.get(*first)?, rest)));
        while let Some((value, [next, rest @ ..])) = at {
            at = value.get(*next).map(|v| (v, rest));
        }
        match at.map(|(v, _)| v) {
            Some(Value::String(s)) => s.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }
}

impl One {
    /// Reads the four facts from the first lines that have their form; noise of a login shell before them is passed over.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotTheShim> {
        let text = String::from_utf8_lossy(bytes.get(..bytes.len().min(MAX_ANSWER)).unwrap_or_default())
            .into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for at in 0..lines.len() {
            let mut rest = lines.iter().skip(at);
            let cpus = rest.next().and_then(|l| l.parse().ok()).filter(|n| *n > 0);
            let memory = rest.next().and_then(|l| l.parse().ok());
            let machine = rest
                .next()
                .filter(|m| !m.is_empty() && m.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            if let (Some(cpus), Some(memory_kib), Some(machine)) = (cpus, memory, machine) {
                let kubelet = rest.next().map(|k| crate::printer::clean(k)).unwrap_or_default();
                let kubelet = kubelet.chars().take(MAX_WORD).collect();
                return Ok(Self { cpus, memory_kib, machine: (*machine).to_owned(), kubelet });
            }
        }
        Err(NotTheShim { why: "its probe does not give the four facts".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = r#"{"muster-probe":1,"os":{"name":"Debian \u001b[31m"},"cpus":2,"clock":{"now":"2026-11-29T00:00:05Z","synchronised":null},
        "policy":{"sha256":"ab","host":"edge-1","pools":["edge"],"envelope-1":false,"signers-needed":1,"max-deadline":7200,"profiles":{"heartbeat":7}},
        "running":{"run":"ab","phase":"join","since":"2026-11-29T00:00:00Z","alive":true},
        "last-run":{"run":"cd","phase":"leave","verdict":"ok","time":"2026-11-28T00:00:00Z"},"new":"is fine"}"#;

    #[test]
    fn the_document_of_the_shim() {
        let two = Two::parse(DOC.as_bytes()).unwrap();
        assert_eq!(two.policy.as_ref().unwrap().profiles["heartbeat"], 7);
        assert_eq!(two.running.as_ref().unwrap().phase, "join");
        assert_eq!(two.last.as_ref().unwrap().verdict, "ok");
        assert_eq!(
            (two.text(&["cpus"]), two.text(&["clock", "now"]), two.text(&["no", "such"])),
            ("2".into(), "2026-11-29T00:00:05Z".into(), String::new())
        );
        let none =
            DOC.replace(r#"{"run":"ab","phase":"join","since":"2026-11-29T00:00:00Z","alive":true}"#, "null");
        assert!(Two::parse(none.as_bytes()).unwrap().running.is_none());
        for bad in [
            "",
            "{}",
            "[]",
            &DOC[..DOC.len() - 2],
            &DOC.replace(":1,", ":2,"),
            &DOC.replace("2026-11-29T00:00:05Z", "now"),
        ] {
            assert!(Two::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn four_facts_behind_the_noise_of_a_login_shell() {
        let one = One::parse(b"Welcome to 12\nLast login\n4\n16316412\nx86_64\nactivating\n").unwrap();
        assert_eq!(
            (one.cpus, one.memory_kib, one.machine.as_str(), one.kubelet.as_str()),
            (4, 16_316_412, "x86_64", "activating")
        );
        assert_eq!(One::parse(b"4\n1\nriscv64\n").unwrap().kubelet, "");
        for bad in [&b""[..], b"4\n", b"hello\nworld\nx\n", b"0\n1\nx86_64\n"] {
            assert!(One::parse(bad).is_err());
        }
    }

    #[test]
    fn what_a_host_says_is_cut_before_it_is_shown() {
        let long = "x".repeat(9000);
        let of = |doc: String| Two::parse(doc.as_bytes());
        let why = of(DOC.replace("\"alive\":true", &format!("\"alive\":\"{long}\""))).unwrap_err().why;
        assert!(why.chars().count() < 400, "{}", why.len());
        let fault = of(DOC.replace("\"sha256\":\"ab\"", &format!("\"fault\":\"{long}\""))).unwrap().policy;
        assert_eq!(fault.unwrap_err().len(), MAX_QUOTE);
        assert_eq!(One::parse(format!("4\n1\nx86_64\n{long}").as_bytes()).unwrap().kubelet.len(), MAX_WORD);
    }

    proptest::proptest! {
        #[test]
        fn answers_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
            let _ = (Two::parse(&bytes), One::parse(&bytes));
        }
    }
}
