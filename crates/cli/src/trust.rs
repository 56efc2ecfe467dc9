//! `gpuaas trust`: the keys that sign tasks. Shows what signs, what stands by and who knows it; replaces keys in good
//! order, or at once. Revoking asks first and wants a reason, which the audit log keeps.

use clap::{Subcommand, ValueEnum};
use model::api::{TrustDelegate, TrustRevoke, TrustRotate};
use model::dsse::Envelope;
use model::key::KeyId;
use model::signal::Code;
use model::trust::Purpose;
use serde_json::{Value, json};

use crate::client::{Client, encode};
use crate::failure::{Exit, Failure};
use crate::output::column::{Kind, View, col, extra, find};
use crate::output::text;
use crate::output::{Done, Format};
use crate::session::Session;

const PATH: &str = "/v1/trust";

pub(crate) const KEYS: View = View {
    columns: &[
        col("purpose", "purpose", Kind::Text),
        col("keyid", "keyid", Kind::Text),
        col("status", "status", Kind::Text),
        col("for", "since", Kind::Since),
        col("ends", "not_after", Kind::Until),
        col("known_by", "known_by", Kind::Text),
        col("nodes", "nodes", Kind::Text),
        extra("added_in", "added_in", Kind::Text),
    ],
    key: "keyid",
};

pub(crate) const DOCUMENTS: View = View {
    columns: &[
        extra("manifest", "manifest.version", Kind::Text),
        extra("manifest_age", "manifest.issued_at", Kind::Since),
        extra("manifest_ends", "manifest.expires_at", Kind::Until),
        extra("delegation", "delegation.version", Kind::Text),
        extra("delegation_ends", "delegation.expires_at", Kind::Until),
        extra("manifest_key", "delegation.manifest_key", Kind::Text),
        extra("roots", "delegation.roots", Kind::Text),
        extra("threshold", "delegation.threshold", Kind::Text),
        extra("nodes", "nodes", Kind::Text),
    ],
    key: "manifest.version",
};

