//! What a server answers, and what becomes of it.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::{Answer, Server, Signer, ok, status};
use crate::support::{Node, authority, until};

const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const YEARS: (i32, i32) = (2020, 2040);
const WAITS: &str = ", waitFor: 20s";

/// A node that trusts the signer, and a server of his that says this.
fn pair(says: impl Fn(usize) -> Answer + Send + Sync + 'static) -> (Node, Server, String) {
    let signer = Signer::new("pki");
    let node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &signer.pem(), 0o644);
    let server = Server::start(HERE, signer.shown(&["127.0.0.1", "localhost"], YEARS), says);
    let url = format!("https://127.0.0.1:{}/ca.pem", server.at.port());
    (node, server, url)
}

/// What a node says that waits for a source which answers this, and fails at once all the same.
fn refused(answer: Answer) -> String {
    let (mut node, server, url) = pair(move |_| answer.clone());
    node.asks(&url, WAITS);
    let begun = Instant::now();
    let said = node.refused();
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited: {said}");
    assert_eq!(server.heads().len(), 1, "it asked again: {said}");
    assert!(said.contains("api.operatorCAFrom: https://127.0.0.1:"), "{said}");
    assert!(!said.contains("CANARY"), "words of the server's: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(node.called().contains("muster-parked.target"), "it does not look parked: {}", node.called());
    said
}

fn raw(head: &str, body: &[u8]) -> Answer {
    Answer::Whole([head.as_bytes(), b"\r\n", body].concat())
}

#[test]
fn an_authority_comes_from_a_url_with_nothing_sent_but_the_question() {
    let pem = authority("ops");
    let answer = pem.clone();
    let (mut node, server, url) = pair(move |_| ok(&answer));
    node.asks(&url, "");
    assert_eq!(node.owned(), pem);
    let heads = server.heads();
    assert_eq!(heads.len(), 1);
    let head = heads[0].to_ascii_lowercase();
    assert!(head.starts_with("get /ca.pem http/1.1\r\n"), "{head}");
    assert!(!head.contains("authorization") && !head.contains("cookie"), "{head}");
    assert!(node.called().contains("start --no-ask-password -- muster-fetch.socket\n"), "{}", node.called());
    // By name, and the path that is not there is the root.
    let pem = authority("ops");
    let (mut node, server, _) = pair(move |_| ok(&pem));
    node.asks(&format!("https://localhost:{}?a=b", server.at.port()), "");
    node.owned();
    assert!(server.heads()[0].starts_with("GET /?a=b "), "{:?}", server.heads());
}

#[test]
fn a_host_may_be_an_address_of_ipv6() {
    let (pem, signer) = (authority("ops"), Signer::new("pki"));
    let mut node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &signer.pem(), 0o644);
    let at = SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), 0);
    let server = Server::start(at, signer.shown(&["::1"], YEARS), move |_| ok(&pem));
    node.asks(&format!("https://{}/ca.pem", server.at), "");
    node.owned();
    let head = server.heads()[0].to_ascii_lowercase();
    assert!(head.contains(&format!("\r\nhost: [::1]:{}\r\n", server.at.port())), "{head}");
}

