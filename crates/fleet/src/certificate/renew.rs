//! Renewal: a device credential vouches, by a signed token, for a new certificate in its own name. The names are
//! checked before issuing and again on what was issued; a token works once. Each certificate has a generation: any
//! that is not older than the last one in use may ask, so lost answers lock nobody out; an older one is a copy.

use base::http::{Answer, ApiError, correlation_id};
use base::tx::{Actor, ActorKind, Target};
use base::wake::Topic;
use model::id::NodeId;
use model::node_api::{CertificateAnswer, CertificateKind, CertificateRequest};
use model::signal::Code;
use model::state::NodeState;
use time::{Duration, OffsetDateTime};
use wire::spiffe::Spiffe;
use wire::tls::PeerCertificate;

use super::device_token::{self, DeviceToken, Expected};
use super::store::{self, Place};
use super::{CaError, Issued};
use crate::Fleet;
use crate::clone::{self, Evidence};
use crate::node::store as nodes;

/// Lost answers make certificates that nobody uses. More than this in an hour, or in a shorter life, is no accident;
/// and after that time the next one is given, so that even the unluckiest comes back alone.
const LATELY_MOST: i64 = 32;
const LATELY_S: i64 = 3600;
/// How much later than what it overtakes a request may arrive.
const LATE_MS: i64 = 5000;

pub(crate) async fn renew(fleet: &Fleet, node: NodeId, request: CertificateRequest) -> Answer<CertificateAnswer> {
    let (signer, opened) = open(fleet, &request);
    // The path is anybody's to write; the audit names the device that signed, or nobody.
    let who = match signer {
        Some(Spiffe::Node { node_id, .. }) => node_id.to_string(),
        Some(Spiffe::Role { .. }) | None => "unverified".to_owned(),
    };
    let actor = Actor::new(ActorKind::Node, who, correlation_id());
    let answer = match opened {
        Ok(token) => attempt(fleet, node, &request, &token, &actor).await,
        Err(error) => Err(error),
    };
    match answer {
        Err(error) if error.code != Code::ClockSkew && error.status().is_client_error() => {
            fleet
                .app
                .db
                .refusal(&actor, "certificate.renew", Target::from(node), error.code)
                .await?;
            Err(error)
        }
        other => other,
    }
}

/// Whose device signed the token, if one of ours did; and the token, if it vouches for this very request.
fn open(fleet: &Fleet, request: &CertificateRequest) -> (Option<Spiffe>, Answer<DeviceToken>) {
    let now = fleet.app.clock.now();
    let csr_der = match csr_der(&request.csr) {
        Ok(der) => der,
        Err(error) => return (None, Err(error)),
    };
    let expected = Expected {
        device_root: fleet.ca.device_root(),
        audience: &fleet.token_audience(),
        csr_der: &csr_der,
        kind: request.kind,
        now,
    };
    match device_token::open(&request.token, &expected) {
        Ok(token) => (Some(token.name.clone()), Ok(token)),
        Err(refused) => {
            let mut error = ApiError::new(refused.code).message(refused.why);
            if refused.code == Code::ClockSkew {
                error = error.detail("server_time", now.to_string());
            }
            (refused.by, Err(error))
        }
    }
}

