//! The published JSON Schema (draft 2020-12), made of the table of keys.

use crate::keys::{Form, Key, TOP};
use serde_json::{Map, Value, json};

/// The schema of a document, in both its shapes: under `muster:` in a cloud-config, or alone.
///
/// It knows each key and the form of its value. What follows from several keys together (a worker needs a token) only the
/// reader knows.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "muster document",
        "description": "What a node shall be, and whom it shall obey.",
        "$defs": {"document": mapping(TOP)},
        "if": {"required": ["muster"]},
        "then": {"properties": {"muster": {"$ref": "#/$defs/document"}}},
        "else": {"$ref": "#/$defs/document"},
    })
}

fn mapping(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| {
            let mut value = form(&key.form);
            if let Some(object) = value.as_object_mut() {
                object.insert("description".to_owned(), json!(key.doc));
            }
            (key.name.to_owned(), value)
        })
        .collect();
    json!({"type": ["object", "null"], "additionalProperties": false, "properties": properties})
}

fn form(form: &Form) -> Value {
    match form {
        // YAML reads a bare 1.10 as a number; the reader takes it as text.
        Form::Text(None) => json!({"type": ["string", "number", "boolean"]}),
        Form::Text(Some(pattern)) => json!({"type": "string", "pattern": format!("^(?:{pattern})$")}),
        Form::Flag => json!({"type": "boolean"}),
        Form::Word(words) => json!({"enum": words}),
        Form::Span => json!({"type": "string", "pattern": "^([0-9]+[smhd])+$"}),
        Form::Pem => json!({"type": "string", "contentMediaType": "application/x-pem-file"}),
        Form::Many(one) => {
            let one = self::form(one);
            json!({"anyOf": [one, {"type": "array", "items": one}]})
        }
        Form::Rows(keys) => json!({"type": "array", "items": mapping(keys)}),
        Form::Free(one) => json!({"type": ["object", "null"], "additionalProperties": self::form(one)}),
        Form::Keys(keys) => mapping(keys),
    }
}
