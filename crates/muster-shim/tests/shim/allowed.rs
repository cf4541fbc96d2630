//! What an intent may and may not do here and now: envelope 2 against policy, floors and clock.

use crate::world::{
    KPSSH, MUSTER, POLICY, STATE, Two, World, at, collect, keys, one, probe_two, two, wait_stopped, world,
};
use muster_signing::intent::{OnDisconnect, Target};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

const RAN: &str = "echo ran\n";

/// The verdict of an envelope; and nothing ran unless it is 0 or 10.
fn verdict(w: &World, t: &Two<'_>) -> (i32, String) {
    let out = w.shim(MUSTER, &t.bytes());
    let (code, reason) = out.verdict();
    assert_eq!(out.stdout.contains("ran"), code == 0, "{out:?}");
    assert_eq!(out.said().is_empty(), code == 0, "{out:?}");
    (code, reason.to_owned())
}

fn refused(w: &World, t: &Two<'_>, code: i32, reason: &str) {
    assert_eq!(verdict(w, t), (code, reason.to_owned()));
}

fn runs(w: &World, t: &Two<'_>) {
    assert_eq!(verdict(w, t), (0, String::new()));
}

#[test]
fn m1_a_signed_value_reaches_the_script_and_no_parameter_replaces_it() {
    world(|w| {
        w.provisioned(POLICY);
        let script = "echo \"ran [$MUSTER_ENDPOINT] [$MUSTER_NODE]\"\n";
        let base = || {
            two(script)
                .value_line("MUSTER_ENDPOINT", "https://10.0.0.5:6443 $(id)")
                .param_line("MUSTER_NODE", "[a-z]+")
        };
        let out = w.shim(MUSTER, &base().param("MUSTER_NODE", "edge").bytes());
        assert_eq!(
            (out.code, out.stdout.as_str()),
            (Some(0), "ran [https://10.0.0.5:6443 $(id)] [edge]\n"),
            "{out:?}"
        );
        let thief = base().param("MUSTER_ENDPOINT", "https://thief:6443").param("MUSTER_NODE", "edge");
        refused(w, &thief, 6, "param-is-value");
        refused(w, &base(), 6, "param-missing");
        refused(w, &base().param("MUSTER_NODE", "edge;id"), 6, "param-pattern");
        refused(w, &base().param("MUSTER_NODE", "edge").param("MUSTER_OTHER", "x"), 6, "param-undeclared");
        refused(w, &base().param("BASH_ENV", "/tmp/x").param("MUSTER_NODE", "edge"), 3, "param-name");
        refused(w, &base().param("MUSTER_NODE", "a\0b"), 3, "param-form");
    });
}

#[test]
fn m2_a_higher_epoch_does_not_stop_a_stolen_signer_and_its_revocation_does() {
    world(|w| {
        w.provisioned(POLICY);
        runs(w, &two(RAN).epoch(7));
        // The thief signs the next epoch himself.
        runs(w, &two(RAN).epoch(8));
        w.put("/etc/muster/revoked_signers", &format!("{}\n", keys().signer_fp), 0o644);
        refused(w, &two(RAN).epoch(8), 2, "revoked");
        runs(w, &two(RAN).epoch(8).signers(&[&keys().second]));
    });
}

#[test]
fn m3_epoch_step_is_refused() {
    world(|w| {
        w.provisioned(POLICY);
        runs(w, &two(RAN).epoch(100_000));
        refused(w, &two(RAN).epoch(101_001), 6, "epoch-step");
        refused(w, &two(RAN).epoch(u32::MAX), 6, "epoch-step");
        assert_eq!(w.floor_of("p"), Some(100_000));
        runs(w, &two(RAN).epoch(101_000));
        refused(w, &two(RAN).epoch(100_999), 6, "epoch-floor");
        let narrow = format!("epoch-max-step = 1\n{POLICY}");
        w.put("/etc/muster/shim.toml", &narrow, 0o644);
        refused(w, &two(RAN).epoch(101_002), 6, "epoch-step");
        runs(w, &two(RAN).epoch(101_001));
    });
}

