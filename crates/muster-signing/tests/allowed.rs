//! Lines of `allowed_signers`, each judged by the real `ssh-keygen` too.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failed test")]
#![allow(clippy::too_many_lines, reason = "a table of cases is read from top to bottom")]

mod support;

use muster_signing::{
    Reason, UtcTime,
    allowed_signers::{AllowedSigners, LocalTime, ZuluOnly},
    sshsig::SshSig,
    verify::{Check, verify},
};
use proptest::prelude::*;
use support::{Lab, Offset, Question};

const MESSAGE: &[u8] = b"hello\n";
/// 2026-11-30T12:53:20Z
const NOW: u64 = 1_796_043_200;

/// What comes of a file here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    Good,
    Refused(Reason),
    /// The file, for its line of this number.
    File(usize),
}
use Got::{File, Good, Refused};

struct Bench {
    lab: Lab,
    signature: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let lab = Lab::new();
        lab.key("k", "ed25519", None);
        lab.key("other", "ed25519", None);
        let signature = lab.sign("k", "ns", "sha512", MESSAGE);
        Self { lab, signature }
    }

    fn ours(&self, file: &str, principal: &str, now: u64, local: &dyn LocalTime) -> Got {
        let allowed = match AllowedSigners::parse(file.as_bytes(), local) {
            Ok(allowed) => allowed,
            Err(fault) => return File(fault.line),
        };
        let signature = SshSig::parse_armored(&self.signature).unwrap();
        let check = Check {
            message: MESSAGE,
            signature: &signature,
            namespace: "ns",
            principal,
            allowed: &allowed,
            revoked: None,
            now: UtcTime::from_unix(now),
        };
        verify(&check).map_or_else(|refusal| Refused(refusal.reason), |_| Good)
    }

    fn theirs(&self, file: &str, principal: &str, now: u64, offset: i64) -> bool {
        let question = Question {
            signature: self.signature.clone(),
            message: MESSAGE.to_vec(),
            allowed: file.as_bytes().to_vec(),
            revoked: None,
            namespace: "ns".to_owned(),
            principal: principal.to_owned(),
            now,
            offset,
        };
        question.ask(&self.lab.path("")).0
    }

    /// Each row: the text before the key (or the whole file where it has KEY in it), what ours
    /// says, and what ssh-keygen says.
    fn table(&self, rows: &[(&str, Got, bool)]) {
        for (text, want, theirs) in rows {
            let file = if text.contains("KEY") { (*text).to_owned() } else { format!("{text} KEY\n") };
            let file = file.replace("KEY", &self.lab.line("k"));
            assert_eq!(self.ours(&file, "p", NOW, &Offset(0)), *want, "{text:?}");
            assert_eq!(self.theirs(&file, "p", NOW, 0), *theirs, "ssh-keygen on {text:?}");
        }
    }
}

#[test]
fn principals_as_openssh_matches_them() {
    Bench::new().table(&[
        ("p", Good, true),
        ("P", Refused(Reason::Principal), false),
        ("q", Refused(Reason::Principal), false),
        ("q,p", Good, true),
        ("q,,p", Good, true),
        ("*", Good, true),
        ("?", Good, true),
        ("??", Refused(Reason::Principal), false),
        ("*,!p", Refused(Reason::Principal), false),
        ("!p,*", Refused(Reason::Principal), false),
        ("!q", Refused(Reason::Principal), false),
        ("p,!q", Good, true),
        ("\"p\"", Good, true),
        ("\"q,p\"", Good, true),
        ("\"q p\"", Refused(Reason::Principal), false),
        ("\"p\"KEY\n", Good, true),
        ("  \t p", Good, true),
        ("p\tKEY\n", Good, true),
        ("p\rKEY\n", Good, true),
        ("q KEY\np KEY\n", Good, true),
        ("p KEY", Good, true),
        ("p KEY a comment # here\n", Good, true),
        ("p KEY\r\n", Good, true),
        ("p KEY comment\r\n", Good, true),
        ("# p KEY\n", Refused(Reason::KeyUnknown), false),
        ("", File(1), false),
    ]);
}