#[test]
fn what_is_not_there_yet_is_asked_for_again() {
    let all = [404, 408, 425, 429, 502, 503, 504].map(|code| {
        std::thread::spawn(move || {
            let pem = authority("ops");
            let (mut node, server, url) =
                pair(move |nth| if nth == 0 { status(code, "Retry-After: 1000\r\n") } else { ok(&pem) });
            node.asks(&url, WAITS);
            node.owned();
            assert_eq!(server.heads().len(), 2, "{code}");
            assert!(
                node.called().contains("muster-parked.target"),
                "it does not look parked: {}",
                node.called()
            );
            let said = node.log();
            assert!(said.contains(&format!("it answered {code}")) && !said.contains("CANARY"), "{said}");
        })
    });
    all.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn any_other_status_fails_at_once_and_no_redirect_is_followed() {
    let there = Server::start(HERE, Signer::new("pki").shown(&["127.0.0.1"], YEARS), |_| ok("x"));
    let location = format!("Location: https://127.0.0.1:{}/\r\n", there.at.port());
    let codes = [201, 206, 301, 302, 303, 307, 308, 400, 401, 403, 410, 451, 500, 501, 505, 599];
    let all = codes.map(|code| {
        let location = location.clone();
        std::thread::spawn(move || {
            let said = refused(status(code, &location));
            assert!(said.contains(&format!("it answered {code}")), "{said}");
            assert_eq!(said.contains("redirects are not followed"), (300..400).contains(&code), "{said}");
        })
    });
    all.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(there.connected(), 0, "a redirect was followed");
}

#[test]
fn without_wait_for_there_is_one_attempt() {
    let (mut node, server, url) = pair(|_| status(503, ""));
    node.asks(&url, "");
    assert!(node.refused().contains("it answered 503"));
    assert_eq!(server.heads().len(), 1);
}

#[test]
fn a_server_that_comes_later_is_taken_and_one_that_does_not_is_a_fault_at_the_end_of_the_time() {
    let signer = Signer::new("pki");
    let mut node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &signer.pem(), 0o644);
    // Bound and not listened to: refused, and nobody else gets it.
    let bound = {
        use rustix::net::{AddressFamily, SocketType, bind, socket};
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&bound, &HERE).unwrap();
        TcpListener::from(bound)
    };
    let at = bound.local_addr().unwrap();
    let url = format!("https://{at}/ca.pem?secret=CANARY");
    node.asks(&url, ", waitFor: 2s");
    let begun = Instant::now();
    let said = node.refused();
    let took = begun.elapsed();
    assert!((2..8).contains(&took.as_secs()), "{took:?}");
    assert!(said.contains("connection refused") && said.contains("after 2 s"), "{said}");
    assert!(!said.contains("CANARY"), "what follows a ? may be a secret: {said}");
    // Nor is it owned by what was there before; the next start asks again.
    let pem = authority("ops");
    node.asks(&url, ", waitFor: 30s");
    node.go();
    until("it waits", || node.log().contains("waits for an owner").then_some(()));
    // Root at the console is told so, at once.
    let begun = Instant::now();
    let (code, said) = node.musterd(&["status"]);
    assert!(begun.elapsed() < Duration::from_secs(3), "{said}");
    assert!(
        code == 1 && said.contains("waits for an owner: api.operatorCAFrom: https://127.0.0.1:"),
        "{said}"
    );
    assert!(!said.contains("CANARY"), "{said}");
    rustix::net::listen(&bound, 16).unwrap();
    let server = Server::on(bound, signer.shown(&["127.0.0.1"], YEARS), move |_| ok(&pem));
    until("an owner", || node.is_owned().then_some(()));
    let told = until("it serves", || Some(node.musterd(&["status"])).filter(|(code, _)| *code == 0));
    assert!(told.1.contains("SHA256:"), "{told:?}");
    assert!(server.heads()[0].starts_with("GET /ca.pem?secret=CANARY "));
    assert!(!node.log().contains("CANARY"), "{}", node.log());
}

#[test]
fn a_name_that_leads_nowhere_is_not_there_yet() {
    let mut node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &Signer::new("pki").pem(), 0o644);
    node.asks("https://nobody.invalid/ca.pem", ", waitFor: 1s");
    let said = node.refused();
    assert!(said.contains("the name of its host leads to no address, after"), "{said}");
}

#[test]
fn only_https_is_asked_and_nothing_turns_that_off() {
    let mut node = Node::new();
    for url in ["http://127.0.0.1/ca.pem", "HTTPS://127.0.0.1/", "ftp://127.0.0.1/", "https://u:p@127.0.0.1/"]
    {
        node.asks(url, "");
        let said = node.refused();
        assert!(said.contains("api.operatorCAFrom.url will not do"), "{url}: {said}");
    }
    assert!(node.fetchers().is_empty() && !node.called().contains("muster-fetch"));
}

