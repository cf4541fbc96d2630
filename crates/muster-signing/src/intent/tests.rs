use super::*;
use crate::Reason;
use proptest::prelude::*;

/// A whole and well-formed intent, to be changed.
const GOOD: &str = "muster-intent: 1\n\
    profile: tls-bootstrap\n\
    phase: join\n\
    script-sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n\
    target: host=edge-1\n\
    target: pool=edge\n\
    value: MUSTER_CLUSTER_ENDPOINT aHR0cHM6Ly8xMC4wLjAuNTo2NDQz\n\
    param: MUSTER_NODE_NAME [a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\n\
    param: MUSTER_ZONE? [a-z]+\n\
    epoch: 7\n\
    not-before: 2026-11-29T00:00:00Z\n\
    not-after: 2026-12-29T00:00:00Z\n\
    deadline: 900\n\
    on-disconnect: finish\n";

fn good() -> Intent {
    Intent::parse(GOOD.as_bytes()).unwrap()
}

/// The line of the fault after `from` was replaced by `to`.
fn fault(from: &str, to: &str) -> usize {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    match Intent::parse(text.as_bytes()) {
        Ok(_) => panic!("accepted: {from:?} -> {to:?}"),
        Err(fault) => fault.line,
    }
}

fn accepts(from: &str, to: &str) -> Intent {
    assert!(GOOD.contains(from), "{from}");
    Intent::parse(GOOD.replacen(from, to, 1).as_bytes()).unwrap_or_else(|f| panic!("{to:?}: {f}"))
}

fn time(text: &str) -> UtcTime {
    UtcTime::parse(text).unwrap()
}

#[test]
fn m7_every_field_is_read() {
    let intent = good();
    assert_eq!(intent.profile().as_str(), "tls-bootstrap");
    assert_eq!(intent.phase(), Phase::Join);
    assert_eq!(intent.script_sha256().unwrap()[..3], [0x9f, 0x86, 0xd0]);
    assert_eq!(
        intent.targets().iter().map(Target::to_string).collect::<Vec<_>>(),
        ["host=edge-1", "pool=edge"]
    );
    assert_eq!(intent.values()[0].value, b"https://10.0.0.5:6443");
    assert_eq!(intent.params().iter().map(|p| p.optional).collect::<Vec<_>>(), [false, true]);
    assert_eq!((intent.epoch(), intent.deadline(), intent.on_disconnect()), (7, 900, OnDisconnect::Finish));
    assert_eq!(intent.not_before(), time("2026-11-29T00:00:00Z"));
    assert_eq!(intent.not_after(), time("2026-12-29T00:00:00Z"));
    assert_eq!(accepts("on-disconnect: finish\n", "").on_disconnect(), OnDisconnect::End);
    assert_eq!(accepts("disconnect: finish", "disconnect: end").on_disconnect(), OnDisconnect::End);
}

#[test]
fn m7_the_digest_is_of_the_received_bytes() {
    use sha2::Digest as _;
    assert_eq!(good().digest()[..], sha2::Sha256::digest(GOOD)[..]);
}

#[test]
fn m7_an_unknown_missing_repeated_or_moved_line_refuses() {
    let lines: Vec<&str> = GOOD.lines().collect();
    for n in 0..lines.len() {
        let without: String =
            lines.iter().enumerate().filter(|(i, _)| *i != n).map(|(_, l)| format!("{l}\n")).collect();
        // A target, a value or a parameter may be absent; on-disconnect too.
        let optional = (4..=8).contains(&n) || n == 13;
        assert_eq!(Intent::parse(without.as_bytes()).is_ok(), optional, "without line {}", n + 1);
        let doubled: String = lines
            .iter()
            .enumerate()
            .map(|(i, l)| if i == n { format!("{l}\n{l}\n") } else { format!("{l}\n") })
            .collect();
        let got = Intent::parse(doubled.as_bytes()).unwrap_err();
        assert_eq!(got.line, n + 2, "line {} twice: {got}", n + 1);
        if n > 0 {
            let mut swapped = lines.clone();
            swapped.swap(n - 1, n);
            assert!(
                Intent::parse((swapped.join("\n") + "\n").as_bytes()).is_err(),
                "line {} before {n}",
                n + 1
            );
        }
        let unknown: String = lines
            .iter()
            .enumerate()
            .map(|(i, l)| if i == n { format!("requires: 2\n{l}\n") } else { format!("{l}\n") })
            .collect();
        assert!(Intent::parse(unknown.as_bytes()).is_err(), "unknown line before {}", n + 1);
    }
    assert_eq!(Intent::parse((GOOD.to_owned() + "requires: 2\n").as_bytes()).unwrap_err().line, 15);
    assert!(Intent::parse(GOOD.replace("target: host=edge-1\ntarget: pool=edge\n", "").as_bytes()).is_err());
}

