//! The state folder: who could have written it, what cannot be read, and who waits for whom.

use super::{Nodes, nonce, table, target};
use muster_client::testing::{Pairing, Server, enrolled, reply};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

const STATE: &str =
    r#"{"hostname":"a","bootstrapped":true,"role":"worker","health":{"uptimeSeconds":90},"management":{}}"#;

#[test]
fn pins_that_others_may_write_are_not_believed_and_nothing_is_sent() {
    let nodes = Nodes::new();
    let server = nodes.node("a", table(&[("GET /v1/node", 200, STATE)]));
    let folder = nodes.p.join(".local/state/muster");
    let chmod = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    nodes.ran("node status a", 0);
    let before = server.seen().len();
    for (path, bad, good) in [(folder.join("node-pins"), 0o666, 0o600), (folder.clone(), 0o777, 0o700)] {
        chmod(&path, bad);
        for line in ["node status a", "node list", "node forget a"] {
            let ran = nodes.ran(line, 4);
            let error = format!("error[state-unsafe]: others than you may write to {}", path.display());
            assert!(
                ran.err
                    .lines()
                    .any(|l| l.starts_with(&error) && l.ends_with(&format!("chmod go-w {}", path.display()))),
                "{}",
                ran.err
            );
        }
        chmod(&path, good);
    }
    assert_eq!(server.seen().len(), before, "nothing was sent");
    nodes.ran("node status a", 0);
}

#[test]
fn a_state_file_that_cannot_be_read_is_not_taken_for_none_and_not_waited_for() {
    let nodes = Nodes::new();
    let _server = nodes.node("a", table(&[("GET /v1/node", 200, STATE)]));
    let folder = nodes.p.join(".local/state/muster");
    for name in ["node-pins", "context", "node-pins.lock"] {
        let path = folder.join(name);
        let kept = std::fs::read(&path).ok();
        for make in ["mkfifo -m 600", "ln -s /nowhere/at/all"] {
            let _ = std::fs::remove_file(&path);
            nodes.p.sh(&format!("{make} {}", path.display()));
            let ran = nodes.ran("node forget a", 9);
            let error = format!("error[state-unusable]: {} is ", path.display());
            assert!(ran.err.contains(&error), "{make}: {}", ran.err);
            assert!(std::fs::symlink_metadata(&path).is_ok_and(|m| !m.is_file()), "{make}: it was replaced");
        }
        std::fs::remove_file(&path).unwrap();
        if let Some(kept) = kept {
            nodes.p.write(&format!(".local/state/muster/{name}"), kept);
        }
    }
    nodes.ran("node forget a", 0);
}

#[test]
fn what_became_of_a_call_is_told_before_the_heads_are_waited_for() {
    let nodes = Nodes::new();
    let head = format!("muster-audit: 7:{}\r\n", "ab".repeat(32));
    let _server: Server = nodes.node(
        "a",
        Box::new(move |seen| match target(seen) {
            "GET /v1/proof" => nonce(),
            "GET /v1/node" => reply(200, &head, STATE.as_bytes()),
            _ => reply(202, &head, br#"{"status":"begun"}"#),
        }),
    );
    let folder = nodes.p.join(".local/state/muster");
    let lock = std::fs::File::create(folder.join("audit-heads.lock")).unwrap();
    lock.lock().unwrap();
    let told = nodes.p.join("told");
    let mut command = nodes.p.command(crate::run::MUSTER);
    command.args(["node", "reboot", "a", "--yes", "-o", "json"]).stdin(Stdio::null());
    command.stdout(std::fs::File::create(&told).unwrap()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while !std::fs::read_to_string(&told).unwrap().contains("begun") {
        assert!(begun.elapsed() < Duration::from_secs(25), "nothing is told while the lock is held");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(child.try_wait().unwrap().is_none(), "it waits for the lock");
    drop(lock);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(!String::from_utf8_lossy(&ended.stderr).contains("warning: "), "{ended:?}");
    assert!(nodes.p.read(".local/state/muster/audit-heads").contains(" 7:abab"));
    // Where it is not let go, that is a warning behind it.
    let lock = std::fs::File::options().write(true).open(folder.join("audit-heads.lock")).unwrap();
    lock.lock().unwrap();
    let ran = nodes.ran("node status a --timeout 2s", 0);
    assert!(ran.out.contains("role        worker"), "{}", ran.out);
    assert!(
        ran.err.contains("warning: the newest audit heads were not kept: ") && ran.err.contains("is held by"),
        "{}",
        ran.err
    );
}

#[test]
fn a_code_is_not_used_where_the_pin_could_not_be_written() {
    let nodes = Nodes::new();
    let (server, _) = nodes.runtime.block_on(Pairing::start("K7QM-93XF", Box::new(enrolled)));
    // No file may have a byte: as on a full disk, files can be made and not written.
    let line = format!("node claim {} --name a --code-file -", server.address);
    let mut full = nodes.p.command("/bin/sh");
    full.arg("-c").arg(format!("trap '' XFSZ; ulimit -f 0; exec setsid {} {line}", crate::run::MUSTER));
    let ran = nodes.p.finish(full, b"K7QM-93XF\n");
    assert_eq!(ran.code, 9, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("error[file-write]: cannot write "), "{}", ran.err);
    assert_eq!(server.seen().len(), 0, "the code is not used");
    let ran = nodes.p.muster_with(&line, b"K7QM-93XF\n");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}
