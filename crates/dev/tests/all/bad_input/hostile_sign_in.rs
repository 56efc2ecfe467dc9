//! The same texts on the way in, where a provider is believed: in what a browser is sent back with, one at a time beside
//! parameters that are right. Nobody comes in by one, and no answer leads elsewhere or is a failure of ours.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use http::header::LOCATION;
use http::{HeaderName, Method};
use wire::http::Response;

use super::hostile::{corpus, encoded};
use crate::login::{Browser, town_with};

/// A page has lines; nothing else that moves a cursor, and nothing that was asked for as it came.
fn harmless(what: &str, answer: &Response) {
    let text = std::str::from_utf8(&answer.body).expect("text");
    let moves = |one: char| one.is_control() && one != '\n';
    assert!(!answer.status.is_server_error(), "{what}: {answer:?}");
    assert!(
        !text.chars().any(moves) && !text.contains("<script>alert"),
        "{what}: {text:?}"
    );
}

fn leads_to(answer: &Response) -> &str {
    answer.headers.get(LOCATION).map_or("", |to| to.to_str().expect("text"))
}

async fn from(browser: &mut Browser, address: &str, path: &str) -> Response {
    let name = HeaderName::from_static("x-forwarded-for");
    browser.send(Method::GET, path, &[(name, address)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_let_nobody_in() {
    let (town, issuer) = town_with(|config| config.trusted_proxies = Some(1)).await;
    let mut callers = 0_u32;
    // Each from an address of its own: one address begins to sign in ten times a minute.
    let mut caller = || {
        callers += 1;
        Ipv4Addr::from_bits(0x0a00_0000 + callers).to_string()
    };
    let mut texts: Vec<Vec<u8>> = corpus().into_iter().map(String::into_bytes).collect();
    texts.extend([
        b"\xff\xfe".to_vec(),
        b"//evil.example".to_vec(),
        b"/\\evil.example".to_vec(),
    ]);
    let mut seen = BTreeMap::<u16, usize>::new();
    for text in &texts {
        let text = encoded(text);
        let mut browser = Browser::at(town.api().url());
        let answer = from(&mut browser, &caller(), &format!("/auth/login?next={text}")).await;
        harmless(&format!("next={text}"), &answer);
        let to = leads_to(&answer);
        assert!(to.is_empty() || to.starts_with(issuer.url()), "{text}: {to}");
        for name in ["code", "state", "iss", "error"] {
            let mut browser = Browser::at(town.api().url());
            let address = caller();
            let begun = from(&mut browser, &address, "/auth/login").await;
            let (_, state) = leads_to(&begun).split_once("state=").expect("a state");
            let state = state.split('&').next().expect("its end");
            let right = [("code", "one"), ("state", state), ("iss", issuer.url())];
            let mut query: Vec<String> = right
                .iter()
                .filter(|(other, _)| *other != name)
                .map(|(other, value)| format!("{other}={}", encoded(value.as_bytes())))
                .collect();
            query.push(format!("{name}={text}"));
            let answer = from(&mut browser, &address, &format!("/auth/callback?{}", query.join("&"))).await;
            harmless(&format!("{name}={text}"), &answer);
            assert!(!answer.status.is_success(), "{name}={text}: {answer:?}");
            let to = leads_to(&answer);
            assert!(!to.contains("evil") && !to.starts_with("//"), "{name}={text}: {to}");
            *seen.entry(answer.status.as_u16()).or_default() += 1;
            let me = from(&mut browser, &address, "/v1/me").await;
            assert_eq!(me.status.as_u16(), 401, "{name}={text} lets in");
        }
    }
    assert!(
        seen.values().sum::<usize>() == 4 * texts.len() && !seen.contains_key(&429),
        "{seen:?}"
    );
    town.end().await;
}