#[test]
fn m7_bytes_line_ends_and_spaces() {
    assert_eq!(fault("profile: tls", "profile: t\u{e9}s"), 2);
    assert_eq!(fault("phase: join\n", "phase: join\r\n"), 3);
    assert_eq!(fault("phase: join\n", "phase: join \n"), 3);
    assert_eq!(fault("phase: join\n", " phase: join\n"), 3);
    assert_eq!(fault("phase: join\n", "phase:\tjoin\n"), 3);
    assert_eq!(fault("phase: join\n", "phase:  join\n"), 3);
    assert_eq!(fault("phase: join\n", "phase:join\n"), 3);
    assert_eq!(fault("phase: join\n", "Phase: join\n"), 3);
    assert_eq!(fault("phase: join\n", "\nphase: join\n"), 3);
    assert_eq!(fault("phase: join\n", "phase: jo\0in\n"), 3);
    assert_eq!(fault("finish\n", "finish\n\n"), 15);
    assert_eq!(fault("finish\n", "finish"), 0);
    assert_eq!(Intent::parse(b"").unwrap_err().line, 0);
    assert_eq!(Intent::parse(b"\n").unwrap_err().line, 1);
    assert_eq!(fault("muster-intent: 1", "muster-intent: 2"), 1);
    assert_eq!(fault("muster-intent: 1", "muster-intent: 01"), 1);
}

#[test]
fn m7_a_profile_name_is_no_path() {
    for bad in ["../x", "a/b", "a.b", "A", "-a", "", &"a".repeat(64)] {
        assert_eq!(fault("profile: tls-bootstrap", &format!("profile: {bad}")), 2, "{bad}");
    }
}

#[test]
fn m7_bounds() {
    let line = |n: usize| format!("value: MUSTER_CLUSTER_ENDPOINT {}", "A".repeat(n - 31));
    assert_eq!(line(MAX_LINE).len(), MAX_LINE);
    let value = "value: MUSTER_CLUSTER_ENDPOINT aHR0cHM6Ly8xMC4wLjAuNTo2NDQz";
    // 4096 - 31 is not a multiple of four: the nearest that is stands for the bound.
    let text = format!("value: MUSTER_CLUSTER_ENDPOINT {}", "AQEB".repeat((MAX_LINE - 31) / 4));
    accepts(value, &text);
    assert_eq!(fault(value, &format!("{text}AQEB")), 7);
    let many = |n: usize| (0..n).map(|i| format!("target: host=h{i:05}\n")).collect::<String>();
    accepts("target: host=edge-1\n", &many(MAX_TARGETS - 1));
    assert_eq!(fault("target: host=edge-1\n", &many(MAX_TARGETS)), 4 + MAX_TARGETS + 1);
    let many = |n: usize| (0..n).map(|i| format!("param: KPSSH_{i:05} x\n")).collect::<String>();
    let before = "value: MUSTER_CLUSTER";
    accepts(before, &(many(MAX_NAMES - 3) + before));
    assert_eq!(fault(before, &(many(MAX_NAMES - 2) + before)), 6 + MAX_NAMES + 1);
    let long = |n: usize| format!("param: MUSTER_ZONE? {}", "a".repeat(n));
    accepts("param: MUSTER_ZONE? [a-z]+", &long(MAX_PATTERN));
    assert_eq!(fault("param: MUSTER_ZONE? [a-z]+", &long(MAX_PATTERN + 1)), 9);
    let filler = "target: host=".to_owned() + &"a".repeat(60) + "\n";
    assert_eq!(fault("target: host=edge-1\n", &filler.repeat(1000)), 0);
}

