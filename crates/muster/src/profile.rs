//! A profile's folder: `profile.yaml`, one script a phase, and what was signed of them.

pub mod check;
pub mod folder;
pub mod manifest;
pub mod pattern;
pub mod signed;
pub mod verify;
pub mod words;

/// Where the signed intents of a profile live, inside its folder.
pub const SIGNED: &str = "signed";
/// The manifest's name.
pub const MANIFEST: &str = "profile.yaml";
