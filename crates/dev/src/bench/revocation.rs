//! From the request that revokes a certificate until the request that its node holds open is answered with the refusal,
//! on a connection that was let in long before; two replicas, the revocation asked of one or the other.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use model::api::NodeView;
use model::signal::Code;
use serde_json::json;
use tokio::task::JoinSet;

use super::Place;
use super::puppet::Puppet;
use super::sample::Sample;
use super::stand::Stand;
use crate::figures::{Goal, Report};

const NODES: usize = 240;
const GOAL_MS: f64 = 5000.0;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let stand = Stand::start(place, "revocation", 2, |_| {}).await?;
    let mut held = Vec::new();
    for n in 0..NODES {
        let puppet = Arc::new(Puppet::awake(&stand.api, &format!("puppet-{n}")).await?);
        held.push((puppet.serial().await?, puppet));
    }
    let mut sample = Sample::default();
    // A few at a time hold their waits, so that each is there for a good while and none ends by itself.
    for group in held.chunks(NODES / 8) {
        let mut waits = JoinSet::new();
        for (_, puppet) in group {
            let puppet = puppet.clone();
            waits.spawn(async move { (puppet.id, refused(&puppet).await) });
        }
        // The last of them has asked, and its request is held, when it is no longer on its way.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let mut asked = std::collections::HashMap::new();
        for (n, (serial, puppet)) in group.iter().enumerate() {
            let api = stand.api.at(&stand.platform.public_urls[n % 2])?;
            asked.insert(puppet.id, Instant::now());
            let path = format!("/v1/nodes/{}/certificates/{serial}/revoke", puppet.id);
            let _: NodeView = api.post(&path, &json!({ "reason": "bench" })).await?;
        }
        while let Some(ended) = waits.join_next().await {
            let (id, refused) = ended?;
            let refused = refused?;
            sample.put(refused.duration_since(asked[&id]));
        }
    }
    for (_, puppet) in &held {
        anyhow::ensure!(
            puppet.serial().await.is_err(),
            "a revoked certificate still opens the door"
        );
    }
    stand.end().await?;
    report.put("live connections revoked", sample.len() as f64, "", None, Goal::None);
    report.put("revoked to refused, p50", sample.p(50.0), "ms", None, Goal::None);
    report.put(
        "revoked to refused, p99",
        sample.p(99.0),
        "ms",
        None,
        Goal::AtMost(GOAL_MS),
    );
    Ok(())
}

/// Holds until it is turned away, and says when that was.
async fn refused(puppet: &Puppet) -> anyhow::Result<Instant> {
    loop {
        let answer = puppet.hold().await?;
        if answer.status == StatusCode::NO_CONTENT || answer.status.is_success() {
            continue; // a probe that was due; the next wait is held
        }
        let code = answer.error().map(|error| error.code);
        anyhow::ensure!(code == Some(Code::CertRevoked), "{}: {code:?}", answer.status);
        return Ok(Instant::now());
    }
}
