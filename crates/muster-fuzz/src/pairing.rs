//! Pairing: the code as it is typed, the bodies that both sides read, and whole exchanges with a peer that does what it likes.

use crate::{Said, refused};
use muster_pairing::{
    Claim, Code, Confirmation, Operator, Outcome,
    door::{Door, LIFETIME, Ledger, NoProof, TRIES},
    exchange::{Awaiting, Open, Session},
    message::{Answer, BadBody, MAX_AUTHORITY, MAX_DOCUMENT, Request, Started},
};
use std::{net::IpAddr, time::Duration};

/// The code of the machine. Its own dictionary word, so that a refusal that repeats it is found.
const CODE: &str = "K7QM-93XF";
const CERTIFICATE: &[u8] = b"the node's certificate";

/// A code as it is typed: one form, and every spelling of it.
pub fn code(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let code = match Code::parse(text) {
        Ok(code) => code,
        Err(why) => return refused(&why),
    };
    let shown = code.expose();
    let letters: String = text.chars().filter(|c| !matches!(c, '-') && !c.is_whitespace()).collect();
    assert_eq!(shown.replace('-', ""), letters.to_ascii_uppercase());
    assert!(shown.len() == 9 && shown.as_bytes().get(4) == Some(&b'-'), "{shown:?}");
    assert!(!shown.contains(['I', 'L', 'O', 'U']) && !format!("{code:?}").contains(&shown));
    for again in [shown.clone(), shown.to_lowercase(), shown.replace('-', ""), format!(" {shown}\r\n")] {
        assert_eq!(Code::parse(&again).map(|c| c.expose()), Ok(shown.clone()), "{again:?}");
    }
    Said::Accepted
}

fn not_a_body(why: &BadBody) {
    let words = why.to_string();
    assert!(!words.contains("K7QM"), "a code is repeated: {words}");
    refused(why);
}

/// One body: it is one message at most, written again it reads as the same, and a refusal repeats nothing of it.
pub fn message(input: &[u8]) -> Said {
    let mut taken = 0;
    match Request::parse(input) {
        Err(why) => not_a_body(&why),
        Ok(request) => {
            taken += 1;
            if let Request::Confirm { claim, .. } | Request::Open { claim } = &request {
                assert!(claim.operator_ca.len() <= MAX_AUTHORITY);
                assert!(claim.document.as_ref().is_none_or(|d| d.len() <= MAX_DOCUMENT));
            }
            let written = request.render();
            let again = Request::parse(written.as_bytes()).expect("what was written can be read");
            assert_eq!(again.render(), written);
            assert_eq!(format!("{again:?}"), format!("{request:?}"));
        }
    }
    match Started::parse(input) {
        Err(why) => not_a_body(&why),
        Ok(started) => {
            taken += 1;
            assert_eq!(Started::parse(started.render().as_bytes()), Ok(started));
        }
    }
    match Answer::parse(input) {
        Err(why) => not_a_body(&why),
        Ok(answer) => {
            taken += 1;
            let again = Answer::parse(answer.render().as_bytes()).expect("what was written can be read");
            assert_eq!(again.outcome, answer.outcome);
            assert_eq!(again.confirm.map(|c| c.0), answer.confirm.map(|c| c.0));
        }
    }
    assert!(taken <= 1, "one body is {taken} messages");
    if taken == 1 { Said::Accepted } else { Said::Refused }
}

/// The tries, and how often they were written.
struct Paper {
    tries: u8,
    written: Vec<u8>,
    full: bool,
}

impl Ledger for Paper {
    type Error = ();

    fn tries(&self) -> u8 {
        self.tries
    }

    fn store(&mut self, tries: u8) -> Result<(), ()> {
        if self.full {
            return Err(());
        }
        self.tries = tries;
        self.written.push(tries);
        Ok(())
    }
}

/// An exchange that an operator who plays by the rules began.
struct Began {
    session: Session,
    confirmation: Confirmation,
    awaiting: Option<Awaiting>,
    knows: bool,
    since: Duration,
    /// Whether another came after it, which may have pushed it out.
    newest: bool,
    judged: bool,
}

