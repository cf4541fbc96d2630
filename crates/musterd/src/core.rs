//! The core: root, no network, decides.

mod banner;
mod claim;
pub mod disk;
pub mod documents;
mod enrolment;
pub mod hold;
mod identity;
mod opening;
pub mod owner;
mod record;
mod revocation;
pub mod rotation;
mod say;
mod step;

#[cfg(test)]
mod tests;
