//! Every public route against everybody who may not: no token, no good token, not enough of one.

use base::Actor;
use base::auth::{NewToken, Scope, TokenSecret, Whose, token_create, token_revoke, user_create, user_disable};
use base::http::{Access, RouteInfo};
use dev::api::Api;
use dev::town::Town;
use http::{HeaderValue, Method, header};
use model::id::{NodeId, TaskId, TokenId, UserId};
use model::signal::Code;
use wire::http::{Client, Response};

use super::everything;
use crate::EXE;
use crate::abuse::{audited, refused, sql};

const DAY_S: i64 = 86_400;

fn path(route: &RouteInfo) -> String {
    let id = match route.path {
        path if path.starts_with("/v1/tasks") => TaskId::new().to_string(),
        path if path.starts_with("/v1/tokens") => TokenId::new().to_string(),
        path if path.starts_with("/v1/users") => UserId::new().to_string(),
        _ => NodeId::new().to_string(),
    };
    route.path.replace("{id}", &id).replace("{serial}", "4f")
}

async fn call(api: &Api, route: &RouteInfo) -> Response {
    let body = (route.method == Method::POST).then(|| serde_json::json!({}));
    let answer = api.call(route.method.clone(), &path(route), body.as_ref()).await;
    answer.expect("an answer")
}

async fn user(town: &Town, name: &str, roles: &[Scope]) -> UserId {
    let made = user_create(&town.platform.apps[0].db, &Actor::system("doors"), name, roles).await;
    made.expect("a user")
}

async fn token(town: &Town, user: UserId, scopes: &[Scope]) -> (NewToken, Api) {
    let db = &town.platform.apps[0].db;
    let made = token_create(db, &Actor::system("doors"), user, "door", scopes, DAY_S).await;
    let made = made.expect("a token");
    let api = Api::new(town.api().url(), &made.secret.reveal()).expect("a URL");
    (made, api)
}

/// Routes that want a token, and which scopes they name.
fn guarded() -> Vec<(RouteInfo, &'static [Scope])> {
    let open: Vec<&str> = control::routes::public_infos()
        .iter()
        .filter(|route| route.access == Access::Public)
        .map(|route| route.path)
        .collect();
    let doors = ["/v1/version", "/v1/auth", "/auth/login", "/auth/callback"];
    assert_eq!(open, doors, "nothing else is open to strangers");
    let scopes = |route: RouteInfo| match route.access {
        Access::Scopes(scopes) => Some((route, scopes)),
        Access::Public | Access::Roles(_) => None,
    };
    control::routes::public_infos().into_iter().filter_map(scopes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_good_token_no_route_opens() {
    let town = Town::start(EXE).await;
    let ada = user(&town, "bea", &[Scope::Admin]).await;
    let gone = user(&town, "gone", &[Scope::Admin]).await;
    let (_, good) = token(&town, ada, &[Scope::Admin]).await;
    let (revoked, revoked_api) = token(&town, ada, &[Scope::Admin]).await;
    let (expired, expired_api) = token(&town, ada, &[Scope::Admin]).await;
    let (_, disabled_api) = token(&town, gone, &[Scope::Admin]).await;
    let db = &town.platform.apps[0].db;
    for api in [&good, &revoked_api, &expired_api, &disabled_api] {
        api.get::<serde_json::Value>("/v1/me").await.expect("good so far");
    }
    token_revoke(db, &Actor::system("doors"), Whose::Everybodys, revoked.id)
        .await
        .expect("revoked");
    user_disable(db, &Actor::system("doors"), gone).await.expect("disabled");
    let past = format!(
        "update api_token set expires_at = now() - interval '1 second' where id = '{}'",
        expired.id.uuid()
    );
    sql(&town, &past).await;
    let foreign = Api::new(good.url(), &TokenSecret::random().reveal()).expect("a URL");
    let guess = Api::new(good.url(), "gpuaas_guess").expect("a URL");

    let before = everything(&town).await;
    let routes = guarded();
    assert!(routes.len() >= 20, "{}", routes.len());
    for (route, _) in &routes {
        let bare = Client::builder(good.url()).expect("a URL").build();
        let answer = bare.request(route.method.clone(), &path(route)).send().await;
        let answer = answer.expect("an answer");
        refused(&answer, Code::Unauthenticated);
        assert_eq!(
            answer.headers.get(header::WWW_AUTHENTICATE),
            Some(&HeaderValue::from_static("Bearer"))
        );
        // Guesses leave no rows, or a stranger could fill the audit; tokens that once were do.
        for api in [&foreign, &guess] {
            refused(&call(api, route).await, Code::TokenInvalid);
        }
        for (api, code) in [
            (&revoked_api, Code::TokenInvalid),
            (&disabled_api, Code::TokenInvalid),
            (&expired_api, Code::TokenExpired),
        ] {
            let row = audited(&town, &refused(&call(api, route).await, code)).await;
            assert_eq!(row.action, "token.use");
        }
        let opened = call(&good, route).await;
        let shut = [Code::Unauthenticated, Code::TokenInvalid, Code::Forbidden];
        assert!(
            !opened.error().is_some_and(|e| shut.contains(&e.code)),
            "{}: {opened:?}",
            route.path
        );
    }
    for value in ["Basic YTpi", "Bearer", "Bearer  ", "gpuaas_x"] {
        let bare = Client::builder(good.url()).expect("a URL").build();
        let request = bare
            .get("/v1/me")
            .header(header::AUTHORIZATION, HeaderValue::from_static(value));
        refused(&request.send().await.expect("an answer"), Code::TokenInvalid);
    }
    assert_eq!(everything(&town).await, before);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_too_little_is_refused_and_remembered() {
    let town = Town::start(EXE).await;
    let all = user(&town, "all", &Scope::ALL).await;
    let nobody = user(&town, "nobody", &[]).await;
    let mut tokens = Vec::new();
    for scope in Scope::ALL {
        tokens.push((vec![scope], token(&town, all, &[scope]).await));
    }
    // A token can do no more than its owner, whatever is written on it; and everybody may be in projects.
    tokens.push((vec![Scope::Project], token(&town, nobody, &Scope::ALL).await));
    let before = everything(&town).await;
    let (mut passed, mut stopped) = (0, 0);
    for (route, wanted) in guarded() {
        for (scopes, (token, api)) in &tokens {
            let may = scopes
                .iter()
                .any(|scope| wanted.contains(scope) || *scope == Scope::Admin);
            let answer = call(api, &route).await;
            if may {
                let shut = answer.error().is_some_and(|error| error.code == Code::Forbidden);
                assert!(!shut, "{} {scopes:?}: {answer:?}", route.path);
                passed += 1;
                continue;
            }
            let row = audited(&town, &refused(&answer, Code::Forbidden)).await;
            assert_eq!(
                (row.action.as_str(), row.actor_id),
                ("route.call", token.id.to_string())
            );
            assert_eq!(row.target_id, format!("{} {}", route.method, route.path));
            stopped += 1;
        }
    }
    assert!(passed > 40 && stopped > 40, "{passed} and {stopped}");
    assert_eq!(everything(&town).await, before);
    town.end().await;
}
