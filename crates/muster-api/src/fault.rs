//! What a call that did not work answers.

use core::fmt;
use muster_core::Role;
use serde::{Deserialize, Serialize};

/// Whose fault it is, and so which status it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 400: what was typed.
    Bad,
    /// 401: the code, or the proof.
    Unproven,
    /// 403: the role, or a policy.
    Forbidden,
    /// 404: there is nothing of that name.
    Missing,
    /// 405: not with this method.
    Method,
    /// 408: it took the client too long to say.
    Slow,
    /// 409: the state of the node.
    State,
    /// 413: longer than is taken.
    TooLarge,
    /// 429: not so fast.
    TooMany,
    /// 500: the node failed.
    Failed,
    /// 503: the node cannot answer now.
    Busy,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 11] = [
        Self::Bad,
        Self::Unproven,
        Self::Forbidden,
        Self::Missing,
        Self::Method,
        Self::Slow,
        Self::State,
        Self::TooLarge,
        Self::TooMany,
        Self::Failed,
        Self::Busy,
    ];

    /// The status code.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Bad => 400,
            Self::Unproven => 401,
            Self::Forbidden => 403,
            Self::Missing => 404,
            Self::Method => 405,
            Self::Slow => 408,
            Self::State => 409,
            Self::TooLarge => 413,
            Self::TooMany => 429,
            Self::Failed => 500,
            Self::Busy => 503,
        }
    }

    /// Of a status code.
    #[must_use]
    pub fn of(status: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.status() == status)
    }
}

/// The body of an answer that is no success: one sentence for people, one stable word for programs.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// What is wrong, where, and why.
    pub error: String,
    /// Stable word.
    pub reason: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The least role that may, where the role was too low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// The role that the caller has, where the role was too low and there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Seconds to wait before the next try, also as `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Wrong codes that the node still takes, where a code was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries_left: Option<u8>,
    /// The status, which is not in the body.
    #[serde(skip, default = "failed")]
    pub kind: Kind,
}

const fn failed() -> Kind {
    Kind::Failed
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: Kind, reason: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            reason: reason.into(),
            fix: None,
            needs: None,
            held: None,
            retry_after: None,
            tries_left: None,
            kind,
        }
    }

    /// What was typed is wrong.
    pub fn bad(reason: impl Into<String>, error: impl Into<String>) -> Self {
        Self::new(Kind::Bad, reason, error)
    }

    /// The node's state forbids it.
    pub fn state(reason: impl Into<String>, error: impl Into<String>) -> Self {
        Self::new(Kind::State, reason, error)
    }

    /// The node failed.
    pub fn failed(reason: impl Into<String>, error: impl Into<String>) -> Self {
        Self::new(Kind::Failed, reason, error)
    }

    /// With what to do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The caller's role is too low.
    #[must_use]
    pub fn role(needs: Role, held: Option<Role>) -> Self {
        let error = match held {
            Some(held) => format!("this needs the role {needs}, and the certificate has {held}"),
            None => "the certificate names no role (O=muster:readonly, muster:operator or muster:admin)"
                .to_owned(),
        };
        let mut fault = Self::new(Kind::Forbidden, if held.is_some() { "role" } else { "no-role" }, error)
            .fix(format!("Issue one with it: `muster pki issue --role {}`.", needs.as_str()));
        fault.needs = Some(needs.organisation().to_owned());
        fault.held = held.map(|h| h.organisation().to_owned());
        fault
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for Fault {}
