//! What a request may look like.

use muster_needs::require;

use crate::client::{connect, curl, exchange, h2, tools};
use crate::core::Core;
use crate::process::Edge;

#[test]
fn m15_path_tricks_never_reach_an_operation() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    for target in [
        "//v1/node",
        "/v1//node",
        "/v1/node/",
        "/v1/%6eode",
        "/v1%2fnode",
        "/v1/../v1/node",
        "/./v1/node",
        "/v1/node;x",
        "/%2e%2e/v1/node",
    ] {
        for flag in ["--http1.1", "--http2"] {
            let got = curl(at, Some(&alice), "/", &[flag, "--request-target", target]);
            assert_eq!((got.status, got.reason().as_str()), (400, "path"), "{flag} {target}");
        }
    }
    let absolute = format!("https://{at}/v1/node");
    let got = curl(at, Some(&alice), "/", &["--http1.1", "--request-target", &absolute]);
    assert_eq!((got.status, got.reason().as_str()), (400, "path"));
    for line in ["OPTIONS * HTTP/1.1", "CONNECT node:7443 HTTP/1.1"] {
        let mut stream = connect(at, Some(&alice), "http/1.1");
        let said = exchange(&mut stream, format!("{line}\r\nhost: x\r\n\r\n").as_bytes(), "}");
        assert!(said.starts_with("HTTP/1.1 400") || said.starts_with("HTTP/1.1 405"), "{said}");
    }
    assert!(!core.events().iter().any(|e| e.starts_with("call")), "{:?}", core.events());
    let got = curl(at, Some(&alice), "/v1/node", &[]);
    assert_eq!(got.json()["request"], "GET /v1/node");
}

#[test]
fn what_there_is_not_is_told_with_what_there_is() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let get = |path: &str, more: &[&str]| curl(at, Some(&alice), path, more);
    assert_eq!(get("/v1/nothing", &[]).status, 404);
    let got = get("/v1/access/ssh", &["-X", "PATCH"]);
    assert_eq!((got.status, got.reason().as_str()), (405, "method"));
    assert!(got.headers.contains("allow: get, post, delete"), "{}", got.headers);
    for path in ["/v1/node?debug=1", "/v1/logs?unit=a&unit=b", "/v1/logs?lines=x", "/v1/node?"] {
        let got = get(path, &[]);
        assert_eq!((got.status, got.reason().as_str()), (400, "query"), "{path}");
    }
    let got = get("/v1/enroll", &["-X", "POST"]);
    assert_eq!((got.status, got.reason().as_str()), (409, "claimed"));
    for header in ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: none"] {
        let got = get("/v1/health", &["-H", header]);
        assert_eq!((got.status, got.reason().as_str()), (403, "browser"), "{header}");
    }
}

#[test]
fn m15_a_proof_goes_to_the_core_as_it_came() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let got = curl(at, Some(&alice), "/v1/upgrade/apply", &["-d", "{}", "-H", "Muster-Proof: 1 aa bb cc"]);
    assert_eq!(got.json()["proof"], "1 aa bb cc", "{got:?}");
    assert_eq!(got.json()["bytes"], 2, "what was signed is what is sent");
    for (length, status) in [(4096, 200), (4097, 400)] {
        let proof = format!("Muster-Proof: {}", "x".repeat(length));
        let got = curl(at, Some(&alice), "/v1/upgrade/apply", &["-d", "{}", "-H", &proof]);
        assert_eq!(got.status, status, "{length}: {got:?}");
    }
    let twice = ["-d", "{}", "-H", "Muster-Proof: a", "-H", "Muster-Proof: b"];
    assert_eq!(curl(at, Some(&alice), "/v1/upgrade/apply", &twice).status, 400);
}

#[test]
fn a_body_over_its_limit_is_413_and_one_where_none_belongs_400() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let file = core.folder.path().join("body");
    let at_file = format!("@{}", file.display());
    let route = |path: &str| muster_api::ROUTES.iter().find(|r| r.path == path).expect("a route").body;
    for flag in ["--http1.1", "--http2"] {
        for (path, method) in [("/v1/upgrade/stage", "POST"), ("/v1/config", "POST"), ("/v1/ca/crl", "PUT")] {
            let most = route(path);
            for (more, status) in [(0, 200), (1, 413)] {
                std::fs::write(&file, vec![b' '; most + more]).expect("a file");
                let args = [flag, "-X", method, "--data-binary", &at_file, "-H", "Expect:"];
                let got = curl(at, Some(&alice), path, &args);
                assert_eq!(got.status, status, "{flag} {path} {}: {got:?}", most + more);
                let chunked = [&args[..], &["-H", "Transfer-Encoding: chunked"]].concat();
                if flag == "--http1.1" {
                    assert_eq!(curl(at, Some(&alice), path, &chunked).status, status, "chunked {path}");
                }
            }
        }
        let got = curl(at, Some(&alice), "/v1/lifecycle/shutdown", &[flag, "-d", "{\"x\":1}"]);
        assert_eq!((got.status, got.reason().as_str()), (400, "body"), "{got:?}");
        assert_eq!(curl(at, Some(&alice), "/v1/lifecycle/shutdown", &[flag, "-d", "{}"]).status, 200);
        assert_eq!(curl(at, Some(&alice), "/v1/lifecycle/shutdown", &[flag, "-X", "POST"]).status, 200);
    }
}

