//! Owners read what was done in their own project, all of it, and nothing of the platform that it stands on.

use std::collections::BTreeSet;

use base::auth::Scope;
use http::Method;
use model::api::{
    MemberAdd, MemberView, Page, ProjectAuditRow, ProjectCreate, ProjectTokenCreate, ProjectView, QuotaView,
    TokenCreated,
};
use model::signal::Code;
use model::state::ProjectRole;

use super::*;
use crate::abuse::refused;

async fn reads(api: &Api, project: &ProjectView, query: &str) -> Page<ProjectAuditRow> {
    let path = format!("/v1/projects/{}/audit?{query}", project.id);
    api.get(&path).await.expect("the audit is read")
}

async fn founds(market: &Market, owner: &str) -> ProjectView {
    let body = ProjectCreate {
        name: format!("of-{owner}"),
        owner: Some(owner.to_owned()),
    };
    market.api().post("/v1/projects", &body).await.expect("a project")
}

fn wish(project: &ProjectView) -> AllocationCreate {
    AllocationCreate {
        project: Some(project.id),
        ssh_public_keys: vec![dev::slice::SSH_KEY.parse().expect("a key")],
        ..Market::wish()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_read_all_of_their_own_project_and_nothing_else() {
    let market = Market::open().await;
    let (_, bea) = market.town.person("bea", Scope::Project).await;
    let (_, eve) = market.town.person("eve", Scope::Project).await;
    let (hers, other) = (founds(&market, "bea").await, founds(&market, "eve").await);
    let of_eve: AllocationView = eve
        .post_as("e", "/v1/allocations", &wish(&other))
        .await
        .expect("rented");
    let made: AllocationView = bea.post_as("a", "/v1/allocations", &wish(&hers)).await.expect("rented");
    market.until(made.id, AllocationState::Active).await;
    let tokens = format!("/v1/projects/{}/tokens", hers.id);
    let token = ProjectTokenCreate {
        name: "ci".to_owned(),
        role: ProjectRole::Owner,
        days: 1,
    };
    let ci: TokenCreated = bea.post(&tokens, &token).await.expect("a token");
    let quota = format!("/v1/projects/{}/quota", hers.id);
    let _: QuotaView = market.api().post(&quota, &json!({ "slots": 7 })).await.expect("set");
    let end = format!("/v1/allocations/{}/release", made.id);
    let why = json!({ "reason": "moved" });
    let _: AllocationView = market.api().post(&end, &why).await.expect("ended by an operator");
    market.until(made.id, AllocationState::Released).await;

    let all = reads(&bea, &hers, "limit=200").await;
    assert_eq!(all.next, None);
    let about: BTreeSet<String> = all.items.iter().map(|row| row.target_id.clone()).collect();
    assert_eq!(about, BTreeSet::from([hers.id.to_string(), made.id.to_string()]));
    let done: BTreeSet<&str> = all.items.iter().map(|row| row.action.as_str()).collect();
    for action in [
        "project.create",
        "allocation.create",
        "token.create",
        "quota.set",
        "allocation.release",
        "allocation.move",
    ] {
        assert!(done.contains(action), "{action}: {done:?}");
    }
    let row = |action: &str| all.items.iter().find(|row| row.action == action).expect("a row");
    assert_eq!(row("allocation.release").details, json!({ "reason": "moved" }));
    assert_eq!(row("quota.set").details["slots"], 7);
    assert_eq!(row("allocation.create").actor_id, Some(token_of(&bea).await));
    for row in all.items.iter().filter(|row| row.actor_kind != "token") {
        assert_eq!(row.actor_id, None, "{row:?}");
    }
    let text = serde_json::to_string(&all).expect("text");
    for hidden in [market.node.to_string(), of_eve.id.to_string(), other.id.to_string()] {
        assert!(!text.contains(&hidden), "{hidden}");
    }

    // Page by page it is the same; and for a machine of theirs.
    let own = Api::new(bea.url(), &ci.secret).expect("a URL");
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = reads(&own, &hers, &format!("limit=3{after}")).await;
        paged.extend(page.items.into_iter().map(|row| row.id));
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(paged, all.items.iter().map(|row| row.id).collect::<Vec<_>>());
    let revoke = format!("{tokens}/{}/revoke", ci.token.id);
    let revoked = bea.call(Method::POST, &revoke, None::<&()>).await.expect("an answer");
    assert_eq!(revoked.status, 204);
    let only = reads(&bea, &hers, &format!("target={}&outcome=ok", ci.token.id)).await;
    assert_eq!(
        only.items.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(),
        ["token.revoke"]
    );

    // Whoever else is in it may not, and to a stranger there is nothing.
    let body = MemberAdd {
        user: "eve".to_owned(),
        role: ProjectRole::Admin,
    };
    let path = format!("/v1/projects/{}/audit", hers.id);
    let strange = eve.call(Method::GET, &path, None::<&()>).await.expect("an answer");
    refused(&strange, Code::NotFound);
    let _: MemberView = bea
        .post(&format!("/v1/projects/{}/members", hers.id), &body)
        .await
        .expect("a seat");
    let admin = eve.call(Method::GET, &path, None::<&()>).await.expect("an answer");
    refused(&admin, Code::Forbidden);
    let (_, auditor) = market.town.person("auditor", Scope::Auditor).await;
    assert_eq!(reads(&auditor, &hers, "action=project.create").await.items.len(), 1);
    market.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_see_who_tried_what_they_may_not() {
    let market = Market::open().await.unplug().await;
    let (_, bea) = market.town.person("bea", Scope::Project).await;
    let (_, eve) = market.town.person("eve", Scope::Project).await;
    let hers = founds(&market, "bea").await;
    let body = MemberAdd {
        user: "eve".to_owned(),
        role: ProjectRole::Viewer,
    };
    let members = format!("/v1/projects/{}/members", hers.id);
    let _: MemberView = bea.post(&members, &body).await.expect("a seat");
    let made: AllocationView = bea.post_as("a", "/v1/allocations", &wish(&hers)).await.expect("rented");
    let release = format!("/v1/allocations/{}/release", made.id);
    let answer = eve.call(Method::POST, &release, Some(&json!({}))).await;
    let error = refused(&answer.expect("an answer"), Code::Forbidden);
    // Under a key it is the same, and nothing is kept: asked again, it is refused again.
    for _ in 0..2 {
        let answer: Result<AllocationView, _> = eve.post_as("k", "/v1/allocations", &wish(&hers)).await;
        answer.expect_err("a viewer rents nothing");
    }

    let rows = reads(&bea, &hers, "outcome=refused").await.items;
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.target_id.clone(), row.details.clone()))
        .collect();
    let rent = (hers.id.to_string(), json!({ "route": "POST /v1/allocations" }));
    let end = (
        made.id.to_string(),
        json!({ "route": "POST /v1/allocations/{id}/release" }),
    );
    assert_eq!(told, [rent.clone(), rent, end]);
    let row = rows.last().expect("a row");
    assert_eq!(
        (row.action.as_str(), row.code.as_deref()),
        ("route.call", Some("forbidden"))
    );
    assert_eq!(row.actor_id, Some(token_of(&eve).await));
    assert_eq!(row.correlation_id.to_string(), error.correlation_id);
    let still = market.shows(made.id).await;
    assert!(
        !still.state.is_end() && still.state != AllocationState::Releasing,
        "{still:?}"
    );
    market.close().await;
}

async fn token_of(bea: &Api) -> String {
    let me: model::api::WhoAmI = bea.get("/v1/me").await.expect("me");
    me.token_id.to_string()
}
