//! What a node's operations read: the signing policy of images, and what tools print.

use crate::Said;
use muster_api::logs::{MAX_MESSAGE, Record};
use musterd::ops::logs::record::{Found, parse};
use musterd::ops::upgrade::policy::{Policy, Verdict};
use musterd::ops::upgrade::reference::Reference;
use musterd::ops::upgrade::{Images, bootc};
use serde_json::Value;

/// A line with an image's name, then a policy. The name has one spelling, and the scope that decides is the one that another
/// reading of the manual finds.
pub fn image_policy(data: &[u8]) -> Said {
    let mut parts = data.splitn(2, |b| *b == b'\n');
    let (name, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let image = core::str::from_utf8(name).ok().and_then(|n| Reference::parse(n).ok());
    if let Some(image) = &image {
        assert_eq!(Reference::parse(image.as_str()).as_ref(), Ok(image));
        assert!(image.as_str().bytes().all(|b| b.is_ascii_graphic()) && !image.as_str().starts_with('-'));
        assert!(image.as_str().starts_with(image.name()) && image.name().starts_with(image.host()));
    }
    let policy = match Policy::parse(text) {
        Ok(policy) => policy,
        Err(line) => {
            assert!(line.len() < 200 && !line.contains('\n'));
            return Said::Refused;
        }
    };
    let Some(image) = image else { return Said::Refused };
    let value: Value = serde_json::from_slice(text).expect("a policy is JSON");
    let list = listed(&value, &image).as_array().expect("a list of requirements");
    let has = |kind: &str| list.iter().any(|r| r.get("type").and_then(Value::as_str) == Some(kind));
    let verdict = if has("reject") {
        Verdict::Rejected
    } else if has("signedBy") || has("sigstoreSigned") {
        Verdict::Signed
    } else {
        Verdict::Unsigned
    };
    assert_eq!(policy.judge(&image), verdict);
    Said::Accepted
}

/// The list that decides: the longest name that the image is or is below, then the longest domain, then the transport's, then
/// the default.
fn listed<'v>(policy: &'v Value, image: &Reference) -> &'v Value {
    let default = policy.get("default").expect("a policy has one");
    let Some(scopes) = policy.pointer("/transports/docker").and_then(Value::as_object) else {
        return default;
    };
    let name = image.name();
    let domain = image.host().split(':').next().unwrap_or_default();
    let rank = |scope: &str| -> Option<(u8, usize)> {
        if scope == image.exact() {
            Some((4, 0))
        } else if scope == name || (!scope.is_empty() && name.starts_with(&format!("{scope}/"))) {
            Some((3, scope.len()))
        } else if scope
            .strip_prefix('*')
            .is_some_and(|d| d.starts_with('.') && d.len() > 1 && domain.ends_with(d))
        {
            Some((2, scope.len()))
        } else if scope.is_empty() {
            Some((1, 0))
        } else {
            None
        }
    };
    let best = scopes.iter().filter_map(|(s, list)| rank(s).map(|r| (r, list))).max_by_key(|(r, _)| *r);
    best.map_or(default, |(_, list)| list)
}

/// What is told of an image is one short line each; a member more changes nothing.
pub fn bootc_status(data: &[u8]) -> Said {
    let images = match bootc::parse(data) {
        Ok(images) => images,
        Err(line) => {
            assert!(line.len() < 200 && !line.contains('\n'));
            return Said::Refused;
        }
    };
    let Images { booted, staged, rollback, rollback_queued: _, followed } = &images;
    assert!(followed.as_ref().is_none_or(|name| name.len() <= 512));
    for image in [booted, staged, rollback].into_iter().flatten() {
        for text in [&image.image, &image.digest, &image.version].into_iter().flatten() {
            assert!(!text.is_empty() && text.len() <= 512 && !text.contains(|c: char| c.is_control()));
        }
    }
    let mut value: Value = serde_json::from_slice(data).expect("a status is JSON");
    let status = value.get_mut("status").and_then(Value::as_object_mut).expect("a status was read");
    status.insert("more".to_owned(), Value::from(1));
    let again = serde_json::to_vec(&value).expect("a value is JSON");
    assert_eq!(bootc::parse(&again), Ok(images));
    Said::Accepted
}

/// What is told of a record is bounded and can be written again, also of one that was cut anywhere.
pub fn journal_record(data: &[u8]) -> Said {
    let (at, line) = data.split_first().map_or((0, data), |(n, rest)| (usize::from(*n) * 16, rest));
    let sound = |found: &Found| {
        let record = &found.record;
        let text = serde_json::to_vec(record).expect("our own type");
        assert!(!text.contains(&b'\n'), "one record is one line");
        assert_eq!(&serde_json::from_slice::<Record>(&text).expect("our own text"), record);
        assert!(record.message.len() <= MAX_MESSAGE && record.priority <= 7 && record.time.ends_with('Z'));
        let plain = |u: &String| u.len() <= 255 && !u.contains(|c: char| c.is_control());
        assert!(record.unit.as_ref().is_none_or(plain));
    };
    let (head, tail) = line.split_at(at.min(line.len()));
    for (head, tail) in [(head, tail), (line, b"".as_slice())] {
        if let Some(found) = parse(head, Some(tail)) {
            sound(&found);
            assert!(found.record.truncated);
        }
    }
    match parse(line, None) {
        Some(found) => {
            sound(&found);
            Said::Accepted
        }
        None => Said::Refused,
    }
}
