//! How a script starts, what is written down about it, and what the state on disk may look like.

use crate::world::{
    KPSSH, MUSTER, POLICY, RUN, STATE, World, collect, copy_program, event, keys, mount, one, probe_two, two,
    world,
};
use sha2::Digest as _;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

#[test]
fn s2_the_script_starts_with_nothing_of_the_callers() {
    world(|w| {
        w.provisioned(&format!("{POLICY}[environment]\nHTTPS_PROXY = \"http://proxy:3128\"\n"));
        let script = "env | sort | grep -vE '^(_|PWD|SHLVL)='; pwd; umask; ulimit -Sc; ulimit -Sf; ulimit -Su; cat; \
            grep -cE 'Sig(Blk|Ign):.0+$' /proc/self/status; readlink /proc/$$/exe | xargs basename; echo \"$0\"; \
            for n in {0..400}; do [ -e /proc/$$/fd/$n ] && echo \"fd $n\"; done\n";
        let wrapper = "ulimit -Sf 100; trap '' PIPE TERM INT; umask 0; cd /tmp; exec 9</etc/passwd; exec -a muster-shim \"$0\"";
        let mut c = Command::new("/bin/bash");
        c.args(["-c", wrapper, env!("CARGO_BIN_EXE_muster-shim")])
            .env_clear()
            .envs([
                ("BASH_ENV", "/tmp/x"),
                ("LD_PRELOAD", ""),
                ("TZ", "Asia/Tokyo"),
                ("LANG", "tr_TR.UTF-8"),
                ("PATH", "/evil"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = c.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&two(script).bytes()).unwrap();
        let out = collect(child);
        let lines: Vec<&str> = out.stdout.lines().collect();
        assert_eq!(lines[0..3], ["HOME=/root", "HTTPS_PROXY=http://proxy:3128", "LANG=C.UTF-8"], "{out:?}");
        assert_eq!(lines[3..5], ["MUSTER_PHASE=join", "MUSTER_PROFILE=p"], "{out:?}");
        assert!(lines[5].starts_with("MUSTER_RUN_ID=") && lines[5].len() == 46, "{out:?}");
        assert_eq!(lines[6], "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "{out:?}");
        assert_eq!(lines[7..11], ["/", "0077", "0", "unlimited"], "{out:?}");
        assert_eq!(lines[12..15], ["2", "bash", "/proc/self/fd/254"], "{out:?}");
        // 255 is where bash itself keeps the script that it reads.
        assert_eq!(lines[15..], ["fd 0", "fd 1", "fd 2", "fd 254", "fd 255"], "{out:?}");
    });
}

#[test]
fn s3_two_records_a_run_and_no_value_in_any() {
    world(|w| {
        w.provisioned(POLICY);
        let canary = "s3cr3t-canary-value";
        let t = two("echo to stderr >&2; exit 7\n")
            .param_line("MUSTER_TOKEN", ".*")
            .param("MUSTER_TOKEN", canary);
        let out = w.call(MUSTER).env("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22").input(&t.bytes());
        assert_eq!(out.verdict(), (10, "script-failed"));
        assert!(out.stderr.contains("script exited 7") && !out.stderr.contains(canary), "{out:?}");
        let records: Vec<_> = w.journal().into_iter().filter(|r| r.contains_key("MUSTER_EVENT")).collect();
        let [start, end] = &records[..] else { panic!("{records:?}") };
        for r in [start, end] {
            assert_eq!(r["MUSTER_RUN"].len(), 32);
            assert_eq!(r["MUSTER_RUN"], start["MUSTER_RUN"]);
            assert_eq!(r["MUSTER_SIGNERS"], keys().signer_fp);
            assert_eq!((r["MUSTER_PROFILE"].as_str(), r["MUSTER_EPOCH"].as_str()), ("p", "1"));
            assert_eq!((r["MUSTER_PHASE"].as_str(), r["MUSTER_TARGET"].as_str()), ("join", "*"));
            assert_eq!(r["MUSTER_PARAMS"], "MUSTER_TOKEN");
            assert_eq!(r["MUSTER_PEER_CLAIMED_ADDRESS"], "192.0.2.7");
            assert_eq!((r["MUSTER_INTENT_SHA256"].len(), r["MUSTER_SCRIPT_SHA256"].len()), (64, 64));
            assert!(!format!("{r:?}").contains(canary));
        }
        assert_eq!((end["MUSTER_VERDICT"].as_str(), end["MUSTER_EXIT_CODE"].as_str()), ("failed", "7"));
        let log = w.log();
        assert_eq!(log.len(), 2);
        assert!(
            log[0].contains("\"event\":\"start\"") && log[1].contains("\"verdict\":\"failed\""),
            "{log:?}"
        );
        assert!(log.iter().all(|l| l.contains(&start["MUSTER_RUN"]) && !l.contains(canary)));
        assert_eq!(fs::metadata(format!("{STATE}/runs.log")).unwrap().mode() & 0o7777, 0o600);
        // A refusal goes to the journal alone.
        w.shim(MUSTER, &two("x").signers(&[&keys().stranger]).bytes());
        assert_eq!(w.events(), ["refused:key-unknown"]);
        assert_eq!(w.log().len(), 2);
    });
}

#[test]
fn s3_a_run_that_is_recorded_nowhere_is_refused_on_envelope_2_and_said_on_envelope_1() {
    world(|w| {
        w.provisioned(POLICY).drop_in();
        fs::remove_file("/run/systemd/journal/socket").unwrap();
        assert_eq!(w.shim(MUSTER, &two("echo ran\n").bytes()).stdout, "ran\n", "the log took it");
        fs::remove_file(format!("{STATE}/runs.log")).unwrap();
        fs::create_dir(format!("{STATE}/runs.log")).unwrap();
        let out = w.shim(MUSTER, &two("echo ran\n").epoch(5).bytes());
        assert_eq!((out.verdict(), out.stdout.as_str()), ((1, "record-unwritable"), ""));
        assert_eq!(w.floor_of("p"), Some(1), "the floor waits for the record");
        assert_eq!(w.run_record(), None);
        fs::remove_file("/etc/muster/shim.toml").unwrap();
        let out = w.shim(KPSSH, &one("echo ran\n", &[]));
        assert_eq!((out.code, out.stdout.as_str()), (Some(0), "ran\n"));
        assert!(out.stderr.contains("recorded nowhere"), "{out:?}");
    });
}

#[test]
fn s8_floors_that_are_missing_or_malformed_are_never_taken_as_none() {
    world(|w| {
        w.provisioned(POLICY);
        let floors = format!("{STATE}/floors");
        let run = || {
            let out = w.shim(MUSTER, &two("echo ran\n").bytes());
            (out.code.unwrap(), out.verdict().1.to_owned())
        };
        fs::remove_file(&floors).unwrap();
        assert_eq!(run(), (1, "floors-missing".into()));
        for bad in
            ["", "muster-floors: 1\n", "muster-floors: 1\ntime-floor: 2026-11-01T00:00:00Z\nfloor: p x\n"]
        {
            w.put(&floors, bad, 0o600);
            assert_eq!(run(), (1, "floors-malformed".into()), "{bad:?}");
        }
        w.floors("floor: p 1\n");
        assert_eq!(run(), (0, String::new()));
        fs::set_permissions(STATE, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(run(), (1, "state-missing".into()));
        fs::remove_dir_all(STATE).unwrap();
        assert_eq!(run(), (1, "state-missing".into()));
    });
}

#[test]
fn s8_a_full_disk_stops_a_rising_floor_and_not_the_current_epoch() {
    world(|w| {
        w.provisioned(POLICY);
        let out = w.shim(MUSTER, &two("echo ran\n").epoch(5).bytes());
        assert_eq!(out.code, Some(0));
        let keep = fs::read(format!("{STATE}/floors")).unwrap();
        let ok = Command::new("mount").args(["-o", "remount,size=256k", "/var/lib"]).status().unwrap();
        assert!(ok.success());
        let mut filler = fs::File::create("/var/lib/filler").unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        let out = w.shim(MUSTER, &two("echo ran\n").epoch(6).bytes());
        assert_eq!((out.verdict(), out.stdout.as_str()), ((1, "internal"), ""), "{out:?}");
        assert_eq!(fs::read(format!("{STATE}/floors")).unwrap(), keep);
        let same = two("echo ran\n").epoch(5).phase("leave").with(|d| d.not_before = crate::world::at(-7200));
        assert_eq!(w.shim(MUSTER, &same.bytes()).stdout, "ran\n");
        let records: Vec<_> = w.journal().into_iter().filter(|r| r.contains_key("MUSTER_EVENT")).collect();
        let events: Vec<_> = records.iter().filter_map(event).collect();
        assert_eq!(
            events[2..],
            ["start", "end:not-started", "refused:internal", "start", "end:ok"],
            "{events:?}"
        );
        let after: Vec<_> = records.iter().map(|r| r.get("MUSTER_FLOOR_AFTER").map(String::as_str)).collect();
        assert_eq!(after, [None, Some("5"), None, None, None, None, Some("5")], "said once it is so");
        let names: Vec<_> = fs::read_dir(STATE).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(!names.iter().any(|n| n.to_string_lossy().ends_with(".tmp")), "{names:?}");
    });
}

#[test]
fn s4_a_key_policy_narrows_and_unknown_is_refused() {
    world(|w| {
        let key_line = fs::read_to_string(keys().dir.path().join("second.pub")).unwrap();
        let blob = key_line.split(' ').nth(1).unwrap();
        let fp = String::from_utf8(
            Command::new("ssh-keygen")
                .arg("-lf")
                .arg(keys().dir.path().join("second.pub"))
                .output()
                .unwrap()
                .stdout,
        )
        .unwrap();
        let fp = fp.split(' ').nth(1).unwrap();
        w.provisioned(&format!("{POLICY}[keys.\"{fp}\"]\nphases = [\"probe\", \"join\"]\n"));
        let auth = format!("/tmp/sshauth.T{}", std::process::id());
        const POOL: u32 = 4_242;
        let claim = |text: &str, owner: u32| {
            fs::write(&auth, text).unwrap();
            std::os::unix::fs::chown(&auth, Some(owner), Some(owner)).unwrap();
        };
        let good = format!("publickey ssh-ed25519 {blob}\n");
        claim(&good, POOL);
        let go = |phase: &str, file: Option<&str>| {
            let mut call = w.call(MUSTER);
            if let Some(f) = file {
                call = call.env("SSH_USER_AUTH", f).env("SUDO_UID", &POOL.to_string());
            }
            let out = call.input(&two("echo ran\n").phase(phase).bytes());
            (out.code.unwrap(), out.verdict().1.to_owned())
        };
        assert_eq!(go("join", Some(&auth)), (0, String::new()));
        assert_eq!(w.journal()[0]["MUSTER_PEER_CLAIMED_KEYS"], fp);
        assert_eq!(go("leave", Some(&auth)), (6, "key-policy".into()));
        assert_eq!(go("join", None), (6, "key-policy".into()));
        assert_eq!(go("join", Some("/etc/passwd")), (6, "key-policy".into()));
        claim(&good, 0);
        assert_eq!(go("join", Some(&auth)), (6, "key-policy".into()), "not the account's own file");
        claim(&format!("{good}publickey {}\n", keys().signer_line), POOL);
        assert_eq!(
            go("join", Some(&auth)),
            (6, "key-policy".into()),
            "each key that was used must be allowed"
        );
        fs::remove_file(&auth).unwrap();
        assert_eq!(w.floor_of("p"), Some(1));
    });
}

#[test]
fn n8_a_script_that_dies_of_a_signal_is_10_and_the_signal_is_recorded() {
    world(|w| {
        w.provisioned(POLICY);
        let out = w.shim(MUSTER, &two("kill -SEGV $$\n").bytes());
        assert_eq!(out.verdict(), (10, "script-failed"));
        assert!(out.stderr.contains("signal SEGV"), "{out:?}");
        let end = w.journal().pop().unwrap();
        assert_eq!(end["MUSTER_SIGNAL"], "11");
        assert!(!end.contains_key("MUSTER_EXIT_CODE"));
    });
}

#[test]
fn n3_without_proc_nothing_runs_and_the_file_of_the_script_is_sealed() {
    world(|w| {
        w.provisioned(POLICY);
        let script = "echo more >> \"$0\" && echo written; cat \"$0\" | tail -n 1; echo end\n";
        let out = w.shim(MUSTER, &two(script).bytes());
        assert_eq!(out.stdout, format!("{}end\n", script), "{out:?}");
        let mut c = Command::new("unshare");
        let line = "mount -t tmpfs none /proc && exec -a muster-shim \"$0\"";
        c.args(["-m", "/bin/bash", "-c", line, env!("CARGO_BIN_EXE_muster-shim")]).stdin(Stdio::null());
        let out = c.output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&out.stderr).contains("[proc-missing]"), "{out:?}");
        assert_eq!(w.events().pop().as_deref(), Some("refused:proc-missing"));
    });
}

#[test]
fn a_probe_takes_no_lock_and_writes_nothing() {
    world(|w| {
        w.provisioned(&format!("envelope-1 = true\n{POLICY}"));
        let before = fs::read_dir(STATE).unwrap().count();
        for input in [probe_two(), b"kpssh-envelope: 1\nphase: probe\n".to_vec()] {
            let out = w.shim(MUSTER, &input);
            assert_eq!((out.code, out.stderr.as_str()), (Some(0), ""), "{out:?}");
        }
        assert!(fs::metadata(RUN).is_err());
        assert_eq!(fs::read_dir(STATE).unwrap().count(), before);
        assert!(w.journal().is_empty());
        w.shim(MUSTER, &two("exit 3\n").epoch(4).bytes());
        let doc = w.shim(MUSTER, &probe_two()).stdout;
        for part in
            ["\"host\":\"edge-1\"", "\"profiles\":{\"p\":4}", "\"verdict\":\"failed\"", "\"running\":null"]
        {
            assert!(doc.contains(part), "{part}: {doc}");
        }
    });
}

#[test]
fn a_run_record_of_another_form_or_boot_is_dealt_with() {
    world(|w| {
        w.provisioned(POLICY);
        assert_eq!(w.shim(MUSTER, &two("echo ran\n").bytes()).stdout, "ran\n");
        w.put(&format!("{RUN}/run"), "nonsense\n", 0o600);
        let out = w.shim(MUSTER, &two("echo ran\n").bytes());
        assert_eq!((out.verdict(), out.stdout.as_str()), ((1, "internal"), ""), "{out:?}");
        let of_before = "muster-run: 1\nrun: 0123456789abcdef0123456789abcdef\nboot: another\nshim: 1 1\ngroup: -\nphase: leave\nsince: 2026-11-29T00:00:00Z\nenvelope: 2\nprofile: p\nepoch: 1\nintent: -\nscript: -\n";
        w.put(&format!("{RUN}/run"), of_before, 0o600);
        w.journal();
        assert_eq!(w.shim(MUSTER, &two("echo ran\n").bytes()).stdout, "ran\n");
        assert_eq!(w.events(), ["end:interrupted", "start", "end:ok"]);
    });
}

#[test]
fn s3_names_of_parameters_cannot_make_a_record_too_long_for_the_journal() {
    world(|w| {
        w.drop_in();
        let long = format!("KPSSH_{}", "A".repeat(60_000));
        let mut params: Vec<(String, String)> =
            (0..3).map(|n| (format!("{long}{n}"), String::new())).collect();
        params.extend((0..5000).map(|n| (format!("KPSSH_B{n}"), String::new())));
        let params: Vec<(&str, &str)> = params.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let out = w.shim(KPSSH, &one("echo ran\n", &params));
        assert_eq!(out.stdout, "ran\n");
        assert!(!out.stderr.contains("recorded nowhere"), "{out:?}");
        let records: Vec<_> = w.journal().into_iter().filter(|r| r.contains_key("MUSTER_EVENT")).collect();
        assert_eq!(records.iter().filter_map(event).collect::<Vec<_>>(), ["start", "end:ok"]);
        for r in &records {
            let size: usize = r.iter().map(|(k, v)| k.len() + v.len()).sum();
            assert!(size < 4096, "{size}");
            let names = &r["MUSTER_PARAMS"];
            assert!(names.contains("...") && names.contains(" +"), "{names}");
            assert!(names.rsplit_once(" sha256:").is_some_and(|(_, d)| d.len() == 64), "{names}");
        }
    });
}

#[test]
fn s3_a_variable_that_no_program_takes_is_refused_before_anything_is_recorded_or_raised() {
    world(|w| {
        w.provisioned(&format!("envelope-1 = true\n{POLICY}")).drop_in();
        let name = "KPSSH_LONG";
        let value = |n: usize| "x".repeat(n - name.len() - 1);
        let out = w.shim(KPSSH, &one("echo ran ${#KPSSH_LONG}\n", &[(name, &value(131_071))]));
        assert_eq!(out.stdout, format!("ran {}\n", 131_071 - name.len() - 1), "{out:?}");
        assert_eq!((w.log().len(), w.events().len()), (2, 2));
        let out = w.shim(KPSSH, &one("echo ran\n", &[(name, &value(131_072))]));
        assert_eq!((out.verdict(), out.stdout.as_str()), ((4, "too-large"), ""));
        assert_eq!((w.log().len(), w.events()), (2, vec!["refused:too-large".to_owned()]));
    });
}

#[test]
fn m8_what_root_is_asked_wrongly_is_journalled() {
    world(|w| {
        w.provisioned(POLICY);
        assert_eq!(w.call(MUSTER).arg("--help").input(b"").verdict(), (1, "argument"));
        assert_eq!(w.shim("bash", b"").verdict(), (1, "called-as"));
        assert_eq!(w.events(), ["refused:argument", "refused:called-as"]);
    });
}

#[test]
fn m9_without_a_boot_id_nothing_runs() {
    world(|w| {
        w.provisioned(POLICY);
        mount(&["--bind", "/dev/null", "/proc/sys/kernel/random/boot_id"]);
        let out = w.shim(MUSTER, &two("echo ran\n").bytes());
        assert_eq!((out.verdict(), out.stdout.as_str()), ((1, "internal"), ""), "{out:?}");
        assert!(fs::metadata(RUN).is_err(), "before the lock");
        assert_eq!(w.events(), ["refused:internal"]);
    });
}

#[test]
fn s9_a_key_that_is_revoked_while_the_input_is_on_its_way_is_revoked() {
    world(|w| {
        w.provisioned(POLICY);
        let input = two("echo ran\n").bytes();
        let (head, tail) = input.split_at(20);
        let mut child = w.call(MUSTER).command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(head).unwrap();
        // It has read the files and waits for the rest of its input.
        let wchan = format!("/proc/{}/syscall", child.id());
        crate::world::until("the shim to wait", || {
            fs::read_to_string(&wchan).is_ok_and(|s| {
                s.starts_with(&format!("{} ", libc::SYS_poll))
                    || s.starts_with(&format!("{} ", libc::SYS_ppoll))
            })
        });
        w.put("/etc/muster/revoked_signers", &format!("{}\n", keys().signer_fp), 0o644);
        stdin.write_all(tail).unwrap();
        drop(stdin);
        let out = collect(child);
        assert_eq!((out.code, out.stdout.as_str()), (Some(2), ""), "{out:?}");
    });
}

#[test]
fn s2_the_callers_limits_do_not_decide_what_is_recorded() {
    world(|w| {
        w.provisioned(POLICY);
        fs::write("/mnt/input", two("echo ran\n").epoch(3).bytes()).unwrap();
        let line = "ulimit -S -f 0; ulimit -S -n 12; exec -a muster-shim \"$0\" < /mnt/input";
        let out =
            Command::new("/bin/bash").args(["-c", line, env!("CARGO_BIN_EXE_muster-shim")]).output().unwrap();
        assert_eq!((out.status.code(), &*out.stdout), (Some(0), &b"ran\n"[..]), "{out:?}");
        assert_eq!((w.floor_of("p"), w.log().len()), (Some(3), 2));
    });
}

#[test]
fn s8_a_probe_tells_broken_floors_as_the_fault_that_they_are() {
    world(|w| {
        w.provisioned(POLICY);
        w.put(&format!("{STATE}/floors"), "nonsense\n", 0o600);
        let out = w.shim(MUSTER, &probe_two());
        assert!(out.stdout.contains("\"policy\":{\"fault\":"), "{out:?}");
        assert!(out.stdout.contains("floors: "), "{out:?}");
        // Without profiles nobody needs them.
        w.put("/etc/muster/shim.toml", "host = \"edge-1\"\n", 0o644);
        let out = w.shim(MUSTER, &probe_two());
        assert!(out.stdout.contains("\"host\":\"edge-1\""), "{out:?}");
    });
}

#[test]
fn m9_the_name_of_the_group_does_not_tell_the_mark() {
    world(|w| {
        w.provisioned(POLICY);
        let script = format!("cat {RUN}/run; cat /proc/self/cgroup; echo \"id $MUSTER_RUN_ID\"\n");
        let out = w.shim(MUSTER, &two(&script).bytes());
        let (seen, id) = out.stdout.split_once("\nid ").unwrap();
        assert_eq!(seen.matches(id.trim_end()).count(), 1, "in the private run record alone: {out:?}");
        assert!(seen.contains("group: -\n") || seen.contains("/muster-run-"), "{out:?}");
    });
}

/// A probe's answer, as one whose objects are asked for by their members.
fn asked(w: &World) -> String {
    let out = w.shim(MUSTER, &probe_two());
    assert_eq!((out.code, out.stderr.as_str()), (Some(0), ""), "{out:?}");
    out.stdout
}

#[test]
fn s13_a_run_is_told_by_its_own_name_and_by_what_was_sent() {
    world(|w| {
        w.provisioned(POLICY);
        let t = two("echo started; until [ -e /run/gate ]; do sleep 0.02; done; exit 3\n").epoch(7);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let intent = hex(&sha2::Sha256::digest(t.intent().as_bytes()));
        let script = hex(&t.draft.script_sha256.unwrap());
        let what = format!(
            "\"envelope\":2,\"phase\":\"join\",\"profile\":\"p\",\"epoch\":7,\
             \"intent-sha256\":\"{intent}\",\"script-sha256\":\"{script}\""
        );
        let mut child = w.call(MUSTER).start(&t.bytes());
        crate::world::wait_for_output(&mut child, "started");
        let going = asked(w);
        fs::write("/run/gate", "").unwrap();
        let out = collect(child);
        let run = out.run().expect("its name is the first line").to_owned();
        assert!(going.contains(&format!("\"running\":{{\"run\":\"{run}\",{what},\"since\":\"20")), "{going}");
        assert!(
            going.contains(&format!("\"last-run\":{{\"run\":\"{run}\",{what},\"started\":\"20")),
            "{going}"
        );
        let over = asked(w);
        assert!(over.contains("\"running\":null"), "{over}");
        let last = over.split_once("\"last-run\":").unwrap().1;
        assert!(last.starts_with(&format!("{{\"run\":\"{run}\",{what},\"started\":\"20")), "{over}");
        assert!(
            last.contains("\"verdict\":\"failed\",\"reason\":\"script-failed\",\"exit-code\":3,"),
            "{over}"
        );
        // Another run comes, and the one that was lost sight of is still told.
        let next = w.shim(MUSTER, &two("echo ran\n").epoch(8).bytes());
        let both = asked(w);
        let (first, second) = (next.run().unwrap(), &run);
        let runs = both.split_once("\"runs\":[").unwrap().1;
        let at =
            |id: &str| runs.find(&format!("{{\"run\":\"{id}\"")).unwrap_or_else(|| panic!("{id}: {both}"));
        assert!(at(first) < at(second), "newest first: {both}");
        // What was refused had no run.
        let refused = w.shim(MUSTER, &two("echo ran\n").epoch(1).bytes());
        assert_eq!((refused.run(), refused.verdict()), (None, (6, "epoch-floor")));
        assert_eq!(asked(w).matches("\"run\":\"").count(), both.matches("\"run\":\"").count());
    });
}

#[test]
fn s13_a_killed_run_keeps_its_identity() {
    world(|w| {
        w.provisioned(POLICY);
        let t = two("sleep 60\n").epoch(7);
        let mut child = w.call_stopping_at("StartRecorded").start(&t.bytes());
        crate::world::wait_stopped(&child);
        child.kill().unwrap();
        let run = collect(child).run().unwrap().to_owned();
        let doc = asked(w);
        assert!(doc.contains("\"alive\":false") && doc.contains("\"verdict\":\"started\""), "{doc}");
        assert_eq!(w.shim(MUSTER, &two("echo ran\n").epoch(7).bytes()).stdout, "ran\n");
        let doc = asked(w);
        let (_, killed) = doc.split_once(&format!(",{{\"run\":\"{run}\",")).expect("the one before the last");
        assert!(killed.contains("\"profile\":\"p\",\"epoch\":7,\"intent-sha256\":\""), "{doc}");
        assert!(killed.contains("\"verdict\":\"interrupted\""), "{doc}");
        // The record of its end says what it was, too, for who reads that one alone.
        let log = w.log();
        let end = log.iter().find(|l| l.contains("\"interrupted\"")).unwrap();
        assert!(end.contains(&run) && end.contains("\"profile\":\"p\",\"epoch\":7"), "{end}");
    });
}

#[test]
fn s13_a_full_disk_does_not_hide_a_run_from_a_probe() {
    world(|w| {
        w.provisioned(POLICY);
        assert_eq!(w.shim(MUSTER, &two("echo ran\n").bytes()).stdout, "ran\n");
        fs::remove_file(format!("{STATE}/runs.log")).unwrap();
        fs::create_dir(format!("{STATE}/runs.log")).unwrap();
        let out = w.shim(MUSTER, &two("exit 4\n").bytes());
        let doc = asked(w);
        let last = doc.split_once("\"last-run\":").unwrap().1;
        assert!(last.starts_with(&format!("{{\"run\":\"{}\"", out.run().unwrap())), "{doc}");
        assert!(last.contains("\"exit-code\":4"), "{doc}");
        // A run that was refused because nobody recorded it is no run.
        fs::remove_file("/run/systemd/journal/socket").unwrap();
        let refused = w.shim(MUSTER, &two("echo ran\n").bytes());
        assert_eq!((refused.run(), refused.verdict()), (None, (1, "record-unwritable")));
        assert_eq!(asked(w).matches("\"run\":\"").count(), doc.matches("\"run\":\"").count());
    });
}

#[test]
fn s13_a_full_stream_loses_the_name_of_a_run_and_stops_nothing() {
    world(|w| {
        w.provisioned(POLICY);
        let (reader, mut writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while writer.write(&[b'x'; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        let mut call = w.call(MUSTER);
        call.command.stderr(writer);
        let out = call.input(&two("echo ran\n").bytes());
        assert_eq!((out.code, out.stdout.as_str()), (Some(0), "ran\n"));
        let mut seen = String::new();
        std::io::Read::read_to_string(&mut { reader }, &mut seen).unwrap();
        assert!(!seen.contains("run"), "{}", seen.trim_start_matches('x'));
    });
}

#[test]
fn s13_envelope_1_has_no_line_of_a_run() {
    world(|w| {
        let out = w.drop_in().shim(KPSSH, &one("echo ran\n", &[]));
        assert_eq!((out.stdout.as_str(), out.stderr.as_str()), ("ran\n", ""), "as with the bash shim");
    });
}

#[test]
fn s3_a_start_is_in_the_log_before_the_script_on_both_envelopes() {
    world(|w| {
        w.provisioned(&format!("envelope-1 = true\n{POLICY}")).drop_in();
        let script = format!("tail -n 1 {STATE}/runs.log\n");
        for (called, input, envelope) in [(KPSSH, one(&script, &[]), 1), (MUSTER, two(&script).bytes(), 2)] {
            let out = w.shim(called, &input);
            assert!(out.stdout.starts_with("{\"event\":\"start\""), "{out:?}");
            assert!(out.stdout.contains(&format!("\"envelope\":{envelope},")), "{out:?}");
        }
    });
}

#[test]
fn one_probe_at_a_time_starts_tools() {
    world(|w| {
        w.provisioned(POLICY);
        let slow =
            "#!/bin/sh\necho >> /run/asked\nuntil [ -e /run/gate ]; do sleep 0.02; done\necho crio 1.2\n";
        // The folder is this test's own: what is under /usr/local is not touched.
        mount(&["-t", "tmpfs", "-o", "mode=755", "muster-test", "/usr/local/sbin"]);
        w.put("/mnt/crio", slow, 0o755);
        copy_program("/mnt/crio", "/usr/local/sbin/crio");
        fs::set_permissions("/usr/local/sbin/crio", fs::Permissions::from_mode(0o755)).unwrap();
        let first = w.call(MUSTER).start(&probe_two());
        crate::world::until("the tool to be asked", || fs::metadata("/run/asked").is_ok());
        let second = asked(w);
        assert!(second.contains("\"crio\":{\"path\":\"/usr/local/sbin/crio\",\"version\":null}"), "{second}");
        assert_eq!(w.shim(MUSTER, &two("echo ran\n").bytes()).stdout, "ran\n", "a run is not held up");
        fs::write("/run/gate", "").unwrap();
        let first = collect(first).stdout;
        assert!(first.contains("\"version\":\"crio 1.2\""), "{first}");
        assert_eq!(fs::read_to_string("/run/asked").unwrap(), "\n", "started once");
        assert!(asked(w).contains("\"version\":\"crio 1.2\""), "and again when it is free");
    });
}

#[test]
fn m7_the_most_that_an_unsigned_intent_makes_the_shim_build_is_bounded() {
    world(|w| {
        w.provisioned(POLICY);
        let mut t = two("echo ran\n").signers(&[&keys().stranger]);
        for n in 0..128 {
            t = t.param_line(&format!("MUSTER_P{n:03}"), "(?:[a-z0-9_.-]{0,63}){0,50}");
        }
        fs::write("/mnt/input", t.bytes()).unwrap();
        // Peak memory and processor time of the whole call, as the kernel counts them.
        let line = "ulimit -v 65536; ulimit -t 5; exec -a muster-shim \"$0\" < /mnt/input";
        let out =
            Command::new("/bin/bash").args(["-c", line, env!("CARGO_BIN_EXE_muster-shim")]).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("[key-unknown]"), "{said}");
    });
}
