//! A node's document, and the values and the kernel parameter that have a form of their own.

use crate::{Said, refused};
use muster_document::{
    BLOCK, Document, Mode, Role, read, read_embedded,
    sources::{Pointer, pointer},
    values::{self, Cidr},
    yaml::{self, Fault, Node},
};
use std::net::IpAddr;

/// An authority's certificate is judged elsewhere; here one word decides.
fn check(pem: &str) -> Result<(), String> {
    if pem.contains("EXPIRED") { Err("it expired".to_owned()) } else { Ok(()) }
}

fn told(faults: &[Fault], text: &str) -> Said {
    let lines = text.bytes().filter(|b| matches!(b, b'\n' | b'\r')).count() + 2;
    assert!(!faults.is_empty() && faults.len() <= 64, "{} faults", faults.len());
    for fault in faults {
        assert!(fault.line <= lines, "line {} of {lines}: {fault}", fault.line);
        refused(fault);
    }
    Said::Refused
}

/// What the modules that act on a document rely on.
fn whole(document: &Document) {
    let joins = matches!(document.role, Some(Role::ControlPlane | Role::Worker));
    if joins {
        assert!(document.cluster.endpoint.is_some() && !document.join.ca_cert_hashes.is_empty());
        assert!(document.join.token.is_some() != document.join.token_from.is_some(), "two tokens or none");
    }
    assert!(document.join.ca_cert_hashes.iter().all(|h| values::is_ca_hash(h)));
    assert!(document.join.token.as_ref().is_none_or(|t| values::is_token(t.expose())));
    assert!(document.cluster.endpoint.as_deref().is_none_or(values::is_host_and_port));
    assert!(document.cluster.subject_alt_names.iter().all(|n| values::is_alt_name(n)));
    assert!(document.node.name.as_deref().is_none_or(values::is_node_name));
    for (key, value) in &document.node.labels {
        assert!(values::is_label_key(key) && values::is_label_value(value), "{key:?}: {value:?}");
    }
    for nets in [&document.network.pod_cidr, &document.network.service_cidr] {
        assert!(nets.len() <= 2, "more than one of each family");
    }
    for pod in &document.network.pod_cidr {
        assert!(document.network.service_cidr.iter().all(|s| !s.overlaps(pod)), "pods and services overlap");
    }
    let mode = document.mode();
    assert_eq!(mode == Mode::Configured, document.api.operator_ca.is_some());
    assert!(document.role.is_some() || mode != Mode::Disabled, "a node that nobody could ever tell");
    assert!(
        !document.open_enrolment() || mode == Mode::Maintenance,
        "open to anybody, and not to be claimed"
    );
    if let Some(token) = &document.join.token {
        assert!(!format!("{document:?}").contains(token.expose()), "a token is shown");
    }
}

fn block_of(tree: &Node) -> Option<&Node> {
    let yaml::Kind::Map(entries) = &tree.kind else { return None };
    entries.iter().find(|e| e.key == BLOCK).map(|e| &e.value)
}

/// A document: what is taken holds together and shows no token; a block means the same alone and among other people's.
pub fn document(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let block = yaml::parse_block(text, BLOCK);
    if let Ok(tree) = yaml::parse(text) {
        // The stricter reader of the whole finds the same block.
        let found = block.as_ref().map(|b| b.as_ref().map(|b| format!("{b:?}")));
        assert_eq!(found, Ok(block_of(&tree).map(|b| format!("{b:?}"))));
    }
    let alone = read(text, &check);
    let embedded = read_embedded(text, &check);
    match &block {
        Ok(Some(_)) => assert_eq!(format!("{alone:?}"), format!("{embedded:?}")),
        Ok(None) => assert!(matches!(embedded, Ok(None)), "a document out of a text without a block"),
        Err(_) => assert!(alone.is_err() && embedded.is_err()),
    }
    if text.starts_with("muster:\n") || text.starts_with("muster: ") {
        let cloud = format!("users: [&zz {{name: x}}, *zz]\n{text}");
        if let Ok(alone) = &embedded {
            let among = read_embedded(&cloud, &check).map(|d| format!("{d:?}"));
            assert_eq!(among, Ok(format!("{alone:?}")), "among other people's keys it says something else");
        }
    }
    match alone {
        Err(faults) => told(&faults, text),
        Ok(None) => Said::Refused,
        Ok(Some(document)) => {
            whole(&document);
            Said::Accepted
        }
    }
}

/// Values, a word for the kind before each.
pub fn values(input: &[u8]) -> Said {
    let Ok(input) = core::str::from_utf8(input) else { return Said::Refused };
    let (kind, text) = input.split_once(' ').unwrap_or((input, ""));
    let taken = match kind {
        "network" => match text.parse::<Cidr>() {
            Err(why) => return refused(&why),
            Ok(net) => {
                assert_eq!(net.to_string().parse(), Ok(net));
                assert!(net.contains(net.address()) && net.overlaps(&net));
                let width = if net.address().is_ipv4() { 32 } else { 128 };
                assert!(net.prefix() <= width);
                let outside =
                    [IpAddr::from([198, 51, 100, 1]), IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])];
                for address in outside {
                    let one: Cidr = format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
                        .parse()
                        .expect("a host");
                    assert_eq!(net.contains(address), net.overlaps(&one), "{net} and {one}");
                }
                true
            }
        },
        "url" => {
            let good = values::not_a_url(text).is_none();
            if good {
                let rest = text.strip_prefix("https://").expect("https alone");
                let host = rest.split(['/', '?']).next().unwrap_or_default();
                assert!(values::is_host_and_port(host) && !host.contains(['@', '\\', '#']), "{text:?}");
                assert!(text.bytes().all(|b| b.is_ascii_graphic()));
            }
            // The fetcher reads it anew: it asks the host that this reader saw, or nobody.
            if let Some((host, port, path)) = musterd::fetch::asks(text) {
                assert!(good && path.starts_with('/'), "{text:?}");
                let rest = text.strip_prefix("https://").expect("https alone");
                let here = rest.split(['/', '?']).next().and_then(values::split_host).expect("a host");
                assert_eq!((host.as_str(), port), (here.0, here.1.unwrap_or(443)), "{text:?}");
                assert!(rest.ends_with(path.trim_start_matches('/')), "{text:?}");
            }
            good
        }
        "host" => match values::split_host(text) {
            None => false,
            Some((host, port)) => {
                assert!(port != Some(0) && !host.is_empty());
                let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
                let written = port.map_or_else(|| bracketed.clone(), |p| format!("{bracketed}:{p}"));
                assert_eq!(written, text);
                true
            }
        },
        "label" => {
            let good = values::is_label_key(text);
            assert!(!good || (text.len() <= 253 + 1 + 63 && text.is_ascii()));
            good
        }
        "kernel" => match pointer(text) {
            Err(why) => return refused(&why),
            Ok(None) => false,
            Ok(Some(found)) => {
                match &found {
                    Pointer::File(path) => assert!(path.starts_with('/')),
                    Pointer::Url(url) => assert_eq!(values::not_a_url(url), None),
                }
                // The last one counts, and what stands before it says nothing.
                let longer = format!("muster.config=/first quiet {text}");
                assert_eq!(pointer(&longer), Ok(Some(found)), "{longer:?}");
                true
            }
        },
        _ => false,
    };
    if taken { Said::Accepted } else { Said::Refused }
}