#[test]
fn options_as_openssh_reads_them() {
    Bench::new().table(&[
        ("p namespaces=\"ns\"", Good, true),
        ("p NameSpaces=\"ns\"", Good, true),
        ("p namespaces=\"n*,!nx\"", Good, true),
        ("p namespaces=\"!ns,*\"", Refused(Reason::Namespace), false),
        ("p namespaces=\"\"", Refused(Reason::Namespace), false),
        ("p namespaces=\"NS\"", Refused(Reason::Namespace), false),
        ("p namespaces=\"a b,ns\"", Good, true),
        ("p namespaces=\"n\\\"s,ns\"", Good, true),
        ("p ,namespaces=\"ns\"", Good, true),
        ("p namespaces=\"ns\",,valid-after=\"20200101Z\"", Good, true),
        ("p valid-after=\"20200101Z\",VALID-BEFORE=\"20300101Z\"", Good, true),
        ("p cert-authority", Refused(Reason::KeyUnknown), false),
        ("p CERT-authority,cert-authority", Refused(Reason::KeyUnknown), false),
        ("p valid-after=\"20270101Z\"", Refused(Reason::KeyNotYetValid), false),
        ("p valid-before=\"20260101Z\"", Refused(Reason::KeyExpired), false),
        // The reason is that of the line that came furthest.
        (
            "q KEY\np namespaces=\"x\" KEY\np valid-before=\"20260101Z\" KEY\n",
            Refused(Reason::KeyExpired),
            false,
        ),
        ("p valid-before=\"20260101Z\" KEY\np valid-after=\"20260101Z\" KEY\n", Good, true),
    ]);
}

/// OpenSSH passes over each of these lines where it stands before a good one; here the file is
/// refused and the line named.
#[test]
fn ve3_a_line_that_is_not_understood_refuses_the_file() {
    let bench = Bench::new();
    for bad in [
        "p octopus KEY",
        "p namespaces=\"ns\",octopus KEY",
        "p no-touch-required KEY",
        "p namespaces=ns KEY",
        "p namespaces KEY",
        "p namespaces=\"ns KEY",
        "p namespaces=\"ns\",namespaces=\"ns\" KEY",
        "p namespaces=\"ns\", KEY",
        "p namespaces=\"ns\" valid-after=\"20200101Z\" KEY",
        "p cert-authority=\"yes\" KEY",
        "p !cert-authority KEY",
        "p valid-after=\"soon\" KEY",
        "p valid-after=20200101Z KEY",
        "p valid-after=\"20200101Z\",valid-before=\"20200101Z\" KEY",
        "p valid-after=\"20200101Z\",valid-before=\"20190101Z\" KEY",
        "p",
        "p namespaces=\"ns\"",
        "p ssh-ed25519",
        "p ssh-ed25519 AAAA",
        "p ssh-dss AAAAB3NzaC1kc3M=",
        "p KEY!",
        "\"p KEY",
        "KEY",
        "garbage",
    ] {
        let file = format!("# trust\n{bad}\np KEY\n").replace("KEY", &bench.lab.line("k"));
        assert_eq!(bench.ours(&file, "p", NOW, &ZuluOnly), File(2), "{bad}");
        assert!(bench.theirs(&file, "p", NOW, 0), "{bad}");
    }
    // These OpenSSH takes, and they say nothing that a reader could rely on.
    for odd in [
        "p valid-after=\"20200230Z\" KEY",
        "p valid-after=\"20200101235960Z\" KEY",
        "p valid-after=\"2020 1 1Z\" KEY",
        "p KEY comment\0and more",
    ] {
        let file = odd.replace("KEY", &bench.lab.line("k"));
        assert_eq!(bench.ours(&file, "p", NOW, &ZuluOnly), File(1), "{odd:?}");
        assert!(bench.theirs(&file, "p", NOW, 0), "{odd:?}");
    }
    assert!(AllowedSigners::parse(b"\xff KEY\n", &ZuluOnly).is_err());
    assert!(AllowedSigners::parse(&vec![b'\n'; 1024 * 1024 + 1], &ZuluOnly).is_err());
    let fault = AllowedSigners::parse(b"\np octopus ssh-ed25519 AAAA\n", &ZuluOnly).unwrap_err();
    assert_eq!(fault.to_string(), "line 2: option \"octopus\" is not known");
}

