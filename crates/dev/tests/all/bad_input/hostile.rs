//! Texts that have broken other people's programs, one at a time in every field of every body and in every parameter of
//! every query that the document lists. Each answer is a success or a refusal that says why under a code; none is a
//! failure of ours, and none sends a control character back.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use http::Method;
use model::state::AllocationState;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::http::Response;

use super::bodies::TAKERS;
use super::raw;
use crate::abuse::refused;
use crate::allocations::Market;

const PLACE: &str = "@here@";
/// As much as a whole line of a request may be, and more than any field takes.
const LONG: usize = 8_000;

pub(super) fn corpus() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        " ",
        "'",
        "\"",
        "\\",
        "' or '1'='1",
        "'; drop table node; --",
        "$1",
        "a\0b",
        "%s%n%x",
        "%00",
        "{{7*7}}",
        "{0}{}",
        "${jndi:ldap://x/a}",
        "$(reboot)`reboot`",
        "{\"a\":[1]}",
        "null",
        "../../../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "<script>alert(1)</script>",
        "two\r\nlines: x",
        "\u{1b}[2J\u{7}",
        "\u{7f}",
        "\u{85}\u{9b}31m",
        "\u{2028}\u{2029}",
        "\u{202e}moc.live",
        "\u{feff}\u{200b}",
        "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{10ffff}",
        "-1",
        "1e999",
        "NaN",
        "9223372036854775808",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("9".repeat(400));
    texts.push("x".repeat(LONG));
    texts.push("e\u{301}".repeat(500));
    texts
}

/// As JSON, and what only JSON can say: halves of characters, and bytes that are none.
fn literals() -> Vec<Vec<u8>> {
    let mut literals: Vec<Vec<u8>> = corpus()
        .iter()
        .map(|text| json!(text).to_string().into_bytes())
        .collect();
    literals.push(json!("x".repeat(200_000)).to_string().into_bytes());
    for bytes in [
        &br#""\ud800""#[..],
        br#""\udfff\ud800""#,
        br#""\u0000""#,
        br#""\u001b[2J\u0085""#,
        b"\"\x1b[2J\"",
        b"\"\xff\xfe\"",
        b"\"\xed\xa0\x80\"",
        b"99999999999999999999999999999999",
        b"1e999",
        b"-0",
        b"null",
        b"{\"a\":\"b\"}",
    ] {
        literals.push(bytes.to_vec());
    }
    literals
}

pub(super) fn encoded(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("%{}", HEXLOWER.encode(&[*byte])))
        .collect()
}

/// What is to be said of the answers that were not good ones.
#[derive(Default)]
struct Seen {
    taken: usize,
    refused: BTreeMap<String, usize>,
    bad: Vec<String>,
}

impl Seen {
    fn judge(&mut self, what: &str, answer: &Response) {
        let text = std::str::from_utf8(&answer.body).ok();
        let stream = what.contains("/events?") && answer.status.is_success();
        // A refusal is printed as it comes; what was taken is its owner's text, and shown by whoever shows it.
        let turns = |one: char| !answer.status.is_success() && ('\u{202a}'..='\u{202e}').contains(&one);
        let raw = |one: char| (one.is_control() && !(stream && one == '\n')) || turns(one);
        if answer.status.is_server_error() || text.is_none_or(|text| text.chars().any(raw)) {
            let body = String::from_utf8_lossy(&answer.body);
            let shown: String = format!("{} {body:?}", answer.status).chars().take(400).collect();
            self.bad.push(format!("{what}: {shown}"));
        } else if answer.status.is_success() {
            self.taken += 1;
        } else {
            let error = answer
                .error()
                .unwrap_or_else(|| panic!("{what}: no envelope: {answer:?}"));
            refused(answer, error.code);
            *self.refused.entry(error.code.to_string()).or_default() += 1;
        }
    }
}

/// A town in which every noun has something: paths lead to what is there.
struct Scene {
    market: Market,
    ids: BTreeMap<&'static str, String>,
}

impl Scene {
    async fn set() -> Self {
        let market = Market::open().await;
        let made = market.rents("one").await;
        let made = market.until(made.id, AllocationState::Active).await;
        let slots = market.slots().await;
        let ids = BTreeMap::from([
            ("nodes", market.node.to_string()),
            ("slots", slots.last().expect("eight").id.to_string()),
            ("projects", made.project_id.to_string()),
            ("users", made.creator_id.to_string()),
            ("skus", made.sku_id.to_string()),
            ("allocations", made.id.to_string()),
            ("tasks", made.operation_id.expect("it was made").to_string()),
        ]);
        Self { market, ids }
    }

    fn path(&self, route: &str) -> String {
        let noun = route.split('/').nth(2).unwrap_or_default();
        let id = self.ids.get(noun).map_or("", String::as_str);
        let path = route.replace("{id}", id).replace("{serial}", "4f");
        path.replace("{keyid}", "00112233445566778899aabbccddeeff")
    }

