//! Somebody writes tenants into our database, with the owner's own account: allocations with copied or forged intents and
//! slots of their own, workflows, journals, other wishes. Rows alone make no task and take nothing away: what is signed is
//! what somebody asked for through the API, and what cannot go on is seen to be stuck.

use base::testing::eventually;
use data_encoding::HEXLOWER;
use dev::slice::SSH_KEY;
use host::pretend::Profile;
use model::api::ConditionCode;
use model::digest::Sha256;
use model::dsse::Envelope;
use model::id::{AllocationId, IntentId, NodeId, ProjectId, derive_op};
use model::intent::{Intent, IntentKind};
use model::key::SigningKey;
use model::signal::Code;
use model::state::{AllocationState, NodeMode};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{connect, sql};
use crate::allocations::Market;

/// The intruder's own key, of the same length as the tenant's.
pub(super) const EVES_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEVWRVZFVkVWRVZFVkVWRVZFVkVWRVZFVkVWRVZFVkVW";

#[tokio::test(flavor = "multi_thread")]
async fn abuse_12_rows_of_tenants() {
    let market = Market::open().await;
    let victim = market.rents("victim").await.id;
    market.until(victim, AllocationState::Active).await;
    let signed = tasks(&market).await;
    assert_eq!(signed.len(), 1, "{signed:?}");
    let before = market.host();
    assert!(before.contains(&vm(victim)) && !before.contains(EVES_KEY));

    inserted_allocations(&market, victim).await;
    ways_to_its_end(&market, victim).await;
    assert_eq!(tasks(&market).await, signed, "nothing was signed");
    assert_eq!(machines(&market.host()), machines(&before), "the host was not touched");

    under_way(&market, victim).await;
    another_wish_for_its_end(&market, victim).await;
    assert!(!market.host().contains(EVES_KEY));
    eventually("every slot is free", async || match market.free().await {
        8 => Ok(()),
        free => Err(free),
    })
    .await;
    market.close().await;
}

/// Every task that was ever signed for a tenant.
async fn tasks(market: &Market) -> Vec<String> {
    let mut conn = connect(&market.town).await;
    sqlx::query_scalar(
        "select task_type || ' ' || op_id || ' ' || issue from task where intent_sha256 is not null order by 1",
    )
    .fetch_all(&mut conn)
    .await
    .expect("tasks")
}

pub(super) async fn text(market: &Market, query: String) -> Option<String> {
    let mut conn = connect(&market.town).await;
    let found: Option<Option<String>> = sqlx::query_scalar(AssertSqlSafe(query))
        .fetch_optional(&mut conn)
        .await
        .expect("a look");
    found.flatten()
}

fn machines(host: &str) -> Value {
    let state: Value = serde_json::from_str(host).expect("JSON");
    let slicing = &state["slicing"];
    json!([
        slicing["machines"],
        slicing["leases"],
        slicing["dirs"],
        state["accounts"],
        state["keys"]
    ])
}

fn vm(id: AllocationId) -> String {
    format!("vm-{}", id.to_string().rsplit_once('_').expect("an id of ours").1)
}

/// What the API has signed for this allocation, and the wish beside it.
pub(super) async fn intent(market: &Market, of: AllocationId) -> (Vec<u8>, Vec<u8>) {
    let mut conn = connect(&market.town).await;
    sqlx::query_as("select envelope, wish from intent where allocation_id = $1 and generation = 1")
        .bind(of.uuid())
        .fetch_one(&mut conn)
        .await
        .expect("an intent")
}

/// A row of an intent as somebody else would write it; says under which digest.
pub(super) async fn store(market: &Market, of: AllocationId, envelope: &[u8], wish: &[u8]) -> Sha256 {
    let sha = Sha256::of(Uuid::new_v4().as_bytes());
    let payload = Envelope::parse(envelope).and_then(|envelope| envelope.payload_unverified());
    let sha = match payload.map(|bytes| Sha256::of(&bytes)) {
        Ok(own)
            if text(
                market,
                format!("select id::text from intent where sha256 = '{}'", hex(own.as_bytes())),
            )
            .await
            .is_none() =>
        {
            own
        }
        _ => sha,
    };
    let statement = format!(
        "insert into intent (sha256, id, allocation_id, generation, envelope, wish, created_at)
         values ('{}', gen_random_uuid(), '{of}', (select count(*) + 1 from intent where allocation_id = '{of}'), '{}', '{}', now())",
        hex(sha.as_bytes()),
        hex(envelope),
        hex(wish),
        of = of.uuid(),
    );
    sql(&market.town, &statement).await;
    sha
}

pub(super) fn hex(bytes: &[u8]) -> String {
    format!("\\x{}", HEXLOWER.encode(bytes))
}

