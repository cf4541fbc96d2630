//! `docs/what-it-touches.md` is what the units, the package and the sources say. Written with MUSTER_WRITE_TOUCHES=1.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use muster_testbed::surface::{
    EXPOSURE, Needs, OFF, Service, TOUCHED, UNCONFINED, is_ordinary, section, services, setting, units,
};

use crate::{files, root};

const PAGE: &str = "docs/what-it-touches.md";
/// Where a text that begins with one of these is a path of the machine's.
const ROOTS: &[&str] =
    &["usr", "etc", "proc", "sys", "run", "var", "dev", "lib", "bin", "boot", "root", "home", "tmp"];

/// Sources whose texts are looked at, without the tests at their end.
fn sources() -> Vec<(PathBuf, String)> {
    let mut out = Vec::new();
    for name in ["musterd", "muster-document"] {
        for path in files(&root().join("crates").join(name).join("src"), ".rs") {
            let shown = path.display().to_string();
            if shown.contains("test") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("source");
            let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            out.push((path, shipped));
        }
    }
    assert!(out.len() > 50, "sources were not found");
    out
}

/// The texts of a source that are paths of the machine.
fn paths(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|l| !l.trim_start().starts_with("//"));
    let texts = lines.flat_map(|l| l.split('"').skip(1).step_by(2));
    let is_path = |text: &&str| {
        let parts: Vec<&str> = text.split('/').collect();
        text.starts_with('/')
            && parts.len() > 2
            && ROOTS.contains(&parts[1])
            && !text.contains(|c: char| c.is_whitespace() || "{}*,:".contains(c))
    };
    texts.filter(is_path).map(str::to_owned).collect()
}

/// The constants of `places.rs` that are paths: what is said of them, and they.
fn places() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("crates/musterd/src/places.rs")).expect("places.rs");
    let (mut said, mut out) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(doc) = line.strip_prefix("/// ") {
            if !said.is_empty() {
                said.push(' ');
            }
            said.push_str(doc);
            continue;
        }
        let path = line.strip_prefix("pub const ").and_then(|l| l.split('"').nth(1));
        if let Some(path) = path.filter(|p| p.starts_with('/')) {
            out.push((said.clone(), path.to_owned()));
        }
        said.clear();
    }
    assert!(out.len() > 8, "places.rs was not read");
    out
}

#[test]
fn every_path_in_the_daemons_sources_has_a_row_and_every_row_a_source() {
    let of_places: Vec<String> = places().into_iter().map(|(_, path)| path).collect();
    let mut all = String::new();
    for (file, text) in sources() {
        for path in paths(&text) {
            let known = of_places.contains(&path) || TOUCHED.iter().any(|t| t.path == path);
            assert!(known, "{}: `{path}` is in no row of muster_testbed::surface::TOUCHED", file.display());
        }
        all.push_str(&text);
    }
    for path in files(&root().join("crates/muster-sys/src"), ".rs") {
        all.push_str(&fs::read_to_string(path).expect("source"));
    }
    for row in TOUCHED {
        assert!(all.contains(row.path.trim_start_matches('/')), "`{}` is in no source", row.path);
    }
}

#[test]
fn paths_are_found_in_texts_and_nowhere_else() {
    let source = "// \"/etc/no\"\nlet a = \"/etc/yes\"; let b = (\"/v1/node\", \"/usr/bin/a b\", \"/\", \"/var/{x}\", \"/run/x\");";
    assert_eq!(paths(source), ["/etc/yes", "/run/x"]);
}

fn accounts(page: &mut String) {
    page.push_str("## Accounts\n\n| account | what for |\n|---|---|\n");
    let text = fs::read_to_string(units().join("muster.sysusers.conf")).expect("sysusers");
    for line in text.lines().filter(|l| l.starts_with("u ")) {
        let name = line.split_whitespace().nth(1).unwrap_or_default();
        let what = line.split('"').nth(1).unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {what}; no home, no shell |");
    }
    page.push_str("| `root` | the core, the bootstrap |\n\n");
}