#[test]
fn s11_targets_are_whole_names_in_order() {
    for bad in [
        "*\ntarget: host=a",
        "host=a*",
        "host=",
        "pool=.a",
        "host=A",
        "edge-1",
        "HOST=a",
        "host= a",
        "host=a,b",
        &format!("host={}", "a".repeat(64)),
    ] {
        fault("host=edge-1\ntarget: pool=edge", bad);
    }
    assert_eq!(fault("host=edge-1\ntarget: pool=edge", "pool=edge\ntarget: host=edge-1"), 6);
    assert_eq!(fault("host=edge-1\ntarget: pool=edge", "host=a\ntarget: host=a"), 6);
    assert_eq!(fault("host=edge-1\ntarget: pool=edge", "*\ntarget: *"), 6);
    accepts("host=edge-1\ntarget: pool=edge", "*");

    let (host, pool) = (HostName::new("edge-1").unwrap(), PoolName::new("edge").unwrap());
    let (other, pools) = (HostName::new("edge-10").unwrap(), [PoolName::new("edge-1").unwrap()]);
    let intent = good();
    assert_eq!(intent.check_target(Some(&host), &[]).unwrap(), &Target::Host(host.clone()));
    assert_eq!(intent.check_target(Some(&other), std::slice::from_ref(&pool)).unwrap(), &Target::Pool(pool));
    let refusal = intent.check_target(Some(&other), &pools).unwrap_err();
    assert_eq!(refusal.reason, Reason::Target);
    assert!(
        refusal.detail.contains("host=edge-1 pool=edge") && refusal.detail.contains("host=edge-10"),
        "{refusal}"
    );
    // Without a policy a host has no name, and only "*" is for it.
    assert!(intent.check_target(None, &[]).is_err());
    let any = accepts("host=edge-1\ntarget: pool=edge", "*");
    assert_eq!(any.check_target(None, &[]).unwrap(), &Target::Any);
}

#[test]
fn m1_a_signed_value_is_exported_and_cannot_be_sent() {
    let intent = good();
    let sent = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let environment = intent.check_params(&[sent("MUSTER_NODE_NAME", "node-1")]).unwrap();
    assert_eq!(
        environment,
        [sent("MUSTER_CLUSTER_ENDPOINT", "https://10.0.0.5:6443"), sent("MUSTER_NODE_NAME", "node-1")]
    );
    let thief =
        [sent("MUSTER_CLUSTER_ENDPOINT", "https://203.0.113.1:6443"), sent("MUSTER_NODE_NAME", "node-1")];
    assert_eq!(intent.check_params(&thief).unwrap_err().reason, Reason::ParamIsValue);
    // Not even with the value that was signed.
    let same = [sent("MUSTER_CLUSTER_ENDPOINT", "https://10.0.0.5:6443"), sent("MUSTER_NODE_NAME", "node-1")];
    assert_eq!(intent.check_params(&same).unwrap_err().reason, Reason::ParamIsValue);
}

#[test]
fn m7_parameters_are_declared_present_and_matched_whole() {
    let intent = good();
    let check = |params: &[(&str, &[u8])]| {
        let params: Vec<_> = params.iter().map(|(n, v)| ((*n).to_owned(), v.to_vec())).collect();
        intent.check_params(&params).map_err(|r| r.reason)
    };
    assert_eq!(check(&[]), Err(Reason::ParamMissing));
    assert_eq!(check(&[("MUSTER_ZONE", b"a")]), Err(Reason::ParamMissing));
    assert_eq!(check(&[("MUSTER_NODE_NAME", b"a"), ("MUSTER_OTHER", b"a")]), Err(Reason::ParamUndeclared));
    assert_eq!(check(&[("MUSTER_NODE_NAME", b"a"), ("MUSTER_ZONE", b"ab")]).unwrap().len(), 3);
    for bad in
        [&b""[..], b"-a", b"a\n", b"\na", b"a b", b"a\r", b"a\0", b"\xff", b"a-", &[b'a'; MAX_VALUE + 1]]
    {
        let got = check(&[("MUSTER_NODE_NAME", bad)]);
        assert_eq!(got, Err(Reason::ParamPattern), "{bad:?}");
    }
    let refusal =
        intent.check_params(&[("MUSTER_NODE_NAME".to_owned(), b"s3cr3t value".to_vec())]).unwrap_err();
    assert!(!refusal.to_string().contains("s3cr3t"), "{refusal}");
}