#[test]
fn a_head_that_is_too_long_is_431() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let long = format!("X-Long: {}", "a".repeat(20_000));
    for flag in ["--http1.1", "--http2"] {
        let got = curl(at, Some(&alice), "/v1/health", &[flag, "-H", &long]);
        assert_eq!(got.status, 431, "{flag} {got:?}");
    }
    let many: Vec<String> = (0..80).map(|n| format!("X-{n}: 1")).collect();
    let many: Vec<&str> = many.iter().flat_map(|h| ["-H", h.as_str()]).collect();
    let got = curl(at, Some(&alice), "/v1/health", &[&["--http1.1"], many.as_slice()].concat());
    assert_eq!(got.status, 431, "{got:?}");
    assert!(!core.events().iter().any(|e| e.starts_with("call")));
}

#[test]
fn two_lengths_of_one_body_are_no_second_request() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    for head in [
        "content-length: 2\r\ncontent-length: 40",
        "content-length: 40\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked, identity",
        "content-length: +2",
    ] {
        let mut stream = connect(at, Some(&alice), "http/1.1");
        let smuggled = "POST /v1/lifecycle/reboot HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
        let bytes = format!(
            "POST /v1/lifecycle/shutdown HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
        );
        let said = exchange(&mut stream, bytes.as_bytes(), "\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 "), "{head}: {said}");
        drop(stream);
        let mut stream = connect(at, Some(&alice), "http/1.1");
        let bytes = format!("GET /v1/health HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n{smuggled}");
        let _ = exchange(&mut stream, bytes.as_bytes(), "\r\n\r\n");
    }
    let calls: Vec<String> = core.events().into_iter().filter(|e| e.contains("reboot")).collect();
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
fn m15_a_request_says_once_whom_it_is_to() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    for (hosts, good) in [
        ("", false),
        ("host:\r\n", false),
        ("host: x\r\nhost: x\r\n", false),
        ("host: x\r\nhost: y\r\n", false),
        ("host: user@x\r\n", false),
        ("host: x:y\r\n", false),
        ("host: x, y\r\n", false),
        ("host: [fe80::1%eth0]\r\n", false),
        ("host: \u{e9}\r\n", false),
        ("host: x\r\n", true),
        ("host: [2001:db8::1]:7443\r\n", true),
    ] {
        let mut stream = connect(at, Some(&alice), "http/1.1");
        let said = exchange(&mut stream, format!("GET /v1/node HTTP/1.1\r\n{hosts}\r\n").as_bytes(), "}");
        let wanted = if good { "HTTP/1.1 200" } else { "HTTP/1.1 400" };
        assert!(said.starts_with(wanted) && said.contains("\"host\"") != good, "{hosts}: {said}");
    }
    for (fields, good) in [
        (&[][..], false),
        (&[(":authority", "x"), ("host", "y")], false),
        (&[(":authority", "user@x")], false),
        (&[(":authority", "x"), ("host", "x"), ("host", "x")], false),
        (&[("host", "x y")], false),
        (&[(":authority", "X:1"), ("host", "x:1")], true),
        (&[(":authority", "x")], true),
        (&[("host", "x")], true),
    ] {
        let mut stream = connect(at, Some(&alice), "h2");
        let said = h2(&mut stream, &[&[(":path", "/v1/node")], fields].concat());
        assert_eq!(
            (said.contains("\"host\""), said.contains("GET /v1/node")),
            (!good, good),
            "{fields:?}: {said}"
        );
    }
    let calls = core.events().into_iter().filter(|e| e.starts_with("call")).count();
    assert_eq!(calls, 5, "none but the good ones: {:?}", core.events());
}

