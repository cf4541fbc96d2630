//! The operators' authority, with the system's openssl as the judge.

use crate::run::{MUSTER, Place};
use muster_needs::require;
use std::os::unix::fs::PermissionsExt;

/// A folder with an authority whose passphrase is in `pp`, and openssl beside it.
fn place() -> Result<Place, String> {
    muster_needs::tool("/usr/bin/openssl", "openssl")?;
    let p = Place::new();
    p.write("pp", "an authority's passphrase\n");
    p.write("cp", "a client's passphrase\n");
    let ran = p.muster("pki init --passphrase-file pp");
    if ran.code != 0 {
        return Err(ran.err);
    }
    Ok(p)
}

fn issue(p: &Place, rest: &str) -> serde_json::Value {
    let ran =
        p.muster(&format!("-o json pki issue {rest} --authority-passphrase-file pp --passphrase-file cp"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn an_authority_and_its_clients_are_what_openssl_expects() {
    let p = require!(place());
    let made = issue(&p, "alice --role admin");
    issue(&p, "bob --role readonly --lifetime 1h");
    p.sh("openssl verify -x509_strict -purpose sslclient -CAfile pki/operator-ca.pem pki/clients/alice.pem pki/clients/bob.pem");
    for (key, pass, pem) in [
        ("pki/operator-ca.key", "pp", "pki/operator-ca.pem"),
        ("pki/clients/alice.key", "cp", "pki/clients/alice.pem"),
    ] {
        let ours = p.sh(&format!("openssl pkey -in {key} -passin file:{pass} -pubout"));
        assert_eq!(ours, p.sh(&format!("openssl x509 -in {pem} -noout -pubkey")));
        p.sh(&format!("! openssl pkey -in {key} -passin pass:another -noout 2>/dev/null"));
        assert!(p.read(key).starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
        assert_eq!(std::fs::metadata(p.join(key)).unwrap().permissions().mode() & 0o777, 0o600, "{key}");
    }
    let shown = p.sh("openssl x509 -in pki/clients/alice.pem -noout -serial -subject -nameopt multiline");
    assert!(
        shown.to_lowercase().contains(&format!("serial={}", made["serial"].as_str().unwrap())),
        "{shown}"
    );
    assert!(shown.contains("= muster:admin") && shown.contains("= alice"), "{shown}");
    assert_eq!(p.read("pki/.gitignore"), "*.key\n");
    let rows: serde_json::Value = serde_json::from_str(&p.muster("pki list -o json").out).unwrap();
    let seen: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["name"].as_str(), r["role"].as_str(), r["state"].as_str()))
        .collect();
    assert_eq!(
        seen,
        [(Some("alice"), Some("admin"), Some("valid")), (Some("bob"), Some("readonly"), Some("valid"))]
    );
}

#[test]
fn nothing_is_overwritten_and_nothing_is_half_made() {
    let p = require!(place());
    let before = p.sh("cat pki/operator-ca.* | sha256sum");
    let again = p.muster("pki init --passphrase-file pp");
    assert_eq!(
        (again.code, again.err.contains("error[exists]: pki/operator-ca.pem is there already")),
        (4, true),
        "{}",
        again.err
    );
    issue(&p, "alice --role admin");
    let again =
        p.muster("pki issue alice --role readonly --authority-passphrase-file pp --passphrase-file cp");
    assert_eq!((again.code, again.err.contains("error[exists]")), (4, true), "{}", again.err);
    for (line, code, want) in [
        (
            "pki issue carol --role admin --authority-passphrase-file cp --passphrase-file cp",
            3,
            "error[passphrase]: the passphrase does not open pki/operator-ca.key",
        ),
        (
            "pki issue carol --role admin --lifetime 9999d --authority-passphrase-file pp --passphrase-file cp",
            3,
            "after its authority",
        ),
        ("pki issue ../carol --role admin --danger-no-passphrase", 2, "is no name for a client"),
        ("pki issue carol --role root --danger-no-passphrase", 2, "readonly"),
        ("pki issue carol --role admin --lifetime 90 --danger-no-passphrase", 2, "is not a duration"),
        (
            "pki issue carol --role admin --danger-no-passphrase --pki nowhere",
            3,
            "Make an authority with `muster pki init`",
        ),
        ("pki list --pki nowhere", 3, "error[file-missing]"),
        (
            "pki revoke carol --authority-passphrase-file pp",
            3,
            "error[client-unknown]: nothing was issued to \"carol\"",
        ),
    ] {
        let ran = p.muster(line);
        assert_eq!((ran.code, ran.err.contains(want)), (code, true), "{line}: {}", ran.err);
    }
    assert_eq!(p.sh("ls pki/issued pki/clients | grep -c pem"), "2\n", "alice, here and there");
    assert_eq!(p.sh("cat pki/operator-ca.* | sha256sum"), before);
    assert!(!p.join("pki/operator-ca.crl").exists() && !p.join("pki/revoked.json").exists());
}

#[test]
fn a_revoked_client_is_refused_by_openssl_too() {
    let p = require!(place());
    issue(&p, "alice --role admin");
    let old = issue(&p, "bob --role operator");
    let list = |rest: &str| {
        let ran = p.muster(&format!("-o json pki revoke {rest} --authority-passphrase-file pp"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()
    };
    let verify = |name: &str| {
        p.sh(&format!("openssl verify -crl_check -CAfile pki/operator-ca.pem -CRLfile pki/operator-ca.crl pki/clients/{name}.pem 2>&1 || true"))
    };
    let first = list("bob");
    assert_eq!(
        (first["number"].as_u64(), first["added"][0].as_str(), first["ends"].as_str()),
        (Some(1), old["serial"].as_str(), None)
    );
    assert!(
        verify("bob").contains("certificate revoked") && verify("alice").ends_with("alice.pem: OK\n"),
        "{}",
        verify("bob")
    );
    let text = p.sh("openssl crl -in pki/operator-ca.crl -noout -text");
    assert!(text.contains("Next Update: Dec 31 23:59:59 9999 GMT"), "{text}");
    // Said twice, it is on the list once; every list has a number of its own.
    let second = list("bob --ends 1d");
    assert_eq!(
        (second["number"].as_u64(), second["added"].as_array().map(Vec::len), second["revoked"].as_u64()),
        (Some(2), Some(0), Some(1))
    );
    assert!(p.sh("openssl crl -in pki/operator-ca.crl -noout -crlnumber").trim().ends_with("02"));
    // A new certificate of the same name is another one, and two of one name must be told apart.
    p.sh("mkdir old && mv pki/clients/bob.* old/");
    issue(&p, "bob --role readonly");
    p.sh("mv pki/clients/bob.* old/");
    let third = issue(&p, "bob --role readonly");
    let ran = p.muster("pki revoke bob --authority-passphrase-file pp");
    assert_eq!(
        (ran.code, ran.err.contains("error[client-ambiguous]: \"bob\" has 2 valid certificates")),
        (3, true),
        "{}",
        ran.err
    );
    assert_eq!(list(third["serial"].as_str().unwrap())["revoked"].as_u64(), Some(2));
    assert_eq!(list("bob --all")["revoked"].as_u64(), Some(3));
    assert!(verify("bob").contains("certificate revoked") && verify("alice").contains("alice.pem: OK"));
    let states = p.muster("pki list").out;
    assert_eq!((states.matches("revoked").count(), states.matches("valid").count()), (3, 1), "{states}");
}

#[test]
fn a_list_that_cannot_be_read_is_not_begun_anew() {
    let p = require!(place());
    issue(&p, "alice --role admin");
    p.write("pki/revoked.json", "{\"number\": 3, \"rewoked\": {}}");
    let ran = p.muster("pki revoke alice --authority-passphrase-file pp");
    assert_eq!(
        (ran.code, ran.err.contains("error[pki-file]: pki/revoked.json is not what")),
        (3, true),
        "{}",
        ran.err
    );
    assert_eq!(p.read("pki/revoked.json"), "{\"number\": 3, \"rewoked\": {}}");
    assert!(!p.join("pki/operator-ca.crl").exists());
}

#[test]
fn a_stranger_in_the_folder_is_named() {
    let p = require!(place());
    issue(&p, "alice --role admin");
    let other = p.muster("pki init --passphrase-file pp --pki other");
    assert_eq!(other.code, 0, "{}", other.err);
    p.sh("cp other/operator-ca.pem pki/issued/x.pem");
    let ran = p.muster("pki list");
    assert_eq!(
        (ran.code, ran.err.contains("error[pki-file]: pki/issued/x.pem will not do")),
        (3, true),
        "{}",
        ran.err
    );
    p.sh("rm pki/issued/x.pem; cp other/operator-ca.key pki/");
    let ran = p.muster("pki issue bob --role admin --authority-passphrase-file pp --passphrase-file cp");
    assert!(ran.err.contains("the certificate and the key do not belong together"), "{}", ran.err);
}

#[test]
fn passphrases_and_keys_are_never_shown() {
    let p = require!(place());
    let ran = p.muster("pki issue alice --role admin --authority-passphrase-file pp --passphrase-file cp");
    let said = format!("{}{}", ran.out, ran.err);
    for secret in ["authority's passphrase", "client's passphrase", "PRIVATE KEY-----"] {
        assert!(!said.contains(secret), "{said}");
    }
    p.write("short", "short\n");
    let ran = p.muster("pki issue bob --role admin --authority-passphrase-file pp --passphrase-file short");
    assert_eq!((ran.code, ran.err.contains("shorter than 8 characters")), (3, true), "{}", ran.err);
    let open = p.muster("pki issue bob --role admin --authority-passphrase-file pp --danger-no-passphrase");
    assert!(open.err.contains("the key has no passphrase"), "{}", open.err);
    assert!(p.read("pki/clients/bob.key").starts_with("-----BEGIN PRIVATE KEY-----\n"));
    p.sh("openssl pkey -in pki/clients/bob.key -noout");
}

/// Each reads the list, adds to it and signs the next: none may be lost to another, and no number is given twice.
#[test]
fn many_revocations_at_once_are_all_in_the_list() {
    let p = require!(place());
    let names = ["bob", "carl", "dave", "erin"];
    for name in names {
        issue(&p, &format!("{name} --role readonly"));
    }
    let numbers: Vec<u64> = std::thread::scope(|scope| {
        let revoke = |name: &'static str| {
            let p = &p;
            scope.spawn(move || {
                let ran = p.muster(&format!("-o json pki revoke {name} --authority-passphrase-file pp"));
                assert_eq!(ran.code, 0, "{}", ran.err);
                let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
                told["number"].as_u64().unwrap()
            })
        };
        let running = names.map(revoke);
        running.map(|t| t.join().unwrap()).into()
    });
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3, 4], "{numbers:?}");
    let text = p.sh("openssl crl -in pki/operator-ca.crl -noout -text");
    assert_eq!(text.matches("Serial Number:").count(), 4, "{text}");
    // The last number that there is, as a damaged file might have it.
    let revoked = p.read("pki/revoked.json");
    p.write(
        "pki/revoked.json",
        revoked
            .replace("\"number\": 4", "\"number\": 18446744073709551615")
            .replace("\"number\":4", "\"number\":18446744073709551615"),
    );
    issue(&p, "frank --role readonly");
    let ran = p.muster("pki revoke frank --authority-passphrase-file pp");
    assert!(ran.code == 3 && ran.err.contains("number after the last"), "{} {}", ran.code, ran.err);
}

/// Who holds the list is told to who waits; the waiting ends with the holder, and with Ctrl-C, of which nothing is left.
#[test]
fn who_waits_for_the_list_is_told_for_whom_and_may_go() {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::ExitStatusExt as _;
    let p = require!(place());
    issue(&p, "bob --role readonly");
    let lock = std::fs::File::create(p.join("pki/revoked.lock")).unwrap();
    lock.lock().unwrap();
    let waits = || {
        // Ignored signals are inherited, and a shell ignores SIGINT for what it puts in the background.
        let mut c = p.command("/usr/bin/env");
        c.args(["--default-signal=INT", MUSTER, "pki", "revoke", "bob", "--authority-passphrase-file", "pp"]);
        let mut child =
            c.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        // The test is the holder. Not every file system has the numbers that /proc/locks has.
        let holder = format!("waiting for process {} (", std::process::id());
        assert!(
            (line.starts_with(&holder) || line.starts_with("waiting for another process"))
                && line.contains(": pki/revoked.lock is held by it. Ctrl-C ends"),
            "{line}"
        );
        child
    };
    let mut child = waits();
    p.sh(&format!("kill -INT {}", child.id()));
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert!(!p.join("pki/revoked.json").exists() && !p.join("pki/operator-ca.crl").exists());
    let mut child = waits();
    drop(lock);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(p.read("pki/revoked.json").contains("\"number\": 1"));
}

/// docs/cli.md: private key files that others can read are refused, with a passphrase on them or not.
#[test]
fn a_key_that_others_can_read_is_refused() {
    let p = require!(place());
    issue(&p, "bob --role readonly");
    let open =
        |file: &str| std::fs::set_permissions(p.join(file), std::fs::Permissions::from_mode(0o640)).unwrap();
    p.write(".local/state/muster/node-pins", format!("n 127.0.0.1:1 SHA256:{}\n", "A".repeat(43)));
    for (file, line) in [
        ("pki/clients/bob.key", "node status n --client pki/clients/bob.pem --passphrase-file cp"),
        ("pki/operator-ca.key", "pki revoke bob --authority-passphrase-file pp"),
    ] {
        open(file);
        let ran = p.muster(line);
        let want = format!(
            "error[key-file]: {file} has mode 0640: others could read a private key. Run: chmod 600 {file}"
        );
        assert!(ran.code == 3 && ran.err.starts_with(&want), "{}", ran.err);
    }
    assert!(!p.join("pki/revoked.json").exists());
}
