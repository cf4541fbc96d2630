//! What a request line asks for: method, path and query to an [`Ask`].
//!
//! One spelling for each request, and every other one is refused, never mended: what is judged, what is written to the audit,
//! what a client signs and what is done are the same bytes. So there is no `//`, no `.` or `..`, no `%` in a path, no `;`,
//! no absolute form; and no name in a query that the route does not have, or has twice. Sources: RFC 3986 (3.3, 3.4), RFC 9112 (3.2).
//!
//! Pure: no connection, no clock.

use muster_api::{ENROLL, Fault, Found, Kind, Method, Route, find};
use muster_core::Operation;
use muster_core::hidden::is_hidden;
use muster_document::walk::duration;

use crate::wire::Ask;

/// Longest path with its query.
const MAX_TARGET: usize = 2048;
/// Longest value in a query, and segment of a path.
const MAX_VALUE: usize = 512;
/// Longest name of a server: that of a host (RFC 1035), a scheme and a port beside it.
const MAX_SERVER: usize = 253;

/// A request that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// `POST /v1/enroll`
    Enroll,
    /// A route of the table.
    Call {
        /// Its row.
        route: &'static Route,
        /// With what stands in path and query.
        ask: Ask,
        /// Method, path and query in their one spelling.
        request: String,
    },
}

/// Reads a method and a target in origin form.
///
/// # Errors
/// 400 for a spelling that is not taken, 404 and 405 for what there is not.
pub fn read(method: &str, target: &str) -> Result<Wanted, Fault> {
    if target.len() > MAX_TARGET {
        return Err(Fault::bad("path", format!("path and query are longer than {MAX_TARGET} bytes")));
    }
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    plain(path)?;
    let pairs = query.map_or(Ok(Vec::new()), pairs)?;
    let not_this = || {
        let may = methods(path);
        Fault::new(Kind::Method, "method", format!("this path is not there with that method, but with {may}"))
    };
    let known = Method::of(method);
    if path == ENROLL {
        return match (known, pairs.first()) {
            (Some(Method::Post), None) => Ok(Wanted::Enroll),
            (Some(Method::Post), Some((name, _))) => Err(unknown(name, &[])),
            _ => Err(not_this()),
        };
    }
    // A method that no route has is told from a path that is none by asking with one that there is.
    match find(known.unwrap_or(Method::Get), path, &pairs) {
        Found::Route(route, segment) if known.is_some() => {
            let values = Values { pairs: &pairs, segment };
            if let Some((name, _)) = pairs.iter().find(|(name, _)| !route.query.contains(&name.as_str())) {
                return Err(unknown(name, route.query));
            }
            Ok(Wanted::Call {
                route,
                ask: ask(route.operation, &values)?,
                request: format!("{} {target}", route.method.as_str()),
            })
        }
        Found::Route(..) | Found::Method => Err(not_this()),
        Found::Nothing => Err(Fault::new(Kind::Missing, "path", "there is no such path")
            .fix("The paths are in docs/openapi/node.json.")),
    }
}

/// The methods that a path has, for `Allow` (RFC 9110, 10.2.1).
#[must_use]
pub fn methods(path: &str) -> String {
    let all = [Method::Get, Method::Post, Method::Put, Method::Delete];
    let has = |m: &&Method| {
        if path == ENROLL { **m == Method::Post } else { matches!(find(**m, path, &[]), Found::Route(..)) }
    };
    all.iter().filter(has).map(|m| m.as_str()).collect::<Vec<_>>().join(", ")
}

