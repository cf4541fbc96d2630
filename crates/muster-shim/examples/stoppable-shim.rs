//! The shim, for tests: stops itself (SIGSTOP) when it reaches the step that `MUSTER_TEST_STOP_AT`
//! names, so that a test can kill it there. Never shipped: an example is built by the tests alone,
//! and the shim's own program has no such step.

use muster_shim::process;
use muster_shim::steps::{Step, Steps};
use std::process::ExitCode;

struct StopAt(Option<String>);

impl Steps for StopAt {
    fn reached(&mut self, step: Step) {
        if self.0.as_deref() == Some(&*format!("{step:?}")) {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::STOP);
        }
    }
}

fn main() -> ExitCode {
    let mut stop = StopAt(std::env::var("MUSTER_TEST_STOP_AT").ok());
    ExitCode::from(process::run(std::env::args_os(), &mut stop).code())
}
