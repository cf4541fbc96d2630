//! `docs/openapi/node.json` is what the routes and types say, and takes nothing away from what was released.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use muster_api::openapi::document;
use muster_api::{ENROLL, Method, ROUTES};
use serde_json::{Value, json};

/// What is served now.
const NOW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi/node.json");
/// What was released last. Replaced at a release (MUSTER_WRITE_OPENAPI=released), and before the first one when the API is changed on purpose.
const RELEASED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi/node.released.json");

fn read(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).expect(file)).expect("JSON")
}

#[test]
fn the_description_is_what_the_routes_say() {
    let want = format!("{}\n", serde_json::to_string_pretty(&document()).expect("JSON"));
    let write = std::env::var("MUSTER_WRITE_OPENAPI").unwrap_or_default();
    for file in [NOW].into_iter().chain((write == "released").then_some(RELEASED)) {
        if !write.is_empty() {
            std::fs::write(file, &want).expect(file);
        }
    }
    let have = std::fs::read_to_string(NOW).unwrap_or_default();
    assert!(have == want, "docs/openapi/node.json is another: run this test with MUSTER_WRITE_OPENAPI=1");
}

#[test]
fn every_route_is_described_with_its_role_and_query() {
    let all = document();
    for route in ROUTES {
        let item = &all["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
        assert!(item["summary"].is_string(), "{}", route.path);
        let role = item["x-muster-role"].as_str().expect("a role");
        assert_eq!(role, route.operation.row().role.organisation());
        let names: Vec<&str> = item["parameters"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|p| p["in"] == "query")
            .map(|p| {
                assert_ne!(p["description"], "", "{}: a name nobody described", route.path);
                p["name"].as_str().expect("a name")
            })
            .collect();
        assert_eq!(names, route.query);
        assert_eq!(item["requestBody"].is_null(), route.body == 0, "{}", route.path);
    }
    let paths: BTreeSet<&str> = ROUTES.iter().map(|r| r.path).chain([ENROLL]).collect();
    assert_eq!(all["paths"].as_object().expect("paths").len(), paths.len());
}

#[test]
fn every_reference_leads_to_a_schema() {
    fn walk(value: &Value, all: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(to) = members.get("$ref").and_then(Value::as_str) {
                    let pointer = to.strip_prefix('#').expect("within the document");
                    assert!(all.pointer(pointer).is_some_and(Value::is_object), "{to}");
                }
                members.values().for_each(|v| walk(v, all));
            }
            Value::Array(items) => items.iter().for_each(|v| walk(v, all)),
            _ => {}
        }
    }
    let all = document();
    walk(&all, &all);
}

#[test]
fn nothing_that_was_released_is_taken_away() {
    let broken = breaks(&read(RELEASED), &read(NOW));
    assert!(broken.is_empty(), "this breaks clients that there are: {broken:#?}");
}

