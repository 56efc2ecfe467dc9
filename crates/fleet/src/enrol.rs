//! Letting a host in, once. The token's secret is kept as a digest, bound to one node row and, once used, to one
//! device key: the same key may repeat a lost answer, any other key is turned away and remembered.

use base::Change;
use base::http::{Answer, ApiError, correlation_id};
use base::tx::{Actor, ActorKind, Target};
use base::wake::Topic;
use data_encoding::BASE64URL_NOPAD;
use model::digest::Sha256;
use model::enrol::EnrolmentToken;
use model::id::{EnrolmentId, NodeId};
use model::node_api::{CertificateAnswer, CertificateKind, Endpoints, EnrolAnswer, EnrolRequest, PROTOCOL, compatible};
use model::signal::Code;
use model::time::Timestamp;
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;
use wire::spiffe::Spiffe;

use crate::Fleet;
use crate::certificate::store::Place;
use crate::certificate::{refused, store as certificates};
use crate::metrics::ALARMS;
use crate::node::{NodeRow, state, store as nodes};
use crate::task::ends;

const TOKEN_LIFE_S: i64 = 15 * 60;
/// For how long a lost answer can be asked for again.
const REPEAT_S: i64 = 24 * 3600;

/// Makes a token for a node row, inside the operator's change.
pub async fn issue(
    fleet: &Fleet,
    change: &mut Change,
    node: NodeId,
    board_serial: Option<&str>,
) -> Answer<(EnrolmentToken, Timestamp)> {
    // A new token for a host ends the one before it.
    let at = OffsetDateTime::from(change.at());
    sqlx::query("update enrolment set expires_at = least(expires_at, $2) where node_id = $1 and used_by is null")
        .bind(node.uuid())
        .bind(at)
        .execute(change.conn())
        .await?;
    let secret = BASE64URL_NOPAD.encode(&rand::random::<[u8; 32]>());
    let expires_at = change.at().plus_s(TOKEN_LIFE_S);
    let id = EnrolmentId::new();
    sqlx::query(
        "insert into enrolment (id, node_id, secret_sha256, board_serial, expires_at, created_at) values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id.uuid())
    .bind(node.uuid())
    .bind(Sha256::of(secret.as_bytes()).as_bytes().as_slice())
    .bind(board_serial)
    .bind(OffsetDateTime::from(expires_at))
    .bind(at)
    .execute(change.conn())
    .await?;
    change
        .also("enrolment.issue", id)
        .detail(json!({ "node": node, "expires_at": expires_at }));
    let token = EnrolmentToken {
        url: fleet.app.config.enrol_url.clone(),
        ca_sha256: fleet.ca.sha256(),
        root_sha256: fleet.keyring().root_sha256(),
        secret,
        dev: fleet.app.config.dev,
    };
    Ok((token, expires_at))
}

#[derive(sqlx::FromRow)]
struct EnrolmentRow {
    id: Uuid,
    board_serial: Option<String>,
    expires_at: OffsetDateTime,
    used_by: Option<Vec<u8>>,
    used_at: Option<OffsetDateTime>,
    answer: Option<serde_json::Value>,
}

pub async fn enrol(fleet: &Fleet, request: EnrolRequest) -> Answer<EnrolAnswer> {
    let secret_sha256 = Sha256::of(request.secret.as_bytes());
    let node: Option<Uuid> = sqlx::query_scalar("select node_id from enrolment where secret_sha256 = $1")
        .bind(secret_sha256.as_bytes().as_slice())
        .fetch_optional(fleet.app.db.read())
        .await?;
    let Some(node) = node.map(NodeId::from) else {
        // Whoever does not even know a secret is nobody: no name of theirs is kept.
        let stranger = Actor::new(ActorKind::Node, "stranger", correlation_id());
        let target = Target::new("enrolment", "unknown");
        fleet
            .app
            .db
            .refusal(&stranger, "node.enrol", target, Code::EnrollTokenInvalid)
            .await?;
        return Err(Code::EnrollTokenInvalid.into());
    };
    let actor = Actor::new(
        ActorKind::Node,
        format!("unenrolled:{}", hostname(&request)),
        correlation_id(),
    );
    let answer = attempt(fleet, &actor, node, &secret_sha256, &request).await;
    if let Err(error) = &answer
        && error.status().is_client_error()
    {
        if error.code == Code::EnrollTokenUsed {
            metrics::counter!(ALARMS, "code" => error.code.as_str()).increment(1);
        }
        fleet.app.db.refusal(&actor, "node.enrol", node, error.code).await?;
    }
    answer
}

/// Written by somebody not yet let in, and kept for ever: only what a hostname is made of.
fn hostname(request: &EnrolRequest) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    request.facts.hostname.chars().filter(plain).take(63).collect()
}

async fn attempt(
    fleet: &Fleet,
    actor: &Actor,
    id: NodeId,
    secret_sha256: &Sha256,
    request: &EnrolRequest,
) -> Answer<EnrolAnswer> {
    let device_key = key_digest(&request.device_csr)?;
    if key_digest(&request.working_csr)? == device_key {
        return Err(ApiError::new(Code::CsrInvalid).message("device and working certificate need keys of their own"));
    }
    let mut change = fleet.app.db.change(actor, "node.enrol", id).await?;
    // The node first, as everybody locks.
    let node = state::lock(&mut change, id).await?;
    let row: EnrolmentRow = sqlx::query_as(
        "select id, board_serial, expires_at, used_by, used_at, answer from enrolment where secret_sha256 = $1 for update",
    )
    .bind(secret_sha256.as_bytes().as_slice())
    .fetch_one(change.conn())
    .await?;
    if let Some(answer) = repeat(&row, &node, &device_key, change.at())? {
        return Ok(answer);
    }
    may_enrol(fleet, request, &row)?;
    admit(fleet, change, &row, &node, request, &device_key).await
}

