//! Certificates of our own processes, when they run apart: the role stands in the certificate, and each node-facing
//! route lists the roles it hears.

use base::auth::Role;
use base::http::{Answer, Peer};
use base::{Actor, Change};
use model::node_api::RoleCertificateAnswer;
use time::OffsetDateTime;
use wire::spiffe::Spiffe;

use super::{Issued, refused, store};
use crate::Fleet;

const LIFE_S: i64 = 86_400;

/// A day's certificate for one process in one role.
pub async fn issue_role(
    fleet: &Fleet,
    change: &mut Change,
    role: Role,
    instance: &str,
    csr_pem: &str,
) -> Answer<Issued> {
    let name = Spiffe::Role {
        installation: fleet.app.installation,
        role: role.as_str().to_owned(),
        instance: instance.to_owned(),
    };
    let issued = fleet
        .ca
        .issue_working(csr_pem, &name, LIFE_S, change.at())
        .map_err(refused)?;
    store::insert_role(change, &issued, role.as_str()).await?;
    change.detail(serde_json::json!({ "role": role, "instance": instance, "serial": issued.serial }));
    Ok(issued)
}

/// The same role and name for another day. What stood for it before counts to its own end.
pub(crate) async fn renew_role(
    fleet: &Fleet,
    actor: &Actor,
    peer: &Peer,
    csr_pem: &str,
) -> Answer<RoleCertificateAnswer> {
    let opened = fleet.app.db.change(actor, "certificate.role", fleet.app.installation);
    let mut change = opened.await?;
    let issued = issue_role(fleet, &mut change, peer.role, &peer.id, csr_pem).await?;
    change.commit().await?;
    Ok(RoleCertificateAnswer {
        chain: issued.pem,
        authorities: fleet.ca.bundle_pem(),
        not_after: issued.not_after,
    })
}

/// Ends every certificate of a role, live connections included. Says how many.
pub async fn end_role(change: &mut Change, role: Role) -> Answer<u64> {
    let at = OffsetDateTime::from(change.at());
    let done = sqlx::query(
        "update certificate set revoked_at = $2, revoked_why = 'the role was ended'
         where kind = 'role' and role = $1 and revoked_at is null and not_after > $2",
    )
    .bind(role.as_str())
    .bind(at)
    .execute(change.conn())
    .await?;
    change.detail(serde_json::json!({ "role": role, "certificates": done.rows_affected() }));
    change.wake(base::wake::Topic::Revoked);
    Ok(done.rows_affected())
}
