//! One host key under two names: what clones of one image have in common (S11).

use crate::printer::{Printer, clean};
use std::collections::BTreeMap;

/// Warns of hosts that proved one key. `seen` is a host's name and the fingerprint that it presented.
pub fn warn<'s>(seen: impl IntoIterator<Item = (&'s str, &'s str)>, printer: &mut Printer) {
    for (key, hosts) in shared(seen) {
        printer.warn(&clean(&format!(
            "{} prove one host key, {key}: clones of one image? Who controls one can answer for the others",
            few(&hosts).join(" and ")
        )));
    }
}

/// The first of them, and how many there are besides: a line must stay one.
pub fn few(names: &[impl ToString]) -> Vec<String> {
    const SHOWN: usize = 4;
    let mut out: Vec<String> = names.iter().take(SHOWN).map(ToString::to_string).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => {}
        1 => out.extend(names.last().map(ToString::to_string)),
        more => out.push(format!("{more} more")),
    }
    out
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
    fn many_names_stay_a_line() {
        assert_eq!(few(&["a", "b"]), ["a", "b"]);
        assert_eq!(few(&["a", "b", "c", "d", "e"]), ["a", "b", "c", "d", "e"]);
        assert_eq!(few(&["a", "b", "c", "d", "e", "f"]), ["a", "b", "c", "d", "2 more"]);
    }

    #[test]
    fn s11_one_key_under_two_names_is_told() {
        assert_eq!(shared([("a", "k1"), ("b", "k2"), ("c", "k1")]), [("k1", vec!["a", "c"])]);
        assert!(shared([("a", "k1"), ("b", "k2")]).is_empty());
    }
}
