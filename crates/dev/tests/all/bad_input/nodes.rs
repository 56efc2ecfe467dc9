//! The same for what nodes and workers send: bodies, sessions, clocks, task types that do not exist.

use base::auth::Role;
use dev::town::Town;
use http::{HeaderName, HeaderValue};
use model::digest::Sha256;
use model::id::{OpId, TaskId};
use model::node_api::{CertificateKind, OfferedTask, PingAnswer, TaskRequest, header};
use model::outcome::ResultPayload;
use model::signal::Code;
use rcgen::KeyPair;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::everything;
use crate::EXE;
use crate::abuse::{process, refused, request};
use crate::puppet::{Puppet, csr, post};
use crate::tenant::Tenant;

fn text(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_talks_nonsense_is_told_so() {
    let town = Town::still(EXE).await;
    let node = Puppet::awake(&town, "babbling").await;
    let task = node.claim().await;
    let worker = process(&town, Role::ProvisioningWorker).await;
    let before = everything(&town).await;
    let result = format!("tasks/{}/result", task.task_id);
    let deep = text(&format!("{{\"x\":{}{}}}", "[".repeat(80), "]".repeat(80)));
    let large = json!({ "x": "x".repeat(600 * 1024) });
    for (client, path) in [
        (&node.inside, node.path("session")),
        (&node.inside, node.path("self-probe")),
        (&node.inside, node.path(&result)),
        (&worker, "/internal/v1/tasks".to_owned()),
        (&worker, "/internal/v1/certificate".to_owned()),
        (&node.outside, "/internal/v1/enroll".to_owned()),
        (&node.outside, node.path("certificates")),
    ] {
        let error = refused(
            &post(client, &path, &json!({ "nonsense": 1 })).await,
            Code::FieldInvalid,
        );
        assert_eq!(error.details["field"], "nonsense", "{path}: {error:?}");
        refused(&post(client, &path, &deep).await, Code::BodyMalformed);
        refused(&post(client, &path, &large).await, Code::BodyTooLarge);
    }
    let beat = node.post("heartbeat", &json!({ "nonsense": 1 })).await;
    assert_eq!(refused(&beat, Code::FieldInvalid).details["field"], "nonsense");
    for session in ["", "sess", "node_00000000000000000000000000", "sess_x"] {
        let name = HeaderName::from_static(header::SESSION);
        let wait = node.inside.get(&node.path("tasks/wait"));
        let wait = wait.header(name, HeaderValue::from_static(session)).send().await;
        refused(&wait.expect("an answer"), Code::IdKindMismatch);
    }
    let other_kind = node.path(&format!("tasks/{}/result", OpId::new()));
    refused(&post(&node.inside, &other_kind, &json!({})).await, Code::IdKindMismatch);
    unstorable(&town, &node, &task).await;
    assert_eq!(everything(&town).await, before);
    town.end().await;
}

/// NUL is a character in JSON and none in PostgreSQL. It is the sender's mistake, not our failure.
async fn unstorable(town: &Town, node: &Puppet, task: &OfferedTask) {
    let mut session = serde_json::to_value(node.session_request()).expect("JSON");
    session["boot_id"] = json!("a\0b");
    refused(&node.post("session", &session).await, Code::FieldInvalid);
    let beat = json!({ "tasks": [{ "task_id": TaskId::new(), "fence": 1, "phase": "\0", "started_at": null }],
                       "results_pending": 0, "disk": null });
    refused(&node.post("heartbeat", &beat).await, Code::FieldInvalid);
    let mumbled = ResultPayload {
        detail: Some("a\0b".to_owned()),
        ..node.result(task, town.db.clock().now())
    };
    let landed = node
        .land(task.task_id, task.fence, mumbled.sign(&node.keys.result))
        .await;
    refused(&landed, Code::ResultMalformed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_type_that_does_not_exist_is_not_asked_of_anybody() {
    let town = Town::start(EXE).await;
    let node = Puppet::ready(&town, "idle").await;
    let worker = process(&town, Role::ProvisioningWorker).await;
    let tenant = Tenant::new("ada", 20_001);
    let intent = tenant.intent(&town, node.id()).await;
    let good = request(&tenant, node.id(), intent, &tenant.provision());
    let before = everything(&town).await;
    for (task_type, type_version) in [
        ("", 1),
        ("shell.exec", 1),
        ("allocation.provision_user ", 1),
        ("ALLOCATION.PROVISION_USER", 1),
        ("slice.vm_migrate", 1),
        ("allocation.provision_user", 0),
        ("allocation.provision_user", 2),
    ] {
        let ask = TaskRequest {
            task_type: task_type.to_owned(),
            type_version,
            ..good.clone()
        };
        let error = refused(&post(&worker, "/internal/v1/tasks", &ask).await, Code::UnsupportedType);
        assert!(error.message.contains(task_type.trim()), "{error:?}");
    }
    let honest: Value = serde_json::from_str(good.params.get()).expect("JSON");
    for (field, value) in [
        ("uid", json!(0)),
        ("uid", json!(20_001.5)),
        ("username", json!("root")),
        ("username", json!("../x")),
        ("ssh_public_keys", json!([])),
        ("ssh_public_keys", json!(["command=\"sh\" ssh-ed25519 AAAA"])),
        ("shell", json!("/bin/sh")),
    ] {
        let mut params = honest.clone();
        params[field] = value;
        let ask = TaskRequest {
            params: text(&params.to_string()),
            ..good.clone()
        };
        refused(&post(&worker, "/internal/v1/tasks", &ask).await, Code::ParamsInvalid);
    }
    let nowhere = TaskRequest {
        intent_sha256: Sha256::of(b"nothing"),
        ..good.clone()
    };
    refused(
        &post(&worker, "/internal/v1/tasks", &nowhere).await,
        Code::IntentMissing,
    );
    assert_eq!(everything(&town).await, before);
    let queued = post(&worker, "/internal/v1/tasks", &good).await;
    assert_eq!(queued.status, 202, "{queued:?}");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_wrong_clock_is_told_the_time_and_tries_once_more() {
    let town = Town::start(EXE).await;
    let node = Puppet::enrol(&town, "skewed").await;
    let key = KeyPair::generate().expect("a key");
    let request = csr(&key, None);
    let before = everything(&town).await;
    for hours in [-24, -1, 1, 24, 24 * 365] {
        let token = node.token(&request, town.db.clock().now()).shifted(hours * 3600);
        let token = token.signed(&node.keys.device);
        let answer = node.renew(node.id(), CertificateKind::Working, &request, token).await;
        let error = refused(&answer, Code::ClockSkew);
        assert_eq!(answer.status, 401);
        assert_eq!(everything(&town).await, before);
        // One more try, by the server's clock.
        let told = error.details["server_time"].as_str().expect("a time");
        let token = node.token(&request, told.parse().expect("RFC 3339"));
        let answer = node
            .renew(
                node.id(),
                CertificateKind::Working,
                &request,
                token.signed(&node.keys.device),
            )
            .await;
        assert!(answer.status.is_success(), "{hours} h: {answer:?}");
        crate::abuse::sql(
            &town,
            "delete from certificate where generation > 1; delete from renewal_token",
        )
        .await;
    }
    let ping: PingAnswer = node.get("ping").await.json().expect("a ping");
    assert_eq!(ping.node_id, node.id());
    town.end().await;
}

/// Whatever is answered, refusals, empty ones and unknown routes included.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_to_a_node_tells_the_time_and_the_manifest() {
    let town = Town::start(EXE).await;
    let node = Puppet::awake(&town, "listening").await;
    let foreign = format!("/internal/v1/nodes/{}/ping", model::id::NodeId::new());
    for (client, path, status) in [
        (&node.inside, node.path("ping"), 200),
        (&node.inside, node.path("tasks/wait?probe=1"), 204),
        (&node.inside, node.path("tasks/wait"), 428),
        (&node.inside, foreign, 404),
        (&node.inside, "/internal/v1/nowhere".to_owned(), 404),
        (&node.outside, "/internal/v1/nowhere".to_owned(), 404),
    ] {
        let answer = client.get(&path).send().await.expect("an answer of ours");
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert!(answer.server_time().is_some(), "{path}: no time");
        assert_eq!(answer.manifest_version(), Some(1), "{path}: no manifest");
    }
    town.end().await;
}
