//! S19: root on the machine, over a socket of its own.
#![allow(clippy::disallowed_methods, reason = "a test starts itself as somebody else")]

use super::*;
use crate::core::control::{Asked, Told, ask, serve};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;

/// What was written down.
static NOTED: std::sync::Mutex<Vec<(PathBuf, &str, bool)>> = std::sync::Mutex::new(Vec::new());

fn listening(node: &Node, owner: &Owner) -> PathBuf {
    let path = node.at("/run/muster/control.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let owner = owner.clone();
    // As long as the test: it ends with the process.
    let at = path.clone();
    std::thread::spawn(move || {
        let noted = |change, made| NOTED.lock().expect("whole").push((at.clone(), change, made));
        serve(&owner, &listener, &noted);
    });
    path
}

#[test]
fn s19_status_pairing_owner_and_key_over_the_socket() {
    let (node, next) = (node(), operators("the next"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let socket = listening(&node, &owner);
    let Ok(Told::Status(status)) = ask(&socket, &Asked::Status) else { panic!("no status") };
    assert_eq!((status.owner, status.waits_for.as_deref()), (None, Some("claim")));
    assert_eq!(status.fingerprint, owner.node_fingerprint().to_string());
    let Ok(Told::Pairing(before)) = ask(&socket, &Asked::Pairing) else { panic!("no pairing") };
    assert_eq!(before.code, node.code().expose());
    assert!(!format!("{before:?}").contains(&before.code), "no code in Debug");
    let Ok(Told::Pairing(after)) = ask(&socket, &Asked::RenewPairing) else { panic!("not renewed") };
    assert_ne!(before.code, after.code);
    assert_eq!((after.tries, after.code == node.code().expose()), (5, true), "and the console shows it");
    let refused = ask(&socket, &Asked::SetCa { authority: next.pem.clone() });
    assert!(matches!(refused, Ok(Told::Refused { why }) if why.contains("claim it")));
    assert_eq!(claim(&node, &owner, &operators("ops")).status, 200);
    let set = ask(&socket, &Asked::SetCa { authority: next.pem.clone() });
    let want = next.authority.ca().fingerprint().to_string();
    assert!(matches!(set, Ok(Told::Fingerprint { fingerprint }) if fingerprint == want));
    let Ok(Told::Status(status)) = ask(&socket, &Asked::Status) else { panic!("no status") };
    assert_eq!((status.owner, status.method.as_deref()), (Some(want), Some("rotation")));
    assert!(matches!(ask(&socket, &Asked::Rekey), Ok(Told::Fingerprint { .. })));
    assert!(matches!(ask(&socket, &Asked::Pairing), Ok(Told::Refused { .. })));
    let noted = NOTED.lock().expect("whole");
    let ours = noted.iter().filter(|n| n.0 == socket).map(|n| (n.1, n.2)).collect::<Vec<_>>();
    assert_eq!(ours, [("pairing-renew", true), ("set-ca", false), ("set-ca", true), ("rekey", true)]);
}

#[test]
fn s19_what_is_no_question_is_refused_and_the_next_one_is_heard() {
    let node = node();
    node.document(MAINTENANCE);
    let owner = node.open();
    let socket = listening(&node, &owner);
    for text in
        ["{\"do\":\"shell\"}\n".to_owned(), "{}\n".to_owned(), "\n".to_owned(), "x".repeat(300 * 1024)]
    {
        let mut stream = UnixStream::connect(&socket).expect("a connection");
        // What is too long may be cut off while it is sent.
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.contains("refused"), "{answer}");
    }
    drop(UnixStream::connect(&socket).expect("somebody who says nothing"));
    assert!(matches!(ask(&socket, &Asked::Status), Ok(Told::Status(_))));
}

#[test]
fn s19_nobody_but_root_is_heard_even_where_the_socket_lets_him_in() {
    const SOCKET: &str = "MUSTER_TEST_CONTROL";
    if let Some(socket) = std::env::var_os(SOCKET) {
        let told = ask(Path::new(&socket), &Asked::RenewPairing);
        assert!(told.is_err(), "{told:?}");
        return;
    }
    muster_needs::require!(
        (muster_sys::system::user_ids().1 == 0)
            .then_some(())
            .ok_or("only root can be somebody else".to_owned())
    );
    let node = node();
    node.document(MAINTENANCE);
    let owner = node.open();
    let socket = listening(&node, &owner);
    let code = node.code().expose();
    // The mode of the socket alone would keep him out; it is taken away, so that what is left is the core's own look.
    for (path, mode) in
        [("/", 0o755), ("/run", 0o755), ("/run/muster", 0o755), ("/run/muster/control.sock", 0o666)]
    {
        fs::set_permissions(node.at(path), fs::Permissions::from_mode(mode)).expect("set");
    }
    // A copy that anybody can run.
    let program = node.at("/test");
    let copy = muster_sys::command::Command::new("/bin/cp").arg("--");
    let copy = copy.arg(std::env::current_exe().expect("this test")).arg(&program).run();
    assert!(copy.expect("it ran").ok());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    let out = std::process::Command::new(program)
        .args([
            "--exact",
            "core::tests::control_tests::s19_nobody_but_root_is_heard_even_where_the_socket_lets_him_in",
        ])
        .env(SOCKET, &socket)
        .uid(65534)
        .gid(65534)
        .output()
        .expect("it ran");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    assert!(String::from_utf8_lossy(&out.stdout).contains("1 passed"));
    assert_eq!(node.code().expose(), code, "nothing was renewed");
    assert!(matches!(ask(&socket, &Asked::Status), Ok(Told::Status(_))), "root is heard");
}
