//! New roots and a new manifest key, signed offline and installed by an administrator. Roots change only with the
//! consent of the old ones; a running node follows without anybody touching it.

use base::testing::eventually;
use dev::town::Town;
use fleet::trust::{Wish, countersign, make_manifest_key, parse_delegation, sign_delegation};
use host::pretend::Profile;
use model::api::{TaskView, TrustDelegate, TrustView};
use model::key::SigningKey;
use model::signal::Code;
use model::state::TaskState;
use serde_json::json;

use super::{brisk, trust};
use crate::EXE;
use crate::abuse::{audited, refused};

#[tokio::test(flavor = "multi_thread")]
async fn new_roots_and_a_new_manifest_key_need_the_old_roots_and_nodes_follow() {
    let town = Town::tuned(EXE, brisk).await;
    let (node, mut running) = town.node("steady", Profile::Cpu).await;
    let keys = town.dir().join("keys");
    let read = |name: &str| std::fs::read(keys.join(name)).expect("a file of `trust init`");
    let root = SigningKey::from_text(&String::from_utf8(read("root.key")).expect("text")).expect("a key");
    let current = parse_delegation(&read("delegation.json")).expect("a delegation");
    let (new_root, stranger) = (SigningKey::generate(), SigningKey::generate());
    let manifest_key = make_manifest_key(&keys).expect("a key");
    let wish = Wish {
        roots: Some(vec![new_root.public()]),
        threshold: Some(1),
        manifest_key: Some(manifest_key),
        catalogue_key: None,
        days: 365,
    };
    let now = town.db.clock().now();
    let sign = |wish: &Wish, by: &[SigningKey]| sign_delegation(&current, wish.clone(), by, now).expect("signed");
    let without_file = Wish {
        manifest_key: Some(stranger.public()),
        roots: None,
        ..wish.clone()
    };
    let attempts = [
        (sign(&wish, &[stranger]), Code::ManifestRejected),
        (sign(&wish, std::slice::from_ref(&new_root)), Code::ManifestRejected),
        (sign(&wish, std::slice::from_ref(&root)), Code::ManifestRejected),
        (current.clone(), Code::ManifestRejected),
        (
            sign(&without_file, std::slice::from_ref(&root)),
            Code::SigningKeyMissing,
        ),
    ];
    let before = trust(&town).await;
    for (n, (delegation, code)) in attempts.into_iter().enumerate() {
        let body = TrustDelegate { delegation };
        let answer = town
            .api()
            .call(http::Method::POST, "/v1/trust/delegation", Some(&body))
            .await;
        let error = refused(&answer.expect("an answer"), code);
        if code == Code::ManifestRejected {
            assert_eq!(audited(&town, &error).await.action, "trust.delegate", "{n}");
        }
    }
    assert_eq!(
        trust(&town).await.manifest.version,
        before.manifest.version,
        "nothing was published"
    );

    let begun = sign(&wish, std::slice::from_ref(&root));
    let delegation = countersign(begun, std::slice::from_ref(&new_root)).expect("signed by both");
    let after: TrustView = town
        .api()
        .post("/v1/trust/delegation", &TrustDelegate { delegation })
        .await
        .expect("installed");
    assert_eq!(after.delegation.version, 2);
    assert_eq!(after.delegation.manifest_key, manifest_key.keyid());
    eventually("the node follows", async || {
        let shown = town.show_node(node).await;
        if shown.manifest_version == Some(after.manifest.version) {
            Ok(())
        } else {
            Err(shown.manifest_version)
        }
    })
    .await;
    let path = format!("/v1/nodes/{node}/probe");
    let asked: TaskView = town.api().post(&path, &json!({})).await.expect("asked");
    let ended = town.until_task(asked.id, TaskState::is_end).await;
    assert_eq!(ended.state, TaskState::Succeeded, "{ended:?}");
    // Whoever comes now pins the new root.
    let (_, mut newcomer) = town.node("newcomer", Profile::Cpu).await;
    newcomer.stop();
    running.stop();
    town.end().await;
}
