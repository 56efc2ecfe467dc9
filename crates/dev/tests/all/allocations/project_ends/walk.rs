//! From a project with something in it to one that is gone.

use model::api::{Page, ProjectTokenCreate, TokenCreated, TokenView};
use model::state::ProjectRole;
use serde_json::Value;

use super::events::seats;
use super::*;

async fn gets(api: &Api, path: &str) -> Response {
    api.call(Method::GET, path, None::<&()>).await.expect("an answer")
}

/// A token that works in this project only, as its owner.
async fn confined(owner: &Api, project: &ProjectView) -> (TokenCreated, Api) {
    let body = ProjectTokenCreate {
        name: "ci".to_owned(),
        role: ProjectRole::Owner,
        days: 1,
    };
    let path = format!("/v1/projects/{}/tokens", project.id);
    let made: TokenCreated = owner.post(&path, &body).await.expect("a token");
    let api = Api::new(owner.url(), &made.secret).expect("a URL");
    (made, api)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_has_ended_is_gone_for_those_in_it_and_stays_on_record() {
    let market = Market::open().await;
    let (_, owner) = market.town.person("owner", Scope::Project).await;
    let (_, admin) = market.town.person("admin", Scope::Project).await;
    let (_, support) = market.town.person("support", Scope::Support).await;
    let project = founds(&market, "hers", "owner").await;
    seats(&owner, project.id, "admin", "admin").await;
    let (token, by_token) = confined(&owner, &project).await;
    let path = format!("/v1/projects/{}", project.id);

    let made = rents(&by_token, &project, "one").await.expect("accepted");
    market.until(made.id, AllocationState::Active).await;
    for (who, code) in [
        (&admin, Code::Forbidden),
        (&by_token, Code::Forbidden),
        (&market.api(), Code::Forbidden),
        (&owner, Code::StateConflict),
    ] {
        let error = refused(&ends(who, &project).await, code);
        assert!(code != Code::StateConflict || error.hint.is_some(), "{error:?}");
    }
    let release = format!("/v1/allocations/{}/release", made.id);
    let _: AllocationView = owner.post(&release, &json!({})).await.expect("accepted");
    market.until(made.id, AllocationState::Released).await;
    let stale = owner.call_if(Method::DELETE, &path, Some("\"7\"")).await;
    refused(&stale.expect("an answer"), Code::VersionConflict);
    assert_eq!(ends(&owner, &project).await.status, 204);

    for who in [&owner, &admin] {
        for gone in ["", "/members", "/quota", "/tokens"] {
            refused(&gets(who, &format!("{path}{gone}")).await, Code::NotFound);
        }
        refused(
            &gets(who, &format!("/v1/allocations/{}", made.id)).await,
            Code::NotFound,
        );
        refused(
            &gets(who, &format!("/v1/events?project={}", project.id)).await,
            Code::NotFound,
        );
        refused(&ends(who, &project).await, Code::NotFound);
        assert_eq!(
            rents(who, &project, "two").await.expect_err("gone"),
            Some(Code::NotFound)
        );
        let projects: Page<Value> = who.get("/v1/projects").await.expect("a list");
        let allocations: Page<Value> = who.get("/v1/allocations").await.expect("a list");
        assert_eq!((projects.items.len(), allocations.items.len()), (0, 0));
    }
    for closed in ["/v1/me", "/v1/skus", "/v1/projects", "/v1/allocations", path.as_str()] {
        refused(&gets(&by_token, closed).await, Code::TokenInvalid);
    }
    let tokens: Page<TokenView> = owner.get("/v1/tokens").await.expect("a list");
    let shown = tokens.items.iter().find(|one| one.id == token.token.id);
    assert!(shown.expect("its maker still sees it").revoked_at.is_some());

    // Whoever may look into all projects finds it by its id, and what there was in it; nobody changes it any more.
    let seen: ProjectView = support.get(&path).await.expect("on record");
    assert!(seen.deleted_at.is_some() && seen.role.is_none());
    let last: AllocationView = support
        .get(&format!("/v1/allocations/{}", made.id))
        .await
        .expect("on record");
    assert_eq!(last.state, AllocationState::Released);
    let listed: Page<ProjectView> = support.get("/v1/projects").await.expect("a list");
    assert!(listed.items.iter().all(|one| one.id != project.id));
    let (operator, quota) = (market.api(), format!("{path}/quota"));
    let more = operator.call(Method::POST, &quota, Some(&json!({}))).await;
    refused(&more.expect("an answer"), Code::NotFound);
    for sql in [
        "select count(*) from usage_span where allocation_id::text = $1",
        "select least(count(*), 1) from allocation_transition where allocation_id::text = $1",
    ] {
        assert_eq!(counts(&market, sql, &made.id.uuid().to_string()).await, 1, "{sql}");
    }
    for sql in [
        "select count(*) from audit where action = 'project.delete' and outcome = 'ok' and target_id = $1",
        "select count(*) from outbox where kind = 'project.deleted' and project_id = $1",
    ] {
        assert_eq!(counts(&market, sql, &project.id.to_string()).await, 1, "{sql}");
    }

    let next = founds(&market, "hers", "owner").await;
    assert_ne!(next.id, project.id);
    let projects: Page<ProjectView> = owner.get("/v1/projects").await.expect("a list");
    assert_eq!(projects.items.len(), 1);
    market.close().await;
}
