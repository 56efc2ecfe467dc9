//! The contract: what `/v1` and its events once promised in `openapi.v1.json` and `asyncapi.v1.json` still holds. A release
//! copies the documents there; nothing else writes them.

mod compare;

use std::collections::BTreeSet;
use std::path::PathBuf;

use compare::{Comparison, Way, list};
use control::{asyncapi, openapi};
use serde_json::{Value, json};

fn promised(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn v1_loses_nothing_and_asks_for_nothing_more() {
    let (old, new) = (promised("openapi.v1.json"), openapi::public());
    assert!(old["paths"].as_object().is_some_and(|paths| paths.len() > 30));
    let lost = routes_lost(&old, &new);
    assert!(lost.is_empty(), "v1 promised this: {lost:#?}");
}

#[test]
fn events_lose_nothing() {
    let (old, new) = (promised("asyncapi.v1.json"), asyncapi::document());
    let lost = events_lost(&old, &new);
    assert!(lost.is_empty(), "v1 promised this: {lost:#?}");
}

fn routes_lost(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Comparison::of(old, new);
    for (path, methods) in old["paths"].as_object().into_iter().flatten() {
        for (method, before) in methods.as_object().into_iter().flatten() {
            let place = format!("{method} {path}");
            match new.get("paths").and_then(|paths| paths.get(path)?.get(method)) {
                Some(after) => route(&mut found, &place, before, after),
                None => found.miss(&place, "it is gone"),
            }
        }
    }
    found.lost
}

fn route(found: &mut Comparison<'_>, place: &str, old: &Value, new: &Value) {
    doors(found, place, old, new);
    let named = |route: &Value, wanted: &Value| {
        let all = list(route, "parameters").iter();
        let mut same = all.filter(|one| one["name"] == wanted["name"] && one["in"] == wanted["in"]);
        same.next().cloned()
    };
    for before in list(old, "parameters") {
        let name = before["name"].as_str().unwrap_or_default();
        match named(new, before) {
            None => found.miss(place, &format!("{name} is no longer taken")),
            Some(after) => {
                if before["required"] != json!(true) && after["required"] == json!(true) {
                    found.miss(place, &format!("{name} has to be given"));
                }
                found.schema(
                    &format!("{place}?{name}"),
                    &before["schema"],
                    &after["schema"],
                    Way::Asked,
                );
            }
        }
    }
    for after in list(new, "parameters") {
        if after["required"] == json!(true) && named(old, after).is_none() && !demanded(old, after) {
            found.miss(place, &format!("{} has to be given", after["name"]));
        }
    }
    if old["requestBody"]["required"] != json!(true) && new["requestBody"]["required"] == json!(true) {
        found.miss(place, "it needs a body");
    }
    kinds(
        found,
        &format!("{place} asked"),
        &old["requestBody"],
        &new["requestBody"],
    );
    match (content(&old["requestBody"]), content(&new["requestBody"])) {
        (None, Some(_)) => found.miss(place, "it needs a body"),
        (Some(before), Some(after)) => found.schema(&format!("{place} asked"), before, after, Way::Asked),
        (_, None) => {}
    }
    for (status, before) in old["responses"].as_object().into_iter().flatten() {
        let Some(after) = new.get("responses").and_then(|all| all.get(status)) else {
            // A code that is answered no longer is missed by nobody; a success is.
            if status.starts_with('2') {
                found.miss(place, &format!("it no longer answers {status}"));
            }
            continue;
        };
        kinds(found, &format!("{place} {status}"), before, after);
        match (content(before), content(after)) {
            (Some(before), Some(after)) => found.schema(&format!("{place} {status}"), before, after, Way::Told),
            (Some(_), None) => found.miss(place, &format!("{status} has no body")),
            (None, _) => {}
        }
        for name in before["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            if after["headers"].get(name).is_none() {
                found.miss(place, &format!("{status} has no {name}"));
            }
        }
    }
}

/// Who may call it: each way in that stood open, with each scope that was enough, still is.
fn doors(found: &mut Comparison<'_>, place: &str, old: &Value, new: &Value) {
    let after = ways_in(new);
    if after.is_empty() {
        return;
    }
    let before = ways_in(old);
    if before.is_empty() {
        found.miss(place, "it is no longer open to everybody");
    }
    for way in before.difference(&after) {
        found.miss(place, &format!("{} is no longer enough", way.trim_end()));
    }
}

/// `token operator`, `certificate`: any one of them is enough. None at all: nobody is asked who they are.
fn ways_in(route: &Value) -> BTreeSet<String> {
    let all = list(route, "security").iter().filter_map(Value::as_object).flatten();
    let words = all.flat_map(|(scheme, scopes)| {
        let scopes = scopes.as_array().filter(|scopes| !scopes.is_empty());
        let named = |scope: &Value| format!("{scheme} {}", scope.as_str().unwrap_or_default());
        scopes.map_or_else(|| vec![scheme.clone()], |scopes| scopes.iter().map(named).collect())
    });
    words.collect()
}

/// JSON stays JSON, and a stream a stream.
fn kinds(found: &mut Comparison<'_>, place: &str, old: &Value, new: &Value) {
    for kind in old["content"].as_object().into_iter().flatten().map(|(kind, _)| kind) {
        if new["content"].as_object().is_some_and(|now| !now.contains_key(kind)) {
            found.miss(place, &format!("it is no longer {kind}"));
        }
    }
}

/// The older document already said in words that this header is needed. Whoever left it out was refused then, too.
fn demanded(route: &Value, header: &Value) -> bool {
    let words = format!("needs an {}", header["name"].as_str().unwrap_or_default());
    header["in"] == json!("header") && route["summary"].as_str().is_some_and(|text| text.ends_with(&words))
}

fn content(part: &Value) -> Option<&Value> {
    let kinds = part.get("content")?.as_object()?;
    kinds.values().next()?.get("schema")
}

fn events_lost(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Comparison::of(old, new);
    for (name, before) in old["components"]["messages"].as_object().into_iter().flatten() {
        let Some(after) = new["components"]["messages"].get(name) else {
            found.miss(name, "it is gone");
            continue;
        };
        if before["x-emitted"] == json!(true) && after["x-emitted"] != json!(true) {
            found.miss(name, "it is no longer told");
        }
        if before["x-audience"] != after["x-audience"] {
            found.miss(name, "others hear of it");
        }
        let hidden = |message: &Value| -> BTreeSet<String> {
            let fields = list(message, "x-operators-only").iter();
            fields.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for field in hidden(after).difference(&hidden(before)) {
            found.miss(name, &format!("{field} is for operators only"));
        }
        if old["channels"]["events"]["messages"].get(name).is_some()
            && new["channels"]["events"]["messages"].get(name).is_none()
        {
            found.miss(name, "the stream has it no longer");
        }
        found.schema(name, &before["payload"], &after["payload"], Way::Told);
    }
    found.lost
}

mod broken;
