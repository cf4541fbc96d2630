//! The API's description (OpenAPI 3.1), out of the table of routes and the types of the bodies.
//!
//! For whoever writes another client, and for programs that try a node against it. Which body belongs to which operation stands
//! here and nowhere else; the table's order and the types' names make the text, so that it changes only when the API does.

use muster_core::operation::Audit;
use muster_core::{Danger, Operation};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::{
    AUDIT_HEADER, Answer, ENROLL, Fault, NDJSON, Nonce, PROOF_HEADER, ROUTES, Route, access, lifecycle, logs,
    node, ownership, services, upgrade,
};

/// All schemas by name.
type Schemas = Map<String, Value>;

/// What stands in a request, and in a success.
struct Bodies {
    /// Media types that are taken, each with its schema; none where there is no body.
    request: Vec<(&'static str, Value)>,
    status: u16,
    answer: Value,
}

/// The whole description.
#[must_use]
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for route in ROUTES {
        let method = route.method.as_str().to_ascii_lowercase();
        let described = operation(route, &mut schemas);
        // Two rows with one method are told apart by their query, and are one to whoever calls: the later, plainer one.
        if let Some(item) = paths.entry(route.path).or_insert_with(|| json!({})).as_object_mut() {
            item.insert(method, described);
        }
    }
    paths.insert(ENROLL.to_owned(), json!({ "post": enroll(&mut schemas) }));
    schema::<Fault>(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Muster node API",
            "version": "1",
            "description": "TLS 1.3; a client shows a certificate of the node's operators, whose role (O) decides what it may. \
                A path and a query have one spelling; every other one is refused. While nobody owns the node it answers \
                `POST /v1/enroll` and nothing else.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{
            "url": "https://{node}:7443",
            "variables": { "node": { "default": "localhost", "description": "The node's address." } },
        }],
        "security": [{ "operator": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "operator": { "type": "mutualTLS" } },
        },
    })
}

/// A type's schema, kept under its name with those that it needs; and the way to it.
fn schema<T: ToSchema>(all: &mut Schemas) -> Value {
    let mut needed = Vec::new();
    T::schemas(&mut needed);
    needed.push((T::name().into_owned(), T::schema()));
    for (name, schema) in needed {
        // A schema is plain data, which always has a form in JSON.
        all.insert(name, serde_json::to_value(schema).unwrap_or_default());
    }
    json!({ "$ref": format!("#/components/schemas/{}", T::name()) })
}

fn json_body<T: ToSchema>(all: &mut Schemas) -> Vec<(&'static str, Value)> {
    vec![("application/json", schema::<T>(all))]
}

/// A record of the audit; an event may have more of its own.
fn audit_record() -> Value {
    let text = |what: &str| json!({ "type": "string", "description": what });
    json!({
        "type": "object",
        "required": ["seq", "prev", "event", "time"],
        "properties": {
            "seq": { "type": "integer", "minimum": 1, "description": "Number of the record." },
            "prev": text("SHA-256 of the record before it, hex."),
            "event": text("`call`, `handshake`, `enroll`, …"),
            "time": text("YYYY-MM-DDThh:mm:ssZ, by the node's clock."),
            "boot": text("Of which boot."),
            "call": text("Of which call: its intent and its outcome have one."),
            "op": text("The operation."),
            "decision": text("`allowed`, `denied` or `failed`."),
            "reason": text("Stable word."),
            "status": { "type": "integer", "description": "What the call was answered." },
            "request": text("Method, path and query."),
            "claimedByEdge": text("Where from, as the edge said."),
            "who": {
                "type": "object",
                "properties": {
                    "name": text("The certificate's name (CN)."),
                    "role": text("Its role (O)."),
                    "serial": text("Its serial number, hex."),
                    "certificate": text("Its fingerprint."),
                },
            },
        },
    })
}

