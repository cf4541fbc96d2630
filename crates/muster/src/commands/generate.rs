//! Completions and man pages, from the one definition of the command line.

use crate::args::Cli;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::files;
use crate::printer::Printer;
use clap::CommandFactory;
use std::path::Path;

/// Writes a completion script to stdout.
pub fn completion(shell: clap_complete::Shell, printer: &mut Printer) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "muster", &mut text);
    printer.raw(&text);
    Ok(Exit::Ok)
}

/// Writes one man page a command into a folder.
pub fn man(folder: &Path, printer: &mut Printer) -> Outcome {
    files::make_folder(folder, 0o755)?;
    let mut root = Cli::command();
    root.build();
    let mut left = vec![("muster".to_owned(), root)];
    while let Some((name, command)) = left.pop() {
        let mut text = Vec::new();
        let page = clap_mangen::Man::new(command.clone().name(leak(&name))).title(name.to_uppercase());
        page.render(&mut text).map_err(|e| Fault::io(folder, "write", &e))?;
        let file = folder.join(format!("{name}.1"));
        files::replace(&file, &text, 0o644)?;
        printer.talk(&format!("wrote {}", file.display()));
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            left.push((format!("{name}-{}", sub.get_name()), sub.clone()));
        }
    }
    Ok(Exit::Ok)
}

/// clap wants names that live for ever; there are as many as commands.
fn leak(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}
