//! Places where a test lets the process die, to see what a crash there leaves.

/// Nothing, outside of tests.
#[cfg(not(test))]
pub(super) const fn reached(_: &str) {}

/// Ends this process by SIGKILL where the test said so.
#[cfg(test)]
pub(super) fn reached(step: &str) {
    if std::env::var(DIES_AT).is_ok_and(|at| at == step) {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .expect("a process may end itself");
    }
}

/// The variable that names the step.
#[cfg(test)]
pub(super) const DIES_AT: &str = "MUSTER_TEST_DIES_AT";
