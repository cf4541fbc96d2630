//! Builds in the date that the clock of a host is never believed to be before.
//!
//! `SOURCE_DATE_EPOCH` (reproducible-builds.org) where it is set, as `cargo xtask dist` does with
//! the time of the commit; else the constant below, so that two builds of one commit are the same
//! bytes. The time of day of the build is never used.

/// 2026-11-01T00:00:00Z, raised by hand with a release. A floor, so that older is only weaker.
const LEAST: u64 = 1_793_491_200;

fn main() {
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo::rerun-if-changed=build.rs");
    let date = match std::env::var("SOURCE_DATE_EPOCH") {
        Err(_) => LEAST,
        Ok(text) => match text.parse::<u64>() {
            Ok(date) => date.max(LEAST),
            Err(_) => {
                println!("cargo::error=SOURCE_DATE_EPOCH is not a number of seconds: {text:?}");
                return;
            }
        },
    };
    println!("cargo::rustc-env=MUSTER_BUILD_DATE={date}");
}
