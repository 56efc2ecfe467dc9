//! `gpuaas event`: what happens, as it happens. One line each, for people or for programs; Ctrl-C ends it.

mod allocation;
mod follow;

use clap::Subcommand;

use crate::client::encode;
use crate::failure::Failure;
use crate::ids::{Noun, resolve};
use crate::session::Session;
pub(crate) use allocation::Allocation;
pub(crate) use follow::follow;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Follow events until Ctrl-C; a broken connection is made again and nothing is left out
    #[command(after_help = "With -o json, one event per line. `reset` means that events were missed: look again.")]
    Tail {
        /// Only of this project: an id or a name
        #[arg(long)]
        project: Option<String>,
        /// Only these, with commas between: provisioning.active, or provisioning.* for all of a noun
        #[arg(long, value_delimiter = ',', value_name = "TYPES")]
        types: Vec<String>,
        /// Go on after this event: the last `seq` that was seen
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
    },
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::Tail { project, types, after } => {
            let client = session.client()?;
            let mut query = Vec::new();
            if let Some(project) = project {
                query.push(format!("project={}", resolve(&client, Noun::Project, &project).await?));
            }
            if !types.is_empty() {
                query.push(format!("types={}", encode(&types.join(","))));
            }
            let sign = if query.is_empty() { "" } else { "?" };
            let path = format!("/v1/events{sign}{}", query.join("&"));
            follow(session, &path, after, None).await
        }
    }
}
