//! The key directory: what a crash leaves in it, what a replica does that cannot see a file, and how far it protects
//! against a database that says less than it did.

use base::testing::eventually;
use dev::town::Town;
use model::api::TrustRotate;
use model::key::SigningKey;
use model::signal::Code;
use model::trust::{KeyStatus, Purpose};

use super::{brisk, everywhere, key_of, trust};
use crate::EXE;
use crate::abuse::sql;
use crate::puppet::Puppet;

async fn rotate(town: &Town) -> u64 {
    let view: model::api::TrustView = town
        .api()
        .post("/v1/trust/rotate", &TrustRotate::default())
        .await
        .expect("rotated");
    view.manifest.version
}

/// Killed after the key file and before the row: a file, whole or torn, that nobody mentions. Killed after the row: a
/// directory that has not seen the newest manifest.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_crash_leaves_the_next_start_works() {
    // With the usual overlap: a key that retires would publish what the last part takes away.
    let mut town = Town::tuned(EXE, |config| config.identity_sweep_ms = 300).await;
    let keys = town.dir().join("keys");
    let version = rotate(&town).await;
    everywhere(&town, version).await;
    let key = SigningKey::generate();
    let orphan = keys.join(format!("task-diag-{}.key", key.keyid()));
    std::fs::write(&orphan, key.to_text()).expect("written");
    let torn = keys.join(format!("task-oci-{}.key", SigningKey::generate().keyid()));
    std::fs::write(&torn, "gpuaas-").expect("written");
    std::fs::write(keys.join(".trust.json.0123456789abcdef"), "{").expect("written");
    std::fs::remove_file(keys.join("trust.json")).expect("it was remembered");
    for n in [0, 1] {
        town.platform.stop_replica(n).await;
        town.platform.start_replica(n).await.expect("it starts");
    }
    everywhere(&town, version).await;
    let next = rotate(&town).await;
    assert_eq!(next, version + 1);
    everywhere(&town, next).await;
    assert!(
        orphan.exists(),
        "it may belong to a manifest that is about to be committed"
    );

    // A database that was set back to the first day does not take the directory back with it.
    sql(&town, "delete from trust_bundle where manifest_version > 1").await;
    town.platform.stop_replica(1).await;
    town.platform.start_replica(1).await.expect("it starts");
    everywhere(&town, next).await;
    town.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_the_key_file_is_not_ready_and_signs_nothing_with_it() {
    let mut town = Town::tuned(EXE, brisk).await;
    let puppet = Puppet::awake(&town, "puppet").await;
    let keyid = key_of(&trust(&town).await, Purpose::Diag, KeyStatus::Active);
    let (file, aside) = (
        town.dir().join(format!("keys/task-diag-{keyid}.key")),
        town.dir().join("aside"),
    );
    std::fs::rename(&file, &aside).expect("moved away");
    town.platform.stop_replica(1).await;
    town.platform.start_replica(1).await.expect("it starts all the same");
    let troubles = |town: &Town| town.platform.apps[1].readiness.troubles();
    let api = town.api().at(&town.platform.public_urls[1]).expect("a URL");
    eventually("it says that it is not ready", async || {
        let troubles = troubles(&town);
        let told = troubles.contains(&("trust", Code::SigningKeyMissing));
        if told { Ok(()) } else { Err(troubles) }
    })
    .await;
    let path = format!("/v1/nodes/{}/probe", puppet.id());
    let asked = |api: dev::api::Api| {
        let path = path.clone();
        async move {
            let answer = api.call(http::Method::POST, &path, Some(&serde_json::json!({}))).await;
            let answer = answer.expect("an answer");
            (answer.status.as_u16(), answer.error().map(|error| error.code))
        }
    };
    // A probe of the node loop may be under way and young, and would be shared.
    sql(&town, "update task set created_at = created_at - interval '1 minute'").await;
    assert_eq!(asked(api.clone()).await, (503, Some(Code::SigningKeyMissing)));
    // The other one has it in memory and goes on.
    let other = town.api().at(&town.platform.public_urls[0]).expect("a URL");
    assert_eq!(asked(other).await.0, 202);

    std::fs::rename(&aside, &file).expect("moved back");
    eventually("it is ready again by itself", async || {
        let troubles = troubles(&town);
        if troubles.is_empty() { Ok(()) } else { Err(troubles) }
    })
    .await;
    town.end().await;
}