/// Refuses a path that is not in its one spelling.
fn plain(path: &str) -> Result<(), Fault> {
    let no = |why: &str| Fault::bad("path", format!("the path is not in its plain spelling: {why}"));
    let segments = path.strip_prefix('/').ok_or_else(|| no("it does not begin with a slash"))?;
    for segment in segments.split('/') {
        match segment {
            "" => return Err(no("an empty segment")),
            "." | ".." => return Err(no("a segment of dots")),
            s if s.len() > MAX_VALUE => return Err(no("a segment that is too long")),
            s if s.contains('%') => return Err(no("a character that is written with %")),
            s if !s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~@:".contains(&b)) => {
                return Err(no("a character that no path here has"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The pairs of a query, decoded; no name twice.
fn pairs(query: &str) -> Result<Vec<(String, String)>, Fault> {
    let no = |why: String| Fault::bad("query", why);
    let mut out: Vec<(String, String)> = Vec::new();
    for pair in query.split('&') {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| no("the query has a part without `=`".to_owned()))?;
        if name.is_empty() || name.len() > 32 || !name.bytes().all(|b| b.is_ascii_lowercase()) {
            return Err(no("the query has a name that there is not".to_owned()));
        }
        if out.iter().any(|(n, _)| n == name) {
            return Err(no(format!("`{name}` is in the query twice")));
        }
        let value = decoded(value).ok_or_else(|| no(format!("the value of `{name}` cannot be read")))?;
        out.push((name.to_owned(), value));
    }
    Ok(out)
}

/// A value without its percent encoding; visible, of a bounded length. A `+` is a plus: no value here has a space.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|d| u8::try_from(d).ok());
                let (high, low) = (digit()?, digit()?);
                (high << 4) | low
            }
            0x21..=0x7e => byte,
            _ => return None,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (text.len() <= MAX_VALUE && !text.chars().any(|c| is_hidden(c) || c.is_whitespace())).then_some(text)
}

fn unknown(name: &str, known: &[&str]) -> Fault {
    let fault = Fault::bad("query", format!("`{name}` is nothing that this path takes in its query"));
    if known.is_empty() { fault } else { fault.fix(format!("It takes: {}.", known.join(", "))) }
}

/// What stands in the query, and in the braces of the path.
struct Values<'v> {
    pairs: &'v [(String, String)],
    segment: Option<&'v str>,
}

impl Values<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn checked<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let bad = || Fault::bad("query", format!("`{name}` must be {what}"));
        self.get(name).map(|value| read(value).ok_or_else(bad)).transpose()
    }

    fn text(&self, name: &str) -> Result<Option<String>, Fault> {
        self.checked(name, "some text", |v| (!v.is_empty()).then(|| v.to_owned()))
    }

    fn flag(&self, name: &str) -> Result<bool, Fault> {
        let flag = |v: &str| match v {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Ok(self.checked(name, "`true` or `false`", flag)?.unwrap_or(false))
    }

    fn number<T: core::str::FromStr>(&self, name: &str) -> Result<Option<T>, Fault> {
        let plain = |v: &str| v.bytes().all(|b| b.is_ascii_digit()) && (v == "0" || !v.starts_with('0'));
        self.checked(name, "a number", |v| plain(v).then(|| v.parse().ok()).flatten())
    }

    fn seconds(&self, name: &str) -> Result<Option<u64>, Fault> {
        self.checked(name, "a duration such as 90s, 10m or 1h30m", |v| duration(v).filter(|s| *s > 0))
    }
}