#[test]
fn s1_local_times_are_taken_only_where_somebody_knows_the_zone() {
    let bench = Bench::new();
    let key = bench.lab.line("k");
    for (bound, first) in
        [("20261130", 1_795_996_800u64), ("202611301230", 1_796_041_800), ("20261130123001", 1_796_041_801)]
    {
        let after = format!("p valid-after=\"{bound}\" {key}\n");
        let before = format!("p valid-before=\"{bound}\" {key}\n");
        // A caller who chose TZ would move the bound by a day.
        for offset in [-12, 0, 9, 14] {
            let first = first.checked_add_signed(-offset * 3600).unwrap();
            for (file, now, want) in [
                (&after, first - 1, Refused(Reason::KeyNotYetValid)),
                (&after, first, Good),
                (&before, first, Good),
                (&before, first + 1, Refused(Reason::KeyExpired)),
            ] {
                assert_eq!(bench.ours(file, "p", now, &Offset(offset)), want, "{bound} at {offset}");
                assert_eq!(bench.theirs(file, "p", now, offset), want == Good, "{bound} at {offset}");
            }
        }
        assert_eq!(bench.ours(&after, "p", NOW, &ZuluOnly), File(1));
        assert_eq!(bench.ours(&before, "p", NOW, &ZuluOnly), File(1));
        let zulu = before.replace(bound, &format!("{bound}Z"));
        assert_ne!(bench.ours(&zulu, "p", NOW, &ZuluOnly), File(1));
    }
}

#[test]
fn an_empty_file_vouches_for_nobody() {
    let bench = Bench::new();
    for file in ["", "\n", "# only a comment", "\r\n\t\n"] {
        assert_eq!(bench.ours(file, "p", NOW, &ZuluOnly), Refused(Reason::KeyUnknown));
        assert!(!bench.theirs(file, "p", NOW, 0));
    }
    assert_eq!(
        bench.ours(&format!("p {}\n", bench.lab.line("other")), "p", NOW, &ZuluOnly),
        Refused(Reason::KeyUnknown)
    );
}

#[test]
fn entries_say_what_the_lines_say() {
    let bench = Bench::new();
    let file = format!(
        "\np,q namespaces=\"a,b\",valid-after=\"20200101Z\" {0} c\nx cert-authority {0}\n",
        bench.lab.line("k")
    );
    let parsed = AllowedSigners::parse(file.as_bytes(), &ZuluOnly).unwrap();
    let [first, second] = parsed.entries() else { panic!("{parsed:?}") };
    assert_eq!(
        (first.line(), first.principals(), first.namespaces(), first.is_authority()),
        (2, "p,q", Some("a,b"), false)
    );
    assert_eq!(first.valid_after().map(|t| t.to_string()).as_deref(), Some("2020-01-01T00:00:00Z"));
    assert_eq!((first.valid_before(), second.is_authority(), second.line()), (None, true, 3));
    assert_eq!(first.key().key().line(), bench.lab.line("k"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(file in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = AllowedSigners::parse(&file, &Offset(1));
        let _ = muster_signing::revoked::RevokedSigners::parse(&file);
        let _ = SshSig::parse_armored(&file);
        let _ = SshSig::parse_blob(&[b"SSHSIG\0\0\0\x01", &file[..]].concat());
        let _ = muster_signing::revoked::RevokedSigners::parse(&[b"SSHKRL\n\0\0\0\0\x01", &file[..]].concat());
        let _ = muster_signing::certificate::Certificate::from_blob(&file);
    }

    #[test]
    fn any_line_is_read_or_refused(line in "[p*!,\" \t]{0,6}(namespaces=\"|valid-after=\"|cert-authority|[a-z0-9,=\\\\\" ]){0,6}ssh-ed25519 [A-Za-z0-9+/=]{0,70}\r?\n?") {
        let _ = AllowedSigners::parse(line.as_bytes(), &Offset(1));
    }
}