#[test]
fn m7_patterns_must_stand_alone() {
    for bad in [
        "a)|(b",
        "(",
        "[a",
        "a{2,1}",
        "(?x)a#",
        "*",
        r"\p{Greek}",
        "a{1000}{1000}{1000}",
        "((((((((((((((((((((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))))))))))))))))))))",
    ] {
        assert_eq!(fault("param: MUSTER_ZONE? [a-z]+", &format!("param: MUSTER_ZONE? {bad}")), 9, "{bad}");
    }
    let zone = |pattern: &str, value: &str| {
        let intent = accepts("param: MUSTER_ZONE? [a-z]+", &format!("param: MUSTER_ZONE? {pattern}"));
        let sent = [
            ("MUSTER_NODE_NAME".to_owned(), b"a".to_vec()),
            ("MUSTER_ZONE".to_owned(), value.as_bytes().to_vec()),
        ];
        intent.check_params(&sent).is_ok()
    };
    // `^a|b$` naively: matches "ab"
    assert!(zone("a|b", "b") && !zone("a|b", "ab") && !zone("a|b", "xb"));
    assert!(zone("(?i)abc", "ABC") && !zone("(?m)^a$", "a b"));
}

#[test]
fn m7_names() {
    for bad in [
        "PATH",
        "KPSSH_",
        "MUSTER_",
        "BASH_ENV",
        "MUSTER_RUN_ID",
        "MUSTER_PHASE",
        "MUSTER_PROFILE",
        "muster_a",
        "MUSTER_A-B",
        &format!("MUSTER_{}", "A".repeat(121)),
    ] {
        assert_eq!(fault("param: MUSTER_NODE_NAME", &format!("param: {bad}")), 8, "{bad}");
        assert_eq!(fault("value: MUSTER_CLUSTER_ENDPOINT", &format!("value: {bad}")), 7, "{bad}");
    }
    accepts("MUSTER_ZONE", &format!("MUSTER_{}", "Z".repeat(120)));
    // One order over both kinds of lines, and one of a name.
    assert_eq!(fault("param: MUSTER_NODE_NAME ", "param: MUSTER_CLUSTER_ENDPOINT "), 8);
    assert_eq!(fault("param: MUSTER_NODE_NAME ", "param: MUSTER_A "), 8);
    assert_eq!(fault("MUSTER_ZONE? [a-z]+", "MUSTER_ZONE??  [a-z]+"), 9);
    assert_eq!(fault("MUSTER_ZONE? [a-z]+", "MUSTER_ZONE?"), 9);
}

#[test]
fn m7_signed_values_are_base64_without_nul_or_line_break() {
    let is = |text: &str| fault("aHR0cHM6Ly8xMC4wLjAuNTo2NDQz", text);
    // not padded; bits left over; url-safe; NUL; LF; white space; garbage
    for bad in ["YQ", "YR==", "-_-_", "AGEK", "YQo=", "YW Jj", "YQ==YQ==", "=", "!"] {
        assert_eq!(is(bad), 7, "{bad}");
    }
    assert_eq!(fault("ENDPOINT aHR0cHM6Ly8xMC4wLjAuNTo2NDQz", "ENDPOINT"), 7);
    assert_eq!(accepts("aHR0cHM6Ly8xMC4wLjAuNTo2NDQz", "/w==").values()[0].value, [0xff]);
}

