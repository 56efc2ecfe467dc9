//! `gpuaas sku`: what can be rented. A new price is for whoever comes from now on.

use std::path::PathBuf;

use clap::Subcommand;
use model::api::{SkuChange, SkuCreate, SkuPrice};
use model::value::FileName;

use crate::failure::Failure;
use crate::ids::{Noun, resolve};
use crate::output::column::{Kind, View, col, extra, find, piped};
use crate::output::{Done, money, text};
use crate::session::{Limit, Session};

pub(crate) const VIEW: View = View {
    columns: &[
        col("id", "id", Kind::Id),
        col("name", "name", Kind::Text),
        col("kind", "kind", Kind::Text),
        col("gpu", "gpu_model", Kind::Text),
        col("gpus", "gpu_count", Kind::Text),
        col("vcpus", "vcpu", Kind::Text),
        col("memory", "memory_mib", Kind::Mib),
        col("price", "price_micro_per_hour", Kind::Price),
        piped("currency", "currency", Kind::Text),
        col("free", "free", Kind::Text),
        extra("images", "images", Kind::Text),
        extra("slots", "slots", Kind::Text),
        extra("nvme_gib", "nvme_gib", Kind::Text),
        extra("fabric", "fabric", Kind::Text),
        extra("visible", "visible", Kind::Text),
        extra("version", "version", Kind::Text),
        extra("age", "created_at", Kind::Since),
    ],
    key: "id",
};

const EXAMPLE: &str = r#"Example:  gpuaas sku create slice.json   with this in slice.json, for one GPU at 2.00 USD an hour:
  {
    "name": "slice.h100.1", "kind": "slice", "gpu_model": "H100", "gpu_count": 1, "slots": 1,
    "vcpu": 12, "memory_mib": 65536, "nvme_gib": 3500, "fabric": true, "images": ["ubuntu-24.04.raw"],
    "price_micro_per_hour": 2000000, "currency": "USD"
  }
A slot fits if it has at least as much; see `gpuaas node slots`. Images stand in `gpuaas image list`."#;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// What there is
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        limit: Limit,
    },
    /// One SKU with its images
    Show {
        /// An id or a name
        sku: String,
    },
    /// Put something into the catalogue (operators)
    #[command(after_help = EXAMPLE)]
    Create {
        /// A JSON document of the form that the API takes
        file: PathBuf,
    },
    /// Take it out of sale or put it back (operators); what is rented already goes on
    #[command(
        group = clap::ArgGroup::new("changes").required(true).multiple(true),
        after_help = "Example:  gpuaas sku update slice.h100.1 --hide"
    )]
    Update {
        /// An id or a name
        sku: String,
        /// Nobody sees it any more who rents, and nobody gets a new one
        #[arg(long, group = "changes", conflicts_with = "show")]
        hide: bool,
        /// It can be rented again
        #[arg(long, group = "changes")]
        show: bool,
        /// The images that there are from now on, the first one unless told; several with commas
        #[arg(long, value_name = "IMAGE", value_delimiter = ',', group = "changes")]
        images: Option<Vec<FileName>>,
    },
    /// A new price for whoever comes from now on (finance)
    Price {
        /// An id or a name
        sku: String,
        /// In its currency, for an hour: 3, 3.00, 0.125
        #[arg(value_parser = money::parse)]
        price: u64,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

pub(crate) async fn run(verb: Verb, session: &mut Session) -> Result<(), Failure> {
    match verb {
        Verb::List { limit } => session.list(Noun::Sku.path(), &[], &limit, &VIEW).await,
        Verb::Show { sku } => {
            let client = session.client()?;
            let id = resolve(&client, Noun::Sku, &sku).await?;
            let document = client.get(&format!("{}/{id}", Noun::Sku.path())).await?;
            session.out.record(&VIEW, &document)
        }
        Verb::Create { file } => {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
            let body: SkuCreate = serde_json::from_str(&text)
                .map_err(|error| Failure::usage(format!("{} is no SKU: {error}", file.display())))?;
            let made = session.client()?.post(Noun::Sku.path(), &body).await?;
            let word = |place: &str| text::plain(find(&made, place).as_str().unwrap_or_default());
            let price = find(&made, "price_micro_per_hour").as_u64().unwrap_or_default();
            let (name, price) = (word("name"), money::per_hour(price, &word("currency")));
            let done = Done::of(format!("{name} is in the catalogue, for {price}"));
            let done = done.next(format!("gpuaas allocation create --sku {name} --wait"));
            session.out.told(&VIEW, &made, &done)
        }
        Verb::Update {
            sku,
            hide,
            show,
            images,
        } => {
            let visible = (hide || show).then_some(show);
            update(session, &sku, SkuChange { visible, images }).await
        }
        Verb::Price { sku, price, yes } => reprice(session, &sku, price, yes).await,
    }
}

async fn reprice(session: &mut Session, typed: &str, micro: u64, yes: bool) -> Result<(), Failure> {
    let client = session.client()?;
    let id = resolve(&client, Noun::Sku, typed).await?;
    let path = format!("{}/{id}", Noun::Sku.path());
    let before = client.get(&path).await?;
    let word = |place: &str| text::plain(find(&before, place).as_str().unwrap_or_default());
    let old = find(&before, "price_micro_per_hour").as_u64().unwrap_or_default();
    let (name, new) = (word("name"), money::per_hour(micro, &word("currency")));
    let change = format!("{} → {new}", money::amount(old));
    session.confirm(
        yes,
        &format!("change the price of {name} for whoever comes from now on: {change}"),
    )?;
    let body = SkuPrice {
        price_micro_per_hour: micro,
    };
    let document = client.post(&format!("{path}/price"), &body).await?;
    let done = Done::of(format!("{name}: {change}, for whoever comes from now on"));
    session.out.told(&VIEW, &document, &done)
}

async fn update(session: &mut Session, typed: &str, change: SkuChange) -> Result<(), Failure> {
    let client = session.client()?;
    let id = resolve(&client, Noun::Sku, typed).await?;
    let path = format!("{}/{id}", Noun::Sku.path());
    let before = client.get(&path).await?;
    let document = client.patch(&path, &before, &change).await?;
    let name = text::plain(find(&document, "name").as_str().unwrap_or_default());
    let mut is_now = Vec::new();
    match change.visible {
        Some(true) => is_now.push("it can be rented again".to_owned()),
        Some(false) => is_now.push("nobody can rent it any more; what is rented goes on".to_owned()),
        None => {}
    }
    if let Some(images) = &change.images {
        let images: Vec<String> = images.iter().map(ToString::to_string).collect();
        is_now.push(format!("it boots {} from now on", images.join(", ")));
    }
    let done = Done::of(format!("{name}: {}", is_now.join("; ")));
    session.out.told(&VIEW, &document, &done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_help_is_a_sku() {
        let (begin, end) = (EXAMPLE.find('{'), EXAMPLE.rfind('}'));
        let json = EXAMPLE.get(begin.expect("a document")..=end.expect("its end"));
        let sku: SkuCreate = serde_json::from_str(json.expect("both")).expect("of the form that the API takes");
        assert!(EXAMPLE.contains(&money::per_hour(sku.price_micro_per_hour, "USD an hour").replace("/h", "")));
    }
}
