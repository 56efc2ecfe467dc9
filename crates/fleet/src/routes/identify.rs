//! Who calls: every request is identified by its certificate.

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base::auth::Role;
use base::http::{Answer, ApiError, Params, Peer, Subject};
use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use model::id::NodeId;
use model::node_api::header;
use model::signal::Code;
use serde::Deserialize;
use wire::tls::PeerCertificate;

use crate::Fleet;
use crate::identity::{Caller, NodeCaller};
use crate::metrics::IDENTITY_REFUSED;

pub(super) async fn identify(State(fleet): State<Fleet>, mut request: Request, next: Next) -> Response {
    let certificate = request
        .extensions()
        .get::<wire::serve::Peer>()
        .and_then(|peer| peer.certificate.clone());
    match certificate {
        None => ApiError::new(Code::Unauthenticated).into_response(),
        Some(certificate) => match identified(&fleet, &certificate).await {
            Ok(caller) => {
                let peer = match &caller {
                    Caller::Node(node) => {
                        tracing::Span::current().record("node_id", tracing::field::display(node.node_id));
                        let manifest = version_of(request.headers(), header::MANIFEST);
                        fleet.presence.heard(node, fleet.app.clock.now(), manifest);
                        Peer {
                            role: Role::Node,
                            id: node.node_id.to_string(),
                        }
                    }
                    Caller::Role { role, instance } => Peer {
                        role: *role,
                        id: instance.clone(),
                    },
                };
                if let Caller::Node(node) = caller {
                    request.extensions_mut().insert(node);
                }
                request.extensions_mut().insert(peer);
                next.run(request).await
            }
            Err(error) => {
                metrics::counter!(IDENTITY_REFUSED, "code" => error.code.as_str()).increment(1);
                let name = certificate
                    .spiffe
                    .as_ref()
                    .map_or_else(|| certificate.serial.to_string(), ToString::to_string);
                // What we could not find out is no refusal, and a database that is away is not asked to note it. One who
                // only comes too often is counted.
                let noted = match error.status().is_client_error() && error.code != Code::RateLimited {
                    true => fleet.note_refused(&name, error.code).await,
                    false => Ok(()),
                };
                let mut answer = match noted {
                    Ok(()) => error.into_response(),
                    Err(broken) => ApiError::from(broken).into_response(),
                };
                // Nothing more will be heard on this connection; it is not kept for somebody who is nobody.
                if answer.status().is_client_error() {
                    answer
                        .headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
                answer
            }
        },
    }
}

/// The certificate is one of ours, so it pays for its own requests, whatever the table says of it.
async fn identified(fleet: &Fleet, certificate: &PeerCertificate) -> Answer<Caller> {
    let subject = Subject::Certificate(certificate.serial.clone());
    fleet.app.rates.take(subject)?;
    fleet.identify(certificate).await
}

/// The calling node, if the path names it. Another node's id looks like one that does not exist.
pub(super) struct Me(pub NodeCaller);

#[derive(Deserialize)]
pub(super) struct PathId {
    pub id: NodeId,
}

impl FromRequestParts<Fleet> for Me {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, fleet: &Fleet) -> Result<Self, ApiError> {
        let caller = parts
            .extensions
            .get::<NodeCaller>()
            .cloned()
            .ok_or(Code::Unauthenticated)?;
        let Params(PathId { id }) = Params::<PathId>::from_request_parts(parts, fleet).await?;
        if id != caller.node_id {
            fleet.note_foreign(&caller, id).await?;
            return Err(Code::NotFound.into());
        }
        Ok(Me(caller))
    }
}

/// The version of a document that the node's executor has, if its agent says so.
pub(super) fn version_of(headers: &HeaderMap, name: &'static str) -> Option<u64> {
    let version: u64 = headers.get(name)?.to_str().ok()?.parse().ok()?;
    i64::try_from(version).is_ok().then_some(version)
}
