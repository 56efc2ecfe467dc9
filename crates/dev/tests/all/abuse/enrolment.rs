//! Enrolment tokens in the wrong hands: raced, repeated, expired, carried to another board, guessed.

use dev::town::Town;
use model::api::{Enrolment, NodeCreate};
use model::enrol::EnrolmentToken;
use model::node_api::{EnrolAnswer, EnrolRequest, Hardware};
use model::signal::Code;
use tokio::task::JoinSet;
use wire::http::Response;

use super::{audited, refused, snapshot, sql};
use crate::EXE;
use crate::puppet::{Keys, enrolment_door, get, node_door, post};

const ENROLL: &str = "/internal/v1/enroll";
const TABLES: [&str; 3] = ["node", "enrolment", "certificate"];
const RACERS: usize = 100;

fn token_of(enrolment: &Enrolment) -> EnrolmentToken {
    enrolment.token.parse().expect("a token")
}

async fn knock(token: &EnrolmentToken, request: &EnrolRequest) -> Response {
    post(&enrolment_door(token), ENROLL, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_39_token_raced() {
    let town = Town::start(EXE).await;
    let winner = one_of_a_hundred(&town).await;
    only_the_winner_may_repeat(&town, winner).await;
    expired(&town).await;
    another_board(&town).await;
    guessed(&town).await;
    town.end().await;
}

struct Winner {
    token: EnrolmentToken,
    keys: Keys,
    answer: EnrolAnswer,
}

async fn one_of_a_hundred(town: &Town) -> Winner {
    let enrolment = town.add_node("raced").await;
    let mut race = JoinSet::new();
    for _ in 0..RACERS {
        let token = token_of(&enrolment);
        race.spawn(async move {
            let keys = Keys::new();
            let answer = knock(&token, &keys.enrol_request(&token)).await;
            (keys, answer)
        });
    }
    let (mut winners, mut losers) = (Vec::new(), Vec::new());
    for (keys, answer) in race.join_all().await {
        if answer.status.is_success() {
            winners.push((keys, answer));
        } else {
            losers.push(refused(&answer, Code::EnrollTokenUsed));
        }
    }
    assert_eq!((winners.len(), losers.len()), (1, RACERS - 1));
    for loser in &losers {
        let row = audited(town, loser).await;
        assert_eq!((row.action.as_str(), row.target_kind.as_str()), ("node.enrol", "node"));
        assert_eq!(row.target_id, enrolment.node.id.to_string());
    }
    let (keys, answer) = winners.remove(0);
    let answer: EnrolAnswer = answer.json().expect("an identity");
    assert_eq!(town.show_node(answer.node_id).await.epoch, 1, "let in once");
    let certificates = snapshot(town, &["certificate"]).await;
    assert_eq!(certificates.len(), 2, "one device, one working: {certificates:?}");
    let inside = node_door(
        &answer.endpoints.node_api_url,
        &answer.working.chain,
        &keys.working,
        &answer.working.ca_bundle,
    );
    let ping = get(&inside, &format!("/internal/v1/nodes/{}/ping", answer.node_id)).await;
    assert!(ping.status.is_success(), "the winner's identity works: {ping:?}");
    let token = token_of(&enrolment);
    Winner { token, keys, answer }
}

async fn only_the_winner_may_repeat(town: &Town, winner: Winner) {
    let before = snapshot(town, &TABLES).await;
    let Winner { token, keys, answer } = winner;
    // Its answer was lost, and its working key with it: it gets the old answer, not a second certificate.
    let again = Keys {
        working: Keys::new().working,
        ..keys
    };
    let repeated = knock(&token, &again.enrol_request(&token)).await;
    let repeated: EnrolAnswer = repeated.json().expect("the same answer");
    let text = |answer: &EnrolAnswer| serde_json::to_string(answer).expect("JSON");
    assert_eq!(text(&repeated), text(&answer));
    let late = knock(&token, &Keys::new().enrol_request(&token)).await;
    audited(town, &refused(&late, Code::EnrollTokenUsed)).await;
    assert_eq!(snapshot(town, &TABLES).await, before);
}

async fn expired(town: &Town) {
    let enrolment = town.add_node("late").await;
    sql(
        town,
        "update enrolment set expires_at = now() - interval '1 second' where used_by is null",
    )
    .await;
    let before = snapshot(town, &TABLES).await;
    let token = token_of(&enrolment);
    let keys = Keys::new();
    let late = knock(&token, &keys.enrol_request(&token)).await;
    audited(town, &refused(&late, Code::EnrollTokenExpired)).await;
    assert_eq!(snapshot(town, &TABLES).await, before);
    sql(
        town,
        "update enrolment set expires_at = now() + interval '1 minute' where used_by is null",
    )
    .await;
    let in_time = knock(&token, &keys.enrol_request(&token)).await;
    assert!(in_time.status.is_success(), "only the time was wrong: {in_time:?}");
}

async fn another_board(town: &Town) {
    let body = NodeCreate {
        name: "bound".to_owned(),
        mode: None,
        board_serial: Some("SN-1".to_owned()),
    };
    let enrolment: Enrolment = town.api().post("/v1/nodes", &body).await.expect("a node is added");
    let before = snapshot(town, &TABLES).await;
    let token = token_of(&enrolment);
    let keys = Keys::new();
    let with = |serial: Option<&str>| EnrolRequest {
        hardware: Hardware {
            board_serial: serial.map(str::to_owned),
            ..Hardware::default()
        },
        ..keys.enrol_request(&token)
    };
    for serial in [None, Some(""), Some("SN-2"), Some("sn-1"), Some("SN-1 ")] {
        let elsewhere = knock(&token, &with(serial)).await;
        audited(town, &refused(&elsewhere, Code::HardwareMismatch)).await;
    }
    assert_eq!(snapshot(town, &TABLES).await, before);
    let there = knock(&token, &with(Some("SN-1"))).await;
    assert!(there.status.is_success(), "only the board was wrong: {there:?}");
}

async fn guessed(town: &Town) {
    let before = snapshot(town, &TABLES).await;
    let token = token_of(&town.add_node("guessed").await);
    let added = snapshot(town, &TABLES).await;
    assert_ne!(before, added);
    for secret in ["", "guess", &token.secret[1..], &token.secret.to_lowercase()] {
        let guess = EnrolRequest {
            secret: secret.to_owned(),
            ..Keys::new().enrol_request(&token)
        };
        audited(town, &refused(&knock(&token, &guess).await, Code::EnrollTokenInvalid)).await;
    }
    assert_eq!(snapshot(town, &TABLES).await, added);
}
