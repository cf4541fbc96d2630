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
        r#"{"default":[{"type":"signedBy","keyPath":"/a"}]}"#,
        r#"{"default":[{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","keyData":"aa"}]}"#,
        r#"{"default":[{"type":"reject"}],"transports":{"docker":{"quay.io":[]}}}"#,
        r#"{"default":[{"type":"reject"}],"transports":{"docker":{"a":[{"type":"reject"}],"a":[{"type":"reject"}]}}}"#,
        r#"{"default":[{"type":"reject"}]} x"#,
    ] {
        let error = Policy::parse(bad.as_bytes()).expect_err(bad);
        assert!(!error.contains('\n') && error.len() < 80, "{error}");
    }
}

/// A requirement by itself, as the default.
fn reads(requirement: &str) -> bool {
    Policy::parse(format!(r#"{{"default":[{requirement}]}}"#).as_bytes()).is_ok()
}

/// Every member that must be there is taken away once, and one that there is not is put in, at each place of these.
#[test]
fn a_member_too_few_or_too_many_refuses_the_policy_wherever_it_is() {
    let fulcio = r#"{"caPath":"/ca","oidcIssuer":"https://x","subjectEmail":"a@b"}"#;
    let pki = r#"{"caRootsPath":"/ca","subjectHostname":"h"}"#;
    for (whole, needed) in [
        (r#"{"type":"insecureAcceptAnything"}"#.to_owned(), vec!["/type"]),
        (r#"{"type":"reject"}"#.to_owned(), vec!["/type"]),
        (
            r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k"}"#.to_owned(),
            vec!["/type", "/keyType", "/keyPath"],
        ),
        (r#"{"type":"sigstoreSigned","keyData":"aGk="}"#.to_owned(), vec!["/type", "/keyData"]),
        (
            format!(r#"{{"type":"sigstoreSigned","fulcio":{fulcio},"rekorPublicKeyPath":"/r"}}"#),
            vec![
                "/type",
                "/fulcio",
                "/rekorPublicKeyPath",
                "/fulcio/caPath",
                "/fulcio/oidcIssuer",
                "/fulcio/subjectEmail",
            ],
        ),
        (
            format!(r#"{{"type":"sigstoreSigned","pki":{pki}}}"#),
            vec!["/type", "/pki", "/pki/caRootsPath", "/pki/subjectHostname"],
        ),
        (
            r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k","signedIdentity":{"type":"remapIdentity","prefix":"a.example","signedPrefix":"b.example"}}"#
                .to_owned(),
            vec!["/signedIdentity/type", "/signedIdentity/prefix", "/signedIdentity/signedPrefix"],
        ),
        (
            r#"{"type":"sigstoreSigned","keyPath":"/k","signedIdentity":{"type":"exactReference","dockerReference":"q.io/a:1"}}"#
                .to_owned(),
            vec!["/signedIdentity/type", "/signedIdentity/dockerReference"],
        ),
        (
            r#"{"type":"sigstoreSigned","keyPath":"/k","signedIdentity":{"type":"exactRepository","dockerRepository":"q.io/a"}}"#
                .to_owned(),
            vec!["/signedIdentity/type", "/signedIdentity/dockerRepository"],
        ),
    ] {
        assert!(reads(&whole), "{whole}");
        let value: serde_json::Value = serde_json::from_str(&whole).unwrap();
        for pointer in needed {
            let (above, name) = pointer.rsplit_once('/').unwrap();
            let mut less = value.clone();
            less.pointer_mut(above).unwrap().as_object_mut().unwrap().remove(name).unwrap();
            assert!(!reads(&less.to_string()), "without {pointer}: {less}");
            for other in [serde_json::json!(""), serde_json::json!(1), serde_json::json!([]), serde_json::Value::Null] {
                let mut changed = value.clone();
                changed.pointer_mut(above).unwrap()[name] = other;
                assert!(!reads(&changed.to_string()), "{pointer} of another type: {changed}");
            }
            let mut more = value.clone();
            more.pointer_mut(above).unwrap()["keyPathX"] = serde_json::json!("/k");
            assert!(!reads(&more.to_string()), "one more beside {pointer}: {more}");
        }
    }
}

#[test]
fn of_keys_that_stand_for_each_other_there_is_one() {
    for bad in [
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","keyPaths":["/b"]}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPaths":[]}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPaths":["/a",1]}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPaths":"/a"}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyData":"no base64"}"#,
        r#"{"type":"signedBy","keyType":"gpgkeys","keyPath":"/a"}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyDatas":["aGk="]}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","rekorPublicKeyPath":"/r"}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","signedIdentity":"matchExact"}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","signedIdentity":{"type":"matchExact","type":"matchExact"}}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","signedIdentity":{"type":"matchAll"}}"#,
        r#"{"type":"signedBy","keyType":"GPGKeys","keyPath":"/a","signedIdentity":{"type":"matchExact","prefix":"a"}}"#,
        r#"{"type":"sigstoreSigned","keyPath":"/a","keyType":"GPGKeys"}"#,
        r#"{"type":"sigstoreSigned","keyPath":"/a","keyData":"aGk="}"#,
        r#"{"type":"sigstoreSigned","keyDatas":["aGk"]}"#,
        r#"{"type":"sigstoreSigned","keyPath":"/a","rekorPublicKeyPath":"/r","rekorPublicKeyData":"aGk="}"#,
        r#"{"type":"sigstoreSigned","fulcio":{"caPath":"/a","caData":"aGk=","oidcIssuer":"x","subjectEmail":"a"},"rekorPublicKeyPath":"/r"}"#,
        r#"{"type":"sigstoreSigned","fulcio":{"caPath":"/a","oidcIssuer":"x","subjectEmail":"a"},"keyPath":"/k","rekorPublicKeyPath":"/r"}"#,
        r#"{"type":"sigstoreSigned","pki":{"caRootsPath":"/a","caRootsData":"aGk=","subjectEmail":"a"}}"#,
        r#"{"type":"sigstoreSigned","pki":{"caRootsPath":"/a","caIntermediatesPath":"/b","caIntermediatesData":"aGk=","subjectEmail":"a"}}"#,
        r#"{"type":"signedBaseLayer","baseLayerIdentity":{"type":"matchExact"}}"#,
    ] {
        assert!(!reads(bad), "{bad}");
    }
    for good in [
        r#"{"type":"signedBy","keyType":"signedByGPGKeys","keyData":"aGk=\n","signedIdentity":{"type":"matchRepoDigestOrExact"}}"#,
        r#"{"type":"sigstoreSigned","keyPaths":["/a","/b"],"rekorPublicKeyDatas":["aGk="]}"#,
        r#"{"type":"sigstoreSigned","keyDatas":["aGk=","aG8="],"rekorPublicKeyPaths":["/r"]}"#,
        r#"{"type":"sigstoreSigned","pki":{"caRootsData":"aGk=","caIntermediatesPath":"/b","subjectEmail":"a","subjectHostname":"h"}}"#,
    ] {
        assert!(reads(good), "{good}");
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
