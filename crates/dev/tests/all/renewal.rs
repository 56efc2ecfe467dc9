//! Certificates that live for seconds: they are renewed under load, come back after they have lapsed, and a revoked
//! one is worth nothing at once, on connections that are open too.

use std::time::{Duration, Instant};

use base::config::Config;
use base::testing::eventually;
use dev::soak;
use dev::town::Town;
use host::pretend::Profile;
use model::api::{CertificateView, NodeView, Page};
use model::id::NodeId;
use model::signal::Code;
use model::state::TaskState;
use serde_json::json;

use crate::EXE;
use crate::played::code;
use crate::puppet::Puppet;
use crate::tenant::Tenant;

/// Lives of seconds, renewed at their half.
fn hasty(config: &mut Config) {
    config.wait_hold_s = 1;
    config.working_cert_life_s = 6;
    config.device_cert_life_s = 14;
}

fn long_held(config: &mut Config) {
    config.wait_hold_s = 20;
    config.probe_every_s = 1_000_000;
    config.heartbeat_stale_s = 1_000_000;
}

async fn certificates(town: &Town, node: NodeId, kind: &str) -> Vec<CertificateView> {
    let path = format!("/v1/nodes/{node}/certificates?limit=200");
    let page: Page<CertificateView> = town.api().get(&path).await.expect("a list");
    page.items.into_iter().filter(|c| c.kind == kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_rotate_under_load_and_no_task_fails() {
    let town = Town::tuned(EXE, hasty).await;
    let (node, mut running) = town.node("spinner", Profile::Cpu).await;
    let mut moved_in = 0;
    // Until the device credential was renewed, and a working certificate was vouched for by the new one.
    loop {
        let tenant = Tenant::new(&format!("t{moved_in}"), 20_001 + moved_in);
        let task = tenant.moves_in(&town, node).await;
        let task = town.until_task(task, TaskState::is_end).await;
        assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
        moved_in += 1;
        let (working, device) = (
            certificates(&town, node, "working").await,
            certificates(&town, node, "device").await,
        );
        let vouched = device.first().filter(|d| d.generation > 1);
        if working.len() > 4 && vouched.is_some_and(|device| working[0].not_before > device.not_before) {
            break;
        }
    }
    let mut working = certificates(&town, node, "working").await;
    working.reverse();
    let generations: Vec<u64> = working.iter().map(|c| c.generation).collect();
    assert_eq!(generations, (1..=working.len() as u64).collect::<Vec<_>>());
    // Each was there before the last had ended; they are dated back by a minute.
    let in_time = |pair: &[CertificateView]| pair[1].not_before.plus_s(60) < pair[0].not_after;
    assert!(working.windows(2).all(in_time), "{working:?}");
    let used = working.iter().filter(|c| c.first_used_at.is_some()).count();
    assert!(
        used >= working.len() - 1,
        "each was used, but perhaps the newest: {working:?}"
    );
    assert_eq!(town.show_node(node).await.epoch, 1);
    running.stop();
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_rotations_under_load_fail_no_task_and_no_poll() {
    let town = Town::tuned(EXE, soak::thirty_seconds).await;
    let began = Instant::now();
    let counts = soak::rotations(&town, 18, 100, |_| {}).await;
    assert!(counts.report("rotations", 100, began.elapsed()).ok(), "{counts:?}");
    assert!(counts.polls > 100, "{counts:?}");
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_down_past_its_certificate_comes_back_alone() {
    let town = Town::tuned(EXE, |config| config.working_cert_life_s = 4).await;
    let (node, mut running) = town.node("sleeper", Profile::Cpu).await;
    running.agent.hold();
    let last = certificates(&town, node, "working").await.remove(0);
    eventually("the last certificate has lapsed", async || {
        let left = last.not_after.since_ms(town.db.clock().now());
        if left < 0 { Ok(()) } else { Err(left) }
    })
    .await;
    running.agent.release();
    let task = Tenant::new("ada", 20_001).moves_in(&town, node).await;
    let task = town.until_task(task, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    assert!(certificates(&town, node, "working").await[0].generation > last.generation);
    running.stop();
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_is_refused_within_five_seconds_on_what_is_open() {
    let town = Town::tuned(EXE, long_held).await;
    let node = Puppet::ready(&town, "stolen").await;
    let pings = || async { code(&node.get("ping").await) };
    assert_eq!((pings().await, pings().await), (None, None));
    let serial = town
        .show_node(node.id())
        .await
        .certificate
        .expect("a certificate")
        .serial;
    let path = format!("/v1/nodes/{}/certificates/{serial}/revoke", node.id());
    let (waited, took) = tokio::join!(
        async {
            let waited = node.waits().await;
            (waited, Instant::now())
        },
        async {
            let body = json!({ "reason": "the disk was stolen" });
            town.api().post::<NodeView>(&path, &body).await.expect("revoked");
            Instant::now()
        }
    );
    let (waited, ended) = waited;
    assert_eq!((waited.status.as_u16(), code(&waited)), (401, Some(Code::CertRevoked)));
    assert!(ended.saturating_duration_since(took) < Duration::from_secs(5));
    for _ in 0..4 {
        assert_eq!(pings().await, Some(Code::CertRevoked));
    }
    let again = town.api().post::<NodeView>(&path, &json!({ "reason": "twice" })).await;
    assert!(again.is_err(), "there is nothing left to revoke");
    town.end().await;
}

/// The certificate is over, the device that vouches for it is not: the node it belongs to needs nobody's help.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_certificate_was_revoked_gets_a_new_one_by_itself() {
    let town = Town::tuned(EXE, long_held).await;
    let (node, mut running) = town.node("robbed", Profile::Cpu).await;
    let serial = town.show_node(node).await.certificate.expect("a certificate").serial;
    let path = format!("/v1/nodes/{node}/certificates/{serial}/revoke");
    let body = json!({ "reason": "its working key was copied" });
    town.api().post::<NodeView>(&path, &body).await.expect("revoked");
    let task = Tenant::new("ada", 20_001).moves_in(&town, node).await;
    let task = town.until_task(task, TaskState::is_end).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    let fresh = town.show_node(node).await.certificate.expect("a certificate").serial;
    assert_ne!(fresh, serial);
    running.stop();
    town.end().await;
}
