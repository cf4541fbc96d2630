#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;

fn body() -> ClaimBody {
    ClaimBody {
        operator_ca: "PEM".into(),
        document: Some("muster:\n  role: \"init\"\n".into()),
        acknowledge: true,
    }
}

#[test]
fn each_request_reads_as_it_was_written() {
    let requests = [
        Request::Start { share: [7; 32] },
        Request::Confirm { session: [1; 16], confirm: Confirmation([2; 32]), claim: body() },
        Request::Confirm {
            session: [1; 16],
            confirm: Confirmation([2; 32]),
            claim: ClaimBody { document: None, ..body() },
        },
        Request::Open { claim: body() },
    ];
    for request in requests {
        let text = request.render();
        assert_eq!(Request::parse(text.as_bytes()).unwrap().render(), text);
    }
    assert_eq!(
        Request::Start { share: [0; 32] }.render(),
        r#"{"share":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","step":1}"#
    );
}

#[test]
fn each_answer_reads_as_it_was_written() {
    let started = Started { session: [3; 16], share: [4; 32] };
    assert_eq!(Started::parse(started.render().as_bytes()).unwrap(), started);
    for outcome in [
        Outcome::Enrolled { operator_ca: "SHA256:x".into(), warnings: vec!["w".into()] },
        Outcome::Refused { reason: "would-bootstrap".into(), detail: "why".into() },
    ] {
        let text = Answer { outcome: outcome.clone(), confirm: Some(Confirmation([9; 32])) }.render();
        let read = Answer::parse(text.as_bytes()).unwrap();
        assert_eq!((&read.outcome, read.confirm.map(|c| c.0)), (&outcome, Some([9; 32])), "{text}");
    }
}

#[test]
fn the_one_step_protocol_is_named() {
    for body in [
        r#"{"code":"K7QM-93XF","operatorCA":"PEM"}"#,
        r#"{"code":null,"operatorCA":"PEM"}"#,
        r#"{"step":1,"code":5}"#,
    ] {
        let Err(error) = Request::parse(body.as_bytes()) else { panic!("{body}") };
        if body.contains("null") {
            // A null is an absent field to serde; what is left is no step.
            assert_eq!(error, BadBody::Field { field: "step", why: "is 1 or 2" });
        } else {
            assert_eq!(error, BadBody::OneStep, "{body}");
        }
        assert!(!error.to_string().contains("K7QM"), "{error}");
    }
}

#[test]
fn what_is_no_step_is_refused_and_not_repeated() {
    let share = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for (body, want) in [
        (String::new(), "it ends too early"),
        ("[]".into(), "step"),
        ("{}".into(), "step"),
        (r#"{"step":3}"#.into(), "step"),
        (r#"{"step":1}"#.into(), "`share` is missing"),
        (r#"{"step":1,"share":"AAAA"}"#.into(), "`share` is not base64"),
        (format!(r#"{{"step":1,"share":"{share}","acknowledge":true}}"#), "`acknowledge` does not belong"),
        (format!(r#"{{"step":1,"share":"{share}","SECRET-9":1}}"#), "a field is unknown"),
        (format!(r#"{{"step":1,"step":1,"share":"{share}"}}"#), "a field is unknown, doubled"),
        (format!(r#"{{"step":1,"open":true,"share":"{share}"}}"#), "step"),
        (format!(r#"{{"open":true,"share":"{share}","operatorCA":"x"}}"#), "`share` does not belong"),
        (r#"{"open":true}"#.into(), "`operatorCA` is missing"),
        (r#"{"open":false,"operatorCA":"x"}"#.into(), "step"),
        (
            format!(r#"{{"step":2,"session":"{share}","confirm":"{share}","operatorCA":"x"}}"#),
            "`session` is not base64",
        ),
        (format!(r#"{{"open":true,"operatorCA":"{}"}}"#, "x".repeat(MAX_AUTHORITY + 1)), "16 KiB"),
        (
            format!(r#"{{"open":true,"operatorCA":"x","document":"{}"}}"#, "x".repeat(MAX_DOCUMENT + 1)),
            "1 MiB",
        ),
        (" ".repeat(MAX_BODY + 1), "at most"),
    ] {
        let head: String = body.chars().take(60).collect();
        let Err(error) = Request::parse(body.as_bytes()) else { panic!("taken: {head}") };
        let error = error.to_string();
        assert!(error.contains(want), "{head}: {error}");
        assert!(!error.contains("SECRET-9"), "{error}");
    }
}

#[test]
fn a_document_of_the_full_length_goes_through_in_any_spelling() {
    let document = "\"".repeat(MAX_DOCUMENT);
    let text = Request::Open { claim: ClaimBody { document: Some(document.clone()), ..body() } }.render();
    assert!(text.len() <= MAX_BODY, "{}", text.len());
    let Request::Open { claim } = Request::parse(text.as_bytes()).unwrap() else { panic!("another request") };
    assert_eq!(claim.document.as_deref(), Some(document.as_str()));
}

proptest! {
    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = Request::parse(&body);
        let _ = Started::parse(&body);
        let _ = Answer::parse(&body);
    }
}
