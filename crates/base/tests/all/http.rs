//! The HTTP shape, asked through a real router.

use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::State;
use base::auth::{self, Role, Scope};
use base::http::{Access, ApiError, Body, Info, Params, Peer, Route, Routes, Search, Shell, finish, openapi};
use base::testing::TestDb;
use base::{Actor, App, Config};
use http::{Method, Request, StatusCode};
use model::id::NodeId;
use model::signal::Code;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::ServiceExt;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wish {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Narrow {
    #[expect(dead_code, reason = "only parsed")]
    state: Option<String>,
}

fn routes() -> Routes<App> {
    Routes::new([
        Route::get("/v1/open", Access::Public, || async { "hello" })
            .summary("Anybody")
            .answers::<String>(),
        Route::post(
            "/v1/wishes",
            Access::Scopes(&[Scope::Operator]),
            |Body(wish): Body<Wish>| async { axum::Json(wish) },
        )
        .summary("Wish")
        .takes::<Wish>()
        .answers::<Wish>()
        .fails(&[Code::StateConflict]),
        Route::get(
            "/v1/nodes/{id}",
            Access::Scopes(&[Scope::Support, Scope::Operator]),
            node,
        )
        .summary("A node")
        .searches::<Narrow>(),
        Route::get("/v1/panic", Access::Public, panics),
        Route::get("/v1/slow", Access::Public, std::future::pending::<()>).deadline(Duration::from_millis(10)),
        Route::get(
            "/internal/v1/ping",
            Access::Roles(&[Role::Node]),
            |actor: Actor| async move { actor.id },
        ),
    ])
}

async fn panics() {
    panic!("on purpose")
}

async fn node(
    State(_app): State<App>,
    Params(id): Params<NodeId>,
    Search(_): Search<Narrow>,
) -> Result<String, ApiError> {
    Err(ApiError::new(Code::NotFound).detail("id", id.to_string()))
}

struct Town {
    app: App,
    router: axum::Router,
    _test: TestDb,
}

impl Town {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let test = TestDb::new().await;
        let app = test.app_with(change).await;
        let router = finish(
            routes().router(&app).with_state(app.clone()),
            Shell::new("api").loopback_only(),
        );
        Self {
            app,
            router,
            _test: test,
        }
    }

    async fn token(&self, scopes: &[Scope]) -> String {
        let actor = Actor::system("test");
        let user = auth::user_create(&self.app.db, &actor, &format!("{scopes:?}"), scopes)
            .await
            .expect("creates");
        let token = auth::token_create(&self.app.db, &actor, user, "test", scopes, 3600)
            .await
            .expect("creates");
        token.secret.reveal()
    }

    async fn ask(&self, request: Request<HttpBody>) -> (StatusCode, http::HeaderMap, Value) {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a whole body");
        let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        (parts.status, parts.headers, value)
    }

    async fn code(&self, request: Request<HttpBody>) -> (u16, String) {
        let (status, headers, body) = self.ask(request).await;
        assert_eq!(headers["gpuaas-service"], "api");
        assert_eq!(
            body["error"]["correlation_id"],
            headers["x-correlation-id"].to_str().expect("ascii")
        );
        assert!(!body["error"]["message"].as_str().expect("a sentence").is_empty());
        (
            status.as_u16(),
            body["error"]["code"].as_str().expect("a code").to_owned(),
        )
    }
}

fn request(method: Method, path: &str, token: Option<&str>) -> http::request::Builder {
    let builder = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:8080");
    match token {
        Some(token) => builder.header("authorization", format!("Bearer {token}")),
        None => builder,
    }
}

fn get(path: &str, token: Option<&str>) -> Request<HttpBody> {
    request(Method::GET, path, token)
        .body(HttpBody::empty())
        .expect("a request")
}

fn post(token: &str, body: impl Into<HttpBody>) -> Request<HttpBody> {
    request(Method::POST, "/v1/wishes", Some(token))
        .header("content-type", "application/json")
        .body(body.into())
        .expect("a request")
}