fn bodies(operation: Operation, all: &mut Schemas) -> Bodies {
    use Operation as O;
    let answers = |answer| Bodies { request: Vec::new(), status: 200, answer };
    let text = || json!({ "type": "string" });
    match operation {
        O::Health => answers(schema::<node::Health>(all)),
        O::NodeState => answers(schema::<node::Node>(all)),
        O::Services => answers(schema::<services::Services>(all)),
        O::Logs => answers(schema::<logs::Record>(all)),
        O::SshKeys => answers(schema::<access::SshKeys>(all)),
        O::AuditRead => answers(audit_record()),
        O::ProofNonce => answers(schema::<Nonce>(all)),
        O::ServiceRestart => answers(schema::<services::Service>(all)),
        O::UpgradeStage => {
            let request = json_body::<upgrade::StageRequest>(all);
            Bodies { request, ..answers(schema::<upgrade::StageEvent>(all)) }
        }
        O::UpgradeApply | O::Reboot | O::Shutdown => {
            Bodies { status: 202, ..answers(schema::<lifecycle::Status>(all)) }
        }
        O::UpgradeRollback => answers(schema::<lifecycle::Status>(all)),
        O::Reset => {
            let request = json_body::<lifecycle::ResetRequest>(all);
            Bodies { request, status: 202, answer: schema::<lifecycle::Status>(all) }
        }
        O::ConfigApply => {
            let request = json_body::<ownership::ConfigRequest>(all);
            Bodies { request, ..answers(schema::<ownership::ConfigAnswer>(all)) }
        }
        O::CaRotate => {
            let request = json_body::<ownership::RotateRequest>(all);
            Bodies { request, ..answers(schema::<ownership::RotateAnswer>(all)) }
        }
        O::CrlUpload => {
            let pem = json!({ "type": "string", "description": "A revocation list, PEM." });
            // RFC 2585, 4.2: this media type is DER.
            let der =
                json!({ "type": "string", "format": "binary", "description": "A revocation list, DER." });
            let request = vec![("text/plain", pem), ("application/pkix-crl", der)];
            Bodies { request, ..answers(schema::<ownership::ListAnswer>(all)) }
        }
        O::SshKeyAdd => {
            let request = json_body::<access::SshKeyRequest>(all);
            Bodies { request, ..answers(schema::<access::SshKey>(all)) }
        }
        O::SshKeyRemove => answers(schema::<access::SshRevoked>(all)),
        // Of a cluster, and refused where there is none; their answers are described with it.
        O::Cordon | O::Uncordon | O::Drain => answers(schema::<lifecycle::Status>(all)),
        O::EtcdState => answers(json!({ "type": "object" })),
        O::Kubeconfig | O::JoinToken => answers(text()),
    }
}

/// A name of a query: its schema, its meaning, and whether a call must have it.
fn query(operation: Operation, name: &str) -> (Value, &'static str, bool) {
    // What the edge takes as a value: visible characters of ASCII are a part of it that every client can send.
    let text = json!({ "type": "string", "pattern": "^[!-~]+$", "maxLength": 253 });
    let flag = json!({ "type": "string", "enum": ["true", "false"] });
    let duration = json!({ "type": "string", "pattern": "^[1-9][0-9]{0,5}[smhd]$" });
    let number = |most: u64| json!({ "type": "integer", "minimum": 0, "maximum": most });
    match name {
        "unit" => (text, "A unit of the node's list, or `kernel`; all of the list when absent.", false),
        "lines" => (number(u32::MAX.into()), "How many of the newest.", false),
        "since" => (duration, "So far back from now.", false),
        "follow" => (flag, "Goes on with what comes.", false),
        "after" => (number(u64::MAX), "After this number.", false),
        "discard" => (flag, "Also where an image is staged, which a rollback takes away.", false),
        "undo" => (flag, "The other way.", false),
        "server" => (text, "What to write as the server.", false),
        "role" => (json!({ "type": "string", "enum": ["worker", "controlplane"] }), "For which role.", false),
        "expiry" => (duration, "Good for so long.", false),
        "fingerprint" => (text, "`SHA256:…` of the key.", operation == Operation::SshKeyRemove),
        _ => (text, "", false),
    }
}

