//! How many may be inside at once, in all and from one address.
//!
//! When all seats are taken, a newcomer gets the oldest seat of the address that has the most, if that is more than the
//! newcomer's own address has: whoever takes many seats pays for it, and a client that comes once finds one. An address is
//! one of IPv4, or the first 64 bits of one of IPv6, which is what a machine gets to choose from; a link-local one counts whole.

use core::net::IpAddr;

/// Seats of one kind.
#[derive(Debug)]
pub(crate) struct Seats {
    all: usize,
    an_address: usize,
    /// The oldest first.
    taken: Vec<(u64, IpAddr)>,
}

/// What came of asking.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// Taken.
    Free,
    /// Taken, and this one must leave.
    InsteadOf(u64),
    /// There is none.
    None,
}

impl Seats {
    pub(crate) const fn new(all: usize, an_address: usize) -> Self {
        Self { all, an_address, taken: Vec::new() }
    }

    /// Asks for a seat for the connection `id`, which must not have one.
    pub(crate) fn take(&mut self, id: u64, from: IpAddr) -> Seat {
        let who = counted(from);
        let own = self.of(who);
        if own >= self.an_address {
            return Seat::None;
        }
        let mut seat = Seat::Free;
        if self.taken.len() >= self.all {
            let fullest = self.taken.iter().map(|(_, a)| (self.of(*a), *a)).reduce(|best, next| {
                // Of two that are alike, the one that came first.
                if next.0 > best.0 { next } else { best }
            });
            let Some((_, address)) = fullest.filter(|(count, _)| *count > own) else { return Seat::None };
            let Some(at) = self.taken.iter().position(|(_, a)| *a == address) else { return Seat::None };
            seat = Seat::InsteadOf(self.taken.remove(at).0);
        }
        self.taken.push((id, who));
        seat
    }

    /// Gives a seat back; nothing where there is none.
    pub(crate) fn leave(&mut self, id: u64) {
        self.taken.retain(|(taken, _)| *taken != id);
    }

    fn of(&self, who: IpAddr) -> usize {
        self.taken.iter().filter(|(_, a)| *a == who).count()
    }
}

/// What counts as one address.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_unicast_link_local() => {
            IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn m17_two_an_address_and_eight_in_all() {
        let mut seats = Seats::new(8, 2);
        assert_eq!(seats.take(1, ip("10.0.0.1")), Seat::Free);
        assert_eq!(seats.take(2, ip("::ffff:10.0.0.1")), Seat::Free);
        assert_eq!(seats.take(3, ip("10.0.0.1")), Seat::None, "the third of one address");
        seats.leave(1);
        assert_eq!(seats.take(4, ip("10.0.0.1")), Seat::Free);
        for n in 0..6 {
            assert_eq!(seats.take(10 + n, ip(&format!("2001:db8:0:{n}::1"))), Seat::Free);
        }
        assert_eq!(seats.take(20, ip("10.0.0.2")), Seat::InsteadOf(2), "the fullest pays, its oldest first");
        assert_eq!(seats.taken.len(), 8);
    }

    #[test]
    fn m17_a_network_of_ipv6_is_one_address_and_neighbours_are_not() {
        let mut seats = Seats::new(8, 2);
        assert_eq!(seats.take(1, ip("2001:db8::1")), Seat::Free);
        assert_eq!(seats.take(2, ip("2001:db8::2")), Seat::Free);
        assert_eq!(seats.take(3, ip("2001:db8::3")), Seat::None);
        for n in 4..8 {
            assert_eq!(seats.take(n, ip(&format!("fe80::{n}"))), Seat::Free);
        }
    }

    #[test]
    fn who_has_as_many_as_anybody_waits() {
        let mut seats = Seats::new(2, 2);
        assert_eq!(seats.take(1, ip("10.0.0.1")), Seat::Free);
        assert_eq!(seats.take(2, ip("10.0.0.2")), Seat::Free);
        assert_eq!(seats.take(3, ip("10.0.0.1")), Seat::None);
        assert_eq!(seats.take(4, ip("10.0.0.3")), Seat::InsteadOf(1));
    }
}
