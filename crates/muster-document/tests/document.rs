//! Whole documents: what is taken, what is refused and on which line, and that nothing secret is quoted.
#![allow(clippy::panic, reason = "a test fails by panicking")]

use core::time::Duration;
use muster_document::values::{Place, SecretSource};
use muster_document::yaml::{Fault, Reason};
use muster_document::{Document, Mode, Role, keys, read, read_embedded, schema};

fn fine(_: &str) -> Result<(), String> {
    Ok(())
}

fn taken(text: &str) -> Document {
    match read(text, &fine) {
        Ok(Some(document)) => document,
        Ok(None) => panic!("no document in {text}"),
        Err(faults) => panic!("{text}\n{faults:?}"),
    }
}

fn refused(text: &str) -> Vec<Fault> {
    match read(text, &fine) {
        Err(faults) => faults,
        Ok(found) => panic!("taken: {text}\n{found:?}"),
    }
}

/// Lines and beginnings of the faults.
fn told(text: &str) -> Vec<String> {
    refused(text).iter().map(ToString::to_string).collect()
}

const PEM: &str = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n";
const JOIN: &str = "cluster: {endpoint: api.example}\njoin: {token: abcdef.0123456789abcdef, caCertHashes: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}\n";

#[test]
fn two_lines_turn_the_api_on_and_wait() {
    // The most natural thing to type must not be the worst state of a node.
    let document = taken("muster:\n  api:\n    enabled: true\n");
    assert_eq!(document.mode(), Mode::Maintenance);
    assert!(document.holds_for_claim() && document.holds_for_document() && !document.open_enrolment());
    assert_eq!(document.api.listen.to_string(), "[::]:7443");
    assert_eq!(document.cluster.name, "kubernetes");
}

#[test]
fn modes_follow_from_the_api_block() {
    let inline = format!("api: {{operatorCA: \"{PEM}\"}}\n");
    for (text, mode) in [
        ("role: init\n", Mode::Disabled),
        ("role: init\napi: {}\n", Mode::Disabled),
        ("role: init\napi: {enabled: false}\n", Mode::Disabled),
        ("role: init\napi: {enabled: true}\n", Mode::Maintenance),
        (inline.as_str(), Mode::Configured),
        ("api: {operatorCAFrom: {file: /x.pem}}\n", Mode::Configured),
        ("api: {operatorCAFrom: {url: 'https://h/x'}, enabled: true}\n", Mode::Configured),
    ] {
        assert_eq!(taken(text).mode(), mode, "{text}");
    }
    assert!(!taken("role: init\n").holds_for_document());
    assert!(taken("role: init\napi: {enabled: true, awaitConfig: true}\n").holds_for_document());
    assert!(taken("api: {enabled: true, insecure: true}\n").open_enrolment());
}

#[test]
fn everything_that_may_stand_in_it_is_read() {
    let text = format!(
        "#cloud-config\nusers: [&a {{name: x}}, *a]\nmuster:\n  role: worker\n  cluster:\n    name: edge\n    endpoint: api.example:443\n    subjectAltNames: [api.example, 10.0.0.1, 'fd00::1']\n  join:\n    tokenFrom: {{url: 'https://h/t', authFile: /run/t, waitFor: 15m}}\n    caCertHashes: ['sha256:{}']\n  network: {{podCIDR: [10.1.0.0/16, 'fd00:1::/48'], serviceCIDR: 10.2.0.0/16}}\n  node: {{name: edge-1, labels: {{example.com/a: b, c: ''}}, taints: [{{key: k, effect: NoExecute}}]}}\n  api: {{enabled: true, listen: '10.0.0.1:7000', proof: required, enrolFrom: [10.0.0.0/8]}}\n",
        "ab".repeat(32)
    );
    let document = taken(&text);
    assert_eq!(document.role, Some(Role::Worker));
    assert_eq!(document.cluster.endpoint.as_deref(), Some("api.example:443"));
    assert_eq!(document.cluster.subject_alt_names.len(), 3);
    let source = SecretSource {
        place: Place::Url { url: "https://h/t".into(), auth_file: Some("/run/t".into()) },
        wait_for: Some(Duration::from_secs(900)),
        reached_through: "join.tokenFrom",
    };
    assert_eq!(document.join.token_from, Some(source));
    assert_eq!(document.network.pod_cidr.len(), 2);
    assert_eq!(document.node.labels.get("c").map(String::as_str), Some(""));
    assert_eq!((document.node.taints.len(), document.node.taints[0].value.as_str()), (1, ""));
    assert!(document.api.proof_required);
    assert_eq!(document.api.enrol_from.len(), 1);
    assert_eq!(
        taken("role: worker\n".to_owned().as_str().replace("worker", "init").as_str()).network.pod_cidr[0]
            .to_string(),
        "10.244.0.0/16"
    );
    assert_eq!(taken(&format!("role: worker\n{JOIN}")).cluster.endpoint.as_deref(), Some("api.example:6443"));
}

