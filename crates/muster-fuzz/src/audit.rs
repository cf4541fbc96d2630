//! The text of an audit chain.

use crate::{Said, refused};
use muster_core::audit::{Broken, Chain, Head, verify};

/// What holds together goes on holding when a record is appended, knows its own head, and no other hash of it.
pub fn chain(data: &[u8]) -> Said {
    let report = match verify(data, None, &[]) {
        Ok(report) => report,
        Err(why) => return refused(&why),
    };
    assert!(report.torn <= data.len() && (report.first == 0) == (report.head == Head::NONE));
    if report.first == 0 {
        return Said::Refused;
    }
    let head = report.head;
    assert_eq!(head.to_string().parse(), Ok(head));
    assert_eq!(verify(data, None, &[head]).map(|r| r.before), Ok(0));
    let mut other = head;
    other.hash[0] ^= 1;
    assert_eq!(verify(data, None, &[other]), Err(Broken::Rewritten(other)));
    let whole = data.get(..data.len() - report.torn).expect("the torn bytes are its last");
    if let Ok((line, next)) = Chain::after(head).next("\"event\":\"torn-tail\"") {
        let longer = [whole, &line].concat();
        assert_eq!(verify(&longer, None, &[head]).map(|r| (r.head, r.torn)), Ok((next.head(), 0)));
        assert_eq!(verify(whole, None, &[next.head()]), Err(Broken::CutOff(next.head())));
    }
    Said::Accepted
}
