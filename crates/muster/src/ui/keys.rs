//! Keys, as the dashboard knows them, and what each does, for the help.

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character as it was typed.
    Char(char),
    /// A letter with Ctrl held.
    Ctrl(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Backspace.
    Backspace,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
}

/// The help: keys, and what they do. An empty key begins a part.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("", "Everywhere"),
    ("↑ ↓ j k", "up and down; PgUp PgDn Ctrl-B Ctrl-F a page, Home End g G to the ends"),
    ("Enter", "open"),
    ("Esc", "back; takes a filter away first"),
    ("/", "filter: what is typed must be in the line; Enter keeps it"),
    ("r", "ask again, now"),
    ("?", "this help"),
    ("q Ctrl-C", "quit"),
    ("Ctrl-Z", "suspend"),
    ("", "A node"),
    ("← → h l Tab", "its parts: status, services, journal, audit; also 1 2 3 4"),
    ("", "Journal"),
    ("Space", "pause, and go on"),
    ("w", "wrap long lines"),
    ("a K", "of all services again, after Enter on one of them; the kernel's"),
    ("", "What changes the node"),
    ("R", "restart the service under the cursor (operator)"),
    ("C U", "cordon, uncordon (operator)"),
    ("D", "drain (operator); its name is typed"),
    ("B", "reboot (admin); its name is typed"),
    ("S", "shut down (admin); its name is typed"),
    ("", "Only by command"),
    ("claim, pin", "muster node claim, muster node pin"),
    ("upgrade", "muster node upgrade: several nodes, one at a time"),
    ("apply, reset", "muster node apply, muster node reset"),
    ("keys", "muster node ssh-key, muster pki"),
    ("cluster", "muster node kubeconfig, join-token, etcd"),
    ("audit", "muster audit verify: the whole record, and what was seen of it"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_are_those_of_the_table_of_operations() {
        use muster_core::Operation as O;
        let all = [
            ("R", O::ServiceRestart),
            ("C U", O::Cordon),
            ("C U", O::Uncordon),
            ("D", O::Drain),
            ("B", O::Reboot),
            ("S", O::Shutdown),
        ];
        for (key, operation) in all {
            let (_, what) = HELP.iter().find(|(k, _)| *k == key).unwrap();
            let role = operation.row().role.as_str();
            assert!(what.contains(&format!("({role})")), "{key}: {role}");
        }
    }

    #[test]
    fn the_page_has_every_key_of_the_help() {
        let page = include_str!("../../../../docs/ui.md");
        for (key, what) in HELP {
            let row =
                if key.is_empty() { format!("| **{what}** | |") } else { format!("| {key} | {what} |") };
            assert!(page.lines().any(|l| l == row), "{row}");
        }
        let rows = page.lines().filter(|l| l.starts_with("| ")).count();
        assert_eq!(rows, HELP.len() + 1, "and no other");
    }
}
