//! An allocation is made in one transaction: authorised, counted against the quota, given its slots, signed as an intent,
//! told, and put into the hands of a workflow. Either all of it is there or nothing is.

use base::auth::Principal;
use base::http::{Answer, ApiError};
use base::idempotency::Key;
use base::{Change, Target};
use fleet::intent::{Authorised, sign};
use fleet::machine as whole;
use fleet::slot::lease;
use fleet::{Fleet, slot::SlotRow};
use model::api::{AllocationCreate, SkuKind};
use model::catalogue::CatalogueImage;
use model::id::{AllocationId, ProjectId};
use model::intent::Wish;
use model::signal::Code;
use model::state::{AllocationState, ProjectRole};
use model::task::vm_provision;
use model::value::{Name, SshKey, Uid};
use serde_json::json;
use time::OffsetDateTime;

use super::power::vm_name;
use super::{moves, store};
use crate::key;
use crate::project::{quota, store as projects};
use crate::seat::Seat;
use crate::sku::store::SkuRow;
use crate::sku::{image, store as skus};
use crate::workflow::{Flow, journal};

/// The bridge that slices stand on; each node's own policy has the last word on it.
const BRIDGE: &str = "br-slices";
/// Whom a tenant is on a whole machine.
const MACHINE_USER: &str = "tenant";
const TTL_LEAST_S: u64 = 60;
const TTL_MOST_S: u64 = 10 * 366 * 86_400;

/// Which allocation it is, and whether it was made by an earlier request under the same key.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    pub id: AllocationId,
    pub replayed: bool,
}

pub async fn create(fleet: &Fleet, principal: &Principal, wish: &AllocationCreate, key: &Key) -> Answer<Created> {
    check(wish)?;
    let project = project(fleet, principal, wish).await?;
    // Who has no business there locks nothing and waits for nobody.
    Seat::take(fleet.app.db.bookkeeping(), principal, project)
        .await?
        .needs(ProjectRole::Member)?;
    let id = AllocationId::new();
    let mut change = fleet.app.db.change(&principal.actor(), "allocation.create", id).await?;
    // First of all locks, and asked again under it: a seat that is taken away meanwhile is gone.
    let quota = quota::lock(&mut change, project).await?;
    Seat::take(change.conn(), principal, project)
        .await?
        .needs(ProjectRole::Member)?;
    if let Some(answer) = key.look(&mut change).await? {
        let id = serde_json::from_value(answer["id"].clone()).map_err(ApiError::internal)?;
        // Made where the caller had a seat then; whether it has one there now was not asked yet.
        if store::get(change.conn(), id).await?.map(|row| row.project()) != Some(project) {
            return Err(Code::IdempotencyKeyReused.into());
        }
        return Ok(Created { id, replayed: true });
    }
    let sku = skus::by_name(change.conn(), &wish.sku).await?.ok_or_else(|| {
        ApiError::field("sku", format!("there is no SKU {:?}", wish.sku)).hint("`gpuaas sku list` shows what there is")
    })?;
    quota.admits(change.conn(), &sku).await?;
    quota.admits_ttl(wish.ttl_s)?;
    let keys = keys(&mut change, principal, wish).await?;
    let draft = Draft {
        id,
        project,
        principal,
        wish,
        sku: &sku,
        keys,
    };
    match sku.kind()? {
        SkuKind::Slice => slice(fleet, &mut change, &draft).await?,
        SkuKind::Machine => machine(fleet, &mut change, &draft).await?,
    }
    key.keep(&mut change, 202, &json!({ "id": id })).await?;
    change.commit().await?;
    Ok(Created { id, replayed: false })
}

fn check(wish: &AllocationCreate) -> Answer<()> {
    if let Some(name) = &wish.name
        && (!(1..=64).contains(&name.chars().count()) || name.chars().any(char::is_control))
    {
        return Err(ApiError::field("name", "1 to 64 printable characters"));
    }
    if wish.ssh_public_keys.len() > 32 {
        return Err(ApiError::field("ssh_public_keys", "32 at most"));
    }
    check_ttl(wish.ttl_s)
}

