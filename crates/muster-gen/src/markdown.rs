//! What of the documentation's Markdown goes into a manual: paragraphs, indented code and tables, in the spelling of `docs/`.

use anyhow::{Context as _, Result, ensure};
use clap_mangen::roff::{Inline, Roff, bold, roman};

/// The text below a heading, without it, up to the next one of any level; the head of the page where the heading is empty.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> Result<&'a str> {
    let mut parts = page.split("\n#");
    let found = if heading.is_empty() {
        parts.next()
    } else {
        parts.find(|p| {
            p.split_once('\n').is_some_and(|(head, _)| head.trim_start_matches('#').trim() == heading)
        })
    };
    let found = found.with_context(|| format!("no heading {heading:?}"))?;
    Ok(found.split_once('\n').map_or("", |(_, text)| text))
}

/// The rows of the first table of a text, without its head.
pub(crate) fn table(text: &str) -> Result<Vec<Vec<String>>> {
    let mut lines = text.lines().skip_while(|l| !l.starts_with('|')).take_while(|l| l.starts_with('|'));
    let rule = (lines.next(), lines.next()).1.context("no table")?;
    ensure!(rule.starts_with("|---"), "a table begins with its head and a rule, not {rule:?}");
    Ok(lines.map(cells).collect())
}

fn cells(row: &str) -> Vec<String> {
    row.trim().trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect()
}

/// A table as a list: the first cell of each row, and under it the others.
pub(crate) fn list(roff: &mut Roff, rows: &[Vec<String>]) {
    for row in rows {
        let Some((head, rest)) = row.split_first() else { continue };
        roff.control("TP", []);
        roff.text([bold(plain(head))]);
        let rest: Vec<String> = rest.iter().filter(|c| !c.is_empty()).map(|c| plain(c)).collect();
        roff.text([roman(rest.join("; "))]);
    }
}

/// Paragraphs, code and tables in their order.
pub(crate) fn body(roff: &mut Roff, text: &str) -> Result<()> {
    for block in text.split("\n\n").map(|b| b.trim_matches('\n')).filter(|b| !b.is_empty()) {
        if block.starts_with('|') {
            list(roff, &table(block)?);
        } else if block.starts_with("    ") {
            roff.control("PP", []);
            roff.control("nf", []);
            for line in block.lines() {
                roff.text([roman(line)]);
            }
            roff.control("fi", []);
        } else {
            roff.control("PP", []);
            for line in block.lines() {
                roff.text(words(line));
            }
        }
    }
    Ok(())
}

/// A line with its code in bold.
fn words(line: &str) -> Vec<Inline> {
    let parts = line.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { bold(part) } else { roman(plain(part)) }).collect()
}

/// Without marks of code, of weight and of links.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut left = text;
    while let Some((before, rest)) = left.split_once('[') {
        match rest.split_once("](").and_then(|(name, to)| Some((name, to.split_once(')')?.1))) {
            Some((name, after)) => {
                out.push_str(before);
                out.push_str(name);
                left = after;
            }
            None => {
                out.push_str(before);
                out.push('[');
                left = rest;
            }
        }
    }
    out.push_str(left);
    out.replace(['`'], "").replace("**", "")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_section_ends_at_the_next_heading() {
        let page = "# A\n\nhead\n\n## B\n\nb\n\n### C\n\nc\n";
        assert_eq!(section(page, "").unwrap().trim(), "head");
        assert_eq!(section(page, "B").unwrap().trim(), "b");
        assert_eq!(section(page, "C").unwrap().trim(), "c");
        assert!(section(page, "D").is_err());
    }

    #[test]
    fn marks_do_not_reach_the_manual() {
        assert_eq!(plain("**Not** a [sand`box`](x.md), [x] `y`"), "Not a sandbox, [x] y");
        assert_eq!(table("t\n\n| a | b |\n|---|---|\n| `1` | x |\n\nrest").unwrap(), [["`1`", "x"]]);
        assert!(table("| a |\n| b |\n").is_err() && table("no").is_err());
    }

    #[test]
    fn a_line_that_begins_with_a_dot_is_no_request() {
        let mut roff = Roff::default();
        body(&mut roff, "    .de x\n    'so y\n").unwrap();
        let text = roff.render();
        assert!(!text.lines().any(|l| l.starts_with(".de") || l.starts_with("'so")), "{text}");
    }
}
