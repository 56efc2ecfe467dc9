//! Fifty tenants and eight slots: a thousand requests at once, taken back, given back and forgotten about in every mixture.
//! The judge is a history of who held what, from the host's own log and from what is on record.

use std::collections::BTreeMap;

use dev::dice::Dice;
use dev::history::{self, History, What};
use model::api::{KeyCreate, KeyView, ProjectCreate, ProjectView};
use model::signal::Code;
use uuid::Uuid;

use super::*;

const TENANTS: usize = 50;
const REQUESTS: usize = 20;
const SLOTS_EACH: u32 = 2;
const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

#[derive(Default)]
struct Counts {
    accepted: usize,
    full: usize,
    over_quota: usize,
}

/// A person with a project of their own, a key, and room for two slots.
async fn tenant(market: &Market, n: usize) -> (Api, ProjectView) {
    let name = format!("tenant-{n}");
    let (_, api) = market.town.person(&name, base::auth::Scope::Project).await;
    let body = ProjectCreate {
        name: name.clone(),
        owner: Some(name),
    };
    let project: ProjectView = market.api().post("/v1/projects", &body).await.expect("a project");
    let quota = format!("/v1/projects/{}/quota", project.id);
    let room = json!({ "slots": SLOTS_EACH, "allocations": SLOTS_EACH });
    let _: serde_json::Value = market.api().post(&quota, &room).await.expect("room");
    let key = KeyCreate {
        name: "mine".to_owned(),
        public_key: PUBLIC_KEY.parse().expect("a key"),
    };
    let _: KeyView = api.post("/v1/keys", &key).await.expect("a key");
    (api, project)
}

/// Asks again and again; of what it gets, some is taken back, some given back, some kept until the end.
async fn asks(api: Api, project: ProjectView, mut dice: Dice) -> Counts {
    let mut counts = Counts::default();
    let mut kept: Vec<AllocationId> = Vec::new();
    let wish = AllocationCreate {
        project: Some(project.id),
        ..Market::wish()
    };
    let ends = async |id: AllocationId, verb: &str| {
        let path = format!("/v1/allocations/{id}/{verb}");
        let ended = api.call(http::Method::POST, &path, Some(&json!({}))).await;
        let status = ended.expect("an answer").status.as_u16();
        assert!(status == 202 || (verb == "cancel" && status == 409), "{verb}: {status}");
        status == 202
    };
    for n in 0..REQUESTS {
        let answer = api
            .call_as(&format!("{}-{n}", project.name), "/v1/allocations", &wish)
            .await
            .expect("an answer");
        match (answer.status.as_u16(), answer.error().map(|error| error.code)) {
            (202, _) => {
                counts.accepted += 1;
                let made: AllocationView = answer.json().expect("an allocation");
                match dice.roll(3) {
                    // What is active by then is not cancelled, and is kept.
                    0 if ends(made.id, "cancel").await => {}
                    1 if ends(made.id, "release").await => {}
                    _ => kept.push(made.id),
                }
            }
            (_, Some(Code::NoCapacity)) => counts.full += 1,
            (_, Some(Code::QuotaExceeded)) => counts.over_quota += 1,
            other => panic!("{other:?}"),
        }
        if dice.roll(4) == 0
            && let Some(id) = kept.pop()
        {
            ends(id, "release").await;
        }
    }
    for id in kept {
        ends(id, "release").await;
    }
    counts
}

/// Who held which slot, in the order in which the host itself has seen it.
async fn holders(market: &Market) -> History {
    let slots: Vec<(Uuid, Uuid)> = sqlx::query_as("select allocation_id, slot_id from allocation_slot")
        .fetch_all(market.town.platform.apps[0].db.read())
        .await
        .expect("slots");
    let log = std::fs::read_to_string(market.sim.dir.host().join("effects.jsonl")).expect("the host's log");
    let mut history = History::default();
    for line in log.lines() {
        let effect: serde_json::Value = serde_json::from_str(line).expect("a line");
        let takes = match effect["verb"].as_str() {
            Some("ensure_leased") => true,
            Some("ensure_released" | "ensure_not_leased") => false,
            _ => continue,
        };
        let who: AllocationId = effect["tenant"].as_str().expect("a tenant").parse().expect("an id");
        for (_, slot) in slots.iter().filter(|(allocation, _)| *allocation == who.uuid()) {
            let who = who.to_string();
            let what = if takes { What::Takes(who) } else { What::Gives(who) };
            history.put(slot.to_string(), what);
        }
    }
    history
}

