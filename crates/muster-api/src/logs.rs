//! Journals: `GET /v1/logs`, one [`Record`] on a line.

use serde::{Deserialize, Serialize};

/// Lines without a word about it.
pub const DEFAULT_LINES: u32 = 200;
/// Most lines; a greater number counts as this one.
pub const MAX_LINES: u32 = 10_000;
/// Seconds that a journal is followed for.
pub const FOLLOW_SECONDS: u64 = 60 * 60;
/// Bytes of a message that are shown.
pub const MAX_MESSAGE: usize = 256 * 1024;
/// In the place of a unit: the kernel's ring buffer.
pub const KERNEL: &str = "kernel";

/// One record of a journal.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// When, by the node's clock: `YYYY-MM-DDThh:mm:ss.uuuuuuZ`.
    pub time: String,
    /// The unit that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// syslog(3), 0 to 7; 6 where the journal has none.
    pub priority: u8,
    /// What it says; bytes that are no UTF-8 are shown as U+FFFD.
    pub message: String,
    /// The message is longer than is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Records that a follower lost before this one, because it read too slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}
