//! `gpuaas image`: which images slices may be made of. The list is signed here, with the operators' key, and the server
//! only publishes it: whoever takes the server over cannot add an image. Two people at once lose nothing: the second
//! one signs again, on top of the first one's list.

mod file;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use model::api::{CataloguePublish, CatalogueView};
use model::catalogue::{CATALOGUE_TYPE, Catalogue, CatalogueImage};
use model::dsse;
use model::key::SigningKey;
use model::signal::Code;
use model::value::FileName;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::column::{Kind, View, col, extra};
use crate::output::{Done, Format, text};
use crate::session::{Limit, Session};

const LIST: &str = "/v1/images";
const CATALOGUE: &str = "/v1/images/catalogue";
/// How often somebody else may be faster.
const TRIES: usize = 5;

pub(crate) const VIEW: View = View {
    columns: &[
        col("name", "name", Kind::Text),
        col("format", "format", Kind::Text),
        col("size", "size_bytes", Kind::Bytes),
        col("disk", "virtual_size_bytes", Kind::Bytes),
        col("user", "default_username", Kind::Text),
        col("drivers", "driver_strategy", Kind::Text),
        col("served", "served", Kind::Text),
        col("age", "added_at", Kind::Since),
        extra("sha256", "sha256", Kind::Text),
        extra("url", "url", Kind::Text),
        extra("catalogue", "catalogue_version", Kind::Text),
    ],
    key: "name",
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// The images that slices may be made of
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        limit: Limit,
    },
    /// List an image file from now on, or another file under a listed name
    #[command(
        after_help = "The file is read and hashed here; nodes fetch it from the control plane's image directory, so copy\n\
                      it there under its name, or give --url.\n\
                      Example:  gpuaas image add noble.qcow2 --format qcow2 --user ubuntu --key catalogue.key"
    )]
    Add(file::Add),
    /// List an image no longer: nothing new is made of it, what was made of it stays
    #[command(visible_alias = "rm")]
    Remove {
        /// As `gpuaas image list` shows it
        name: FileName,
        /// The operators' key
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List { limit } => session.list(LIST, &[], &limit, &VIEW).await,
        Verb::Add(add) => {
            let key = read_key(add.key())?;
            let image = add.read(clock::now())?;
            let name = image.name.clone();
            let client = session.client()?;
            publish(&client, &key, |images| {
                images.retain(|listed| listed.name != image.name);
                images.push(image.clone());
                Ok(())
            })
            .await?;
            show(session, &name).await
        }
        Verb::Remove { name, key, yes } => {
            session.confirm(yes, &format!("list {} no longer", text::plain(name.as_str())))?;
            let (key, client) = (read_key(&key)?, session.client()?);
            let version = publish(&client, &key, |images| {
                let before = images.len();
                images.retain(|listed| listed.name != name);
                match images.len() < before {
                    true => Ok(()),
                    false => Err(Failure::new(
                        Exit::NotFound,
                        Code::NotFound,
                        format!("there is no image {}", text::plain(name.as_str())),
                    )),
                }
            })
            .await?;
            session
                .out
                .note(&format!("{name} is no longer listed, as of catalogue {version}"))
        }
    }
}

/// The new entry as the server shows it.
async fn show(session: &mut Session, name: &FileName) -> Result<(), Failure> {
    let list = session.client()?.list(LIST, &[], usize::MAX).await?;
    let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    let mine = items.into_iter().find(|image| image["name"] == name.as_str());
    let mine: Vec<Value> = mine.into_iter().collect();
    let unserved = mine
        .iter()
        .any(|image| image["served"] == false && image["url"].is_null());
    if session.out.format == Format::Table && session.out.columns.is_none() {
        let what = match unserved {
            true => format!("{name} is listed and signed"),
            false => format!("{name} is listed and signed: a SKU that names it can be rented with it"),
        };
        session.out.sentence(&Done::of(what).next("gpuaas image list"))?;
    } else {
        session.out.list(&VIEW, &json!({ "items": mine, "next": null }))?;
    }
    if unserved {
        session.out.note(&format!(
            "the control plane's image directory has no file {name} of this size yet; nodes cannot fetch it"
        ))?;
    }
    Ok(())
}

/// Signs and publishes the next catalogue. Its number, if it was taken.
async fn publish(
    client: &Client,
    key: &SigningKey,
    change: impl Fn(&mut Vec<CatalogueImage>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut tries = 0;
    loop {
        let next = next(client, key, &change).await?;
        let document = dsse::sign_json(CATALOGUE_TYPE, &next, &[key]);
        tries += 1;
        match client.post(CATALOGUE, &CataloguePublish { document }).await {
            Ok(_) => return Ok(next.version),
            Err(failure) if failure.code == Code::VersionConflict.as_str() && tries < TRIES => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// On top of the one in force, which has to bear our own signature: nobody else's list is signed unseen.
async fn next(
    client: &Client,
    key: &SigningKey,
    change: impl Fn(&mut Vec<CatalogueImage>) -> Result<(), Failure>,
) -> Result<Catalogue, Failure> {
    let broken = |error: serde_json::Error| Failure::new(Exit::Error, Code::BodyMalformed, error.to_string());
    let now: CatalogueView = serde_json::from_value(client.get(CATALOGUE).await?).map_err(broken)?;
    if now.key != Some(key.keyid()) {
        let code = match now.key {
            Some(_) => Code::CatalogueRejected,
            None => Code::CatalogueKeyMissing,
        };
        let named = now.key.map_or_else(|| "none".to_owned(), |keyid| keyid.to_string());
        let why = format!("this key is {}, and the delegation names {named}", key.keyid());
        return Err(Failure::new(Exit::Conflict, code, why));
    }
    let mut catalogue = match &now.document {
        Some(document) => Catalogue::open(document, Some(key.public()), now.installation)
            .map_err(|code| Failure::new(Exit::Error, code, "the server's catalogue does not bear our signature"))?,
        None => Catalogue::empty(now.installation, clock::now()),
    };
    catalogue.version += 1;
    catalogue.issued_at = clock::now();
    change(&mut catalogue.images)?;
    catalogue.images.sort_by(|one, other| one.name.cmp(&other.name));
    catalogue.check().map_err(Failure::usage)?;
    Ok(catalogue)
}

fn read_key(path: &Path) -> Result<SigningKey, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    SigningKey::from_text(&text).map_err(|error| wrong(error.to_string()))
}