/// The stored answer, if the same device asks again; an error, if somebody else does.
fn repeat(row: &EnrolmentRow, node: &NodeRow, device_key: &Sha256, now: Timestamp) -> Answer<Option<EnrolAnswer>> {
    match (&row.used_by, row.used_at, &row.answer) {
        (None, ..) => Ok(None),
        (Some(used_by), Some(used_at), Some(answer))
            if used_by.as_slice() == device_key.as_bytes() && now < Timestamp::from(used_at).plus_s(REPEAT_S) =>
        {
            let answer: EnrolAnswer = serde_json::from_value(answer.clone()).map_err(ApiError::internal)?;
            // Enrolled again with a later token: what this one gave is over.
            if answer.epoch == node.epoch as u64 {
                Ok(Some(answer))
            } else {
                Err(Code::EnrollTokenUsed.into())
            }
        }
        (Some(_), ..) => Err(Code::EnrollTokenUsed.into()),
    }
}

fn may_enrol(fleet: &Fleet, request: &EnrolRequest, row: &EnrolmentRow) -> Answer<()> {
    if fleet.app.clock.now() > Timestamp::from(row.expires_at) {
        return Err(Code::EnrollTokenExpired.into());
    }
    if request.simulated && !fleet.app.config.dev {
        return Err(Code::SimulatedNodeRefused.into());
    }
    if !compatible(request.versions.protocol) {
        return Err(ApiError::new(Code::AgentIncompatible).message(format!(
            "protocol {} is more than one step from {PROTOCOL}",
            request.versions.protocol
        )));
    }
    if row.board_serial.is_some() && row.board_serial != request.hardware.board_serial {
        return Err(Code::HardwareMismatch.into());
    }
    Ok(())
}

async fn admit(
    fleet: &Fleet,
    mut change: Change,
    row: &EnrolmentRow,
    node: &NodeRow,
    request: &EnrolRequest,
    device_key: &Sha256,
) -> Answer<EnrolAnswer> {
    let id = node.id();
    let epoch = node.epoch as u64 + 1;
    let now = change.at();
    let name = Spiffe::Node {
        installation: fleet.app.installation,
        node_id: id,
        epoch,
    };
    let device = fleet
        .ca
        .issue_device(&request.device_csr, &name, fleet.limits.device_life_s, now)
        .map_err(refused)?;
    let working = fleet
        .ca
        .issue_working(&request.working_csr, &name, fleet.limits.working_life_s, now)
        .map_err(refused)?;
    certificates::revoke_all(change.conn(), id, Some(epoch), "enrolled again", now).await?;
    for (issued, kind) in [(&device, CertificateKind::Device), (&working, CertificateKind::Working)] {
        certificates::insert(
            &mut change,
            issued,
            Place {
                node: id,
                epoch,
                kind,
                generation: 1,
            },
        )
        .await?;
    }
    ends::lose(&mut change, id, Some(epoch)).await?;
    nodes::enrolled(change.conn(), id, epoch, request, now).await?;
    let keyring = fleet.keyring();
    let answer = EnrolAnswer {
        installation: fleet.app.installation,
        node_id: id,
        epoch,
        device_chain: device.pem,
        working: CertificateAnswer {
            chain: working.pem,
            ca_bundle: fleet.ca.bundle_pem(),
            generation: 1,
            not_after: working.not_after,
        },
        bundle: keyring.bundle.clone(),
        endpoints: Endpoints {
            node_api_url: fleet.app.config.node_url.clone(),
            node_api_resolve: None,
            enrol_url: fleet.app.config.enrol_url.clone(),
        },
        token_audiences: vec![fleet.token_audience()],
    };
    let used =
        sqlx::query("update enrolment set used_by = $2, used_at = $3, answer = $4 where id = $1 and used_by is null")
            .bind(row.id)
            .bind(device_key.as_bytes().as_slice())
            .bind(OffsetDateTime::from(now))
            .bind(sqlx::types::Json(&answer))
            .execute(change.conn())
            .await?;
    if used.rows_affected() != 1 {
        return Err(Code::EnrollTokenUsed.into());
    }
    change.detail(json!({
        "epoch": epoch, "simulated": request.simulated, "serial": working.serial, "device_serial": device.serial,
    }));
    change.event(
        "node.enrolled",
        id,
        json!({ "epoch": epoch, "simulated": request.simulated }),
    );
    change.wake(Topic::Revoked);
    change.commit().await?;
    Ok(answer)
}

/// The digest of the key that a request proves to hold.
fn key_digest(csr_pem: &str) -> Answer<Sha256> {
    if csr_pem.len() > 16 * 1024 {
        return Err(Code::CsrInvalid.into());
    }
    let csr = rcgen::CertificateSigningRequestParams::from_pem(csr_pem)
        .map_err(|error| ApiError::new(Code::CsrInvalid).message(error.to_string()))?;
    Ok(Sha256::of(rcgen::PublicKeyData::der_bytes(&csr.public_key)))
}
