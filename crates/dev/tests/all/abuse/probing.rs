//! Looking at a node must not take its work: pings, probing waits and waits without a session, a thousand of each,
//! against a queue that is full of tasks.

use base::testing::eventually;
use dev::town::Town;
use model::api::TaskView;
use model::id::SessionId;
use model::signal::Code;
use tokio::task::JoinSet;

use super::{process, refused, request, snapshot};
use crate::EXE;
use crate::puppet::{Puppet, get, post};
use crate::tenant::Tenant;

const TIMES: usize = 1000;
const HANDS: usize = 8;
const TENANTS: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn abuse_61_probing_claims_nothing() {
    let town = Town::start(EXE).await;
    let mut node = Puppet::ready(&town, "watched").await;
    let worker = process(&town, base::auth::Role::ProvisioningWorker).await;
    for n in 0..TENANTS {
        let tenant = Tenant::new(&format!("t{n}"), 20_100 + n);
        let intent = tenant.intent(&town, node.id()).await;
        let ask = request(&tenant, node.id(), intent, &tenant.provision());
        let queued = post(&worker, "/internal/v1/tasks", &ask).await;
        assert_eq!(queued.status, 202, "{queued:?}");
    }
    let probe = format!("/v1/nodes/{}/probe", node.id());
    town.api()
        .post::<TaskView>(&probe, &serde_json::json!({}))
        .await
        .expect("asked");
    let queued = TENANTS as usize + 1;
    let before = snapshot(&town, &["task"]).await;
    let waiting = before.iter().filter(|row| row.contains(r#""state": "queued""#));
    assert_eq!(waiting.count(), queued, "{before:?}");

    let mut hands = JoinSet::new();
    for _ in 0..HANDS {
        let (client, ping, wait) = (node.inside.clone(), node.path("ping"), node.path("tasks/wait"));
        hands.spawn(async move {
            for _ in 0..TIMES / HANDS {
                assert_eq!(get(&client, &ping).await.status, 200);
                let probe = get(&client, &format!("{wait}?probe=1")).await;
                assert_eq!((probe.status.as_u16(), probe.body.len()), (204, 0));
                refused(&get(&client, &wait).await, Code::SessionRequired);
            }
            3 * (TIMES / HANDS)
        });
    }
    let asked: usize = hands.join_all().await.into_iter().sum();
    assert_eq!(asked, 3 * TIMES);
    // A session that was never opened is none either.
    node.session = SessionId::new();
    let nothing = serde_json::json!({"tasks": [], "results_pending": 0, "disk": null});
    refused(&node.post("heartbeat", &nothing).await, Code::SessionSuperseded);
    assert_eq!(snapshot(&town, &["task"]).await, before, "0 claimed");

    let opened = node.post("session", &node.session_request()).await;
    assert!(opened.status.is_success(), "{opened:?}");
    let mut claimed = 0;
    while claimed < queued {
        claimed += eventually("a wait claims", async || {
            let tasks = node.wait().await;
            if tasks.is_empty() {
                Err("nothing")
            } else {
                Ok(tasks.len())
            }
        })
        .await;
    }
    assert_eq!(claimed, queued, "an honest wait has them all, each once");
    town.end().await;
}
