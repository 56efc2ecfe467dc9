//! Who may speak as a node, checked on every request and not only at the handshake: (node, epoch, serial, not
//! revoked, not expired), from memory. The table is swept every two seconds and on every revocation; when the last
//! good sweep is too old, everybody is refused rather than somebody wrongly admitted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use base::auth::Role;
use base::http::ApiError;
use data_encoding::HEXLOWER;
use model::id::{NodeId, SessionId};
use model::signal::Code;
use model::state::NodeState;
use model::time::Timestamp;
use uuid::Uuid;
use wire::spiffe::Spiffe;
use wire::tls::PeerCertificate;

use crate::Fleet;
use crate::certificate::store as certificates;

mod sweep;

/// A node whose certificate was accepted for this very request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCaller {
    pub node_id: NodeId,
    pub epoch: u64,
    pub serial: Arc<str>,
    pub not_after: Timestamp,
}

/// Anybody with a certificate of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    Node(NodeCaller),
    Role { role: Role, instance: String },
}

/// What the table knows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    pub epoch: u64,
    pub state: NodeState,
    pub session: Option<SessionId>,
    /// In quarantine because two machines use its identity.
    pub cloned: bool,
}

/// What the table knows of a certificate that stands.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// None for roles.
    node: Option<NodeId>,
    /// Of the node.
    epoch: u64,
    /// It was presented before, and the database knows.
    used: bool,
}

impl Standing {
    fn new(node: Option<NodeId>, epoch: Option<i64>, used: bool) -> Self {
        let epoch = epoch.unwrap_or(0) as u64;
        Self { node, epoch, used }
    }
}

/// A serial as the number that its text stands for; there is one for every certificate in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Serial([u8; 20]);

impl Serial {
    /// None for what is no serial: at most twenty bytes, in hex.
    fn of(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        let mut number = [0; 20];
        let padding = number.len().checked_sub(bytes.len())?;
        number[padding..].copy_from_slice(&bytes);
        Some(Self(number))
    }
}

pub struct IdentityTable {
    table: RwLock<Table>,
    max_age: Duration,
    /// Refusals that left an audit row lately.
    noted: Mutex<HashMap<(String, Code), Instant>>,
}

struct Table {
    /// Serials that are issued, unexpired, not overtaken and not revoked.
    live: HashMap<Serial, Standing>,
    nodes: HashMap<NodeId, NodeEntry>,
    swept: Option<Instant>,
    sums: sweep::Sums,
    /// Parts in which something was written by ourselves since the last sweep.
    touched: HashSet<u8>,
}

impl Table {
    fn serial(&self, serial: &str) -> Option<Standing> {
        self.live.get(&Serial::of(serial)?).copied()
    }

    fn put_serial(&mut self, serial: &str, standing: Standing) {
        self.touched.insert(sweep::part(standing.node));
        self.live.extend(Serial::of(serial).map(|serial| (serial, standing)));
    }

    fn put_node(&mut self, node: NodeId, entry: NodeEntry) {
        self.touched.insert(sweep::part(Some(node)));
        self.nodes.insert(node, entry);
    }
}

#[derive(sqlx::FromRow)]
struct NodeRow {
    epoch: i64,
    state: String,
    session_id: Option<Uuid>,
    quarantine_code: Option<String>,
}

impl IdentityTable {
    pub(crate) fn new(max_age_ms: u64) -> Self {
        let table = Table {
            live: HashMap::new(),
            nodes: HashMap::new(),
            swept: None,
            sums: sweep::Sums::default(),
            touched: HashSet::new(),
        };
        Self {
            table: RwLock::new(table),
            max_age: Duration::from_millis(max_age_ms),
            noted: Mutex::default(),
        }
    }

    /// Too old to admit anybody.
    pub fn is_stale(&self) -> bool {
        self.age().is_none_or(|age| age > self.max_age)
    }

    /// How long a sweep may take: two of them fit into the age at which everybody is refused.
    pub(crate) fn patience(&self) -> Duration {
        self.max_age / 2
    }

