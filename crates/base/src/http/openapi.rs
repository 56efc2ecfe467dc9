//! The OpenAPI document, made from the route table and the types, never from prose: it can be incomplete, but it
//! cannot be wrong.

use http::StatusCode;
use model::node_api::ErrorAnswer;
use model::signal::Code;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::rate;
use super::route::{Access, KeyUse, RouteInfo};
use super::version;
use crate::idempotency;

const REPLAYED: &str = "Idempotency-Replayed";

/// What the document says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    pub title: &'static str,
    pub version: &'static str,
    pub description: &'static str,
}

/// OpenAPI 3.1 for these routes, keys sorted, so that the golden file changes only where the API does.
pub fn openapi(routes: &[RouteInfo], info: &Info) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let error = generator.subschema_for::<ErrorAnswer>();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let operation = operation(route, &mut generator, &error);
        let path = paths.entry(route.path.to_owned()).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": { "title": info.title, "version": info.version, "description": info.description },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "headers": rate_headers(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "An operator's token, `gpuaas_…`." },
                "certificate": { "type": "mutualTLS", "description": "A client certificate that names its role." },
            },
        },
    });
    sort(&mut document);
    document
}

fn operation(route: &RouteInfo, generator: &mut SchemaGenerator, error: &Schema) -> Value {
    let mut answers = Map::new();
    for (status, schema) in &route.answers {
        let mut answer = json!({ "description": status.canonical_reason().unwrap_or("success") });
        if let Some(schema) = schema {
            answer["content"] = json!({ "application/json": { "schema": schema(generator) } });
            if route.versioned {
                let tag = json!({ "type": "string", "pattern": "^\"[0-9]+\"$" });
                answer["headers"] = json!({ "ETag": { "description": "Its version.", "schema": tag } });
            }
        }
        if matches!(route.key, KeyUse::Optional | KeyUse::Required) {
            answer["headers"][REPLAYED] = json!({
                "description": "Only on an answer that was given before, under the same key.",
                "schema": { "type": "string", "const": "true" },
            });
        }
        answers.insert(status.as_u16().to_string(), answer);
    }
    if let Some(schema) = route.streams {
        let content = json!({ "text/event-stream": { "schema": { "type": "string" }, "x-data": schema(generator) } });
        answers.insert("200".to_owned(), json!({ "description": "OK", "content": content }));
    }
    let mut codes: Vec<_> = route.fails.to_vec();
    if version::needs_version(&route.method) {
        codes.extend([Code::PreconditionRequired, Code::VersionConflict]);
    }
    if route.key != KeyUse::None {
        codes.extend([
            Code::IdempotencyKeyMissing,
            Code::IdempotencyKeyReused,
            Code::IdempotencyInFlight,
        ]);
    }
    if matches!(route.key, KeyUse::Optional | KeyUse::ToldOnce(_)) {
        codes.push(Code::IdempotencyAnswerGone);
    }
    codes.sort_by_key(|code| (code.status(), code.as_str()));
    for code in codes {
        let key = code.status().to_string();
        let text = format!("`{code}`: {}", code.meaning());
        let answer = answers.entry(key).or_insert_with(|| failure("", error));
        let before = answer["description"].as_str().unwrap_or_default();
        answer["description"] = json!(if before.is_empty() {
            text
        } else {
            format!("{before}\n{text}")
        });
    }
    answers
        .entry("default")
        .or_insert_with(|| failure("Any refusal or failure, with its stable code.", error));
    // Whoever comes with a certificate has a bucket, too, but is told only when it is empty.
    if !matches!(route.access, Access::Roles(_)) {
        for answer in answers.values_mut() {
            for name in [rate::LIMIT, rate::REMAINING, rate::RESET] {
                answer["headers"][name] = json!({ "$ref": format!("#/components/headers/{name}") });
            }
        }
    }

    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "security": security(route.access),
        "responses": answers,
    });
    let mut parameters = path_parameters(route.path);
    if version::needs_version(&route.method) {
        parameters.push(header(
            "If-Match",
            true,
            "The object's ETag, or `*` for whatever there is.",
        ));
    }
    if route.key != KeyUse::None {
        let what = "Of the caller's own: the same again is the same wish.";
        let what = match route.key {
            KeyUse::ToldOnce(why) => format!("{what} Its answer is told only once: {why}."),
            KeyUse::None | KeyUse::Optional | KeyUse::Required => what.to_owned(),
        };
        let mut key = header("Idempotency-Key", route.key == KeyUse::Required, &what);
        key["schema"]["pattern"] = json!(idempotency::PATTERN);
        parameters.push(key);
    }
    if route.streams.is_some() {
        parameters.push(header(
            "Last-Event-ID",
            false,
            "The `id:` of the last event that was seen.",
        ));
    }
    if let Some(schema) = route.searches {
        parameters.extend(query_parameters(&schema(generator)));
    }
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(schema) = route.takes {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema(generator) } } });
    }
    operation
}

/// What every answer to people tells about their bucket.
fn rate_headers() -> Value {
    let number = |description| json!({ "description": description, "schema": { "type": "integer", "minimum": 0 } });
    json!({
        rate::LIMIT: number("How many requests may come at once after a silence."),
        rate::REMAINING: number("How many of them are left."),
        rate::RESET: number("After so many seconds without a request all of them are there again."),
    })
}

fn failure(description: &str, error: &Schema) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": error } } })
}

fn security(access: Access) -> Value {
    match access {
        Access::Public => json!([]),
        Access::Scopes(scopes) => {
            json!([{ "token": scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>() }])
        }
        Access::Roles(roles) => {
            json!([{ "certificate": roles.iter().map(|role| role.as_str()).collect::<Vec<_>>() }])
        }
    }
}

fn operation_id(route: &RouteInfo) -> String {
    let words = route
        .path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let path: Vec<&str> = words.collect();
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), path.join("_"))
}

fn path_parameters(path: &str) -> Vec<Value> {
    path.split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect()
}

fn header(name: &str, required: bool, description: &str) -> Value {
    json!({ "name": name, "in": "header", "required": required, "description": description, "schema": { "type": "string" } })
}

fn query_parameters(schema: &Schema) -> Vec<Value> {
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return Vec::new();
    };
    properties
        .iter()
        .map(|(name, schema)| {
            let must = required
                .as_array()
                .is_some_and(|list| list.iter().any(|one| one == name));
            json!({ "name": name, "in": "query", "required": must, "schema": schema })
        })
        .collect()
}

/// serde_json keeps insertion order only when asked; here order must not depend on who asked.
fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(sort);
            map.sort_keys();
        }
        Value::Array(list) => list.iter_mut().for_each(sort),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The statuses that a route documents, for tests.
impl RouteInfo {
    /// Its answer goes on for as long as somebody listens.
    pub fn is_stream(&self) -> bool {
        self.streams.is_some()
    }

    pub fn statuses(&self) -> impl Iterator<Item = StatusCode> {
        self.answers.iter().map(|(status, _)| *status)
    }
}