pub(super) fn check_ttl(ttl_s: Option<u64>) -> Answer<()> {
    match ttl_s {
        Some(ttl) if !(TTL_LEAST_S..=TTL_MOST_S).contains(&ttl) => Err(ApiError::field(
            "ttl_s",
            format!("{TTL_LEAST_S} to {TTL_MOST_S} seconds"),
        )),
        _ => Ok(()),
    }
}

/// The one that is named, or the only one that the caller is in.
async fn project(fleet: &Fleet, principal: &Principal, wish: &AllocationCreate) -> Answer<ProjectId> {
    if let Some(id) = wish.project.or(principal.confined.map(|confined| confined.project)) {
        return Ok(id);
    }
    match projects::first_two(fleet.app.db.read(), principal.user_id)
        .await?
        .as_slice()
    {
        [only] => Ok((*only).into()),
        [] => Err(ApiError::field("project", "you are in no project")
            .hint("whoever owns one lets you in: `gpuaas project member add PROJECT YOU`")),
        _ => Err(ApiError::field("project", "you are in several projects: say which one")
            .hint("`gpuaas project list`, then --project NAME")),
    }
}

async fn keys(change: &mut Change, principal: &Principal, wish: &AllocationCreate) -> Answer<Vec<SshKey>> {
    if !wish.ssh_public_keys.is_empty() {
        return Ok(wish.ssh_public_keys.clone());
    }
    let mut keys = key::of(change.conn(), principal.user_id).await?;
    keys.truncate(32);
    if keys.is_empty() {
        return Err(Code::SshKeyMissing.into());
    }
    Ok(keys)
}

struct Draft<'a> {
    id: AllocationId,
    project: ProjectId,
    principal: &'a Principal,
    wish: &'a AllocationCreate,
    sku: &'a SkuRow,
    keys: Vec<SshKey>,
}

async fn slice(fleet: &Fleet, change: &mut Change, draft: &Draft<'_>) -> Answer<()> {
    let image = image::look_up(fleet, change.conn(), draft.sku, draft.wish.image.as_ref()).await?;
    let slots = lease::reserve(change, draft.id, &draft.sku.wanted())
        .await
        .map_err(no_room)?;
    let node = slots.first().map(SlotRow::node).ok_or(Code::NoCapacity)?;
    let params = params(draft, image, &slots)?;
    let user = params.default_username.to_string();
    let authorised = Authorised {
        allocation: draft.id,
        project: draft.project,
        generation: 1,
        wish: Wish::Slice {
            node_id: node,
            params: Box::new(params),
        },
    };
    make(fleet, change, draft, &authorised, &user).await?;
    let ids: Vec<uuid::Uuid> = slots.iter().map(|slot| slot.id).collect();
    sqlx::query("insert into allocation_slot (allocation_id, slot_id, since) select $1, unnest($2::uuid[]), $3")
        .bind(draft.id.uuid())
        .bind(ids)
        .bind(OffsetDateTime::from(change.at()))
        .execute(change.conn())
        .await?;
    Ok(())
}

async fn machine(fleet: &Fleet, change: &mut Change, draft: &Draft<'_>) -> Answer<()> {
    if draft.wish.image.is_some() {
        return Err(ApiError::field(
            "image",
            "a machine runs what its operator has installed",
        ));
    }
    let node = whole::reserve(change, draft.id, &draft.sku.machine())
        .await
        .map_err(no_room)?;
    let username: Name = MACHINE_USER.parse().map_err(ApiError::internal)?;
    let authorised = Authorised {
        allocation: draft.id,
        project: draft.project,
        generation: 1,
        wish: Wish::Machine {
            node_id: node.id(),
            username,
            uid: uid_of(draft.id)?,
            ssh_public_keys: draft.keys.clone(),
            gpu_access: true,
        },
    };
    make(fleet, change, draft, &authorised, MACHINE_USER).await
}

