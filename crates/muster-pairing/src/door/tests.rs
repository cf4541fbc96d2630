#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::code::Code;
use crate::exchange::Operator;
use proptest::prelude::*;

const CERT: &[u8] = b"certificate";

/// Keeps the tries, and every value that was ever written. `fail` makes that many writes from then on fail.
struct Paper {
    tries: u8,
    written: Vec<u8>,
    fail: bool,
}

impl Paper {
    fn new(tries: u8) -> Self {
        Self { tries, written: vec![], fail: false }
    }
}

impl Ledger for Paper {
    type Error = &'static str;
    fn tries(&self) -> u8 {
        self.tries
    }
    fn store(&mut self, tries: u8) -> Result<(), &'static str> {
        if self.fail {
            return Err("disk full");
        }
        self.tries = tries;
        self.written.push(tries);
        Ok(())
    }
}

fn claim() -> Claim<'static> {
    Claim { node_certificate: CERT, operator_ca: b"ca", document: None, acknowledge: false }
}

fn address(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// Opens one exchange and gives what the operator would confirm with.
fn knock(door: &mut Door, typed: &str, n: u8, from: IpAddr, now: Duration) -> (Session, Confirmation) {
    let session = [n; 16];
    let operator = Operator::start(&Code::parse(typed).unwrap(), CERT, [n; 64]);
    let shown = Code::parse("K7QM-93XF").unwrap();
    let (open, share) = Open::answer(&shown, CERT, &session, &operator.share(), [n ^ 0xff; 64]).unwrap();
    door.admit(session, from, open, now);
    (session, operator.claim(&session, &share, &claim()).unwrap().0)
}

const RIGHT: &str = "K7QM-93XF";
const WRONG: &str = "00000000";

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn m16_a_try_is_written_down_before_the_comparison_and_given_back_after_a_right_one() {
    let (mut door, mut paper) = (Door::default(), Paper::new(5));
    let (session, proof) = knock(&mut door, RIGHT, 1, address(1), secs(0));
    assert!(door.judge(&session, &claim(), &proof, &mut paper, secs(0)).is_ok());
    assert_eq!(paper.written, [4, 5]);
}

#[test]
fn m16_where_the_try_cannot_be_written_nothing_is_compared() {
    let (mut door, mut paper) = (Door::default(), Paper::new(5));
    paper.fail = true;
    for (n, typed) in [(1, RIGHT), (2, WRONG)] {
        let (session, proof) = knock(&mut door, typed, n, address(1), secs(0));
        let verdict = door.judge(&session, &claim(), &proof, &mut paper, secs(0));
        assert_eq!(verdict.err(), Some(NoProof::Ledger("disk full")), "{typed}");
    }
}

#[test]
fn m16_one_exchange_is_one_guess() {
    let (mut door, mut paper) = (Door::default(), Paper::new(5));
    let (session, proof) = knock(&mut door, WRONG, 1, address(1), secs(0));
    let judge =
        |door: &mut Door, paper: &mut Paper| door.judge(&session, &claim(), &proof, paper, secs(0)).err();
    assert_eq!(judge(&mut door, &mut paper), Some(NoProof::Wrong { left: 4 }));
    assert_eq!(judge(&mut door, &mut paper), Some(NoProof::UnknownSession));
    assert_eq!(paper.written, [4]);
}

#[test]
fn m16_parallel_exchanges_buy_no_more_than_the_tries() {
    let (mut door, mut paper) = (Door::default(), Paper::new(TRIES));
    let proofs: Vec<_> = (1..=16).map(|n| knock(&mut door, WRONG, n, address(n), secs(0))).collect();
    let mut wrong = 0;
    for (session, proof) in &proofs {
        match door.judge(session, &claim(), proof, &mut paper, secs(0)).err() {
            Some(NoProof::Wrong { .. }) => wrong += 1,
            Some(NoProof::Pause(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((wrong, paper.tries), (1, 4));
}

#[test]
fn m17_aborted_exchanges_cost_nothing_and_tell_nothing() {
    let (mut door, mut paper) = (Door::default(), Paper::new(5));
    for n in 1..=200 {
        knock(&mut door, WRONG, n, address(1), secs(0));
    }
    let (session, proof) = knock(&mut door, RIGHT, 201, address(2), secs(0));
    assert!(door.judge(&session, &claim(), &proof, &mut paper, secs(0)).is_ok());
}

#[test]
fn m17_wrong_guesses_slow_down_and_the_fifth_shuts_the_door() {
    let (mut door, mut paper) = (Door::default(), Paper::new(TRIES));
    let mut now = secs(100);
    for (n, (left, pause)) in (1..).zip([(4, 1), (3, 2), (2, 4), (1, 8), (0, 8)]) {
        let (session, proof) = knock(&mut door, WRONG, n, address(1), now);
        let verdict = door.judge(&session, &claim(), &proof, &mut paper, now).err();
        assert_eq!(verdict, Some(NoProof::Wrong { left }));
        let (session, proof) = knock(&mut door, RIGHT, n + 50, address(2), now);
        let early = now + secs(pause) - Duration::from_millis(1);
        let verdict = door.judge(&session, &claim(), &proof, &mut paper, early).err();
        assert_eq!(verdict, Some(NoProof::Pause(Duration::from_millis(1))));
        assert_eq!(paper.tries, left, "a pause costs nothing");
        now += secs(pause);
    }
    let (session, proof) = knock(&mut door, RIGHT, 99, address(1), now);
    assert_eq!(door.judge(&session, &claim(), &proof, &mut paper, now).err(), Some(NoProof::Locked));
}

#[test]
fn an_exchange_is_gone_after_ten_seconds() {
    let (mut door, mut paper) = (Door::default(), Paper::new(5));
    let (session, proof) = knock(&mut door, RIGHT, 1, address(1), secs(0));
    assert_eq!(
        door.judge(&session, &claim(), &proof, &mut paper, LIFETIME).err(),
        Some(NoProof::UnknownSession)
    );
    let (session, proof) = knock(&mut door, RIGHT, 2, address(1), secs(0));
    assert!(door.judge(&session, &claim(), &proof, &mut paper, LIFETIME - Duration::from_millis(1)).is_ok());
}

#[test]
fn m17_the_third_exchange_of_an_address_pushes_out_its_own_first() {
    let (mut door, mut paper) = (Door::default(), Paper::new(5));
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    let first = knock(&mut door, RIGHT, 1, address(1), secs(0));
    let other = knock(&mut door, RIGHT, 2, address(2), secs(0));
    let second = knock(&mut door, RIGHT, 3, mapped, secs(0));
    let third = knock(&mut door, RIGHT, 4, address(1), secs(0));
    let mut judge = |(session, proof): (Session, Confirmation)| {
        door.judge(&session, &claim(), &proof, &mut paper, secs(0)).err()
    };
    assert_eq!(judge(first), Some(NoProof::UnknownSession));
    for kept in [other, second, third] {
        assert_eq!(judge(kept), None);
    }
}

#[test]
fn m17_a_full_door_takes_from_the_fullest_address() {
    let (mut door, mut paper) = (Door::default(), Paper::new(5));
    let mut proofs = Vec::new();
    // One exchange each of 2..=8, then the two of address 1, then one each of 9..=15: sixteen.
    for (n, from) in (2..=8).chain([1, 1]).chain(9..=15).zip(1..) {
        proofs.push((n, knock(&mut door, RIGHT, from, address(n), secs(0))));
    }
    let newcomer = knock(&mut door, RIGHT, 77, address(77), secs(0));
    let gone: Vec<u8> = proofs
        .into_iter()
        .filter_map(|(n, (session, proof))| {
            door.judge(&session, &claim(), &proof, &mut paper, secs(0)).err().map(|_| n)
        })
        .collect();
    assert_eq!(gone, [1]);
    assert!(door.judge(&newcomer.0, &claim(), &newcomer.1, &mut paper, secs(0)).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever the order of knocks, guesses, waits and crashes: no more wrong comparisons than tries, and the bounds hold.
    #[test]
    fn no_order_of_things_buys_more_guesses(steps in prop::collection::vec((0u8..4, 0u8..8, 0u64..12), 1..60)) {
        let (mut door, mut paper) = (Door::default(), Paper::new(TRIES));
        let (mut now, mut wrong, mut n) = (secs(0), 0u32, 0u8);
        let mut waiting = Vec::new();
        for (what, who, wait) in steps {
            match what {
                0 | 1 => {
                    n = n.wrapping_add(1);
                    waiting.push(knock(&mut door, WRONG, n, address(who), now));
                }
                2 => {
                    if let Some((session, proof)) = waiting.pop()
                        && let Some(NoProof::Wrong { .. }) = door.judge(&session, &claim(), &proof, &mut paper, now).err()
                    {
                        wrong += 1;
                    }
                }
                _ if wait == 11 => door = Door::default(),
                _ => now += secs(wait),
            }
            prop_assert!(door.open.len() <= OPEN);
            for entry in &door.open {
                prop_assert!(door.count(entry.address) <= OPEN_AN_ADDRESS);
            }
        }
        prop_assert_eq!(u32::from(TRIES - paper.tries), wrong);
        prop_assert!(wrong <= u32::from(TRIES));
    }
}
