//! Coming, staying and going; and what a page of somebody else can do with it, which is nothing.

use base::testing::PATIENCE;
use http::header::ORIGIN;
use http::{HeaderName, Method};
use model::api::{Scope, Via, WhoAmI};
use model::signal::Code;

use super::{Browser, choose, location, town};
use crate::abuse::{audited, refused, snapshot};
use crate::allocations::events;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_comes_stays_and_goes() {
    let (town, _issuer) = town().await;
    let mut browser = Browser::at(&town.platform.public_urls[0]);
    assert_eq!(browser.get("/v1/me").await.status.as_u16(), 401);
    browser.sign_in("ada").await;
    assert_eq!(
        browser.cookies.len(),
        1,
        "only the session is left: {:?}",
        browser.cookies
    );
    let me: WhoAmI = browser.get("/v1/me").await.json().expect("somebody");
    assert!(me.via == Via::Session && me.scopes.contains(&Scope::Admin), "{me:?}");
    // Any replica knows it.
    let mut elsewhere = Browser::at(&town.platform.public_urls[1]);
    elsewhere.cookies.clone_from(&browser.cookies);
    assert_eq!(elsewhere.get("/v1/nodes").await.status.as_u16(), 200);
    // Gone is gone, everywhere and at once.
    let kept = browser.cookies.clone();
    assert_eq!(browser.post("/auth/logout").await.status.as_u16(), 204);
    assert!(browser.cookies.is_empty());
    for url in &town.platform.public_urls {
        let mut thief = Browser::at(url);
        thief.cookies.clone_from(&kept);
        refused(&thief.get("/v1/me").await, Code::TokenInvalid);
    }
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_only_listens_keeps_nobody_signed_in() {
    let (town, _issuer) = town().await;
    let mut browser = Browser::at(&town.platform.public_urls[0]);
    browser.sign_in("ada").await;
    let db = &town.platform.apps[0].db;
    sqlx::query("update browser_session set last_used_at = last_used_at - interval '1 hour'")
        .execute(db.bookkeeping())
        .await
        .expect("an hour passes");
    let idle = async || {
        let rows = "select bool_and(last_used_at < now() - interval '59 minutes') from browser_session";
        let idle: bool = sqlx::query_scalar(rows).fetch_one(db.read()).await.expect("readable");
        idle
    };
    let mut stream = browser.listens("/v1/events").await;
    // Somebody is let into a project: the stream looks at once whether its reader may still hear.
    let bea = events::Person::of(&town, "bea-t", &[]).await;
    events::Person::of(&town, "cai-t", &[]).await;
    let hers = events::project(&town, "hers", &bea).await;
    events::seats(&bea.at(&town, 0), hers, "cai-t", "member").await;
    let heard = async {
        let mut heard = String::new();
        while !heard.contains("project.member") {
            let piece = stream.piece().await.expect("not cut").expect("goes on");
            heard.push_str(&String::from_utf8_lossy(&piece));
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("in time");
    assert!(idle().await, "nobody did anything");
    browser.get("/v1/nodes").await;
    assert!(!idle().await, "now somebody did");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_change_nothing() {
    let (town, _issuer) = town().await;
    let mut browser = Browser::at(&town.platform.public_urls[0]);
    browser.sign_in("ada").await;
    let before = snapshot(&town, &["browser_session", "api_token", "node"]).await;
    for headers in [
        &[][..],
        &[(ORIGIN, "https://evil.example")],
        &[(ORIGIN, "null")],
        &[(FETCH_SITE, "cross-site")],
        &[(FETCH_SITE, "same-site")],
    ] {
        for path in ["/auth/logout", "/v1/nodes", "/v1/tokens"] {
            let answer = browser.send(Method::POST, path, headers).await;
            audited(&town, &refused(&answer, Code::OriginRefused)).await;
        }
    }
    assert_eq!(snapshot(&town, &["browser_session", "api_token", "node"]).await, before);
    let ours = browser
        .send(Method::POST, "/auth/logout", &[(FETCH_SITE, "same-origin")])
        .await;
    assert_eq!(ours.status.as_u16(), 204);
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_finishes_what_another_began() {
    let (town, issuer) = town().await;
    let url = &town.platform.public_urls[0];
    let (mut victim, mut thief) = (Browser::at(url), Browser::at(url));
    // The thief's own answer, slipped to a victim who has begun nothing, or something else.
    let planted = thief.approved("eve").await;
    refused(&victim.get(&planted).await, Code::SignInRefused);
    victim.approved("bob").await;
    refused(&victim.get(&planted).await, Code::SignInRefused);
    // Declined, by another provider, without a code.
    let state = planted
        .split("state=")
        .nth(1)
        .and_then(|rest| rest.split('&').next())
        .expect("a state");
    for query in [
        format!("error=access_denied&state={state}"),
        format!("state={state}"),
        format!("code=x&state={state}&iss=https%3A%2F%2Fevil.example"),
        format!("code=x&state={state}"),
        format!("code=x&state={state}&state={state}"),
        "code=x".to_owned(),
    ] {
        let answer = thief.get(&format!("/auth/callback?{query}")).await;
        assert!(
            !answer.status.is_success() && answer.status.as_u16() != 303,
            "{query}: {answer:?}"
        );
    }
    assert!(
        victim
            .cookies
            .iter()
            .chain(&thief.cookies)
            .all(|(name, _)| !name.contains("session"))
    );
    // A code is good once, and only with what the browser kept. At another replica: this one has heard enough.
    let url = &town.platform.public_urls[1];
    let mut thief = Browser::at(url);
    let away = thief.get("/auth/login").await;
    let back = choose(&location(&away), "eve").await;
    let back = back.strip_prefix(url).expect("back here").to_owned();
    let kept = thief.cookies.clone();
    assert_eq!(thief.get(&back).await.status.as_u16(), 303);
    thief.cookies = kept;
    refused(&thief.get(&back).await, Code::SignInRefused);
    issuer.set_broken(true);
    let again = thief.get("/auth/login").await;
    assert_eq!(again.status.as_u16(), 303, "where to go is known");
    refused(&thief.get(&back).await, Code::SignInRefused);
    town.end().await;
}
