//! One call: an operation and what goes with it, and what came back.

use core::fmt::Write as _;
use muster_api::{Method, ROUTES, Route};
use muster_core::Operation;

/// Longest answer that is no stream.
pub(crate) const MAX_ANSWER: usize = 1 << 20;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Call {
    pub(crate) operation: Operation,
    pub(crate) segment: Option<String>,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) content: &'static str,
}

impl Call {
    /// An operation, with nothing else said.
    pub const fn new(operation: Operation) -> Self {
        Self { operation, segment: None, query: Vec::new(), body: Vec::new(), content: "application/json" }
    }

    /// What stands for the segment in braces of its path.
    #[must_use]
    pub fn segment(mut self, segment: impl Into<String>) -> Self {
        self.segment = Some(segment.into());
        self
    }

    /// One more pair of the query.
    #[must_use]
    pub fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// A pair of the query where there is a value.
    #[must_use]
    pub fn maybe(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// The body.
    #[must_use]
    pub fn body(mut self, content: &'static str, body: impl Into<Vec<u8>>) -> Self {
        (self.content, self.body) = (content, body.into());
        self
    }

    /// The body, as JSON.
    #[must_use]
    pub fn json(self, value: &impl serde::Serialize) -> Self {
        // A value of our own types is JSON whatever is in it; the node would refuse an empty body.
        let body = serde_json::to_vec(value).unwrap_or_default();
        self.body("application/json", body)
    }

    /// Its route.
    pub(crate) fn route(&self) -> Option<&'static Route> {
        ROUTES.iter().find(|r| r.operation == self.operation)
    }

    /// Method, and the path and query as they are sent; `None` where the segment cannot stand in a path.
    pub(crate) fn target(&self) -> Option<(Method, String)> {
        let route = self.route()?;
        let mut out = String::new();
        for (n, part) in route.path.split('/').enumerate() {
            if n > 0 {
                out.push('/');
            }
            match part.starts_with('{') {
                // A path is taken by the node only as it stands, so what would have to be escaped has no way through.
                true => out.push_str(self.segment.as_deref().filter(|s| is_segment(s))?),
                false => out.push_str(part),
            }
        }
        let chosen = route.chosen_by.map(|(name, value)| (name, value.to_owned()));
        for (n, (name, value)) in chosen.iter().chain(&self.query).enumerate() {
            out.push(if n == 0 { '?' } else { '&' });
            out.push_str(name);
            out.push('=');
            escape(&mut out, value);
        }
        Some((route.method, out))
    }
}

/// Unreserved (RFC 3986, 2.3) and `@`, as in the names of template units; not all dots.
fn is_segment(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~@".contains(&b);
    !text.is_empty() && text.bytes().all(plain) && text.bytes().any(|b| b != b'.')
}

/// Percent-encoding (RFC 3986, 2.1) of all but what is unreserved.
fn escape(out: &mut String, text: &str) {
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
            out.push(char::from(b));
        } else {
            // A text takes all that is written to it.
            let _ = write!(out, "%{b:02X}");
        }
    }
}

/// What came back: a success, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code, 200 to 299.
    pub status: u16,
    /// Media type, as the node says.
    pub content: String,
    /// The body.
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_a_target_that_finds_its_own_route() {
        for operation in Operation::ALL {
            let call = Call::new(*operation).segment("kubelet.service");
            let (method, target) = call.target().expect("a route");
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            let pairs: Vec<_> = query
                .split('&')
                .filter_map(|p| p.split_once('='))
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .collect();
            let muster_api::Found::Route(route, _) = muster_api::find(method, path, &pairs) else {
                panic!("{target} is no route");
            };
            assert_eq!(route.operation, *operation);
        }
    }

    #[test]
    fn values_are_escaped_and_a_segment_is_never_more_than_one() {
        let (_, target) = Call::new(Operation::SshKeyRemove)
            .query("fingerprint", "SHA256:a+b/c&x=y é")
            .target()
            .expect("a route");
        assert_eq!(target, "/v1/access/ssh?fingerprint=SHA256%3Aa%2Bb%2Fc%26x%3Dy%20%C3%A9");
        for bad in ["", ".", "..", "a/b", "a%2fb", "a?b", "a;b", "a b", "é"] {
            assert!(Call::new(Operation::ServiceRestart).segment(bad).target().is_none(), "{bad}");
        }
        assert!(Call::new(Operation::ServiceRestart).target().is_none());
    }
}
