//! Every relative link in our Markdown leads to a file that is there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::run::root;

/// Fails with every dead link named.
pub(crate) fn check() -> Result<()> {
    let root = root()?;
    let mut pages = Vec::new();
    collect(&root, &mut pages)?;
    let mut dead = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            // Code is not text: a regular expression may look like a link.
            if fenced || line.starts_with("    ") {
                continue;
            }
            for target in targets(&without_code(line)) {
                let dir = page.parent().unwrap_or(&root);
                if !dir.join(target).exists() {
                    dead.push(format!("{}:{}: {target}", page.display(), number + 1));
                }
            }
        }
    }
    if dead.is_empty() {
        println!("links of {} pages hold", pages.len());
        return Ok(());
    }
    bail!("links that lead nowhere:\n  {}", dead.join("\n  "))
}

fn collect(dir: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                collect(&path, pages)?;
            }
        } else if name.ends_with(".md") {
            pages.push(path);
        }
    }
    Ok(())
}

/// A line without its `code`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The relative targets of `[text](target)` in a line, without their fragment.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        let file = target.split('#').next()?;
        let outside = target.contains("://") || target.starts_with("mailto:") || file.is_empty();
        (!outside && !file.contains(' ')).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::{targets, without_code};

    #[test]
    fn code_is_no_link() {
        let line = without_code("`[a](b)` and [`c`](d.md) and `x");
        assert_eq!(targets(&line).collect::<Vec<_>>(), ["d.md"]);
    }

    #[test]
    fn relative_targets_only() {
        let line = "see [a](b.md#x), [c](https://example.org/d), [e](#f) and [g](../h.md)";
        assert_eq!(targets(line).collect::<Vec<_>>(), ["b.md", "../h.md"]);
    }
}