    pub fn age(&self) -> Option<Duration> {
        self.read().swept.map(|at| at.elapsed())
    }

    /// Was this serial found not to stand any more, by a look that began after its connection was opened?
    pub fn is_over(&self, serial: &str, opened: Instant) -> bool {
        let table = self.read();
        table.swept.is_some_and(|swept| opened < swept) && table.serial(serial).is_none()
    }

    pub fn node(&self, node: NodeId) -> Option<NodeEntry> {
        self.read().nodes.get(&node).copied()
    }

    /// A session that this process has just written; the other replicas read the row when they are asked.
    pub(crate) fn note_session(&self, node: NodeId, session: SessionId) {
        let mut table = self.write();
        if let Some(entry) = table.nodes.get(&node).copied() {
            let session = Some(session);
            table.put_node(node, NodeEntry { session, ..entry });
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(row: &NodeRow) -> Option<NodeEntry> {
    Some(NodeEntry {
        epoch: row.epoch as u64,
        state: row.state.parse().ok()?,
        session: row.session_id.map(Into::into),
        cloned: row.quarantine_code.as_deref() == Some(Code::NodeCloned.as_str()),
    })
}

impl Fleet {
    /// The caller, if their certificate still stands. An unknown serial is looked up once: another replica may
    /// have issued it a moment ago.
    pub async fn identify(&self, certificate: &PeerCertificate) -> Result<Caller, ApiError> {
        if self.identity.is_stale() {
            return Err(Code::IdentityStale.into());
        }
        let name = certificate.spiffe.as_ref().ok_or(Code::CertUnknown)?;
        let now = self.app.clock.now();
        if now > certificate.not_after {
            return Err(Code::CertExpired.into());
        }
        let known = self.identity.read().serial(&certificate.serial);
        let standing = match known {
            Some(standing) => standing,
            None => self.look_up(&certificate.serial).await?,
        };
        match (name, standing.node) {
            (
                Spiffe::Node {
                    installation,
                    node_id,
                    epoch,
                },
                Some(owner),
            ) if *installation == self.app.installation && *node_id == owner && *epoch == standing.epoch => {
                self.node_now(*node_id, *epoch).await?;
                if !standing.used {
                    self.first_use(&certificate.serial).await?;
                }
                Ok(Caller::Node(NodeCaller {
                    node_id: *node_id,
                    epoch: *epoch,
                    serial: certificate.serial.clone(),
                    not_after: certificate.not_after,
                }))
            }
            (
                Spiffe::Role {
                    installation,
                    role,
                    instance,
                },
                None,
            ) if *installation == self.app.installation => {
                // A node is named by its id and epoch; a certificate that only says `node` names nobody.
                let known = role.parse().ok().filter(|role| *role != Role::Node);
                let role = known.ok_or(Code::RoleForbidden)?;
                Ok(Caller::Role {
                    role,
                    instance: instance.clone(),
                })
            }
            _ => Err(Code::CertNameMismatch.into()),
        }
    }

    async fn look_up(&self, serial: &str) -> Result<Standing, ApiError> {
        let row = certificates::by_serial(self.app.db.read(), serial)
            .await?
            .ok_or(Code::CertUnknown)?;
        if row.revoked_at.is_some() || row.overtaken(self.app.clock.now()) {
            return Err(Code::CertRevoked.into());
        }
        // A device credential vouches for renewals; it opens no door of its own.
        if row.kind == "device" {
            return Err(Code::CertNameMismatch.into());
        }
        let standing = Standing::new(row.node_id.map(NodeId::from), row.epoch, row.first_used_at.is_some());
        self.identity.write().put_serial(serial, standing);
        Ok(standing)
    }

    /// The first time that a serial is presented is on record before it is served: from then on the generations
    /// before it are numbered, and whoever still lives in one of them is a copy.
    async fn first_use(&self, serial: &str) -> Result<(), ApiError> {
        let now = self.app.clock.now();
        let ends_at = now.plus_ms(self.limits.certificate_grace_ms);
        let first = certificates::first_use(self.app.db.bookkeeping(), serial, now, ends_at).await?;
        if !first {
            // Another replica was faster; or it was given up as lost in this very moment.
            self.look_up(serial).await?;
        }
        let mut table = self.identity.write();
        if let Some(standing) = table.serial(serial) {
            table.put_serial(serial, Standing { used: true, ..standing });
        }
        Ok(())
    }

    /// The node behind a live certificate, read once from its row if this process has not met it.
    async fn node_now(&self, node: NodeId, epoch: u64) -> Result<NodeEntry, ApiError> {
        let entry = match self.identity.node(node) {
            Some(entry) if entry.epoch >= epoch => entry,
            _ => self.read_node(node).await?,
        };
        if entry.epoch != epoch || entry.state == NodeState::Removed {
            return Err(Code::CertRevoked.into());
        }
        Ok(entry)
    }

    /// The row of a node, and the table's memory of it made current.
    pub(crate) async fn read_node(&self, node: NodeId) -> Result<NodeEntry, ApiError> {
        let row: Option<NodeRow> =
            sqlx::query_as("select epoch, state, session_id, quarantine_code from node where id = $1")
                .bind(node.uuid())
                .fetch_optional(self.app.db.read())
                .await?;
        let entry = row.as_ref().and_then(entry).ok_or(Code::CertRevoked)?;
        self.identity.write().put_node(node, entry);
        Ok(entry)
    }
}

impl Fleet {
    /// Asked again while a request is held: the handshake is long past, the certificate may not stand any more.
    pub async fn still_stands(&self, caller: &NodeCaller) -> Result<(), ApiError> {
        if self.identity.is_stale() {
            return Err(Code::IdentityStale.into());
        }
        if self.app.clock.now() > caller.not_after {
            return Err(Code::CertExpired.into());
        }
        if self.identity.read().serial(&caller.serial).is_none() {
            self.look_up(&caller.serial).await?;
        }
        self.node_now(caller.node_id, caller.epoch).await.map(|_| ())
    }

    /// Leaves an audit row for a refused certificate, at most one a minute for each name and code: a node that
    /// keeps knocking must not fill the audit log.
    pub(crate) async fn note_refused(&self, name: &str, code: Code) -> sqlx::Result<()> {
        let target = base::Target::new("certificate", name);
        self.note(name, "certificate.use", target, code).await
    }

    /// The same for a node that asked after another one.
    pub(crate) async fn note_foreign(&self, caller: &NodeCaller, asked: NodeId) -> sqlx::Result<()> {
        let name = caller.node_id.to_string();
        self.note(&name, "node.call", asked.into(), Code::NotFound).await
    }

    async fn note(&self, name: &str, action: &'static str, target: base::Target, code: Code) -> sqlx::Result<()> {
        let fresh = {
            let mut noted = self.identity.noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.retain(|_, at| at.elapsed() < Duration::from_secs(60));
            let key = (name.to_owned(), code);
            let fresh = noted.len() < 10_000 && !noted.contains_key(&key);
            if fresh {
                noted.insert(key, Instant::now());
            }
            fresh
        };
        if !fresh {
            return Ok(());
        }
        let actor = base::Actor::new(base::ActorKind::Node, name, base::http::correlation_id());
        self.app.db.refusal(&actor, action, target, code).await
    }
}

#[cfg(test)]
mod tests {
    use super::Serial;

    #[test]
    fn a_serial_is_a_number_of_twenty_bytes() {
        let all = ["01", "0100", "ff00000000000000000000000000000000000001"].map(Serial::of);
        assert!(all.iter().all(Option::is_some) && all[0] != all[1] && all[1] != all[2]);
        for none in ["0", "xy", "AB", "01ff00000000000000000000000000000000000001"] {
            assert_eq!(Serial::of(none), None, "{none}");
        }
    }
}
