//! The same against a provider that others wrote. `make test-services` starts it and says where it is; its pages are
//! walked through as a browser without scripts would.

use std::path::Path;

use base::Clock;
use dev::api::Api;
use dev::town::Town;
use http::{Method, StatusCode};
use model::api::{Scope, WhoAmI};
use serde::Deserialize;
use wire::form::{only, read, with_query};
use wire::http::Client;

use super::command_line::{Machine, ended, told, visit};
use super::pages::Walker;
use super::{Browser, location};
use crate::EXE;

#[derive(Clone, Deserialize)]
struct Place {
    issuer: String,
    audience: String,
}

impl Place {
    fn find() -> Option<Self> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("identity-provider.json");
        serde_json::from_slice(&std::fs::read(place).ok()?).ok()
    }

    async fn told(&self, order: &str) {
        let client = Client::builder(&self.issuer).expect("a URL").build();
        let done = client
            .post(&format!("/test/{order}"))
            .send_foreign()
            .await
            .expect("an answer");
        assert_eq!(done.status, StatusCode::NO_CONTENT);
    }

    /// As the command line would get it.
    async fn access_token(&self, person: &str) -> String {
        let (redirect, verifier) = ("http://127.0.0.1:1/callback", "v".repeat(43));
        let challenge = base::auth::oidc::challenge(&verifier);
        let question = [
            ("client_id", "cli"),
            ("response_type", "code"),
            ("redirect_uri", redirect),
            ("scope", "openid"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &self.audience),
        ];
        let page = with_query(&format!("{}/auth", self.issuer), &question);
        let back = Walker::new(person).walk(&page, redirect).await;
        let query = read(back.split('?').nth(1).unwrap_or_default());
        let form = [
            ("client_id", "cli"),
            ("grant_type", "authorization_code"),
            ("code", only(&query, "code").expect("a code")),
            ("redirect_uri", redirect),
            ("code_verifier", &verifier),
            ("resource", &self.audience),
        ];
        let client = Client::builder(&self.issuer).expect("a URL").build();
        let answer = client
            .post("/token")
            .form(&form)
            .send_foreign()
            .await
            .expect("an answer");
        let answer: serde_json::Value = answer.json().expect("JSON");
        answer["access_token"].as_str().expect("a token").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_others_is_believed_like_our_own() {
    let Some(place) = Place::find() else {
        println!("not run: no identity provider is running; make test-services starts one");
        return;
    };
    // Ahead of the provider's clock and standing still: its tokens are never from the future, and minutes pass when told.
    let clock = Clock::fixed(Clock::real().now().plus_s(300));
    let told_of = place.clone();
    let town = Town::at(EXE, clock.clone(), move |config| {
        config.wait_hold_s = 2;
        config.oidc_issuer = Some(told_of.issuer.clone());
        config.oidc_client_id = Some("console".to_owned());
        config.oidc_client_secret = Some(base::config::HiddenText::new("a secret: of the console"));
        config.oidc_cli_client_id = Some("cli".to_owned());
        config.oidc_audience = Some(told_of.audience.clone());
        config.oidc_role_claim = Some("groups".to_owned());
        config.oidc_role_map = vec!["gpu-admins=admin".to_owned()];
    })
    .await;
    let url = town.platform.public_urls[0].clone();

    // Code with PKCE, in a browser and from the command line.
    let mut browser = Browser::at(&url);
    signed_in(&mut browser, &url, "ada").await;
    let me: WhoAmI = browser.get("/v1/me").await.json().expect("somebody");
    assert!(me.scopes.contains(&Scope::Admin), "{me:?}");
    let machine = Machine::new(&town, "laptop");
    let (run, captured) = machine.start("auth login", &[], "");
    let page = told(&captured, &format!("{}/auth?", place.issuer)).await;
    let asked = read(page.split('?').nth(1).unwrap_or_default());
    let redirect = only(&asked, "redirect_uri").expect("where to go back to").to_owned();
    let back = Walker::new("bob").walk(&page, &redirect).await;
    let shown = visit(&back).await;
    assert_eq!(shown.0, 200, "{back}: {shown:?}");
    let said = ended(run, &captured).await;
    assert_eq!(said.exit, 0, "{said:?}");

    // A code on another machine.
    let (run, captured) = machine.start("auth login --device", &[], "");
    let page = told(&captured, &format!("{}/device?", place.issuer)).await;
    let last = Walker::new("bob").walk(&page, "nowhere").await;
    assert!(last.contains("Success"), "{last}");
    let said = ended(run, &captured).await;
    assert_eq!(said.exit, 0, "{said:?}");

    // Its key changes: the next sign-in is believed, and what the old key signed is not.
    let old = place.access_token("bob").await;
    let api = |token: &str| Api::new(&url, token).expect("a URL");
    api(&old).get::<WhoAmI>("/v1/me").await.expect("a good token");
    place.told("rotate").await;
    clock.advance(61_000);
    let new = place.access_token("bob").await;
    api(&new).get::<WhoAmI>("/v1/me").await.expect("the new key is found");
    let gone = api(&old)
        .call(Method::GET, "/v1/me", None::<&()>)
        .await
        .expect("an answer");
    assert_eq!(gone.status, StatusCode::UNAUTHORIZED);
    signed_in(&mut browser, &url, "ada").await;

    // It is away: whoever is known stays, and nobody new comes in.
    place.told("away").await;
    clock.advance(600_000);
    api(&new).get::<WhoAmI>("/v1/me").await.expect("known keys count");
    assert_eq!(browser.get("/v1/me").await.status, StatusCode::OK);
    let said = machine.types("auth login").await;
    assert!(said.exit == 1 && said.err.contains("identity_unavailable"), "{said:?}");
    place.told("back").await;
    town.end().await;
}

async fn signed_in(browser: &mut Browser, url: &str, person: &str) {
    let away = location(&browser.get("/auth/login?next=/nodes").await);
    let back = Walker::new(person).walk(&away, url).await;
    let home = browser.get(back.strip_prefix(url).expect("back here")).await;
    assert_eq!(
        (home.status.as_u16(), location(&home).as_str()),
        (303, "/nodes"),
        "{home:?}"
    );
}
