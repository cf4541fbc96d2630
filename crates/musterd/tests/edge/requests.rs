//! What a request may look like.

use muster_needs::require;

use crate::client::{connect, curl, exchange, tools};
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
    let got = get("/v1/health", &["-H", "Origin: https://evil.example"]);
    assert_eq!((got.status, got.reason().as_str()), (403, "browser"));
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
