//! A delete and a create at once.

use sqlx::{Connection, PgConnection};

use super::*;

/// Both wait for the project's quota, which the test has; whoever came first gets it first.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_delete_and_a_create_at_once_the_first_wins_and_the_second_finds_what_it_left() {
    let market = Market::open().await.unplug().await;
    let (_, owner) = market.town.person("owner", Scope::Project).await;
    let mut gate = PgConnection::connect(&market.town.db.owner_url())
        .await
        .expect("the owner");
    for (round, delete_first) in [true, false].into_iter().cycle().take(6).enumerate() {
        let project = founds(&market, &format!("round-{round}"), "owner").await;
        let mut held = gate.begin().await.expect("begun");
        sqlx::query("select 1 from quota where project_id = $1 for update")
            .bind(project.id.uuid())
            .execute(&mut *held)
            .await
            .expect("locked");
        let waiting = async |most: i64| {
            eventually(&format!("{most} wait for the quota"), async || {
                let waits = "select count(*) from pg_stat_activity where datname = current_database()
                                 and wait_event_type = 'Lock' and query like '%quota%for%update%' and $1 <> ''";
                let now = counts(&market, waits, "x").await;
                (now == most).then_some(()).ok_or(now)
            })
            .await;
        };
        let delete = || {
            let (owner, project) = (owner.clone(), project.clone());
            tokio::spawn(async move { ends(&owner, &project).await })
        };
        let create = || {
            let (owner, project) = (owner.clone(), project.clone());
            tokio::spawn(async move { rents(&owner, &project, &format!("round-{round}")).await })
        };
        let (deleted, created);
        if delete_first {
            deleted = delete();
            waiting(1).await;
            created = create();
        } else {
            created = create();
            waiting(1).await;
            deleted = delete();
        }
        waiting(2).await;
        held.commit().await.expect("let go");
        let (deleted, created) = (deleted.await.expect("no panic"), created.await.expect("no panic"));
        let live = "select count(*) from allocation where project_id::text = $1";
        let live = counts(&market, live, &project.id.uuid().to_string()).await;
        if delete_first {
            assert_eq!((deleted.status.as_u16(), live), (204, 0), "{created:?}");
            assert_eq!(created.expect_err("there is no such project"), Some(Code::NotFound));
        } else {
            assert_eq!(created.expect("accepted").project_id, project.id);
            refused(&deleted, Code::StateConflict);
            assert_eq!(live, 1);
        }
    }
    gate.close().await.expect("closed");
    market.close().await;
}
