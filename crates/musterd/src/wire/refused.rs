//! What the edge tells of requests that it refuses by itself: words of closed sets.

use serde::{Deserialize, Serialize};

/// A request that never reached the core. Not a byte of it is in here: words of closed sets alone, so that nobody writes into the
/// record by asking for something odd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// Where from, as the edge says.
    pub address: String,
    /// Whose connection it was, where its client has a handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// What was wrong.
    pub why: Refusal,
    /// The method, where it is one that the API has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Verb>,
    /// The operation, by its name in the table, where the request was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
}

/// Why the edge refuses a request by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is the answer that `Refusal::answer` gives")]
pub enum Refusal {
    Host,
    Path,
    Missing,
    Query,
    Method,
    Browser,
    Claimed,
    Unclaimed,
    Proof,
    Body,
    TooLarge,
    SlowBody,
    Busy,
    Share,
    Head,
    Malformed,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Host,
        Self::Path,
        Self::Missing,
        Self::Query,
        Self::Method,
        Self::Browser,
        Self::Claimed,
        Self::Unclaimed,
        Self::Proof,
        Self::Body,
        Self::TooLarge,
        Self::SlowBody,
        Self::Busy,
        Self::Share,
        Self::Head,
        Self::Malformed,
    ];

    /// Status and reason of the answer that its client got.
    #[must_use]
    pub const fn answer(self) -> (u16, &'static str) {
        match self {
            Self::Host => (400, "host"),
            Self::Path => (400, "path"),
            Self::Missing => (404, "path"),
            Self::Query => (400, "query"),
            Self::Method => (405, "method"),
            Self::Browser => (403, "browser"),
            Self::Claimed => (409, "claimed"),
            Self::Unclaimed => (409, "unclaimed"),
            Self::Proof => (400, "proof"),
            Self::Body => (400, "body"),
            Self::TooLarge => (413, "body"),
            Self::SlowBody => (408, "slow-body"),
            Self::Busy => (503, "busy"),
            Self::Share => (429, "share"),
            Self::Head => (431, "head"),
            Self::Malformed => (400, "malformed"),
        }
    }

    /// Of a fault of the edge's own; `None` of what is the core's, which writes it down itself, or of a core that is away.
    #[must_use]
    pub fn of(fault: &muster_api::Fault) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.answer() == (fault.kind.status(), fault.reason.as_str()))
    }
}

/// A method that the API has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "each is the method of its name")]
pub enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    /// As it stands in a request.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Of a request's own word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Get, Self::Post, Self::Put, Self::Delete].into_iter().find(|v| v.word() == word)
    }
}
