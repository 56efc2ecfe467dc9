//! `gpuaas auth`: keep a token for a server, say who it makes you, forget it. The token comes from stdin and never
//! from the command line, where others could read it.

use std::io::{BufRead, Read};

use clap::Subcommand;
use model::signal::Code;

use crate::client::Client;
use crate::config::{Credentials, Source, Sourced};
use crate::failure::{Exit, Failure};
use crate::output::column::{Kind, View, extra};
use crate::output::text;
use crate::secret::Secret;
use crate::session::Session;

pub(crate) const VIEW: View = View {
    columns: &[
        extra("user", "user", Kind::Text),
        extra("user_id", "user_id", Kind::Id),
        extra("token_id", "token_id", Kind::Id),
        extra("scopes", "scopes", Kind::Text),
        extra("expires", "expires_at", Kind::Until),
    ],
    key: "user_id",
};

/// Longer than any token of ours.
const LONGEST: u64 = 4096;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Who you are to the server; exit 4 if nobody
    Status,
    /// Keep a token for a server, after trying it
    #[command(after_help = "Example:  gpuaas auth login --with-token --url https://gpu.example < token.txt")]
    Login {
        /// Read the token from stdin
        #[arg(long, required = true)]
        with_token: bool,
    },
    /// Forget the kept token of this profile; it stays valid until it is revoked or expires
    Logout,
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::Status => {
            let client = session.client()?;
            let me = client.get("/v1/me").await?;
            session.out.record(&VIEW, &me)?;
            let from = session
                .settings
                .token
                .as_ref()
                .map(|token| token.from.to_string())
                .unwrap_or_default();
            session.out.note(&format!("at {}, token from {from}", client.base()))
        }
        Verb::Login { with_token: _ } => login(session).await,
        Verb::Logout => {
            let store = Credentials::at(&session.settings.config_dir.value);
            let there = store.forget(&session.settings.profile.value)?;
            session.out.note(if there {
                "forgotten here; revoke it by `gpuaas token remove` if nobody should use it"
            } else {
                "nobody was logged in"
            })
        }
    }
}

async fn login(session: &mut Session) -> Result<(), Failure> {
    if session
        .settings
        .token
        .as_ref()
        .is_some_and(|token| matches!(token.from, Source::Env(_)))
    {
        return Err(Failure::new(
            Exit::Conflict,
            Code::StateConflict,
            "GPUAAS_TOKEN is set and would win over the login",
        )
        .hint("unset GPUAAS_TOKEN"));
    }
    if session.out.tty().stdin {
        session.out.note("Paste the token, then press Enter.")?;
    }
    let mut token = String::new();
    (&mut session.out.env.stdin).take(LONGEST).read_line(&mut token)?;
    let token = token.trim().to_owned();
    if token.is_empty() {
        return Err(Failure::usage("no token on stdin"));
    }
    session.settings.token = Some(Sourced {
        value: Secret::new(token.clone()),
        from: Source::Login,
    });
    // A fresh client, with the token that was just given.
    let client = Client::new(&session.settings)?;
    let me = client.get("/v1/me").await?;
    let store = Credentials::at(&session.settings.config_dir.value);
    let profile = session.settings.profile.value.clone();
    store.keep(&profile, client.base(), Secret::new(token))?;
    session.out.record(&VIEW, &me)?;
    session.out.note(&format!(
        "logged in to {}; the token is kept in {} (a file that only you can read, not a keyring)",
        text::plain(client.base()),
        store.path().display()
    ))
}
