//! The life of a node: who owns it, what its bootstrap waits for, whether it is in a cluster.
//!
//! ```text
//!              claimed, awaits a document ──document──┐
//!                 ▲                                   ▼
//! unclaimed ──claim──▶ claimed, released ──start──▶ building ──done──▶ member
//!     ▲                    ▲    ▲                      │                 │
//!     │                    │    └───────failed─────────┘              reset
//!     │                    └──(document again)                           ▼
//!     └──────────────────────────forgotten───────────────────────── leaving
//! ```
//!
//! Invariant: a node that nobody claimed is in no cluster and on its way into none. The one constructor and the one
//! transition hold it, so no value of [`Machine`] breaks it. Every step is total: an event that does not fit is refused
//! with its reason, and the state stays.

use core::fmt;

/// What the bootstrap waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// An owner.
    Claim,
    /// Its owner's word what it shall be.
    Document,
    /// Nothing.
    Released,
}

/// Whether the node is in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Membership {
    /// In none.
    None,
    /// Being built or joined.
    Building,
    /// In one.
    Member,
    /// Being taken out; goes on after any interruption.
    Leaving,
}

/// One node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    hold: Hold,
    membership: Membership,
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Somebody became its owner. Whether its document says all that is needed to build it.
    Claimed {
        /// The document names a role and asks for no further word.
        complete: bool,
    },
    /// Its owner said what it shall be.
    Described,
    /// The bootstrap begins.
    Started,
    /// It is in its cluster.
    Finished,
    /// The bootstrap gave up; the next boot, or another document, starts over.
    Failed,
    /// Its owner takes it out.
    Reset,
    /// It left the cluster, what belonged to it is wiped, and its owner is forgotten: in this order.
    Forgotten,
}

/// The event does not fit the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misfit {
    /// It has an owner already.
    AlreadyClaimed,
    /// It has none.
    Unclaimed,
    /// It waits for its owner's word.
    AwaitsDocument,
    /// It is built or being built.
    Bootstrapped,
    /// Nothing is being built.
    NotBuilding,
    /// It is being taken out.
    Leaving,
    /// It is not being taken out.
    NotLeaving,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyClaimed => "the node has an owner",
            Self::Unclaimed => "the node has no owner",
            Self::AwaitsDocument => "the node waits for a document that says what it shall be",
            Self::Bootstrapped => "the node is built, or being built",
            Self::NotBuilding => "the node is not being built",
            Self::Leaving => "the node is being taken out of its cluster",
            Self::NotLeaving => "the node is not being taken out of its cluster",
        })
    }
}

impl Machine {
    /// A node that nobody owns.
    pub const UNCLAIMED: Self = Self { hold: Hold::Claim, membership: Membership::None };

    /// A node as its disk tells after a boot. `complete`: its document says all that is needed to build it.
    ///
    /// # Errors
    /// It has no owner and is in a cluster, or on its way in or out: a node of which somebody removed the owner's certificate.
    pub const fn booted(claimed: bool, complete: bool, membership: Membership) -> Result<Self, Misfit> {
        match (claimed, membership) {
            (false, Membership::None) => Ok(Self::UNCLAIMED),
            (false, _) => Err(Misfit::Unclaimed),
            (true, Membership::None) if !complete => Ok(Self { hold: Hold::Document, membership }),
            (true, _) => Ok(Self { hold: Hold::Released, membership }),
        }
    }

    /// Whether somebody owns it.
    #[must_use]
    pub const fn is_claimed(self) -> bool {
        !matches!(self.hold, Hold::Claim)
    }

    /// What its bootstrap waits for.
    #[must_use]
    pub const fn hold(self) -> Hold {
        self.hold
    }

    /// Whether it is in a cluster.
    #[must_use]
    pub const fn membership(self) -> Membership {
        self.membership
    }