#[test]
fn m4_unlisted_profiles_and_old_intents_on_a_fresh_host_are_refused() {
    world(|w| {
        w.provisioned("[profiles.p]\nmin-epoch = 7\n");
        refused(w, &two(RAN).with(|d| d.profile = "p-old".parse().unwrap()), 6, "profile");
        refused(w, &two(RAN).epoch(6), 6, "epoch-floor");
        refused(w, &two(RAN).epoch(1008), 6, "epoch-step");
        runs(w, &two(RAN).epoch(7));
        w.put("/etc/muster/shim.toml", "host = \"edge-1\"\n", 0o644);
        refused(w, &two(RAN).epoch(7), 1, "no-policy");
        fs::remove_file("/etc/muster/shim.toml").unwrap();
        refused(w, &two(RAN).epoch(7), 1, "no-policy");
        w.put("/etc/muster/shim.toml", "[profiles]\n", 0o644);
        refused(w, &two(RAN).epoch(7), 6, "profile");
    });
}

#[test]
fn m5_what_is_refused_moves_no_floor_and_what_runs_moves_it_before_it_ends() {
    world(|w| {
        w.provisioned(POLICY);
        let before = fs::read_to_string(format!("{STATE}/floors")).unwrap();
        let high = || two(RAN).epoch(50);
        refused(w, &high().with(|d| d.targets = vec![Target::Host("edge-2".parse().unwrap())]), 6, "target");
        refused(w, &high().with(|d| d.not_before = at(1800)), 6, "not-yet-valid");
        refused(w, &high().with(|d| d.not_after = at(-1)), 6, "expired");
        refused(w, &high().with(|d| d.deadline = 7201), 6, "deadline-cap");
        refused(w, &high().param_line("MUSTER_A", "x"), 6, "param-missing");
        refused(w, &high().signers(&[&keys().stranger]), 2, "key-unknown");
        assert_eq!(fs::read_to_string(format!("{STATE}/floors")).unwrap(), before);
        // A script that fails has raised it all the same, and equal epoch runs again.
        let out = w.shim(MUSTER, &two("cat /var/lib/muster/shim/floors; exit 3\n").epoch(50).bytes());
        assert_eq!(out.verdict(), (10, "script-failed"));
        assert!(out.stdout.contains("floor: p 50\n"), "durable before the script: {out:?}");
        runs(w, &high());
        refused(w, &two(RAN).epoch(49), 6, "epoch-floor");
    });
}

/// The store that is begun by a run that fails is begun all the same.
#[test]
fn ve10_the_first_contact_records_the_floor_even_when_its_script_fails() {
    world(|w| {
        w.provisioned(POLICY);
        assert_eq!(w.floor_of("p"), None);
        assert_eq!(w.shim(MUSTER, &two("exit 1\n").epoch(4).bytes()).verdict(), (10, "script-failed"));
        assert_eq!(w.floor_of("p"), Some(4));
        refused(w, &two(RAN).epoch(3), 6, "epoch-floor");
    });
}

#[test]
fn ve11_a_floor_outlives_the_signer_that_raised_it() {
    world(|w| {
        w.provisioned(POLICY);
        runs(w, &two(RAN).epoch(30));
        // The signer's time runs out; another one, with an older intent, does not begin anew.
        let k = keys();
        let lines = format!(
            "muster namespaces=\"muster-intent\",valid-before=\"20200101000000Z\" {}\n\
             muster namespaces=\"muster-intent\" {}\n",
            k.signer_line, k.second_line
        );
        w.put("/etc/muster/allowed_signers", &lines, 0o644);
        refused(w, &two(RAN).epoch(31), 2, "key-expired");
        refused(w, &two(RAN).epoch(29).signers(&[&k.second]), 6, "epoch-floor");
        assert_eq!(w.floor_of("p"), Some(30));
        runs(w, &two(RAN).epoch(30).signers(&[&k.second]));
    });
}

