//! Somebody writes trust documents into our database, or task rows that wait for a key to be revoked. Documents that do
//! not follow from those in use are passed over with an alarm; a row that the old key has not signed is not signed anew.

use base::config::Config;
use base::testing::eventually;
use dev::town::Town;
use model::api::{AuditRow, Page, TrustRevoke, TrustRotate, TrustView};
use model::digest::Sha256;
use model::dsse;
use model::envelope::TaskPayload;
use model::id::{OpId, TaskId, derive_op, derive_task};
use model::key::SigningKey;
use model::signal::Code;
use model::trust::{Bundle, DELEGATION_TYPE, Delegation, KeyStatus, MANIFEST_TYPE, Manifest, Purpose};

use super::inserted_rows::alarms;
use super::watch::connect;
use crate::EXE;
use crate::puppet::Puppet;
use crate::tenant::Tenant;

fn brisk(config: &mut Config) {
    config.wait_hold_s = 2;
    config.identity_sweep_ms = 300;
}

async fn put(town: &Town, version: i64, delegation: &[u8], manifest: &[u8]) {
    let mut conn = connect(town).await;
    sqlx::query(
        "insert into trust_bundle (manifest_version, delegation, manifest, created_at) values ($1, $2, $3, now())",
    )
    .bind(version)
    .bind(delegation)
    .bind(manifest)
    .execute(&mut conn)
    .await
    .expect("the intruder writes");
}

/// What a node is given.
async fn served(puppet: &Puppet) -> (Bundle, Manifest) {
    let bundle: Bundle = puppet.get("trust").await.json().expect("documents");
    let payload = bundle.manifest.payload_unverified().expect("base64");
    (bundle, serde_json::from_slice(&payload).expect("a manifest"))
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_11_inserted_bundles() {
    base::metrics::install(&[fleet::metrics::METRICS]);
    let town = Town::tuned(EXE, brisk).await;
    let puppet = Puppet::awake(&town, "puppet").await;
    let (honest, manifest) = served(&puppet).await;
    let (root, manifest_key) = (SigningKey::generate(), SigningKey::generate());
    let payload = honest.delegation.payload_unverified().expect("base64");
    let delegation: Delegation = serde_json::from_slice(&payload).expect("a delegation");
    let own_house = Delegation {
        version: 2,
        roots: vec![root.public()],
        manifest_key: manifest_key.public(),
        catalogue_key: None,
        ..delegation
    };
    let next = |version| Manifest {
        version,
        ..manifest.clone()
    };
    let own_house = dsse::sign_json(DELEGATION_TYPE, &own_house, &[&root]);
    let by_stranger = dsse::sign_json(MANIFEST_TYPE, &next(5), &[&manifest_key]);
    let mounted = [
        (2, b"no document".to_vec(), b"at all".to_vec()),
        (3, honest.delegation.to_bytes(), honest.manifest.to_bytes()),
        (
            4,
            own_house.to_bytes(),
            dsse::sign_json(MANIFEST_TYPE, &next(4), &[&manifest_key]).to_bytes(),
        ),
        (5, honest.delegation.to_bytes(), by_stranger.to_bytes()),
        (i64::MAX, b"{}".to_vec(), b"{}".to_vec()),
    ];
    for (version, delegation, manifest) in &mounted {
        put(&town, *version, delegation, manifest).await;
    }
    for (version, ..) in &mounted {
        eventually("the audit names the row", async || {
            let path = format!("/v1/audit?action=trust.follow&outcome=refused&target={version}");
            let rows: Page<AuditRow> = town.api().get(&path).await.map_err(|e| e.to_string())?;
            let told = rows
                .items
                .iter()
                .any(|row| row.code.as_deref() == Some(Code::ManifestRejected.as_str()));
            if told { Ok(()) } else { Err(format!("{:?}", rows.items)) }
        })
        .await;
    }
    assert!(alarms(Code::ManifestRejected) >= 5, "each with an alarm");
    assert_eq!(served(&puppet).await.0, honest, "nodes are given what they were given");

    // The honest next one finds its way past them, on both replicas.
    let rotated: TrustView = town
        .api()
        .post("/v1/trust/rotate", &TrustRotate::default())
        .await
        .expect("rotated");
    assert_eq!(rotated.manifest.version, 6, "the first number that was free");
    for _ in 0..2 {
        eventually("both replicas have it", async || {
            let view: TrustView = town.api().get("/v1/trust").await.map_err(|e| e.to_string())?;
            if view.manifest.version == 6 {
                Ok(())
            } else {
                Err(view.manifest.version.to_string())
            }
        })
        .await;
    }
    assert_eq!(served(&puppet).await.1.version, 6);
    town.end().await;
}

/// A row under a key that is about to be revoked, with an intent that exists and a signature that does not.
async fn forge(town: &Town, puppet: &Puppet, tenant: &Tenant, intent: Sha256, keyid: &str) -> OpId {
    let task = tenant.deprovision();
    let op_id = derive_op(tenant.allocation, task.task_type().as_str(), 1);
    let now = town.db.clock().now();
    let payload = TaskPayload {
        v: 1,
        aud: puppet.answer.installation,
        task_id: derive_task(op_id, 0),
        op_id,
        intent_sha256: Some(intent),
        node_id: puppet.id(),
        node_epoch: 1,
        seq: 900,
        task_type: task.task_type().as_str().to_owned(),
        type_version: 1,
        issued_at: now,
        start_by: now.plus_s(600),
        max_runtime_s: 60,
        actor_ref: "user:eve".to_owned(),
        correlation_id: TaskId::new().uuid(),
        params: task.params(),
    };
    let mut envelope = payload.sign(&SigningKey::generate());
    envelope.signatures[0].keyid = keyid.parse().expect("an id");
    let mut conn = connect(town).await;
    sqlx::query(
        "insert into task (id, op_id, issue, node_id, node_epoch, seq, task_type, type_version, keyid, envelope,
                           payload_sha256, intent_sha256, state, actor_ref, correlation_id, created_at, start_by)
         values ($1, $2, 0, $3, 1, 900, $4, 1, $5, $6, $7, $8, 'queued', 'user:eve', gen_random_uuid(), now(),
                 now() + interval '10 minutes')",
    )
    .bind(payload.task_id.uuid())
    .bind(op_id.uuid())
    .bind(puppet.id().uuid())
    .bind(&payload.task_type)
    .bind(keyid)
    .bind(envelope.to_bytes())
    .bind(envelope.payload_digest().as_bytes().as_slice())
    .bind(intent.as_bytes().as_slice())
    .execute(&mut conn)
    .await
    .expect("the intruder writes");
    op_id
}