/// What a client of `old` could stumble over in `new`.
fn breaks(old: &Value, new: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (path, item) in members(&old["paths"]) {
        for (method, was) in members(item).filter(|(m, _)| Method::of(&m.to_ascii_uppercase()).is_some()) {
            let at = format!("{} {path}", method.to_ascii_uppercase());
            let is = &new["paths"][path][method];
            if is.is_null() {
                out.push(format!("{at} is gone"));
                continue;
            }
            parameters(was, is, &at, &mut out);
            let body = |v: &Value| v.pointer("/requestBody/content").cloned().unwrap_or(Value::Null);
            contents((old, &body(was)), (new, &body(is)), &format!("{at}, request"), true, &mut out);
            if body(was).is_null() && is["requestBody"]["required"] == true {
                out.push(format!("{at} must have a body now"));
            }
            for (status, answer) in members(&was["responses"]) {
                let now = &is["responses"][status];
                if now.is_null() {
                    out.push(format!("{at} answers {status} no more"));
                }
                let (answer, now) = (&answer["content"], &now["content"]);
                contents((old, answer), (new, now), &format!("{at}, {status}"), false, &mut out);
            }
        }
    }
    out
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn parameters(was: &Value, is: &Value, at: &str, out: &mut Vec<String>) {
    let list = |v: &Value| v["parameters"].as_array().cloned().unwrap_or_default();
    let (was, is) = (list(was), list(is));
    let find = |all: &[Value], one: &Value| {
        all.iter().find(|p| p["name"] == one["name"] && p["in"] == one["in"]).cloned()
    };
    for one in &was {
        match find(&is, one) {
            None => out.push(format!("{at} takes {} no more", one["name"])),
            Some(now) if now["schema"] != one["schema"] => {
                out.push(format!("{at} takes {} in another form", one["name"]));
            }
            Some(_) => {}
        }
    }
    for one in is.iter().filter(|p| p["required"] == true) {
        if find(&was, one).is_none_or(|before| before["required"] != true) {
            out.push(format!("{at} must have {} now", one["name"]));
        }
    }
}

fn contents(
    (old, was): (&Value, &Value),
    (new, is): (&Value, &Value),
    at: &str,
    sent: bool,
    out: &mut Vec<String>,
) {
    for (media, content) in members(was) {
        let now = &is[media];
        if now.is_null() {
            out.push(format!("{at} is {media} no more"));
            continue;
        }
        schemas((old, &content["schema"]), (new, &now["schema"]), at, sent, out);
    }
}

fn resolved<'v>(all: &'v Value, schema: &'v Value) -> &'v Value {
    match schema["$ref"].as_str().and_then(|r| r.strip_prefix('#')) {
        Some(pointer) => all.pointer(pointer).unwrap_or(schema),
        None => schema,
    }
}

/// `sent`: by the client. What it sends must go on being taken; what it gets must go on being there.
fn schemas(
    (old, was): (&Value, &Value),
    (new, is): (&Value, &Value),
    at: &str,
    sent: bool,
    out: &mut Vec<String>,
) {
    let (was, is) = (resolved(old, was), resolved(new, is));
    if was["type"] != is["type"] {
        out.push(format!("{at} has the type {} and had {}", is["type"], was["type"]));
        return;
    }
    for word in ["enum", "const", "pattern"] {
        if was[word] != is[word] {
            out.push(format!("{at} has another {word}"));
        }
    }
    let required = |v: &Value| -> BTreeSet<String> {
        let list = v["required"].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let (must, did) = (required(is), required(was));
    let names = if sent { must.difference(&did) } else { did.difference(&must) };
    for name in names {
        let what = if sent { "must be there now" } else { "may be missing now" };
        out.push(format!("{at}: `{name}` {what}"));
    }
    for (name, property) in members(&was["properties"]) {
        match is["properties"].get(name) {
            None => out.push(format!("{at}: `{name}` is gone")),
            Some(now) => schemas((old, property), (new, now), &format!("{at}.{name}"), sent, out),
        }
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        let count = |v: &Value| v[list].as_array().cloned().unwrap_or_default();
        let (before, after) = (count(was), count(is));
        // A client that gets another kind cannot read it; one that sends may have more to choose from.
        if before.len() > after.len() || (!sent && after.len() > before.len()) {
            out.push(format!("{at} has {} kinds and had {}", after.len(), before.len()));
        }
        for (n, (a, b)) in before.iter().zip(&after).enumerate() {
            schemas((old, a), (new, b), &format!("{at}, kind {n}"), sent, out);
        }
    }
    if !was["items"].is_null() {
        schemas((old, &was["items"]), (new, &is["items"]), &format!("{at}[]"), sent, out);
    }
}

/// A document changed at a place.
fn changed(pointer: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut all = document();
    change(all.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")));
    all
}

fn remove(name: &'static str) -> impl FnOnce(&mut Value) {
    move |v| {
        v.as_object_mut().expect("an object").remove(name).expect(name);
    }
}

#[test]
fn what_would_break_a_client_is_seen() {
    let now = document();
    assert_eq!(breaks(&now, &now), Vec::<String>::new());
    let stage = "/components/schemas/StageRequest";
    for (new, told) in [
        (changed("/paths", remove("/v1/node")), "GET /v1/node is gone"),
        (changed("/paths/~1v1~1access~1ssh", remove("delete")), "DELETE /v1/access/ssh is gone"),
        (
            changed("/paths/~1v1~1logs/get/parameters", |v| drop(v.as_array_mut().map(|v| v.remove(0)))),
            "GET /v1/logs takes \"unit\" no more",
        ),
        (
            changed("/paths/~1v1~1logs/get/parameters/0/required", |v| *v = json!(true)),
            "GET /v1/logs must have \"unit\" now",
        ),
        (
            changed("/paths/~1v1~1logs/get/parameters/1/schema/type", |v| *v = json!("string")),
            "GET /v1/logs takes \"lines\" in another form",
        ),
        (
            changed(&format!("{stage}/required"), |v| *v = json!(["image", "digest"])),
            "POST /v1/upgrade/stage, request: `digest` must be there now",
        ),
        (
            changed(&format!("{stage}/properties"), remove("image")),
            "POST /v1/upgrade/stage, request: `image` is gone",
        ),
        (
            changed("/components/schemas/Node/properties/os", |v| *v = json!({ "type": "string" })),
            "GET /v1/node, 200.os has the type \"string\" and had \"object\"",
        ),
        (
            changed("/components/schemas/Service/required", |v| *v = json!([])),
            "GET /v1/services, 200.services[]: `name` may be missing now",
        ),
        (
            changed("/paths/~1v1~1lifecycle~1reboot/post/responses", remove("202")),
            "POST /v1/lifecycle/reboot answers 202 no more",
        ),
        (
            changed("/components/schemas/Fault/properties", remove("reason")),
            "GET /v1/health, 4XX: `reason` is gone",
        ),
    ] {
        let seen = breaks(&now, &new);
        assert!(seen.iter().any(|s| s == told), "{told}: {seen:#?}");
    }
    // More of everything breaks nobody.
    let more = changed("/components/schemas/Node/properties", |v| v["new"] = json!({ "type": "string" }));
    assert_eq!(breaks(&now, &more), Vec::<String>::new());
}
