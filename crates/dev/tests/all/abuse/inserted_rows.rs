//! Somebody writes into our database. A task row makes no task: the node refuses what was not signed for it, and says
//! so under its own signature. An intent row makes no intent: what was not signed by the API covers nothing.

use base::auth::Role;
use base::testing::eventually;
use data_encoding::{BASE64, HEXLOWER};
use dev::simnode::SimNode;
use dev::town::Town;
use host::pretend::Profile;
use model::api::{AuditRow, Page};
use model::digest::Sha256;
use model::dsse::Envelope;
use model::envelope::{TASK_TYPE, TaskPayload};
use model::id::{NodeId, TaskId};
use model::intent::Intent;
use model::key::{PublicKey, SigningKey};
use model::node_api::{TaskAnswer, TaskRequest};
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::state::TaskState;
use wire::http::Client;

use super::watch::connect;
use super::worker::wish;
use super::{audited, process, refused, request, snapshot, sql};
use crate::EXE;
use crate::puppet::{Puppet, post};
use crate::tenant::Tenant;

struct Scene {
    town: Town,
    node: NodeId,
    running: SimNode,
    worker: Client,
    tenant: Tenant,
    intent: Sha256,
}

impl Scene {
    async fn set() -> Self {
        let town = Town::start(EXE).await;
        let (node, running) = town.node("target", Profile::Cpu).await;
        let worker = process(&town, Role::ProvisioningWorker).await;
        let tenant = Tenant::new("ada", 20_001);
        let intent = tenant.intent(&town, node).await;
        Self {
            town,
            node,
            running,
            worker,
            tenant,
            intent,
        }
    }

    /// Through the route that workers use, to its end.
    async fn done(&self, request: &TaskRequest) -> TaskId {
        let asked: TaskAnswer = post(&self.worker, "/internal/v1/tasks", request)
            .await
            .json()
            .expect("the intent covers it");
        let task = self.town.until_task(asked.task_id, TaskState::is_end).await;
        assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
        asked.task_id
    }

    fn host(&self) -> String {
        std::fs::read_to_string(self.running.dir.host().join("state.json")).expect("the pretended host's memory")
    }

