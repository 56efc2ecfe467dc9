//! `gpuaas auth`: become somebody to a server, say who that is, stop being it. Signing in happens at the server's identity
//! provider, in a browser here or on another machine; what is kept is a token of the server's own. A token that exists
//! already comes from stdin and never from the command line, where others could read it.

mod device;
mod loopback;
mod provider;

use std::io::{BufRead, Read};
use std::time::Duration;

use clap::Subcommand;
use model::api::{Scope, SignInView, TokenCreate, Via, WhoAmI};
use model::signal::Code;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::Client;
use crate::config::{Credentials, Source, Sourced};
use crate::failure::{Exit, Failure};
use crate::output::column::{Kind, View, extra};
use crate::output::text;
use crate::secret::Secret;
use crate::session::Session;
use provider::Provider;

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
/// How long a sign-in lasts.
const DAYS: u32 = 7;
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Who you are to the server; exit 4 if nobody
    Status,
    /// Sign in, or keep a token that you have; the server's token is tried before it is kept
    #[command(after_help = "Examples:\n  gpuaas auth login --url https://gpu.example\n  \
                            gpuaas auth login --with-token --url https://gpu.example < token.txt\n  \
                            gpuaas auth login --profile lab --url https://lab.example")]
    Login {
        /// Read a token from stdin instead of signing in
        #[arg(long, conflicts_with = "device")]
        with_token: bool,
        /// Sign in with a browser on another machine; so without asking over SSH
        #[arg(long)]
        device: bool,
    },
    /// End the kept token of this profile and forget it
    Logout,
    /// Print the token in use, for other programs
    Token,
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
            let project = session.settings.project.as_ref();
            let project = project.map(|one| format!(", project {} from {}", text::plain(&one.value), one.from));
            session.out.note(&format!(
                "at {}, token from {from}{}",
                client.base(),
                project.unwrap_or_default()
            ))
        }
        Verb::Login { with_token, device } => login(session, with_token, device).await,
        Verb::Logout => logout(session).await,
        Verb::Token => {
            let token = session
                .settings
                .token
                .as_ref()
                .map(|token| token.value.expose().to_owned());
            let token = token.ok_or_else(|| Failure::new(Exit::Login, Code::Unauthenticated, "not logged in"))?;
            session.out.line(&token)
        }
    }
}

async fn login(session: &mut Session, with_token: bool, device: bool) -> Result<(), Failure> {
    let shadow = session.settings.token.as_ref();
    if shadow.is_some_and(|token| matches!(token.from, Source::Env(_))) {
        return Err(Failure::new(
            Exit::Conflict,
            Code::StateConflict,
            "GPUAAS_TOKEN is set and would win over the login",
        )
        .hint("unset GPUAAS_TOKEN"));
    }
    let token = match with_token {
        true => given(session)?,
        false => signed_in(session, device).await?,
    };
    let client = as_bearer(session, &token)?;
    let me = client.get("/v1/me").await?;
    let store = Credentials::at(&session.settings.config_dir.value);
    let profile = session.settings.profile.value.clone();
    store.keep(&profile, client.base(), Secret::new(token))?;
    session.out.record(&VIEW, &me)?;
    if profile != crate::config::DEFAULT_PROFILE {
        session.out.note(&format!(
            "as profile {0}; use it with --profile {0}",
            text::plain(&profile)
        ))?;
    }
    session.out.note(&format!(
        "logged in to {}; the token is kept in {} (a file that only you can read, not a keyring)",
        text::plain(client.base()),
        store.path().display()
    ))
}

fn given(session: &mut Session) -> Result<String, Failure> {
    if session.out.tty().stdin {
        session.out.note("Paste the token, then press Enter.")?;
    }
    let mut token = String::new();
    (&mut session.out.env.stdin).take(LONGEST).read_line(&mut token)?;
    let token = token.trim().to_owned();
    if token.is_empty() {
        return Err(Failure::usage("no token on stdin"));
    }
    Ok(token)
}

/// Signs in at the provider, and trades its word for a token of the server's own.
async fn signed_in(session: &mut Session, device: bool) -> Result<String, Failure> {
    session.settings.token = None;
    let stranger = Client::new(&session.settings)?;
    let view: SignInView = typed(stranger.get_public("/v1/auth", PATIENCE).await?)?;
    let provider = Provider::find(&session.settings, &view).await?;
    let remote = ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"]
        .iter()
        .any(|name| session.out.env.vars.get(*name).is_some_and(|value| !value.is_empty()));
    let access = match device || (remote && provider.has_devices()) {
        true => device::sign_in(session, &provider).await?,
        false => loopback::sign_in(session, &provider).await?,
    };
    let client = as_bearer(session, &access)?;
    let me: WhoAmI = typed(client.get("/v1/me").await?)?;
    let wish = TokenCreate {
        name: format!("sign-in of {}", me.user.chars().take(50).collect::<String>()),
        scopes: match me.scopes.contains(&Scope::Admin) {
            // It covers the others, also those of a later release.
            true => vec![Scope::Admin],
            false => me.scopes,
        },
        days: DAYS,
    };
    let made = client.post("/v1/tokens", &wish).await?;
    let secret = made.get("secret").and_then(Value::as_str).map(str::to_owned);
    secret.ok_or_else(|| Failure::new(Exit::Error, Code::BodyMalformed, "the server made no token"))
}

/// A fresh client, with the token that was just given.
fn as_bearer(session: &mut Session, token: &str) -> Result<Client, Failure> {
    session.settings.token = Some(Sourced {
        value: Secret::new(token.to_owned()),
        from: Source::Login,
    });
    Client::new(&session.settings)
}

fn typed<T: DeserializeOwned>(document: Value) -> Result<T, Failure> {
    serde_json::from_value(document).map_err(|_| {
        Failure::new(
            Exit::Error,
            Code::BodyMalformed,
            "the server's answer has another shape",
        )
    })
}

async fn logout(session: &mut Session) -> Result<(), Failure> {
    let store = Credentials::at(&session.settings.config_dir.value);
    let kept = session
        .settings
        .token
        .as_ref()
        .is_some_and(|token| token.from == Source::Login);
    let ended = match kept {
        true => end(session).await,
        false => Ok(()),
    };
    // Forgotten here in any case: whoever logs out of a dead server wants to be out.
    let there = store.forget(&session.settings.profile.value)?;
    match ended {
        _ if !there => session.out.note("nobody was logged in"),
        Ok(()) => session.out.note("logged out; the token opens nothing any more"),
        Err(failure) => session.out.note(&format!(
            "forgotten here, but the server could not be told: {}; it ends by itself, or by `gpuaas token remove`",
            text::plain(&failure.message)
        )),
    }
}

/// A token that opens nothing any more needs no end.
async fn end(session: &mut Session) -> Result<(), Failure> {
    let client = session.client()?;
    let me: WhoAmI = match client.get("/v1/me").await {
        Ok(me) => typed(me)?,
        Err(failure) if failure.exit == Exit::Login => return Ok(()),
        Err(failure) => return Err(failure),
    };
    match me.via {
        Via::Token => {
            let path = format!("/v1/tokens/{}/revoke", me.token_id);
            client.post(&path, &json!({})).await.map(drop)
        }
        Via::Session | Via::Provider => Ok(()),
    }
}
