//! The pages: one for each command that is not hidden, and one for the shim, which has no command line.

use anyhow::Result;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use muster::exit::Exit;

use crate::markdown::{body, list, section, table};

/// One page.
pub(crate) struct Page {
    /// Without the section.
    pub(crate) name: String,
    /// 1 for operators' commands, 8 for those of root on a machine (hier(7)).
    pub(crate) section: u8,
    /// man(7).
    pub(crate) text: String,
}

const CLI: &str = include_str!("../../../docs/cli.md");
const SHIM: &str = include_str!("../../../docs/shim.md");
const TOUCHES: &str = include_str!("../../../docs/what-it-touches.md");
const SOURCE: &str = concat!("Muster ", env!("CARGO_PKG_VERSION"));
const MANUAL: &str = "Muster";

/// A program: its commands, and what stands at the end of each of their pages.
struct Program {
    section: u8,
    command: Command,
    end: Roff,
    see: &'static [(&'static str, u8)],
}

/// Every page.
pub(crate) fn all() -> Result<Vec<Page>> {
    let mut out = vec![shim()?];
    for program in [operators()?, daemon()?] {
        let mut root = program.command.clone().disable_help_subcommand(true);
        root.build();
        let mut left = vec![(root.get_name().to_owned(), root)];
        while let Some((name, command)) = left.pop() {
            out.push(page(&program, &name, &command)?);
            for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
                left.push((format!("{name}-{}", sub.get_name()), sub.clone()));
            }
        }
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(out)
}

fn operators() -> Result<Program> {
    let mut end = Roff::default();
    exits(&mut end, Exit::ALL.iter().map(|e| (e.code(), e.meaning())));
    for (title, heading) in [("ENVIRONMENT", "Environment"), ("FILES", "Files")] {
        end.control("SH", [title]);
        list(&mut end, &table(section(CLI, heading)?)?);
    }
    let see = &[("muster", 1), ("musterd", 8), ("muster-shim", 8)];
    Ok(Program { section: 1, command: muster::args::Cli::command(), end, see })
}

fn daemon() -> Result<Program> {
    let mut end = Roff::default();
    exits(&mut end, musterd::line::EXITS.iter().copied());
    end.control("SH", ["FILES"]);
    list(&mut end, &table(section(TOUCHES, "Its own state")?)?);
    Ok(Program {
        section: 8,
        command: musterd::line::Line::command(),
        end,
        see: &[("musterd", 8), ("muster", 1)],
    })
}

fn exits(roff: &mut Roff, codes: impl Iterator<Item = (u8, &'static str)>) {
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in codes {
        roff.control("TP", []);
        roff.text([bold(code.to_string())]);
        roff.text([roman(meaning)]);
    }
}

fn page(program: &Program, name: &str, command: &Command) -> Result<Page> {
    let mut text = Vec::new();
    let section = program.section;
    let man = Man::new(command.clone()).title(name.to_uppercase()).section(section.to_string());
    man.source(SOURCE).manual(MANUAL).render(&mut text)?;
    let mut text = String::from_utf8(text)?;
    // Exit codes have a section of their own, and the version stands in the foot of each page.
    for heading in ["EXTRA", "VERSION"] {
        text = without(&text, heading);
    }
    let end = tail(&program.end);
    // It stands in for another program, and ends as that does.
    let end = if name == "muster-ssh-keygen" { as_ssh_keygen(&end) } else { end };
    text.push_str(&end);
    let mut see = Roff::default();
    see.control("SH", ["SEE ALSO"]);
    let mut others: Vec<(String, u8)> = program.see.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect();
    if let Some((parent, _)) = name.rsplit_once('-').filter(|(p, _)| p.contains('-')) {
        others.insert(0, (parent.to_owned(), section));
    }
    others.retain(|(other, _)| other != name);
    references(&mut see, &others);
    text.push_str(&tail(&see));
    Ok(Page { name: name.to_owned(), section, text })
}

fn as_ssh_keygen(end: &str) -> String {
    let mut own = Roff::default();
    own.control("SH", ["EXIT STATUS"]);
    own.text([roman("That of "), bold("ssh-keygen"), roman("(1), also where it is answered here.")]);
    tail(&own) + &without(end, "\"EXIT STATUS\"")
}

/// What is put at the end of a page, without the preamble that the page has.
fn tail(roff: &Roff) -> String {
    let text = roff.render();
    text.find(".SH ").and_then(|at| text.get(at..)).unwrap_or_default().to_owned()
}

fn references(roff: &mut Roff, pages: &[(String, u8)]) {
    let mut line = Vec::new();
    for (name, section) in pages {
        let comma = if line.is_empty() { "" } else { ", " };
        line.extend([roman(comma), bold(name.as_str()), roman(format!("({section})"))]);
    }
    roff.text(line);
}

/// A page without one of its sections.
fn without(page: &str, heading: &str) -> String {
    let Some((before, rest)) = page.split_once(&format!(".SH {heading}\n")) else { return page.to_owned() };
    rest.split_once(".SH ").map_or_else(|| before.to_owned(), |(_, after)| format!("{before}.SH {after}"))
}

fn shim() -> Result<Page> {
    let name = "muster-shim";
    let mut roff = Roff::default();
    roff.control("TH", ["MUSTER-SHIM", "8", "", SOURCE, MANUAL]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("muster-shim - runs as root what a trusted key vouched for, and nothing else")]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold("muster-shim")]);
    roff.control("br", []);
    roff.text([bold("kpssh-shim")]);
    for (title, heading) in [
        ("DESCRIPTION", ""),
        ("EXIT STATUS", "Exit codes"),
        ("ENVIRONMENT", "What the script gets"),
        ("HOW A RUN ENDS", "How a run ends"),
        ("FILES", "Files"),
        ("SHIM.TOML", "shim.toml"),
    ] {
        roff.control("SH", [title]);
        body(&mut roff, section(SHIM, heading)?)?;
    }
    roff.control("SH", ["SEE ALSO"]);
    let others = [("muster", 1), ("sshd", 8), ("sshd_config", 5), ("sudoers", 5)];
    references(&mut roff, &others.map(|(n, s)| (n.to_owned(), s)));
    Ok(Page { name: name.to_owned(), section: 8, text: roff.render() })
}
