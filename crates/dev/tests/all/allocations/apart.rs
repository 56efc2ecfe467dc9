//! A worker on a host of its own: it has no signing keys, asks the api for every task in its own name, renews its
//! papers, and gets nothing any more once its role was ended.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base::auth::Role;
use dev::children::Kept;
use fleet::apart::grant;
use model::api::ConditionView;
use model::node_api::RoleCertificateAnswer;
use model::signal::Code;
use model::task::TaskType;
use serde_json::Value;

use super::*;
use crate::abuse::{process, refused};
use crate::puppet::{csr, node_door, post};

/// Where the worker keeps what is its own; no key directory is in it.
pub(super) fn home(market: &Market) -> PathBuf {
    market.town.dir().join("worker")
}

/// What the console on the server would write, for a process that will run elsewhere.
async fn papers(market: &Market, file: &str) -> PathBuf {
    let fleet = market.town.fleet().await;
    let mut papers = grant(&fleet, Role::ProvisioningWorker, "one").await.expect("papers");
    papers.api_url.clone_from(&market.town.platform.node_url);
    let path = home(market).join(file);
    std::fs::create_dir_all(home(market)).expect("a directory");
    papers.write_new(&path).expect("written");
    path
}

/// In a process of its own, and another whenever it dies.
pub(super) async fn worker(market: &Market, file: &str) -> Kept {
    let text = |value: &str| format!("{value:?}");
    let path = |path: &Path| text(&path.display().to_string());
    let settings = vec![
        ("database_url", text(&market.town.db.app_url())),
        ("state_dir", path(&home(market))),
        ("role_identity", path(&papers(market, file).await)),
    ];
    dev::worker::start(Path::new(EXE), &home(market), &settings).expect("a worker")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("there")).expect("JSON")
}

async fn stop(worker: Kept) {
    let mut worker = worker;
    tokio::task::spawn_blocking(move || worker.stop()).await.expect("stops");
}

/// The worker asked, and one id leads from the wish to the act.
async fn in_its_name(market: &Market, id: AllocationId, task_type: TaskType) {
    let op = model::id::derive_op(id, task_type.as_str(), 1);
    let asked: (String, uuid::Uuid, uuid::Uuid) = sqlx::query_as(
        "select t.actor_ref, t.correlation_id, a.correlation_id from task t, allocation a where t.op_id = $1 and a.id = $2",
    )
    .bind(op.uuid())
    .bind(id.uuid())
    .fetch_one(market.town.platform.apps[0].db.read())
    .await
    .expect("one task");
    assert_eq!(asked.0, "role:provisioning-worker/one");
    assert_eq!(asked.1, asked.2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_keys_asks_for_tasks_in_its_own_name() {
    let market = Market::open().await;
    market.town.platform.retire_worker();
    let running = worker(&market, "given.json").await;
    let made = market.rents("one").await;
    market.until(made.id, AllocationState::Active).await;
    in_its_name(&market, made.id, TaskType::VmProvision).await;
    market.verb(made.id, "release").await;
    market.until(made.id, AllocationState::Released).await;
    in_its_name(&market, made.id, TaskType::VmRelease).await;
    assert!(!home(&market).join("keys").exists(), "it never had a key directory");
    // The key that travelled was used once, to ask for another.
    let kept = home(&market).join("provisioning-worker.one.json");
    let (given, renewed) = (read(&home(&market).join("given.json")), read(&kept));
    assert_ne!(given["key"], renewed["key"]);
    assert_ne!(given["chain"], renewed["chain"]);
    let mode = std::fs::metadata(&kept).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    stop(running).await;
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_role_was_ended_gets_nothing_signed() {
    let market = Market::open().await;
    market.town.platform.retire_worker();
    let running = worker(&market, "given.json").await;
    let first = market.rents("one").await;
    market.until(first.id, AllocationState::Active).await;
    let actor = base::Actor::system("console");
    let db = &market.town.platform.apps[0].db;
    let opened = db.change(
        &actor,
        "certificate.end_role",
        market.town.platform.apps[0].installation,
    );
    let mut change = opened.await.expect("a change");
    let ended = fleet::certificate::end_role(&mut change, Role::ProvisioningWorker).await;
    assert!(ended.expect("ended") >= 2, "what was given and what was renewed");
    change.commit().await.expect("commits");
    let waits = async |id, code: Code| {
        eventually("it waits, and says for what", async || {
            let seen = market.shows(id).await;
            let told = |condition: &ConditionView| condition.detail.as_deref() == Some(code.as_str());
            match seen.conditions.iter().any(told) {
                true => Ok(()),
                false => Err(format!("{:?}", seen.conditions)),
            }
        })
        .await;
    };
    let second = market.rents("two").await;
    waits(second.id, Code::CertRevoked).await;
    let op = model::id::derive_op(second.id, TaskType::VmProvision.as_str(), 1);
    let signed: i64 = sqlx::query_scalar("select count(*) from task where op_id = $1")
        .bind(op.uuid())
        .fetch_one(db.read())
        .await
        .expect("a count");
    assert_eq!(signed, 0);
    stop(running).await;
    // New papers, and it goes on where it was.
    let running = worker(&market, "again.json").await;
    for id in [first.id, second.id] {
        market.until(id, AllocationState::Active).await;
        market.verb(id, "release").await;
        market.until(id, AllocationState::Released).await;
    }
    stop(running).await;
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_renews_the_name_that_it_shows_and_no_other() {
    let town = Town::still(EXE).await;
    let worker = process(&town, Role::ProvisioningWorker).await;
    let installation = town.platform.apps[0].installation;
    let issued = async || {
        let count: i64 = sqlx::query_scalar("select count(*) from certificate where kind = 'role'")
            .fetch_one(town.platform.apps[0].db.read())
            .await
            .expect("a count");
        count
    };
    let asks = async |csr_pem: String| post(&worker, "/internal/v1/certificate", &json!({ "csr_pem": csr_pem })).await;
    let key = rcgen::KeyPair::generate().expect("a key");
    let before = issued().await;
    let foreign = [
        format!("spiffe://{installation}/role/api/one"),
        format!("spiffe://{installation}/role/provisioning-worker/two"),
    ];
    for name in &foreign {
        refused(&asks(csr(&key, Some(name))).await, Code::CertNameMismatch);
    }
    let large = format!("-----BEGIN CERTIFICATE REQUEST-----\n{}", "A".repeat(100_000));
    for nonsense in [String::new(), "nonsense".to_owned(), large] {
        refused(&asks(nonsense).await, Code::CsrInvalid);
    }
    assert_eq!(issued().await, before, "nothing was issued");
    let answer = asks(csr(&key, None)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(issued().await, before + 1);
    let answer: RoleCertificateAnswer = answer.json().expect("an answer");
    let renewed = node_door(&town.platform.node_url, &answer.chain, &key, &answer.authorities);
    let asked = post(&renewed, "/internal/v1/tasks", &json!({ "nonsense": 1 })).await;
    refused(&asked, Code::FieldInvalid);
    town.end().await;
}
