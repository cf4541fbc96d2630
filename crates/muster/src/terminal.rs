//! Asking on the operator's terminal: yes or no, and passphrases without echo.
//!
//! The terminal is `/dev/tty`, never standard input, so that piped data is never taken for an answer. While a passphrase is typed,
//! signals from the keyboard are read as bytes: Ctrl-C then ends the question and the terminal is put back as it was.

use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use crate::secret::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Longest answer.
const MAX_ANSWER: usize = 4096;

fn terminal() -> Option<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty").ok()
}

/// Whether there is a terminal to ask on.
pub fn is_there() -> bool {
    terminal().is_some()
}

/// Asks a question that only `yes` or `y` answers with yes; `None` when there is nobody to ask.
pub fn confirm(question: &str) -> Option<bool> {
    let answer = ask(&format!("{question} [y/N]"))?.to_ascii_lowercase();
    Some(matches!(answer.as_str(), "y" | "yes"))
}

/// Asks for a line, which is seen while it is typed; `None` when there is nobody to ask.
pub fn ask(question: &str) -> Option<String> {
    let mut tty = terminal()?;
    tty.write_all(format!("{question} ").as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut byte = [0u8];
    while tty.read(&mut byte).ok()? == 1 && byte != *b"\n" && answer.len() < MAX_ANSWER {
        answer.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&answer).trim().to_owned())
}

/// The terminal without echo; put back when dropped.
struct Silent {
    tty: File,
    before: Termios,
}

impl Silent {
    fn new(tty: File) -> std::io::Result<Self> {
        let before = tcgetattr(&tty)?;
        let mut silent = before.clone();
        silent.local_modes &=
            !(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&tty, OptionalActions::Flush, &silent)?;
        Ok(Self { tty, before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
        let _ = self.tty.write_all(b"\n");
    }
}

/// Asks for a passphrase on the terminal.
pub fn passphrase(prompt: &str) -> Result<Secret, Fault> {
    let needed = || Fault::new(Own::PassphraseNeeded, format!("{prompt}: there is no terminal to ask on"));
    let tty = terminal().ok_or_else(needed)?;
    let io = |e: std::io::Error| {
        Fault::new(Own::PassphraseNeeded, format!("{prompt}: the terminal failed")).why(e.to_string())
    };
    // Silent before the question is seen, so that no answer is echoed or thrown away.
    let mut silent = Silent::new(tty).map_err(io)?;
    silent.tty.write_all(format!("{prompt}: ").as_bytes()).map_err(io)?;
    let mut typed = Zeroizing::new(Vec::with_capacity(MAX_ANSWER));
    let mut byte = [0u8];
    loop {
        if silent.tty.read(&mut byte).map_err(io)? == 0 {
            break;
        }
        match byte[0] {
            b'\n' | b'\r' | 0x04 => break,
            0x03 | 0x1c => {
                return Err(
                    Fault::new(Own::Interrupted, format!("{prompt}: interrupted")).fix("Nothing was done.")
                );
            }
            0x7f | 0x08 => {
                typed.pop();
            }
            0x15 => typed.clear(),
            b if typed.len() < MAX_ANSWER => typed.push(b),
            _ => {}
        }
    }
    Ok(Secret::new(typed.to_vec()))
}

/// Where passphrases come from: a file when one is named, else the terminal.
#[derive(Clone, Debug, Default)]
pub struct Passphrases {
    /// A file whose first line it is.
    pub file: Option<PathBuf>,
}

impl Passphrases {
    /// An existing key's passphrase.
    pub fn get(&self, prompt: &str) -> Result<Secret, Fault> {
        match &self.file {
            Some(file) => first_line(file),
            None => passphrase(prompt),
        }
    }

    /// A new key's passphrase: typed twice, not empty.
    pub fn choose(&self, prompt: &str) -> Result<Secret, Fault> {
        let secret = match &self.file {
            Some(file) => first_line(file)?,
            None => {
                let (one, two) = (passphrase(prompt)?, passphrase("Again")?);
                if one.expose() != two.expose() {
                    return Err(Fault::new(Own::Passphrase, "the two passphrases differ")
                        .fix("Type the same one twice."));
                }
                one
            }
        };
        if secret.expose().len() < 8 {
            let fix = "Use at least 8 characters, or --danger-no-passphrase for a key that something else protects.";
            return Err(Fault::new(Own::Passphrase, "the passphrase is shorter than 8 characters").fix(fix));
        }
        Ok(secret)
    }
}

/// The first line of a file, without its line end.
pub fn first_line(file: &Path) -> Result<Secret, Fault> {
    let bytes = Zeroizing::new(files::read(file, MAX_ANSWER)?);
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(Fault::new(Own::Passphrase, format!("{} begins with an empty line", file.display()))
            .fix("Write the passphrase on its first line."));
    }
    Ok(Secret::new(line.to_vec()))
}
