//! Two documents, an older and a newer one: what would somebody miss who was built for the older? Fields and routes that
//! disappear, types that change, wishes that need more than before, words that are no longer said. What is added is fine.

use std::collections::BTreeSet;

use serde_json::Value;

/// Which way a value travels decides what narrows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// From the caller: nothing more may be asked for.
    Asked,
    /// To the caller: nothing less may be told.
    Told,
}

pub(super) struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    seen: BTreeSet<(String, String, Way)>,
    pub(super) lost: Vec<String>,
}

impl<'a> Comparison<'a> {
    pub(super) fn of(old: &'a Value, new: &'a Value) -> Self {
        Self {
            old,
            new,
            seen: BTreeSet::new(),
            lost: Vec::new(),
        }
    }

    pub(super) fn miss(&mut self, place: &str, what: &str) {
        self.lost.push(format!("{place}: {what}"));
    }

    pub(super) fn schema(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let (old, new) = match (reference(old), reference(new)) {
            (None, None) => (old, new),
            (from, to) => {
                let key = (from.unwrap_or(place).to_owned(), to.unwrap_or(place).to_owned(), way);
                if !self.seen.insert(key) {
                    return;
                }
                (resolve(self.old, old), resolve(self.new, new))
            }
        };
        self.types(place, old, new);
        self.words(place, old, new, way);
        self.bounds(place, old, new, way);
        self.closed(place, old, new, way);
        self.fields(place, old, new, way);
        for part in ["items", "additionalProperties"] {
            if let (Some(before), Some(after)) = (object(old, part), object(new, part)) {
                self.schema(&format!("{place}/{part}"), before, after, way);
            }
        }
        for part in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            let (before, after) = (list(old, part), list(new, part));
            if before.len() > after.len() {
                self.miss(place, &format!("{part} has fewer branches"));
            }
            for (n, (before, after)) in before.iter().zip(after).enumerate() {
                self.schema(&format!("{place}/{part}/{n}"), before, after, way);
            }
        }
    }

    /// Null counts as a type: told where it never was, it is news to a reader; no longer taken, to a writer.
    fn types(&mut self, place: &str, old: &Value, new: &Value) {
        let (before, after) = (kinds(old), kinds(new));
        if before != after && !before.is_empty() {
            self.miss(place, &format!("its type was {before:?} and is {after:?}"));
        }
        if old.get("format") != new.get("format") || old.get("const") != new.get("const") {
            self.miss(place, "its format or its one value is another");
        }
    }

    fn words(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let after = list(new, "enum");
        for word in list(old, "enum") {
            if !after.contains(word) {
                self.miss(place, &format!("{word} is no longer one of its words"));
            }
        }
        match (old.get("enum"), new.get("enum"), way) {
            (Some(_), None, _) => self.miss(place, "it is no longer one of a few words"),
            (None, Some(_), Way::Asked) => self.miss(place, "it has to be one of a few words"),
            (None, _, Way::Told) | (None, None, Way::Asked) | (Some(_), Some(_), _) => {}
        }
    }

    /// A body that took any field besides its own, and takes none or fewer now.
    fn closed(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let open = |schema: &Value| matches!(schema.get("additionalProperties"), None | Some(Value::Bool(true)));
        let shut = |schema: &Value| schema.get("additionalProperties") == Some(&Value::Bool(false));
        if way == Way::Asked && (open(old) && !open(new) || !shut(old) && shut(new)) {
            self.miss(place, "other fields are no longer taken");
        }
    }

    fn bounds(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        if way == Way::Told {
            return;
        }
        for (bound, tighter_is_more) in [
            ("minimum", true),
            ("minLength", true),
            ("minItems", true),
            ("maximum", false),
            ("maxLength", false),
            ("maxItems", false),
        ] {
            let (before, after) = (number(old, bound), number(new, bound));
            let tighter = match (before, after) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(before), Some(after)) if tighter_is_more => after > before,
                (Some(before), Some(after)) => after < before,
            };
            if tighter {
                self.miss(place, &format!("{bound} is tighter"));
            }
        }
        if new.get("pattern").is_some() && old.get("pattern") != new.get("pattern") {
            self.miss(place, "its pattern is another");
        }
    }

    fn fields(&mut self, place: &str, old: &Value, new: &Value, way: Way) {
        let (before, after) = (required(old), required(new));
        match way {
            Way::Asked => {
                for field in after.difference(&before) {
                    self.miss(place, &format!("{field} has to be given"));
                }
            }
            Way::Told => {
                for field in before.difference(&after) {
                    self.miss(place, &format!("{field} may be left out"));
                }
            }
        }
        let Some(Value::Object(fields)) = old.get("properties") else {
            return;
        };
        for (name, before) in fields {
            match new.get("properties").and_then(|fields| fields.get(name)) {
                Some(after) => self.schema(&format!("{place}/{name}"), before, after, way),
                None => self.miss(place, &format!("{name} is gone")),
            }
        }
    }
}

fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref").and_then(Value::as_str)
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match reference(schema).and_then(|path| document.pointer(path.trim_start_matches('#'))) {
        Some(found) => resolve(document, found),
        None => schema,
    }
}

fn kinds(schema: &Value) -> BTreeSet<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => [one.as_str()].into(),
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    }
}

fn required(schema: &Value) -> BTreeSet<&str> {
    list(schema, "required").iter().filter_map(Value::as_str).collect()
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn object<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|part| part.is_object())
}

fn number(schema: &Value, name: &str) -> Option<f64> {
    schema.get(name).and_then(Value::as_f64)
}
