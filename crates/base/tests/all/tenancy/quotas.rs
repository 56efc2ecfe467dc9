//! Quotas are not passed, whoever counts and however many try at once; and a project keeps an owner.

use super::*;

#[tokio::test]
async fn a_quota_is_not_passed_by_anybody() {
    let rows = Rows::new().await;
    rows.does(&format!(
        "update quota set slots = 3, allocations = 2 where project_id = {PROJECT};"
    ))
    .await;
    rows.does(&Rows::allocation(1, 2)).await;
    rows.refuses(&Rows::allocation(2, 2), "quota_slots").await;
    rows.does(&Rows::allocation(2, 1)).await;
    rows.refuses(&Rows::allocation(3, 0), "quota_allocations").await;
    rows.does(&Rows::to(1, AllocationState::Unwinding)).await;
    rows.refuses(&Rows::allocation(3, 0), "quota_allocations").await;
    rows.does(&Rows::to(1, AllocationState::Failed)).await;
    rows.does(&Rows::allocation(3, 2)).await;
    assert_eq!(rows.number("select slots_used::bigint from quota").await, 3);
}

#[tokio::test]
async fn of_many_at_once_as_many_as_fit_get_in() {
    let rows = Rows::new().await;
    rows.does(&format!("update quota set slots = 5 where project_id = {PROJECT};"))
        .await;
    let mut tries = tokio::task::JoinSet::new();
    for n in 1..=20 {
        let pool = rows.pool.clone();
        tries.spawn(async move {
            sqlx::raw_sql(AssertSqlSafe(Rows::allocation(n, 1)))
                .execute(&pool)
                .await
                .is_ok()
        });
    }
    let got_in = tries.join_all().await.into_iter().filter(|ok| *ok).count();
    assert_eq!(got_in, 5);
    assert_eq!(rows.number("select slots_used::bigint from quota").await, 5);
    assert_eq!(rows.number("select count(*) from allocation").await, 5);
}

#[tokio::test]
async fn the_last_owner_stays() {
    let rows = Rows::new().await;
    let other = "'00000000-0000-0000-0000-0000000000bb'";
    rows.refuses("delete from project_member;", "project_owner").await;
    rows.refuses("update project_member set role = 'admin';", "project_owner")
        .await;
    rows.does(&format!(
        "insert into app_user (id, name, created_at) values ({other}, 'bea', {NOW});
         insert into project_member (project_id, user_id, role, since) values ({PROJECT}, {other}, 'owner', {NOW});
         delete from project_member where user_id = {USER};"
    ))
    .await;
    rows.refuses("delete from project_member;", "project_owner").await;
}

#[tokio::test]
async fn of_two_owners_who_leave_at_once_one_stays() {
    let rows = Rows::new().await;
    let other = "'00000000-0000-0000-0000-0000000000bb'";
    rows.does(&format!(
        "insert into app_user (id, name, created_at) values ({other}, 'bea', {NOW});
         insert into project_member (project_id, user_id, role, since) values ({PROJECT}, {other}, 'owner', {NOW});"
    ))
    .await;
    let leaves = |user: &str| AssertSqlSafe(format!("delete from project_member where user_id = {user}"));
    let mut first = rows.pool.begin().await.expect("begun");
    sqlx::raw_sql(leaves(USER))
        .execute(&mut *first)
        .await
        .expect("the other stays");
    let (pool, after) = (rows.pool.clone(), leaves(other));
    let second = tokio::spawn(async move { sqlx::raw_sql(after).execute(&pool).await });
    base::testing::eventually("the second waits for the first, or is through", async || {
        let waiting = rows.number("select count(*) from pg_locks where not granted").await;
        (waiting > 0 || second.is_finished()).then_some(()).ok_or(waiting)
    })
    .await;
    first.commit().await.expect("committed");
    assert!(second.await.expect("no panic").is_err(), "it was the last one");
    assert_eq!(rows.number("select count(*) from project_member").await, 1);
}

#[tokio::test]
async fn a_sku_has_a_price_and_keeps_the_old_ones() {
    let rows = Rows::new().await;
    rows.refuses(
        &format!("update sku set version = 2 where id = {SKU};"),
        "sku_has_price",
    )
    .await;
    rows.does(&format!(
        "insert into sku_version values ({SKU}, 2, 3000000, 'USD', {NOW}, 'ada'); update sku set version = 2 where id = {SKU};"
    ))
    .await;
    assert_eq!(
        rows.number("select price_micro_per_hour from sku_version where version = 1")
            .await,
        2_000_000
    );
}
