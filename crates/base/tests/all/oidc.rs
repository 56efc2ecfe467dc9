//! People whom an identity provider vouches for: a real one of this process, over HTTP, with real keys.

mod confusion;
mod hanging_up;
mod people;
mod rotation;
mod sessions;

use base::auth::{self, Principal};
use base::http::ApiError;
use base::testing::TestDb;
use base::testing::issuer::{Issuer, Person};
use base::{App, Clock};
use http::{HeaderMap, HeaderValue, header};
use model::signal::Code;
use model::time::Timestamp;
use serde_json::Value;

const AUDIENCE: &str = "https://gpu.example/api";

/// A provider with two people, and an application that believes it. Time stands still until told.
struct Scene {
    clock: Clock,
    issuer: Issuer,
    app: App,
    _db: TestDb,
}

impl Scene {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut base::Config)) -> Self {
        let clock = Clock::fixed(Timestamp::from_millis(1_700_000_000_000));
        let people = vec![Person::new("ada", &["gpu-admins"]), Person::new("bob", &[])];
        let issuer = Issuer::start(people, clock.clone()).await.expect("a port");
        let db = TestDb::with_clock(clock.clone()).await;
        let app = db.app_with(|config| {
            config.oidc_issuer = Some(issuer.url().to_owned());
            config.oidc_audience = Some(AUDIENCE.to_owned());
            config.oidc_client_id = Some("console".to_owned());
            change(config);
        });
        Self {
            clock,
            app: app.await,
            issuer,
            _db: db,
        }
    }

    fn claims(&self, name: &str) -> Value {
        self.issuer.claims(name, AUDIENCE)
    }

    fn token(&self, name: &str) -> String {
        self.issuer.access_token(&self.claims(name))
    }

    async fn ask(&self, token: &str) -> Result<Principal, ApiError> {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a header");
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        auth::authenticate(&self.app, &headers, None).await
    }

    async fn refused(&self, token: &str) -> Code {
        self.ask(token).await.expect_err("refused").code
    }

    async fn users(&self) -> i64 {
        sqlx::query_scalar("select count(*) from app_user")
            .fetch_one(self.app.db.read())
            .await
            .expect("readable")
    }
}
