//! `gpuaas node enroll`: a row for a new host, or a new token for a known one, and what to do there with it. An id
//! always means a known node; any other word is a name, known or new.

use model::api::{NodeCreate, NodeEnrol};
use model::id::NodeId;
use model::state::NodeMode;
use serde_json::Value;

use crate::failure::Failure;
use crate::ids::{Noun, by_name, resolve};
use crate::output::Format;
use crate::output::column::{Kind, View, extra, find, time_at};
use crate::output::text;
use crate::session::Session;

pub(crate) const VIEW: View = View {
    columns: &[
        extra("id", "node.id", Kind::Id),
        extra("name", "node.name", Kind::Named),
        extra("mode", "node.mode", Kind::Text),
        extra("expires", "expires_at", Kind::Until),
        extra("token", "token", Kind::Text),
        extra("command", "command", Kind::Text),
    ],
    key: "node.id",
};

/// Reads the token from its standard input.
const ON_THE_HOST: &str = "gpuaas-node-executor enroll -";

#[derive(clap::Args)]
#[command(after_help = "Example:  gpuaas node enroll gpu-07 --mode slice\n\
                        A known name or id gets a new token; the node's certificates end when it is used.")]
pub(crate) struct Enroll {
    /// A name for a new node (a-z, 0-9, - and .), or the name or id of a known one
    name: String,
    /// How a new node is rented out: slice or machine
    #[arg(long)]
    mode: Option<NodeMode>,
    /// Bind the token to the host's board serial
    #[arg(long, value_name = "SERIAL")]
    serial: Option<String>,
}

impl Enroll {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), Failure> {
        let client = session.client()?;
        let looks_like_id = self.name.starts_with(&format!("{}_", NodeId::PREFIX));
        let known = if looks_like_id {
            Some(resolve(&client, Noun::Node, &self.name).await?)
        } else {
            by_name(&client, Noun::Node, &self.name).await?
        };
        let enrolment = match known {
            Some(id) => {
                if self.mode.is_some() {
                    return Err(Failure::usage(format!(
                        "{} is known; its mode is changed on its own",
                        text::plain(&self.name)
                    ))
                    .hint("gpuaas node mode"));
                }
                session.out.note(&format!(
                    "{} is known: this token enrols it again and raises its epoch",
                    text::plain(&self.name)
                ))?;
                client
                    .post(
                        &format!("{}/{id}/enroll", Noun::Node.path()),
                        &NodeEnrol {
                            board_serial: self.serial,
                        },
                    )
                    .await?
            }
            None => {
                let body = NodeCreate {
                    name: self.name,
                    mode: self.mode,
                    board_serial: self.serial,
                };
                client.post(Noun::Node.path(), &body).await?
            }
        };
        show(session, &enrolment)
    }
}

fn show(session: &mut Session, enrolment: &Value) -> Result<(), Failure> {
    if session.out.format != Format::Table || session.out.columns.is_some() {
        return session.out.record(&VIEW, enrolment);
    }
    let place = |path: &str| text::plain(find(enrolment, path).as_str().unwrap_or_default());
    let left = time_at(enrolment, "expires_at")
        .map(|end| text::age(end.since_ms(session.out.now())))
        .unwrap_or_default();
    session.out.line(&format!(
        "{}  {}  {}",
        text::short_id(&place("node.id")),
        place("node.name"),
        place("node.mode")
    ))?;
    // As an argument the token would stand in the host's process list.
    session.out.line(&format!(
        "Run this on the host as root:\n\n  {ON_THE_HOST}\n\n\
         and paste this token, then Ctrl-D; it works once, within {left}:\n\n  {}\n",
        place("token")
    ))
}