#[test]
fn m3_an_epoch_is_1_to_4294967295() {
    for bad in
        ["0", "4294967296", "9223372036854775808", "18446744073709551616", "-1", "+1", "01", "1e3", "", "7 "]
    {
        assert_eq!(fault("epoch: 7", &format!("epoch: {bad}")), 10, "{bad}");
    }
    assert_eq!(accepts("epoch: 7", "epoch: 1").epoch(), 1);
    assert_eq!(accepts("epoch: 7", "epoch: 4294967295").epoch(), u32::MAX);
}

#[test]
fn s5_a_deadline_is_1_to_86400_and_capped_by_the_host() {
    for bad in ["0", "86401", "0900", "900s", "-1", ""] {
        assert_eq!(fault("deadline: 900", &format!("deadline: {bad}")), 13, "{bad}");
    }
    accepts("deadline: 900", "deadline: 86400");
    assert!(good().check_deadline(900).is_ok());
    assert_eq!(good().check_deadline(899).unwrap_err().reason, Reason::DeadlineCap);
}

#[test]
fn m7_validity_holds_from_not_before_until_before_not_after() {
    for bad in [
        "2026-11-29T00:00:00Z",
        "2026-11-28T23:59:59Z",
        "2026-02-30T00:00:00Z",
        "2026-12-29T00:00:60Z",
        "2026-12-29",
        "2026-12-29T00:00:00+00:00",
    ] {
        assert_eq!(fault("not-after: 2026-12-29T00:00:00Z", &format!("not-after: {bad}")), 12, "{bad}");
    }
    let at = |text: &str| good().check_validity(time(text)).map_err(|r| r.reason);
    assert_eq!(at("2026-11-28T23:59:59Z"), Err(Reason::NotYetValid));
    assert_eq!(at("2026-11-29T00:00:00Z"), Ok(()));
    assert_eq!(at("2026-12-28T23:59:59Z"), Ok(()));
    assert_eq!(at("2026-12-29T00:00:00Z"), Err(Reason::Expired));
    let said = good().check_validity(time("2027-01-01T00:00:00Z")).unwrap_err().to_string();
    assert!(said.contains("2027-01-01T00:00:00Z") && said.contains("2026-12-29T00:00:00Z"), "{said}");
}

#[test]
fn s14_floor_has_no_script_and_no_other_phase_lacks_one() {
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let both = format!("phase: join\nscript-sha256: {digest}");
    assert_eq!(fault(&both, "phase: join\nscript-sha256: -"), 4);
    assert_eq!(fault(&both, &format!("phase: floor\nscript-sha256: {digest}")), 4);
    let floor = accepts(&both, "phase: floor\nscript-sha256: -");
    assert_eq!((floor.phase(), floor.script_sha256()), (Phase::Floor, None));
    assert!(floor.check_script(None).is_ok());
    for bad in [&digest.to_uppercase()[..], &digest[1..], "", "--"] {
        assert_eq!(fault(digest, bad), 4, "{bad}");
    }
    for bad in ["probe", "Join", "status", ""] {
        assert_eq!(fault("phase: join", &format!("phase: {bad}")), 3, "{bad}");
    }
}

#[test]
fn ve16_the_script_is_judged_by_the_digest_of_what_came() {
    let intent = good();
    let signed = *intent.script_sha256().unwrap();
    assert!(intent.check_script(Some(&signed)).is_ok());
    for other in [None, Some([0; 32])] {
        assert_eq!(intent.check_script(other.as_ref()).unwrap_err().reason, Reason::ScriptDigest);
    }
    assert!(intent.check_phase(Phase::Join).is_ok());
    assert_eq!(intent.check_phase(Phase::Leave).unwrap_err().reason, Reason::PhaseMismatch);
}

