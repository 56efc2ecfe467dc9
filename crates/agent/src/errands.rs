//! What the executor needs a network for: an image fetched, a guest connected to. Only what it asks for is done, and
//! handed over as an open descriptor; whether it is the right image or the right guest is the executor's to find out.
//! Killed half-way nothing is lost: the wish is said again, and a fetch goes on where it was.

mod fetch;
mod guest;
mod source;
mod staging;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::digest::Sha256;
use model::signal::Code;
use model::socket::{FromAgent, WantedImage};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use wire::stop::Stop;

use crate::executor::Errand;
use crate::node::Node;
use staging::Staging;

/// Connections to guests that may be under way at once; more are asked for again.
const GUESTS: usize = 64;
/// The same of images, of which each takes all the bandwidth it gets.
const FETCHES: usize = 4;

/// Why an image is not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

impl Failed {
    fn new(code: Code, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { code, detail }
    }
}

pub(crate) async fn run(node: &Arc<Node>, mut arrivals: mpsc::Receiver<Errand>, stop: &Stop) {
    let mut errands = Errands {
        node,
        staging: Arc::new(Staging::below(&node.state_dir)),
        fetches: JoinSet::new(),
        fetching: HashMap::new(),
        guests: JoinSet::new(),
    };
    errands.staging.sweep();
    loop {
        tokio::select! {
            () = stop.stopped() => break,
            Some(ended) = errands.fetches.join_next() => match ended {
                Ok((sha256, fetched)) => errands.fetched(sha256, fetched),
                Err(error) if error.is_cancelled() => {}
                Err(error) => tracing::error!(%error, "a fetch broke off; the executor will ask again"),
            },
            Some(_) = errands.guests.join_next() => {}
            Some(errand) = arrivals.recv() => errands.take(errand),
        }
    }
    errands.fetches.shutdown().await;
    errands.guests.shutdown().await;
}

struct Errands<'a> {
    node: &'a Arc<Node>,
    staging: Arc<Staging>,
    fetches: JoinSet<(Sha256, Result<File, Failed>)>,
    fetching: HashMap<Sha256, AbortHandle>,
    guests: JoinSet<()>,
}

impl Errands<'_> {
    fn take(&mut self, errand: Errand) {
        match errand {
            Errand::Image(wanted) => self.fetch(wanted),
            Errand::Settled(sha256) => {
                if let Some(fetch) = self.fetching.remove(&sha256) {
                    fetch.abort();
                }
                self.staging.drop_one(&sha256);
            }
            Errand::Guest { want, vm, address } => {
                if self.guests.len() < GUESTS {
                    let node = self.node.clone();
                    self.guests.spawn(async move {
                        let told = match guest::connect(address, guest::SSH).await {
                            Ok(socket) => node.executor.hand_over(FromAgent::Guest { want }, socket),
                            Err(error) => {
                                let detail = format!("{address}: {error}");
                                node.executor.tell(FromAgent::GuestFailed { want, detail })
                            }
                        };
                        if told.is_err() {
                            tracing::debug!(%vm, "nobody waits for this guest any more");
                        }
                    });
                }
            }
        }
    }

    /// The wish is said again and again; one fetch answers it.
    fn fetch(&mut self, wanted: WantedImage) {
        let sha256 = wanted.sha256;
        if self.fetching.contains_key(&sha256) || self.fetching.len() >= FETCHES {
            return;
        }
        tracing::info!(%sha256, size_bytes = wanted.size_bytes, url = wanted.url, "image wanted");
        let (node, staging) = (self.node.clone(), self.staging.clone());
        let fetch = self.fetches.spawn(async move {
            let fetched = fetch::fetch(&node, &staging, &wanted).await;
            (sha256, fetched)
        });
        self.fetching.insert(sha256, fetch);
    }

    fn fetched(&mut self, sha256: Sha256, fetched: Result<File, Failed>) {
        self.fetching.remove(&sha256);
        let told = match fetched {
            Ok(file) => {
                tracing::info!(%sha256, "image handed over");
                let file = OwnedFd::from(file);
                self.node.executor.hand_over(FromAgent::Image { sha256 }, file)
            }
            Err(Failed { code, detail }) => {
                tracing::error!(%sha256, %code, detail, "image not fetched");
                self.node.executor.tell(FromAgent::ImageFailed { sha256, code, detail })
            }
        };
        if told.is_err() {
            tracing::debug!(%sha256, "the executor will ask again");
        }
    }
}
