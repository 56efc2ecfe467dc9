//! Certificates of our own processes, when they run apart: the role stands in the certificate, and each node-facing
//! route lists the roles it hears.

use base::Change;
use base::auth::Role;
use base::http::Answer;
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
