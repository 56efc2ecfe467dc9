//! The document of events, made from the table: what is told, to whom, and the shape of its data. An event that nothing
//! tells yet says so.

use model::api::EventView;
use model::event::{EVENTS, EventType};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// AsyncAPI 3.0, keys sorted, so that the golden file changes only where the events do.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let envelope = generator.subschema_for::<EventView>();
    let (mut messages, mut refs) = (Map::new(), Map::new());
    for one in EVENTS {
        messages.insert(one.name.to_owned(), message(one, &mut generator, json!(envelope)));
        refs.insert(
            one.name.to_owned(),
            json!({ "$ref": format!("#/components/messages/{}", one.name) }),
        );
    }
    let mut document = json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "gpuaas events",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Everything that is told over `GET /v1/events`. The `id:` of a message is its place in the one order; whoever counts, counts by the `id` in the envelope.",
        },
        "defaultContentType": "application/json",
        "channels": { "events": { "address": "/v1/events", "messages": refs } },
        "operations": { "hear": { "action": "receive", "channel": { "$ref": "#/channels/events" } } },
        "components": { "messages": messages, "schemas": generator.take_definitions(true) },
    });
    tidy(&mut document);
    document
}

fn message(one: &EventType, generator: &mut SchemaGenerator, envelope: Value) -> Value {
    let data = (one.schema)(generator);
    json!({
        "name": one.name,
        "summary": one.summary,
        "x-emitted": one.emitted,
        "x-audience": one.audience.as_str(),
        "x-operators-only": one.hides,
        "payload": {
            "allOf": [envelope],
            "properties": {
                "type": { "const": one.name },
                "version": { "const": one.version },
                "subject": { "properties": { "kind": { "const": one.subject } } },
                "data": data,
            },
        },
    })
}

/// In one order, and open: what we tell is checked to be exactly this, but readers have to bear more.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("additionalProperties");
            map.values_mut().for_each(tidy);
            map.sort_keys();
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