#[test]
fn a_server_is_judged_by_its_name_its_dates_and_an_anchor() {
    let (signer, other) = (Signer::new("pki"), Signer::new("another"));
    for (shown, word) in [
        (other.shown(&["127.0.0.1"], YEARS), "no trust anchor leads to its certificate"),
        (signer.shown(&["127.0.0.2"], YEARS), "another host's"),
        (signer.shown(&["localhost"], YEARS), "another host's"),
        (signer.shown(&["127.0.0.1"], (2020, 2021)), "has ended"),
        (signer.shown(&["127.0.0.1"], (2090, 2091)), "has not begun"),
    ] {
        let mut node = Node::new();
        node.put("/etc/muster/fetch-ca.pem", &signer.pem(), 0o644);
        let server = Server::start(HERE, shown, |_| ok("never"));
        node.asks(&format!("https://{}/ca.pem", server.at), WAITS);
        let said = node.refused();
        assert!(said.contains(word), "{word}: {said}");
        assert_eq!((server.heads().len(), server.connected()), (0, 1), "{word}: it was asked something");
    }
}

#[test]
fn tls_before_1_3_and_what_is_no_tls_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=x -addext subjectAltName=IP:127.0.0.1".split(' '))
        .current_dir(&folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let anchors = std::fs::read_to_string(folder.path().join("cert.pem")).unwrap();
    let mut old = Command::new("openssl")
        .args("s_server -tls1_2 -www -cert cert.pem -key key.pem -accept 127.0.0.1:0".split(' '))
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Where it listens is what it says first; the pipe stays open as long as it runs.
    let mut said = std::io::BufRead::lines(std::io::BufReader::new(old.stdout.take().unwrap()));
    let at: SocketAddr =
        said.find_map(|l| l.unwrap().strip_prefix("ACCEPT ")?.trim().parse().ok()).expect("a port");
    let mut node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &anchors, 0o644);
    node.asks(&format!("https://{at}/ca.pem"), WAITS);
    let said = node.refused();
    old.kill().unwrap();
    old.wait().unwrap();
    assert!(said.contains("no TLS 1.3 handshake"), "{said}");
    // Plain HTTP at the port.
    let plain = TcpListener::bind(HERE).unwrap();
    node.asks(&format!("https://{}/ca.pem", plain.local_addr().unwrap()), WAITS);
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\nCANARY").unwrap();
        std::thread::sleep(Duration::from_secs(1));
    });
    let said = node.refused();
    assert!(said.contains("no TLS 1.3 handshake") && !said.contains("CANARY"), "{said}");
}

