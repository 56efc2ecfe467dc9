//! A process that goes on with workflows, and who signs what it asks for: the api, over the network, or this process
//! itself if it is the api, too.

use std::sync::Arc;

use base::App;
use fleet::Fleet;
use fleet::apart::Apart;
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub struct Worker {
    pub app: App,
    pub(crate) desk: Desk,
    stop: CancellationToken,
}

/// Where tasks are signed.
#[derive(Clone)]
pub(crate) enum Desk {
    Here(Fleet),
    Api(Arc<Apart>),
}

impl Worker {
    /// The signing keys are in this process.
    pub fn here(fleet: Fleet) -> Self {
        Self {
            app: fleet.app.clone(),
            stop: fleet.stop.clone(),
            desk: Desk::Here(fleet),
        }
    }

    /// There are none, and it asks.
    pub fn apart(app: App, api: Arc<Apart>, stop: CancellationToken) -> Self {
        Self {
            app,
            stop,
            desk: Desk::Api(api),
        }
    }

    /// Waits, and says whether to go on.
    pub(crate) async fn running(&self, wait: impl Future<Output = ()>) -> bool {
        self.stop.run_until_cancelled(wait).await.is_some()
    }
}
