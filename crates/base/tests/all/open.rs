//! Opening the application: which installation, on which database, as whom.

use base::app::OpenError;
use base::config::DatabaseUrl;
use base::db::managed::Managed;
use base::testing::TestDb;
use base::{App, Clock, Config};
use model::signal::Code;

#[tokio::test]
async fn two_processes_agree_on_the_installation_and_its_cursors() {
    let test = TestDb::new().await;
    let (one, two) = tokio::join!(test.app(), test.app());
    assert_eq!(one.installation, two.installation);
    let cursor = one.cursors.seal("nodes", one.installed_at, one.installation.uuid());
    assert!(two.cursors.open("nodes", &cursor).is_ok());
    let made: i64 = sqlx::query_scalar("select count(*) from audit where action = 'installation.create'")
        .fetch_one(one.db.read())
        .await
        .expect("readable");
    assert_eq!(made, 1);
}

#[tokio::test]
async fn a_process_refuses_a_role_that_could_alter_the_audit() {
    let test = TestDb::new().await;
    let mut config = Config::defaults();
    let error = App::open(config.clone(), Clock::real())
        .await
        .expect_err("nothing configured");
    assert!(matches!(error, OpenError::NoDatabase), "{error}");
    config.database_url = Some(DatabaseUrl::new(test.owner_url()));
    let error = App::open(config.clone(), Clock::real())
        .await
        .expect_err("the owner is too strong");
    assert!(matches!(error, OpenError::RoleTooStrong), "{error}");
    assert_eq!(error.code(), Code::ConfigInvalid);
    config.database_owner_url = Some(DatabaseUrl::new(test.owner_url()));
    config.database_url = Some(DatabaseUrl::new(test.app_url()));
    App::open(config, Clock::real()).await.expect("opens");
}

#[tokio::test]
async fn no_managed_database_is_started_unasked() {
    let mut config = Config::defaults();
    assert!(Managed::for_config(&mut config).await.expect("nothing to do").is_none());
    assert!(config.database_url.is_none());
}
