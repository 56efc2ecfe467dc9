//! One identity in two hands: a working certificate that was stolen, and a whole node that was copied with its disk.
//! Both are noticed, under one code, and neither of the two gets another task until the node is enrolled anew. What a
//! node goes through in an honest life is noticed by nobody.

use std::path::Path;

use base::config::Config;
use base::testing::eventually;
use dev::api::Refused;
use dev::simnode::{NodeDir, SimNode};
use dev::town::Town;
use host::pretend::Profile;
use http::{HeaderName, HeaderValue};
use model::api::{AuditRow, Enrolment, NodeView, Page, TaskView};
use model::id::{NodeId, SessionId};
use model::node_api::{CertificateAnswer, CertificateKind, Hardware, PROTOCOL, SessionRequest, Versions, header};
use model::signal::Code;
use model::state::{NodeState, TaskState};
use rcgen::KeyPair;
use serde_json::json;
use sqlx::Connection;
use wire::http::{Client, Response};

use super::watch::connect;
use super::{audited, refused};
use crate::EXE;
use crate::played::code;
use crate::puppet::{Puppet, csr, node_door};
use crate::tenant::Tenant;

/// Nothing comes by itself, and a second is long enough to tell a late request from a second machine.
pub(crate) fn watchful(config: &mut Config) {
    config.wait_hold_s = 1;
    config.identity_grace_s = 1;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

/// How many events said that there is a copy of this node.
pub(crate) async fn alarms(town: &Town, node: NodeId) -> i64 {
    let mut conn = connect(town).await;
    let count = sqlx::query_scalar("select count(*) from outbox where kind = 'node.cloned' and subject_id = $1")
        .bind(node.to_string())
        .fetch_one(&mut conn)
        .await
        .expect("events are counted");
    conn.close().await.expect("closes");
    count
}

/// The node is out of service for this reason, once; nothing can be asked of it, and only one verb helps.
async fn is_shut(town: &Town, node: NodeId, evidence: &str) {
    let view = town.until_node(node, NodeState::Quarantined).await;
    let reason = view.state_reason.unwrap_or_default();
    assert!(
        reason.starts_with("node_cloned: ") && reason.contains(evidence),
        "{reason}"
    );
    let verb = view.waiting.expect("it waits for somebody").verb;
    assert!(verb.starts_with("gpuaas node enroll "), "{verb}");
    assert_eq!(alarms(town, node).await, 1);
    assert!(base::metrics::render().contains(r#"gpuaas_fleet_alarms_total{code="node_cloned"}"#));
    let refusal = |verb: &str, body| {
        let path = format!("/v1/nodes/{node}/{verb}");
        async move {
            let error = town
                .api()
                .post::<serde_json::Value>(&path, &body)
                .await
                .expect_err("refused");
            error.downcast::<Refused>().expect("an answer").code()
        }
    };
    assert_eq!(refusal("probe", json!({})).await, Some(Code::NodeQuarantined));
    let by_word = refusal("unquarantine", json!({ "reason": "it looks fine" })).await;
    assert_eq!(by_word, Some(Code::NodeCloned), "a copy would look just as fine");
}

async fn enrol_again(town: &Town, node: NodeId) -> Enrolment {
    let path = format!("/v1/nodes/{node}/enroll");
    town.api().post(&path, &json!({})).await.expect("the verb that helps")
}

fn metrics() {
    base::metrics::install(&[fleet::metrics::METRICS]);
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_36_stolen_certificate() {
    metrics();
    let town = Town::tuned(EXE, watchful).await;
    let honest = Puppet::ready(&town, "robbed").await;
    let node = honest.id();
    Tenant::new("ada", 20_001).moves_in(&town, node).await;
    let running = honest.claim().await;
    assert!(
        honest
            .beats(&running, Some(town.db.clock().now()))
            .await
            .status
            .is_success()
    );

    // The thief has the certificate and its key, says what the node would say, and takes over.
    let thief = honest.copied();
    assert!(
        thief.opens(|_| {}).await.status.is_success(),
        "it is a good certificate"
    );
    eventually("the honest one is told", async || match code(&honest.waits().await) {
        Some(Code::SessionSuperseded) => Ok(()),
        other => Err(other),
    })
    .await;
    let noticed: Response = eventually("two that live side by side are noticed", async || {
        assert_ne!(code(&thief.waits().await), Some(Code::SessionSuperseded));
        let answer = honest.waits().await;
        match code(&answer) {
            Some(Code::NodeCloned) => Ok(answer),
            other => Err(other),
        }
    })
    .await;
    let row = audited(&town, &refused(&noticed, Code::NodeCloned)).await;
    assert_eq!((row.action.as_str(), row.target_id), ("node.session", node.to_string()));
    is_shut(&town, node, "two sessions").await;

    // Neither has tasks, whichever asks; what runs goes on and its result lands.
    assert_eq!(code(&thief.waits().await), Some(Code::NodeCloned));
    let landed = honest.succeeds_with(&town, &running, PROVISIONED).await;
    assert!(landed.status.is_success(), "{landed:?}");
    assert_eq!(alarms(&town, node).await, 1, "said once");

    // The way out: the real machine is enrolled again, and what was stolen is worth nothing.
    let again = Puppet::with_token(&enrol_again(&town, node).await.token).await;
    assert!(again.opens(|_| {}).await.status.is_success());
    let probe = again.claim().await;
    assert!(again.succeeds(&town, &probe).await.status.is_success());
    assert_eq!(town.until_node(node, NodeState::Ready).await.epoch, 2);
    assert_eq!(code(&thief.get("ping").await), Some(Code::CertRevoked));
    town.end().await;
}

const PROVISIONED: &str = r#"{"home":"/home/ada","keys_installed":1,"verified":{"user":true,"home":true,"keys":true}}"#;

/// Files only: a socket is not part of an image.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let (kind, target) = (entry.file_type().expect("a kind"), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_files(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_37_cloned_node() {
    metrics();
    let town = Town::tuned(EXE, watchful).await;
    let (node, mut origin) = town.node("origin", Profile::Cpu).await;
    let tenant = Tenant::new("ada", 20_001);
    let moved_in = tenant.moves_in(&town, node).await;
    town.until_task(moved_in, |state| state == TaskState::Succeeded).await;

    // A golden image: the disk of a node that was shut down, started in a second place.
    origin.agent.hold();
    origin.executor.hold();
    let place = town.dir().join("copy");
    copy_files(origin.dir.path(), &place);
    origin.executor.release();
    origin.agent.release();
    let effects = std::fs::read(place.join("host/effects.jsonl")).expect("the host's log");
    let mut copy = SimNode::start(
        Path::new(EXE),
        "copy",
        NodeDir::new(&place).expect("a directory"),
        Profile::Cpu,
    );
    is_shut(&town, node, "another dmi_uuid than at enrolment").await;
    let path = format!("/v1/audit?target={node}&action=node.session&outcome=refused");
    let refusals: Page<AuditRow> = town.api().get(&path).await.expect("the audit is read");
    assert_eq!(refusals.items[0].code.as_deref(), Some(Code::NodeCloned.as_str()));
    let path = format!("/v1/audit?target={node}&action=node.cloned");
    let found: Page<AuditRow> = town.api().get(&path).await.expect("the audit is read");
    let details = &found.items[0].details;
    assert!(details["from"].is_string(), "the audit says from where: {details}");

    // Nothing that runs was touched, and the copy was given nothing.
    let host = std::fs::read_to_string(origin.dir.host().join("state.json")).expect("the host's state");
    assert!(host.contains("\"ada\""), "{host}");
    let after = std::fs::read(place.join("host/effects.jsonl")).expect("the host's log");
    assert!(effects == after, "the copy did something");

    // The real machine comes back with a new identity while its copy is still running.
    let token = enrol_again(&town, node).await.token;
    SimNode::enrol(&origin.dir, Profile::Cpu, &token).expect("the host takes the token");
    assert_eq!(town.until_node(node, NodeState::Ready).await.epoch, 2);
    let moved_out = tenant.moves_out(&town, node).await;
    town.until_task(moved_out, |state| state == TaskState::Succeeded).await;
    let after = std::fs::read(place.join("host/effects.jsonl")).expect("the host's log");
    assert!(effects == after, "the copy did something");
    assert_eq!(alarms(&town, node).await, 1);
    copy.stop();
    origin.stop();
    town.end().await;
}

/// Asks for a certificate and takes what comes; the key is new each time.
async fn renews(town: &Town, node: &Puppet, generation: u64) -> (Response, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    let request = csr(&key, Some(&node.uri()));
    let token = node.token(&request, town.db.clock().now()).signed(&node.keys.device);
    let answer = node
        .renew_from(generation, CertificateKind::Working, &request, token)
        .await;
    (answer, key)
}

fn given(answer: &Response) -> CertificateAnswer {
    answer.json().unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// With the same hardware and a session of its own, a copy still shows when it asks for a certificate: its generation
/// is the one from before.
#[tokio::test(flavor = "multi_thread")]
async fn abuse_37_cloned_generation() {
    metrics();
    let town = Town::tuned(EXE, watchful).await;
    let mut origin = Puppet::ready(&town, "origin").await;
    let copy = origin.copied();
    let (renewed, key) = renews(&town, &origin, 1).await;
    let renewed = given(&renewed);
    assert_eq!(renewed.generation, 2);
    origin.wears(&renewed, key);
    assert_eq!(code(&origin.get("ping").await), None);

    let noticed = eventually("the one that was left behind is noticed", async || {
        let (answer, _) = renews(&town, &copy, 1).await;
        assert!(!answer.status.is_success(), "a copy was given a certificate");
        match code(&answer) {
            Some(Code::NodeCloned) => Ok(answer),
            other => Err(other),
        }
    })
    .await;
    let row = audited(&town, &refused(&noticed, Code::NodeCloned)).await;
    assert_eq!(row.action, "certificate.renew");
    is_shut(
        &town,
        origin.id(),
        "generation 1 asked for a certificate while 2 is in use",
    )
    .await;
    // And the certificate that both had does not outlive its successor's first use for long.
    eventually("the old certificate is over", async || {
        match code(&copy.get("ping").await) {
            Some(Code::CertRevoked) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(code(&origin.get("ping").await), None, "the newer one reports on");
    town.end().await;
}

/// A life with everything that looks a little like a copy and is none.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_taken_for_a_copy_who_is_none() {
    metrics();
    let mut town = Town::tuned(EXE, watchful).await;
    let mut node = Puppet::ready(&town, "honest").await;
    let restarts = restarted_often(&town, &mut node).await;
    println!("{restarts} restarts");
    assert!(restarts > 30, "a test of restarts needs some: {restarts}");
    opened_late_by_the_dead(&town, &mut node).await;
    answers_lost(&town, &mut node).await;
    for replica in [1, 0] {
        town.platform.stop_replica(replica).await;
        town.platform.start_replica(replica).await.expect("it is back");
    }
    assert_eq!(code(&node.waits().await), None);
    killed_for_real(&town).await;
    assert_eq!(alarms(&town, node.id()).await, 0);
    let view: NodeView = town.show_node(node.id()).await;
    assert_eq!((view.state, view.epoch), (NodeState::Ready, 1), "{view:?}");
    town.end().await;
}

/// As fast as it goes for a while: killed, started, sometimes rebooted; and each time something of the one before
/// arrives late.
async fn restarted_often(town: &Town, node: &mut Puppet) -> u32 {
    let until = town.db.clock().now().plus_s(8);
    let mut restarts = 0;
    while town.db.clock().now() < until {
        let before = std::mem::replace(&mut node.session, SessionId::new());
        let boot = format!("boot-{}", restarts / 10);
        let opened = node.opens(|request| request.boot_id = boot).await;
        assert!(opened.status.is_success(), "{opened:?}");
        restarts += 1;
        if restarts % 3 == 0 {
            // The last word of the one that was killed: not heard any more, and no alarm.
            let late = node.post_in(Some(before), "heartbeat", &node.nothing_held()).await;
            let code = code(&late);
            assert!(matches!(code, None | Some(Code::SessionSuperseded)), "{code:?}");
        }
        let beat = node.post("heartbeat", &node.nothing_held()).await;
        assert!(beat.status.is_success(), "{beat:?}");
    }
    restarts
}

/// A session that a killed agent had asked for is opened when the next agent is already at work. The living one is
/// turned away for a while; then it starts again, and that is all.
async fn opened_late_by_the_dead(town: &Town, node: &mut Puppet) {
    let dead = node.opens(|request| request.session_id = SessionId::new()).await;
    assert!(dead.status.is_success());
    eventually("the living one is told", async || match code(&node.waits().await) {
        Some(Code::SessionSuperseded) => Ok(()),
        other => Err(other),
    })
    .await;
    let told = town.db.clock().now();
    eventually("it has waited long enough to be a copy", async || {
        let waited_ms = town.db.clock().now().since_ms(told);
        if waited_ms > 1500 { Ok(()) } else { Err(waited_ms) }
    })
    .await;
    assert_eq!(
        code(&node.waits().await),
        Some(Code::SessionSuperseded),
        "not a copy: nobody else is heard"
    );
    node.session = SessionId::new();
    assert!(node.opens(|_| {}).await.status.is_success());
    assert_eq!(code(&node.waits().await), None);
}

/// Two answers in a row are lost, or the agent dies twice between having and keeping them; the third arrives.
async fn answers_lost(town: &Town, node: &mut Puppet) {
    let (first, first_key) = renews(town, node, 1).await;
    let (second, _) = renews(town, node, 1).await;
    let (third, key) = renews(town, node, 1).await;
    let generations = [given(&first), given(&second), given(&third)].map(|answer| answer.generation);
    assert_eq!(generations, [2, 3, 4]);
    let lost = node_door(
        &node.answer.endpoints.node_api_url,
        &given(&first).chain,
        &first_key,
        &node.answer.working.ca_bundle,
    );
    let old_request = csr(&KeyPair::generate().expect("a key"), Some(&node.uri()));
    let old_token = node
        .token(&old_request, town.db.clock().now())
        .shifted(-3)
        .signed(&node.keys.device);
    node.wears(&given(&third), key);
    assert_eq!(code(&node.get("ping").await), None);
    // A request from before, by a slow road: it is not answered, and it is no copy.
    let late = node
        .renew_from(1, CertificateKind::Working, &old_request, old_token)
        .await;
    assert_eq!(code(&late), Some(Code::DeviceTokenInvalid));
    let path = node.path("ping");
    eventually("what was lost does not count any more", async || {
        match code(&crate::puppet::get(&lost, &path).await) {
            Some(Code::CertRevoked) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let (next, key) = renews(town, node, 4).await;
    node.wears(&given(&next), key);
    assert_eq!((given(&next).generation, code(&node.get("ping").await)), (5, None));
}

/// Real processes, killed at any moment. That they renew their papers meanwhile is for the torture run, which counts who is
/// taken for two.
async fn killed_for_real(town: &Town) {
    let (id, mut running) = town.node("cat", Profile::Cpu).await;
    for round in 0..12 {
        let starts = running.agent.starts();
        running.agent.kill();
        if round % 4 == 0 {
            running.executor.kill();
        }
        eventually("it is started again", async || match running.agent.starts() {
            now if now > starts => Ok(()),
            now => Err(now),
        })
        .await;
        if round % 3 == 0 {
            let path = format!("/v1/nodes/{id}/probe");
            let asked: TaskView = town.api().post(&path, &json!({})).await.expect("asked");
            town.until_task(asked.id, |state| state == TaskState::Succeeded).await;
        }
    }
    assert_eq!(alarms(town, id).await, 0);
    assert_eq!(town.show_node(id).await.state, NodeState::Ready);
    running.stop();
}

/// The same against a real agent, which leaves when it is replaced: before it does, it asks once more, and that tells.
#[tokio::test(flavor = "multi_thread")]
async fn abuse_36_stolen_from_a_real_agent() {
    metrics();
    let town = Town::tuned(EXE, watchful).await;
    let (node, mut running) = town.node("robbed", Profile::Cpu).await;
    let kept = agent::identity::Slots::peek(&running.dir.agent()).expect("the agent's files");
    let stolen = kept.identity.expect("an identity");
    let thief = Thief {
        door: node_door(
            &stolen.endpoints.node_api_url,
            &stolen.working.chain,
            &KeyPair::from_pem(&stolen.working_key).expect("a key"),
            &stolen.ca_bundle,
        ),
        path: format!("/internal/v1/nodes/{node}"),
        session: SessionId::new(),
    };
    assert!(thief.opens().await.status.is_success(), "it is a good certificate");
    eventually("the theft is noticed", async || match code(&thief.beats().await) {
        // The real one came back for a moment: the thief takes over again, and again.
        Some(Code::SessionSuperseded) => Err("superseded"),
        _ if town.show_node(node).await.state == NodeState::Quarantined => Ok(()),
        _ => Err("unnoticed"),
    })
    .await;
    is_shut(&town, node, "two sessions").await;
    running.stop();
    town.end().await;
}

/// Somebody with a certificate and its key, and nothing else of the node.
struct Thief {
    door: Client,
    path: String,
    session: SessionId,
}

impl Thief {
    async fn opens(&self) -> Response {
        let request = SessionRequest {
            session_id: self.session,
            boot_id: "elsewhere".to_owned(),
            hardware: Hardware::default(),
            versions: Versions {
                agent: "0.1.0".to_owned(),
                executor: "0.1.0".to_owned(),
                protocol: PROTOCOL,
            },
            simulated: true,
            task_types: model::task::announced(),
            manifest_version: 1,
        };
        crate::puppet::post(&self.door, &format!("{}/session", self.path), &request).await
    }

    async fn beats(&self) -> Response {
        let nothing = json!({ "tasks": [], "results_pending": 0, "disk": null });
        let session = HeaderValue::try_from(self.session.to_string()).expect("ids are ASCII");
        let request = self.door.post(&format!("{}/heartbeat", self.path)).json(&nothing);
        let request = request
            .expect("JSON")
            .header(HeaderName::from_static(header::SESSION), session);
        request.send().await.expect("an answer of ours")
    }
}
