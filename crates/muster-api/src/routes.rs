//! Which request is which operation.
//!
//! Total both ways: each operation has one route, each route one operation, so nothing can be called that has no row in
//! the operation table (role, danger, states, audit). `POST /v1/enroll` is not in the table: it is answered before there is an
//! owner, and 409 after.
//!
//! A path is matched as it stands, segment by segment, and only when it is canonical already: whoever ends HTTP refuses
//! every other spelling (`//`, `.`, `..`, `%`, `;`, an absolute form) before it asks here.

use muster_core::Operation;

/// A method (RFC 9110, 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
}

impl Method {
    /// As it stands on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Of a word on the wire, byte for byte.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Get, Self::Post, Self::Put, Self::Delete].into_iter().find(|m| m.as_str() == word)
    }
}

/// What a success carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// One JSON value.
    Json,
    /// JSON values, one on a line, as they come.
    Stream,
    /// `application/yaml`, never stored.
    Yaml,
    /// `text/plain; charset=utf-8`, never stored.
    Text,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path; a segment in braces stands for any one segment.
    pub path: &'static str,
    /// What must stand in the query to choose this row among those of the same path.
    pub chosen_by: Option<(&'static str, &'static str)>,
    /// What it does.
    pub operation: Operation,
    /// Names that may stand in the query, each at most once.
    pub query: &'static [&'static str],
    /// Longest body in bytes; 0: there is none to send, and an empty one or `{}` is taken.
    pub body: usize,
    /// What a success carries.
    pub answer: Answer,
}

/// Longest body of a call with a few words in it.
pub const MAX_SMALL: usize = 4 * 1024;
/// Longest document in JSON, where a byte may take six.
const MAX_DOCUMENT_BODY: usize = 2 * (1 << 20) + 64 * 1024;
/// Longest revocation list.
const MAX_LIST: usize = 4 * (1 << 20);
/// Longest body of a rotation: two certificates and a signature.
const MAX_ROTATION: usize = 64 * 1024;

const fn route(method: Method, path: &'static str, operation: Operation) -> Route {
    Route { method, path, chosen_by: None, operation, query: &[], body: 0, answer: Answer::Json }
}

impl Route {
    const fn query(self, query: &'static [&'static str]) -> Self {
        Self { query, ..self }
    }

    const fn body(self, body: usize) -> Self {
        Self { body, ..self }
    }

    const fn answer(self, answer: Answer) -> Self {
        Self { answer, ..self }
    }

    const fn chosen_by(self, name: &'static str, value: &'static str) -> Self {
        Self { chosen_by: Some((name, value)), ..self }
    }
}