#[test]
fn every_fault_is_told_at_once_on_its_line() {
    let text = "role: wroker\ncluster:\n  nmae: x\n  endpoint: 'host:0'\nnetwork:\n  podCIDR: 10.96.3.0/12\n  serviceCIDR: 10.96.0.0/12\nnode:\n  name: Edge\n  taints:\n    - key: k\napi:\n  enabled: yes\n  listen: 7443\n";
    let told = told(text);
    let want = [
        "line 1: role is \"wroker\". Did you mean worker? Write one of: init, controlplane, worker.",
        "line 3: unknown key \"nmae\" in cluster. Did you mean \"name\"?",
        "line 4: cluster.endpoint is \"host:0\"",
        "line 6: network.podCIDR: 10.96.3.0 is an address inside the network; write 10.96.0.0/12",
        "line 9: node.name is \"Edge\"",
        "line 11: node.taints has no \"effect\"",
        "line 13: api.enabled is \"yes\". Write true or false.",
        "line 14: api.listen is \"7443\"",
    ];
    assert_eq!(told.len(), want.len(), "{told:#?}");
    for want in want {
        assert!(told.iter().any(|t| t.starts_with(want)), "{want}\n{told:#?}");
    }
}

#[test]
fn contradictions_are_faults_and_no_precedence_puzzle() {
    let both = format!("role: init\napi: {{enabled: false, operatorCA: \"{PEM}\"}}\n");
    for (text, want) in [
        (both.as_str(), "api names an operator CA and enabled: false"),
        (
            "role: init\napi: {enabled: false, operatorCAFrom: {file: /x}}\n",
            "api names an operator CA and enabled: false",
        ),
        ("role: init\napi: {insecure: true}\n", "api.insecure has no meaning here"),
        ("api: {operatorCAFrom: {file: /x}, insecure: true}\n", "api.insecure has no meaning here"),
        ("role: init\napi: {awaitConfig: true}\n", "api.awaitConfig waits for a document"),
        ("cluster: {name: x}\n", "the document names no role"),
        ("role: worker\n", "role worker joins a cluster and has no token"),
        ("role: worker\n", "role worker joins a cluster and has no caCertHashes"),
        ("role: controlplane\n", "role controlplane joins a cluster and has no endpoint"),
        ("role: init\njoin: {token: abcdef.0123456789abcdef}\n", "role init makes a cluster"),
        (
            "role: init\nnetwork: {podCIDR: 10.0.0.0/8}\n",
            "network.podCIDR 10.0.0.0/8 and network.serviceCIDR 10.96.0.0/12 overlap",
        ),
        (
            "role: init\nnetwork: {podCIDR: [10.1.0.0/16, 10.3.0.0/16]}\n",
            "network.podCIDR has two networks of one family",
        ),
        (
            "api: {operatorCAFrom: {file: /x, url: 'https://h/x'}}\n",
            "api.operatorCAFrom has both url and file",
        ),
        ("api: {operatorCAFrom: {}}\n", "api.operatorCAFrom names no place"),
        (
            "api: {operatorCAFrom: {file: /x, authFile: /y}}\n",
            "api.operatorCAFrom.authFile goes with a url only",
        ),
        ("api: {operatorCAFrom: {file: /x, waitFor: 61m}}\n", "api.operatorCAFrom.waitFor is \"61m\""),
        ("api: {operatorCAFrom: {url: 'http://h/x'}}\n", "api.operatorCAFrom.url will not do"),
    ] {
        let told = told(text);
        assert!(told.iter().any(|t| t.contains(want)), "{text}{told:#?}");
    }
}