    /// The state after an event.
    ///
    /// # Errors
    /// The event does not fit; nothing changed.
    pub fn step(self, event: Event) -> Result<Self, Misfit> {
        use Membership as M;
        let to = |hold, membership| Ok(Self { hold, membership });
        match (event, self.hold, self.membership) {
            (Event::Claimed { complete: true }, Hold::Claim, _) => to(Hold::Released, M::None),
            (Event::Claimed { complete: false }, Hold::Claim, _) => to(Hold::Document, M::None),
            (Event::Claimed { .. }, _, _) => Err(Misfit::AlreadyClaimed),
            (_, Hold::Claim, _) => Err(Misfit::Unclaimed),
            (Event::Described, _, M::None) => to(Hold::Released, M::None),
            (Event::Described, _, M::Leaving) => Err(Misfit::Leaving),
            (Event::Described, _, M::Building | M::Member) => Err(Misfit::Bootstrapped),
            (Event::Started, Hold::Released, M::None) => to(Hold::Released, M::Building),
            (Event::Started, Hold::Document, _) => Err(Misfit::AwaitsDocument),
            (Event::Started, _, M::Leaving) => Err(Misfit::Leaving),
            (Event::Started, _, M::Building | M::Member) => Err(Misfit::Bootstrapped),
            (Event::Finished, _, M::Building) => to(Hold::Released, M::Member),
            (Event::Failed, _, M::Building) => to(Hold::Released, M::None),
            (Event::Finished | Event::Failed, _, _) => Err(Misfit::NotBuilding),
            // Again and again: each interruption asks again.
            (Event::Reset, hold, _) => to(hold, M::Leaving),
            (Event::Forgotten, _, M::Leaving) => Ok(Self::UNCLAIMED),
            (Event::Forgotten, _, _) => Err(Misfit::NotLeaving),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 8] = [
        Event::Claimed { complete: true },
        Event::Claimed { complete: false },
        Event::Described,
        Event::Started,
        Event::Finished,
        Event::Failed,
        Event::Reset,
        Event::Forgotten,
    ];

    fn all() -> Vec<Machine> {
        let mut seen = vec![Machine::UNCLAIMED];
        let mut next = 0;
        while let Some(machine) = seen.get(next).copied() {
            next += 1;
            for state in EVENTS.into_iter().filter_map(|e| machine.step(e).ok()) {
                if !seen.contains(&state) {
                    seen.push(state);
                }
            }
        }
        seen
    }

    #[test]
    fn no_node_is_both_unclaimed_and_in_a_cluster() {
        let all = all();
        assert_eq!(all.len(), 7, "{all:?}");
        for machine in all {
            assert!(machine.is_claimed() || machine.membership() == Membership::None, "{machine:?}");
            let complete = machine.hold() == Hold::Released;
            assert_eq!(
                Machine::booted(machine.is_claimed(), complete, machine.membership()).map(|m| m.is_claimed()),
                Ok(machine.is_claimed()),
                "every state is one that a boot can find"
            );
        }
        for membership in [Membership::Building, Membership::Member, Membership::Leaving] {
            assert_eq!(Machine::booted(false, true, membership), Err(Misfit::Unclaimed));
        }
    }

    #[test]
    fn the_only_way_back_to_unclaimed_leads_out_of_the_cluster() {
        for machine in all() {
            for event in EVENTS {
                if machine.is_claimed() && machine.step(event) == Ok(Machine::UNCLAIMED) {
                    assert_eq!((machine.membership(), event), (Membership::Leaving, Event::Forgotten));
                }
            }
        }
    }

    #[test]
    fn a_whole_life_and_a_claim_without_a_document() {
        let life = [
            Event::Claimed { complete: false },
            Event::Described,
            Event::Started,
            Event::Failed,
            Event::Described,
            Event::Started,
            Event::Finished,
            Event::Reset,
            Event::Reset,
            Event::Forgotten,
        ];
        let end = life.into_iter().try_fold(Machine::UNCLAIMED, Machine::step);
        assert_eq!(end, Ok(Machine::UNCLAIMED));
        let waiting =
            Machine::UNCLAIMED.step(Event::Claimed { complete: false }).and_then(|m| m.step(Event::Started));
        assert_eq!(waiting, Err(Misfit::AwaitsDocument));
    }

    #[test]
    fn a_misfit_says_why() {
        let member = Machine::booted(true, true, Membership::Member);
        let unclaimed = Machine::UNCLAIMED;
        assert_eq!(member.and_then(|m| m.step(Event::Described)), Err(Misfit::Bootstrapped));
        assert_eq!(
            member.and_then(|m| m.step(Event::Claimed { complete: true })),
            Err(Misfit::AlreadyClaimed)
        );
        assert_eq!(member.and_then(|m| m.step(Event::Forgotten)), Err(Misfit::NotLeaving));
        assert_eq!(unclaimed.step(Event::Described), Err(Misfit::Unclaimed));
        assert_eq!(unclaimed.step(Event::Started), Err(Misfit::Unclaimed));
    }
}
