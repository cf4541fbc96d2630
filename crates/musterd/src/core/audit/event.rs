//! One event, as it is written.

use muster_core::UtcTime;
use muster_core::hidden::is_hidden;
use serde::Serialize;

use crate::core::handles::Handle;

/// Longest text of a stranger's in a record. A record is 16 KiB at most, and six characters of JSON can be one of the text.
const MAX_TEXT: usize = 512;

/// Longest text of a record's own members.
const MAX_MEMBERS: usize = 15 * 1024;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It was let through.
    Allowed,
    /// It was not.
    Denied,
    /// It was, and did not work.
    Failed,
}

/// Who, as its certificate says. Never taken from the edge's word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Who {
    /// Common name.
    pub name: String,
    /// Role, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Serial number, hex.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Fingerprint of its certificate.
    pub certificate: String,
}

impl From<&Handle> for Who {
    fn from(handle: &Handle) -> Self {
        let client = &handle.client;
        Self {
            name: text(&client.name),
            role: client.role.map(muster_core::Role::organisation),
            serial: text(&client.serial),
            certificate: client.fingerprint.to_string(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) decision: Option<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<Who>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "claimedByEdge")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "toldBy")]
    told_by: Option<&'static str>,
}

/// What is added to every event.
#[derive(Serialize)]
struct Written<'e> {
    time: String,
    boot: &'e str,
    #[serde(flatten)]
    event: &'e Event,
}

impl Event {
    /// An event of this kind.
    #[must_use]
    pub fn new(event: &'static str) -> Self {
        Self { event, ..Self::default() }
    }

    /// Of this call.
    #[must_use]
    pub fn call(mut self, id: &str) -> Self {
        self.call = Some(text(id));
        self
    }

    /// Of this operation.
    #[must_use]
    pub const fn op(mut self, op: &'static str) -> Self {
        self.op = Some(op);
        self
    }

    /// With this end.
    #[must_use]
    pub const fn decision(mut self, decision: Decision) -> Self {
        self.decision = Some(decision);
        self
    }

    /// For this stable reason.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(text(reason));
        self
    }

    /// By this client.
    #[must_use]
    pub fn who(mut self, who: Who) -> Self {
        self.who = Some(who);
        self
    }

    /// Somebody showed this certificate, whose it may not be.
    #[must_use]
    pub fn certificate(mut self, fingerprint: &str) -> Self {
        self.certificate = Some(text(fingerprint));
        self
    }

    /// From here, as the edge says.
    #[must_use]
    pub fn address(mut self, address: &str) -> Self {
        self.address = Some(text(address));
        self
    }

    /// Method and target.
    #[must_use]
    pub fn request(mut self, request: &str) -> Self {
        self.request = Some(text(request));
        self
    }

    /// With this status code.
    #[must_use]
    pub const fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// After so many milliseconds.
    #[must_use]
    pub const fn ms(mut self, ms: u64) -> Self {
        self.ms = Some(ms);
        self
    }

    /// So many of them.
    #[must_use]
    pub const fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// In words.
    #[must_use]
    pub fn detail(mut self, detail: &str) -> Self {
        self.detail = Some(text(detail));
        self
    }

    /// The edge says that it was, and nothing but its word stands for it: one that fell could make it up, or leave it out.
    #[must_use]
    pub const fn told_by_edge(mut self) -> Self {
        self.told_by = Some("edge");
        self
    }

    /// Whether it stands on the edge's word alone: it says so, or there is an address and no client that the core judged.
    pub(super) const fn is_told(&self) -> bool {
        self.told_by.is_some() || (self.who.is_none() && self.address.is_some())
    }

    /// Whose it is, for the number of events in a second: the certificate, or else the address. Of an IPv6 address the first half
    /// is taken, since whoever has one has 2^64 of them.
    pub(super) fn identity(&self) -> String {
        if let Some(who) = &self.who {
            return who.certificate.clone();
        }
        let address = self.address.as_deref().unwrap_or_default();
        match address.parse::<std::net::SocketAddr>().map(|a| a.ip()).or_else(|_| address.parse()) {
            Ok(std::net::IpAddr::V6(ip)) => {
                let [a, b, c, d, ..] = ip.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::")
            }
            Ok(ip) => ip.to_string(),
            Err(_) => String::new(),
        }
    }

    /// The same event without what differs from call to call.
    pub(super) fn alike(&self) -> Self {
        let Self { op, decision, who, told_by, .. } = self.clone();
        let (reason, address) = (self.reason.clone(), self.who.is_none().then(|| self.identity()));
        Self { event: "counted", op, decision, reason, who, address, told_by, ..Self::default() }
    }

    /// What two events must share to be counted together.
    pub(super) fn key(&self) -> (String, Option<&'static str>, Option<Decision>, Option<String>) {
        (self.identity(), self.op, self.decision, self.reason.clone())
    }

    /// As members of a JSON object.
    pub(super) fn members(&self, boot: &str, time: UtcTime) -> String {
        let written = Written { time: time.to_string(), boot, event: self };
        let json = serde_json::to_string(&written).unwrap_or_default();
        let inner = json.strip_prefix('{').and_then(|j| j.strip_suffix('}')).unwrap_or_default();
        // Text, numbers and names of fields, each of them cut: it always serialises, and fits. If it did not, what waits
        // behind it must not wait for ever.
        if inner.is_empty() || inner.len() > MAX_MEMBERS {
            return format!("\"event\":\"unwritable\",\"time\":\"{time}\"");
        }
        inner.to_owned()
    }
}

/// Text of somebody else's, cut, and without controls and what hides or turns a line around: a chain takes none of the former, and the
/// latter JSON would carry as they are. The name of a client has come here escaped.
fn text(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).take(MAX_TEXT).collect()
}

#[cfg(test)]
impl Event {
    pub(super) const fn counted(&self) -> Option<u64> {
        self.count
    }
}
