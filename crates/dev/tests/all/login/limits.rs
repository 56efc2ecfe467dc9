//! Rate limits, and ways that do not lead around them.

use base::Actor;
use base::auth::{Scope, token_create, user_create};
use dev::town::Town;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use model::signal::Code;
use wire::http::{Client, Response};

use super::{Browser, town};
use crate::EXE;
use crate::abuse::refused;

const ADDRESS_HEADERS: [&str; 6] = [
    "x-forwarded-for",
    "X-Forwarded-For",
    "forwarded",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
];

/// Says it came from somewhere else, each time from another place.
async fn asked(client: &Client, path: &str, n: usize, token: Option<&str>) -> Response {
    let header = ADDRESS_HEADERS[n % ADDRESS_HEADERS.len()].to_lowercase();
    let name = HeaderName::from_bytes(header.as_bytes()).expect("a name");
    let value = HeaderValue::from_str(&format!("198.51.100.{}", n % 250)).expect("a value");
    let mut request = client.get(path).header(name, value);
    if let Some(token) = token {
        // The scheme's case is free, and must not make somebody else of one.
        let scheme = ["Bearer", "bearer", "BEARER"][n % 3];
        let value = HeaderValue::from_str(&format!("{scheme} {token}")).expect("a value");
        request = request.header(AUTHORIZATION, value);
    }
    request.send().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_56_tokens() {
    let town = Town::tuned(EXE, |config| {
        config.wait_hold_s = 2;
        config.rate_reads_per_min = 30;
    })
    .await;
    let (db, actor) = (&town.platform.apps[0].db, Actor::system("limits"));
    let mut tokens = Vec::new();
    for name in ["bea", "cai"] {
        let user = user_create(db, &actor, name, &[Scope::Support]).await.expect("a user");
        for n in 0..5 {
            let made = token_create(db, &actor, user, &format!("{name} {n}"), &[Scope::Support], 3600).await;
            tokens.push(made.expect("a token").secret.reveal());
        }
    }
    let client = Client::builder(&town.platform.public_urls[0]).expect("a URL").build();
    let mut passed = 0;
    let began = std::time::Instant::now();
    for n in 0..150 {
        let answer = asked(&client, "/v1/me", n, Some(&tokens[n % 5])).await;
        match answer.status.as_u16() {
            200 => passed += 1,
            _ => {
                assert!(answer.headers.contains_key("retry-after"));
                refused(&answer, Code::RateLimited);
            }
        }
    }
    // Thirty at once and one each two seconds since; five tokens would have had all that they asked for.
    let most = 30 + began.elapsed().as_secs() / 2 + 1;
    assert!((30..=most).contains(&passed), "{passed} of at most {most}");
    assert_eq!(
        asked(&client, "/v1/me", 0, Some(&tokens[5])).await.status.as_u16(),
        200,
        "nobody else pays"
    );
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_56_sign_in() {
    let (town, issuer) = town().await;
    let client = Client::builder(&town.platform.public_urls[0]).expect("a URL").build();
    for (path, honest) in [("/auth/login", 303), ("/auth/callback?code=x&state=y", 403)] {
        let began = std::time::Instant::now();
        let mut passed = 0;
        for n in 0..60 {
            let answer = asked(&client, path, n, None).await;
            match answer.status.as_u16() {
                status if status == honest => passed += 1,
                _ => {
                    refused(&answer, Code::RateLimited);
                }
            }
        }
        let most = 10 + began.elapsed().as_secs() / 6 + 1;
        assert!((10..=most).contains(&passed), "{path}: {passed} of at most {most}");
    }
    assert!(issuer.key_reads() <= 1, "strangers cost the provider nothing");
    // Those who are in are not kept waiting by those who want in.
    assert_eq!(
        Browser::at(&town.platform.public_urls[0])
            .get("/v1/auth")
            .await
            .status
            .as_u16(),
        200
    );
    town.end().await;
}

/// Behind one proxy of ours: whoever forges more addresses in front of its own is still one caller, and no other pays.
#[tokio::test(flavor = "multi_thread")]
async fn abuse_56_behind_an_edge() {
    let town = Town::tuned(EXE, |config| config.trusted_proxies = Some(1)).await;
    let client = Client::builder(&town.platform.public_urls[0]).expect("a URL").build();
    let from = async |n: usize, seen: &str| {
        let forged = format!("198.51.100.{}, {seen}", n % 250);
        let name = HeaderName::from_static("x-forwarded-for");
        let value = HeaderValue::from_str(&forged).expect("a value");
        client
            .get("/auth/login")
            .header(name, value)
            .send()
            .await
            .expect("an answer")
    };
    let (began, mut passed) = (std::time::Instant::now(), 0);
    for n in 0..60 {
        let answer = from(n, "203.0.113.9").await;
        match answer.error().map(|error| error.code) {
            Some(Code::RateLimited) => {}
            _ => passed += 1,
        }
    }
    let most = 10 + began.elapsed().as_secs() / 6 + 1;
    assert!((10..=most).contains(&passed), "{passed} of at most {most}");
    let other = from(0, "203.0.113.10").await;
    assert_ne!(
        other.error().map(|error| error.code),
        Some(Code::RateLimited),
        "nobody else pays"
    );
    town.end().await;
}
