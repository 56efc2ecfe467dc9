//! People who rent over the public API, each request for the next project and under a key of its own: one after each
//! pause, whether or not the others have been answered, or each as soon as the one before has been.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::api::AllocationCreate;
use model::id::ProjectId;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::Api;
use crate::demo;

#[derive(Clone)]
pub(super) struct Tenants {
    api: Api,
    projects: Arc<[ProjectId]>,
    asked: Arc<AtomicUsize>,
}

impl Tenants {
    pub(super) fn new(api: &Api, projects: Vec<ProjectId>) -> Self {
        Self {
            api: api.clone(),
            projects: projects.into(),
            asked: Arc::default(),
        }
    }

    async fn create(&self) -> anyhow::Result<()> {
        let n = self.asked.fetch_add(1, Ordering::Relaxed);
        let body = AllocationCreate {
            project: Some(self.projects[n % self.projects.len()]),
            sku: demo::SKU.to_owned(),
            name: None,
            image: None,
            ssh_public_keys: Vec::new(),
            ttl_s: None,
        };
        let _: serde_json::Value = self
            .api
            .post_as(&format!("bench-{n}"), "/v1/allocations", &body)
            .await?;
        Ok(())
    }

    /// One at each tick, however long the others take; counted from the tick.
    pub(super) async fn at_rate(&self, count: usize, every: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut running = JoinSet::new();
        let mut tick = Instant::now();
        for _ in 0..count {
            tick += every;
            tokio::time::sleep_until(tick).await;
            let this = self.clone();
            running.spawn(async move { this.create().await.map(|()| tick.elapsed()) });
        }
        let mut times = Vec::new();
        while let Some(ended) = running.join_next().await {
            times.push(ended??);
        }
        Ok(times)
    }

    /// Every client asks again as soon as it is answered.
    pub(super) async fn at_once(&self, count: usize, clients: usize) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        let left = Arc::new(AtomicUsize::new(count));
        for _ in 0..clients {
            let (this, left) = (self.clone(), left.clone());
            running.spawn(async move {
                let next = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                while next().is_ok() {
                    this.create().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        Ok(())
    }
}
