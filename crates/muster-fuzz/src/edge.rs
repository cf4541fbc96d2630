//! What a node's daemon reads: request lines of clients, and the frames between its two processes.

use crate::{Said, refused};
use musterd::edge::ask::{Wanted, methods, read};
use musterd::edge::heads::Heads;
use musterd::fetch::words;
use musterd::wire::{self, Hello, Kind, MAX_FRAME, Reply, ToCore, ToEdge};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// `METHOD target`. What is taken is an operation of the table, in the one spelling that it has: no other path, and no path that
/// somebody else would read as another one.
pub fn request_line(data: &[u8]) -> Said {
    heads(data);
    let Ok(text) = core::str::from_utf8(data) else { return Said::Refused };
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let wanted = match read(method, target) {
        Ok(wanted) => wanted,
        Err(fault) => {
            assert!(matches!(fault.kind.status(), 400 | 404 | 405));
            return refused(&fault);
        }
    };
    assert!(path.starts_with('/') && !path.ends_with('/') && !path.contains("//"));
    assert!(!path.contains(['%', ';', '\\']) && path.is_ascii());
    assert!(!path.split('/').any(|s| matches!(s, "." | "..")));
    assert!(methods(path).split(", ").any(|m| m == method));
    match wanted {
        Wanted::Enroll => assert_eq!((method, target), ("POST", muster_api::ENROLL)),
        Wanted::Call { route, ask, request } => {
            assert_eq!(ask.operation(), route.operation);
            assert_eq!(request, text);
            let mut names: Vec<&str> = query.split('&').filter_map(|p| Some(p.split_once('=')?.0)).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "a name twice");
            assert!(names.iter().all(|n| route.query.contains(n)));
            // A path of another case, or a prefix of it, is another path.
            assert!(read(method, &target.replacen("/v1/", "/V1/", 1)).is_err());
            let sent = wire::parse::<wire::Ask>(&serde_json::to_vec(&ask).expect("text and numbers"));
            assert_eq!(sent.ok(), Some(ask));
        }
    }
    Said::Accepted
}

/// A connection between edge and core, read to its end: a frame has one spelling, and a message that is taken says the same
/// when it is written again.
pub fn frames(data: &[u8]) -> Said {
    let mut from = data;
    let mut messages = 0;
    loop {
        let before = from;
        let (kind, content) = match wire::read(&mut from) {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(why) => return refused(&why),
        };
        assert!(content.len() <= MAX_FRAME);
        let again = wire::frame(kind, &content).expect("it was one");
        assert_eq!(before.strip_prefix(again.as_slice()), Some(from));
        if kind == Kind::Message {
            let known = [
                same::<Hello>(&content),
                same::<ToCore>(&content),
                same::<ToEdge>(&content),
                same::<Reply>(&content),
                same::<words::Wanted>(&content),
                same::<words::Told>(&content),
            ];
            if known.iter().all(Option::is_none) {
                return Said::Refused;
            }
            messages += 1;
        }
    }
    if messages > 0 { Said::Accepted } else { Said::Refused }
}

fn same<T: DeserializeOwned + Serialize>(content: &[u8]) -> Option<()> {
    let value: T = match wire::parse(content) {
        Ok(value) => value,
        Err(why) => {
            refused(&why);
            return None;
        }
    };
    let text = serde_json::to_vec(&value).expect("what was read");
    let again: T = wire::parse(&text).expect("what we wrote");
    assert_eq!(serde_json::to_vec(&again).expect("what was read"), text);
    Some(())
}

/// What is told of heads does not depend on how their bytes come.
fn heads(data: &[u8]) {
    let told = |pieces: &[&[u8]]| {
        let (mut heads, mut all) = (Heads::default(), Vec::new());
        pieces.iter().for_each(|piece| heads.see(piece, |taken| all.push(taken)));
        all
    };
    let whole = told(&[data]);
    let (front, back) = data.split_at(data.len() / 2);
    assert_eq!(whole, told(&[front, back]));
    assert_eq!(whole, told(&data.chunks(1).collect::<Vec<_>>()));
    assert!(whole.len() <= data.len());
}
