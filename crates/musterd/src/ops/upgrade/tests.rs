use super::*;
use crate::ops::testing::{Client, Fake};
use crate::ops::upgrade::pull::LONGEST;

const SIGNED: &str = r#"{"default":[{"type":"reject"}],"transports":{"docker":{"registry.example.com":
    [{"type":"sigstoreSigned","keyPath":"/k"}],"open.example.com":[{"type":"insecureAcceptAnything"}]}}}"#;
const IMAGE: &str = "registry.example.com/os/node:2";

/// A service manager with one unit that has a name. What runs it does not change what it is run with.
const RUN: &str = r#"unit= log= longest=
while [[ $1 != -- ]]; do
  case $1 in --unit=*) unit=$1 ;; --property=StandardOutput=append:*) log=${1##*append:} ;;
    --property=RuntimeMaxSec=*) longest=${1##*=} ;; esac
  shift
done; shift
[[ -n $unit ]] || exec "$@"
[[ ! -e $root/unit ]] || exit 1
is() { printf 'ActiveState=%s\nSubState=%s\nResult=%s\nExecMainStatus=%s\n' "$@" > $root/unit.new; mv $root/unit.new $root/unit; }
export -f is; export root
is active running success 0
setsid bash -c 'touch $root/began; exec 3>&2 2>/dev/null; timeout '$longest' "$@" 2>&3; code=$?; case $code in 0) is active exited success 0 ;; 124) is failed failed timeout 15 ;;
  137) is failed failed signal 9 ;; *) is failed failed exit-code $code ;; esac' run "$@" >> $log 2>&1 < /dev/null &
until [[ -e $root/began ]]; do sleep 0.01; done; rm $root/began"#;
const CTL: &str = r#"case $3 in
  show) if [[ -e $root/unit ]]; then cat $root/unit; else echo ActiveState=inactive; fi ;;
  stop|reset-failed) rm -f $root/unit ;; esac"#;

/// A bootc that prints, waits for the file `go`, and stages.
fn node(switch: &str) -> Fake {
    let fake = Fake::new();
    let status = format!(
        "case $1 in status) if [[ -e $root/staged ]]; then cat <<'END'\n{}\nEND\nelse cat <<'END'\n{}\nEND\nfi;; switch) {switch};; esac",
        include_str!("bootc/staged.json"),
        include_str!("bootc/not-a-host.json"),
    );
    fake.program("/usr/bin/bootc", &status);
    fake.program("/usr/bin/systemd-run", RUN).program("/usr/bin/systemctl", CTL);
    fake.file("/etc/containers/policy.json", SIGNED);
    fake
}

const WAITS: &str = "printf 'layer 1\\rlayer 2\\n'; echo warning >&2; until [[ -e $root/go ]]; do sleep 0.01; done; touch $root/staged; echo done";

fn unheard() -> Ended {
    std::sync::Arc::new(|_, _| {})
}

fn start(fake: &Fake, slot: &Slot, image: &str) -> Result<std::sync::Arc<pull::Pull>, Fault> {
    begin(&fake.places, slot, image, LONGEST, unheard())
}

fn watched(pull: &std::sync::Arc<pull::Pull>) -> (Client, std::thread::JoinHandle<()>) {
    let client = Client::default();
    let (mut mine, pull) = (client.clone(), std::sync::Arc::clone(pull));
    (client, std::thread::spawn(move || pull.watch(&mut mine).unwrap()))
}

