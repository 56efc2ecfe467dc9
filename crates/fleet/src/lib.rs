//! The fleet: nodes, how they are let in and known again, and the queue of signed tasks between a wish and a host.
//! Nothing here can act on a host; it can only sign, under rules, what a host's own executor will check again.

use std::ops::Deref;
use std::sync::{Arc, RwLock};

use base::App;
use base::config::Config;

pub mod apart;
pub mod certificate;
mod clone;
pub mod dispatch;
pub mod enrol;
pub mod heartbeat;
pub mod held;
pub mod identity;
pub mod image;
pub mod intent;
pub mod machine;
pub mod metrics;
pub mod node;
mod peers;
pub mod presence;
pub mod routes;
pub mod session;
pub mod slot;
pub mod task;
pub mod telemetry;
pub mod trust;
pub mod work;

use certificate::Ca;
use dispatch::Dispatch;
use identity::IdentityTable;
use image::Published;
use presence::Presence;
use trust::Keyring;
use wire::connections::Connections;

/// One process's view of the fleet. Clones share it; two processes share only the database.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

pub struct Inner {
    pub app: App,
    pub ca: Ca,
    pub limits: Limits,
    pub identity: IdentityTable,
    pub dispatch: Dispatch,
    pub presence: Presence,
    /// Who is connected to the node-facing listener.
    pub connections: Arc<Connections>,
    pub stop: tokio_util::sync::CancellationToken,
    pub terms: trust::Terms,
    pub(crate) passed_over: trust::PassedOver,
    keyring: RwLock<Arc<Keyring>>,
    images: RwLock<Arc<Published>>,
}

/// Times that are minutes in production and moments in tests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub stale_ms: i64,
    pub lease_s: i64,
    pub hold_ms: u64,
    pub probe_every_ms: i64,
    pub self_probe_s: u32,
    pub probe_keep_s: i64,
    pub heartbeat_s: u32,
    pub working_life_s: i64,
    pub device_life_s: i64,
    pub sweep_ms: u64,
    pub identity_max_age_ms: u64,
    /// How long a superseded session may ask before it is taken for a copy.
    pub session_grace_ms: i64,
    /// How long a certificate counts once its successor is in use.
    pub certificate_grace_ms: i64,
    /// A dispatched task that nobody has named is handed out again after this long.
    pub redeliver_ms: i64,
    /// Queued tasks per node.
    pub queue_most: i64,
}

impl Limits {
    /// Least time between two writes about a node that has nothing new to say: a share of the times that are judged by
    /// what is written.
    fn presence_ms(&self) -> i64 {
        10_000.min(self.stale_ms / 5).min(self.session_grace_ms / 6)
    }

    pub fn from_config(config: &Config) -> Self {
        Self {
            stale_ms: config.heartbeat_stale_s as i64 * 1000,
            lease_s: config.task_lease_s as i64,
            hold_ms: hold_ms(config.wait_hold_s, config.heartbeat_stale_s),
            probe_every_ms: config.probe_every_s as i64 * 1000,
            self_probe_s: config.self_probe_every_s as u32,
            probe_keep_s: config.probe_keep_s as i64,
            heartbeat_s: 10.min((config.heartbeat_stale_s / 4).max(1)) as u32,
            working_life_s: config.working_cert_life_s as i64,
            device_life_s: config.device_cert_life_s as i64,
            sweep_ms: config.identity_sweep_ms,
            identity_max_age_ms: config.identity_max_age_ms,
            session_grace_ms: config.identity_grace_s as i64 * 1000,
            // A wait that is held in the old name ends by itself, as if nothing had happened.
            certificate_grace_ms: config.identity_grace_s.max(config.wait_hold_s * 3 / 2 + 1) as i64 * 1000,
            redeliver_ms: 2000,
            queue_most: 256,
        }
    }
}

/// A quarter more is added to each wait, and even then a node that does nothing but wait is not yet stale, the wait is
/// answered before its own deadline, before an agent gives up on it, and before a connection that has grown old is cut.
fn hold_ms(wanted_s: u64, stale_s: u64) -> u64 {
    (wanted_s * 1000).min(stale_s * 760).min(45_000)
}

impl Deref for Fleet {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Fleet {
    /// Opens the fleet of an installation whose trust was initialised. Loads the identity table before it returns:
    /// no listener may open before it is there.
    pub async fn open(app: App, stop: tokio_util::sync::CancellationToken) -> anyhow::Result<Self> {
        let dir = app.config.keys_dir.clone();
        if !trust::initialised(app.db.read()).await? {
            anyhow::bail!("trust_missing: run `gpuaasd trust init` once before the first start");
        }
        let keyring = Keyring::load(&dir, app.installation)?;
        let images = Published::load(&dir, keyring.delegation().catalogue_key, app.installation);
        let ca = Ca::load(&dir)?;
        let limits = Limits::from_config(&app.config);
        let fleet = Self(Arc::new(Inner {
            ca,
            limits,
            identity: IdentityTable::new(limits.identity_max_age_ms),
            dispatch: Dispatch::default(),
            presence: Presence::new(limits.presence_ms()),
            connections: Arc::default(),
            stop,
            terms: trust::Terms::from_config(&app.config),
            passed_over: trust::PassedOver::default(),
            keyring: RwLock::new(Arc::new(keyring)),
            images: RwLock::new(Arc::new(images)),
            app,
        }));
        trust::follow(&fleet).await?;
        image::follow(&fleet).await?;
        fleet
            .identity
            .refresh(fleet.app.db.read(), fleet.app.clock.now())
            .await?;
        Ok(fleet)
    }

    /// The keys as of the latest manifest.
    pub fn keyring(&self) -> Arc<Keyring> {
        self.keyring
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Never back to an older manifest: two of those who look may end in the other order.
    pub(crate) fn set_keyring(&self, keyring: Keyring) {
        let mut current = self.keyring.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if keyring.manifest().version >= current.manifest().version {
            *current = Arc::new(keyring);
        }
    }

    /// The image catalogue in force.
    pub fn images(&self) -> Arc<Published> {
        let images = self.images.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        images.clone()
    }

    /// Never back to an older one under the same key.
    pub(crate) fn set_images(&self, next: Published) {
        let mut current = self.images.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if next.version() >= current.version() || !next.same_key(&current) {
            *current = Arc::new(next);
        }
    }

    pub fn manifest_version(&self) -> u64 {
        self.keyring().manifest().version
    }

    /// What a renewal token must be addressed to.
    pub fn token_audience(&self) -> String {
        format!("gpuaas:{}:renew", self.app.installation)
    }
}

#[cfg(test)]
mod tests {
    use super::hold_ms;

    #[test]
    fn no_wait_is_held_until_its_node_is_stale_or_its_deadline_is_over() {
        assert_eq!(hold_ms(38, 50), 38_000, "as it is without a word");
        for (wanted_s, stale_s) in [(38, 50), (600, 50), (600, 3600), (2, 2), (1, 1)] {
            let longest_ms = hold_ms(wanted_s, stale_s) * 5 / 4;
            assert!(longest_ms < stale_s * 1000, "{wanted_s} {stale_s}");
            let old = wire::serve::Limits::default().drain_of_age;
            assert!(u128::from(longest_ms) < old.as_millis(), "{wanted_s} {stale_s}");
        }
    }
}
