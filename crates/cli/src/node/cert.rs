//! `gpuaas node cert`: which certificates a node has had, and the end of one of them.

use model::api::NodeReason;
use model::signal::Code;
use serde_json::Value;

use super::found;
use super::view::CERTIFICATES;
use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::ids;
use crate::output::text;
use crate::session::Session;
use crate::token::done;

/// A serial is sixteen bytes in hex.
const WHOLE: usize = 32;

#[derive(clap::Args)]
#[command(after_help = "Example:  gpuaas node cert gpu-07 --revoke 4f1b2c --reason 'disk was stolen'")]
pub(crate) struct Cert {
    /// An id or a name
    node: String,
    /// Revoke this certificate, named by its serial or the first six or more characters of it; its bearer is cut off
    /// within seconds
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
        let serial = serial_of(&client, &path, &serial).await?;
        let answer = client
            .post(
                &format!("{path}/certificates/{}/revoke", encode(&serial)),
                &NodeReason { reason },
            )
            .await?;
        done(session, &text::plain(&serial), "revoked", &answer)
    }
}

/// The whole serial of what was typed.
async fn serial_of(client: &Client, path: &str, typed: &str) -> Result<String, Failure> {
    let typed = typed.to_ascii_lowercase();
    if typed.len() == WHOLE {
        return Ok(typed);
    }
    if typed.len() < ids::SHORTEST {
        return Err(Failure::usage(format!(
            "{typed:?} is no serial: give it whole, or at least its first {} characters",
            ids::SHORTEST
        )));
    }
    let list = client.list(&format!("{path}/certificates"), &[], ids::REACH).await?;
    let items = list
        .get("items")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let serials = items
        .iter()
        .filter_map(|item| item.get("serial").and_then(Value::as_str));
    match serials
        .filter(|serial| serial.starts_with(&typed))
        .collect::<Vec<_>>()
        .as_slice()
    {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::new(
            Exit::NotFound,
            Code::NotFound,
            format!("the node has no certificate {typed:?}"),
        )),
        several => {
            let message = format!("{typed:?} fits {} certificates: {}", several.len(), several.join(", "));
            Err(Failure::new(Exit::Usage, Code::IdAmbiguous, message).detail("candidates", several.to_vec()))
        }
    }
}
