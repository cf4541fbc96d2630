//! Fetchers that fell: whoever took the user `muster-fetch` over can lie about the content, and nothing else.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use musterd::fetch::words::{Told, Wanted, Why};
use musterd::wire::{Kind, frame, message, read_body, read_message, write_body};

use crate::support::{Fetcher, Node, authority, until};

const URL: &str = "https://127.0.0.1:1/ca.pem";

/// Begins as it should, reads the request, and then sends these bytes.
fn sends(bytes: Vec<u8>) -> Fetcher {
    Box::new(move |mut core| {
        asked(&mut core);
        let _ = core.write_all(&bytes);
    })
}

fn asked(core: &mut UnixStream) -> Wanted {
    core.write_all(&message(&Told::Begun).unwrap()).unwrap();
    let wanted = read_message::<Wanted>(core).unwrap().unwrap();
    read_body(core, 1 << 20).unwrap();
    wanted
}

fn got(body: &[u8]) -> Vec<u8> {
    let mut bytes = message(&Told::Got).unwrap();
    write_body(&mut bytes, body).unwrap();
    bytes
}

#[test]
fn it_can_lie_about_the_content() {
    let pem = authority("whoever");
    let mut node = Node::with_fetcher(sends(got(pem.as_bytes())));
    node.asks(URL, "");
    assert_eq!(node.owned(), pem, "this is what docs/threats.md says of mode B");
}

