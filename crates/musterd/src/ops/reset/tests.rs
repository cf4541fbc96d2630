use std::cell::RefCell;

use super::*;
use crate::core::owner::Opened;
use crate::ops::testing::Fake;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEDAdgcQoYxSxAYTxIVHmPxc0rMhA/aZjHs7MyOnRwO6";
const DROP_IN: &str = "/etc/ssh/sshd_config.d/10-muster-api.conf";

/// A node that was built by nothing, and let a key in.
fn node() -> Fake {
    let fake = Fake::new();
    fake.program("/usr/bin/systemctl", "[[ $3 != is-active ]]")
        .program("/usr/bin/systemd-run", "while [[ $1 != -- ]]; do shift; done; shift; exec \"$@\"")
        .real("/usr/bin/rm")
        .file("/proc/sys/kernel/hostname", "node-1\n")
        .file("/var/lib/muster/ssh/alice", &format!("{KEY}\n"))
        .file(DROP_IN, "")
        .file(places::BOOTSTRAPPED, "")
        .file(places::NODE, r#"{"role":"worker","distribution":"none"}"#);
    std::fs::create_dir_all(fake.places.at("/run")).unwrap();
    fake
}

fn go(fake: &Fake, until: Phase, forget: &dyn Fn() -> Result<(), Fault>) -> Result<(), Fault> {
    Reset::open(&fake.places, forget)?.go(until)
}

fn write(fake: &Fake, record: &Record) {
    Reset::open(&fake.places, &|| Ok(())).unwrap().store(record).unwrap();
}

fn phase(fake: &Fake) -> Option<String> {
    state(&fake.places).map(|s| s.phase)
}

#[test]
fn the_owner_is_forgotten_last_and_what_others_put_on_the_machine_stays() {
    let fake = node();
    let others = [
        "/etc/passwd",
        "/etc/sudoers.d/muster",
        "/etc/ssh/sshd_config.d/00-muster.conf",
        "/etc/muster/authorized_keys.d/pool",
        "/etc/muster/allowed_signers",
        "/home/alice/.ssh/authorized_keys",
        "/var/lib/muster/shim/floors",
    ];
    for path in others {
        fake.file(path, "kept");
    }
    write(&fake, &Record::default());
    let forgotten = RefCell::new(0);
    let forget = || {
        assert!(!fake.places.at("/var/lib/muster/ssh/alice").exists(), "the keys went before");
        assert_eq!(phase(&fake).as_deref(), Some("forget"), "it is written down before it is done");
        *forgotten.borrow_mut() += 1;
        Ok(())
    };
    go(&fake, Phase::Forget, &forget).unwrap();
    assert_eq!(*forgotten.borrow(), 0, "the answer goes out before");
    go(&fake, Phase::Reboot, &forget).unwrap();
    assert_eq!((*forgotten.borrow(), phase(&fake).as_deref()), (1, Some("reboot")));
    assert!(!fake.places.at(DROP_IN).exists());
    for path in others {
        assert_eq!(std::fs::read_to_string(fake.places.at(path)).unwrap(), "kept", "{path}");
    }
}

#[test]
fn an_owner_that_cannot_be_forgotten_keeps_the_phase_and_nothing_reboots() {
    let fake = node();
    write(&fake, &Record { phase: Phase::Forget, ..Record::default() });
    let full = || Err(Fault::failed("disk", "there is no room"));
    let fault = go(&fake, Phase::Reboot, &full).unwrap_err();
    assert!(fault.error.contains("stopped at `forget`: there is no room"), "{}", fault.error);
    assert_eq!(phase(&fake).as_deref(), Some("forget"));
    assert!(!fake.places.at(places::VOLATILE).join(GOING_DOWN).exists());
    go(&fake, Phase::Reboot, &|| Ok(())).unwrap();
    assert!(fake.places.at(places::VOLATILE).join(GOING_DOWN).exists());
}

#[test]
fn a_reset_that_was_interrupted_goes_on_from_its_phase_and_ends_the_same() {
    for from in Phase::ALL {
        let fake = node();
        write(&fake, &Record { phase: from, ..Record::default() });
        let forgotten = RefCell::new(0);
        let forget = || {
            *forgotten.borrow_mut() += 1;
            Ok(())
        };
        go(&fake, Phase::Reboot, &forget).unwrap();
        assert_eq!(phase(&fake).as_deref(), Some("reboot"), "{from:?}");
        assert_eq!(*forgotten.borrow(), usize::from(from < Phase::Reboot), "{from:?}");
        let stopped = fake.called().iter().any(|c| c.contains("[stop] [--] [muster-bootstrap.service]"));
        assert_eq!(stopped, from == Phase::Stop, "{from:?}: what was done is not done again");
    }
}

#[test]
fn a_record_that_cannot_be_read_begins_again_and_never_counts_as_none() {
    for text in ["", "{", "{}", r#"{"phase":"unknown"}"#] {
        let fake = node();
        fake.file(places::RESET, text);
        assert_eq!(phase(&fake).as_deref(), Some("stop"), "{text}");
        settle(&fake.places).unwrap();
        go(&fake, Phase::Reboot, &|| Ok(())).unwrap();
        assert_eq!(phase(&fake).as_deref(), Some("reboot"), "{text}");
    }
}

#[test]
fn a_phase_that_fails_keeps_the_owner_and_says_why() {
    let fake = node();
    write(&fake, &Record::default());
    let never = || -> Result<(), Fault> { panic!("forgotten before it left") };
    fake.program("/usr/bin/systemctl", "exit 0");
    let fault = go(&fake, Phase::Reboot, &never).unwrap_err();
    assert_eq!(fault.reason, "reset");
    let told = state(&fake.places).unwrap();
    assert_eq!(told.phase, "stop");
    assert!(told.error.is_some_and(|e| e.contains("does not stop")));
    fake.program("/usr/bin/systemctl", "[[ $3 != is-active ]]");
    fake.file(places::NODE, r#"{"distribution":"kubeadm"}"#);
    assert!(go(&fake, Phase::Reboot, &never).is_err());
    let told = state(&fake.places).unwrap();
    assert_eq!(told.phase, "leave");
    assert!(told.error.is_some_and(|e| e.contains("kubeadm")));
    assert!(fake.places.at(places::BOOTSTRAPPED).exists(), "a failure erases nothing");
    fake.file(places::NODE, r#"{"distribution":"none"}"#);
    go(&fake, Phase::Reboot, &|| Ok(())).unwrap();
    assert_eq!(state(&fake.places).unwrap().error, None);
}

#[test]
fn only_a_reboot_ends_it() {
    let fake = node();
    write(&fake, &Record::default());
    go(&fake, Phase::Reboot, &|| Ok(())).unwrap();
    assert!(!settle(&fake.places).unwrap());
    assert_eq!(phase(&fake).as_deref(), Some("reboot"), "the core was restarted, and not the machine");
    std::fs::remove_dir_all(fake.places.at("/run")).unwrap();
    assert!(settle(&fake.places).unwrap(), "its end is told");
    assert_eq!(phase(&fake), None);
    assert!(!settle(&fake.places).unwrap(), "once");
    write(&fake, &Record { phase: Phase::Forget, ..Record::default() });
    settle(&fake.places).unwrap();
    assert_eq!(phase(&fake).as_deref(), Some("forget"), "a boot in between ends nothing that was not done");
}

#[test]
fn a_node_that_its_document_claims_is_its_owners_until_the_end_and_then_nobodys() {
    let fake = node();
    let made = muster_tls::Authority::make("ops", muster_tls::Lifetime::AUTHORITY, tools::now(), [7; 16]);
    let pem = made.unwrap().1.certificate.replace('\n', "\\n");
    fake.file(places::DOCUMENT, &format!("role: init\napi: {{operatorCA: \"{pem}\"}}\n"));
    fake.file("/dev/console", "").file("/etc/hostname", "node-1\n");
    let open = || match Owner::open(&fake.places, &|_| true).unwrap() {
        Opened::Wanted(owner) => Arc::<Owner>::from(owner),
        Opened::NotWanted(why) => panic!("{why}"),
        Opened::Ended => panic!("nobody ended it"),
    };
    let owner = open();
    assert!(owner.authority().is_some());
    let works = Works::default();
    let caller = crate::ops::Caller {
        name: "alice".to_owned(),
        role: muster_core::Role::Admin,
        address: "10.0.0.9:1".to_owned(),
        judged_by: owner.trusts(),
    };
    let ask = |body: &str| {
        begin(&Request {
            places: &fake.places,
            works: &works,
            owner: &owner,
            caller: &caller,
            ask: &crate::wire::Ask::Reset,
            body: body.as_bytes(),
            ended: std::sync::Arc::new(|_, _| {}),
        })
    };
    for wrong in [r#"{"confirm":"node-2"}"#, r#"{"confirm":""}"#, r#"{"confirm":"NODE-1"}"#] {
        let Err(fault) = ask(wrong) else { panic!("{wrong}") };
        assert_eq!((fault.kind, fault.reason.as_str()), (Kind::Bad, "confirm"));
        assert!(fault.error.contains("node-1"), "{}", fault.error);
    }
    assert_eq!(phase(&fake), None, "a wrong word begins nothing");
    let Ok(Done::Answer { status: 202, then: Some(then), .. }) = ask(r#"{"confirm":"node-1"}"#) else {
        panic!("no answer with something to do after it")
    };
    assert!(owner.authority().is_some(), "until the answer is out");
    fake.called();
    then();
    assert!(owner.authority().is_none());
    assert!(!fake.places.at(places::BOOTSTRAPPED).exists());
    assert_eq!(fake.called().last().unwrap(), "systemctl [--no-pager] [--no-ask-password] [reboot]");
    let phase = RefCell::new(String::new());
    resume(&fake.places, &works, &owner, |at| at.clone_into(&mut phase.borrow_mut()));
    assert_eq!(*phase.borrow(), "reboot", "the core was started anew, and goes on");
    std::fs::remove_dir_all(fake.places.at("/run")).unwrap();
    settle(&fake.places).unwrap();
    assert!(open().authority().is_some(), "a document that names an owner takes it for him again");
}