#[tokio::test(flavor = "multi_thread")]
async fn abuse_12_row_that_waits_for_a_revocation() {
    let town = Town::tuned(EXE, brisk).await;
    let puppet = Puppet::awake(&town, "puppet").await;
    let (victim, honest) = (Tenant::new("ada", 20_001), Tenant::new("bob", 20_002));
    let intent = victim.intent(&town, puppet.id()).await;
    let view: TrustView = town.api().get("/v1/trust").await.expect("the keys");
    let active =
        |key: &&model::api::TrustKeyView| (key.purpose, key.status) == (Purpose::Allocation, KeyStatus::Active);
    let keyid = view.keys.iter().find(active).expect("a key").keyid;
    let forged = forge(&town, &puppet, &victim, intent, &keyid.to_string()).await;
    let real = honest.moves_out(&town, puppet.id()).await;
    let body = TrustRevoke {
        reason: "a drill".to_owned(),
    };
    let path = format!("/v1/trust/keys/{keyid}/revoke");
    let _: TrustView = town.api().post(&path, &body).await.expect("revoked");
    let issued = async |op: uuid::Uuid| -> Vec<(String, Option<String>)> {
        let mut conn = connect(&town).await;
        sqlx::query_as("select state, code from task where op_id = $1 order by issue")
            .bind(op)
            .fetch_all(&mut conn)
            .await
            .expect("rows")
    };
    let mut conn = connect(&town).await;
    let op: uuid::Uuid = sqlx::query_scalar("select op_id from task where id = $1")
        .bind(real.uuid())
        .fetch_one(&mut conn)
        .await
        .expect("the row");
    let revoked = ("cancelled".to_owned(), Some("key_revoked".to_owned()));
    let twin = eventually("the honest one is issued again", async || {
        let tasks = issued(op).await;
        if tasks.len() == 2 { Ok(tasks) } else { Err(tasks) }
    })
    .await;
    assert_eq!(twin[0], revoked);
    assert_eq!(
        issued(forged.uuid()).await,
        [revoked],
        "ended, and nothing was signed in its place"
    );
    let path = format!("/v1/audit?action=task.cancel&target={}", derive_task(forged, 0));
    let rows: Page<AuditRow> = town.api().get(&path).await.expect("the audit is read");
    assert_eq!(rows.items.len(), 1);
    town.end().await;
}
