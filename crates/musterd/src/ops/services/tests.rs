use super::*;
use crate::ops::testing::Fake;

const SHOWN: &str = r"cat <<'END'
Id=kubelet.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
Result=success
StateChangeTimestampMonotonic=1000000

Id=crio.service
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
Result=success
StateChangeTimestampMonotonic=0

Id=containerd.service
LoadState=masked
ActiveState=inactive
SubState=dead
UnitFileState=masked
Result=success
StateChangeTimestampMonotonic=0

Id=ssh.service
LoadState=loaded
ActiveState=active
SubState=running
END";

#[test]
fn the_list_has_what_the_node_has_by_name_and_nothing_else() {
    let fake = Fake::new();
    fake.program("/usr/bin/systemctl", SHOWN);
    let found = read(&fake.places, UNITS).unwrap();
    let names: Vec<_> = found.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["containerd.service", "kubelet.service"], "no crio, and never ssh");
    let kubelet = found.last().unwrap();
    assert_eq!((kubelet.active.as_str(), kubelet.sub.as_str()), ("active", "running"));
    assert_eq!(kubelet.enabled.as_deref(), Some("enabled"));
    assert!(kubelet.since.as_ref().is_some_and(|s| s.ends_with('Z')), "{kubelet:?}");
    assert_eq!(found[0].since, None, "a unit that never changed has no time");
    let call = fake.called().pop().unwrap();
    let all: Vec<_> = UNITS.iter().map(|u| format!(" [{}]", u.name)).collect();
    assert!(call.ends_with(&format!("[--]{}", all.concat())), "one call for all, names behind `--`: {call}");
}

#[test]
fn a_time_of_a_change_is_counted_back_from_now() {
    let now = (UtcTime::from_unix(1_000_000_000), Duration::from_secs(500));
    assert_eq!(since("400000000", now).as_deref(), Some("2001-09-09T01:45:00Z"));
    assert_eq!(since("0", now), None);
    assert_eq!(since("600000000", now), None, "a time to come is none");
    assert_eq!(since("x", now), None);
}

#[test]
fn only_the_three_are_restarted_and_by_their_full_names() {
    let fake = Fake::new();
    fake.program("/usr/bin/systemctl", SHOWN);
    for name in ["kubelet", "kubelet.service"] {
        assert_eq!(restarted(&fake.places, name).unwrap().name, "kubelet.service");
        let calls = fake.called();
        assert!(calls[1].ends_with("[restart] [--] [kubelet.service]"), "{calls:?}");
    }
    for unit in UNITS.iter().filter(|u| !u.restartable) {
        let fault = restarted(&fake.places, unit.name).unwrap_err();
        assert_eq!((fault.kind, fault.reason.as_str()), (Kind::Forbidden, "not-restartable"));
    }
    let restartable: Vec<_> = UNITS.iter().filter(|u| u.restartable).map(|u| u.name).collect();
    assert_eq!(restartable, ["containerd.service", "crio.service", "kubelet.service"]);
    assert!(fake.called().is_empty(), "a refusal runs nothing");
}

#[test]
fn a_name_outside_the_list_is_never_handed_on() {
    let fake = Fake::new();
    fake.program("/usr/bin/systemctl", SHOWN);
    for name in [
        "ssh",
        "ssh.service",
        "kubelet.socket",
        "../kubelet",
        "kubelet*",
        "--now",
        "",
        "kubelet.service.service",
        "KUBELET",
    ] {
        let fault = restarted(&fake.places, name).unwrap_err();
        assert_eq!((fault.kind, fault.reason.as_str()), (Kind::Missing, "unknown-unit"), "{name}");
        assert!(name.is_empty() || !fault.error.contains(name), "what was sent is not sent back");
    }
    assert!(fake.called().is_empty());
    let fault = restarted(&fake.places, "crio").unwrap_err();
    assert_eq!(fault.kind, Kind::Missing, "in the list, and not on this node");
}

#[test]
fn a_restart_that_fails_tells_no_words_of_the_tool() {
    let fake = Fake::new();
    let script = format!("[[ $3 == restart ]] && {{ echo s3cret >&2; exit 4; }}\n{SHOWN}");
    fake.program("/usr/bin/systemctl", &script);
    let fault = restarted(&fake.places, "kubelet").unwrap_err();
    assert_eq!(fault.kind, Kind::Failed);
    assert!(fault.error.contains("ended with 4") && !format!("{fault:?}").contains("s3cret"), "{fault:?}");
}
