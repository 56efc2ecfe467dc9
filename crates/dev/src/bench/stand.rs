//! The ground of a bench: a durable PostgreSQL of its own on a real disk, api replicas above it, and an administrator.
//! Nothing is switched off that production has on; what it made is gone when it ends.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base::Clock;
use base::auth::bootstrap_admin;
use base::config::Config;
use base::db::managed::{Managed, Options};

use super::Place;
use crate::api::Api;
use crate::platform::{Ground, Platform, keys_dir};

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
            tune,
        };
        let platform = Platform::start(&ground).await?;
        let admin = bootstrap_admin(&platform.apps[0].db, "bench").await?;
        let api = Api::new(&platform.public_urls[0], &admin.secret.reveal())?;
        Ok(Self {
            postgres,
            platform,
            api,
            scratch,
        })
    }

    pub async fn end(self) -> anyhow::Result<()> {
        self.platform.stop().await?;
        self.postgres.stop().await?;
        Ok(())
    }
}