#[test]
fn the_writer_writes_what_the_reader_reads() {
    assert_eq!(good().fields().render().unwrap(), GOOD);
    let mut shuffled = good().fields().clone();
    shuffled.targets.reverse();
    shuffled.params.reverse();
    assert_eq!(shuffled.render().unwrap(), GOOD);
    let bad = |change: &dyn Fn(&mut Draft)| {
        let mut draft = good().fields().clone();
        change(&mut draft);
        assert!(draft.render().is_err());
    };
    bad(&|d| d.epoch = 0);
    bad(&|d| d.deadline = 0);
    bad(&|d| d.targets.clear());
    bad(&|d| d.targets.push(Target::Any));
    bad(&|d| d.script_sha256 = None);
    bad(&|d| d.phase = Phase::Probe);
    bad(&|d| d.not_after = d.not_before);
    bad(&|d| d.not_after = UtcTime::from_unix(u64::MAX));
    bad(&|d| d.values[0].value.clear());
    bad(&|d| d.values[0].value = b"a\nb".to_vec());
    bad(&|d| d.params[0].pattern = "a\nepoch: 9".to_owned());
    bad(&|d| d.params[0].pattern = "a ".to_owned());
    bad(&|d| d.params[0].name = "MUSTER_X? a\nparam: MUSTER_Y".to_owned());
    bad(&|d| d.params[0].name = "MUSTER_X?".to_owned());
    bad(&|d| d.values[0].value = vec![b'a'; 4000]);
}

fn drafts() -> impl Strategy<Value = Draft> {
    let target = prop_oneof![
        "[a-z0-9][a-z0-9.-]{0,8}".prop_map(|n| Target::Host(HostName::new(&n).unwrap())),
        "[a-z0-9][a-z0-9.-]{0,8}".prop_map(|n| Target::Pool(PoolName::new(&n).unwrap()))
    ];
    let targets = prop_oneof![
        Just(vec![Target::Any]),
        proptest::collection::btree_set(target, 1..5).prop_map(|s| s.into_iter().collect())
    ];
    let names = proptest::collection::btree_map(
        "(MUSTER|KPSSH)_[A-Za-z0-9_]{1,6}X",
        (any::<Option<bool>>(), proptest::collection::vec(1u8..=255, 1..12)),
        0..6,
    );
    (
        targets,
        names,
        1u32..,
        0u64..4_000_000_000,
        1u64..400_000_000,
        1u32..=86_400,
        any::<bool>(),
        any::<[u8; 32]>(),
        0usize..5,
    )
        .prop_map(|(targets, names, epoch, from, span, deadline, finish, digest, phase)| {
            let (mut values, mut params) = (Vec::new(), Vec::new());
            for (name, (optional, bytes)) in names {
                match optional {
                    None => values.push(ValueLine {
                        name,
                        value: bytes.into_iter().map(|b| if b == b'\n' { b'x' } else { b }).collect(),
                    }),
                    Some(optional) => {
                        params.push(ParamLine { name, optional, pattern: "[a-z]{1,9}|x y".to_owned() })
                    }
                }
            }
            let phase = [Phase::Install, Phase::Join, Phase::Leave, Phase::Uninstall, Phase::Floor][phase];
            Draft {
                profile: ProfileName::new("p-1").unwrap(),
                phase,
                script_sha256: phase.is_scripted().then_some(digest),
                targets,
                values,
                params,
                epoch,
                not_before: UtcTime::from_unix(from),
                not_after: UtcTime::from_unix(from + span),
                deadline,
                on_disconnect: if finish { OnDisconnect::Finish } else { OnDisconnect::End },
            }
        })
}

proptest! {
    #[test]
    fn render_then_parse_is_the_same(draft in drafts()) {
        let text = draft.render().unwrap();
        let read = Intent::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(read.fields(), &draft);
        prop_assert_eq!(read.fields().render().unwrap(), text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(muster-intent: 1\n)?([a-z0-9-]{1,14}: [ -~]{0,20}\n){0,12}") {
        let _ = Intent::parse(text.as_bytes());
    }

    /// A text that is read is the only text of its fields.
    #[test]
    fn one_text_for_one_intent(at in 0usize..500, byte in any::<u8>()) {
        let mut text = GOOD.as_bytes().to_vec();
        let at = at % text.len();
        text[at] = byte;
        if let Ok(read) = Intent::parse(&text) {
            let again = read.fields().render().unwrap().into_bytes();
            // "on-disconnect: end" is what absence says, and the one thing with two spellings.
            if read.on_disconnect() == OnDisconnect::Finish {
                prop_assert_eq!(again, text);
            }
        }
    }
}
