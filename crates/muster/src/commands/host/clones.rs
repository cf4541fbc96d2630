//! One host key under two names: what clones of one image have in common (S11).

use crate::printer::{Printer, clean};
use std::collections::BTreeMap;

/// Warns of hosts that proved one key. `seen` is a host's name and the fingerprint that it presented.
pub fn warn<'s>(seen: impl IntoIterator<Item = (&'s str, &'s str)>, printer: &mut Printer) {
    for (key, hosts) in shared(seen) {
        printer.warn(&clean(&format!(
            "{} prove one host key, {key}: clones of one image? Who controls one can answer for the others",
            hosts.join(" and ")
        )));
    }
}

fn shared<'s>(seen: impl IntoIterator<Item = (&'s str, &'s str)>) -> Vec<(&'s str, Vec<&'s str>)> {
    let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, key) in seen {
        keys.entry(key).or_default().push(host);
    }
    keys.into_iter().filter(|(_, hosts)| hosts.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s11_one_key_under_two_names_is_told() {
        assert_eq!(shared([("a", "k1"), ("b", "k2"), ("c", "k1")]), [("k1", vec!["a", "c"])]);
        assert!(shared([("a", "k1"), ("b", "k2")]).is_empty());
    }
}