#[test]
fn a_pull_streams_its_lines_and_ends_with_what_is_staged() {
    let fake = node(WAITS);
    let pull = start(&fake, &Slot::default(), IMAGE).unwrap();
    let (client, thread) = watched(&pull);
    client.until("warning");
    assert!(client.text().starts_with("{\"progress\":\"pulling registry.example.com/os/node:2\"}\n"));
    fake.file("/go", "");
    thread.join().unwrap();
    let text = client.text();
    let events: Vec<muster_api::upgrade::StageEvent> =
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    use muster_api::upgrade::StageEvent as E;
    for line in ["layer 1", "layer 2", "warning", "done"] {
        assert!(events.contains(&E::Progress(line.to_owned())), "{line}: {text}");
    }
    assert!(matches!(events.last(), Some(E::Staged(i)) if i.image.as_deref() == Some(IMAGE)), "{text}");
    let calls = fake.called();
    let bootc: Vec<_> = calls.iter().filter(|c| c.starts_with("bootc")).collect();
    let status = "bootc [status] [--format=json]";
    assert_eq!(bootc, [status, "bootc [switch] [registry.example.com/os/node:2]", status]);
    let run = calls.iter().find(|c| c.contains("[switch]") && c.starts_with("systemd-run")).unwrap();
    assert!(run.contains("[--unit=muster-upgrade-stage] [--remain-after-exit]"), "{run}");
    assert!(run.contains("[--property=RuntimeMaxSec=1800]"), "{run}");
    assert!(!run.contains("--pipe") && !run.contains("--wait"), "it does not end with this process: {run}");
    assert!(!fake.places.at(crate::places::STAGING).exists() && !fake.places.at("/unit").exists());
    assert!(run.contains("[--setenv=HOME=/nonexistent] [--]"), "no policy but the machine's: {run}");
    assert!(!calls.iter().any(|c| c.contains("--apply")), "nothing boots an image but what is asked to");
}

#[test]
fn a_client_that_leaves_takes_nothing_with_it_and_a_second_call_reads_along() {
    let fake = node(WAITS);
    let slot = Slot::default();
    let pull = start(&fake, &slot, IMAGE).unwrap();
    let (first, thread) = watched(&pull);
    // All that comes before `go`: a client that leaves while it is told something is another story.
    first.until("warning");
    first.leave();
    thread.join().unwrap();
    let again = start(&fake, &slot, IMAGE).unwrap();
    assert!(std::sync::Arc::ptr_eq(&pull, &again), "the same pull");
    let (second, thread) = watched(&again);
    second.until("layer 1");
    let other = start(&fake, &slot, "registry.example.com/os/other:1").unwrap_err();
    assert_eq!((other.kind, other.reason.as_str()), (Kind::State, "staging"));
    assert_eq!(quiet(&slot).unwrap_err().reason, "staging", "no apply and no rollback meanwhile");
    fake.file("/go", "");
    thread.join().unwrap();
    assert!(second.text().contains("\"staged\""), "{}", second.text());
    assert!(!first.text().contains("\"staged\""));
    let switches = fake.called().iter().filter(|c| c.starts_with("bootc [switch]")).count();
    assert_eq!(switches, 1);
    quiet(&slot).unwrap();
}

/// What one process of the core began, another follows: what stands between them is the disk and the service manager.
#[test]
fn a_core_that_is_started_anew_follows_the_pull_of_the_one_before() {
    let fake = node(WAITS);
    // As the core before left it.
    pull::begin_and_die(&fake.places, IMAGE).unwrap();
    let works = Works::default();
    let (tell, told) = std::sync::mpsc::channel();
    assert!(adopt(&fake.places, &works, move |staged, _| tell.send(staged).unwrap()));
    assert_eq!(quiet(&works.pull).unwrap_err().reason, "staging", "no apply and no rollback meanwhile");
    let again = start(&fake, &works.pull, IMAGE).unwrap();
    let (second, thread) = watched(&again);
    second.until("layer 1");
    assert_eq!(start(&fake, &works.pull, "registry.example.com/os/other:1").unwrap_err().reason, "staging");
    fake.file("/go", "");
    thread.join().unwrap();
    assert!(second.text().contains("\"staged\""), "{}", second.text());
    assert!(told.recv().unwrap());
    assert_eq!(fake.called().iter().filter(|c| c.starts_with("bootc [switch]")).count(), 1);
    assert!(!fake.places.at(crate::places::STAGING).exists());
    assert!(!adopt(&fake.places, &Works::default(), |_, _| panic!("there is none")));
    // One of which nothing was begun, or whose end was seen and not written down. It waits, so that it makes no unit of itself.
    for made in ["/go", "/staged"] {
        std::fs::remove_file(fake.places.at(made)).unwrap();
    }
    pull::begin_and_die(&fake.places, IMAGE).unwrap();
    std::fs::remove_file(fake.places.at("/unit")).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    assert!(adopt(&fake.places, &Works::default(), move |staged, _| tell.send(staged).unwrap()));
    assert!(!told.recv().unwrap());
    assert!(!fake.places.at(crate::places::STAGING).exists());
}