#[test]
fn what_is_no_answer_is_a_fault_and_no_word_of_it_is_repeated() {
    let json = |text: &str| frame(Kind::Message, text.as_bytes()).unwrap();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"CANARY, no frames at all".to_vec(), "does not speak as it should"),
        (json(r#"{"is":"CANARY"}"#), "does not speak as it should"),
        (json(r#"{"is":"failed","why":{"why":"CANARY"}}"#), "does not speak as it should"),
        (json(r#"{"is":"failed","why":{"why":"refused"},"more":"CANARY"}"#), "does not speak as it should"),
        (json(r#"{"is":"failed","why":{"why":"status","code":"CANARY"}}"#), "does not speak as it should"),
        (message(&Told::Begun).unwrap(), "does not speak as it should"),
        (
            [message(&Told::Got).unwrap(), message(&Told::Got).unwrap()].concat(),
            "does not speak as it should",
        ),
        (got(&vec![b'C'; 256 * 1024 + 1]), "more than is taken"),
        (got(&vec![b'C'; 8 << 20]), "more than is taken"),
        ([2, 0xff, 0xff, 0xff, 0xff].to_vec(), "does not speak as it should"),
        (got(b"\xff\xfe"), "no text"),
        (got(b"CANARY"), "the operators' authority"),
        (message(&Told::Failed { why: Why::Status { code: 200 } }).unwrap(), "it answered 200"),
        (message(&Told::Failed { why: Why::Status { code: 65535 } }).unwrap(), "it answered 65535"),
    ];
    for (bytes, word) in cases {
        let mut node = Node::with_fetcher(sends(bytes));
        node.asks(URL, ", waitFor: 10m");
        let said = node.refused();
        assert!(said.contains(word), "{word}: {said}");
        assert!(!said.contains("CANARY") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn one_that_ends_early_is_asked_again_until_the_time_is_over() {
    let starts = Arc::new(AtomicUsize::new(0));
    let (count, pem) = (Arc::clone(&starts), authority("ops"));
    let good = got(pem.as_bytes());
    // Before it begins, once it has begun, in the middle of the answer; then a whole answer.
    let mut node = Node::with_fetcher(Box::new(move |mut core| match count.fetch_add(1, Ordering::SeqCst) {
        0 => drop(core),
        1 => drop(asked(&mut core)),
        2 => {
            asked(&mut core);
            core.write_all(&good[..good.len() / 2]).unwrap();
        }
        _ => {
            asked(&mut core);
            core.write_all(&good).unwrap();
        }
    }));
    node.asks(URL, ", waitFor: 5m");
    assert_eq!(node.owned(), pem);
    assert_eq!(starts.load(Ordering::SeqCst), 4);
    let mut node = Node::with_fetcher(Box::new(drop));
    node.asks(URL, ", waitFor: 1s");
    let said = node.refused();
    assert!(said.contains("ended without an answer") && said.contains("after 1 s"), "{said}");
}

#[test]
fn one_that_answers_bit_by_bit_is_left_at_the_end_of_its_time() {
    let mut node = Node::with_fetcher(Box::new(|mut core| {
        asked(&mut core);
        std::thread::spawn(move || {
            let all = got(&[b'x'; 4096]);
            let one_by_one = all.iter().try_for_each(|byte| {
                std::thread::sleep(Duration::from_millis(500));
                core.write_all(&[*byte])
            });
            drop(one_by_one);
        });
    }));
    node.asks(URL, ", waitFor: 10m");
    node.go();
    let begun = Instant::now();
    while !node.ended() {
        assert!(begun.elapsed() < Duration::from_secs(50), "{}", node.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(begun.elapsed() > Duration::from_secs(30));
    assert!(node.log().contains("did not answer in time"), "{}", node.log());
}

#[test]
fn it_is_told_what_to_ask_and_nothing_else_of_the_node() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let mut node = Node::with_fetcher(Box::new(move |mut core| {
        let wanted = asked(&mut core);
        core.write_all(&message(&Told::Failed { why: Why::NotHttp }).unwrap()).unwrap();
        let mut more = Vec::new();
        core.read_to_end(&mut more).unwrap();
        let text = serde_json::to_string(&wanted).unwrap();
        tell.lock().unwrap().send((text, more)).unwrap();
    }));
    node.put("/etc/muster/token", "a-token", 0o600);
    node.asks(URL, ", authFile: /etc/muster/token");
    node.refused();
    let (text, more) = told.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(text, format!(r#"{{"url":"{URL}","max":262144,"seconds":30,"bearer":"a-token"}}"#));
    assert!(more.is_empty());
    assert!(!format!("{:?}", serde_json::from_str::<Wanted>(&text).unwrap()).contains("a-token"));
}

#[test]
fn nothing_is_asked_at_a_socket_that_root_did_not_make_listen() {
    if !rustix::process::geteuid().is_root() {
        return muster_needs::skip("root, to make a socket of another user's");
    }
    let mut node = Node::new();
    let path = node.at(musterd::places::FETCH_SOCKET);
    std::fs::remove_file(&path).unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let made = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&made, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        // This thread alone: who listens is whom the kernel names.
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        listen(&made, 4).unwrap();
        tell.send(made).unwrap();
    });
    let listener: std::os::unix::net::UnixListener = told.recv().unwrap().into();
    node.asks(URL, ", waitFor: 10m");
    let said = node.refused();
    assert!(said.contains("is of user 65534, and nothing is asked there"), "{said}");
    let (mut stream, _) = listener.accept().unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    assert!(heard.is_empty(), "it heard {heard:?}");
}

#[test]
fn a_fetcher_speaks_to_a_core_that_asks_wrongly_and_ends() {
    use std::process::{Command, Stdio};
    let ask = |bytes: &[u8]| {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_musterd"))
            .arg("fetch")
            .env_clear()
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(read_message::<Told>(&mut ours).unwrap(), Some(Told::Begun));
        ours.write_all(bytes).unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let told = read_message::<Told>(&mut ours).ok().flatten();
        until("it ends", || child.try_wait().unwrap());
        told
    };
    let wanted = |url: &str| {
        let wanted = Wanted { url: url.to_owned(), max: 9, seconds: 2, bearer: None };
        let mut bytes = message(&wanted).unwrap();
        write_body(&mut bytes, b"").unwrap();
        bytes
    };
    assert_eq!(ask(b""), None);
    assert_eq!(ask(b"what"), None);
    for url in
        ["http://127.0.0.1/", "https://u:p@127.0.0.1/", "https://", "file:///etc/shadow", "https://a b/"]
    {
        assert_eq!(ask(&wanted(url)), Some(Told::Failed { why: Why::Ours }), "{url}");
    }
}
