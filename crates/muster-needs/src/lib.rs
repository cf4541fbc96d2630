//! What a test needs of the machine that it runs on, and how a test is skipped where it cannot run.
//!
//! The test harness knows passed and failed only, and hides what a passed test printed. So a test that cannot run says
//! so here: under CI it fails; elsewhere the reason goes to stderr and, when `MUSTER_SKIP_LOG` names a file, is appended
//! there, which `cargo xtask test` lists at its end. A house rule finds tests that go another way.
//!
//! Development only, and no dependencies, so that the tests of every crate can use it.
#![forbid(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Skips the calling test unless its need is met: `require!(muster_needs::root())`.
///
/// Takes a `Result` whose error is the reason, and gives its value. Helpers return such a `Result`, so that it is the
/// test itself that ends.
#[macro_export]
macro_rules! require {
    ($need:expr) => {
        match $need {
            Ok(met) => met,
            Err(why) => {
                $crate::skip(&why);
                return $crate::Skipped::skipped();
            }
        }
    };
}

/// What a skipped test returns.
pub trait Skipped {
    /// Nothing went wrong.
    fn skipped() -> Self;
}

impl Skipped for () {
    fn skipped() -> Self {}
}

impl<E> Skipped for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

/// Reports that the test of this thread cannot run here.
///
/// # Panics
///
/// Under CI, where every test must run.
pub fn skip(why: &str) {
    let test = test_name();
    assert!(std::env::var_os("CI").is_none(), "{test} must run under CI, but cannot: {why}");
    report(&test, why);
}

/// Reports that a part of the test of this thread cannot run here, which is no failure under CI either: for what no
/// package can bring, such as an address family.
pub fn skip_part(why: &str) {
    report(&test_name(), &format!("in part: {why}"));
}

fn test_name() -> String {
    std::thread::current().name().unwrap_or("?").to_owned()
}

fn report(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
    let log = std::env::var_os("MUSTER_SKIP_LOG");
    if let Some(mut log) = log.and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok()) {
        // One write, so that lines of tests that run at the same time do not mix.
        let _ = log.write_all(format!("{test}: {why}\n").as_bytes());
    }
}

/// This process is root.
///
/// # Errors
///
/// The reason why a test that needs it cannot run.
pub fn root() -> Result<(), String> {
    let root = fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if root { Ok(()) } else { Err("needs root".to_owned()) }
}

/// There is a file at `path`, which the Debian package `package` brings.
///
/// # Errors
///
/// The reason why a test that needs it cannot run.
pub fn tool(path: &str, package: &str) -> Result<(), String> {
    if Path::new(path).exists() {
        return Ok(());
    }
    Err(format!("{path} is not installed (apt install {package})"))
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::expect_used,
        clippy::disallowed_methods,
        reason = "tests; runs itself with another environment"
    )]

    use super::*;
    use std::process::Command;

    #[test]
    fn a_need_that_is_met_gives_its_value() {
        let there = || Ok::<_, String>(7);
        assert_eq!(require!(there()), 7);
        assert_eq!(tool("/proc/self/exe", "none"), Ok(()));
    }

    /// Runs only as the child of the next test.
    #[test]
    fn child() {
        if std::env::var_os("MUSTER_NEEDS_CHILD").is_some() {
            skip_part("no sea");
            require!(tool("/nowhere/cc", "build-essential"));
            unreachable!("the test went on");
        }
    }

    #[test]
    fn a_need_that_is_not_met_is_on_the_list_and_fails_under_ci() {
        let log = std::env::temp_dir().join(format!("muster-needs-{}", std::process::id()));
        let run = |ci: bool| {
            let mut c = Command::new(std::env::current_exe().expect("this test"));
            c.args(["--exact", "tests::child"]).env("MUSTER_NEEDS_CHILD", "1").env("MUSTER_SKIP_LOG", &log);
            if ci {
                c.env("CI", "true")
            } else {
                c.env_remove("CI")
            };
            c.output().expect("it starts").status.success()
        };
        assert!(run(false));
        let listed = fs::read_to_string(&log).expect("the list");
        assert!(!run(true), "under CI it fails");
        fs::remove_file(&log).expect("the list");
        assert_eq!(
            listed,
            "tests::child: in part: no sea\n\
             tests::child: /nowhere/cc is not installed (apt install build-essential)\n"
        );
    }
}