#[tokio::test]
async fn every_refusal_has_the_envelope_and_its_code() {
    let town = Town::start().await;
    let operator = town.token(&[Scope::Operator]).await;
    let node = NodeId::new().to_string();
    let expect =
        async |request, status: u16, code: &str| assert_eq!(town.code(request).await, (status, code.to_owned()));
    expect(get("/v1/nothing", None), 404, "route_not_found").await;
    expect(
        request(Method::DELETE, "/v1/open", None)
            .body(HttpBody::empty())
            .expect("a request"),
        405,
        "method_not_allowed",
    )
    .await;
    expect(get("/v1/nodes/x", None), 401, "unauthenticated").await;
    expect(get("/v1/nodes/x", Some("nonsense")), 401, "token_invalid").await;
    expect(
        get("/v1/nodes/task_00000000000000000000000000", Some(&operator)),
        400,
        "id_kind_mismatch",
    )
    .await;
    expect(get(&format!("/v1/nodes/{node}"), Some(&operator)), 404, "not_found").await;
    expect(
        get(&format!("/v1/nodes/{node}?stat=x"), Some(&operator)),
        422,
        "field_invalid",
    )
    .await;
    expect(get("/v1/panic", None), 500, "internal").await;
    expect(get("/v1/slow", None), 504, "deadline_exceeded").await;
    expect(get("/internal/v1/ping", Some(&operator)), 401, "unauthenticated").await;
    expect(post(&operator, "{"), 400, "body_malformed").await;
    expect(post(&operator, "[".repeat(100_000)), 400, "body_malformed").await;
    expect(post(&operator, vec![b' '; 256 * 1024 + 1]), 413, "body_too_large").await;
    expect(post(&operator, r#"{"name":"a","role":"admin"}"#), 422, "field_invalid").await;
    expect(
        request(Method::POST, "/v1/wishes", Some(&operator))
            .body(r#"{"name":"a"}"#.into())
            .expect("a request"),
        400,
        "body_malformed",
    )
    .await;
    let evil = Request::builder()
        .uri("/v1/open")
        .header("host", "evil.example")
        .body(HttpBody::empty())
        .expect("a request");
    expect(evil, 421, "host_refused").await;
    let (status, _, body) = town.ask(post(&operator, r#"{"name":"a"}"#)).await;
    assert_eq!((status, body), (StatusCode::OK, json!({ "name": "a" })));
}

#[tokio::test]
async fn a_correlation_id_is_taken_if_it_is_one_and_made_otherwise() {
    let town = Town::start().await;
    let id = uuid::Uuid::now_v7().to_string();
    for (given, kept) in [
        (id.as_str(), true),
        ("not-an-id\u{7f}", false),
        ("00000000-0000-0000-0000-000000000000", false),
    ] {
        let Ok(value) = http::HeaderValue::from_str(given).or_else(|_| http::HeaderValue::from_bytes(b"bad")) else {
            continue;
        };
        let request = request(Method::GET, "/v1/open", None)
            .header("x-correlation-id", value)
            .body(HttpBody::empty());
        let (status, headers, _) = town.ask(request.expect("a request")).await;
        assert_eq!(status, StatusCode::OK);
        let answered = headers["x-correlation-id"].to_str().expect("ascii");
        assert!(uuid::Uuid::try_parse(answered).is_ok());
        assert_eq!(answered == given, kept);
    }
}

#[tokio::test]
async fn every_caller_on_every_route_gets_what_the_table_says() {
    let town = Town::start().await;
    for info in routes().iter() {
        let path = info.path.replace("{id}", &NodeId::new().to_string());
        for scope in Scope::ALL {
            let token = auth_token(&town, scope).await;
            let (status, _, body) = town
                .ask(
                    request(info.method.clone(), &path, Some(&token))
                        .body(HttpBody::empty())
                        .expect("a request"),
                )
                .await;
            let refused = [401, 403].contains(&status.as_u16());
            let allowed = match info.access {
                Access::Public => true,
                Access::Scopes(scopes) => scopes.contains(&scope) || scope == Scope::Admin,
                Access::Roles(_) => false,
            };
            assert_eq!(
                refused, !allowed,
                "{scope} {} {}: {status} {body}",
                info.method, info.path
            );
        }
        for role in Role::ALL {
            let mut request = request(info.method.clone(), &path, None)
                .body(HttpBody::empty())
                .expect("a request");
            request.extensions_mut().insert(Peer {
                role: *role,
                id: "somebody".into(),
            });
            let (status, _, _) = town.ask(request).await;
            let refused = [401, 403].contains(&status.as_u16());
            let allowed = match info.access {
                Access::Public => true,
                Access::Scopes(_) => false,
                Access::Roles(roles) => roles.contains(role),
            };
            assert_eq!(refused, !allowed, "{role} {} {}: {status}", info.method, info.path);
        }
    }
    let kept: Vec<(String, String)> =
        sqlx::query_as("select distinct code, target_id from audit where outcome = 'refused' order by 1, 2")
            .fetch_all(town.app.db.read())
            .await
            .expect("readable");
    let expected = [
        ("forbidden", "GET /v1/nodes/{id}"),
        ("forbidden", "POST /v1/wishes"),
        ("role_forbidden", "GET /internal/v1/ping"),
    ];
    assert_eq!(
        kept,
        expected.map(|(code, target)| (code.to_owned(), target.to_owned()))
    );
}

async fn auth_token(town: &Town, scope: Scope) -> String {
    let actor = Actor::system("test");
    let name = uuid::Uuid::new_v4().to_string();
    let user = auth::user_create(&town.app.db, &actor, &name, &[scope])
        .await
        .expect("creates");
    auth::token_create(&town.app.db, &actor, user, "test", &[scope], 3600)
        .await
        .expect("creates")
        .secret
        .reveal()
}

#[tokio::test]
async fn a_token_that_was_ended_uses_up_nothing_of_its_owners() {
    let town = Town::with(|config| config.rate_reads_per_min = 20).await;
    let (db, actor) = (&town.app.db, Actor::system("test"));
    let user = auth::user_create(db, &actor, "ada", &[Scope::Operator]);
    let user = user.await.expect("creates");
    let token = async |name: &str| {
        let made = auth::token_create(db, &actor, user, name, &[Scope::Operator], 3600).await;
        made.expect("creates")
    };
    let (found, other) = (token("found").await, token("other").await);
    let path = format!("/v1/nodes/{}", NodeId::new());
    let ask = async |token: &auth::NewToken| town.ask(get(&path, Some(&token.secret.reveal()))).await;
    // Both are known by now to be hers.
    for token in [&found, &other] {
        assert_eq!(ask(token).await.0, StatusCode::NOT_FOUND);
    }
    auth::token_revoke(db, &actor, auth::Whose::Everybodys, found.id)
        .await
        .expect("revoked");
    for n in 0..100 {
        let (status, headers, _) = ask(&found).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{n}");
        assert_ne!(headers["ratelimit-limit"], "20", "it tells nothing of hers");
    }
    let (status, headers, _) = ask(&other).await;
    assert_eq!(
        (status, &headers["ratelimit-limit"]),
        (StatusCode::NOT_FOUND, &http::HeaderValue::from(20))
    );
}

#[tokio::test]
async fn the_document_comes_from_the_table() {
    let document = openapi(
        &routes().infos(),
        &Info {
            title: "test",
            version: "1",
            description: "",
        },
    );
    let wish = &document["paths"]["/v1/wishes"]["post"];
    assert_eq!(wish["security"], json!([{ "token": ["operator"] }]));
    assert_eq!(
        wish["requestBody"]["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/Wish"
    );
    assert!(
        wish["responses"]["409"]["description"]
            .as_str()
            .is_some_and(|text| text.contains("state_conflict"))
    );
    assert_eq!(document["components"]["schemas"]["Wish"]["additionalProperties"], false);
    let node = &document["paths"]["/v1/nodes/{id}"]["get"];
    let names: Vec<_> = node["parameters"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, [json!("id"), json!("state")]);
    assert_eq!(
        document["paths"]["/internal/v1/ping"]["get"]["security"],
        json!([{ "certificate": ["node"] }])
    );
    for info in routes().iter() {
        let method = info.method.as_str().to_ascii_lowercase();
        assert!(
            document["paths"][info.path][method].is_object(),
            "{} {}",
            info.method,
            info.path
        );
    }
}

#[tokio::test]
async fn a_process_tells_whether_it_can_work() {
    let town = Town::start().await;
    base::metrics::install(&[]);
    let router = base::http::health_router(town.app.clone(), "api");
    let ask = async |path: &str| {
        let response = router.clone().oneshot(get(path, None)).await.expect("infallible");
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .expect("a whole body");
        (status, String::from_utf8(bytes.to_vec()).expect("text"))
    };
    assert_eq!(ask("/readyz").await.0, StatusCode::OK);
    town.app.readiness.set("identity", Some(Code::IdentityStale));
    let (status, body) = ask("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("identity_stale"), "{body}");
    town.app.readiness.set("identity", None);
    town.app.db.close().await;
    let (status, body) = ask("/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("database_unavailable"), "{body}");
    assert_eq!(ask("/healthz").await.0, StatusCode::OK);
    assert_eq!(ask("/metrics").await.0, StatusCode::OK);
}