#[test]
fn ve13_a_run_whose_intent_expires_meanwhile_goes_on_to_its_end() {
    world(|w| {
        w.provisioned(POLICY);
        let ends = at(3);
        let script =
            format!("while [ $(date +%s) -le {} ]; do sleep 0.2; done; echo after\n", ends.unix() + 1);
        let intent = two(&script).epoch(1).with(|d| d.not_after = ends);
        let out = w.shim(MUSTER, &intent.bytes());
        assert_eq!((out.verdict(), out.stdout.as_str()), ((0, ""), "after\n"), "{out:?}");
        refused(w, &intent, 6, "expired");
    });
}

#[test]
fn m5_the_floor_that_counts_is_the_one_under_the_lock() {
    world(|w| {
        w.provisioned(POLICY);
        w.floors("floor: p 3\n");
        let child = w.call_stopping_at("Locked").start(&two(RAN).epoch(4).bytes());
        wait_stopped(&child);
        // What every check before the lock has seen is history.
        w.floors("floor: p 5\n");
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        let out = collect(child);
        assert_eq!((out.verdict(), out.stdout.as_str()), ((6, "epoch-floor"), ""), "{out:?}");
        assert_eq!(w.floor_of("p"), Some(5));
    });
}

#[test]
fn m6_envelope_1_is_no_way_around_an_intent() {
    world(|w| {
        w.provisioned(POLICY).drop_in();
        let input = one(RAN, &[]);
        for called in [MUSTER, KPSSH] {
            assert_eq!(w.shim(called, &input).verdict(), (4, "envelope-1-off"), "{called}");
            assert_eq!(w.shim(called, b"kpssh-envelope: 1\nphase: probe\n").verdict(), (4, "envelope-1-off"));
        }
        let on = format!("envelope-1 = true\n{POLICY}");
        w.put("/etc/muster/shim.toml", &on, 0o644);
        w.put(
            "/etc/muster/allowed_signers",
            &format!("kpssh namespaces=\"kpssh\" {}\n", keys().signer_line),
            0o644,
        );
        for called in [MUSTER, KPSSH] {
            assert_eq!(w.shim(called, &input).stdout, "ran\n", "{called}");
        }
        w.put("/etc/muster/shim.toml", &format!("envelope-1 = true\nsigners-needed = 2\n{POLICY}"), 0o644);
        w.put(
            "/etc/kpssh/allowed_signers",
            &format!("*  {}\n*  {}\n", keys().signer_line, keys().second_line),
            0o644,
        );
        assert_eq!(w.shim(KPSSH, &input).verdict(), (4, "envelope-1-off"));
        fs::remove_file("/etc/muster/shim.toml").unwrap();
        assert_eq!(w.shim(MUSTER, &input).verdict(), (4, "envelope-1-off"));
        assert_eq!(w.shim(KPSSH, &input).stdout, "ran\n");
        let both = [&b"kpssh-envelope: 1\n"[..], &probe_two()].concat();
        assert_eq!(w.shim(KPSSH, &both).verdict(), (4, "version"));
    });
}

