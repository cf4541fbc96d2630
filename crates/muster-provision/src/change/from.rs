//! `from=` lists: whether one lets in addresses that another kept out.
//!
//! PATTERNS of ssh_config(5): an address matches where it matches a pattern and none that begins with `!`.
//! Host names and wildcards, which are never written here, are only compared as text.

use std::net::IpAddr;

/// Whether `now` lets in what `was` did not. Empty is anywhere.
pub(super) fn is_wider(was: &[String], now: &[String]) -> bool {
    if was.is_empty() || now.is_empty() {
        return now.is_empty() && !was.is_empty();
    }
    let (was_in, was_out) = split(was);
    let (now_in, now_out) = split(now);
    let let_in = now_in.iter().any(|n| !was_in.iter().any(|w| covers(w, n)));
    let let_back = was_out.iter().any(|w| {
        let kept_out = now_out.iter().any(|n| covers(n, w));
        let touched = now_in.iter().any(|n| covers(n, w) || covers(w, n));
        !kept_out && touched
    });
    let_in || let_back
}

fn split(list: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (out, inn): (Vec<&str>, Vec<&str>) =
        list.iter().map(String::as_str).partition(|p| p.starts_with('!'));
    (inn, out.into_iter().map(|p| p.trim_start_matches('!')).collect())
}

/// Every address of `narrow` is one of `wide`. Text that is no network covers itself alone.
fn covers(wide: &str, narrow: &str) -> bool {
    if wide == narrow {
        return true;
    }
    let (Some((a, a_bits, a_four)), Some((b, b_bits, b_four))) = (net(wide), net(narrow)) else {
        return false;
    };
    let mask = if a_bits == 0 { 0 } else { u128::MAX << (128 - a_bits) };
    a_four == b_four && a_bits <= b_bits && a & mask == b & mask
}

/// Address at the high end, length of the prefix, whether it is IPv4.
fn net(text: &str) -> Option<(u128, u32, bool)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let (value, width, four) = match address.parse().ok()? {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32, true),
        IpAddr::V6(v6) => (u128::from(v6), 128, false),
    };
    let bits = match bits {
        Some(text) => text.parse().ok().filter(|n| *n <= width)?,
        None => width,
    };
    Some((value, bits, four))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_is_what_lets_more_in() {
        let list = |t: &str| t.split(' ').filter(|p| !p.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        for (was, now, wider) in [
            ("10.0.0.0/8", "", true),
            ("", "10.0.0.0/8", false),
            ("10.0.0.0/8", "10.1.0.0/16", false),
            ("10.1.0.0/16", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/8 192.0.2.1", true),
            ("10.0.0.0/8 192.0.2.1", "192.0.2.1", false),
            ("10.0.0.0/8 !10.9.0.0/16", "10.0.0.0/8", true),
            ("10.0.0.0/8 !10.9.0.0/16", "10.0.0.0/8 !10.8.0.0/15", false),
            ("10.0.0.0/8 !10.8.0.0/15", "10.0.0.0/8 !10.9.0.0/16", true),
            ("10.0.0.0/8 !10.9.0.0/16", "10.1.0.0/16", false),
            ("10.0.0.0/8 !10.9.0.0/16", "10.9.1.0/24", true),
            ("0.0.0.0/0", "::/0", true),
            ("fd00::/8", "fd00::1", false),
            ("0.0.0.0/0", "255.255.255.255", false),
            ("*.example.net", "*.example.net", false),
            ("*.example.net", "10.0.0.1", true),
        ] {
            assert_eq!(is_wider(&list(was), &list(now)), wider, "{was:?} -> {now:?}");
        }
    }
}
