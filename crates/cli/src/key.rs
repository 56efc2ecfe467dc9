//! `gpuaas key`: the SSH keys that your machines let in.

use std::path::PathBuf;

use clap::Subcommand;
use model::api::KeyCreate;
use serde_json::Value;

use crate::failure::Failure;
use crate::ids::{Noun, resolve};
use crate::output::column::{Kind, View, col};
use crate::output::{Done, text};
use crate::session::Session;
use crate::token::done;

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Text),
        col("key", "public_key", Kind::Text),
        col("age", "created_at", Kind::Since),
    ],
    key: "id",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Your keys
    #[command(visible_alias = "ls")]
    List,
    /// Store a public key
    Add {
        /// To recognise it by
        name: String,
        /// A public key file, such as ~/.ssh/id_ed25519.pub
        file: PathBuf,
    },
    /// Forget a key; machines that were made with it keep it
    #[command(visible_alias = "rm")]
    Remove {
        /// An id or a name
        key: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    let client = session.client()?;
    match verb {
        Verb::List => {
            let document = client.get(Noun::Key.path()).await?;
            session.out.list(&VIEW, &document)
        }
        Verb::Add { name, file } => {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
            let public_key = text.trim().parse();
            let public_key =
                public_key.map_err(|error| Failure::usage(format!("{} is no public key: {error}", file.display())))?;
            let made = client.post(Noun::Key.path(), &KeyCreate { name, public_key }).await?;
            let name = text::plain(made.get("name").and_then(Value::as_str).unwrap_or_default());
            let done = Done::of(format!("key {name} is stored: what you rent from now on lets it in"));
            session.out.told(&VIEW, &made, &done)
        }
        Verb::Remove { key, yes } => {
            let id = resolve(&client, Noun::Key, &key).await?;
            session.confirm(yes, &format!("forget the key {}", text::plain(&key)))?;
            let keys = client.get(Noun::Key.path()).await?;
            let all = keys
                .get("items")
                .and_then(Value::as_array)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let seen = all
                .iter()
                .find(|one| one.get("id").and_then(Value::as_str) == Some(&id));
            let path = format!("{}/{id}", Noun::Key.path());
            let answer = client.delete(&path, seen.unwrap_or(&Value::Null)).await?;
            done(session, &id, "forgotten", &answer)
        }
    }
}
