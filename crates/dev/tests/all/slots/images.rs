//! Images on their way from an operator's directory to a slice: listed by a signature, fetched over real connections
//! by a real agent, hashed by a real executor. Only the host below is pretended.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base::testing::eventually;
use dev::dice::Dice;
use dev::images::Operators;
use dev::proxy::{Policy, Proxy, Side, Speech};
use dev::simnode::SimNode;
use dev::slots::approve_all;
use model::api::{CataloguePublish, CatalogueView, ImageView, Page, TaskView};
use model::catalogue::{CATALOGUE_TYPE, Catalogue, CatalogueImage};
use model::digest::Sha256;
use model::dsse;
use model::key::SigningKey;
use model::node_api::Progress;
use model::state::TaskState;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

use super::renter::Renter;
use super::*;

const PIECE: usize = 2 << 20;

fn operators(town: &Town) -> (PathBuf, model::time::Timestamp) {
    (town.dir().join("keys"), town.db.clock().now())
}

/// Puts a file there and lists it.
async fn list(town: &Town, name: &str, bytes: &[u8]) -> CatalogueImage {
    let (keys_dir, now) = operators(town);
    let operators = Operators {
        keys_dir: &keys_dir,
        now,
    };
    let image = operators.file(name, bytes).expect("a file");
    operators.list(&town.api(), &image).await.expect("listed");
    image
}

/// Every piece another one.
fn noise(length: usize) -> Vec<u8> {
    let words = (0..length as u64 / 8).flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    words.collect()
}

async fn ended(town: &Town, task: model::id::TaskId) -> TaskView {
    town.until_task(task, TaskState::is_end).await
}

async fn slices(town: &Town) -> (NodeId, SimNode) {
    let (node, sim) = town.node_for("a", Profile::H100x8, NodeMode::Slice).await;
    approve_all(&town.api(), node).await.expect("slots");
    (node, sim)
}

fn staged(sim: &SimNode, image: &CatalogueImage) -> PathBuf {
    sim.dir.agent().join("images").join(image.sha256.to_string())
}