#[test]
fn m7_the_order_of_checks_is_kept() {
    world(|w| {
        w.provisioned(POLICY);
        // Each has every later fault too, so that only the order decides.
        let late = || {
            two(RAN)
                .with(|d| {
                    d.profile = "other".parse().unwrap();
                    d.targets = vec![Target::Host("edge-2".parse().unwrap())];
                    d.not_after = at(-1);
                    d.not_before = at(-10);
                    d.deadline = 86_400;
                })
                .param("BAD", "x")
        };
        let text = |t: &Two<'_>| String::from_utf8(t.bytes()).unwrap();
        let say = |input: &str| {
            let out = w.shim(MUSTER, input.as_bytes());
            let (code, reason) = out.verdict();
            (code, reason.to_owned())
        };
        let outer = |input: &str, phase: &str| input.replacen("phase: join", &format!("phase: {phase}"), 1);
        let all = text(&late().signers(&[&keys().stranger]));
        assert_eq!(say(&outer(&all, "exec").replacen(": 2", ": 3", 1)), (4, "version".into()));
        assert_eq!(say(&outer(&all, "exec")), (5, "phase-unknown".into()));
        assert_eq!(say(&all), (2, "key-unknown".into()));
        let other_script = |input: &str| {
            let (head, _) = input.split_once("script-b64: ").unwrap();
            format!("{head}script-b64: ZWNobyBvdGhlcgo=\n")
        };
        let signed = text(&late());
        assert_eq!(say(&other_script(&outer(&signed, "leave"))), (2, "script-digest".into()));
        assert_eq!(say(&outer(&signed, "leave")), (6, "phase-mismatch".into()));
        assert_eq!(say(&signed), (6, "profile".into()));
        let p = |t: Two<'static>| t.with(|d| d.profile = "p".parse().unwrap());
        assert_eq!(say(&text(&p(late()))), (6, "target".into()));
        let here = |t: Two<'static>| p(t).with(|d| d.targets = vec![Target::Any]);
        w.put(
            &format!("{STATE}/floors"),
            "muster-floors: 1\ntime-floor: 2040-01-01T00:00:00Z\nfloor: p 9\n",
            0o600,
        );
        assert_eq!(say(&text(&here(late()))), (6, "clock-behind".into()));
        w.floors("floor: p 9\n");
        assert_eq!(say(&text(&here(late()))), (6, "expired".into()));
        let valid = |t: Two<'static>| here(t).with(|d| d.not_after = at(3600));
        assert_eq!(say(&text(&valid(late()))), (6, "deadline-cap".into()));
        let short = |t: Two<'static>| valid(t).with(|d| d.deadline = 60);
        assert_eq!(say(&text(&short(late()))), (3, "param-name".into()));
        assert_eq!(say(&text(&two(RAN).param("MUSTER_A", "x"))), (6, "param-undeclared".into()));
        assert_eq!(say(&text(&two(RAN))), (6, "epoch-floor".into()));
        assert!(w.events().iter().all(|e| e.starts_with("refused:")));
    });
}

#[test]
fn m8_no_argument_and_nothing_of_the_environment_decides() {
    world(|w| {
        w.drop_in().put("/mnt/evil", "kpssh ssh-ed25519 AAAA\n", 0o644);
        let input = one("echo ran; echo \"[$KPSSH_NAMESPACE$BASH_ENV$LD_PRELOAD]\"\n", &[]);
        for arg in ["--help", "", "--config=/tmp/x", "floor"] {
            // Before anything else: even with nothing on standard input to read.
            let out = w.call(KPSSH).arg(arg).input(b"");
            assert_eq!(out.verdict(), (1, "argument"), "{arg:?}");
        }
        assert_eq!(w.shim("sh", &input).verdict(), (1, "called-as"));
        assert_eq!(w.shim("/tmp/evil/kpssh-shim", &input).code, Some(0));
        let out = w
            .call(KPSSH)
            .env("KPSSH_ALLOWED_SIGNERS", "/mnt/evil")
            .env("KPSSH_NAMESPACE", "other")
            .env("KPSSH_PRINCIPAL", "other")
            .env("KPSSH_SHIM_SUDO", "0")
            .env("MUSTER_TEST_STOP_AT", "Locked")
            .env("BASH_ENV", "/mnt/evil")
            .env("TMPDIR", "/nonexistent")
            .env("TZ", "Asia/Tokyo")
            .input(&input);
        assert_eq!((out.code, out.stdout.as_str()), (Some(0), "ran\n[]\n"), "{out:?}");
    });
}

