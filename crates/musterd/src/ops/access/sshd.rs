//! Whether sshd looks where the API's keys are, and making it.
//!
//! sshd_config(5): of a keyword outside of Match blocks the first value counts, and files of `sshd_config.d` are read first where the
//! distribution's own file includes them. So our file there repeats what sshd looks at already and adds the folder. What sshd really
//! does for an account is asked of sshd itself (`sshd -T -C`), before and after.
//!
//! The file is written by a unit of its own (systemd-run(1)): the core may not write to `/etc/ssh`. It is written once, at the
//! first key, and taken away by a reset.

use std::time::Duration;

use muster_api::Fault;
use muster_sys::command::Command;

use super::super::tools;
use crate::places::{self, Places};

/// Ours; after the one of `muster host provision`, whose Match block is for another account.
const DROP_IN: &str = "/etc/ssh/sshd_config.d/10-muster-api.conf";
const SSHD: &str = "/usr/sbin/sshd";
/// Nobody's name, so that no Match block for users is met.
const NOBODY: &str = "muster-nobody";

/// Makes sure that sshd looks there for this account.
///
/// # Errors
/// There is no sshd, or it does not, whatever we do: 409, with what to do.
pub(super) fn looks_there(places: &Places, user: &str) -> Result<(), Fault> {
    if !places.at(SSHD).is_file() {
        return Err(Fault::state("no-sshd", "the node has no OpenSSH server"));
    }
    let ours = format!("{}/%u", places.at(places::SSH_KEYS).display());
    let has = |files: &[String]| files.contains(&ours);
    if has(&files_of(places, user)?) {
        return Ok(());
    }
    let usual = files_of(places, NOBODY)?;
    if !has(&usual) {
        // `none` stands for no file at all, and beside another it is no file.
        let mut files: Vec<_> = usual.into_iter().filter(|f| f != "none").collect();
        files.push(ours.clone());
        let text = format!(
            "# Written by musterd when the first SSH key was let in through its API; taken away by a reset.\n\
             AuthorizedKeysFile {}\n",
            files.join(" ")
        );
        write(places, &text)?;
    }
    if has(&files_of(places, user)?) {
        return Ok(());
    }
    Err(Fault::state("sshd", "sshd does not look for keys of this account where this API keeps them").fix(format!(
        "Let its sshd_config include /etc/ssh/sshd_config.d/*.conf, and add {ours} to any AuthorizedKeysFile of a Match \
         block for the account.",
    )))
}

/// Where sshd looks for the keys of an account.
fn files_of(places: &Places, user: &str) -> Result<Vec<String>, Fault> {
    let connection = format!("user={user},host=localhost,addr=127.0.0.1");
    let command = Command::new(places.at(SSHD)).args(["-T", "-C", &connection]);
    let output = tools::must(command.deadline(Duration::from_secs(10)), "sshd -T")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|l| l.strip_prefix("authorizedkeysfile "));
    Ok(line.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
}

/// Writes our file, and lets sshd read it if it likes it.
fn write(places: &Places, text: &str) -> Result<(), Fault> {
    let new = format!("{DROP_IN}.new");
    let copy = outside(places, "/usr/bin/install")
        .args(["-m", "0644", "--", "/dev/stdin"])
        .arg(places.at(&new))
        .stdin(text);
    let _ = tools::must(copy, "install sshd's drop-in")?;
    let rename = outside(places, "/usr/bin/mv").args(["-f", "-T", "--"]);
    let _ = tools::must(rename.arg(places.at(&new)).arg(places.at(DROP_IN)), "install sshd's drop-in")?;
    let test = Command::new(places.at(SSHD)).arg("-t").deadline(Duration::from_secs(10));
    if let Err(fault) = tools::must(test, "sshd -t") {
        look_away(places)?;
        return Err(fault);
    }
    reload(places)
}

/// Takes our file away.
///
/// # Errors
/// It could not be, or sshd could not be told.
pub(super) fn look_away(places: &Places) -> Result<(), Fault> {
    if !places.at(DROP_IN).exists() {
        return Ok(());
    }
    let _ = tools::must(
        outside(places, "/usr/bin/rm").args(["-f", "--"]).arg(places.at(DROP_IN)),
        "rm sshd's drop-in",
    )?;
    reload(places)
}

/// An sshd that runs reads its files anew; one that is started for each connection does so anyway.
fn reload(places: &Places) -> Result<(), Fault> {
    // Debian's name, and Fedora's; on Debian the second is another name of the first.
    for unit in ["ssh.service", "sshd.service"] {
        let active = tools::run(
            tools::systemctl(places).args(["is-active", "--quiet", "--", unit]),
            "systemctl is-active",
        )?;
        if active.ok() {
            let command = tools::systemctl(places).args(["reload", "--", unit]);
            return tools::must(command, &format!("systemctl reload {unit}")).map(drop);
        }
    }
    Ok(())
}

/// A program that runs in a unit of its own.
fn outside(places: &Places, program: &str) -> Command {
    Command::new(places.at("/usr/bin/systemd-run"))
        .args(["--quiet", "--collect", "--pipe", "--wait", "--service-type=exec", "--"])
        .arg(places.at(program))
        .deadline(Duration::from_secs(15))
}
