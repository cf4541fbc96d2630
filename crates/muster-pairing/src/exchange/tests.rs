#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

const CERT: &[u8] = b"the node's certificate";
const CA: &[u8] = b"the operator's authority";
const SESSION: Session = [4; 16];

fn code(text: &str) -> Code {
    Code::parse(text).unwrap()
}

fn claim() -> Claim<'static> {
    Claim { node_certificate: CERT, operator_ca: CA, document: Some([5; 32]), acknowledge: false }
}

fn enrolled() -> Outcome {
    Outcome::Enrolled { operator_ca: "SHA256:abc".into(), warnings: vec![] }
}

/// Both sides up to the operator's confirmation; the operator sees `seen` as the node's certificate.
fn meet(typed: &str, shown: &str, seen: &[u8], asked: &Claim<'_>) -> (Confirmation, Awaiting, Open) {
    let operator = Operator::start(&code(typed), seen, [1; 64]);
    let (open, share) = Open::answer(&code(shown), CERT, &SESSION, &operator.share(), [2; 64]).unwrap();
    let (confirmation, awaiting) = operator.claim(&SESSION, &share, asked).unwrap();
    (confirmation, awaiting, open)
}

#[test]
fn one_code_and_one_claim_meet() {
    let (confirmation, awaiting, open) = meet("k7qm93xf", "K7QM-93XF", CERT, &claim());
    let proven = open.judge(&claim(), &confirmation).unwrap();
    let answer = proven.confirm(&enrolled());
    awaiting.check(&enrolled(), &answer).unwrap();
}

#[test]
fn m16_another_code_is_wrong() {
    let (confirmation, _, open) = meet("K7QM-93XF", "K7QM-93XG", CERT, &claim());
    assert!(matches!(open.judge(&claim(), &confirmation), Err(WrongCode)));
}

#[test]
fn m16_a_relay_with_its_own_certificate_gains_nothing() {
    let relay = b"the relay's certificate";
    let seen = Claim { node_certificate: relay, ..claim() };
    let (confirmation, _, open) = meet("K7QM-93XF", "K7QM-93XF", relay, &seen);
    assert!(matches!(open.judge(&claim(), &confirmation), Err(WrongCode)));
    // Also one that speaks CPace for the right certificate, and shows its own only in the claim.
    let (confirmation, _, open) = meet("K7QM-93XF", "K7QM-93XF", CERT, &seen);
    assert!(matches!(open.judge(&claim(), &confirmation), Err(WrongCode)));
}

#[test]
fn m16_nothing_of_the_claim_can_be_swapped_after_the_proof() {
    for (what, other) in [
        ("authority", Claim { operator_ca: b"the thief's authority", ..claim() }),
        ("document", Claim { document: Some([6; 32]), ..claim() }),
        ("no document", Claim { document: None, ..claim() }),
        ("acknowledgement", Claim { acknowledge: true, ..claim() }),
        (
            "where one part ends",
            Claim {
                node_certificate: b"the node's certificat",
                operator_ca: b"ethe operator's authority",
                ..claim()
            },
        ),
    ] {
        let (confirmation, _, open) = meet("K7QM-93XF", "K7QM-93XF", CERT, &claim());
        assert!(matches!(open.judge(&other, &confirmation), Err(WrongCode)), "{what}");
    }
}

#[test]
fn s18_the_outcome_cannot_be_changed_on_its_way() {
    let refused = Outcome::Refused { reason: "would-bootstrap".into(), detail: "".into() };
    let warned = Outcome::Enrolled { operator_ca: "SHA256:abc".into(), warnings: vec!["w".into()] };
    let elsewhere = Outcome::Enrolled { operator_ca: "SHA256:abd".into(), warnings: vec![] };
    for other in [&refused, &warned, &elsewhere] {
        let (confirmation, awaiting, open) = meet("K7QM-93XF", "K7QM-93XF", CERT, &claim());
        let answer = open.judge(&claim(), &confirmation).unwrap().confirm(&enrolled());
        assert_eq!(awaiting.check(other, &answer), Err(NotTheMachine), "{other:?}");
    }
}

#[test]
fn an_impostor_cannot_send_the_operators_proof_back() {
    let (confirmation, awaiting, _) = meet("K7QM-93XF", "K7QM-93XF", CERT, &claim());
    assert_eq!(awaiting.check(&enrolled(), &confirmation), Err(NotTheMachine));
}

#[test]
fn a_reflected_share_does_not_meet() {
    // The impostor answers with the operator's own share: the key is then one that only the operator has.
    let operator = Operator::start(&code("K7QM-93XF"), CERT, [1; 64]);
    let share = operator.share();
    let (confirmation, awaiting) = operator.claim(&SESSION, &share, &claim()).unwrap();
    assert_eq!(awaiting.check(&enrolled(), &confirmation), Err(NotTheMachine));
}

#[test]
fn another_session_is_another_key() {
    let operator = Operator::start(&code("K7QM-93XF"), CERT, [1; 64]);
    let (open, share) = Open::answer(&code("K7QM-93XF"), CERT, &SESSION, &operator.share(), [2; 64]).unwrap();
    let (confirmation, _) = operator.claim(&[9; 16], &share, &claim()).unwrap();
    assert!(matches!(open.judge(&claim(), &confirmation), Err(WrongCode)));
}

#[test]
fn a_neutral_share_is_refused_by_both_sides() {
    assert!(Open::answer(&code("K7QM-93XF"), CERT, &SESSION, &[0; 32], [2; 64]).is_err());
    let operator = Operator::start(&code("K7QM-93XF"), CERT, [1; 64]);
    assert!(operator.claim(&SESSION, &[0; 32], &claim()).is_err());
}

/// The values of one exchange, so that a change of what goes under the hashes is seen.
#[test]
fn the_bytes_of_version_1_stay() {
    let operator = Operator::start(&code("K7QM-93XF"), CERT, [1; 64]);
    let start = operator.share();
    let (open, share) = Open::answer(&code("K7QM-93XF"), CERT, &SESSION, &start, [2; 64]).unwrap();
    let (a, _) = operator.claim(&SESSION, &share, &claim()).unwrap();
    let b = open.judge(&claim(), &a).unwrap().confirm(&enrolled());
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(
        [hex(&start), hex(&share), hex(&a.0), hex(&b.0)],
        [
            "7accc0e6097ed48bb82d6e24d607b6a9e3924d767cead805cfefc2c7f27de21b",
            "c674d735ec13d8dc329dfeafb59de06c09d8f417200d20f753827d2ba626d015",
            "aa0e531af583bedac08df1da364ebbf21ba0d690448f7a7a0eb25a040d878db1",
            "7c1c64b253e40b04b134fc0810ca0f5356abdff252e4a390d9af1e783dd2bab2",
        ]
        .map(str::to_owned)
    );
}
