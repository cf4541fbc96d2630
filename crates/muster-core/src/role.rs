//! Who a client of a node is, as its certificate's O says.

use core::fmt;

/// What a certificate of the operator's authority lets its holder do. Each role may do all that the one below may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Look: state, services, journals.
    Readonly,
    /// Run the node day by day: restarts, staging an image, cordon, drain.
    Operator,
    /// All of it: what ends, hands over or re-owns a node.
    Admin,
}

impl Role {
    /// From the least to the most.
    pub const ALL: [Self; 3] = [Self::Readonly, Self::Operator, Self::Admin];

    /// The short word, for people and options.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Readonly => "readonly",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The organisation (O) that a certificate carries for it.
    #[must_use]
    pub const fn organisation(self) -> &'static str {
        match self {
            Self::Readonly => "muster:readonly",
            Self::Operator => "muster:operator",
            Self::Admin => "muster:admin",
        }
    }

    /// The role of a certificate with these organisations: the highest among those that are known, in any case of
    /// letters. `None` where none is: such a client may do nothing at all.
    #[must_use]
    pub fn of<'a>(organisations: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let known = |name: &str| Self::ALL.into_iter().find(|r| r.organisation().eq_ignore_ascii_case(name));
        organisations.into_iter().filter_map(known).max()
    }

    /// Reads the short word or the organisation, byte for byte.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == word || r.organisation() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.organisation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_role_counts_and_an_unknown_one_is_none() {
        for (organisations, role) in [
            (&[][..], None),
            (&["acme"], None),
            (&["readonly"], None),
            (&["muster:root"], None),
            (&["muster:readonly "], None),
            (&["muster:readonly"], Some(Role::Readonly)),
            (&["MUSTER:Operator"], Some(Role::Operator)),
            (&["acme", "muster:readonly", "muster:admin", "muster:operator"], Some(Role::Admin)),
        ] {
            assert_eq!(Role::of(organisations.iter().copied()), role, "{organisations:?}");
        }
    }

    #[test]
    fn each_role_may_do_what_the_one_below_may() {
        assert!(Role::Readonly < Role::Operator && Role::Operator < Role::Admin);
        for role in Role::ALL {
            assert_eq!(Role::from_word(role.as_str()), Some(role));
            assert_eq!(Role::from_word(role.organisation()), Some(role));
        }
        assert_eq!(Role::from_word("Admin"), None);
    }
}
