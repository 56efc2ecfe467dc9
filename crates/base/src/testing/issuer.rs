//! An identity provider of this process, for tests and for `gpuaas-dev`: real HTTP on loopback, real keys, code with PKCE,
//! device flow. It asks nobody for a password: whoever reaches it may be any of its people. That is why no server of ours
//! starts it, and no setting can.

mod grants;
mod keys;
mod pages;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinHandle;

use grants::{Code, Device};
pub use keys::{KeyKind, SigningKey};

use crate::clock::Clock;

/// Whom it vouches for.
#[derive(Clone, Debug)]
pub struct Person {
    pub subject: String,
    pub name: String,
    pub groups: Vec<String>,
}

impl Person {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            subject: format!("sub-{name}"),
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }
}

/// Stops when it is dropped.
#[derive(Debug)]
pub struct Issuer {
    url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    url: String,
    clock: Clock,
    state: Mutex<State>,
    /// Every answer passes; whoever writes holds them all.
    door: Arc<RwLock<()>>,
}

#[derive(Debug)]
struct State {
    people: Vec<Person>,
    keys: Vec<SigningKey>,
    codes: HashMap<String, Code>,
    devices: HashMap<String, Device>,
    visits: usize,
    key_reads: usize,
    broken: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Issuer {
    pub async fn start(people: Vec<Person>, clock: Clock) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Self::on(listener, people, clock)
    }

    pub fn on(listener: TcpListener, people: Vec<Person>, clock: Clock) -> std::io::Result<Self> {
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            url: url.clone(),
            clock,
            state: Mutex::new(State {
                people,
                keys: vec![SigningKey::new("first", KeyKind::P256)],
                codes: HashMap::new(),
                devices: HashMap::new(),
                visits: 0,
                key_reads: 0,
                broken: false,
            }),
            door: Arc::default(),
        });
        let router = pages::router(shared.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!("the issuer ended: {error}");
            }
        });
        Ok(Self { url, shared, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on it signs with this key, and publishes it with whatever else is to be published.
    pub fn sign_with(&self, key: SigningKey, keep_old: bool) {
        let mut state = self.shared.state();
        if !keep_old {
            state.keys.clear();
        }
        state.keys.insert(0, key);
    }

    /// Nothing is answered as long as this lives.
    pub async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        self.shared.door.clone().write_owned().await
    }

    /// How often it was asked anything, answered or not.
    pub fn visits(&self) -> usize {
        self.shared.state().visits
    }

    /// How often its keys were read.
    pub fn key_reads(&self) -> usize {
        self.shared.state().key_reads
    }

    /// While broken it answers everything with 503.
    pub fn set_broken(&self, broken: bool) {
        self.shared.state().broken = broken;
    }

    pub fn set_groups(&self, name: &str, groups: &[&str]) {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let mut state = self.shared.state();
        state
            .people
            .iter_mut()
            .filter(|person| person.name == name)
            .for_each(|person| person.groups.clone_from(&groups));
    }

    /// What it would say in an access token for this audience.
    pub fn claims(&self, name: &str, audience: &str) -> Value {
        self.shared.claims(name, &json!(audience)).unwrap_or_default()
    }

    /// Signed with the present key.
    pub fn access_token(&self, claims: &Value) -> String {
        self.shared.state().keys[0].sign("at+jwt", claims)
    }

    /// The same key under any header, true or not.
    pub fn sign_under(&self, header: &Value, claims: &Value) -> String {
        self.shared.state().keys[0].sign_under(header, claims)
    }

    /// The public half of the present key, as it is published.
    pub fn jwk(&self) -> Value {
        self.shared.state().keys[0].jwk()
    }
}

impl Shared {
    fn claims(&self, name: &str, audience: &Value) -> Option<Value> {
        let person = self.state().people.iter().find(|person| person.name == name).cloned()?;
        let now_s = self.clock.now().millis().div_euclid(1000);
        Some(json!({
            "iss": self.url, "sub": person.subject, "aud": audience, "iat": now_s, "exp": now_s + 300,
            "preferred_username": person.name, "email": format!("{}@example.test", person.name), "groups": person.groups,
        }))
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
