use super::*;

const WHOLE: &str = r#"
host = "edge-1"
pools = ["edge", "lab.2"]
envelope-1 = true
signers-needed = 2
revoked-signers = "optional"
max-deadline = 900
epoch-max-step = 10

[profiles.tls-bootstrap]
min-epoch = 7
[profiles.other]

[envelope1]
on-disconnect = "finish"
deadline = { install = 3600, join = 60 }
namespace = "ns"
principal = "p@example.org"

[environment]
HTTPS_PROXY = "http://proxy:3128"
no_proxy = ""

[keys."SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]
phases = ["probe", "join"]
"#;

#[test]
fn a_whole_policy() {
    let p = Policy::parse(WHOLE.as_bytes()).unwrap();
    assert_eq!(p.host.as_ref().unwrap().as_str(), "edge-1");
    assert_eq!(p.pools.len(), 2);
    assert!(p.envelope_1);
    assert_eq!(
        (p.signers_needed, p.revoked, p.max_deadline, p.epoch_max_step),
        (2, Revoked::Optional, 900, 10)
    );
    let profile = |n: &str| p.profile(&ProfileName::new(n).unwrap());
    assert_eq!(profile("tls-bootstrap"), Some(Some(7)));
    assert_eq!(profile("other"), Some(None));
    assert_eq!(profile("tls-bootstrap-old"), None);
    assert_eq!(p.envelope_one.on_disconnect, OnDisconnect::Finish);
    assert_eq!((p.envelope_one.deadline(Phase::Join), p.envelope_one.deadline(Phase::Leave)), (60, 7200));
    assert_eq!(
        (p.envelope_one.namespace.as_str(), p.envelope_one.principal.as_str()),
        ("ns", "p@example.org")
    );
    assert_eq!(p.environment.get("HTTPS_PROXY").unwrap(), "http://proxy:3128");
    assert_eq!(p.keys.unwrap().values().next().unwrap(), &[Phase::Probe, Phase::Join]);
}

#[test]
fn an_empty_policy_is_strict() {
    let p = Policy::parse(b"").unwrap();
    assert!(!p.envelope_1 && p.profiles.is_none() && p.keys.is_none() && p.host.is_none());
    assert_eq!((p.signers_needed, p.revoked), (1, Revoked::Required));
    assert_eq!((p.max_deadline, p.epoch_max_step), (DEFAULT_DEADLINE, DEFAULT_STEP));
    assert_eq!(p.envelope_one, EnvelopeOne::default());
}

#[test]
fn a_fault_names_its_line() {
    for (text, line, part) in [
        ("host = \"a\"\nhosts = \"b\"\n", 2, "hosts"),
        ("signers-needed = 0\n", 1, "from 1 to 8"),
        ("\n\nmax-deadline = 86401\n", 3, "from 1 to 86400"),
        ("host = \"Edge\"\n", 1, "Edge"),
        ("pools = [\"a\",\n \"*\"]\n", 2, "*"),
        ("\n[profiles.\"../x\"]\n", 2, "../x"),
        ("[profiles.a]\nmin-epoch = 4294967296\n", 2, "from 1 to"),
        ("[profiles.a]\nminepoch = 1\n", 2, "minepoch"),
        ("[profiles.a]\n[profiles.a]\n", 2, ""),
        ("revoked-signers = \"maybe\"\n", 1, "required"),
        ("[envelope1]\non-disconnect = \"kill\"\n", 2, "finish"),
        ("[envelope1]\ndeadline = { probe = 5 }\n", 2, "probe"),
        ("[envelope1]\nprincipal = \"a b\"\n", 2, "wanted"),
        ("[environment]\nBASH_ENV = \"/tmp/x\"\n", 2, "BASH_ENV"),
        ("[environment]\nLD_PRELOAD = \"/tmp/x\"\n", 2, "LD_PRELOAD"),
        ("[environment]\nPATH = \"/tmp\"\n", 2, "PATH"),
        ("[environment]\nMUSTER_RUN_ID = \"1\"\n", 2, "MUSTER_RUN_ID"),
        ("[environment]\n\"A B\" = \"1\"\n", 2, "A B"),
        ("[environment]\nA = \"1\\n2\"\n", 2, "one line"),
        ("[keys.\"MD5:00\"]\nphases = []\n", 1, "fingerprint"),
        ("[keys.\"SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"]\nphases = [\"exec\"]\n", 2, "exec"),
        ("envelope-1 = \"yes\"\n", 1, ""),
        ("host = \n", 1, ""),
    ] {
        let e = Policy::parse(text.as_bytes()).unwrap_err();
        assert_eq!(e.line, line, "{text:?}: {e}");
        assert!(e.why.contains(part) && !e.why.contains('\n'), "{text:?}: {e}");
    }
    assert!(Policy::parse(b"\xff").unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn m6_envelope_1_is_taken_by_default_only_under_the_old_name_without_a_policy() {
    let with = |text: Option<&str>| Loaded {
        policy: text.map(|t| Policy::parse(t.as_bytes()).unwrap()),
        digest: None,
    };
    for (text, kpssh, muster) in [
        (None, true, false),
        (Some(""), false, false),
        (Some("envelope-1 = true"), true, true),
        (Some("envelope-1 = true\nsigners-needed = 2"), false, false),
    ] {
        let l = with(text);
        assert_eq!(l.takes_envelope_one(CalledAs::Kpssh), kpssh, "{text:?}");
        assert_eq!(l.takes_envelope_one(CalledAs::Muster), muster, "{text:?}");
    }
}
