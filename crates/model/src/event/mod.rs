//! Every event there is, in one table: its name, what it is about, who may hear of it and the shape of its data. What
//! is not in the table is told to nobody. An event that a later release will tell stands here already, marked as such, so
//! that whoever listens can prepare for it.

pub mod billing;
pub mod node;
pub mod platform;
pub mod provisioning;
mod table;
pub mod tenancy;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use table::EVENTS;

/// Who may hear of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever has a seat in its project, and platform roles that may look into any. What is of no project, only those.
    Project,
    /// Whoever may look at nodes.
    Fleet,
}

impl Audience {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Fleet => "fleet",
        }
    }
}

/// One kind of event.
#[derive(Clone, Copy, Debug)]
pub struct EventType {
    pub name: &'static str,
    /// The kind of thing that it is about.
    pub subject: &'static str,
    pub audience: Audience,
    /// False: nothing tells it yet.
    pub emitted: bool,
    pub summary: &'static str,
    /// Of the shape of `data`. It grows only when a reader of the old shape would misread the new one.
    pub version: u32,
    /// Fields of the data that only whoever may look at nodes is told.
    pub hides: &'static [&'static str],
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    fits: fn(&Value) -> Result<(), serde_json::Error>,
}

impl EventType {
    const fn hiding(mut self, fields: &'static [&'static str]) -> Self {
        self.hides = fields;
        self
    }

    /// Is this data of the shape that the table promises?
    pub fn fits(&self, data: &Value) -> Result<(), serde_json::Error> {
        (self.fits)(data)
    }
}

pub fn find(name: &str) -> Option<&'static EventType> {
    EVENTS.iter().find(|one| one.name == name)
}

const fn of<T: JsonSchema + DeserializeOwned>(
    name: &'static str,
    subject: &'static str,
    audience: Audience,
    emitted: bool,
    summary: &'static str,
) -> EventType {
    EventType {
        name,
        subject,
        audience,
        emitted,
        summary,
        version: 1,
        hides: &[],
        schema: |generator| generator.subschema_for::<T>(),
        fits: |data| serde_json::from_value::<T>(data.clone()).map(drop),
    }
}

/// The shape of an event's data: nothing in it that is not written down.
macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident : $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $type,)*
        }
    )*};
}
use shapes;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_unique_and_read_like_names() {
        let names: BTreeSet<_> = EVENTS.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), EVENTS.len());
        for one in EVENTS {
            let (noun, verb) = one.name.split_once('.').expect("noun.verb");
            let plain = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(plain(noun) && plain(verb) && !one.summary.is_empty(), "{}", one.name);
        }
    }

    #[test]
    fn what_is_not_written_down_does_not_fit() {
        let created = find("project.created").expect("in the table");
        assert!(created.fits(&json!({ "name": "a" })).is_ok());
        assert!(created.fits(&json!({ "name": "a", "secret": 1 })).is_err());
        assert!(created.fits(&json!({})).is_err());
        assert!(find("test.happened").is_none());
    }
}
