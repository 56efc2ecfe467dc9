//! The route table. A route cannot be written down without saying who may call it, and the same table gives the
//! router, the gate before each handler, the OpenAPI document and the tests that try every caller on every route.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{Method, StatusCode};
use model::signal::Code;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::gate::{Gate, gate};
use super::version;
use crate::app::App;
use crate::auth::{Role, Scope};

/// Long enough for any honest query, short enough for a person to wait.
const DEADLINE: Duration = Duration::from_secs(30);

/// Who may call a route. There is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody. Nothing behind it may change or tell anything of value.
    Public,
    /// People with a token that has any of these.
    Scopes(&'static [Scope]),
    /// Processes and nodes, by the role in their certificate.
    Roles(&'static [Role]),
}

/// What an Idempotency-Key means to a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    None,
    /// Under one key it is done once and answered alike. The gate sees to that.
    Optional,
    /// The same, and nobody may ask without one; its handler sees to that.
    Required,
    /// Done once, but not answered again, for this reason.
    ToldOnce(&'static str),
}

pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Everything about a route but its handler.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub summary: &'static str,
    pub deadline: Duration,
    pub body_limit: Option<usize>,
    /// Does a project's own token reach it? Where it does, the handler asks for a seat in the project.
    pub in_project: bool,
    /// Counted as an attempt to sign in, of which an address has few.
    pub sign_in: bool,
    /// Codes worth documenting beside those that any route can answer.
    pub fails: &'static [Code],
    pub(super) answers: Vec<(StatusCode, Option<SchemaOf>)>,
    /// Its answer is one object with a version, which is also its ETag.
    pub versioned: bool,
    /// What each message of a stream is.
    pub(super) streams: Option<SchemaOf>,
    pub(super) takes: Option<SchemaOf>,
    pub key: KeyUse,
    pub(super) searches: Option<SchemaOf>,
}

#[derive(Debug)]
pub struct Route<S = ()> {
    info: RouteInfo,
    handler: MethodRouter<S>,
}

macro_rules! methods {
    ($($name:ident = $method:ident),*) => {$(
        pub fn $name<H, T>(path: &'static str, access: Access, handler: H) -> Self
        where
            H: Handler<T, S>,
            T: 'static,
        {
            Self::new(Method::$method, MethodFilter::$method, path, access, handler)
        }
    )*};
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    methods!(get = GET, post = POST, put = PUT, patch = PATCH, delete = DELETE);

    fn new<H, T>(method: Method, filter: MethodFilter, path: &'static str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        // Whatever people ask to be done: no route can leave it out.
        let key = match access {
            Access::Scopes(_) if method == Method::POST && path.starts_with("/v1/") => KeyUse::Optional,
            Access::Scopes(_) | Access::Public | Access::Roles(_) => KeyUse::None,
        };
        let info = RouteInfo {
            method,
            path,
            access,
            summary: "",
            deadline: DEADLINE,
            body_limit: None,
            in_project: false,
            sign_in: false,
            fails: &[],
            answers: Vec::new(),
            versioned: false,
            streams: None,
            takes: None,
            key,
            searches: None,
        };
        Self {
            info,
            handler: on(filter, handler),
        }
    }

    pub fn summary(mut self, summary: &'static str) -> Self {
        self.info.summary = summary;
        self
    }

    /// 200 with this body.
    pub fn answers<T: JsonSchema>(self) -> Self {
        self.answers_with::<T>(StatusCode::OK)
    }

    /// Another success with this body.
    pub fn answers_with<T: JsonSchema>(mut self, status: StatusCode) -> Self {
        self.info.versioned |= version::is_versioned::<T>();
        self.info
            .answers
            .push((status, Some(|generator| generator.subschema_for::<T>())));
        self
    }

    /// 204, no body.
    pub fn answers_nothing(mut self) -> Self {
        self.info.answers.push((StatusCode::NO_CONTENT, None));
        self
    }

    /// 303 to another page.
    pub fn answers_elsewhere(mut self) -> Self {
        self.info.answers.push((StatusCode::SEE_OTHER, None));
        self
    }

    /// 200 with bytes that are no document.
    pub fn answers_bytes(mut self) -> Self {
        self.info.answers.push((StatusCode::OK, None));
        self
    }

    /// 200 with a stream of these, each the data of one server-sent event.
    pub fn answers_events<T: JsonSchema>(mut self) -> Self {
        self.info.streams = Some(|generator| generator.subschema_for::<T>());
        self
    }

    /// The request body.
    pub fn takes<T: JsonSchema>(mut self) -> Self {
        self.info.takes = Some(|generator| generator.subschema_for::<T>());
        self
    }

    /// An Idempotency-Key, which the handler demands: under one key it is done once.
    pub fn takes_key(mut self) -> Self {
        self.info.key = KeyUse::Required;
        self
    }

    /// Its answer has something that is kept nowhere, so that nobody can be told again.
    pub fn told_once(mut self, why: &'static str) -> Self {
        self.info.key = KeyUse::ToldOnce(why);
        self
    }

    /// The query string.
    pub fn searches<T: JsonSchema>(mut self) -> Self {
        self.info.searches = Some(T::json_schema);
        self
    }

    pub fn fails(mut self, codes: &'static [Code]) -> Self {
        self.info.fails = codes;
        self
    }

    /// For requests that are held on purpose.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.info.deadline = deadline;
        self
    }

    /// Ten a minute from one address.
    pub fn counts_as_sign_in(mut self) -> Self {
        self.info.sign_in = true;
        self
    }

    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.info.body_limit = Some(bytes);
        self
    }
}

/// A table of routes over one state.
#[derive(Debug)]
pub struct Routes<S = ()>(Vec<Route<S>>);

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub fn new(routes: impl IntoIterator<Item = Route<S>>) -> Self {
        Self(routes.into_iter().collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &RouteInfo> {
        self.0.iter().map(|route| &route.info)
    }

    /// For documents and tests over several tables at once.
    pub fn infos(&self) -> Vec<RouteInfo> {
        self.iter().cloned().collect()
    }

    pub fn merge(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Opens these to tokens that are confined to a project; every other route is closed to them.
    pub fn open_to_projects(mut self, open: &[(Method, &str)]) -> Self {
        for route in &mut self.0 {
            let is = |(method, path): &(Method, &str)| *method == route.info.method && *path == route.info.path;
            route.info.in_project = open.iter().any(is);
        }
        self
    }

    /// The router, each handler behind its gate. Give it its state, merge it with others, then `finish` it.
    pub fn router(self, app: &App) -> Router<S> {
        self.0.into_iter().fold(Router::new(), |router, route| {
            let state = Arc::new(Gate {
                app: app.clone(),
                route: Arc::new(route.info),
            });
            let path = state.route.path;
            router.route(path, route.handler.route_layer(from_fn_with_state(state, gate)))
        })
    }
}
