//! A test that cannot run is never passed in silence: it goes through `muster-needs`, which fails it under CI and puts it on
//! the list of `cargo xtask test` elsewhere.

use std::fs;

use crate::rust::{has_word, test_bodies};
use crate::{files, root};

/// What skipping by hand is made of, found in the text of a source.
fn by_hand(source: &str) -> Vec<String> {
    let signs = ["MUSTER_SKIP_LOG", "var_os(\"CI\")", "var(\"CI\")", "println!(\"skip", "println!(\"not run"];
    let lines = source.lines().filter(|line| signs.iter().any(|sign| line.contains(sign)));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Early ends of a test: `if … { return; }` and `let … else { return };` at the outermost level of a test, unless the
/// condition asks which of two processes this is, by an environment variable or by starting the test alone.
fn early_ends(source: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (name, body) in test_bodies(source) {
        for (condition, block) in blocks(&body) {
            let is_end = |s: &str| matches!(s.trim(), "return" | "return Ok(())");
            let ends = block.trim().trim_end_matches(';').rsplit([';', '}']).next().is_some_and(is_end);
            let process = condition.contains("env::var") || condition.contains("alone(");
            if ends && !process {
                out.push(format!("{name}: {}", condition.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
        }
    }
    out
}

/// The blocks at the outermost level of a body that stand behind `if` or `else`, each with what stands before it.
fn blocks(body: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut open, mut from) = (0, 0, 0);
    let mut out = Vec::new();
    for (at, c) in body.char_indices() {
        match c {
            '{' => {
                if depth == 0 {
                    open = at;
                }
                depth += 1;
            }
            '}' => {
                depth -= 1;
                if depth == 0 {
                    let before = body[from..open].trim();
                    if has_word(before, "if") || before.ends_with("else") {
                        out.push((before, &body[open + 1..at]));
                    }
                    from = at + 1;
                }
            }
            ';' if depth == 0 => from = at + 1,
            _ => {}
        }
    }
    out
}

#[test]
fn a_test_that_cannot_run_is_told() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for dir in ["crates", "xtask/src"] {
        for path in files(&root().join(dir), ".rs") {
            let source = fs::read_to_string(&path).expect("source");
            // The one place, and the one reader of its list.
            let own = path.ends_with("muster-needs/src/lib.rs") || path.ends_with("xtask/src/test.rs");
            let hand = if own { Vec::new() } else { by_hand(&source) };
            seen += test_bodies(&source).len();
            let found = hand.into_iter().chain(early_ends(&source));
            wrong.extend(found.map(|f| format!("{}: {f}", path.display())));
        }
    }
    assert!(seen > 100, "tests were not found");
    assert!(wrong.is_empty(), "use muster_needs::require!, skip or skip_part: {wrong:#?}");
}

#[test]
fn a_silent_skip_is_seen() {
    let source = "#[test]\nfn a() {\n if !tool(\"x\") {\n  return;\n }\n work();\n}\n\
        #[test]\nfn b() {\n let Some(t) = tool() else { return };\n if a { b(); } else { c() }\n}\n\
        #[tokio::test]\nasync fn c() -> R {\n if !std::path::Path::new(\"/x\").exists() { println!(\"no\"); return Ok(()); }\n Ok(())\n}\n\
        #[test]\nfn d() {\n if std::env::var_os(ALONE).is_none() { run(); return; }\n if !alone(\"d\") { return; }\n\
         for x in y { if x { return; } }\n let f = |x| { if x { return; } };\n muster_needs::require!(t());\n}\n\
        fn helper() { if x { return; } }\n";
    assert_eq!(
        early_ends(source),
        ["a: if !tool( )", "b: let Some(t) = tool() else", "c: if !std::path::Path::new( ).exists()"]
    );
    let ci = "assert!(std::env::var_os(\"CI\").is_none());\neprintln!(\"skipped: no git\");\nprintln!(\"skipping\");\nlet a = \"skipped\";";
    assert_eq!(by_hand(ci).len(), 3);
}
