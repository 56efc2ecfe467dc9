//! What a person types to follow events.

use base::testing::eventually;
use cli::{Captured, Env};
use dev::town::Town;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{Person, project, seats};
use crate::EXE;

/// A run that goes on beside the test.
pub(super) fn types(town: &Town, token: &str, url: &str, words: &str) -> (JoinHandle<u8>, Captured) {
    let home = town.dir().display().to_string();
    let vars = [
        ("GPUAAS_URL", url),
        ("GPUAAS_TOKEN", token),
        ("HOME", &home),
        ("NO_COLOR", "1"),
    ];
    let (env, captured) = Env::captured(vars);
    let words: Vec<String> = format!("gpuaas {words}").split(' ').map(str::to_owned).collect();
    (tokio::spawn(cli::run(words, env)), captured)
}

pub(super) async fn lines(captured: &Captured, wanted: usize) -> Vec<Value> {
    eventually("that many lines", async || {
        let text = captured.stdout();
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() < wanted {
            return Err(text.clone());
        }
        Ok(lines
            .iter()
            .map(|line| serde_json::from_str(line).expect("a document on each line"))
            .collect())
    })
    .await
}

#[tokio::test]
async fn tail_goes_on_after_a_cut_and_ends_with_ctrl_c() {
    let mut town = Town::start(EXE).await;
    let ada = Person::of(&town, "ada-t", &[]).await;
    let hers = project(&town, "hers", &ada).await;
    let url = town.platform.public_urls[1].clone();
    let api = ada.at(&town, 0);
    let (run, captured) = types(
        &town,
        api.token(),
        &url,
        "-o json event tail --project hers --types project.*",
    );
    // It says nothing until something happens, so make things happen until it has heard of one.
    let first = eventually("it hears", async || {
        seats(&api, hers, "ada", "viewer").await;
        seats(&api, hers, "ada", "member").await;
        let text = captured.stdout();
        text.lines().next().map(str::to_owned).ok_or("nothing yet")
    })
    .await;
    let first: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(
        (&first["type"], first["seq"].is_u64()),
        (&Value::from("project.member"), true)
    );
    town.platform.stop_replica(1).await;
    let before = captured.stdout().lines().count();
    for role in ["viewer", "member", "admin"] {
        seats(&api, hers, "ada", role).await;
    }
    town.platform.start_replica(1).await.expect("starts");
    // Whatever was heard before the cut, everything comes, once and in order.
    let all = eventually("the last one is heard", async || {
        let all = lines(&captured, before).await;
        let last = all
            .last()
            .and_then(|event| event["data"]["role"].as_str().map(str::to_owned));
        if last.as_deref() == Some("admin") {
            Ok(all)
        } else {
            Err(last)
        }
    })
    .await;
    let seqs: Vec<_> = all
        .iter()
        .map(|event| event["seq"].as_u64().expect("a number"))
        .collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
    let roles: Vec<_> = all
        .iter()
        .rev()
        .take(3)
        .map(|event| event["data"]["role"].clone())
        .collect();
    assert_eq!(roles, ["admin", "member", "viewer"]);
    captured.interrupt();
    assert_eq!(run.await.expect("ends"), 130, "{}", captured.stderr());
    let (refused, said) = types(&town, api.token(), &url, "event tail --types no.such");
    assert_eq!(refused.await.expect("ends"), 2, "{}", said.stderr());
    assert!(said.stderr().contains("field_invalid"), "{}", said.stderr());
    town.end().await;
}