    async fn end(mut self) {
        self.running.stop();
        self.town.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_12_inserted_rows() {
    base::metrics::install(&[fleet::metrics::METRICS]);
    let scene = Scene::set().await;
    let provision = request(&scene.tenant, scene.node, scene.intent, &scene.tenant.provision());
    let made = scene.done(&provision).await;
    assert!(scene.host().contains("\"ada\""), "the honest one has its effect");
    forged_tasks(&scene, made).await;
    forged_intents(&scene).await;
    resurrection(&scene, made).await;
    scene.end().await;
}

/// A signed row of the queue, as an intruder finds it.
async fn envelope_of(town: &Town, task: TaskId) -> Envelope {
    let mut conn = connect(town).await;
    let bytes: Vec<u8> = sqlx::query_scalar("select envelope from task where id = $1")
        .bind(task.uuid())
        .fetch_one(&mut conn)
        .await
        .expect("the row");
    Envelope::parse(&bytes).expect("an envelope")
}

/// Copies a row of the queue under a new id and operation, with other bytes in it.
async fn insert(scene: &Scene, like: TaskId, bytes: &[u8]) -> TaskId {
    let id = TaskId::new();
    let statement = format!(
        "insert into task (id, op_id, issue, node_id, node_epoch, seq, task_type, type_version, keyid, envelope,
                           payload_sha256, state, actor_ref, correlation_id, created_at, start_by)
         select '{}', gen_random_uuid(), 0, '{}', 1, 1000, task_type, type_version, keyid, '\\x{}', payload_sha256,
                'queued', actor_ref, correlation_id, now(), now() + interval '10 minutes'
         from task where id = '{}'",
        id.uuid(),
        scene.node.uuid(),
        HEXLOWER.encode(bytes),
        like.uuid()
    );
    sql(&scene.town, &statement).await;
    id
}

pub(super) fn alarms(code: Code) -> u64 {
    let wanted = format!("{}{{code=\"{code}\"}}", fleet::metrics::ALARMS);
    let text = base::metrics::render();
    let line = text.lines().find_map(|line| line.strip_prefix(&wanted));
    line.map_or(0, |count| count.trim().parse().expect("a count"))
}

async fn forged_tasks(scene: &Scene, made: TaskId) {
    let real = envelope_of(&scene.town, made).await;
    let bytes = real.payload_unverified().expect("base64");
    let mut payload: TaskPayload = serde_json::from_slice(&bytes).expect("a task");
    payload.task_id = TaskId::new();
    let key = SigningKey::generate();
    let own_key = payload.sign(&key);
    let mut our_keyid = own_key.clone();
    our_keyid.signatures[0].keyid = real.signatures[0].keyid;
    let text = String::from_utf8(bytes).expect("JSON").replace("\"ada\"", "\"eve\"");
    let edited = Envelope {
        payload: BASE64.encode(text.as_bytes()),
        ..real.clone()
    };
    let unsigned = Envelope {
        signatures: Vec::new(),
        ..real.clone()
    };
    // Signed by us, honestly, for somebody else.
    let other = Puppet::awake(&scene.town, "other").await;
    let for_other = other.claim().await;
    let before = scene.host();
    let attacks = [
        (insert(scene, made, &own_key.to_bytes()).await, Code::KeyUnknown),
        (insert(scene, made, &our_keyid.to_bytes()).await, Code::SignatureInvalid),
        (insert(scene, made, &edited.to_bytes()).await, Code::SignatureInvalid),
        (insert(scene, made, &unsigned.to_bytes()).await, Code::EnvelopeMalformed),
        (insert(scene, made, b"rm -rf /").await, Code::EnvelopeMalformed),
        (insert(scene, made, &real.to_bytes()).await, Code::PayloadMalformed),
        (
            insert(scene, for_other.task_id, &for_other.envelope.to_bytes()).await,
            Code::WrongNode,
        ),
    ];
    assert_eq!(own_key.payload_type, TASK_TYPE);
    for (task, code) in &attacks {
        let ended = scene.town.until_task(*task, TaskState::is_end).await;
        assert_eq!((ended.state, ended.code), (TaskState::Failed, Some(*code)), "{ended:?}");
        assert_eq!(ended.started_at, None, "it never started");
        signed_refusal(scene, *task, *code).await;
        assert!(alarms(*code) > 0, "{code} raises an alarm");
    }
    assert_eq!(scene.host(), before, "the host was not touched");
}

/// The refusal lies in the row as the node's executor signed it, and in the audit.
async fn signed_refusal(scene: &Scene, task: TaskId, code: Code) {
    let mut conn = connect(&scene.town).await;
    let (result, key): (Vec<u8>, Vec<u8>) =
        sqlx::query_as("select t.result, n.result_public from task t join node n on n.id = t.node_id where t.id = $1")
            .bind(task.uuid())
            .fetch_one(&mut conn)
            .await
            .expect("a result");
    let envelope = Envelope::parse(&result).expect("an envelope");
    let key = PublicKey::from_bytes(key.try_into().expect("32 bytes"));
    let signed = ResultPayload::open(&envelope, &key).expect("signed by the executor");
    assert_eq!((signed.outcome, signed.code), (Outcome::Refused, Some(code)));
    let rows: Page<AuditRow> = scene
        .town
        .api()
        .get(&format!("/v1/audit?action=task.result&target={task}"))
        .await
        .expect("the audit is read");
    let row = rows.items.first().expect("an audit row");
    assert_eq!(row.details["outcome"], "refused");
    assert_eq!(row.details["code"], code.as_str());
}

async fn forged_intents(scene: &Scene) {
    let town = &scene.town;
    let eve = Tenant::new("eve", 20_002);
    let wish = wish(&eve, scene.node);
    let fleet = town.fleet().await;
    let now = town.db.clock().now();
    let forged = Intent {
        aud: fleet.app.installation,
        intent_id: model::id::IntentId::new(),
        allocation_id: eve.allocation,
        kind: model::intent::IntentKind::Create,
        generation: 1,
        project_id: model::id::ProjectId::new(),
        actor_ref: "user:ada".to_owned(),
        wish_sha256: Sha256::of(&wish),
        issued_at: now,
        expires_at: now.plus_s(3600),
    };
    let foreign = forged.sign(&SigningKey::generate());
    let mut our_keyid = foreign.clone();
    our_keyid.signatures[0].keyid = fleet.keyring().intent_public().keyid();
    let unsigned = Envelope {
        signatures: Vec::new(),
        ..foreign.clone()
    };
    // A task key is no intent key.
    let purpose = eve.provision().task_type().spec().purpose;
    let by_task_key = forged.sign(fleet.keyring().task_key(purpose).expect("a key"));
    let mut asks = Vec::new();
    for envelope in [foreign, our_keyid, unsigned, by_task_key] {
        let sha = row(town, &eve, &envelope.to_bytes(), &wish).await;
        asks.push((request(&eve, scene.node, sha, &eve.provision()), Code::IntentInvalid));
    }
    let garbage = row(town, &eve, b"{}", &wish).await;
    asks.push((
        request(&eve, scene.node, garbage, &eve.provision()),
        Code::IntentInvalid,
    ));
    // A real one, copied under another digest and with another wish beside it.
    let real = real_intent(town, scene.intent).await;
    let copied = row(town, &eve, &real, &wish).await;
    asks.push((request(&eve, scene.node, copied, &eve.provision()), Code::IntentInvalid));
    // The real one itself, for what it does not cover: another allocation, node, type, account or operation.
    let ada = &scene.tenant;
    let good = request(ada, scene.node, scene.intent, &ada.provision());
    let elsewhere = town.add_node("elsewhere").await.node.id;
    asks.push((
        request(&eve, scene.node, scene.intent, &eve.provision()),
        Code::IntentMissing,
    ));
    // The same account, but asked for by another allocation.
    let same_account = Tenant::new("ada", 20_001);
    asks.push((
        request(&same_account, scene.node, scene.intent, &same_account.provision()),
        Code::IntentMissing,
    ));
    let other_op = TaskRequest {
        op_id: model::id::OpId::new(),
        ..good.clone()
    };
    asks.push((other_op, Code::IntentMissing));
    let probe = model::task::Task::HealthProbe(model::task::health_probe::Params {});
    asks.push((request(ada, scene.node, scene.intent, &probe), Code::IntentMissing));
    let never = request(ada, scene.node, Sha256::of(b"never stored"), &ada.provision());
    asks.push((never, Code::IntentMissing));

    let (before, host) = (snapshot(town, &["task"]).await, scene.host());
    for (ask, code) in &asks {
        let answer = post(&scene.worker, "/internal/v1/tasks", ask).await;
        let row = audited(town, &refused(&answer, *code)).await;
        assert_eq!(
            (row.action.as_str(), row.target_id),
            ("task.ask", scene.node.to_string())
        );
    }
    let to_elsewhere = TaskRequest {
        node_id: elsewhere,
        ..good
    };
    let answer = post(&scene.worker, "/internal/v1/tasks", &to_elsewhere).await;
    assert!(!answer.status.is_success(), "{answer:?}");
    assert_eq!(snapshot(town, &["task"]).await, before, "no task was made");
    assert_eq!(scene.host(), host);
}

/// An intent row from an intruder's hand; says under which digest to ask for it.
async fn row(town: &Town, tenant: &Tenant, envelope: &[u8], wish: &[u8]) -> Sha256 {
    let payload = Envelope::parse(envelope).and_then(|envelope| envelope.payload_unverified());
    let mut sha = payload.map_or_else(|_| Sha256::of(envelope), |bytes| Sha256::of(&bytes));
    let mut conn = connect(town).await;
    let taken: bool = sqlx::query_scalar("select exists (select from intent where sha256 = $1)")
        .bind(sha.as_bytes().as_slice())
        .fetch_one(&mut conn)
        .await
        .expect("a look");
    if taken {
        sha = Sha256::of(TaskId::new().to_string().as_bytes());
    }
    sqlx::query(
        "insert into intent (sha256, id, allocation_id, generation, envelope, wish, created_at)
         values ($1, gen_random_uuid(), $2, (select count(*) + 1 from intent where allocation_id = $2), $3, $4, now())",
    )
    .bind(sha.as_bytes().as_slice())
    .bind(tenant.allocation.uuid())
    .bind(envelope)
    .bind(wish)
    .execute(&mut conn)
    .await
    .expect("the intruder writes");
    sha
}

async fn real_intent(town: &Town, sha: Sha256) -> Vec<u8> {
    let mut conn = connect(town).await;
    sqlx::query_scalar("select envelope from intent where sha256 = $1")
        .bind(sha.as_bytes().as_slice())
        .fetch_one(&mut conn)
        .await
        .expect("the row")
}

/// The account was taken away; its old task is put back into the queue. The node knows it and does not run it again.
async fn resurrection(scene: &Scene, made: TaskId) {
    let gone = request(&scene.tenant, scene.node, scene.intent, &scene.tenant.deprovision());
    scene.done(&gone).await;
    let before = scene.host();
    assert!(!before.contains("\"ada\""), "the account is gone");
    let reset = format!(
        "update task set state = 'queued', fence = null, result = null, ended_at = null, started_at = null,
             delivered_to = null, named_by = null, start_by = now() + interval '10 minutes' where id = '{}'",
        made.uuid()
    );
    sql(&scene.town, &reset).await;
    eventually("the old result is refused under the new fence", async || {
        let path = format!("/v1/audit?action=task.result&outcome=refused&target={made}");
        let rows: Page<AuditRow> = scene.town.api().get(&path).await.map_err(|e| e.to_string())?;
        let stale = Some(Code::StaleFence.as_str());
        let found = rows.items.iter().any(|row| row.code.as_deref() == stale);
        if found {
            Ok(())
        } else {
            Err(format!("{:?}", rows.items))
        }
    })
    .await;
    assert_eq!(scene.host(), before, "nothing came back");
    let task = scene.town.until_task(made, |_| true).await;
    assert_ne!(task.state, TaskState::Succeeded, "an old success does not count again");
    assert!(alarms(Code::StaleFence) > 0);
}