fn sockets(page: &mut String) {
    page.push_str("## Sockets\n\n| socket | owner | mode | unit |\n|---|---|---|---|\n");
    for file in files(&units(), ".socket") {
        let text = fs::read_to_string(&file).expect("unit");
        let lines = section(&text, "Socket");
        let value = |key: &str| {
            let line = lines.iter().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().to_owned()
        };
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let _ = writeln!(
            page,
            "| `{}` | `{}:{}` | {} | `{name}` |",
            value("ListenStream"),
            value("SocketUser"),
            value("SocketGroup"),
            value("SocketMode")
        );
    }
    page.push_str(
        "| TCP port 7443, or what `api.listen` says | | | `musterd-edge.service`, only where the node's document wants the API, or it has \
         an owner and no document |\n\n`muster-fetch@.service` connects to the servers that a document names by a URL, at the core's word. Nothing else connects to \
         anything over the network.\n\n",
    );
}

fn package(page: &mut String) {
    page.push_str("## Files of the package\n\n| file | |\n|---|---|\n| `/usr/bin/musterd` | the program of all units |\n");
    for (path, _) in muster_testbed::musterd_files().expect("the package") {
        let _ = writeln!(page, "| `{path}` | |");
    }
    for (link, to) in muster_testbed::MUSTERD_LINKS {
        let _ = writeln!(page, "| `{link}` | a link to `{to}` |");
    }
    page.push_str(
        "| `/usr/share/man/man8/musterd*.8.gz`, and `musterd` in the folders of three shells' completions | the manual, completions |\n",
    );
    let tmpfiles = fs::read_to_string(units().join("muster.tmpfiles.conf")).expect("tmpfiles");
    for line in tmpfiles.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["d", path, mode, user, group, ..] = words[..] {
            let _ = writeln!(page, "| `{path}` | a folder, made at each boot: {mode} {user}:{group} |");
        }
    }
    page.push_str(
        "| `/etc/muster`, `/var/lib/muster` | folders, made by the package, kept when it is removed |\n\n",
    );
}

fn paths_of(page: &mut String) {
    page.push_str("## Its own state\n\nThe core's, but for what the bootstrap writes; the edge opens none of it.\n\n| path | what |\n|---|---|\n");
    for (said, path) in places() {
        let _ = writeln!(page, "| `{path}` | {} |", said.trim_end_matches('.'));
    }
    for (head, runs) in
        [("## What is the machine's", false), ("## Programs of the machine that it runs", true)]
    {
        let _ = write!(page, "\n{head}\n\n| path | who | |\n|---|---|---|\n");
        for row in TOUCHED.iter().filter(|t| (t.how == "runs") == runs) {
            let how = if runs { String::new() } else { format!("{}: ", row.how) };
            let _ = writeln!(page, "| `{}` | {} | {how}{} |", row.path, row.who, row.what);
        }
    }
    page.push_str(
        "\nThe edge opens none of these files and runs nothing; it has one socket to the core.\n\n",
    );
}

fn needed(needs: Needs) -> String {
    let what = match needs {
        Needs::Controller(name) => format!("the `{name}` controller of version 2 of control groups"),
        Needs::Bpf => "BPF at control groups".to_owned(),
        Needs::Resource => "CAP_SYS_RESOURCE".to_owned(),
    };
    format!("needs {what}, and is passed over on nodes of tests that have none")
}

/// The units that are confined, and what they are called in a table.
fn confined(all: &[Service]) -> Vec<(&Service, String)> {
    let confined = all.iter().filter(|s| !UNCONFINED.iter().any(|(name, _)| *name == s.name));
    confined.map(|s| (s, short(&s.name).to_owned())).collect()
}

/// `core` of `musterd-core.service`.
fn short(unit: &str) -> &str {
    let name = unit.split(['.', '@']).next().unwrap_or_default();
    name.rsplit('-').next().unwrap_or_default()
}