#[test]
fn m13_signers_are_counted_by_identity_and_a_bad_signature_refuses_all() {
    world(|w| {
        w.provisioned(&format!("signers-needed = 2\n{POLICY}"));
        let k = keys();
        refused(w, &two(RAN), 2, "threshold");
        refused(w, &two(RAN).signers(&[&k.signer, &k.signer]), 2, "threshold");
        runs(w, &two(RAN).signers(&[&k.signer, &k.second]));
        refused(w, &two(RAN).signers(&[&k.signer, &k.second, &k.stranger]), 2, "key-unknown");
        // Listed twice is still one key.
        let line = format!("muster {}\n", k.signer_line);
        w.put("/etc/muster/allowed_signers", &(line.clone() + &line), 0o644);
        let out = w.shim(MUSTER, &two(RAN).signers(&[&k.signer, &k.second]).bytes());
        assert_eq!(out.verdict(), (1, "policy-invalid"));
        assert!(out.stderr.contains("signers-needed is 2") && out.stderr.contains("can give 1"), "{out:?}");
    });
}

#[test]
fn m14_the_clock_floor_is_made_of_signed_times() {
    world(|w| {
        w.provisioned(POLICY);
        let start = at(-600);
        runs(w, &two(RAN).with(|d| d.not_before = start));
        let text = fs::read_to_string(format!("{STATE}/floors")).unwrap();
        assert!(text.contains(&format!("time-floor: {start}\n")), "{text}");
        // An older intent does not lower it.
        runs(w, &two(RAN).with(|d| d.not_before = at(-7200)));
        assert_eq!(fs::read_to_string(format!("{STATE}/floors")).unwrap(), text);
        w.put(&format!("{STATE}/floors"), &text.replace(&start.to_string(), &at(86_400).to_string()), 0o600);
        let out = w.shim(MUSTER, &two(RAN).bytes());
        assert_eq!(out.verdict(), (6, "clock-behind"));
        assert!(out.stderr.contains(&at(86_400).to_string()[..16]), "both times are named: {out:?}");
        assert!(out.stderr.contains("kernel"), "{out:?}");
        w.drop_in();
        fs::remove_file("/etc/muster/shim.toml").unwrap();
        assert_eq!(w.shim(KPSSH, &one(RAN, &[])).stdout, "ran\n", "envelope 1 has the build date only");
    });
}

#[test]
fn s1_dates_are_the_machines_and_need_z_where_intents_are_taken() {
    world(|w| {
        let k = keys();
        // Two hours from now on a machine whose zone is 9 hours ahead: over already in UTC terms.
        let zone = Path::new("/usr/share/zoneinfo/Asia/Tokyo");
        if zone.exists() {
            let _ = fs::remove_file("/etc/localtime");
            symlink(zone, "/etc/localtime").unwrap();
            let local = at(9 * 3600 - 60).to_string();
            let digits: String = local.chars().filter(char::is_ascii_digit).take(14).collect();
            w.put(
                "/etc/kpssh/allowed_signers",
                &format!("kpssh valid-before=\"{digits}\" {}\n", k.signer_line),
                0o644,
            );
            let out = w.call(KPSSH).env("TZ", "UTC").input(&one(RAN, &[]));
            assert_eq!(out.verdict(), (2, "key-expired"), "the caller's TZ would give it 9 hours more");
            let out = w.call(KPSSH).env("TZ", "America/New_York").input(&one(RAN, &[]));
            assert_eq!(out.verdict(), (2, "key-expired"));
            let local = at(9 * 3600 + 600).to_string();
            let digits: String = local.chars().filter(char::is_ascii_digit).take(14).collect();
            w.put(
                "/etc/kpssh/allowed_signers",
                &format!("kpssh valid-before=\"{digits}\" {}\n", k.signer_line),
                0o644,
            );
            assert_eq!(w.call(KPSSH).env("TZ", "UTC").input(&one(RAN, &[])).stdout, "ran\n");
        }
        w.provisioned(POLICY);
        for (date, want) in [("20991231", (2, "trust-file-malformed")), ("20991231Z", (0, ""))] {
            let line = format!("muster valid-before=\"{date}\" {}\n", k.signer_line);
            w.put("/etc/muster/allowed_signers", &line, 0o644);
            assert_eq!(w.shim(MUSTER, &two(RAN).bytes()).verdict(), want, "{date}");
        }
    });
}