pub(super) fn edited(wish: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(wish).expect("JSON");
    assert!(text.contains(from), "{from} in {text}");
    text.replace(from, to).into_bytes()
}

/// An allocation as if somebody had asked for it, with a slot of its own and a workflow that is due.
async fn insert(market: &Market, like: AllocationId, id: AllocationId, intent: Sha256) {
    let (lease, id, like) = (Uuid::new_v4(), id.uuid(), like.uuid());
    let statements = format!(
        "begin;
         insert into lease (id, node_id, slot_id, allocation_id, since)
         select '{lease}', node_id, id, '{id}', now() from slot where state = 'free' order by slot_index limit 1;
         update slot set state = 'reserved', lease_id = '{lease}' where id = (select slot_id from lease where id = '{lease}');
         insert into allocation select (jsonb_populate_record(a, jsonb_build_object(
             'id', '{id}', 'state', 'requested', 'version', 1, 'intent_sha256', '{sha}', 'power', null, 'private_ip', null,
             'deadline_at', now() + interval '1 hour', 'created_at', now()))).*
         from allocation a where id = '{like}';
         insert into allocation_slot (allocation_id, slot_id, since) select '{id}', slot_id, now() from lease where id = '{lease}';
         {workflow};
         commit",
        sha = hex(intent.as_bytes()),
        workflow = workflow("allocation.provision", id),
    );
    sql(&market.town, &statements).await;
}

fn workflow(flow: &str, of: Uuid) -> String {
    format!(
        "insert into workflow (id, flow, allocation_id, state, lease_until, due_at, created_at)
         values (gen_random_uuid(), '{flow}', '{of}', 'running', now(), now(), now())"
    )
}

/// With an intent that is another's, that others have signed, or that was never there.
async fn inserted_allocations(market: &Market, victim: AllocationId) {
    let fleet = market.town.fleet().await;
    let (real, wish) = intent(market, victim).await;
    let parsed = Envelope::parse(&real).expect("an envelope");
    let signed = Sha256::of(&parsed.payload_unverified().expect("base64"));
    let now = market.town.db.clock().now();
    let mut asked = Vec::new();
    for case in 0..6 {
        let id = AllocationId::new();
        let wish = edited(&edited(&wish, &victim.to_string(), &id.to_string()), SSH_KEY, EVES_KEY);
        let forged = Intent {
            aud: fleet.app.installation,
            intent_id: IntentId::new(),
            allocation_id: id,
            kind: IntentKind::Create,
            generation: 1,
            project_id: ProjectId::new(),
            actor_ref: "user:ada".to_owned(),
            wish_sha256: Sha256::of(&wish),
            issued_at: now,
            expires_at: now.plus_s(3600),
        };
        let mut foreign = forged.sign(&SigningKey::generate());
        let (sha, code) = match case {
            // A real one, copied as it is: it allows another operation.
            0 => (signed, Code::IntentMissing),
            1 => (Sha256::of(b"never stored"), Code::IntentMissing),
            2 => (store(market, id, &foreign.to_bytes(), &wish).await, Code::IntentInvalid),
            3 => {
                foreign.signatures[0].keyid = fleet.keyring().intent_public().keyid();
                (store(market, id, &foreign.to_bytes(), &wish).await, Code::IntentInvalid)
            }
            // A real one under another digest, with another wish beside it.
            4 => (store(market, id, &real, &wish).await, Code::IntentInvalid),
            _ => (store(market, id, b"{}", &wish).await, Code::IntentInvalid),
        };
        insert(market, victim, id, sha).await;
        asked.push((id, code));
    }
    for (id, code) in asked {
        let over = market.until(id, AllocationState::Failed).await;
        assert_eq!(over.code, Some(code), "{:?}", over.detail);
    }
    assert_eq!(market.free().await, 7, "and gives back what it had");
}

/// A journal that goes on at this step.
fn record(way: &str, at: usize, step: &str) -> Value {
    let error = json!({ "code": Code::TaskExpired, "detail": "it says so here" });
    let next = json!({ "begin": { "way": way, "at": at, "step": step } });
    match way {
        "undo" => json!({ "next": next, "cause": { "at": step, "error": error }, "facts": null }),
        _ => json!({ "next": next, "facts": null }),
    }
}