/// A node that shows [`CODE`], and what is known of it.
struct Node {
    door: Door,
    paper: Paper,
    now: Duration,
    began: Vec<Began>,
    sessions: u8,
    wrong: u32,
    proven: u32,
}

fn claim() -> Claim<'static> {
    Claim { node_certificate: CERTIFICATE, operator_ca: b"CA", document: None, acknowledge: false }
}

impl Node {
    fn admit(&mut self, from: IpAddr, share: &[u8; 32]) -> Option<(Session, [u8; 32])> {
        self.sessions = self.sessions.wrapping_add(1);
        let session = [self.sessions; 16];
        let code = Code::parse(CODE).expect("a code");
        let random = [self.sessions ^ 0xff; 64];
        let (open, ours) = Open::answer(&code, CERTIFICATE, &session, share, random).ok()?;
        self.door.admit(session, from, open, self.now);
        self.began.iter_mut().for_each(|b| b.newest = false);
        Some((session, ours))
    }

    /// A whole step 1 by an operator who typed `typed`.
    fn begin(&mut self, from: IpAddr, typed: &str) -> Option<()> {
        let typed = Code::parse(typed).ok()?;
        let operator = Operator::start(&typed, CERTIFICATE, [self.sessions.wrapping_add(1); 64]);
        let (session, theirs) = self.admit(from, &operator.share()).expect("an honest share is a point");
        let (confirmation, awaiting) = operator.claim(&session, &theirs, &claim()).expect("a point");
        self.began.push(Began {
            session,
            confirmation,
            awaiting: Some(awaiting),
            knows: typed.expose() == CODE,
            since: self.now,
            newest: true,
            judged: false,
        });
        Some(())
    }

    /// Step 2, and everything that the crate says of a verdict. `honest` is whether the confirmation was made by one who
    /// knew the code, for this session and this claim.
    fn judge(&mut self, session: &Session, claim: &Claim<'_>, confirmation: &Confirmation, honest: bool) {
        let before = self.paper.tries;
        self.paper.written.clear();
        let mut began = self.began.iter_mut().find(|b| b.session == *session);
        let used = began.as_ref().is_some_and(|b| b.judged);
        let fresh = began.as_ref().is_some_and(|b| b.newest && self.now.saturating_sub(b.since) < LIFETIME);
        if let Some(began) = &mut began {
            began.judged = true;
        }
        let verdict = self.door.judge(session, claim, confirmation, &mut self.paper, self.now);
        let written = self.paper.written.as_slice();
        assert!(verdict.is_err() || honest, "proven without the code");
        assert!(!used || matches!(verdict, Err(NoProof::UnknownSession)), "one exchange is judged twice");
        match verdict {
            Ok(proven) => {
                assert_eq!(written, [before - 1, before], "a right one gives the try back, and not before");
                self.proven += 1;
                let awaiting = began.and_then(|b| b.awaiting.take()).expect("an honest operator waits");
                answered(proven.confirm(&enrolled()), awaiting);
            }
            Err(NoProof::Wrong { left }) => {
                assert!(!honest, "the right code and claim are called wrong");
                assert_eq!(
                    (written, left),
                    ([before - 1].as_slice(), before - 1),
                    "a wrong one costs one try"
                );
                self.wrong += 1;
                assert!(self.wrong <= u32::from(TRIES), "more guesses than tries");
            }
            Err(NoProof::Ledger(())) => {
                assert!(self.paper.full && before > 0 && self.paper.tries <= before);
            }
            Err(NoProof::Locked) => assert!(before == 0 && written.is_empty()),
            Err(NoProof::Pause(rest)) => {
                assert!(written.is_empty() && rest <= Duration::from_secs(8) && self.wrong > 0);
            }
            Err(NoProof::UnknownSession) => {
                assert!(written.is_empty() && (used || !fresh), "an open exchange is not known");
            }
        }
    }