fn sandbox(page: &mut String) {
    let all = services().expect("units");
    let units = confined(&all);
    let heads: Vec<&str> = units.iter().map(|(_, short)| short.as_str()).collect();
    let _ = write!(
        page,
        "## What the units take away\n\nEach line is tried on a real node (`s17_each_line_of_the_units_takes_away_what_it_says`): what it \
         forbids works in a unit without it and fails in one with it. Then each unit is tried whole \
         (`s17_each_unit_whole_lets_nothing_of_it`).\n\n| line | {} | what it does | tried by |\n|{}\n",
        heads.join(" | "),
        "---|".repeat(heads.len() + 3)
    );
    let mut seen: Vec<&str> = Vec::new();
    for line in units.iter().flat_map(|(s, _)| &s.lines).filter(|l| !is_ordinary(l)) {
        if seen.contains(&line.as_str()) {
            continue;
        }
        seen.push(line);
        let row = setting(line).expect("a row for each line");
        let set: Vec<&str> = units.iter().map(|(s, _)| if s.has(line) { "yes" } else { "" }).collect();
        let tried: Vec<&str> = row.attempts.iter().chain(row.after).map(|(name, ..)| *name).collect();
        let needs = row.needs.map_or_else(String::new, |n| format!("; {}", needed(n)));
        let _ =
            writeln!(page, "| `{line}` | {} | {} | {}{needs} |", set.join(" | "), row.does, tried.join(", "));
    }
    for (name, why) in UNCONFINED {
        let _ = writeln!(page, "\n`{name}` is not confined: {why}.");
    }
}

fn off(page: &mut String) {
    page.push_str("\n## What is not taken away, and why\n\n`systemd-analyze security` (252) says in all, where 0 is best and 10 worst: ");
    let all: Vec<String> = EXPOSURE.iter().map(|(unit, e)| format!("`{unit}` {e}")).collect();
    let _ = writeln!(page, "{}. What it misses:\n\n| unit | setting | why |\n|---|---|---|", all.join(", "));
    for row in OFF {
        // A bar would end the cell.
        let _ = writeln!(page, "| {} | `{}` | {} |", short(row.unit), row.name.replace('|', "\\|"), row.why);
    }
}

/// What no table says.
const START: &str = "# What the daemon touches\n\nAll that `musterd` reads, writes, runs and listens at, and what its units keep from \
    it. Made from the units, the package and the sources by `cargo test -p xtask --test house touches` with `MUSTER_WRITE_TOUCHES=1`; the same test \
    fails where this page says something else.\n\n";

const POLICIES: &str = "\n## SELinux and AppArmor\n\nNeither a policy of SELinux nor a profile of AppArmor is shipped. Where AppArmor is on (Debian, Ubuntu), \
    a program without a profile is not confined by it, and the units' sandbox is what there is. On an enforcing host of Red Hat's family the two halves run in whatever domain \
    its policy gives a service that it does not know (`unconfined_service_t`), so that SELinux does not stand between edge and core either; what systemd, sshd and \
    `bootc` do there has their own domains. One label is set, by the core itself, when a key is written and at each of its starts: folder and files of the keys that the API \
    lets in carry `ssh_home_t`, or sshd could not read them. A relabelling (`restorecon`) takes it away until the next start. That it is set was tried on kernels without SELinux, \
    which take the attribute from root. None of this was run on an \
    enforcing host; who has one should look for `avc:  denied` after the first claim, the first key and the first reset.\n";

#[test]
fn the_page_of_what_it_touches_is_what_units_package_and_sources_say() {
    let mut page = START.to_owned();
    accounts(&mut page);
    sockets(&mut page);
    package(&mut page);
    paths_of(&mut page);
    sandbox(&mut page);
    off(&mut page);
    page.push_str(POLICIES);
    let at = root().join(PAGE);
    if std::env::var_os("MUSTER_WRITE_TOUCHES").is_some() {
        fs::write(&at, &page).expect(PAGE);
    }
    let have = fs::read_to_string(&at).unwrap_or_default();
    assert!(have == page, "{PAGE} is another: run this test with MUSTER_WRITE_TOUCHES=1");
}