fn length(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

#[tokio::test]
async fn an_image_is_listed_fetched_used_and_removed() {
    let town = town().await;
    let (node, mut sim) = slices(&town).await;
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");

    // Nobody has signed it yet.
    let (keys_dir, now) = operators(&town);
    let operators = Operators {
        keys_dir: &keys_dir,
        now,
    };
    let image = operators.file("debian.raw", &noise(2 * PIECE + 4096)).expect("a file");
    let unlisted = renter.provisions_of(node, &rented, &image).await;
    assert_eq!(unlisted.expect_err("not listed"), Code::ImageNotListed);

    let view = operators.list(&town.api(), &image).await.expect("listed");
    assert_eq!(view.version, 1);
    let shown: Page<ImageView> = town.api().get("/v1/images").await.expect("a list");
    assert_eq!(shown.items.len(), 1);
    assert!(shown.items[0].served && shown.items[0].image == image);

    let task = renter.provisions_of(node, &rented, &image).await.expect("a task");
    let view = ended(&town, task).await;
    assert_eq!(view.state, TaskState::Succeeded, "{:?} {:?}", view.code, view.detail);
    eventually("what was fetched is handed over and gone", async || {
        match staged(&sim, &image).exists() {
            true => Err("still there"),
            false => Ok(()),
        }
    })
    .await;

    // Removed: what is stored on the node helps nobody any more.
    let empty = operators
        .sign(&town.api(), |next| next.images.clear())
        .await
        .expect("signed");
    let _: CatalogueView = town
        .api()
        .post("/v1/images/catalogue", &CataloguePublish { document: empty })
        .await
        .expect("published");
    fleet::image::follow(&fleet).await.expect("follows");
    let again = Renter::new(&fleet);
    let rented = again.reserves(1).await.expect("a slot");
    let removed = again.provisions_of(node, &rented, &image).await;
    assert_eq!(removed.expect_err("removed"), Code::ImageNotListed);
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
    town.end().await;
}

/// What an operator types, and what comes of it.
async fn types(town: &Town, words: &str) -> (u8, String) {
    let api = town.api();
    let home = town.dir().display().to_string();
    let vars = [
        ("GPUAAS_URL", api.url()),
        ("GPUAAS_TOKEN", api.token()),
        ("HOME", &home),
    ];
    let (env, captured) = cli::Env::captured(vars);
    let exit = cli::run(["gpuaas"].into_iter().chain(words.split(' ')), env).await;
    (exit, captured.stdout() + &captured.stderr())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_adds_by_command_is_what_slices_are_made_of() {
    let town = town().await;
    let (node, mut sim) = slices(&town).await;
    let (keys_dir, now) = operators(&town);
    let operators = Operators {
        keys_dir: &keys_dir,
        now,
    };
    let image = operators.file("typed.raw", &noise(PIECE + 4096)).expect("a file");
    let file = dev::platform::images_dir(&keys_dir).join("typed.raw");
    let key = keys_dir.join("catalogue.key");
    let (file, key) = (file.display(), key.display());
    let add = format!("image add {file} --format raw --user ada --key {key}");
    let (exit, said) = types(&town, &add).await;
    assert!(exit == 0 && said.contains("typed.raw"), "{said}");
    let (exit, said) = types(&town, "image list").await;
    assert!(exit == 0 && said.contains("typed.raw"), "{said}");

    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    let task = renter.provisions_of(node, &rented, &image).await.expect("a task");
    let view = ended(&town, task).await;
    assert_eq!(view.state, TaskState::Succeeded, "{:?} {:?}", view.code, view.detail);

    let (exit, said) = types(&town, &format!("image remove typed.raw --key {key} --yes")).await;
    assert_eq!(exit, 0, "{said}");
    fleet::image::follow(&fleet).await.expect("follows");
    let again = Renter::new(&fleet);
    let rented = again.reserves(1).await.expect("a slot");
    let removed = again.provisions_of(node, &rented, &image).await;
    assert_eq!(removed.expect_err("removed"), Code::ImageNotListed);
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
    town.end().await;
}

#[tokio::test]
async fn a_fetch_outlives_cut_connections_and_a_killed_agent_and_a_torn_file() {
    let town = town().await;
    let (node, sim) = slices(&town).await;
    let image = list(&town, "large.raw", &noise(12 * PIECE)).await;
    let (tracker, stop) = (TaskTracker::new(), Stop::new());
    let target: SocketAddr = town
        .platform
        .node_url
        .trim_start_matches("https://")
        .parse()
        .expect("an address");
    let targets = Arc::new(move || vec![target]);
    let proxy = Proxy::start(Speech::Tls, targets, Dice::new(7), &tracker, &stop)
        .await
        .expect("a proxy");
    // No connection carries more than a piece and a half.
    let bytes = PIECE as u64 * 3 / 2;
    proxy.set(Policy::ResetAfter {
        from: Side::Server,
        bytes,
    });
    sim.dir.dial_by(proxy.address).expect("told");
    sim.agent.replace();

    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    let task = renter.provisions_of(node, &rented, &image).await.expect("a task");
    let path = staged(&sim, &image);
    eventually("some of it has come, and a connection was cut", async || {
        match (length(&path), proxy.counts().resets) {
            (1.., 1..) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    let sim = tokio::task::spawn_blocking(move || {
        sim.agent.hold();
        sim
    });
    let mut sim = sim.await.expect("held");
    let had = length(&path);
    assert!((1..image.size_bytes).contains(&had), "killed in the middle: {had}");

    // What a crash of the machine could leave: the right length, and other bytes.
    let mut torn = std::fs::read(&path).expect("readable");
    torn[100] ^= 1;
    std::fs::write(&path, torn).expect("written");
    proxy.set(Policy::Pass);
    sim.agent.release();
    let view = ended(&town, task).await;
    assert_eq!(view.state, TaskState::Succeeded, "{:?} {:?}", view.code, view.detail);
    // Both tries were looked at: the first went on from the torn piece, the second began anew.
    let touches = std::fs::read_to_string(sim.dir.host().join("touches.jsonl")).expect("touches");
    let adopted = touches.lines().filter(|line| line.contains("\"adopt\"")).count();
    assert_eq!(adopted, 2, "{touches}");
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
    stop.trigger();
    tracker.close();
    tracker.wait().await;
    town.end().await;
}

#[tokio::test]
async fn abuse_17_a_file_that_was_changed_after_it_was_listed_is_refused() {
    let town = town().await;
    let (node, mut sim) = slices(&town).await;
    let mut bytes = noise(PIECE);
    let image = list(&town, "changed.raw", &bytes).await;
    bytes[PIECE - 1] ^= 1;
    std::fs::write(town.dir().join("images/changed.raw"), &bytes).expect("changed");
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    let task = renter.provisions_of(node, &rented, &image).await.expect("a task");
    let view = ended(&town, task).await;
    assert_eq!(
        (view.state, view.code),
        (TaskState::Failed, Some(Code::ImageDigestMismatch))
    );
    // Nothing was written, so that the slot is free again without a wipe.
    assert!(states(&slots(&town, node).await).contains(&SlotState::Free));
    let proof = slot(&town, rented[0].slot_id).await;
    assert_eq!((proof.quarantine, proof.dirty_op), (None, None));
    tokio::task::spawn_blocking(move || sim.stop()).await.expect("stops");
    town.end().await;
}

#[tokio::test]
async fn abuse_17_only_the_operators_key_lists_images_and_two_operators_lose_nothing() {
    let town = town().await;
    let first = list(&town, "one.raw", b"one").await;
    let api = town.api();
    let (keys_dir, now) = operators(&town);
    let operators = Operators {
        keys_dir: &keys_dir,
        now,
    };
    let publish = async |document| -> Result<CatalogueView, Code> {
        let answer = api.post("/v1/images/catalogue", &CataloguePublish { document }).await;
        answer.map_err(|error| code(&error))
    };
    // An administrator's token is not the operators' key, and neither is any key of the server.
    let good = operators.sign(&api, |next| next.images.clear()).await.expect("signed");
    let next: Catalogue = dsse::parse_payload(&good.payload_unverified().expect("base64")).expect("a catalogue");
    let manifest_key = std::fs::read_to_string(keys_dir.join("manifest.key")).expect("a key");
    let manifest_key = SigningKey::from_text(&manifest_key).expect("a key");
    for key in [SigningKey::generate(), manifest_key] {
        let forged = dsse::sign_json(CATALOGUE_TYPE, &next, &[&key]);
        assert_eq!(publish(forged).await.expect_err("forged"), Code::CatalogueRejected);
    }
    let refusals: Page<serde_json::Value> = api.get("/v1/audit?action=image.publish").await.expect("the audit log");
    let refused = refusals
        .items
        .iter()
        .filter(|row| row["code"] == "catalogue_rejected")
        .count();
    assert_eq!(refused, 2, "{:?}", refusals.items);

    // Two who signed on top of the same one: the second is told, and signs again.
    let one = operators
        .sign(&api, |next| next.images[0].url = None)
        .await
        .expect("signed");
    assert_eq!(publish(one.clone()).await.expect("the next one").version, 2);
    assert_eq!(publish(one).await.expect_err("again"), Code::VersionConflict);
    assert_eq!(publish(good).await.expect_err("the other one"), Code::VersionConflict);

    // Rows that somebody slipped in list nothing, whatever number they claim.
    sqlx::query("insert into image_catalogue (version, document, created_at) values (9, '{}', now()), (3, $1, now())")
        .bind(dsse::sign_json(CATALOGUE_TYPE, &next, &[&SigningKey::generate()]).to_bytes())
        .execute(town.platform.apps[0].db.bookkeeping())
        .await
        .expect("slipped in");
    let second = list(&town, "two.raw", b"two").await;
    let shown: Page<ImageView> = town.api().get("/v1/images").await.expect("a list");
    let mut names: Vec<_> = shown.items.iter().map(|view| view.image.sha256).collect();
    let mut wanted = vec![first.sha256, second.sha256];
    names.sort();
    wanted.sort();
    assert_eq!(names, wanted);
    assert_eq!(shown.items[0].catalogue_version, 3);

    // Page by page.
    let one: Page<ImageView> = town.api().get("/v1/images?limit=1").await.expect("a page");
    let after = one.next.expect("there is more");
    let rest: Page<ImageView> = town
        .api()
        .get(&format!("/v1/images?limit=1&after={after}"))
        .await
        .expect("a page");
    assert_eq!((one.items.len(), rest.items.len(), rest.next), (1, 1, None));
    assert_ne!(one.items[0].image.name, rest.items[0].image.name);
    assert_eq!(Sha256::of(b"one"), first.sha256);
    town.end().await;
}

#[tokio::test]
async fn how_far_a_phase_is_stands_beside_it_while_it_runs() {
    let town = town().await;
    let puppet = Puppet::of_slices(&town, "a").await;
    puppet.in_service(&town).await;
    let fleet = town.fleet().await;
    let renter = Renter::new(&fleet);
    let rented = renter.reserves(1).await.expect("a slot");
    let id = renter.provisions(puppet.id(), &rented).await.expect("a task");
    let task = puppet.claim().await;
    let mut beat = puppet.heartbeat(&task, Some(town.db.clock().now()));
    let of = |done_bytes| {
        Some(Progress {
            done_bytes,
            of_bytes: 9,
        })
    };
    let mut version = 0;
    for (phase, said, shown) in [
        ("image_stat_download", of(3), of(3)),
        ("image_stat_download", of(9), of(9)),
        // More than there can be of anything.
        ("image_stat_download", of(u64::MAX), None),
        ("image_stat_download", of(4), of(4)),
        ("image_digest_verify", None, None),
    ] {
        (beat.tasks[0].phase, beat.tasks[0].progress) = (phase.to_owned(), said);
        // And again, which is no news.
        for _ in 0..2 {
            let answer = puppet.post("heartbeat", &beat).await;
            assert!(answer.status.is_success(), "{answer:?}");
        }
        let view = town.until_task(id, |state| state == TaskState::Started).await;
        let with: Vec<_> = view.phases.iter().filter(|phase| phase.progress.is_some()).collect();
        assert_eq!(with.len(), usize::from(shown.is_some()), "{with:?}");
        assert!(
            with.iter().all(|seen| seen.name == phase && seen.progress == shown),
            "{with:?}"
        );
        assert!(view.version > version, "whoever waits for news hears of it");
        version = view.version;
    }
    puppet.ends(&town, &task, |_| {}).await;
    town.end().await;
}