/// Every route of a claimed node. Of two with one path, the row that the query chooses comes first.
pub const ROUTES: &[Route] = {
    use Answer::{Stream, Text, Yaml};
    use Method::{Delete, Get, Post, Put};
    use Operation as O;
    &[
        route(Get, "/v1/health", O::Health),
        route(Get, "/v1/node", O::NodeState),
        route(Get, "/v1/services", O::Services),
        route(Get, "/v1/logs", O::Logs).query(&["unit", "lines", "since", "follow"]).answer(Stream),
        route(Post, "/v1/services/{unit}/restart", O::ServiceRestart),
        route(Post, "/v1/upgrade/stage", O::UpgradeStage).body(MAX_SMALL).answer(Stream),
        route(Post, "/v1/upgrade/apply", O::UpgradeApply),
        route(Post, "/v1/upgrade/rollback", O::UpgradeRollback).query(&["discard"]),
        route(Post, "/v1/lifecycle/cordon", O::Uncordon).query(&["undo"]).chosen_by("undo", "true"),
        route(Post, "/v1/lifecycle/cordon", O::Cordon).query(&["undo"]),
        route(Post, "/v1/lifecycle/drain", O::Drain),
        route(Post, "/v1/lifecycle/reboot", O::Reboot),
        route(Post, "/v1/lifecycle/shutdown", O::Shutdown),
        route(Post, "/v1/lifecycle/reset", O::Reset).body(MAX_SMALL),
        route(Post, "/v1/config", O::ConfigApply).body(MAX_DOCUMENT_BODY),
        route(Post, "/v1/ca/rotate", O::CaRotate).body(MAX_ROTATION),
        route(Put, "/v1/ca/crl", O::CrlUpload).body(MAX_LIST),
        route(Get, "/v1/kubeconfig", O::Kubeconfig).query(&["server"]).answer(Yaml),
        route(Get, "/v1/join-token", O::JoinToken).query(&["role", "expiry"]).answer(Text),
        route(Get, "/v1/etcd", O::EtcdState),
        route(Get, "/v1/access/ssh", O::SshKeys),
        route(Post, "/v1/access/ssh", O::SshKeyAdd).body(MAX_SMALL),
        route(Delete, "/v1/access/ssh", O::SshKeyRemove).query(&["fingerprint"]),
        route(Get, "/v1/audit", O::AuditRead).query(&["after", "follow"]).answer(Stream),
        route(Get, "/v1/proof", O::ProofNonce),
    ]
};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'p> {
    /// This route, with what stands for the segment in braces.
    Route(&'static Route, Option<&'p str>),
    /// The path is one, but not with this method.
    Method,
    /// There is nothing.
    Nothing,
}

/// The route of a method, a canonical path, and the pairs of its query.
#[must_use]
pub fn find<'p>(method: Method, path: &'p str, query: &[(String, String)]) -> Found<'p> {
    let mut seen = false;
    for route in ROUTES {
        let Some(segment) = matches(route.path, path) else { continue };
        seen = true;
        let chosen =
            route.chosen_by.is_none_or(|(n, v)| query.iter().any(|(name, value)| name == n && value == v));
        if route.method == method && chosen {
            return Found::Route(route, segment);
        }
    }
    if seen { Found::Method } else { Found::Nothing }
}

/// `Some` where the path is the pattern's, with the segment that stands in the place of the braces.
fn matches<'p>(pattern: &str, path: &'p str) -> Option<Option<&'p str>> {
    let mut found = None;
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        let segment = segments.next()?;
        if wanted.starts_with('{') {
            if segment.is_empty() {
                return None;
            }
            found = Some(segment);
        } else if wanted != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_of_routes_and_operations_is_total_both_ways() {
        for operation in Operation::ALL {
            let of = ROUTES.iter().filter(|r| r.operation == *operation).count();
            assert_eq!(of, 1, "{operation:?}");
        }
        assert_eq!(ROUTES.len(), Operation::ALL.len());
    }

    #[test]
    fn each_route_is_found_by_its_own_path_and_no_other_method() {
        for route in ROUTES {
            let path = route.path.replace("{unit}", "ssh.service");
            let query: Vec<_> =
                route.chosen_by.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            let segment = route.path.contains('{').then_some("ssh.service");
            assert_eq!(find(route.method, &path, &query), Found::Route(route, segment));
            assert_eq!(find(route.method, &format!("{path}/"), &query), Found::Nothing, "{path}/");
            assert_eq!(find(route.method, &format!("/{path}"), &query), Found::Nothing, "/{path}");
        }
        assert_eq!(find(Method::Delete, "/v1/node", &[]), Found::Method);
        assert_eq!(find(Method::Post, "/v1/services//restart", &[]), Found::Nothing);
        assert_eq!(find(Method::Post, "/v1/services/a/b/restart", &[]), Found::Nothing);
        assert_eq!(find(Method::Get, "/v1", &[]), Found::Nothing);
    }

    #[test]
    fn what_changes_is_never_a_get() {
        for route in ROUTES {
            let reads = matches!(
                route.operation.row().danger,
                muster_core::Danger::Reads | muster_core::Danger::HandsOverSecrets
            );
            assert_eq!(route.method == Method::Get, reads, "{}", route.path);
        }
    }
}
