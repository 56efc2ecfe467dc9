//! What one reader may hear, in one place. Asked when a stream begins and again every few seconds while it goes on. What
//! is not in the table of events is heard by nobody.

use std::collections::BTreeSet;

use allocation::seat::{Seat, looks, seats};
use base::auth::{Principal, Scope};
use base::http::{Answer, ApiError};
use base::outbox::{Event, Wanted};
use fleet::Fleet;
use model::api::{EventSubject, EventView};
use model::event::{self, Audience, EVENTS};
use model::id::{AllocationId, ProjectId};
use serde_json::Value;

/// What a reader asked for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) project: Option<ProjectId>,
    pub(super) allocation: Option<AllocationId>,
    pub(super) kinds: Kinds,
}

/// Names of events, or all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds(Option<BTreeSet<&'static str>>);

impl Kinds {
    pub(super) fn parse(text: Option<&str>) -> Answer<Self> {
        let Some(text) = text else { return Ok(Self(None)) };
        let mut kinds = BTreeSet::new();
        for word in text.split(',') {
            let noun = word.strip_suffix('*').filter(|noun| noun.ends_with('.'));
            let named = |name: &str| noun.map_or(name == word, |noun| name.starts_with(noun));
            let before = kinds.len();
            kinds.extend(EVENTS.iter().map(|one| one.name).filter(|name| named(name)));
            if kinds.len() == before && !kinds.iter().any(|name| named(name)) {
                return Err(ApiError::field(
                    "types",
                    "no event has such a name; asyncapi.json lists them",
                ));
            }
        }
        Ok(Self(Some(kinds)))
    }

    fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|kinds| kinds.contains(name))
    }
}

/// What the reader may hear right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// May look at nodes.
    fleet: bool,
    /// May look into any project.
    any_project: bool,
    /// Has a seat in these.
    seats: BTreeSet<String>,
}

impl Sight {
    /// Refused like any other request if there is nothing here for this caller.
    pub(super) async fn of(fleet: &Fleet, principal: &Principal, ask: &Ask) -> Answer<Self> {
        if let Some(project) = ask.project {
            Seat::take(fleet.app.db.read(), principal, project).await?;
        }
        let seats = seats(fleet.app.db.read(), principal).await?;
        let nodes = [Scope::Operator, Scope::Support, Scope::Auditor];
        Ok(Self {
            fleet: nodes.iter().any(|scope| principal.may(*scope)),
            any_project: looks(principal),
            seats: seats.iter().map(ToString::to_string).collect(),
        })
    }

    /// Is everything heard before still heard now?
    pub(super) fn covers(&self, before: &Self) -> bool {
        self.fleet >= before.fleet
            && self.any_project >= before.any_project
            && (self.any_project || self.seats.is_superset(&before.seats))
    }

    /// What of the past has to be read for this reader at all.
    pub(super) fn wanted(&self, ask: &Ask) -> Wanted {
        let own = || (!self.any_project).then(|| self.seats.iter().cloned().collect());
        Wanted {
            projects: match ask.project {
                Some(project) => Some(vec![project.to_string()]),
                None => own(),
            },
            subject: ask.allocation.map(|id| ("allocation".to_owned(), id.to_string())),
        }
    }

    /// The event as this reader hears it, if they do.
    pub(super) fn shows(&self, ask: &Ask, told: &Event) -> Option<EventView> {
        let kind = event::find(&told.kind)?;
        let project = told.project_id.as_deref();
        let may = match kind.audience {
            Audience::Fleet => self.fleet,
            Audience::Project => self.any_project || project.is_some_and(|id| self.seats.contains(id)),
        };
        let asked = ask.kinds.has(kind.name)
            && ask
                .project
                .is_none_or(|wanted| project == Some(wanted.to_string().as_str()))
            && ask
                .allocation
                .is_none_or(|id| told.subject_kind == "allocation" && told.subject_id == id.to_string());
        if !may || !asked {
            return None;
        }
        let mut data = told.data.clone();
        if let Value::Object(fields) = &mut data
            && !self.fleet
        {
            fields.retain(|name, _| !kind.hides.contains(&name.as_str()));
        }
        Some(EventView {
            id: told.id,
            kind: kind.name.to_owned(),
            version: kind.version,
            at: told.at,
            project_id: told.project_id.clone(),
            subject: EventSubject {
                kind: told.subject_kind.clone(),
                id: told.subject_id.clone(),
                version: told.subject_version,
            },
            correlation_id: told.correlation_id.to_string(),
            data,
        })
    }
}