#[test]
fn answers_are_bounded_whole_and_plain() {
    let max = 256 * 1024;
    let long = |n: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n");
    let chunk = b"10000\r\n".iter().copied().chain([b'x'; 65536]).chain(*b"\r\n");
    let chunks: Vec<u8> = std::iter::repeat_n(chunk, 40).flatten().collect();
    let gone = |answer: Answer| match answer {
        Answer::Whole(bytes) => Answer::Cut(bytes),
        other => other,
    };
    let cases = [
        (raw(&long(max + 1), &vec![b'x'; max + 1]), "more than is taken"),
        (raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", &chunks), "more than is taken"),
        (raw("HTTP/1.1 200 OK\r\nConnection: close\r\n", &vec![b'x'; 2 * max]), "more than is taken"),
        (raw(&long(400), b"CANARY"), "ended before the answer did"),
        (gone(raw(&long(400), b"CANARY")), "ended before the answer did"),
        (gone(raw("HTTP/1.1 200 OK\r\nConnection: close\r\n", b"CANARY")), "ended before the answer did"),
        (Answer::Cut(Vec::new()), "ended before the answer did"),
        (raw("SSH-2.0-CANARY\r\n", b""), "not HTTP/1.1"),
        (raw(&format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "C".repeat(300_000)), b""), "not HTTP/1.1"),
        (
            raw("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n", b"CANARY"),
            "content coding",
        ),
        (raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", b"\xff\xfe"), "no text"),
        (ok("CANARY: no certificate"), "the operators' authority"),
        (ok(""), "the operators' authority"),
    ];
    let all = cases.map(|(answer, word)| {
        std::thread::spawn(move || {
            let (mut node, server, url) = pair(move |_| answer.clone());
            node.asks(&url, WAITS);
            let said = node.refused();
            assert!(said.contains(word), "{word}: {said}");
            assert!(!said.contains("CANARY"), "{said}");
            assert_eq!(server.heads().len(), 1, "{word}: it asked again");
        })
    });
    all.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn an_answer_of_just_the_longest_length_is_taken() {
    let pem = authority("ops");
    let padded = format!("{}{pem}", "\n".repeat(64 * 1024 - pem.len()));
    let (mut node, _server, url) = pair(move |_| ok(&padded));
    node.asks(&url, "");
    assert_eq!(node.owned(), pem);
    // What a source may be in all is more than an authority may be.
    let (mut node, _server, url) = pair(|_| ok(&"x".repeat(256 * 1024)));
    node.asks(&url, "");
    assert!(node.refused().contains("at most 64 KiB"));
}

#[test]
fn a_server_that_is_too_slow_is_left_after_thirty_seconds() {
    let drip = Answer::Slow(vec![b'H'; 100], Duration::from_secs(1));
    let all = [Answer::Nothing(Duration::from_secs(60)), drip].map(|answer| {
        std::thread::spawn(move || {
            let (mut node, server, url) = pair(move |_| answer.clone());
            node.asks(&url, ", waitFor: 10m");
            node.go();
            let begun = Instant::now();
            while !node.ended() {
                assert!(begun.elapsed() < Duration::from_secs(45), "{}", node.log());
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(begun.elapsed() > Duration::from_secs(25), "{}", node.log());
            assert!(node.log().contains("did not come in time"), "{}", node.log());
            assert_eq!(server.heads().len(), 1);
        })
    });
    all.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn a_token_goes_to_its_host_and_nowhere_else() {
    let pem = authority("ops");
    let (mut node, server, url) = pair(move |nth| match nth {
        0 => Answer::Nothing(Duration::from_secs(3)),
        _ => ok(&pem),
    });
    let token = "TOKEN-CANARY.0123/+~_-==";
    node.asks(&url, &format!(", authFile: /etc/muster/pki.token{WAITS}"));
    // It comes later than the node.
    node.go();
    until("it waits", || node.log().contains("authFile /etc/muster/pki.token does not exist").then_some(()));
    assert_eq!(server.connected(), 0, "nobody is asked without it");
    node.put("/etc/muster/pki.token", &format!("{token}\n"), 0o600);
    until("it is asked", || (server.heads().len() == 1).then_some(()));
    let fetchers = node.fetchers();
    assert_eq!(fetchers.len(), 1);
    for pid in fetchers {
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains("CANARY"), "{file}");
        }
    }
    // Killed in the middle, it is asked again.
    node.kill_fetchers();
    until("an owner", || node.is_owned().then_some(()));
    for head in server.heads() {
        assert!(
            head.to_ascii_lowercase()
                .contains(&format!("\r\nauthorization: bearer {}\r\n", token.to_ascii_lowercase())),
            "{head}"
        );
    }
    assert!(!node.log().contains("CANARY") && !node.called().contains("CANARY"), "{}", node.log());
}

#[test]
fn a_token_that_others_may_read_or_that_is_none_goes_nowhere() {
    let (mut node, server, url) = pair(|_| ok("never"));
    node.asks(&url, &format!(", authFile: /etc/muster/pki.token{WAITS}"));
    for (text, mode, word) in [
        ("CANARY", 0o644, "0644"),
        ("CANARY", 0o640, "0640"),
        ("", 0o600, "holds no bearer token"),
        ("CANARY two", 0o600, "holds no bearer token"),
        ("CANARY\r\nX: y", 0o600, "holds no bearer token"),
        ("==", 0o600, "holds no bearer token"),
        (&"CANARY".repeat(2000), 0o600, "longer than 8192 bytes"),
    ] {
        node.put("/etc/muster/pki.token", text, mode);
        let said = node.refused();
        assert!(said.contains(word) && !said.contains("CANARY"), "{said}");
    }
    s10_no_other_kind_of_file(&mut node, "/etc/muster/pki.token");
    assert_eq!(server.connected(), 0);
}

#[test]
fn s10_anchors_of_root_count_alone_and_others_none() {
    let (mut node, server, url) = pair(|_| ok("never"));
    node.asks(&url, "");
    for (text, mode, word) in [
        ("", 0o644, "trusts nobody"),
        ("\n", 0o644, "trusts nobody"),
        ("no certificate", 0o644, "has no certificate in it"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0o644, "has no certificate in it"),
        ("x", 0o664, "0664"),
    ] {
        node.put("/etc/muster/fetch-ca.pem", text, mode);
        let said = node.refused();
        assert!(said.contains(word), "{word}: {said}");
    }
    s10_no_other_kind_of_file(&mut node, "/etc/muster/fetch-ca.pem");
    // Without the file the machine's own count, and they do not know this server.
    std::fs::remove_file(node.at("/etc/muster/fetch-ca.pem")).unwrap();
    let said = node.refused();
    assert!(said.contains("no trust anchor leads") || said.contains("has no trust anchors"), "{said}");
    assert!(server.heads().is_empty());
}

/// A link, a pipe, a folder, and somebody else's file in the place of one.
fn s10_no_other_kind_of_file(node: &mut Node, path: &str) {
    let at = node.at(path);
    let mut says = |word: &str| {
        let said = node.refused();
        assert!(said.contains(path) && said.contains(word), "{word}: {said}");
    };
    std::fs::remove_file(&at).unwrap();
    std::os::unix::fs::symlink("/dev/null", &at).unwrap();
    says("is a symbolic link");
    std::fs::remove_file(&at).unwrap();
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&at).status().unwrap().success());
    says("is not a regular file");
    std::fs::remove_file(&at).unwrap();
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&at).unwrap();
    says("is not a regular file");
    std::fs::remove_dir(&at).unwrap();
    if rustix::process::geteuid().is_root() {
        std::fs::write(&at, "x").unwrap();
        std::os::unix::fs::chown(&at, Some(65534), None).unwrap();
        says("belongs to user 65534");
        std::fs::remove_file(&at).unwrap();
    }
    std::fs::write(&at, "x").unwrap();
}

