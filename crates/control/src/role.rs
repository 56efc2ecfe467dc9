//! The roles that one process can play. One process plays one or many; each returns when it is told to stop and its
//! work is drained.

use base::App;
use clap::ValueEnum;
use wire::stop::Stop;

use crate::roles;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Role {
    /// People's API, node-facing API and enrolment; the only role that holds signing keys.
    Api,
    /// Gives events their order and passes them on.
    OutboxRelay,
    /// Goes on with the workflows behind allocations, and looks after their deadlines.
    ProvisioningWorker,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Api, Role::OutboxRelay, Role::ProvisioningWorker];

    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Api => "api",
            Role::OutboxRelay => "outbox-relay",
            Role::ProvisioningWorker => "provisioning-worker",
        }
    }

    pub async fn run(self, app: App, stop: Stop) -> anyhow::Result<()> {
        match self {
            Role::Api => roles::api::run(app, stop).await,
            Role::OutboxRelay => roles::outbox_relay::run(app, stop).await,
            Role::ProvisioningWorker => roles::provisioning_worker::run(app, stop).await,
        }
    }
}
