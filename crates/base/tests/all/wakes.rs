//! Wake-ups between processes.

use std::time::Duration;

use base::testing::TestDb;
use base::wake::{self, Topic};
use base::{Actor, Target};
use sqlx::{Connection, PgConnection};
use tokio_util::sync::CancellationToken;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_commit_here_wakes_another_process() {
    let test = TestDb::new().await;
    let (here, there) = (test.db(), test.db());
    let stop = CancellationToken::new();
    let mut heard = there.wake().subscribe(Topic::Tasks);
    let listening = tokio::spawn(wake::listen(there.clone(), stop.clone()));
    let sending = tokio::spawn(wake::send(here.clone(), stop.clone()));
    // The listener rings everything once when it is connected.
    tokio::time::timeout(base::testing::PATIENCE, heard.look_again(HOUR))
        .await
        .expect("connected");

    let mut change = here
        .change(&Actor::system("test"), "x.y", Target::new("task", "t"))
        .await
        .expect("opens");
    change.wake(Topic::Tasks);
    change.commit().await.expect("commits");
    tokio::time::timeout(base::testing::PATIENCE, heard.look_again(HOUR))
        .await
        .expect("heard from the other one");

    stop.cancel();
    listening.await.expect("stops");
    sending.await.expect("stops");
}

#[tokio::test]
async fn a_listener_that_lost_its_connection_rings_when_it_is_back() {
    let test = TestDb::new().await;
    let db = test.db();
    let stop = CancellationToken::new();
    let mut heard = db.wake().subscribe(Topic::Revoked);
    let listening = tokio::spawn(wake::listen(db.clone(), stop.clone()));
    tokio::time::timeout(base::testing::PATIENCE, heard.look_again(HOUR))
        .await
        .expect("connected");

    let mut intruder = PgConnection::connect_with(&test.superuser()).await.expect("connects");
    let cut: i64 = sqlx::query_scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
         where datname = current_database() and query ilike 'listen%'",
    )
    .fetch_one(&mut intruder)
    .await
    .expect("cuts");
    assert_eq!(cut, 1, "the fault must really have fired");
    tokio::time::timeout(base::testing::PATIENCE, heard.look_again(HOUR))
        .await
        .expect("rung after the reconnection");
    stop.cancel();
    listening.await.expect("stops");
}
