//! Every answer to people says how much they may still ask, refusals as well; each hears of their own bucket only.

use base::Actor;
use base::auth::{Scope, token_create, user_create};
use base::testing::eventually;
use dev::api::Api;
use dev::town::Town;
use http::Method;
use model::signal::Code;
use wire::http::{Client, Response};

use crate::EXE;
use crate::abuse::refused;

/// A minute's worth, of which one comes back each second.
const LIMIT: u64 = 60;

/// Limit, remaining, reset.
fn told(answer: &Response) -> [u64; 3] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].map(|name| {
        let value = answer
            .headers
            .get(name)
            .unwrap_or_else(|| panic!("{}: no {name}", answer.status));
        value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .expect("a number")
    })
}

async fn asked(api: &Api, method: Method, path: &str) -> Response {
    api.call(method, path, None::<&()>).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_says_what_is_left() {
    let town = Town::tuned(EXE, |config| {
        config.rate_reads_per_min = LIMIT;
        config.rate_writes_per_min = LIMIT;
    })
    .await;
    let (db, actor) = (&town.platform.apps[0].db, Actor::system("standing"));
    let mut people = Vec::new();
    for name in ["bea", "cai"] {
        let user = user_create(db, &actor, name, &[Scope::Support]).await.expect("a user");
        let token = token_create(db, &actor, user, name, &[Scope::Support], 3600).await;
        let token = token.expect("a token").secret.reveal();
        people.push(Api::new(&town.platform.public_urls[0], &token).expect("a URL"));
    }
    let [bea, cai] = people.as_slice() else {
        unreachable!("two of them")
    };

    // A success, a refusal of the gate's and one of a handler's: each costs one.
    let began = std::time::Instant::now();
    let missing = "/v1/nodes/node_00000000000000000000000000";
    let mut least = LIMIT;
    for (method, path, status) in [
        (Method::GET, "/v1/nodes", 200),
        (Method::GET, "/v1/audit", 403),
        (Method::GET, missing, 404),
    ] {
        let answer = asked(bea, method, path).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        let [limit, remaining, reset] = told(&answer);
        least -= 1;
        let most = least + began.elapsed().as_secs() + 1;
        assert_eq!(limit, LIMIT);
        assert!(
            (least..most.min(LIMIT)).contains(&remaining),
            "{remaining} of {least}..{most}"
        );
        assert_eq!(reset, LIMIT - remaining, "one comes back each second");
    }

    let mut last = None;
    for _ in 0..20 * LIMIT {
        let answer = asked(bea, Method::GET, "/v1/nodes").await;
        if answer.status.as_u16() == 429 {
            last = Some(answer);
            break;
        }
    }
    let answer = last.expect("far more than the bucket holds");
    assert_eq!(told(&answer), [LIMIT, 0, LIMIT]);
    assert_eq!(answer.headers["retry-after"], "1");
    refused(&answer, Code::RateLimited);
    // What changes something is counted apart: whoever looked too often can still stop what they began.
    let answer = asked(bea, Method::POST, "/v1/trust/rotate").await;
    refused(&answer, Code::Forbidden);
    assert_eq!(told(&answer), [LIMIT, LIMIT - 1, 1]);

    assert_eq!(
        told(&asked(cai, Method::GET, "/v1/nodes").await),
        [LIMIT, LIMIT - 1, 1],
        "another's bucket is full"
    );
    eventually("the bucket fills", async || {
        let answer = asked(bea, Method::GET, "/v1/nodes").await;
        match (answer.status.is_success(), told(&answer)) {
            (true, [_, _, reset]) if reset <= LIMIT => Ok(()),
            other => Err(other),
        }
    })
    .await;
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_hear_of_their_address_and_of_the_door() {
    let town = Town::tuned(EXE, |config| config.rate_address_per_s = 7).await;
    let url = &town.platform.public_urls[0];
    let client = Client::builder(url).expect("a URL").build();
    let version = client.get("/v1/version").send().await.expect("an answer");
    let [limit, remaining, _] = told(&version);
    assert!(limit == 70 && remaining < 70, "{remaining} of {limit}");
    let guess = Api::new(url, "gpuaas_guess").expect("a URL");
    let guess = asked(&guess, Method::GET, "/v1/nodes").await;
    assert_eq!((guess.status.as_u16(), told(&guess)[0]), (401, 70));
    for (method, path, status) in [(Method::GET, "/v1/nothing", 404), (Method::DELETE, "/v1/version", 405)] {
        let answer = client.request(method, path).send().await.expect("an answer");
        assert_eq!((answer.status.as_u16(), told(&answer)[0]), (status, 70), "{path}");
    }
    // The narrower of the two buckets that count a sign-in is told.
    let door = client.get("/auth/login").send().await.expect("an answer");
    let [limit, remaining, reset] = told(&door);
    assert_eq!((limit, remaining, reset), (10, 9, 6));
    town.end().await;
}