async fn attempt(
    fleet: &Fleet,
    node: NodeId,
    request: &CertificateRequest,
    token: &DeviceToken,
    actor: &Actor,
) -> Answer<CertificateAnswer> {
    let epoch = named_node(fleet, token, node)?;
    let mut change = fleet.app.db.change(actor, "certificate.renew", node).await?;
    let row = nodes::lock(&mut change, node).await?.ok_or(Code::NotFound)?;
    let device = store::by_serial(change.conn(), &token.device.serial)
        .await?
        .ok_or(Code::CertUnknown)?;
    if device.revoked_at.is_some() || row.epoch != epoch as i64 || row.state()? == NodeState::Removed {
        return Err(Code::CertRevoked.into());
    }
    if device.node_id != Some(node.uuid()) || device.kind != "device" {
        return Err(Code::CertNameMismatch.into());
    }
    if !store::renewal_token_take(&mut change, &token.jti, token.expires_at).await? {
        return Err(ApiError::new(Code::DeviceTokenInvalid).message("this token was used before"));
    }
    let now = change.at();
    let since = now.plus_s(-LATELY_S.min(life_s(fleet, request.kind)));
    let (working, vouching) = store::lines(change.conn(), node, epoch, since).await?;
    let (line, claimed) = match request.kind {
        CertificateKind::Working => (working, request.generation),
        // The executor has it, and the one that vouches is the one it has; the agent only remembers.
        CertificateKind::Device => (vouching, request.generation.max(device.generation as u64)),
    };
    if made_before(token, line.made_at) {
        return Err(late());
    }
    let behind = match request.kind {
        CertificateKind::Working if claimed < line.used => Some((claimed, line)),
        _ if device.overtaken(now) => Some((device.generation as u64, vouching)),
        CertificateKind::Working | CertificateKind::Device => None,
    };
    if let Some((claimed, line)) = behind {
        change.rollback().await?;
        // On its way while the next generation was taken into use? A copy will be heard again.
        let conclusive = line
            .used_at
            .map(|at| at + Duration::milliseconds(LATE_MS.min(fleet.limits.session_grace_ms)));
        if made_before(token, conclusive) {
            return Err(late());
        }
        let (kind, used) = (request.kind, line.used);
        let evidence = Evidence::OldGeneration { kind, claimed, used };
        return Err(clone::found(fleet, actor, node, epoch, &evidence).await);
    }
    if line.lately >= LATELY_MOST {
        return Err(
            ApiError::new(Code::RateLimited).message("the node was given too many certificates lately; it has to wait")
        );
    }
    let ends_at = now.plus_ms(fleet.limits.certificate_grace_ms);
    store::first_use(change.conn(), &device.serial, now, ends_at).await?;
    // What was made just now may be on its way to a first use: it ends with the first use of what follows it.
    let lost = store::Lost {
        above: claimed.min(line.highest),
        made_before: now.plus_ms(-LATE_MS),
    };
    if store::revoke_lost(change.conn(), node, epoch, request.kind, lost, now).await? > 0 {
        change.wake(Topic::Revoked);
    }
    let generation = line.highest + 1;
    let issued = issue(fleet, request, &token.name)?;
    store::insert(
        &mut change,
        &issued,
        Place {
            node,
            epoch,
            kind: request.kind,
            generation,
        },
    )
    .await?;
    change.detail(serde_json::json!({ "serial": issued.serial, "kind": request.kind, "generation": generation }));
    change.event(
        "certificate.issued",
        node,
        serde_json::json!({ "serial": issued.serial, "kind": request.kind, "not_after": issued.not_after }),
    );
    change.commit().await?;
    Ok(CertificateAnswer {
        chain: issued.pem,
        ca_bundle: fleet.ca.bundle_pem(),
        generation,
        not_after: issued.not_after,
    })
}

/// Was this token made before that moment? Then it may come from before it, by a slow road, and proves nothing.
fn made_before(token: &DeviceToken, at: Option<OffsetDateTime>) -> bool {
    at.is_some_and(|at| token.issued_at.millis().div_euclid(1000) < at.unix_timestamp())
}

fn late() -> ApiError {
    ApiError::new(Code::DeviceTokenInvalid).message("the token is older than what was issued or used since")
}

fn life_s(fleet: &Fleet, kind: CertificateKind) -> i64 {
    match kind {
        CertificateKind::Working => fleet.limits.working_life_s,
        CertificateKind::Device => fleet.limits.device_life_s,
    }
}

/// The epoch, if the certificate that vouches names this node of this installation.
fn named_node(fleet: &Fleet, token: &DeviceToken, node: NodeId) -> Result<u64, ApiError> {
    match &token.name {
        Spiffe::Node {
            installation,
            node_id,
            epoch,
        } if *installation == fleet.app.installation && *node_id == node => Ok(*epoch),
        _ => Err(Code::CertNameMismatch.into()),
    }
}

fn issue(fleet: &Fleet, request: &CertificateRequest, name: &Spiffe) -> Result<Issued, ApiError> {
    let now = fleet.app.clock.now();
    let issued = match request.kind {
        CertificateKind::Working => fleet
            .ca
            .issue_working(&request.csr, name, fleet.limits.working_life_s, now),
        CertificateKind::Device => fleet
            .ca
            .issue_device(&request.csr, name, fleet.limits.device_life_s, now),
    };
    let issued = issued.map_err(refused)?;
    // Whatever signed it: what goes out carries the name that was asked for, or it does not go out.
    let chain = wire::pem::certificates(&issued.pem).map_err(ApiError::internal)?;
    let leaf = PeerCertificate::parse(&chain[0]).map_err(ApiError::internal)?;
    if leaf.spiffe.as_ref() != Some(name) {
        return Err(Code::CertNameMismatch.into());
    }
    Ok(issued)
}

pub(crate) fn refused(error: CaError) -> ApiError {
    match error {
        CaError::ForeignName => Code::CertNameMismatch.into(),
        CaError::Csr(why) => ApiError::new(Code::CsrInvalid).message(why),
        other @ (CaError::Rcgen(_) | CaError::Keys(_)) => ApiError::internal(other),
    }
}

fn csr_der(pem: &str) -> Result<Vec<u8>, ApiError> {
    if pem.len() > 16 * 1024 {
        return Err(ApiError::new(Code::CsrInvalid).message("larger than 16 KiB"));
    }
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|_| Code::CsrInvalid)?;
    Ok(pem.contents)
}
