//! What the provider publishes: its addresses and its keys. Read anew after five minutes, or when a token names a key that
//! is not known; in either case at most once a minute, whoever asks and however often. What was read last counts for a
//! day while nothing newer can be had, and after that nobody is let in on the provider's word. A reading that was begun is
//! finished, also when whoever asked for it hangs up.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use model::time::Timestamp;
use serde::Deserialize;
use tokio::sync::OwnedMutexGuard;

use super::Refusal;
use super::fetch::Fetch;
use super::jwk::{self, Key};
use crate::clock::Clock;

const FRESH_MS: i64 = 5 * 60_000;
const PAUSE_MS: i64 = 60_000;
/// While there is nothing at all to go by, waiting a minute would only keep people out.
const PAUSE_EMPTY_MS: i64 = 5_000;
const LAST_GOOD_MS: i64 = 24 * 3_600_000;

/// Where the provider wants to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Endpoints {
    issuer: String,
    jwks_uri: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    /// Absent means `client_secret_basic`.
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// One reading.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) endpoints: Endpoints,
    pub(super) keys: Vec<Key>,
    /// A later reading failed: a key that is missing here may exist.
    pub(super) shaky: bool,
    at: Timestamp,
}

#[derive(Debug, Default)]
struct State {
    good: Option<Arc<Known>>,
    tried_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) fetch: Fetch,
    issuer: String,
    clock: Clock,
    state: Mutex<State>,
    /// One reads, the others wait for it or go on with what they have.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Directory {
    pub(super) fn new(fetch: Fetch, issuer: String, clock: Clock) -> Self {
        Self {
            fetch,
            issuer,
            clock,
            state: Mutex::default(),
            turn: Arc::default(),
        }
    }

    /// The newest reading that may be used, after trying for a newer one if it does not do.
    pub(super) async fn known(self: &Arc<Self>, does: impl Fn(&[Key]) -> bool) -> Result<Arc<Known>, Refusal> {
        let now = self.clock.now();
        let good = self.usable(now);
        let fit = good.as_ref().filter(|known| does(&known.keys)).cloned();
        if let Some(known) = fit.as_ref().filter(|known| age_ms(known, now) < FRESH_MS) {
            return Ok(known.clone());
        }
        match fit {
            Some(known) => {
                // Old, but it does: nobody waits for the one who reads.
                if let Ok(turn) = self.turn.clone().try_lock_owned() {
                    self.read_if_due(now, turn).await;
                }
                Ok(self.usable(now).unwrap_or(known))
            }
            None => {
                let turn = self.turn.clone().lock_owned().await;
                self.read_if_due(now, turn).await;
                self.usable(now).ok_or(Refusal::Unavailable)
            }
        }
    }

    fn usable(&self, now: Timestamp) -> Option<Arc<Known>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.good.clone().filter(|known| age_ms(known, now) < LAST_GOOD_MS)
    }

    async fn read_if_due(self: &Arc<Self>, now: Timestamp, turn: OwnedMutexGuard<()>) {
        if !self.is_due(now) {
            return;
        }
        // The try is counted, so it has to be made: strangers could come and leave for ever, and no key would be read.
        let directory = self.clone();
        let reading = tokio::spawn(async move {
            directory.read_now(now).await;
            drop(turn);
        });
        if let Err(error) = reading.await {
            tracing::error!("reading the identity provider's keys ended: {error}");
        }
    }

    /// Whoever hears yes reads.
    fn is_due(&self, now: Timestamp) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = state
            .good
            .as_ref()
            .is_none_or(|known| age_ms(known, now) >= LAST_GOOD_MS);
        let pause = if empty { PAUSE_EMPTY_MS } else { PAUSE_MS };
        let since = state.tried_at.map(|at| now.millis() - at.millis());
        let due = since.is_none_or(|since| since >= pause);
        if due {
            state.tried_at = Some(now);
        }
        due
    }

    async fn read_now(&self, now: Timestamp) {
        let read = self.read(now).await;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(known) => state.good = Some(Arc::new(known)),
            Err(error) => {
                tracing::warn!(
                    issuer = self.issuer,
                    "the identity provider's keys cannot be read: {error:#}"
                );
                state.good = state.good.take().map(|known| {
                    Arc::new(Known {
                        endpoints: known.endpoints.clone(),
                        keys: known.keys.clone(),
                        shaky: true,
                        at: known.at,
                    })
                });
            }
        }
    }

    async fn read(&self, now: Timestamp) -> anyhow::Result<Known> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = self.fetch.get(&url).await.context("its configuration")?;
        let endpoints: Endpoints = serde_json::from_slice(&document).context("its configuration")?;
        ensure!(
            endpoints.issuer == self.issuer,
            "it calls itself {:?}",
            endpoints.issuer
        );
        let set = self.fetch.get(&endpoints.jwks_uri).await.context("its keys")?;
        let keys = jwk::keys(&set).context("its keys are no list")?;
        ensure!(!keys.is_empty(), "it has no key that can be used here");
        Ok(Known {
            endpoints,
            keys,
            shaky: false,
            at: now,
        })
    }
}

fn age_ms(known: &Known, now: Timestamp) -> i64 {
    now.millis() - known.at.millis()
}