#[test]
fn m15_what_hyper_would_mend_is_refused() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let get = |target: &str, more: &str| format!("GET {target} HTTP/1.1\r\nhost: x\r\n{more}\r\n");
    let post = |more: &str| {
        format!("POST /v1/lifecycle/reboot HTTP/1.1\r\nhost: x\r\n{more}\r\n2\r\n{{}}\r\n0\r\n\r\n")
    };
    for (what, bytes, reason) in [
        ("a fragment", get("/v1/node#x", ""), "path"),
        ("an empty one", get("/v1/node#", ""), "path"),
        ("behind a query", get("/v1/logs?unit=a#&follow=true", ""), "path"),
        ("HTTP/1.0", get("/v1/node", "").replace("HTTP/1.1", "HTTP/1.0"), "malformed"),
        ("two lengths", post("content-length: 2\r\ntransfer-encoding: chunked\r\n"), "malformed"),
        ("the other way", post("transfer-encoding: chunked\r\ncontent-length: 2\r\n"), "malformed"),
        // What is read along is not known any more, so nothing passes by it.
        (
            "two lengths behind blanks",
            post(&format!("content-length:{}2\r\ntransfer-encoding: chunked\r\n", " ".repeat(80))),
            "malformed",
        ),
        ("another coding", post("transfer-encoding: gzip, chunked\r\n"), "malformed"),
        ("chunked twice", post("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"), "malformed"),
        ("a node in the line", get("https://user:word@x/v1/node", ""), "path"),
    ] {
        let mut stream = connect(at, Some(&alice), "http/1.1");
        let said = exchange(&mut stream, bytes.as_bytes(), "}");
        assert!(said.starts_with("HTTP/1.") && said.contains(" 400 "), "{what}: {said}");
        assert!(said.contains(&format!("\"{reason}\"")), "{what}: {said}");
    }
    // hyper itself: no request was made of these.
    for more in ["x: 1\r\n folded\r\n", "x : 1\r\n", "x\r\n", "x: \u{0}\r\n"] {
        let mut stream = connect(at, Some(&alice), "http/1.1");
        let said = exchange(&mut stream, get("/v1/node", more).as_bytes(), "\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 400"), "{more:?}: {said}");
    }
    assert!(!core.events().iter().any(|e| e.starts_with("call")), "{:?}", core.events());
    // One behind another, the first without fault: each has its own answer.
    let mut stream = connect(at, Some(&alice), "http/1.1");
    let three =
        [get("/v1/node", ""), get("/v1/node#x", ""), get("/v1/health", "connection: close\r\n")].concat();
    let said = exchange(&mut stream, three.as_bytes(), "");
    let statuses: Vec<&str> = said.split("HTTP/1.1 ").skip(1).filter_map(|a| a.get(..3)).collect();
    assert_eq!(statuses, ["200", "400", "200"], "{said}");
    // HTTP/2 has no place for a fragment, and h2 cuts it off: what is judged and written down is the request without it.
    let said = h2(&mut connect(at, Some(&alice), "h2"), &[(":path", "/v1/node#x"), (":authority", "x")]);
    assert!(said.contains("\"GET /v1/node\""), "{said}");
}

#[test]
fn m15_what_is_passed_over_changes_nothing() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    for field in [
        "X-HTTP-Method-Override: POST",
        "X-Forwarded-For: 192.0.2.1",
        "Forwarded: for=192.0.2.1;host=y",
        "X-Original-URL: /v1/lifecycle/reboot",
        "TE: trailers",
        "Expect: another-thing",
        "Upgrade: h2c",
        "Cookie: role=admin",
        "Range: bytes=0-0",
    ] {
        let got = curl(at, Some(&alice), "/v1/node", &["--http1.1", "-H", field]);
        assert_eq!(
            (got.status, got.json()["request"].as_str()),
            (200, Some("GET /v1/node")),
            "{field}: {got:?}"
        );
    }
    let opened: Vec<String> = core.events().into_iter().filter(|e| e.starts_with("open")).collect();
    assert!(opened.iter().all(|e| e == "open alice 127.0.0.1"), "{opened:?}");
    // A body is its bytes, and what follows it is nothing: no proof, and no part of it.
    let mut stream = connect(at, Some(&alice), "http/1.1");
    let said = exchange(
        &mut stream,
        b"POST /v1/upgrade/apply HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\ntrailer: muster-proof\r\n\
          transfer-encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nmuster-proof: 1 aa bb cc\r\n\r\n",
        "}",
    );
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"bytes\":2"), "{said}");
    assert!(!said.contains("aa bb cc"), "{said}");
    // A body that waits to be asked for is, and one that nobody wants is not.
    let head = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    };
    let mut stream = connect(at, Some(&alice), "http/1.1");
    let said = exchange(&mut stream, head("/v1/upgrade/apply").as_bytes(), "\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 100"), "{said}");
    assert!(exchange(&mut stream, b"{}", "}").contains(" 200 "));
    let mut stream = connect(at, Some(&alice), "http/1.1");
    let said = exchange(&mut stream, head("/v1/nothing").as_bytes(), "}");
    assert!(said.starts_with("HTTP/1.1 404"), "{said}");
}
