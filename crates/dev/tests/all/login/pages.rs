//! A browser without scripts that says yes to everything: follows redirects, keeps cookies, fills in forms.

use http::header::{COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderValue, Method};
use wire::http::{Client, Response};

pub(super) struct Walker {
    person: String,
    cookies: Vec<(String, String)>,
}

/// What stands between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(from)?;
    rest.split_once(to).map(|(found, _)| found)
}

impl Walker {
    pub(super) fn new(person: &str) -> Self {
        Self {
            person: person.to_owned(),
            cookies: Vec::new(),
        }
    }

    /// From page to page, until one leads to an address that begins so, which is returned; or until there is nothing
    /// more to fill in, and then the last page is.
    pub(super) async fn walk(&mut self, from: &str, until: &str) -> String {
        let mut url = from.to_owned();
        let mut answer = self.send(Method::GET, &url, &[]).await;
        for _ in 0..20 {
            if let Some(next) = answer.headers.get(LOCATION) {
                let next = absolute(&url, next.to_str().expect("text"));
                if next.starts_with(until) {
                    return next;
                }
                url = next;
                answer = self.send(Method::GET, &url, &[]).await;
                continue;
            }
            let page = String::from_utf8_lossy(&answer.body).into_owned();
            let Some(action) = between(&page, "<form", ">").and_then(|form| between(form, "action=\"", "\"")) else {
                return page;
            };
            url = absolute(&url, action);
            let fields = self.filled(&page);
            let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            answer = self.send(Method::POST, &url, &fields).await;
        }
        panic!("{from} leads nowhere");
    }

    /// What the page says, and the person's name where it says nothing.
    fn filled(&self, page: &str) -> Vec<(String, String)> {
        let inputs = page.split("<input").skip(1).filter_map(|rest| rest.split('>').next());
        inputs
            .filter_map(|input| {
                let name = between(input, "name=\"", "\"")?;
                let value = between(input, "value=\"", "\"").unwrap_or(&self.person);
                Some((name.to_owned(), value.to_owned()))
            })
            .collect()
    }

    async fn send(&mut self, method: Method, url: &str, form: &[(&str, &str)]) -> Response {
        let (server, path) = url.split_at(url[8..].find('/').map_or(url.len(), |at| at + 8));
        let client = Client::builder(server).expect("a URL").build();
        let mut request = client.request(method, path);
        if !form.is_empty() {
            request = request.form(form);
        }
        let jar: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !jar.is_empty() {
            request = request.header(COOKIE, HeaderValue::from_str(&jar.join("; ")).expect("a header"));
        }
        let answer = request.send_foreign().await.expect("an answer");
        for set in answer.headers.get_all(SET_COOKIE) {
            let text = set.to_str().expect("text");
            let (name, value) = text
                .split(';')
                .next()
                .and_then(|pair| pair.split_once('='))
                .expect("a pair");
            self.cookies.retain(|(other, _)| other != name);
            if !value.is_empty() {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }
}

fn absolute(from: &str, to: &str) -> String {
    match to.starts_with('/') {
        true => {
            let server = from.split_at(from[8..].find('/').map_or(from.len(), |at| at + 8)).0;
            format!("{server}{to}")
        }
        false => to.to_owned(),
    }
}
