//! Two results and a cancel in every order, on two replicas: the first result that lands is the task's end, the same
//! one again is fine, another one is an alarm, and nothing that comes later moves the task.

use dev::town::Town;
use http::Method;
use model::api::TaskView;
use model::dsse::Envelope;
use model::id::TaskId;
use model::node_api::{OfferedTask, ResultAnswer, ResultRequest};
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use model::state::TaskState;
use wire::http::{Client, Response};

use super::{audited, refused, snapshot};
use crate::EXE;
use crate::puppet::{Puppet, get, node_door, post};
use dev::tenant::Tenant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Succeeded,
    Failed,
    Cancel,
}

use Move::{Cancel, Failed, Succeeded};

const ORDERS: [[Move; 3]; 6] = [
    [Succeeded, Failed, Cancel],
    [Succeeded, Cancel, Failed],
    [Failed, Succeeded, Cancel],
    [Failed, Cancel, Succeeded],
    [Cancel, Succeeded, Failed],
    [Cancel, Failed, Succeeded],
];

/// One task, what an executor could sign about it, and a door to each replica.
struct Case<'a> {
    town: &'a Town,
    node: &'a Puppet,
    doors: &'a [Client; 2],
    task: OfferedTask,
    succeeded: Envelope,
    failed: Envelope,
}

impl Case<'_> {
    fn envelope(&self, which: Move) -> &Envelope {
        match which {
            Failed => &self.failed,
            Succeeded | Cancel => &self.succeeded,
        }
    }

    async fn lands(&self, which: Move, replica: usize) -> Response {
        let path = self.node.path(&format!("tasks/{}/result", self.task.task_id));
        let body = ResultRequest {
            fence: self.task.fence,
            envelope: self.envelope(which).clone(),
        };
        post(&self.doors[replica], &path, &body).await
    }

    async fn cancels(&self) -> Response {
        let path = format!("/v1/tasks/{}/cancel", self.task.task_id);
        let answer = self
            .town
            .api()
            .call(Method::POST, &path, Some(&serde_json::json!({})))
            .await;
        answer.expect("an answer")
    }

    async fn state(&self) -> TaskState {
        let path = format!("/v1/tasks/{}", self.task.task_id);
        let view: TaskView = self.town.api().get(&path).await.expect("the task");
        view.state
    }

    /// One move, and what it must be answered once `ended` is the end that landed.
    async fn moves(&self, step: Move, replica: usize, ended: Option<Move>) -> Option<Move> {
        let answer = match step {
            Cancel => self.cancels().await,
            _ => self.lands(step, replica).await,
        };
        match (step, ended) {
            (Cancel, None) => {
                assert!(answer.status.is_success(), "{answer:?}");
                assert!(!self.state().await.is_end(), "a running task is only asked to stop");
                None
            }
            (Cancel, Some(_)) => {
                refused(&answer, Code::StateConflict);
                ended
            }
            (_, None) => {
                assert!(!duplicate(&answer), "the first to land");
                Some(step)
            }
            (_, Some(first)) if first == step => {
                assert!(duplicate(&answer), "the same again is fine");
                ended
            }
            (_, Some(_)) => {
                let row = audited(self.town, &refused(&answer, Code::ResultConflict)).await;
                assert_eq!(row.target_id, self.task.task_id.to_string());
                ended
            }
        }
    }
}

fn duplicate(answer: &Response) -> bool {
    let answer: ResultAnswer = answer.json().unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    answer.duplicate
}

fn end_of(step: Move) -> TaskState {
    match step {
        Succeeded => TaskState::Succeeded,
        Failed => TaskState::Failed,
        Cancel => TaskState::Cancelled,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_43_late_results() {
    let town = Town::start(EXE).await;
    let node = Puppet::ready(&town, "tardy").await;
    let doors = both_replicas(&town, &node).await;
    for (n, order) in ORDERS.iter().enumerate() {
        let case = taken(&town, &node, &doors, n).await;
        let mut ended = None;
        for (turn, step) in order.iter().enumerate() {
            ended = case.moves(*step, turn % 2, ended).await;
        }
        let first = ended.expect("a result was among them");
        let before = snapshot(&town, &["task"]).await;
        // Everything once more, on the other replica.
        for (turn, step) in order.iter().enumerate() {
            case.moves(*step, (turn + 1) % 2, ended).await;
        }
        assert_eq!(case.state().await, end_of(first), "{order:?}");
        assert_eq!(
            snapshot(&town, &["task"]).await,
            before,
            "{order:?}: nothing moved any more"
        );
    }
    both_at_once(&town, &node, &doors).await;
    town.end().await;
}

/// A client that stays with each replica: the front gives every new connection to the next one.
async fn both_replicas(town: &Town, node: &Puppet) -> [Client; 2] {
    let door = || {
        node_door(
            &town.platform.node_url,
            &node.answer.working.chain,
            &node.keys.working,
            &node.answer.working.ca_bundle,
        )
    };
    let front = town.platform.node_front.as_ref().expect("two replicas");
    let before = front.served();
    let doors = [door(), door()];
    for door in &doors {
        assert!(get(door, &node.path("ping")).await.status.is_success());
    }
    let after = front.served();
    assert!(
        (0..2).all(|replica| after[replica] > before[replica]),
        "one each: {before:?} {after:?}"
    );
    doors
}

/// A tenant's task in this node's hands, and two different ends for it.
async fn taken<'a>(town: &'a Town, node: &'a Puppet, doors: &'a [Client; 2], n: usize) -> Case<'a> {
    let uid = 20_001 + u32::try_from(n).expect("small");
    let asked: TaskId = Tenant::new(&format!("tenant-{n}"), uid).moves_in(town, node.id()).await;
    let task = node.claim().await;
    assert_eq!(task.task_id, asked);
    let now = town.db.clock().now();
    node.beats(&task, Some(now)).await;
    let result = node.result(&task, now);
    let failed = ResultPayload {
        outcome: Outcome::Failed,
        code: Some(Code::HostCommandFailed),
        ..result.clone()
    };
    Case {
        town,
        node,
        doors,
        succeeded: result.sign(&node.keys.result),
        failed: failed.sign(&node.keys.result),
        task,
    }
}

/// Two different ends and a cancel at the same moment: one end.
async fn both_at_once(town: &Town, node: &Puppet, doors: &[Client; 2]) {
    for n in 10..20 {
        let case = taken(town, node, doors, n).await;
        let (one, other, _) = tokio::join!(case.lands(Succeeded, 0), case.lands(Failed, 1), case.cancels());
        let landed = [(Succeeded, &one), (Failed, &other)].map(|(step, answer)| (step, answer.status.is_success()));
        let winners: Vec<Move> = landed.iter().filter(|(_, won)| *won).map(|(step, _)| *step).collect();
        assert_eq!(winners.len(), 1, "{one:?} {other:?}");
        let loser = if one.status.is_success() { &other } else { &one };
        audited(town, &refused(loser, Code::ResultConflict)).await;
        assert_eq!(case.state().await, end_of(winners[0]));
    }
}