#[test]
fn a_core_that_is_killed_in_the_middle_takes_its_fetcher_along_and_asks_again() {
    let pem = authority("ops");
    let (mut node, server, url) = pair(move |nth| match nth {
        0 => Answer::Nothing(Duration::from_secs(60)),
        _ => ok(&pem),
    });
    node.asks(&url, "");
    node.go();
    until("it is asked", || (server.heads().len() == 1).then_some(()));
    assert_eq!(node.fetchers().len(), 1);
    node.kill();
    until("the fetcher has ended", || node.fetchers().is_empty().then_some(()));
    assert!(!node.is_owned());
    node.owned();
    // And one that is told to end ends at once.
    let (mut node, server, url) = pair(|_| Answer::Nothing(Duration::from_secs(60)));
    node.asks(&url, "");
    node.go();
    until("it is asked", || (server.heads().len() == 1).then_some(()));
    node.terminate();
    assert_eq!(until("it ends", || node.code()), 0, "{}", node.log());
    until("the fetcher has ended", || node.fetchers().is_empty().then_some(()));
}

#[test]
fn an_owner_is_asked_for_once_and_kept_whatever_the_url_says_later() {
    let (first, second) = (authority("ops"), authority("another"));
    let (ours, theirs) = (first.clone(), second);
    let (mut node, server, url) = pair(move |nth| if nth == 0 { ok(&ours) } else { ok(&theirs) });
    node.asks(&url, "");
    assert_eq!(node.owned(), first);
    assert_eq!(node.owned(), first);
    assert_eq!(server.connected(), 1);
}
