//! The first walk: a host is let in, a task is asked for, signed, fetched, verified, journalled, executed, and its
//! signed result is seen by a person. Two replicas, another one with every call.

use base::testing::eventually;
use dev::town::Town;
use fleet::intent::{Authorised, sign};
use fleet::task::{Ask, Cover, enqueue};
use host::pretend::Profile;
use model::api::{AuditRow, AuditVerdict, Page, TaskView};
use model::id::{AllocationId, NodeId, ProjectId, TaskId, derive_op};
use model::intent::Wish;
use model::state::{NodeState, TaskState};
use model::task::{Task, deprovision_user, provision_user};
use model::value::{Name, SshKey, Uid};

use crate::EXE;

/// A tenant's account on a machine, as the API would authorise it.
struct Tenant {
    allocation: AllocationId,
    project: ProjectId,
    username: Name,
    uid: Uid,
    key: SshKey,
}

impl Tenant {
    fn new(name: &str, uid: u32) -> Self {
        let blob = [&11u32.to_be_bytes()[..], b"ssh-ed25519", &32u32.to_be_bytes(), &[7; 32]].concat();
        let key = format!("ssh-ed25519 {}", data_encoding::BASE64.encode(&blob));
        Self {
            allocation: AllocationId::new(),
            project: ProjectId::new(),
            username: name.parse().expect("a plain name"),
            uid: uid.try_into().expect("a tenant's uid"),
            key: key.parse().expect("a well-formed key"),
        }
    }

    fn provision(&self) -> Task {
        Task::ProvisionUser(provision_user::Params {
            allocation_id: self.allocation,
            username: self.username.clone(),
            uid: self.uid,
            ssh_public_keys: vec![self.key.clone()],
            gpu_access: false,
        })
    }

    fn deprovision(&self) -> Task {
        Task::DeprovisionUser(deprovision_user::Params {
            allocation_id: self.allocation,
            username: self.username.clone(),
            uid: self.uid,
            remove_home: true,
        })
    }

    fn authorised(&self, node_id: NodeId) -> Authorised {
        Authorised {
            allocation: self.allocation,
            project: self.project,
            generation: 1,
            wish: Wish::Machine {
                node_id,
                username: self.username.clone(),
                uid: self.uid,
                ssh_public_keys: vec![self.key.clone()],
                gpu_access: false,
            },
        }
    }
}

async fn ask(town: &Town, tenant: &Tenant, node: NodeId, intent: model::digest::Sha256, task: Task) -> TaskId {
    let fleet = town.fleet().await;
    let op = derive_op(tenant.allocation, task.task_type().as_str(), 1);
    let mut change = fleet
        .app
        .db
        .change(&base::Actor::system("walk"), "allocation.step", tenant.allocation)
        .await
        .expect("a change");
    let cover = Cover::Intent { sha256: intent, op };
    let id = enqueue(&fleet, &mut change, &Ask { node, task, cover })
        .await
        .expect("the intent covers it");
    change.commit().await.expect("commits");
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_task_reaches_the_host_and_its_result_comes_back() {
    let town = Town::start(EXE).await;
    let (node, mut running) = town.node("walker", Profile::Cpu).await;
    let shown = town.show_node(node).await;
    assert!(shown.simulated, "a pretended host says so");
    assert!(shown.last_probe.is_some(), "ready is earned by a probe");

    let tenant = Tenant::new("ada", 20_001);
    let fleet = town.fleet().await;
    let mut change = fleet
        .app
        .db
        .change(&base::Actor::system("walk"), "allocation.create", tenant.allocation)
        .await
        .expect("a change");
    let (_, intent) = sign(&fleet, &mut change, &tenant.authorised(node))
        .await
        .expect("the API signs");
    change.commit().await.expect("commits");

    let made = ask(&town, &tenant, node, intent, tenant.provision()).await;
    let task = town.until_task(made, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    assert_eq!(task.output["verified"]["user"], true);
    assert!(task.dispatched_at.is_some() && task.started_at.is_some() && task.ended_at.is_some());
    assert!(
        host_accounts(&running).contains("ada"),
        "the pretended host has the account"
    );

    let gone = ask(&town, &tenant, node, intent, tenant.deprovision()).await;
    let task = town.until_task(gone, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    assert_eq!(task.output["absent"]["processes"], true);
    assert!(!host_accounts(&running).contains("\"ada\""), "and has it no more");

    seen_in_the_audit(&town, made).await;
    let served = town.platform.node_front.as_ref().expect("two replicas").served();
    assert!(served.iter().all(|n| *n > 0), "both replicas were asked: {served:?}");

    running.stop();
    town.end().await;
}

fn host_accounts(node: &dev::simnode::SimNode) -> String {
    std::fs::read_to_string(node.dir.host().join("state.json")).expect("the pretended host's memory")
}

async fn seen_in_the_audit(town: &Town, task: TaskId) {
    let rows: Page<AuditRow> = town
        .api()
        .get(&format!("/v1/audit?target={task}"))
        .await
        .expect("the audit is read");
    let actions: Vec<&str> = rows.items.iter().map(|row| row.action.as_str()).collect();
    for wanted in ["task.enqueue", "task.start", "task.result"] {
        assert!(actions.contains(&wanted), "{wanted} is missing in {actions:?}");
    }
    let verdict: AuditVerdict = eventually("every row is sealed", async || {
        let verdict: AuditVerdict = town.api().get("/v1/audit/verify").await.map_err(|e| e.to_string())?;
        if verdict.unsealed == 0 {
            Ok(verdict)
        } else {
            Err(format!("{} unsealed", verdict.unsealed))
        }
    })
    .await;
    assert!(verdict.broken.is_none() && verdict.sealed > 0, "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_asks_for_a_probe_and_watches_it() {
    let town = Town::start(EXE).await;
    let (node, mut running) = town.node("probed", Profile::H100x8).await;
    let asked: TaskView = town
        .api()
        .post(&format!("/v1/nodes/{node}/probe"), &serde_json::json!({}))
        .await
        .expect("asked");
    let task = town.until_task(asked.id, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded);
    assert_eq!(task.output["gpus"].as_array().map(Vec::len), Some(8));
    assert_eq!(town.show_node(node).await.state, NodeState::Ready);
    running.stop();
    town.end().await;
}
