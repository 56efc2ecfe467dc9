//! The end of a project, as the database holds it.

use super::*;

#[tokio::test]
async fn a_project_ends_once_and_with_nothing_left_and_frees_its_name() {
    let rows = Rows::new().await;
    let ends = format!("update project set deleted_at = {NOW} where id = {PROJECT};");
    rows.does(&Rows::allocation(1, 1)).await;
    rows.refuses(&ends, "project_ends_empty").await;
    for state in [AllocationState::Unwinding, AllocationState::Failed] {
        rows.does(&Rows::to(1, state)).await;
    }
    let again = format!("insert into project (id, name, created_at) values (gen_random_uuid(), 'demo', {NOW});");
    rows.refuses(&again, "project_by_name").await;
    assert_eq!(rows.number("select count(*) from project_seat").await, 1);
    rows.does(&ends).await;
    assert_eq!(rows.number("select count(*) from project_seat").await, 0);
    rows.refuses("update project set deleted_at = null;", "project_ends_once")
        .await;
    rows.does(&again).await;
    for history in ["project_member", "allocation", "quota"] {
        assert_eq!(rows.number(&format!("select count(*) from {history}")).await, 1);
    }
}
