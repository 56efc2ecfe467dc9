//! The gate before every handler, built from the route table: who is asking, may they, and how long may it take. A
//! refusal of authority leaves an audit row, also one that the handler decides; a request without any credential leaves
//! none, or strangers could fill the table.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use model::signal::Code;
use serde_json::json;

use super::body::{BodyDeadline, BodyLimit};
use super::error::{ApiError, Refused};
use super::once;
use super::rate::{Ask, Standing, Subject};
use super::route::{Access, RouteInfo};
use super::shell::correlation_id;
use super::version;
use crate::app::App;
use crate::auth::session::same_origin;
use crate::auth::{self, Credential, Presence, Principal, Role};
use crate::tx::{Actor, ActorKind, Target};

/// Who is at the other end of a mutually authenticated connection. The listener puts it into the request after it has
/// checked the certificate against the identity table; without it no route for roles opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub role: Role,
    /// The node's id, or the name of the process.
    pub id: String,
}

pub(super) struct Gate {
    pub(super) app: App,
    pub(super) route: Arc<RouteInfo>,
}

pub(super) async fn gate(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let route = gate.route.clone();
    let mut standing = None;
    let answer = async {
        if let Err(refusal) = admit(&gate, &mut request, &mut standing).await {
            return refusal.into_response();
        }
        let deadline = Duration::from_secs(gate.app.config.read_deadline_s);
        request.extensions_mut().insert(BodyDeadline(deadline));
        if let Err(refusal) = version::demanded(&route.method, request.headers()) {
            return refusal.into_response();
        }
        if let Some(limit) = route.body_limit {
            request.extensions_mut().insert(BodyLimit(limit));
        }
        let actor = request.extensions().get::<Principal>().map(Principal::actor);
        let response = match once::asked(&route, &request) {
            Ok(None) => next.run(request).await,
            Ok(Some(once)) => once::run(once, gate.app.db.clone(), &route, request, next).await,
            Err(refusal) => return refusal.into_response(),
        };
        let response = match actor {
            Some(actor) => written_down(&gate, &actor, response).await,
            None => response,
        };
        match route.versioned && response.status().is_success() {
            true => version::tagged(response).await,
            false => response,
        }
    };
    let mut response = match tokio::time::timeout(route.deadline, answer).await {
        Ok(response) => response,
        Err(_) => ApiError::new(Code::DeadlineExceeded).into_response(),
    };
    if let Some(standing) = standing {
        standing.told(&mut response);
    }
    crate::metrics::request(&route, response.status(), began.elapsed());
    response
}

/// Leaves behind how the asker's bucket stands, also when it refuses.
async fn admit(gate: &Gate, request: &mut Request, standing: &mut Option<Standing>) -> Result<(), ApiError> {
    let rates = &gate.app.rates;
    match gate.route.access {
        Access::Public => {
            let sender = Subject::address(address(request.extensions()));
            if gate.route.sign_in {
                let door = Subject::SignIn(gate.route.path, Box::new(sender.clone()));
                standing.insert(rates.count(door)).passed()?;
            }
            let plain = rates.count(sender);
            let tighter = standing.map_or(plain, |door| door.tighter(plain));
            standing.insert(tighter).passed().map(drop)
        }
        Access::Scopes(scopes) => {
            let address = address(request.extensions());
            let shown = auth::presented(&gate.app, request.headers());
            let sender = Subject::address(address);
            let ask = Ask::of(request.method());
            let (counted, presented) = rates.presented(shown, sender, ask);
            standing.insert(counted).passed()?;
            let presence = match gate.route.is_stream() {
                true => Presence::Listens,
                false => Presence::Acts,
            };
            let found = auth::authenticate_as(&gate.app, request.headers(), address, presence).await;
            let other = match &found {
                Ok(principal) => presented.opened(principal.user_id),
                Err(refusal) if refusal.status().is_client_error() => presented.refused(),
                Err(_) => {
                    presented.unjudged();
                    None
                }
            };
            *standing = other.or(*standing);
            let principal = found?;
            if let Credential::Session(_) = principal.credential
                && let Err(foreign) = same_origin(&gate.app.config, request.method(), request.headers())
            {
                refuse(gate, &principal.actor(), foreign.code).await?;
                return Err(foreign);
            }
            let confined = principal.confined.is_some() && !gate.route.in_project;
            if confined || !scopes.iter().any(|scope| principal.may(*scope)) {
                refuse(gate, &principal.actor(), Code::Forbidden).await?;
                return Err(ApiError::new(Code::Forbidden));
            }
            request.extensions_mut().insert(principal);
            Ok(())
        }
        Access::Roles(roles) => {
            let peer = request
                .extensions()
                .get::<Peer>()
                .cloned()
                .ok_or(Code::Unauthenticated)?;
            if !roles.contains(&peer.role) {
                let actor = peer.actor(address(request.extensions()));
                refuse(gate, &actor, Code::RoleForbidden).await?;
                return Err(ApiError::new(Code::RoleForbidden));
            }
            Ok(())
        }
    }
}

async fn refuse(gate: &Gate, actor: &Actor, code: Code) -> sqlx::Result<()> {
    let target = Target::new("route", format!("{} {}", gate.route.method, gate.route.path));
    gate.app.db.refusal(actor, "route.call", target, code).await
}

/// What a person may not do with this object or in this project only the handler can tell.
async fn written_down(gate: &Gate, actor: &Actor, response: Response) -> Response {
    if response.extensions().get() != Some(&Code::Forbidden) {
        return response;
    }
    let written = match response.extensions().get::<Refused>().cloned() {
        Some(Refused { action, target }) => {
            let route = format!("{} {}", gate.route.method, gate.route.path);
            let details = json!({ "route": route });
            let db = &gate.app.db;
            db.refusal_of(actor, action, target, Code::Forbidden, details).await
        }
        None => refuse(gate, actor, Code::Forbidden).await,
    };
    match written {
        Ok(()) => response,
        Err(error) => ApiError::from(error).into_response(),
    }
}

impl Peer {
    pub fn actor(&self, address: Option<IpAddr>) -> Actor {
        let (kind, id) = match self.role {
            Role::Node => (ActorKind::Node, self.id.clone()),
            role => (ActorKind::Role, format!("{role}/{}", self.id)),
        };
        Actor::new(kind, &id, correlation_id()).at(address)
    }
}

/// Where a request came from, for handlers that nobody has to be known to.
#[derive(Clone, Copy, Debug)]
pub struct Sender(pub Option<IpAddr>);

impl<S: Send + Sync> FromRequestParts<S> for Sender {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(address(&parts.extensions)))
    }
}

/// The address of the other end, if the listener told it.
pub(super) fn address(extensions: &http::Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // The gate has put it there, or this route is not for people.
        parts
            .extensions
            .get::<Principal>()
            .cloned()
            .ok_or_else(|| ApiError::new(Code::Unauthenticated))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts
            .extensions
            .get::<Peer>()
            .cloned()
            .ok_or_else(|| ApiError::new(Code::Unauthenticated))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        if let Some(principal) = parts.extensions.get::<Principal>() {
            return Ok(principal.actor());
        }
        let peer = parts.extensions.get::<Peer>().ok_or(Code::Unauthenticated)?;
        Ok(peer.actor(address(&parts.extensions)))
    }
}