pub(crate) const BEHIND: View = View {
    columns: &[
        col("node", "name", Kind::Text),
        col("state", "state", Kind::Text),
        col("manifest", "manifest_version", Kind::Text),
        col("seen", "last_seen_at", Kind::Since),
        col("why", "reason", Kind::Text),
        extra("id", "node_id", Kind::Id),
    ],
    key: "node_id",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// The signing keys: which sign, which stand by, how many nodes know them, and what waits
    Show,
    /// Let the standby keys take over; waits for nodes that do not know them yet
    #[command(
        after_help = "The rotation is finished by the server when the last node that counts has the next key:\n\
                      quarantined nodes and those silent for a day do not count.\n\
                      Example:  gpuaas trust rotate diag"
    )]
    Rotate {
        /// Only these: slice, allocation, terminal, oci or diag; all of them if none is named
        #[arg(value_enum)]
        purposes: Vec<Word>,
        /// Wait for nobody: nodes that are behind learn the key with their next request
        #[arg(long)]
        now: bool,
        /// Why, for the audit log
        #[arg(long)]
        reason: Option<String>,
        /// Do not ask (only --now asks)
        #[arg(long, short)]
        yes: bool,
    },
    /// End a key at once: its standby signs from now on, what it had signed and nobody began is issued again
    #[command(after_help = "Example:  gpuaas trust revoke 0a1b2c --reason 'laptop was stolen'")]
    Revoke {
        /// The key's id, or its first six or more characters
        keyid: String,
        /// Why, for the audit log
        #[arg(long)]
        reason: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Install a delegation that the roots have signed, as `gpuaasd trust delegate` writes it
    Delegate {
        /// The signed file
        file: std::path::PathBuf,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// A purpose as it is typed.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Word {
    Slice,
    Allocation,
    Terminal,
    Oci,
    Diag,
}

impl From<Word> for Purpose {
    fn from(word: Word) -> Self {
        match word {
            Word::Slice => Self::Slice,
            Word::Allocation => Self::Allocation,
            Word::Terminal => Self::Terminal,
            Word::Oci => Self::Oci,
            Word::Diag => Self::Diag,
        }
    }
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    let (trust, done) = match verb {
        Verb::Show => {
            let trust = session.client()?.get(PATH).await?;
            return show(session, &trust);
        }
        Verb::Rotate {
            purposes,
            now,
            reason,
            yes,
        } => {
            if now {
                session.confirm(yes, "replace signing keys without waiting for nodes that are behind")?;
            }
            let purposes = purposes.into_iter().map(Purpose::from).collect();
            let body = TrustRotate { purposes, now, reason };
            let trust = session.client()?.post(&format!("{PATH}/rotate"), &body).await?;
            let waits = find(&trust, "rotations").as_array().is_some_and(|all| !all.is_empty());
            let done = match waits {
                true => "the rotation waits for nodes that do not know the next key yet, and goes on by itself",
                false => "the keys are replaced: their standbys sign from now on",
            };
            (trust, done.to_owned())
        }
        Verb::Revoke { keyid, reason, yes } => {
            let client = session.client()?;
            let keyid = whole(&client, &keyid).await?;
            session.confirm(yes, &format!("revoke the signing key {} now", text::plain(&keyid)))?;
            let path = format!("{PATH}/keys/{}/revoke", encode(&keyid));
            let trust = client.post(&path, &TrustRevoke { reason }).await?;
            let done = format!("key {} is revoked: its standby signs from now on", text::plain(&keyid));
            (trust, done)
        }
        Verb::Delegate { file, yes } => {
            let wrong = |why: String| Failure::usage(format!("{}: {why}", file.display()));
            let bytes = std::fs::read(&file).map_err(|error| wrong(error.to_string()))?;
            let delegation = Envelope::parse(&bytes).map_err(|code| wrong(code.meaning().to_owned()))?;
            session.confirm(yes, "change who may sign for this installation")?;
            let body = TrustDelegate { delegation };
            let trust = session.client()?.post(&format!("{PATH}/delegation"), &body).await?;
            (
                trust,
                "the delegation is in force: nodes learn of it with their next request".to_owned(),
            )
        }
    };
    if session.out.format == Format::Table && session.out.columns.is_none() {
        return session.out.sentence(&Done::of(done).next("gpuaas trust show"));
    }
    show(session, &trust)
}

/// The key that was meant; a beginning is enough where only one key begins so.
async fn whole(client: &Client, typed: &str) -> Result<String, Failure> {
    let trust = client.get(PATH).await?;
    let keys = find(&trust, "keys.keyid");
    let known: Vec<&str> = keys
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let begin: Vec<&str> = known.into_iter().filter(|id| id.starts_with(typed)).collect();
    match begin.as_slice() {
        [only] if typed.len() >= 6 => Ok((*only).to_owned()),
        [] if typed.parse::<KeyId>().is_ok() => Ok(typed.to_owned()),
        [] => Err(Failure::new(
            Exit::NotFound,
            Code::NotFound,
            format!("no key begins with {:?}", text::plain(typed)),
        )
        .hint("`gpuaas trust show` lists them")),
        _ => Err(
            Failure::usage(format!("{:?} is not enough to tell the keys apart", text::plain(typed)))
                .hint("`gpuaas trust show` lists them whole"),
        ),
    }
}

/// People see documents, keys, waits and warnings; programs the keys, or everything as JSON.
fn show(session: &mut Session, trust: &Value) -> Result<(), Failure> {
    let keys = json!({ "items": find(trust, "keys"), "next": null });
    match session.out.format {
        Format::Json => return session.out.json(trust),
        Format::Tsv | Format::Name => return session.out.list(&KEYS, &keys),
        Format::Table => {}
    }
    if session.out.columns.is_none() {
        session.out.record(&DOCUMENTS, trust)?;
        session.out.line("")?;
    }
    session.out.list(&KEYS, &keys)?;
    for rotation in find(trust, "rotations").as_array().into_iter().flatten() {
        let purpose = text::plain(find(rotation, "purpose").as_str().unwrap_or_default());
        session.out.line(&format!("\nrotation of {purpose}:"))?;
        session.out.waiting(rotation)?;
        let nodes = json!({ "items": find(rotation, "nodes"), "next": null });
        if session.out.columns.is_none() {
            session.out.list(&BEHIND, &nodes)?;
        }
    }
    for warning in find(trust, "warnings").as_array().into_iter().flatten() {
        let word = |name: &str| text::plain(find(warning, name).as_str().unwrap_or_default());
        let line = format!(
            "warning[{}]: {}\n    try: {}",
            word("code"),
            word("message"),
            word("verb")
        );
        session.out.note(&line)?;
    }
    Ok(())
}