#[test]
fn what_a_pull_prints_without_end_is_bounded_in_memory_and_on_the_disk() {
    let fake = node(
        "head -c 3000000 /dev/zero | tr '\\0' x; echo; yes line | head -n 400000; touch $root/staged; echo last",
    );
    let pull = start(&fake, &Slot::default(), IMAGE).unwrap();
    let (client, thread) = watched(&pull);
    thread.join().unwrap();
    let text = client.text();
    assert!(
        text.contains("\"last\"") && text.lines().last().unwrap().contains("staged"),
        "it is read to its end"
    );
    assert!(text.lines().all(|l| l.len() < 2 * 1024));
}

#[test]
fn a_pull_that_fails_says_its_last_line_and_one_that_stages_nothing_is_no_success() {
    for (switch, wanted) in [
        ("echo first; echo 'manifest unknown' >&2; exit 1", "the pull failed: manifest unknown"),
        ("kill -9 $$", "the pull failed: it said nothing"),
        ("true", "nothing is staged"),
    ] {
        let fake = node(switch);
        let pull = start(&fake, &Slot::default(), IMAGE).unwrap();
        let (client, thread) = watched(&pull);
        thread.join().unwrap();
        let last = client.text().lines().last().unwrap().to_owned();
        assert!(last.starts_with("{\"error\":") && last.contains(wanted), "{switch}: {last}");
    }
}

/// A bootc of a node that runs `:2` already, or has another `:2` staged, as `staged` says.
fn follower(staged: &str, upgrade: &str) -> Fake {
    let fake = node("echo 'Image specification is unchanged.'");
    let text = include_str!("bootc/staged.json");
    let entry = text.replacen("\"staged\"", "\"booted\"", 1).replacen("\"booted\": {\n      \"image\": {\n        \"image\": { \"image\": \"registry.example.com/os/node:1\"", "\"was\": {\n      \"image\": {\n        \"image\": { \"image\": \"registry.example.com/os/node:1\"", 1);
    let newer = entry.replacen("\"booted\"", "\"staged\"", 1).replace("sha256:2222", "sha256:3333");
    fake.file("/booted.json", &entry).file("/staged.json", &newer);
    if !staged.is_empty() {
        fake.file("/staged", "");
    }
    fake.program(
        "/usr/bin/bootc",
        &format!("case $1 in status) if [[ -e $root/staged ]]; then cat $root/staged.json; else cat $root/booted.json; fi;; upgrade) {upgrade};; esac"),
    );
    fake
}

#[test]
fn a_tag_that_is_followed_already_is_looked_at_anew_and_one_that_did_not_move_is_what_runs() {
    for (upgrade, digest, went_well) in [
        ("echo 'No changes in: registry.example.com/os/node:2'", "sha256:2222", true),
        ("touch $root/staged", "sha256:3333", true),
        ("echo 'no such manifest' >&2; exit 1", "no such manifest", false),
    ] {
        let fake = follower("", upgrade);
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let hears = std::sync::Arc::clone(&heard);
        let ended: Ended =
            std::sync::Arc::new(move |worked, words| hears.lock().unwrap().push((worked, words.to_owned())));
        let pull = begin(&fake.places, &Slot::default(), IMAGE, LONGEST, ended).unwrap();
        let (client, thread) = watched(&pull);
        thread.join().unwrap();
        let last = client.text().lines().last().unwrap().to_owned();
        assert!(last.contains(digest) && last.starts_with("{\"staged\":") == went_well, "{upgrade}: {last}");
        let called = fake.called();
        assert!(called.contains(&"bootc [upgrade]".to_owned()), "{called:?}");
        assert!(!called.iter().any(|c| c.contains("bootc [switch]") || c.contains("--apply")), "{called:?}");
        let heard = heard.lock().unwrap();
        let [(worked, words)] = heard.as_slice() else { panic!("its end is told once: {heard:?}") };
        assert!(*worked == went_well && words.contains(digest), "{words}");
    }
}

