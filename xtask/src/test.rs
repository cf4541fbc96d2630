//! `cargo xtask test`: set up, build once, run every test, say what was skipped.

use std::fs;

use anyhow::Result;

use crate::run::{cargo, root, run as spawn};
use crate::setup;

/// What tries the node API against its description.
const SCHEMATHESIS: &str = "4.32.5";

/// Runs every test. `rest` goes to the test binaries.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    setup::packages()?;
    let schemathesis = setup::python_tool("schemathesis", SCHEMATHESIS)?;
    let log = root()?.join("target/skipped-tests.log");
    fs::create_dir_all(root()?.join("target"))?;
    let _ = fs::remove_file(&log);
    if muster_testbed::why_not().is_none() {
        for bed in muster_testbed::collect_garbage()? {
            println!("removed what a killed test run left: {bed}");
        }
    }
    // Build everything first, so that no test waits for the compiler.
    spawn(cargo()?.args(["test", "--locked", "--workspace", "--no-run"]))?;
    let built = muster_testbed::binaries()?;
    let test = |args: &[&str], threads: Option<&str>| -> Result<()> {
        let mut c = cargo()?;
        c.args(["test", "--locked", "--no-fail-fast"]).args(args);
        c.env("MUSTER_SKIP_LOG", &log)
            .env("MUSTER_SHIM_BIN", &built.shim)
            .env("MUSTER_SHIM_DYNAMIC_BIN", &built.shim_dynamic)
            .env("MUSTER_BIN", &built.muster)
            .env("MUSTERD_BIN", &built.musterd)
            .env("MUSTER_SCHEMATHESIS", &schemathesis);
        if let Some(n) = threads {
            // Node tests wait far more than they compute.
            c.env("RUST_TEST_THREADS", n);
        }
        spawn(c.arg("--").args(rest))
    };
    let plain = test(&["--workspace", "--exclude", "muster-testbed"], None);
    let nodes = test(&["--package", "muster-testbed"], Some("4"));
    report(&log);
    plain.and(nodes)
}

/// Lists what was skipped, with the reasons: the test harness hides it.
fn report(log: &std::path::Path) {
    match fs::read_to_string(log) {
        Ok(text) if !text.is_empty() => {
            println!("\nskipped, with the reason:");
            for line in text.lines() {
                println!("  {line}");
            }
        }
        _ => println!("\nno test was skipped"),
    }
}
