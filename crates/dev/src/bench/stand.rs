//! The ground of a bench: a durable PostgreSQL of its own on a real disk, api replicas above it, and an administrator.
//! Nothing is switched off that production has on; what it made is gone when it ends.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Clock;
use base::auth::bootstrap_admin;
use base::config::Config;
use base::db::managed::{DATABASE, Managed, Options};
use host::pretend::Profile;
use model::api::{Enrolment, NodeCreate, NodeView};
use model::id::NodeId;
use model::state::{NodeMode, NodeState};
use sqlx::{ConnectOptions, Connection, Executor};

use super::Place;
use crate::api::Api;
use crate::platform::{Ground, Platform, keys_dir};
use crate::simnode::{NodeDir, SimNode};

const READY_WITHIN: Duration = Duration::from_secs(60);

/// A directory that goes with its owner.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn make(place: &Place, name: &str) -> anyhow::Result<Self> {
        let dir = place
            .scratch
            .join(format!("gpuaas-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        // The cluster runs as another user when we are root, and has to pass.
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o711))?;
        Ok(Self(dir))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("left behind: {}: {error}", self.0.display());
        }
    }
}

pub struct Stand {
    pub postgres: Managed,
    pub platform: Platform,
    pub api: Api,
    pub scratch: Scratch,
    ground: Ground,
}

impl Stand {
    pub async fn start(place: &Place, name: &str, replicas: usize, tune: fn(&mut Config)) -> anyhow::Result<Self> {
        let scratch = Scratch::make(place, name)?;
        let postgres = Managed::start(Options::new(scratch.path().join("pg"), None)).await?;
        let ground = Ground {
            owner_url: postgres.owner_url(),
            app_url: postgres.app_url(),
            keys_dir: keys_dir(scratch.path()),
            clock: Clock::real(),
            ports: [0; 3],
            replicas,
            tune: Arc::new(tune),
        };
        let platform = Platform::start(&ground).await?;
        let admin = bootstrap_admin(&platform.apps[0].db, "bench").await?;
        let api = Api::new(&platform.public_urls[0], &admin.secret.reveal())?;
        Ok(Self {
            postgres,
            platform,
            api,
            scratch,
            ground,
        })
    }

    /// Keeps the database as it is now under another name, beside the platform's. A server copies only what nobody uses,
    /// so the platform ends for that long, and is elsewhere afterwards.
    pub async fn keep_copy(self, name: &str) -> anyhow::Result<Self> {
        self.platform.stop().await?;
        let mut conn = self.postgres.superuser("postgres").connect().await?;
        let copied = format!("create database {name} template {DATABASE}");
        conn.execute(sqlx::AssertSqlSafe(copied)).await?;
        conn.close().await?;
        let platform = Platform::start(&self.ground).await?;
        Ok(Self {
            api: self.api.at(&platform.public_urls[0])?,
            platform,
            ..self
        })
    }

    /// A real agent and a real executor, each in a process of its own above a pretended host.
    pub async fn ready_node(&self, place: &Place, name: &str) -> anyhow::Result<(NodeId, SimNode)> {
        let profile = Profile::H100x8;
        let body = NodeCreate {
            name: name.to_owned(),
            mode: Some(NodeMode::Machine),
            board_serial: None,
        };
        let enrolment: Enrolment = self.api.post("/v1/nodes", &body).await?;
        let dir = NodeDir::new(self.scratch.path().join(name))?;
        SimNode::enrol(&dir, profile, &enrolment.token)?;
        let node = SimNode::start(&place.exe, name, dir, profile);
        let id = enrolment.node.id;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let seen: NodeView = self.api.get(&format!("/v1/nodes/{id}")).await?;
            if seen.state == NodeState::Ready {
                return Ok((id, node));
            }
            anyhow::ensure!(Instant::now() < deadline, "the node is {}", seen.state);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn end(self) -> anyhow::Result<()> {
        self.platform.stop().await?;
        self.postgres.stop().await?;
        Ok(())
    }
}