#[test]
fn the_nodes_clock_is_the_only_one_and_it_ends_the_pull() {
    let fake = node("echo $$ > $root/pid; sleep 60");
    let pull = begin(&fake.places, &Slot::default(), IMAGE, Duration::from_secs(1), unheard()).unwrap();
    let (client, thread) = watched(&pull);
    thread.join().unwrap();
    assert!(client.text().contains("was not done in"), "{}", client.text());
}

#[test]
fn refusals_come_before_the_first_byte_and_run_nothing() {
    let fake = node(WAITS);
    let slot = Slot::default();
    for (image, kind, reason) in [
        ("os/node", Kind::Bad, "image"),
        ("--apply", Kind::Bad, "image"),
        ("open.example.com/os/node", Kind::Forbidden, "unsigned"),
        ("quay.io/fedora/silverblue", Kind::Forbidden, "rejected"),
    ] {
        let fault = start(&fake, &slot, image).unwrap_err();
        assert_eq!((fault.kind, fault.reason.as_str()), (kind, reason), "{image}");
    }
    fake.file("/etc/containers/policy.json", "{");
    assert_eq!(start(&fake, &slot, IMAGE).unwrap_err().reason, "policy-broken");
    std::fs::remove_file(fake.places.at("/etc/containers/policy.json")).unwrap();
    assert_eq!(start(&fake, &slot, IMAGE).unwrap_err().reason, "policy-missing");
    assert!(fake.called().is_empty());
    let bare = Fake::new();
    let fault = start(&bare, &slot, IMAGE).unwrap_err();
    assert_eq!((fault.kind, fault.reason.as_str()), (Kind::State, "no-image"));
}

#[test]
fn a_rollback_with_nothing_before_is_the_nodes_state_and_no_failure() {
    let fake = node("true");
    let backend = backend(&fake.places).unwrap();
    let fault = rolled_back(backend.as_ref(), false).unwrap_err();
    assert_eq!((fault.kind, fault.reason.as_str()), (Kind::State, "nothing-to-roll-back-to"));
    assert!(!fake.called().iter().any(|c| c.contains("rollback")));
    let text = include_str!("bootc/staged.json");
    let text = text.replace("\"rollback\": null,", "").replace("\"staged\"", "\"rollback\"");
    fake.program("/usr/bin/bootc", &format!("[[ $1 == rollback ]] || cat <<'END'\n{text}\nEND"));
    assert_eq!(rolled_back(backend.as_ref(), false).unwrap().status, "rolled back");
    assert_eq!(fake.called().last().unwrap(), "bootc [rollback]", "and no `--apply`");
}

#[test]
fn na8_a_rollback_drops_what_is_staged_only_when_it_is_told_so() {
    let fake = node("true");
    let text = include_str!("bootc/staged.json");
    let before = "\"rollback\": { \"image\": { \"image\": { \"image\": \"a.example/b:0\", \"transport\": \"registry\" }, \"imageDigest\": \"sha256:0000\" } }";
    let text = text.replace("\"rollback\": null", before);
    fake.program("/usr/bin/bootc", &format!("[[ $1 == rollback ]] || cat <<'END'\n{text}\nEND"));
    let backend = backend(&fake.places).unwrap();
    let fault = rolled_back(backend.as_ref(), false).unwrap_err();
    assert_eq!((fault.kind, fault.reason.as_str()), (Kind::State, "staged"));
    assert!(fault.error.contains("sha256:2222") && fault.error.contains("sha256:0000"), "{}", fault.error);
    assert!(!fake.called().contains(&"bootc [rollback]".to_owned()));
    assert_eq!(rolled_back(backend.as_ref(), true).unwrap().status, "rolled back");
    assert_eq!(fake.called().last().unwrap(), "bootc [rollback]");
}