#[test]
fn s5_the_deadline_of_an_intent_is_capped() {
    world(|w| {
        w.provisioned(&format!("max-deadline = 100\n{POLICY}"));
        refused(w, &two(RAN).with(|d| d.deadline = 101), 6, "deadline-cap");
        runs(w, &two(RAN).with(|d| d.deadline = 100));
    });
}

#[test]
fn s9_the_revocation_list_is_required_unless_the_policy_says_otherwise() {
    world(|w| {
        w.provisioned(POLICY);
        let list = "/etc/muster/revoked_signers";
        runs(w, &two(RAN));
        w.put(list, "not a key\n", 0o644);
        refused(w, &two(RAN), 2, "revocation-list-unreadable");
        w.put(list, "", 0o666);
        refused(w, &two(RAN), 2, "revocation-list-unreadable");
        fs::remove_file(list).unwrap();
        refused(w, &two(RAN), 2, "revocation-list-unreadable");
        w.put("/etc/muster/shim.toml", &format!("revoked-signers = \"optional\"\n{POLICY}"), 0o644);
        runs(w, &two(RAN));
        w.put(list, "not a key\n", 0o644);
        refused(w, &two(RAN), 2, "revocation-list-unreadable");
        w.put(list, &format!("# left the team\n{}\n", keys().signer_line), 0o644);
        refused(w, &two(RAN), 2, "revoked");
        // And envelope 1 knows it too.
        w.drop_in();
        fs::remove_file("/etc/muster/shim.toml").unwrap();
        assert_eq!(w.shim(KPSSH, &one(RAN, &[])).verdict(), (2, "revoked"));
    });
}

#[test]
fn s10_unsafe_trust_files_and_parents_refuse() {
    world(|w| {
        let set =
            |path: &str, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let signers = "/etc/muster/allowed_signers";
        w.provisioned(POLICY);
        runs(w, &two(RAN));
        for (path, bad, good, want) in [
            (signers, 0o664, 0o644, (2, "trust-file-unsafe")),
            (signers, 0o646, 0o644, (2, "trust-file-unsafe")),
            ("/etc/muster/shim.toml", 0o664, 0o644, (1, "policy-unsafe")),
            ("/etc/muster", 0o775, 0o755, (1, "policy-unsafe")),
            ("/etc", 0o777, 0o755, (1, "policy-unsafe")),
        ] {
            set(path, bad);
            assert_eq!(w.shim(MUSTER, &two(RAN).bytes()).verdict(), want, "{path} {bad:o}");
            set(path, good);
        }
        chown(signers, Some(1000), None).unwrap();
        refused(w, &two(RAN), 2, "trust-file-unsafe");
        fs::rename(signers, "/etc/muster/real").unwrap();
        chown("/etc/muster/real", Some(0), None).unwrap();
        symlink("real", signers).unwrap();
        refused(w, &two(RAN), 2, "trust-file-unsafe");
        fs::remove_file(signers).unwrap();
        refused(w, &two(RAN), 2, "trust-file-missing");
        // Before any input is read, on this road; last of all, on the old one.
        assert_eq!(w.shim(MUSTER, &probe_two()).verdict(), (2, "trust-file-missing"));
        fs::remove_file("/etc/muster/shim.toml").unwrap();
        assert_eq!(w.shim(KPSSH, b"kpssh-envelope: 1\nphase: probe\n").code, Some(0));
        assert_eq!(w.shim(KPSSH, b"kpssh-envelope: 1\nphase: nonsense\n").verdict(), (5, "phase-unknown"));
        let out = w.shim(KPSSH, &one(RAN, &[]));
        assert_eq!(out.verdict(), (2, "trust-file-missing"));
        assert!(out.stderr.contains("signature rejected"), "{out:?}");
        w.put("/etc/muster/shim.toml", "host = edge\n", 0o644);
        let out = w.shim(KPSSH, &one(RAN, &[]));
        assert_eq!(out.verdict(), (1, "policy-invalid"));
        assert!(out.stderr.contains("/etc/muster/shim.toml: line 1:"), "{out:?}");
    });
}

