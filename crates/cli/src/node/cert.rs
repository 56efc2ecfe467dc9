//! `gpuaas node cert`: which certificates a node has had, and the end of one of them.

use model::api::NodeReason;

use super::found;
use super::view::CERTIFICATES;
use crate::client::encode;
use crate::failure::Failure;
use crate::output::text;
use crate::session::Session;
use crate::token::done;

#[derive(clap::Args)]
#[command(after_help = "Example:  gpuaas node cert gpu-07 --revoke 0a1b2c --reason 'disk was stolen'")]
pub(crate) struct Cert {
    /// An id or a name
    node: String,
    /// Revoke this certificate; its bearer is refused from its next request on
    #[arg(long, value_name = "SERIAL", requires = "reason")]
    revoke: Option<String>,
    /// Why, for the audit log
    #[arg(long, requires = "revoke")]
    reason: Option<String>,
    /// Do not ask
    #[arg(long, short, requires = "revoke")]
    yes: bool,
}

impl Cert {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let (Some(serial), Some(reason)) = (self.revoke, self.reason) else {
            let (client, path) = found(session, &self.node).await?;
            let document = client.get(&format!("{path}/certificates")).await?;
            return session.out.list(&CERTIFICATES, &document);
        };
        session.confirm(
            self.yes,
            &format!(
                "revoke certificate {} of {}",
                text::plain(&serial),
                text::plain(&self.node)
            ),
        )?;
        let (client, path) = found(session, &self.node).await?;
        let answer = client
            .post(
                &format!("{path}/certificates/{}/revoke", encode(&serial)),
                &NodeReason { reason },
            )
            .await?;
        done(session, &text::plain(&serial), "revoked", &answer)
    }
}