fn operation(route: &Route, all: &mut Schemas) -> Value {
    let row = route.operation.row();
    let bodies = bodies(route.operation, all);
    let mut parameters: Vec<Value> = Vec::new();
    if let Some((_, rest)) = route.path.split_once('{')
        && let Some((name, _)) = rest.split_once('}')
    {
        let schema = json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 253 });
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    for name in route.query {
        let (schema, description, required) = query(route.operation, name);
        parameters.push(json!({
            "name": name, "in": "query", "required": required, "description": description, "schema": schema,
        }));
    }
    if route.operation.wants_proof() {
        let description = "The request's own signature; a node may demand it.";
        let schema = json!({ "type": "string", "maxLength": 4096 });
        parameters.push(json!({
            "name": PROOF_HEADER, "in": "header", "required": false, "description": description, "schema": schema,
        }));
    }
    let media = match route.answer {
        Answer::Json => "application/json",
        Answer::Stream => NDJSON,
        Answer::Yaml => "application/yaml",
        Answer::Text => "text/plain; charset=utf-8",
    };
    let what = if route.answer == Answer::Stream { "One value on a line, as they come." } else { "Done." };
    let mut out = json!({
        "operationId": row.name,
        "summary": row.what,
        "parameters": parameters,
        "responses": responses(bodies.status, what, media, &bodies.answer),
        "x-muster-role": row.role.organisation(),
        "x-muster-danger": danger(row.danger),
        "x-muster-deadline-seconds": row.deadline,
        "x-muster-audit-first": row.audit != Audit::Spooled,
        "x-muster-max-body": route.body,
    });
    if let (false, Some(members)) = (bodies.request.is_empty(), out.as_object_mut()) {
        let schemas =
            bodies.request.into_iter().map(|(media, schema)| (media.to_owned(), json!({ "schema": schema })));
        let body = json!({ "required": true, "content": schemas.collect::<Map<_, _>>() });
        members.insert("requestBody".to_owned(), body);
    }
    out
}

const fn danger(danger: Danger) -> &'static str {
    match danger {
        Danger::Reads => "reads",
        Danger::Changes => "changes",
        Danger::Destroys => "destroys",
        Danger::HandsOverSecrets => "hands over secrets",
    }
}

fn responses(status: u16, what: &str, media: &str, answer: &Value) -> Value {
    let head = json!({ "description": "The newest record of the node's audit chain: `SEQ:HASH`.", "schema": { "type": "string" } });
    let fault = |why: &str| {
        json!({
            "description": why,
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Fault" } } },
        })
    };
    json!({
        status.to_string(): {
            "description": what,
            "headers": { AUDIT_HEADER: head },
            "content": { media: { "schema": answer } },
        },
        "431": { "description": "The head of the request is too long." },
        "4XX": fault("The caller's: what was typed (400), who calls (401), what it may (403), what there is (404, 405), the node's state (409), too long (413), too slow (408), too often (429)."),
        "5XX": fault("The node's: it failed (500), or cannot answer now (503)."),
    })
}

/// The pairing: three bodies of one path (see the module `muster_pairing::message`).
fn enroll(all: &mut Schemas) -> Value {
    let bytes = json!({ "type": "string", "contentEncoding": "base64" });
    let text = json!({ "type": "string" });
    let claim = json!({ "operatorCA": text, "document": text, "acknowledge": { "type": "boolean" } });
    let object = |required: &[&str], own: Value, with_claim: bool| {
        let mut properties = own;
        if let (true, Some(all), Some(claim)) = (with_claim, properties.as_object_mut(), claim.as_object()) {
            all.extend(claim.clone());
        }
        json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
    };
    let request = json!({ "oneOf": [
        object(&["step", "share"], json!({ "step": { "const": 1 }, "share": bytes }), false),
        object(
            &["step", "session", "confirm", "operatorCA"],
            json!({ "step": { "const": 2 }, "session": bytes, "confirm": bytes }),
            true,
        ),
        object(&["open", "operatorCA"], json!({ "open": { "const": true } }), true),
    ] });
    let answer = json!({ "oneOf": [
        { "type": "object", "required": ["session", "share"], "properties": { "session": bytes, "share": bytes } },
        {
            "type": "object",
            "required": ["enrolled", "operatorCA"],
            "properties": {
                "enrolled": { "const": true },
                "operatorCA": text,
                "warnings": { "type": "array", "items": text },
                "confirm": bytes,
            },
        },
    ] });
    all.insert("EnrollRequest".to_owned(), request);
    all.insert("EnrollAnswer".to_owned(), answer);
    let of = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    json!({
        "operationId": "enroll",
        "summary": "claim a node that nobody owns, with the code from its console",
        "security": [],
        "requestBody": { "required": true, "content": { "application/json": { "schema": of("EnrollRequest") } } },
        "responses": responses(200, "A step of the pairing.", "application/json", &of("EnrollAnswer")),
    })
}
