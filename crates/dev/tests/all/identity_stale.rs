//! A control plane that cannot see who still stands lets nobody in and says so to whoever balances its load; and it opens
//! by itself as soon as it can look again.

use base::config::Config;
use base::testing::eventually;
use dev::town::Town;
use model::api::TaskView;
use model::signal::Code;
use serde_json::json;
use sqlx::{Connection, Executor};

use crate::EXE;
use crate::abuse::connect;
use crate::played::code;
use crate::puppet::Puppet;

/// Soon too old, and nothing comes by itself.
fn hasty(config: &mut Config) {
    config.identity_sweep_ms = 300;
    config.identity_max_age_ms = 2_000;
    config.wait_hold_s = 1;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

async fn until_ping(node: &Puppet, what: &str, wanted: Option<Code>) {
    eventually(what, async || {
        let said = code(&node.get("ping").await);
        (said == wanted).then_some(()).ok_or(said)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_by_a_table_that_is_too_old() {
    let town = Town::tuned(EXE, hasty).await;
    let node = Puppet::ready(&town, "honest").await;
    let troubles = || town.platform.apps[0].readiness.troubles();
    let until_troubled = async |trouble: bool| {
        eventually("the process says whether it can work", async || {
            let found = troubles();
            let told = found.contains(&("identity", Code::IdentityStale));
            (told == trouble).then_some(()).ok_or(found)
        })
        .await;
    };
    until_ping(&node, "it is known", None).await;

    // Certificates cannot be read: the sweep neither succeeds nor fails, it hangs.
    let mut conn = connect(&town).await;
    conn.execute("begin; lock table certificate in access exclusive mode")
        .await
        .expect("locked");
    until_ping(&node, "nobody is let in", Some(Code::IdentityStale)).await;
    until_troubled(true).await;
    let path = format!("/v1/nodes/{}/probe", node.id());
    let asked: TaskView = town.api().post(&path, &json!({})).await.expect("people are let in");
    let waited = node.waits().await;
    assert_eq!(
        (waited.status.as_u16(), code(&waited)),
        (503, Some(Code::IdentityStale))
    );

    conn.execute("rollback").await.expect("let go");
    conn.close().await.expect("closes");
    until_ping(&node, "it is let in again", None).await;
    until_troubled(false).await;
    assert_eq!(
        node.claim().await.task_id,
        asked.id,
        "what waited was not handed out before"
    );
    town.end().await;
}
