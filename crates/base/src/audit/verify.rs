//! Walks the chain from its first place and says where it stops fitting, and why. A tail that is not sealed yet is
//! normal; its age is told, because an old one means that nobody seals, or that somebody removed seals.

use std::fmt;
use std::str::FromStr;

use model::api::{AuditBreak, AuditVerdict};
use model::digest::Sha256;
use sqlx::{FromRow, PgConnection};

use super::{AuditRow, GENESIS, chain, slice};
use crate::db::Db;
use crate::http::ApiError;

const PAGE: i64 = 1000;

/// The end of the chain. Kept outside the database it proves later that nothing before it was altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub pos: i64,
    pub hash: Sha256,
}

/// `pos:hash`, one word that a person can paste.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pos, self.hash)
    }
}

impl FromStr for Head {
    type Err = ApiError;
    fn from_str(text: &str) -> Result<Self, ApiError> {
        let parse = || {
            let (pos, hash) = text.split_once(':')?;
            Some(Head {
                pos: pos.parse().ok()?,
                hash: hash.parse().ok()?,
            })
        };
        parse().ok_or_else(|| ApiError::field("head", "must be the head of an earlier verification, position:hash"))
    }
}

#[derive(FromRow)]
struct Sealed {
    pos: i64,
    audit_id: uuid::Uuid,
    hash: Vec<u8>,
    present: bool,
}

/// Checks everything. `known` is a head that was kept elsewhere, if there is one.
pub async fn verify(db: &Db, known: Option<&Head>) -> sqlx::Result<AuditVerdict> {
    let mut tx = Db::begin(db.read()).await?;
    // One picture for the whole walk, while the sealer goes on.
    sqlx::query("set transaction isolation level repeatable read, read only")
        .execute(&mut *tx)
        .await?;
    let mut walk = Walk {
        pos: 0,
        hash: GENESIS.to_vec(),
        known,
    };
    let mut broken = walk.run(&mut tx).await?;
    if broken.is_none() {
        broken = walk.compare_ends(&mut tx).await?;
    }
    let (unsealed, oldest) = slice::count(&mut tx).await?;
    let now = db.clock().now();
    Ok(AuditVerdict {
        sealed: walk.pos,
        unsealed,
        oldest_unsealed_ms: oldest.map(|at| now.since_ms(at.into()).max(0)),
        head: walk.head().map(|head| head.to_string()),
        broken,
    })
}

/// Where the walk has come to: the last place that fits.
struct Walk<'a> {
    pos: i64,
    hash: Vec<u8>,
    known: Option<&'a Head>,
}

impl Walk<'_> {
    async fn run(&mut self, conn: &mut PgConnection) -> sqlx::Result<Option<AuditBreak>> {
        loop {
            let page = sqlx::query(
                "select s.pos, s.audit_id, s.hash, a.id is not null as present,
                        a.id, a.at, a.actor_kind, a.actor_id, a.address, a.action, a.target_kind, a.target_id, a.outcome,
                        a.code, a.correlation_id, a.details_text
                 from audit_seal s left join audit a on a.id = s.audit_id
                 where s.pos > $1 order by s.pos limit $2",
            )
            .bind(self.pos)
            .bind(PAGE)
            .fetch_all(&mut *conn)
            .await?;
            if page.is_empty() {
                return Ok(None);
            }
            for row in &page {
                let sealed = Sealed::from_row(row)?;
                let content = if sealed.present {
                    Some(AuditRow::from_row(row)?)
                } else {
                    None
                };
                if let Some(broken) = self.step(&sealed, content.as_ref()) {
                    return Ok(Some(broken));
                }
            }
        }
    }

    fn step(&mut self, sealed: &Sealed, row: Option<&AuditRow>) -> Option<AuditBreak> {
        let broken = |pos, why: &str| {
            Some(AuditBreak {
                pos,
                audit_id: Some(sealed.audit_id.into()),
                why: why.to_owned(),
            })
        };
        if sealed.pos != self.pos + 1 {
            return Some(AuditBreak {
                pos: self.pos + 1,
                audit_id: None,
                why: "this place of the chain is missing".to_owned(),
            });
        }
        let Some(row) = row else {
            return broken(sealed.pos, "the row was deleted");
        };
        let hash = chain(&self.hash, row);
        if hash.as_bytes().as_slice() != sealed.hash {
            return broken(sealed.pos, "the row was altered, or its place in the chain was");
        }
        self.pos = sealed.pos;
        self.hash = sealed.hash.clone();
        match self.known {
            Some(known) if known.pos == self.pos && known.hash != hash => broken(
                sealed.pos,
                "the chain was rewritten: it differs from the head that was kept",
            ),
            _ => None,
        }
    }

    /// Everything present fits; is anything missing at the end?
    async fn compare_ends(&self, conn: &mut PgConnection) -> sqlx::Result<Option<AuditBreak>> {
        let cut = |why: &str| {
            Some(AuditBreak {
                pos: self.pos + 1,
                audit_id: None,
                why: why.to_owned(),
            })
        };
        let head: Option<(i64, Vec<u8>)> = sqlx::query_as("select pos, hash from audit_head")
            .fetch_optional(conn)
            .await?;
        let (pos, hash) = head.unwrap_or((0, GENESIS.to_vec()));
        if pos != self.pos || hash != self.hash {
            return Ok(cut("the chain does not end where its head says: seals were cut off"));
        }
        match self.known {
            Some(known) if known.pos > self.pos => Ok(cut("the chain is shorter than the head that was kept")),
            _ => Ok(None),
        }
    }

    fn head(&self) -> Option<Head> {
        let hash = <[u8; 32]>::try_from(self.hash.as_slice()).ok()?;
        (self.pos > 0).then(|| Head {
            pos: self.pos,
            hash: Sha256::from_bytes(hash),
        })
    }
}
