//! Installing what the tests need, and saying so.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::run::{on_path, root, run};

/// A package, and the file that shows it is there.
type Package = (&'static str, &'static str);

/// What every build needs.
const FOR_BUILDS: &[Package] = &[("build-essential", "/usr/bin/cc")];

/// Packages that tests use beside those of the real nodes.
const FOR_TESTS: &[Package] = &[
    ("openssh-tests", "/usr/lib/openssh/regress/sshsig.sh"),
    ("curl", "/usr/bin/curl"),
    ("openssl", "/usr/bin/openssl"),
    ("git", "/usr/bin/git"),
    ("python3", "/usr/bin/python3"),
    ("python3-venv", "/usr/share/doc/python3-venv"),
    ("ansible-core", "/usr/bin/ansible-playbook"),
    ("man-db", "/usr/bin/mandb"),
];

/// Installs what the tests need and is missing, where we may; elsewhere says what is missing and goes on.
pub(crate) fn packages() -> Result<()> {
    install(&[FOR_BUILDS, FOR_TESTS].concat())
}

/// The same for what boots nodes and runs on them, without what only tests use.
pub(crate) fn packages_for_nodes() -> Result<()> {
    install(FOR_BUILDS)
}

fn install(beside_nodes: &[Package]) -> Result<()> {
    let mut wanted: Vec<&str> = muster_testbed::missing_packages().iter().map(|m| m.package).collect();
    wanted.extend(beside_nodes.iter().filter(|(_, file)| !Path::new(file).exists()).map(|(p, _)| *p));
    if wanted.is_empty() {
        return Ok(());
    }
    let Some(mut apt) = as_root("apt-get") else {
        eprintln!(
            "not installed and not installable from here (no apt-get, or neither root nor password-less sudo): {}",
            wanted.join(" ")
        );
        return Ok(());
    };
    println!("installing Debian packages: {}", wanted.join(" "));
    run(as_root("apt-get").as_mut().unwrap_or(&mut apt).args(["-q", "update"]))?;
    run(apt
        .args(["install", "-q", "-y", "--no-install-recommends"])
        .args(&wanted)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// `program` as root: as it is when we are root, through `sudo -n` where that works.
fn as_root(program: &str) -> Option<Command> {
    if !on_path(program) {
        return None;
    }
    if is_root() {
        return Some(Command::new(program));
    }
    let free = Command::new("sudo").args(["-n", "true"]).status().is_ok_and(|s| s.success());
    free.then(|| {
        let mut c = Command::new("sudo");
        c.args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", program]);
        c
    })
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Makes sure that a cargo tool is there; a missing one goes to `target/tools`, not to the user's own folder.
pub(crate) fn cargo_tool(name: &str, version: &str) -> Result<std::path::PathBuf> {
    if on_path(name) {
        return Ok(name.into());
    }
    let tools = root()?.join("target/tools");
    let bin = tools.join("bin").join(name);
    if !bin.is_file() {
        println!("installing {name} {version} into target/tools");
        run(crate::run::cargo()?
            .args(["install", "--locked", "--quiet", name, "--version", version, "--root"])
            .arg(&tools))?;
    }
    Ok(bin)
}

/// Makes sure that a tool of Python's is there, in a folder of its own under `target/tools`. Without a network it is not, and
/// the tests that need it say so.
pub(crate) fn python_tool(name: &str, version: &str) -> Result<std::path::PathBuf> {
    let folder = root()?.join("target/tools").join(name);
    let bin = folder.join("bin").join(name);
    if !bin.is_file() {
        println!("installing {name} {version} into target/tools");
        let made = run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).and_then(|()| {
            let package = format!("{name}=={version}");
            run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", &package]))
        });
        if let Err(why) = made {
            eprintln!("{name} cannot be installed: {why:#}");
        }
    }
    Ok(bin)
}
