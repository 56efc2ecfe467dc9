//! What a played node does all day when it is honest: wait, name what it holds, report, and say what it was answered.

use dev::town::Town;
use http::{HeaderName, HeaderValue};
use model::node_api::{HeartbeatRequest, OfferedTask, SessionRequest, WaitAnswer, header};
use model::outcome::Outcome;
use model::signal::Code;
use model::state::NodeState;
use model::time::Timestamp;
use serde_json::value::RawValue;
use wire::http::Response;

use crate::puppet::{Puppet, answered};

/// The code of a refusal.
pub(crate) fn code(response: &Response) -> Option<Code> {
    response.error().map(|error| error.code)
}

impl Puppet {
    /// Enrolled and ready: its first probe is answered.
    pub(crate) async fn ready(town: &Town, name: &str) -> Self {
        let puppet = Self::awake(town, name).await;
        let first = puppet.claim().await;
        assert!(puppet.succeeds(town, &first).await.status.is_success());
        town.until_node(puppet.id(), NodeState::Ready).await;
        puppet
    }

    /// Opens a session, with whatever the test wants to be different.
    pub(crate) async fn opens(&self, change: impl FnOnce(&mut SessionRequest)) -> Response {
        let mut request = self.session_request();
        change(&mut request);
        self.post("session", &request).await
    }

    /// One wait, whatever the answer is.
    pub(crate) async fn waits(&self) -> Response {
        let session = HeaderValue::try_from(self.session.to_string()).expect("ids are ASCII");
        let path = self.path("tasks/wait");
        let name = HeaderName::from_static(header::SESSION);
        answered(|| self.inside.get(&path).header(name.clone(), session.clone())).await
    }

    /// What the next wait brings: tasks and cancellations, or nothing.
    pub(crate) async fn offered(&self) -> WaitAnswer {
        let answer = self.waits().await;
        if answer.status == 204 {
            return WaitAnswer {
                tasks: Vec::new(),
                cancel: Vec::new(),
            };
        }
        answer.json().unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// Names a task that it holds.
    pub(crate) async fn beats(&self, task: &OfferedTask, started_at: Option<Timestamp>) -> Response {
        self.post("heartbeat", &self.heartbeat(task, started_at)).await
    }

    /// A heartbeat of somebody who has nothing to do.
    pub(crate) fn nothing_held(&self) -> HeartbeatRequest {
        HeartbeatRequest {
            tasks: Vec::new(),
            results_pending: 0,
            disk: None,
            trouble: None,
        }
    }

    /// Success with another output than a probe's.
    pub(crate) async fn succeeds_with(&self, town: &Town, task: &OfferedTask, output: &str) -> Response {
        let mut result = self.result(task, town.db.clock().now());
        result.output = Some(RawValue::from_string(output.to_owned()).expect("JSON"));
        self.land(task.task_id, task.fence, result.sign(&self.keys.result))
            .await
    }

    pub(crate) async fn succeeds(&self, town: &Town, task: &OfferedTask) -> Response {
        self.reports(town, task, Outcome::Succeeded, None).await
    }

    pub(crate) async fn reports(
        &self,
        town: &Town,
        task: &OfferedTask,
        outcome: Outcome,
        code: Option<Code>,
    ) -> Response {
        let mut result = self.result(task, town.db.clock().now());
        (result.outcome, result.code) = (outcome, code);
        self.land(task.task_id, task.fence, result.sign(&self.keys.result))
            .await
    }
}
