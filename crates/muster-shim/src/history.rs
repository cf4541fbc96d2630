//! The runs that this host has a record of, read back from the lines that [`crate::record`] wrote.
//!
//! A run is what its start record says it was and what its end record says became of it. Lines
//! are read from the end of the durable log, of the one before it, and of the lines that the
//! durable log did not take. Whoever reads holds no lock: a line that is not whole is passed over.

use crate::identity::{Identity, digest};
use crate::paths;
use crate::record::RunId;
use muster_core::{Phase, ProfileName, UtcTime};
use muster_sys::state::StateDir;

/// Bytes of each file that runs are looked for in.
const TAIL: u64 = 64 * 1024;
/// How many runs are told.
pub const MOST: usize = 8;

/// A run on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    /// Run id.
    pub run: RunId,
    /// What it was asked to do.
    pub what: Identity,
    /// When its start was recorded; `None` when that record is not to be found any more.
    pub started: Option<UtcTime>,
    /// The word of its verdict; `started` when no end is recorded in this boot, and `interrupted`
    /// when it began in an earlier one.
    pub verdict: String,
    /// Why it did not end well.
    pub reason: Option<String>,
    /// What the script returned.
    pub exit_code: Option<u32>,
    /// What signal ended it.
    pub signal: Option<u32>,
    /// When the newest of its records was written.
    pub time: UtcTime,
}

/// The newest runs, newest first. `state` is the durable folder, `volatile` the one of this boot.
pub fn runs(state: Option<&StateDir>, volatile: Option<&StateDir>, boot: &str) -> Vec<PastRun> {
    let tail = |dir: Option<&StateDir>, name: &str| {
        dir.and_then(|d| d.read_tail(name, TAIL).ok())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .unwrap_or_default()
    };
    // The newer first: between the two it may become the older, and is then seen twice, not never.
    let log = tail(state, paths::RUN_LOG);
    let before = tail(state, &paths::older(paths::RUN_LOG));
    let unlogged = tail(volatile, paths::UNLOGGED);
    let mut out = of_lines(before.lines().chain(log.lines()).chain(unlogged.lines()), boot);
    if !unlogged.is_empty() {
        // Lines of two files: only their times say which came first.
        out.sort_by_key(|r| r.time.unix());
    }
    out.reverse();
    out.truncate(MOST);
    out
}

/// The runs of these lines, the one that was told of last at the end.
pub(crate) fn of_lines<'l>(lines: impl Iterator<Item = &'l str>, boot: &str) -> Vec<PastRun> {
    let mut out = Vec::new();
    for line in lines {
        take(&mut out, line, boot);
    }
    out
}

/// Takes one line in; nothing when it is not a whole record of a run.
fn take(out: &mut Vec<PastRun>, line: &str, boot: &str) -> Option<()> {
    if !line.starts_with("{\"event\":") || !line.ends_with('}') {
        return None;
    }
    let run = RunId::parse(text(line, "run")?)?;
    let time = UtcTime::parse(text(line, "time")?).ok()?;
    let what = Identity {
        envelope: u8::try_from(number(line, "envelope")?).ok()?,
        phase: Phase::from_word(text(line, "phase")?)?,
        profile: text(line, "profile").and_then(|p| ProfileName::new(p).ok()),
        epoch: number(line, "epoch"),
        intent: text(line, "intent_sha256").and_then(digest),
        script: text(line, "script_sha256").and_then(digest),
    };
    let mut new = PastRun {
        run,
        what,
        started: None,
        verdict: String::new(),
        reason: None,
        exit_code: None,
        signal: None,
        time,
    };
    let event = text(line, "event")?;
    match event {
        "start" => {
            new.started = Some(time);
            let this_boot = text(line, "boot") == Some(boot);
            new.verdict = if this_boot { "started" } else { "interrupted" }.to_owned();
        }
        "end" => {
            new.verdict = text(line, "verdict").filter(|v| plain(v))?.to_owned();
            new.reason = text(line, "reason").filter(|r| plain(r)).map(str::to_owned);
            new.exit_code = number(line, "exit_code");
            new.signal = number(line, "signal");
        }
        _ => return None,
    }
    if let Some(at) = out.iter().rposition(|r| r.run == new.run) {
        let known = out.remove(at);
        let started = known.started.or(new.started);
        // A start that is read after its end, out of another file, changes nothing that is known.
        new = PastRun { started, ..if event == "end" { new } else { known } };
    }
    out.push(new);
    Some(())
}

fn plain(word: &str) -> bool {
    word.len() <= 64 && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
}

/// The text of a member of a line that we wrote. The members looked for hold plain words, so that
/// no escape is in them, and no quoted text before them can hold an unescaped `"`.
fn text<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(word, _)| word)
}