/// A workflow that would take an active allocation away, and a journal that says that it was on its way back.
async fn ways_to_its_end(market: &Market, victim: AllocationId) {
    let provision = derive_op(victim, "allocation.provision", 1).uuid();
    sql(&market.town, &workflow("allocation.release", victim.uuid())).await;
    let turned = format!(
        "begin;
         insert into workflow_step (workflow_id, seq, at, record)
         select workflow_id, max(seq) + 1, now(), '{}' from workflow_step where workflow_id = '{provision}' group by 1;
         update workflow set state = 'undoing', ended_at = null, lease_until = now(), due_at = now() where id = '{provision}';
         commit",
        record("undo", 1, "make")
    );
    sql(&market.town, &turned).await;
    for flow in ["allocation.release", "allocation.provision"] {
        let of = victim.uuid();
        let query = format!("select state from workflow where allocation_id = '{of}' and flow = '{flow}'");
        eventually("it cannot go on", async || match text(market, query.clone()).await {
            Some(state) if state == "stuck" => Ok(()),
            seen => Err(seen),
        })
        .await;
    }
    eventually("operators see it", async || {
        let seen = market.shows(victim).await;
        assert_eq!(seen.state, AllocationState::Active, "it stays its tenant's");
        match seen.conditions.iter().any(|one| one.code == ConditionCode::Stuck) {
            true => Ok(()),
            false => Err(format!("{:?}", seen.conditions)),
        }
    })
    .await;
}

/// Rows that change between the acceptance and the signature.
async fn under_way(market: &Market, victim: AllocationId) {
    let (other, mut sim) = market.town.node_for("b", Profile::H100x8, NodeMode::Slice).await;
    let (real, _) = intent(market, victim).await;
    let real = Envelope::parse(&real)
        .and_then(|real| real.payload_unverified())
        .expect("an envelope");
    let signed = tasks(market).await;
    let copied = format!("new.intent_sha256 := '{}';", hex(Sha256::of(&real).as_bytes()));
    let wish = format!(
        "update intent set wish = convert_to(replace(convert_from(wish, 'utf8'), '{SSH_KEY}', '{EVES_KEY}'), 'utf8')
         where sha256 = new.intent_sha256;"
    );
    let skipped = format!(
        "insert into workflow_step (workflow_id, seq, at, record)
         select id, 1, now(), '{}' from workflow where allocation_id = new.id;",
        record("run", 2, "activate")
    );
    for (key, meddling, code) in [
        ("intent", copied, Code::IntentMissing),
        ("node", moved(other), Code::IntentMissing),
        ("wish", wish, Code::IntentInvalid),
        ("journal", skipped, Code::StateConflict),
    ] {
        meddle(market, &meddling).await;
        let id = market.rents(key).await.id;
        let over = market.until(id, AllocationState::Failed).await;
        assert_eq!(over.code, Some(code), "{key}: {:?}", over.detail);
        assert!(!market.moves(id).await.contains(&AllocationState::Active), "{key}");
        assert_eq!(tasks(market).await, signed, "{key}: nothing was signed");
    }
    // What was asked for lies in its row for people to read; what is made is what was signed.
    let request = format!(
        "new.request := jsonb_set(new.request, '{{ssh_public_keys}}', '[\"{EVES_KEY}\"]'); new.default_username := 'eve';"
    );
    meddle(market, &request).await;
    let id = market.rents("request").await.id;
    let active = market.until(id, AllocationState::Active).await;
    assert_ne!(active.default_username.as_deref(), Some("eve"));
    assert!(market.host().contains(&vm(id)) && !market.host().contains(EVES_KEY));
    sql(&market.town, "drop trigger eve on allocation; drop function eve()").await;
    market.verb(id, "release").await;
    market.until(id, AllocationState::Released).await;
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
}

fn moved(other: NodeId) -> String {
    format!("new.node_id := '{}';", other.uuid())
}

/// From now on, in the moment in which a worker takes an allocation up.
async fn meddle(market: &Market, what: &str) {
    let statements = format!(
        "create or replace function eve() returns trigger language plpgsql security definer
         as $$ begin {what} return new; end $$;
         create or replace trigger eve before update on allocation for each row
         when (old.state = 'requested' and new.state = 'provisioning') execute function eve()"
    );
    sql(&market.town, &statements).await;
}

/// A release takes away what was signed for, or waits and says why.
async fn another_wish_for_its_end(market: &Market, victim: AllocationId) {
    let signed = tasks(market).await;
    let (_, honest) = intent(market, victim).await;
    let forged = edited(&honest, &vm(victim), &vm(AllocationId::new()));
    let put = async |wish: &[u8]| {
        let wish = hex(wish);
        sql(
            &market.town,
            &format!(
                "update intent set wish = '{wish}' where allocation_id = '{}'",
                victim.uuid()
            ),
        )
        .await;
    };
    put(&forged).await;
    market.verb(victim, "release").await;
    let of = victim.uuid();
    let waits = format!("select waiting_code from allocation where id = '{of}' and waiting_code is not null");
    eventually("it says what it waits for", async || {
        match text(market, waits.clone()).await {
            Some(code) if code == Code::IntentInvalid.as_str() => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    assert_eq!(tasks(market).await, signed, "nothing was signed");
    put(&honest).await;
    market.until(victim, AllocationState::Released).await;
    assert!(!market.host().contains(&vm(victim)));
}