    async fn sends(&self, method: &str, route: &str, body: &[u8]) -> Response {
        let api = self.market.api();
        let key = Uuid::new_v4();
        let more = match method {
            "PATCH" => "if-match: *\r\n".to_owned(),
            _ => format!("idempotency-key: {key}\r\n"),
        };
        let headers = format!("content-type: application/json\r\n{more}");
        let what = format!("{method} {}", self.path(route));
        raw::send(api.url(), &what, api.token(), &headers, body).await
    }
}

/// The schema itself, where it is named elsewhere or may be null.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str() {
        return resolved(document, document.pointer(&name[1..]).expect("it is there"));
    }
    let choices = schema["anyOf"].as_array().and_then(|choices| choices.first());
    choices.map_or(schema, |first| resolved(document, first))
}

/// Every place in a body that holds no further places.
fn places(document: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
    let schema = resolved(document, schema);
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            places(document, field, &format!("{at}/{name}"), found);
        }
    } else if schema["items"].is_object() {
        places(document, &schema["items"], &format!("{at}/0"), found);
    } else {
        found.push(at.to_owned());
    }
}

/// The body with a mark at this place, and all that leads there.
fn marked(honest: &Value, place: &str) -> Value {
    let mut body = honest.clone();
    let mut at = &mut body;
    for name in place.split('/').skip(1) {
        at = match name {
            "0" => {
                if at.as_array().is_none_or(Vec::is_empty) {
                    *at = json!([null]);
                }
                &mut at[0]
            }
            _ => {
                if !at.is_object() {
                    *at = json!({});
                }
                &mut at[name]
            }
        };
    }
    *at = json!(PLACE);
    body
}

async fn bodies(scene: &Scene, document: &Value, seen: &mut Seen) -> usize {
    let literals = literals();
    let mut fields = 0;
    for (route, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            let honest = TAKERS
                .iter()
                .find(|(taker, _)| taker == route)
                .map_or("{}", |(_, body)| body);
            let honest: Value = serde_json::from_str(honest).expect("JSON");
            let mut found = Vec::new();
            places(document, schema, "", &mut found);
            assert!(!found.is_empty(), "{route} takes nothing");
            for place in &found {
                let body = marked(&honest, place).to_string();
                let mark = format!("\"{PLACE}\"");
                let (before, after) = body.split_once(&mark).expect("the mark");
                let method = method.to_ascii_uppercase();
                for literal in &literals {
                    let body = [before.as_bytes(), literal, after.as_bytes()].concat();
                    let answer = scene.sends(&method, route, &body).await;
                    let shown = String::from_utf8_lossy(&literal[..literal.len().min(40)]).into_owned();
                    seen.judge(&format!("{method} {route} {place} {shown:?}"), &answer);
                }
            }
            fields += found.len();
        }
    }
    fields
}

async fn queries(scene: &Scene, document: &Value, seen: &mut Seen) -> usize {
    let mut texts: Vec<Vec<u8>> = corpus().into_iter().map(String::into_bytes).collect();
    texts.extend([b"\xff\xfe".to_vec(), b"\xed\xa0\x80".to_vec(), b"\xc0\xaf".to_vec()]);
    let mut parameters = 0;
    for (route, methods) in document["paths"].as_object().expect("paths") {
        let asked = methods["get"]["parameters"].as_array().into_iter().flatten();
        for name in asked.filter(|one| one["in"] == "query").map(|one| &one["name"]) {
            let name = name.as_str().expect("a name");
            for text in &texts {
                let path = format!("{}?{name}={}", scene.path(route), encoded(text));
                let answer = scene.market.api().call(Method::GET, &path, None::<&()>).await;
                let shown = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
                seen.judge(&format!("GET {route}?{name}={shown:?}"), &answer.expect("an answer"));
            }
            parameters += 1;
        }
    }
    parameters
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_are_taken_as_texts_or_refused() {
    let scene = Scene::set().await;
    let document = control::openapi::public();
    let mut seen = Seen::default();
    let parameters = queries(&scene, &document, &mut seen).await;
    let fields = bodies(&scene, &document, &mut seen).await;
    // What was taken is read again with everything else.
    let lists = queries(&scene, &document, &mut seen).await;
    assert_eq!(lists, parameters);
    assert!(
        seen.bad.is_empty(),
        "{} bad answers:\n{}",
        seen.bad.len(),
        seen.bad.join("\n")
    );
    assert!(
        parameters >= 50 && fields >= 60,
        "{parameters} parameters, {fields} fields"
    );
    assert!(
        seen.taken > 100 && seen.refused.len() > 8,
        "{} taken, {:?}",
        seen.taken,
        seen.refused
    );
    scene.market.close().await;
}
