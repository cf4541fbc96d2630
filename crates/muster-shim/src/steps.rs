//! The steps of a run, as points that a test can stop the shim at.
//!
//! The shipped program passes [`NoSteps`]. Only a test build has another implementation: what the
//! shim does at a step is decided by who calls it, never by its environment or arguments.

/// A point in the life of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The lock is held.
    Locked,
    /// What an interrupted run had left is ended.
    OrphansEnded,
    /// Floor and key policy allow it.
    Allowed,
    /// The run record is written.
    RunRecorded,
    /// The start record was accepted.
    StartRecorded,
    /// The floor is durable.
    FloorRaised,
    /// The script runs.
    Started,
    /// The script ended and what it left is dealt with.
    Ended,
    /// The end record was handed over.
    EndRecorded,
    /// The run record is gone.
    RunForgotten,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 10] = [
        Self::Locked,
        Self::OrphansEnded,
        Self::Allowed,
        Self::RunRecorded,
        Self::StartRecorded,
        Self::FloorRaised,
        Self::Started,
        Self::Ended,
        Self::EndRecorded,
        Self::RunForgotten,
    ];
}

/// Told at each step.
pub trait Steps {
    /// The step was reached.
    fn reached(&mut self, step: Step);
}

/// Does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSteps;

impl Steps for NoSteps {
    fn reached(&mut self, _: Step) {}
}