#[test]
fn s11_targets_match_whole_names_of_the_policy_alone() {
    world(|w| {
        w.provisioned("host = \"edge-1\"\npools = [\"edge\", \"lab\"]\n[profiles.p]\n");
        let on = |list: &[&str]| {
            let targets = list.iter().map(|t| match t.split_once('=') {
                Some(("host", n)) => Target::Host(n.parse().unwrap()),
                Some((_, n)) => Target::Pool(n.parse().unwrap()),
                None => Target::Any,
            });
            let targets = targets.collect();
            two(RAN).with(|d| d.targets = targets)
        };
        for good in [&["*"][..], &["host=edge-1"], &["pool=lab"], &["host=other", "pool=edge"]] {
            runs(w, &on(good));
        }
        for bad in [&["host=edge-11"][..], &["host=edge"], &["pool=edge-1"], &["host=edge-2", "pool=other"]] {
            refused(w, &on(bad), 6, "target");
        }
        w.put("/etc/muster/shim.toml", "[profiles.p]\n", 0o644);
        runs(w, &on(&["*"]));
        refused(w, &on(&["host=edge-1"]), 6, "target");
    });
}

#[test]
fn s14_the_floor_phase_raises_the_floor_and_runs_nothing() {
    world(|w| {
        w.provisioned(POLICY);
        let floor = |epoch| two(RAN).phase("floor").epoch(epoch);
        let out = w.shim(MUSTER, &floor(9).bytes());
        assert_eq!((out.code, out.stdout.as_str()), (Some(0), ""), "{out:?}");
        assert_eq!(w.floor_of("p"), Some(9));
        assert_eq!(w.events(), ["start", "end:ok"]);
        refused(w, &two(RAN).epoch(8), 6, "epoch-floor");
        assert_eq!(w.shim(MUSTER, &floor(8).bytes()).verdict(), (6, "epoch-floor"));
        assert_eq!(w.shim(MUSTER, &floor(2000).bytes()).verdict(), (6, "epoch-step"));
        runs(w, &two(RAN).epoch(9));
    });
}

#[test]
fn ve15_an_envelope_without_a_good_signature_never_runs() {
    world(|w| {
        w.provisioned(POLICY);
        let text = String::from_utf8(two(RAN).bytes()).unwrap();
        let sig = text.lines().find(|l| l.starts_with("sig-b64")).unwrap();
        for (bad, code) in [("", 4), ("sig-b64: \n", 4), ("sig-b64: AAAA\n", 4), ("sig-b64: LS0tLS0K\n", 4)] {
            let out = w.shim(MUSTER, text.replace(&format!("{sig}\n"), bad).as_bytes());
            assert_eq!(out.code, Some(code), "{bad:?} {out:?}");
            assert_eq!(out.stdout, "");
        }
        let twice = text.replace(sig, &format!("{sig}\n{sig}"));
        assert_eq!(w.shim(MUSTER, twice.as_bytes()).stdout, "ran\n", "the same signer twice is one signer");
        let mut git = two(RAN);
        git.namespace = "git";
        refused(w, &git, 2, "namespace");
        refused(
            w,
            &two(RAN).with(|d| d.on_disconnect = OnDisconnect::Finish).signers(&[&keys().stranger]),
            2,
            "key-unknown",
        );
    });
}
