//! Events that somebody wants lost, doubled or choked on. The process that gives them their order is killed while it works;
//! the reader is cut off with it and comes back to another life of it.

use base::testing::{PATIENCE, eventually};
use base::{Actor, Db, outbox};
use dev::api::Api;
use dev::replica::{Replica, listens};
use dev::tail::Tail;
use model::api::EventView;
use model::id::ProjectId;
use serde_json::json;

use crate::glass::Glass;

const KILLS: i64 = 3;
const EACH: i64 = 8;

async fn tells(db: &Db, project: ProjectId, n: i64) {
    let mut change = db
        .change(&Actor::system("test"), "project.create", project)
        .await
        .expect("opens");
    change.event("project.created", project, json!({ "name": n.to_string() }));
    change.commit().await.expect("commits");
}

/// Written behind the application's back: of no known kind, of another shape than promised, and with a lie about whom it
/// concerns. Returns what the database said to the same event a second time.
async fn poison(db: &Db, project: ProjectId) -> sqlx::Error {
    let row = "insert into outbox (id, kind, subject_kind, subject_id, data, correlation_id, created_at)
        select id, kind, 'node', 'x', data, gen_random_uuid(), now() from (values
            ('00000000-0000-7000-8000-000000000001'::uuid, 'evil.kind', jsonb_build_object('project_id', $1::text)),
            ('00000000-0000-7000-8000-000000000002'::uuid, E'project.created\\ndata: forged', '[[[[]]]]'::jsonb)
        ) as bad (id, kind, data)";
    let insert = || sqlx::query(row).bind(project.to_string()).execute(db.bookkeeping());
    insert().await.expect("nobody holds them back");
    insert().await.expect_err("an event is told once")
}

/// The stream goes on where it was, at whatever life of the replica answers.
async fn come_back(replica: &Replica, token: &str, place: Option<&str>) -> Tail {
    eventually("the replica answers", async || {
        let at = listens(replica.dir()).ok_or("not yet")?;
        let api = Api::new(&format!("http://{}", at.public), token).map_err(|_| "no URL")?;
        let tail = api.tail("/v1/events?types=project.*", place).await;
        tail.map_err(|_| "nobody there")?.map_err(|_| "refused")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_59_replayed_lost_or_poisonous() {
    let glass = Glass::start("json").await;
    let (db, token, project) = (glass.db.db(), glass.api.token().to_owned(), ProjectId::new());
    let mut tail = come_back(&glass.replica, &token, None).await;
    let mut place = tail.last_id().map(str::to_owned);
    let mut heard: Vec<EventView> = Vec::new();
    let mut told = 0;
    for round in 0..KILLS {
        let twice = if round == 0 {
            Some(poison(&db, project).await)
        } else {
            None
        };
        assert!(twice.is_none_or(|error| error.as_database_error().is_some_and(|e| e.is_unique_violation())));
        for _ in 0..EACH {
            tells(&db, project, told).await;
            told += 1;
        }
        assert!(glass.replica.process.kill(), "somebody was there to be killed");
        for _ in 0..EACH {
            tells(&db, project, told).await;
            told += 1;
        }
        while heard.len() < usize::try_from(told).expect("few") {
            match tokio::time::timeout(PATIENCE, tail.message()).await.expect("in time") {
                Ok(Some(message)) if message.event == "end" => {}
                Ok(Some(message)) => {
                    assert!(message.event.starts_with("project."), "{message:?}");
                    heard.push(serde_json::from_str(&message.data).expect("an event"));
                    place = tail.last_id().map(str::to_owned);
                }
                Ok(None) | Err(_) => tail = come_back(&glass.replica, &token, place.as_deref()).await,
            }
        }
    }
    let names: Vec<_> = heard.iter().map(|event| event.data["name"].clone()).collect();
    let all: Vec<_> = (0..told).map(|n| json!(n.to_string())).collect();
    assert_eq!(names, all, "each once, in the order of their commits");
    let mut seqs = Vec::new();
    for event in outbox::events_after(&db, 0, 1000).await.expect("reads") {
        seqs.push(event.seq);
    }
    assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>(), "no gap");
    assert!(glass.replica.process.starts() > 1, "it was really killed");
    glass.end().await;
}