fn ask(operation: Operation, values: &Values<'_>) -> Result<Ask, Fault> {
    use Operation as O;
    Ok(match operation {
        O::Health => Ask::Health,
        O::NodeState => Ask::NodeState,
        O::Services => Ask::Services,
        O::Logs => Ask::Logs {
            unit: values.text("unit")?,
            lines: values.number("lines")?,
            since: values.seconds("since")?,
            follow: values.flag("follow")?,
        },
        O::SshKeys => Ask::SshKeys,
        O::EtcdState => Ask::EtcdState,
        O::AuditRead => Ask::AuditRead { after: values.number("after")?, follow: values.flag("follow")? },
        O::ProofNonce => Ask::ProofNonce,
        O::ServiceRestart => Ask::ServiceRestart { unit: values.segment.unwrap_or_default().to_owned() },
        O::UpgradeStage => Ask::UpgradeStage,
        O::Cordon => {
            values.flag("undo")?;
            Ask::Cordon
        }
        O::Uncordon => Ask::Uncordon,
        O::Drain => Ask::Drain,
        O::UpgradeApply => Ask::UpgradeApply,
        O::UpgradeRollback => Ask::UpgradeRollback { drop_staged: values.flag("discard")? },
        O::Reboot => Ask::Reboot,
        O::Shutdown => Ask::Shutdown,
        O::Reset => Ask::Reset,
        O::ConfigApply => Ask::ConfigApply,
        O::CaRotate => Ask::CaRotate,
        O::CrlUpload => Ask::CrlUpload,
        O::Kubeconfig => Ask::Kubeconfig {
            server: values.checked(
                "server",
                &format!("a host or URL of at most {MAX_SERVER} characters"),
                |v| (!v.is_empty() && v.chars().count() <= MAX_SERVER).then(|| v.to_owned()),
            )?,
        },
        O::JoinToken => Ask::JoinToken {
            role: values.checked("role", "`worker` or `controlplane`", |v| {
                matches!(v, "worker" | "controlplane").then(|| v.to_owned())
            })?,
            expiry: values.seconds("expiry")?,
        },
        O::SshKeyAdd => Ask::SshKeyAdd,
        O::SshKeyRemove => Ask::SshKeyRemove {
            fingerprint: values
                .text("fingerprint")?
                .ok_or_else(|| Fault::bad("query", "`fingerprint` is missing"))?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, target: &str) -> Ask {
        match read(method, target) {
            Ok(Wanted::Call { ask, request, .. }) => {
                assert_eq!(request, format!("{method} {target}"));
                ask
            }
            other => panic!("{method} {target}: {other:?}"),
        }
    }

    fn refused(method: &str, target: &str) -> (u16, String) {
        let fault = read(method, target).expect_err(target);
        (fault.kind.status(), fault.reason)
    }

    #[test]
    fn m15_no_spelling_of_a_path_but_its_own_reaches_an_operation() {
        for path in [
            "//v1/node",
            "/v1//node",
            "/v1/node/",
            "/",
            "",
            "/./v1/node",
            "/v1/x/../node",
            "/v1/..",
            "/v1/%6eode",
            "/v1%2fnode",
            "/v1/node%00",
            "/%2e%2e/v1/node",
            "/v1/node;x=1",
            "/v1/node;",
            "/v1/\\node",
            "v1/node",
            "*",
            "http://node/v1/node",
            "/v1/node\u{e9}",
            "/v1/services/a%2fb/restart",
            "/v1/services/../restart",
            "/v1/node#x",
            "/v1/no de",
        ] {
            assert_eq!(refused("GET", path), (400, "path".into()), "{path}");
        }
        assert_eq!(refused("GET", "/V1/node"), (404, "path".into()));
        assert_eq!(refused("GET", "/v1/NODE"), (404, "path".into()));
        assert_eq!(refused("GET", &format!("/v1/{}", "a".repeat(3000))).0, 400);
    }

    #[test]
    fn a_query_is_what_its_route_takes_each_name_once() {
        assert_eq!(
            asked("GET", "/v1/logs?unit=kubelet&lines=50&since=1h30m&follow=true"),
            Ask::Logs { unit: Some("kubelet".into()), lines: Some(50), since: Some(5400), follow: true }
        );
        assert_eq!(asked("POST", "/v1/lifecycle/cordon?undo=true"), Ask::Uncordon);
        assert_eq!(asked("POST", "/v1/lifecycle/cordon?undo=false"), Ask::Cordon);
        let back = asked("POST", "/v1/upgrade/rollback?discard=true");
        assert_eq!(back, Ask::UpgradeRollback { drop_staged: true });
        assert_eq!(asked("POST", "/v1/lifecycle/cordon"), Ask::Cordon);
        let key = |f: &str| Ask::SshKeyRemove { fingerprint: f.into() };
        assert_eq!(asked("DELETE", "/v1/access/ssh?fingerprint=SHA256:a%2Bb/c="), key("SHA256:a+b/c="));
        assert_eq!(asked("DELETE", "/v1/access/ssh?fingerprint=SHA256:a+b/c"), key("SHA256:a+b/c"));
        let unit = "kubelet.service".to_owned();
        assert_eq!(asked("POST", "/v1/services/kubelet.service/restart"), Ask::ServiceRestart { unit });
        for (method, target) in [
            ("GET", "/v1/node?"),
            ("GET", "/v1/node?x=1"),
            ("GET", "/v1/logs?unit=a&unit=b"),
            ("GET", "/v1/logs?unit=a&un%69t=b"),
            ("GET", "/v1/logs?unit="),
            ("GET", "/v1/logs?unit=a&"),
            ("GET", "/v1/logs?follow"),
            ("GET", "/v1/logs?follow=1"),
            ("GET", "/v1/logs?follow=TRUE"),
            ("GET", "/v1/logs?lines=-1"),
            ("GET", "/v1/logs?lines=+1"),
            ("GET", "/v1/logs?lines=007"),
            ("GET", "/v1/logs?lines=4294967296"),
            ("GET", "/v1/logs?since=10"),
            ("GET", "/v1/logs?since=0s"),
            ("GET", "/v1/logs?since=-1h"),
            ("GET", "/v1/logs?unit=%zz"),
            ("GET", "/v1/logs?unit=%4"),
            ("GET", "/v1/logs?unit=%ff"),
            ("GET", "/v1/logs?unit=a%0ab"),
            ("GET", "/v1/logs?unit=a%20b"),
            ("GET", "/v1/logs?unit=a%E2%80%AEb"),
            ("GET", "/v1/logs?unit=a;lines=1"),
            ("GET", "/v1/join-token?role=admin"),
            ("GET", "/v1/join-token?expiry=soon"),
            ("DELETE", "/v1/access/ssh"),
            ("POST", "/v1/enroll?x=1"),
            ("POST", "/v1/lifecycle/cordon?undo=maybe"),
        ] {
            // A `;` is a character of a value, and no unit has one; that is the core's to say.
            if target.contains(';') {
                assert!(matches!(asked(method, target), Ask::Logs { .. }));
                continue;
            }
            assert_eq!(refused(method, target), (400, "query".into()), "{target}");
        }
        let long = format!("/v1/kubeconfig?server={}", "a".repeat(254));
        assert_eq!(refused("GET", &long), (400, "query".into()));
    }

    #[test]
    fn a_method_is_one_of_the_table_byte_for_byte() {
        for method in ["HEAD", "OPTIONS", "PATCH", "CONNECT", "TRACE", "get", "POST", ""] {
            assert_eq!(refused(method, "/v1/node"), (405, "method".into()), "{method}");
        }
        assert_eq!(refused("GET", "/v1/enroll"), (405, "method".into()));
        assert_eq!(refused("PATCH", "/v1/nothing"), (404, "path".into()));
        assert_eq!(methods("/v1/access/ssh"), "GET, POST, DELETE");
        assert_eq!(methods("/v1/enroll"), "POST");
        assert_eq!(read("POST", "/v1/enroll"), Ok(Wanted::Enroll));
    }

    #[test]
    fn every_route_can_be_asked_for_by_its_method_and_path() {
        for route in muster_api::ROUTES {
            let path = route.path.replace("{unit}", "kubelet");
            let query = match (route.chosen_by, route.operation) {
                (Some((name, value)), _) => format!("?{name}={value}"),
                (None, Operation::SshKeyRemove) => "?fingerprint=SHA256:x".to_owned(),
                _ => String::new(),
            };
            assert_eq!(asked(route.method.as_str(), &format!("{path}{query}")).operation(), route.operation);
        }
    }
}
