//! Completions, from the one definition of the command line.

use crate::args::Cli;
use crate::exit::Exit;
use crate::fault::Outcome;
use crate::printer::Printer;
use clap::CommandFactory;

/// Writes a completion script to stdout.
pub fn completion(shell: clap_complete::Shell, printer: &mut Printer) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "muster", &mut text);
    printer.raw(&text);
    Ok(Exit::Ok)
}