/// Another one for nearly every tenant, so that a number alone hardly ever makes one the owner of what another has left.
fn uid_of(id: AllocationId) -> Answer<Uid> {
    let all = u128::from(Uid::MAX - Uid::MIN + 1);
    let offset = u32::try_from(id.uuid().as_u128() % all).map_err(ApiError::internal)?;
    Uid::try_from(Uid::MIN + offset).map_err(ApiError::internal)
}

/// Signed, stored, told, and in the hands of a workflow.
async fn make(
    fleet: &Fleet,
    change: &mut Change,
    draft: &Draft<'_>,
    authorised: &Authorised,
    user: &str,
) -> Answer<()> {
    let (_, intent) = sign(fleet, change, authorised).await?;
    insert(change, draft, authorised.wish.node().uuid(), intent.as_bytes(), user).await?;
    journal::start(change, Flow::Provision, draft.id).await?;
    change.event(
        moves::kind(AllocationState::Requested),
        Target::from(draft.id).at_version(moves::FIRST_VERSION),
        json!({ "project_id": draft.project, "sku": draft.sku.name, "slots": draft.sku.slots }),
    );
    Ok(())
}

/// What a tenant may know of a fleet that is full.
fn no_room(error: ApiError) -> ApiError {
    match error.code {
        Code::SlotUnavailable => Code::NoCapacity.into(),
        _ => error,
    }
}

fn params(draft: &Draft<'_>, image: CatalogueImage, slots: &[SlotRow]) -> Answer<vm_provision::Params> {
    Ok(vm_provision::Params {
        allocation_id: draft.id,
        vm_name: vm_name(draft.id)?,
        default_username: image.default_username,
        image_path: image.name,
        image_sha256: image.sha256,
        image_size_bytes: image.size_bytes,
        image_format: image.format,
        image_url: image.url,
        image_trusted: false,
        driver_strategy: image.driver_strategy,
        ssh_public_keys: draft.keys.clone(),
        ovs_bridge: BRIDGE.parse().map_err(ApiError::internal)?,
        graceful_timeout_seconds: 120,
        readiness_timeout_seconds: 900,
        slots: slots.iter().map(SlotRow::as_signed).collect::<Answer<_>>()?,
    })
}

async fn insert(change: &mut Change, draft: &Draft<'_>, node: uuid::Uuid, intent: &[u8; 32], user: &str) -> Answer<()> {
    let at = change.at();
    let (by, correlation) = (change.actor().reference(), change.actor().correlation_id);
    let plus = |seconds: i64| OffsetDateTime::from(at.plus_s(seconds));
    let ends_at = draft.wish.ttl_s.and_then(|ttl| i64::try_from(ttl).ok()).map(plus);
    let mut request = draft.wish.clone();
    request.project = Some(draft.project);
    sqlx::query(
        "insert into allocation (id, project_id, name, kind, sku_id, sku_version, slots, rate_micro_per_hour, currency,
             creator_id, request, node_id, intent_sha256, state, state_since, state_reason, state_by, correlation_id,
             deadline_at, ends_at, default_username, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'requested', $14, 'asked for', $15, $16, $17, $18,
                 $19, $14)",
    )
    .bind(draft.id.uuid())
    .bind(draft.project.uuid())
    .bind(&draft.wish.name)
    .bind(&draft.sku.kind)
    .bind(draft.sku.id)
    .bind(draft.sku.version)
    .bind(draft.sku.slots)
    .bind(draft.sku.price_micro_per_hour)
    .bind(&draft.sku.currency)
    .bind(draft.principal.user_id.uuid())
    .bind(sqlx::types::Json(&request))
    .bind(node)
    .bind(intent.as_slice())
    .bind(OffsetDateTime::from(at))
    .bind(by)
    .bind(correlation)
    .bind(plus(moves::REQUESTED_S))
    .bind(ends_at)
    .bind(user)
    .execute(change.conn())
    .await?;
    Ok(())
}