    /// One line of the script; `None` when it is none.
    fn step(&mut self, line: &[u8]) -> Option<()> {
        let at = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
        let (word, rest) = line.split_at_checked(at)?;
        let rest = rest.get(1..).unwrap_or_default();
        let text = || core::str::from_utf8(rest).ok();
        let number = || text().and_then(|t| t.parse::<u64>().ok());
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        match word {
            b"wait" => self.now = self.now.checked_add(Duration::from_millis(number()?.min(1 << 40)))?,
            b"full" => self.paper.full = true,
            b"room" => self.paper.full = false,
            b"begin" => {
                let (n, typed) = text()?.split_once(' ')?;
                self.begin(address(n.parse().ok()?), typed)?;
            }
            b"prove" => {
                let began = self.began.get(usize::try_from(number()?).ok()?)?;
                let (session, confirmation, knows) = (began.session, began.confirmation, began.knows);
                self.judge(&session, &claim(), &confirmation, knows);
            }
            // The same confirmation for another claim.
            b"swap" => {
                let began = self.began.get(usize::try_from(number()?).ok()?)?;
                let (session, confirmation) = (began.session, began.confirmation);
                let other = Claim { operator_ca: b"the thief's CA", ..claim() };
                self.judge(&session, &other, &confirmation, false);
            }
            // The confirmation of one exchange in the session of another.
            b"cross" => {
                let (a, b) = text()?.split_once(' ')?;
                let (a, b) =
                    (self.began.get(a.parse::<usize>().ok()?)?, self.began.get(b.parse::<usize>().ok()?)?);
                let (session, confirmation) = (a.session, b.confirmation);
                let honest = a.knows && a.session == b.session;
                self.judge(&session, &claim(), &confirmation, honest);
            }
            // A body as a stranger sends it.
            b"body" => match Request::parse(rest).ok()? {
                Request::Start { share } => drop(self.admit(address(66), &share)?),
                Request::Open { .. } => {}
                Request::Confirm { session, confirm, claim: body } => {
                    let asked = Claim { operator_ca: body.operator_ca.as_bytes(), ..claim() };
                    let honest = self.began.iter().any(|b| {
                        b.knows
                            && b.session == session
                            && b.confirmation.0 == confirm.0
                            && asked.operator_ca == b"CA"
                    });
                    self.judge(&session, &asked, &confirm, honest);
                }
            },
            _ => return None,
        }
        Some(())
    }
}

fn enrolled() -> Outcome {
    Outcome::Enrolled { operator_ca: "SHA256:abc".into(), warnings: vec!["w".into()] }
}

/// The node's proof reaches the operator as a body and is believed.
fn answered(confirm: Confirmation, awaiting: Awaiting) {
    let body = Answer { outcome: enrolled(), confirm: Some(confirm) }.render();
    let read = Answer::parse(body.as_bytes()).expect("its own answer");
    let confirm = read.confirm.expect("it is in the body");
    assert!(awaiting.check(&read.outcome, &confirm).is_ok(), "the node's own proof is not believed");
}

/// What a machine answers that does not know the code: step 1, then step 2, each a line of the input.
fn impostor(started: &[u8], answer: &[u8]) -> Option<()> {
    let operator = Operator::start(&Code::parse(CODE).ok()?, CERTIFICATE, [1; 64]);
    let ours = operator.share();
    let started = Started::parse(started).ok()?;
    let reflected = started.share == ours;
    let (confirmation, awaiting) = operator.claim(&started.session, &started.share, &claim()).ok()?;
    let answer = Answer::parse(answer).ok()?;
    // Also with the operator's own proof sent back to it.
    let confirm = if reflected { confirmation } else { answer.confirm? };
    assert!(awaiting.check(&answer.outcome, &confirm).is_err(), "a machine without the code is believed");
    Some(())
}

/// Whole exchanges, a step a line. `impostor` and the two lines after it are a machine that does not know the code; all other
/// lines are for a node that shows it.
pub fn exchange(input: &[u8]) -> Said {
    let mut node = Node {
        door: Door::default(),
        paper: Paper { tries: TRIES, written: Vec::new(), full: false },
        now: Duration::ZERO,
        began: Vec::new(),
        sessions: 0,
        wrong: 0,
        proven: 0,
    };
    let mut lines = input.split(|b| *b == b'\n').take(40);
    while let Some(line) = lines.next() {
        if line == b"impostor" {
            let (started, answer) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
            impostor(started, answer);
        } else {
            node.step(line);
        }
    }
    if node.proven > 0 { Said::Accepted } else { Said::Refused }
}