#[test]
fn what_may_be_a_secret_is_never_quoted() {
    for text in [
        "role: worker\njoin: {token: hunter2-hunter2}\n",
        "api: {operatorCA: hunter2-hunter2}\n",
        "api: {operatorCA: \"-----BEGIN EC PRIVATE KEY-----\\nhunter2\\n-----END EC PRIVATE KEY-----\"}\n",
        "api: {operatorCAFrom: {url: 'https://me:hunter2@h/x'}}\n",
        "role: worker\njoin: {token: [hunter2]}\n",
    ] {
        let faults = read(text, &|_| Err("it will not do".to_owned())).expect_err(text);
        assert!(!format!("{faults:?}").contains("hunter2"), "{faults:?}");
    }
    let document = taken(&format!("role: worker\n{JOIN}"));
    assert!(!format!("{document:?}").contains("0123456789abcdef"), "{document:?}");
    assert_eq!(document.join.token.as_ref().map(|t| t.expose()), Some("abcdef.0123456789abcdef"));
}

#[test]
fn whether_an_authority_will_do_is_the_callers_word() {
    let ended = |pem: &str| {
        if pem.starts_with("-----BEGIN CERTIFICATE-----\nAAAA\n") {
            Err("it ended".to_owned())
        } else {
            Ok(())
        }
    };
    let faults =
        read(&format!("\napi: {{operatorCA: \"{PEM}\"}}\n"), &ended).expect_err("the caller's word counts");
    assert_eq!((faults.len(), faults[0].line), (1, 2));
    assert!(faults[0].what.contains("api.operatorCA will not do: it ended"), "{faults:?}");
}

#[test]
fn only_the_block_of_a_cloud_config_is_ours() {
    // cloud-init dumps repeated parts as anchors and aliases; what is not ours may use all of YAML.
    let others = "#cloud-config\nusers:\n- &id001 {name: a, tag: !x y}\n- *id001\n<<: {a: b}\nusers: again\n? [complex]\n: key\n";
    assert!(matches!(read_embedded(others, &fine), Ok(None)));
    let ours = format!("{others}muster:\n  role: init\n");
    assert!(matches!(read_embedded(&ours, &fine), Ok(Some(Document { role: Some(Role::Init), .. }))));
    for bad in [
        "muster:\n  role: &a init\n",
        "muster:\n  role: init\nmuster:\n  role: init\n",
        "muster: {}\n---\nmuster: {}\n",
        "muster:\n  role: init\n  user: x\n",
        "muster: [\n",
    ] {
        assert!(read_embedded(bad, &fine).is_err(), "{bad}");
    }
    assert!(matches!(read_embedded("role: init\n", &fine), Ok(None)), "alone it counts in files only");
    assert!(matches!(read_embedded("a: {muster: {role: init}}\n", &fine), Ok(None)), "not at the top");
}

#[test]
fn nothing_is_no_document() {
    for text in ["", "# only words\n", "~\n", "muster:\n", "---\n", "null\n"] {
        assert!(matches!(read(text, &fine), Ok(None)), "{text:?}");
    }
    assert_eq!(refused(&" ".repeat(2 * 1024 * 1024))[0].reason, Reason::Limits);
    assert_eq!(refused("just words\n")[0].reason, Reason::Type);
    assert_eq!(refused("[role]\n")[0].reason, Reason::Type);
}

#[test]
fn the_published_schema_is_the_one_of_this_code() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/muster.schema.json");
    let want = format!("{:#}\n", schema());
    if std::env::var_os("MUSTER_WRITE_SCHEMA").is_some() {
        std::fs::write(file, &want).expect("docs/muster.schema.json");
    }
    let have = std::fs::read_to_string(file).unwrap_or_default();
    assert!(have == want, "docs/muster.schema.json is another: run this test with MUSTER_WRITE_SCHEMA=1");
}

#[test]
fn every_known_key_has_words_for_people() {
    fn look(keys: &[keys::Key], at: &str) {
        for key in keys {
            assert!(key.doc.ends_with('.') && key.doc.len() > 10, "{at}.{}", key.name);
            if let keys::Form::Keys(inner) | keys::Form::Rows(inner) = key.form {
                look(inner, key.name);
            }
        }
    }
    look(keys::TOP, "");
}
