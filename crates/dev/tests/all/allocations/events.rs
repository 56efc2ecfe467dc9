//! Events as readers hear them: who hears what, from where on, and how a stream ends.

mod ends;
mod followed;
mod hears;
mod joins;
mod machines;
mod resumes;
mod slow;
mod typed;

use base::Actor;
use base::auth::{Scope, TokenSecret, token_create, user_create};
use base::testing::{PATIENCE, eventually};
use dev::api::Api;
use dev::tail::Tail;
use dev::town::Town;
use model::api::{EventView, MemberView, ProjectCreate, ProjectView};
use model::id::{ProjectId, TokenId, UserId};
use serde_json::json;
use wire::sse::Message;

/// Somebody with a token of their own.
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) user: UserId,
    pub(crate) token: TokenId,
    secret: TokenSecret,
}

impl Person {
    pub(crate) async fn of(town: &Town, name: &str, roles: &[Scope]) -> Self {
        let (db, actor) = (&town.platform.apps[0].db, Actor::system("people"));
        let user = user_create(db, &actor, name, roles).await.expect("a user");
        let scopes = [&[Scope::Project], roles].concat();
        let token = token_create(db, &actor, user, "test", &scopes, 3600)
            .await
            .expect("a token");
        Self {
            name: name.to_owned(),
            user,
            token: token.id,
            secret: token.secret,
        }
    }

    /// As they speak to one replica.
    pub(crate) fn at(&self, town: &Town, replica: usize) -> Api {
        Api::new(&town.platform.public_urls[replica], &self.secret.reveal()).expect("a URL of ours")
    }

    pub(crate) async fn listens(&self, town: &Town, replica: usize, path: &str, after: Option<&str>) -> Tail {
        if after.is_none() {
            settled(town).await;
        }
        let tail = self.at(town, replica).tail(path, after).await.expect("answered");
        tail.unwrap_or_else(|refused| panic!("{path}: {} {:?}", refused.status, refused.error()))
    }
}

/// What was done so far has its place in the order; whoever begins to listen now hears only what comes.
async fn settled(town: &Town) {
    eventually("every event has its place", async || {
        let unstamped: i64 = sqlx::query_scalar("select count(*) from outbox where seq is null")
            .fetch_one(town.platform.apps[0].db.read())
            .await
            .expect("a count");
        (unstamped == 0).then_some(()).ok_or(unstamped)
    })
    .await;
}

pub(crate) async fn project(town: &Town, name: &str, owner: &Person) -> ProjectId {
    let body = ProjectCreate {
        name: name.to_owned(),
        owner: Some(owner.name.clone()),
    };
    let made: ProjectView = town.api().post("/v1/projects", &body).await.expect("a project");
    made.id
}

/// Somebody is let in, which is an event.
pub(crate) async fn seats(api: &Api, project: ProjectId, user: &str, role: &str) {
    let path = format!("/v1/projects/{project}/members");
    let body = json!({ "user": user, "role": role });
    let _: MemberView = api.post(&path, &body).await.expect("seated");
}

pub(crate) async fn hears(tail: &mut Tail) -> EventView {
    let event = tokio::time::timeout(PATIENCE, tail.event()).await;
    event.expect("in time").expect("an event")
}

pub(crate) async fn message(tail: &mut Tail) -> Option<Message> {
    let message = tokio::time::timeout(PATIENCE, tail.message()).await;
    message.expect("in time").expect("not cut")
}

/// The code with which a stream ends, whatever it tells before; and then it is over.
pub(crate) async fn end(tail: &mut Tail) -> String {
    loop {
        let last = message(tail).await.expect("a last word");
        if last.event == "end" {
            assert_eq!(message(tail).await, None, "nothing after the last word");
            let data: serde_json::Value = serde_json::from_str(&last.data).expect("JSON");
            return data["code"].as_str().expect("a code").to_owned();
        }
    }
}
