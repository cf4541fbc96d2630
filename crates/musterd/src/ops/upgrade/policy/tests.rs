use super::*;

fn judge(policy: &str, image: &str) -> Verdict {
    Policy::parse(policy.as_bytes())
        .unwrap_or_else(|e| panic!("{policy}: {e}"))
        .judge(&Reference::parse(image).unwrap())
}

/// A policy with these scopes of `docker`: `+` signed, `-` rejected, `?` anything.
fn policy(default: char, scopes: &[(&str, char)]) -> String {
    let list = |c| match c {
        '+' => {
            r#"[{"type":"sigstoreSigned","keyPath":"/etc/pki/x.pub","signedIdentity":{"type":"matchRepository"}}]"#
        }
        '-' => r#"[{"type":"reject"}]"#,
        _ => r#"[{"type":"insecureAcceptAnything"}]"#,
    };
    let scopes: Vec<_> = scopes.iter().map(|(s, c)| format!("{s:?}:{}", list(*c))).collect();
    format!(
        r#"{{"default":{},"transports":{{"docker":{{{}}},"dir":{{"":{}}}}}}}"#,
        list(default),
        scopes.join(","),
        list('?')
    )
}

#[test]
fn the_most_specific_scope_decides_in_the_order_of_the_manual() {
    let image = "registry.example.com:5000/os/node/base:1";
    // From the least specific to the most: each next one is the one that counts.
    let order = [
        "",
        "*.com",
        "*.example.com",
        "registry.example.com:5000",
        "registry.example.com:5000/os",
        "registry.example.com:5000/os/node",
        "registry.example.com:5000/os/node/base",
        image,
    ];
    for n in 0..order.len() {
        let below: Vec<_> = order[..n].iter().map(|s| (*s, '-')).collect();
        let with: Vec<_> = below.iter().copied().chain([(order[n], '+')]).collect();
        assert_eq!(judge(&policy('-', &with), image), Verdict::Signed, "{}", order[n]);
    }
    assert_eq!(judge(&policy('+', &[]), image), Verdict::Signed, "the default, at last");
    for other in [
        "example.com:5000",
        "registry.example.com",
        "registry.example.com:5000/o",
        "registry.example.com:5000/os/node/base:2",
        "*.registry.example.com",
        "*",
        "os/node/base",
    ] {
        assert_eq!(judge(&policy('-', &[(other, '+')]), image), Verdict::Rejected, "{other}");
    }
}

#[test]
fn what_the_default_takes_unsigned_is_not_taken() {
    for text in [
        r#"{"default":[{"type":"insecureAcceptAnything"}]}"#,
        r#"{"default":[{"type":"insecureAcceptAnything"}],"transports":{"docker-daemon":{"":[{"type":"insecureAcceptAnything"}]}}}"#,
    ] {
        assert_eq!(judge(text, "quay.io/fedora/silverblue"), Verdict::Unsigned);
    }
    let signed = policy('?', &[("quay.io/ours", '+')]);
    assert_eq!(judge(&signed, "quay.io/ours/node:1"), Verdict::Signed);
    assert_eq!(judge(&signed, "quay.io/oursx/node:1"), Verdict::Unsigned);
}

#[test]
fn a_list_holds_whole() {
    let signed = r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k"}"#;
    let of = |list: &str| judge(&format!(r#"{{"default":[{list}]}}"#), "quay.io/a");
    assert_eq!(of(signed), Verdict::Signed);
    assert_eq!(of(&format!(r#"{{"type":"insecureAcceptAnything"}},{signed}"#)), Verdict::Signed);
    assert_eq!(of(&format!(r#"{signed},{{"type":"reject"}}"#)), Verdict::Rejected);
}

#[test]
fn an_image_without_a_tag_is_the_one_of_latest() {
    let latest = policy('-', &[("quay.io/a:latest", '+')]);
    assert_eq!(judge(&latest, "quay.io/a"), Verdict::Signed);
    assert_eq!(judge(&latest, "quay.io/a:latest"), Verdict::Signed);
    assert_eq!(judge(&latest, "quay.io/a:1"), Verdict::Rejected);
    let digest = format!("quay.io/a@sha256:{}", "0".repeat(64));
    assert_eq!(judge(&latest, &digest), Verdict::Rejected);
    assert_eq!(judge(&policy('-', &[(&digest, '+')]), &digest), Verdict::Signed);
}

#[test]
fn what_the_container_tools_refuse_is_refused() {
    for bad in [
        "",
        "[]",
        "{}",
        r#"{"default":[]}"#,
        r#"{"default":[{}]}"#,
        r#"{"default":[{"type":"signed"}]}"#,
        r#"{"default":[{"type":"reject"}],"default":[{"type":"insecureAcceptAnything"}]}"#,
        r#"{"default":[{"type":"reject"}],"other":1}"#,
        r#"{"default":[{"type":"reject","x":1}]}"#,
        r#"{"default":[{"type":"reject","type":"insecureAcceptAnything"}]}"#,
        r#"{"default":[{"type":"signedBy","keyType":"GPGKeys"}]}"#,
        r#"{"default":[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","keyData":"aa"}]}"#,
        r#"{"default":[{"type":"reject"}],"transports":{"docker":{"quay.io":[]}}}"#,
        r#"{"default":[{"type":"reject"}],"transports":{"docker":{"a":[{"type":"reject"}],"a":[{"type":"reject"}]}}}"#,
        r#"{"default":[{"type":"reject"}]} x"#,
    ] {
        let error = Policy::parse(bad.as_bytes()).expect_err(bad);
        assert!(!error.contains('\n') && error.len() < 80, "{error}");
    }
}

#[test]
fn a_policy_in_the_shape_that_fedora_ships_is_read() {
    let shipped = r#"{
      "default": [{"type": "insecureAcceptAnything"}],
      "transports": {
        "docker": {
          "registry.access.redhat.com": [{"type": "signedBy", "keyType": "GPGKeys", "keyPaths": ["/a", "/b"]}],
          "ghcr.io/ours": [{"type": "sigstoreSigned",
            "fulcio": {"caPath": "/ca", "oidcIssuer": "https://x", "subjectEmail": "a@b"},
            "rekorPublicKeyPath": "/rekor", "signedIdentity": {"type": "matchRepository"}}]
        },
        "docker-daemon": {"": [{"type": "insecureAcceptAnything"}]}
      }
    }"#;
    assert_eq!(judge(shipped, "ghcr.io/ours/node"), Verdict::Signed);
    assert_eq!(judge(shipped, "registry.access.redhat.com/ubi9/ubi"), Verdict::Signed);
    assert_eq!(judge(shipped, "quay.io/a/b"), Verdict::Unsigned);
}
