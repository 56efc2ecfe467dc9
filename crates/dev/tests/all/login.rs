//! People sign in: a browser through the real API at a provider of this process, over HTTP and without a browser.

mod browser;
mod command_line;
mod limits;
mod names;
mod pages;
mod real;
mod tokens;

use std::sync::Arc;

use base::Clock;
use base::testing::issuer::{Issuer, Person};
use dev::town::Town;
use http::header::{COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use http::{HeaderName, HeaderValue, Method};
use wire::http::{Client, Held, RequestBuilder, Response};

use crate::EXE;

pub(crate) const AUDIENCE: &str = "https://gpu.example/api";

/// A town that believes a provider with three people.
pub(crate) async fn town() -> (Town, Arc<Issuer>) {
    town_with(|_| {}).await
}

/// With something about it changed.
pub(crate) async fn town_with(change: impl Fn(&mut base::Config) + Send + Sync + 'static) -> (Town, Arc<Issuer>) {
    let people = vec![
        Person::new("ada", &["gpu-admins"]),
        Person::new("bob", &[]),
        Person::new("eve", &[]),
    ];
    let issuer = Arc::new(Issuer::start(people, Clock::real()).await.expect("a port"));
    let url = issuer.url().to_owned();
    let town = Town::tuned(EXE, move |config| {
        config.wait_hold_s = 2;
        config.oidc_issuer = Some(url.clone());
        config.oidc_client_id = Some("console".to_owned());
        config.oidc_cli_client_id = Some("cli".to_owned());
        config.oidc_audience = Some(AUDIENCE.to_owned());
        config.oidc_role_claim = Some("groups".to_owned());
        config.oidc_role_map = vec!["gpu-admins=admin".to_owned()];
        change(config);
    });
    (town.await, issuer)
}

/// As much of a browser as it takes: cookies of one server, and no opinion.
pub(crate) struct Browser {
    client: Client,
    origin: String,
    pub(crate) cookies: Vec<(String, String)>,
}

impl Browser {
    pub(crate) fn at(url: &str) -> Self {
        Self {
            client: Client::builder(url).expect("a URL").build(),
            origin: url.to_owned(),
            cookies: Vec::new(),
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder<'_> {
        let mut request = self.client.request(method, path);
        let host = self.origin.trim_start_matches("http://");
        request = request.header(HOST, HeaderValue::from_str(host).expect("a header"));
        let jar: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !jar.is_empty() {
            request = request.header(COOKIE, HeaderValue::from_str(&jar.join("; ")).expect("a header"));
        }
        request
    }

    pub(crate) async fn send(&mut self, method: Method, path: &str, headers: &[(HeaderName, &str)]) -> Response {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(name.clone(), HeaderValue::from_str(value).expect("a header"));
        }
        let answer = request.send().await.expect("an answer");
        for set in answer.headers.get_all(SET_COOKIE) {
            let text = set.to_str().expect("text");
            assert!(text.contains("; Path=/; HttpOnly; SameSite=Lax"), "{text}");
            let (name, value) = text
                .split(';')
                .next()
                .and_then(|pair| pair.split_once('='))
                .expect("a pair");
            self.cookies.retain(|(other, _)| other != name);
            if !text.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }

    pub(crate) async fn get(&mut self, path: &str) -> Response {
        self.send(Method::GET, path, &[]).await
    }

    /// A stream, for as long as it is held.
    pub(crate) async fn listens(&self, path: &str) -> Held {
        let begun = self.request(Method::GET, path).hold().await;
        begun.expect("an answer").expect("open")
    }

    /// From a page of the server itself.
    pub(crate) async fn post(&mut self, path: &str) -> Response {
        let origin = self.origin.clone();
        self.send(Method::POST, path, &[(ORIGIN, &origin)]).await
    }

    /// As far as the provider's answer; returns the path to come back to.
    pub(crate) async fn approved(&mut self, person: &str) -> String {
        let away = self.get("/auth/login?next=/nodes").await;
        assert_eq!(away.status.as_u16(), 303, "{away:?}");
        choose(&location(&away), person)
            .await
            .strip_prefix(&self.origin)
            .expect("back to where it began")
            .to_owned()
    }

    pub(crate) async fn sign_in(&mut self, person: &str) {
        let back = self.approved(person).await;
        let home = self.get(&back).await;
        assert_eq!(
            (home.status.as_u16(), location(&home).as_str()),
            (303, "/nodes"),
            "{home:?}"
        );
    }
}

pub(crate) fn location(answer: &Response) -> String {
    let value = answer.headers.get(LOCATION).expect("a place to go");
    value.to_str().expect("text").to_owned()
}

/// A person says who they are at the provider's page; where it sends them.
pub(crate) async fn choose(page: &str, person: &str) -> String {
    let (server, query) = page.split_once("/authorize?").expect("the provider's page");
    let client = Client::builder(server).expect("a URL").build();
    let path = format!("/authorize/as?user={person}&{query}");
    let answer = client.get(&path).send_foreign().await.expect("an answer");
    location(&answer)
}