/// The number of such a member, which something must end.
fn number(line: &str, name: &str) -> Option<u32> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    let (digits, _) = rest.split_once([',', '}'])?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{called::CalledAs, evidence::Peer, record};
    use muster_sys::file::Root;
    use std::fs;
    use std::path::Path;

    const DIGEST: &str = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";

    fn line(event: &str, run: char, second: u32, more: &str) -> String {
        let run = String::from(run).repeat(32);
        format!(
            "{{\"event\":\"{event}\",\"run\":\"{run}\",\"time\":\"2026-11-29T00:00:{second:02}Z\",\"boot\":\"b\",\"envelope\":2,\
             \"intent_sha256\":\"{DIGEST}\",\"script_sha256\":null,\"profile\":\"p\",\"epoch\":7,\"phase\":\"join\"{more}}}\n"
        )
    }

    fn place() -> (tempfile::TempDir, StateDir) {
        let t = tempfile::tempdir().unwrap();
        let root = Root::at(t.path(), muster_sys::system::user_ids().1).unwrap();
        let dir = StateDir::open_or_make(root, Path::new("/muster/shim")).unwrap();
        (t, dir)
    }

    #[test]
    fn s13_a_run_is_what_its_start_says_and_became_what_its_end_says() {
        let (t, dir) = place();
        assert!(runs(Some(&dir), None, "b").is_empty() && runs(None, None, "b").is_empty());
        let log = t.path().join("muster/shim/runs.log");
        let start = line("start", 'a', 1, "");
        fs::write(&log, &start).unwrap();
        let [run] = &runs(Some(&dir), None, "b")[..] else { panic!() };
        assert_eq!((run.verdict.as_str(), run.started), ("started", Some(run.time)));
        assert_eq!(
            (run.what.intent.map(|d| crate::hex(&d)), run.what.script),
            (Some(DIGEST.to_owned()), None)
        );
        assert_eq!((run.what.profile.as_ref().unwrap().to_string(), run.what.epoch), ("p".into(), Some(7)));
        assert_eq!(runs(Some(&dir), None, "later")[0].verdict, "interrupted", "no end will come any more");
        let end = line(
            "end",
            'a',
            5,
            ",\"verdict\":\"failed\",\"reason\":\"script-failed\",\"exit_code\":3,\"signal\":null",
        );
        // What is torn, or is no record of a run, is passed over.
        let torn = &line("end", 'a', 9, ",\"verdict\":\"ok\"")[..60];
        fs::write(
            &log,
            format!("{}{start}{end}\n{torn}\n{{\"event\":\"sta", &line("start", 'f', 9, "")[40..]),
        )
        .unwrap();
        let all = runs(Some(&dir), None, "b");
        let [run] = &all[..] else { panic!("{all:?}") };
        assert_eq!((run.verdict.as_str(), run.reason.as_deref()), ("failed", Some("script-failed")));
        assert_eq!((run.exit_code, run.signal), (Some(3), None));
        assert_eq!(run.time.unix() - run.started.unwrap().unix(), 4);
    }

    #[test]
    fn s13_runs_are_found_across_a_rotation_and_where_the_log_took_nothing() {
        let (t, dir) = place();
        let at = |name: &str| t.path().join("muster/shim").join(name);
        let ok = ",\"verdict\":\"ok\"";
        let bytes = |run, second| line("start", run, second, "") + &line("end", run, second + 1, ok);
        fs::write(at("runs.log.1"), bytes('a', 1) + &line("start", 'b', 3, "")).unwrap();
        fs::write(at("runs.log"), line("end", 'b', 4, ok)).unwrap();
        let names = || {
            let all = runs(Some(&dir), Some(&dir), "b");
            all.iter().map(|r| format!("{}{}", &r.run.as_str()[..1], r.verdict)).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["bok", "aok"]);
        assert!(runs(Some(&dir), None, "b")[0].started.is_some());
        // A full disk: the end of one run and all of another are in the memory of this boot alone.
        fs::write(at("runs.log"), line("end", 'b', 4, ok) + &line("start", 'c', 5, "")).unwrap();
        fs::write(at(paths::UNLOGGED), line("end", 'c', 6, ok) + &bytes('d', 7)).unwrap();
        assert_eq!(names(), ["dok", "cok", "bok", "aok"]);
        // And it has room again.
        fs::write(at("runs.log"), line("start", 'c', 5, "") + &bytes('e', 20)).unwrap();
        assert_eq!(names()[..2], ["eok", "dok"]);
        fs::write(at(paths::UNLOGGED), "").unwrap();
        fs::write(at("runs.log"), ('0'..='9').map(|c| bytes(c, 30)).collect::<String>()).unwrap();
        assert_eq!(names().len(), MOST);
        assert_eq!(names()[0], "9ok");
    }

    #[test]
    fn s13_what_the_recorder_writes_is_what_is_read() {
        let (_t, dir) = place();
        let mut recorder = record::Recorder::new(CalledAs::Muster, Peer::default());
        let boot = recorder.boot().to_owned();
        recorder.open_log(Some(dir));
        let facts = record::Facts {
            run: RunId::new().ok(),
            envelope: Some(2),
            phase: Some(Phase::Leave),
            profile: Some("p".into()),
            epoch: Some(9),
            intent: Some([1; 32]),
            script: Some([2; 32]),
            // A name cannot hold a quote, and if it could it would be escaped.
            params: vec!["\",\"phase\":\"floor".into()],
            ..record::Facts::default()
        };
        assert!(recorder.run(&facts, record::Event::Start).log.is_ok());
        let all = runs(recorder.state(), None, &boot);
        assert_eq!(all[0].verdict, "started");
        assert_eq!(Some(&all[0].what), Identity::of(&facts).as_ref());
        let _ = recorder.run(
            &facts,
            record::Event::End {
                verdict: record::Verdict::Failed,
                reason: Some(muster_core::Reason::ScriptFailed),
                exit: Some(muster_sys::child::Exit::Signal(9)),
                took: std::time::Duration::ZERO,
                stragglers: 0,
                survivors: 0,
                note: "",
            },
        );
        let all = runs(recorder.state(), None, &boot);
        assert_eq!((all.len(), all[0].verdict.as_str(), all[0].signal), (1, "failed", Some(9)));
    }
}