/// Those that have not ended, and where they are.
async fn open(market: &Market) -> Vec<(String, String, Option<String>, Option<String>)> {
    sqlx::query_as(
        "select a.state, coalesce(a.waiting_code, a.stuck_code, a.state_reason),
                (select string_agg(concat_ws(' ', w.flow, w.state, w.wait_reason, w.lease_until - now(), w.due_at - now()), '; ')
                 from workflow w where w.allocation_id = a.id and w.ended_at is null),
                (select string_agg(concat_ws(' ', t.task_type, t.state, t.code), '; ') from task t
                 where t.op_id in (select op_id from task where id in (select waits_for from workflow w where w.allocation_id = a.id)))
         from allocation a where a.ended_at is null",
    )
    .fetch_all(market.town.platform.apps[0].db.read())
    .await
    .expect("a look")
}

/// The most that each project held at any one moment: events of one project are written one after the other.
async fn most_held(market: &Market) -> BTreeMap<String, i32> {
    let rows: Vec<(String, i32)> = sqlx::query_as(
        "select data ->> 'project_id', case when kind = 'provisioning.requested' then 1 else -1 end from outbox
         where kind in ('provisioning.requested', 'provisioning.released', 'provisioning.failed', 'provisioning.cancelled')
         order by drawn",
    )
    .fetch_all(market.town.platform.apps[0].db.read())
    .await
    .expect("events");
    let mut held: BTreeMap<String, (i32, i32)> = BTreeMap::new();
    for (project, by) in rows {
        let (now, most) = held.entry(project).or_default();
        *now += by;
        *most = (*most).max(*now);
    }
    assert!(held.values().all(|(now, _)| *now == 0), "all of it has ended: {held:?}");
    held.into_iter().map(|(project, (_, most))| (project, most)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_requests_of_fifty_tenants_for_eight_slots() {
    let market = Market::open().await;
    let seed = 7;
    let mut dice = Dice::new(seed);
    let mut crowd = tokio::task::JoinSet::new();
    for n in 0..TENANTS {
        let (api, project) = tenant(&market, n).await;
        crowd.spawn(asks(api, project, dice.fork()));
    }
    let mut all = Counts::default();
    while let Some(counts) = crowd.join_next().await {
        let counts = counts.expect("a tenant");
        all.accepted += counts.accepted;
        all.full += counts.full;
        all.over_quota += counts.over_quota;
    }
    assert_eq!(all.accepted + all.full + all.over_quota, TENANTS * REQUESTS);
    assert!(
        all.accepted >= 20 && all.full >= 100,
        "{} {} {}",
        all.accepted,
        all.full,
        all.over_quota
    );
    eventually("all of it has ended", async || {
        let open = open(&market).await;
        if open.is_empty() { Ok(()) } else { Err(open) }
    })
    .await;
    println!(
        "{} accepted, {} full, {} over quota",
        all.accepted, all.full, all.over_quota
    );
    let slots = market.slots().await;
    let closed: Vec<_> = slots
        .iter()
        .filter(|slot| slot.state != SlotState::Free)
        .map(|slot| (slot.state, slot.quarantine.clone()))
        .collect();
    assert!(closed.is_empty(), "no reservation has leaked: {closed:?}");
    let holders = holders(&market).await;
    assert!(holders.events().len() >= 2 * TENANTS / 5, "{}", holders.events().len());
    assert_eq!(history::one_holder_at_a_time(&holders), []);
    let most = most_held(&market).await;
    assert!(most.values().all(|held| *held <= SLOTS_EACH as i32), "{most:?}");
    let counted: i64 = sqlx::query_scalar("select count(*) from quota where slots_used <> 0 or allocations_used <> 0")
        .fetch_one(market.town.platform.apps[0].db.read())
        .await
        .expect("a count");
    assert_eq!(counted, 0);
    market.close().await;
}
