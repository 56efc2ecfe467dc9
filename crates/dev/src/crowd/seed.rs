//! Letting thousands of nodes in at once: the same rows and the same signatures that enrolment makes, many in one
//! change, and the papers of each written down for the process that will play them.

use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use agent::identity::{Certificate, Identity};
use anyhow::Context;
use base::Change;
use base::tx::Actor;
use base::wake::Topic;
use fleet::Fleet;
use fleet::certificate::store::{self as certificates, Place};
use fleet::node::store::{self as nodes, Kept};
use model::digest::Sha256;
use model::id::NodeId;
use model::key::SigningKey;
use model::node_api::{CertificateKind, Endpoints, EnrolRequest, Facts, Hardware, PROTOCOL, Versions};
use model::state::{NodeMode, NodeState};
use model::trust::Purpose;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use wire::spiffe::Spiffe;

use super::Member;

/// Nodes in one change.
const BATCH: usize = 250;

/// Makes a node for each of these numbers, ready and with a certificate, and adds their papers to `members`.
pub async fn seed(fleet: &Fleet, numbers: Range<usize>, members: &Path) -> anyhow::Result<()> {
    let file = std::fs::File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(members)
        .with_context(|| members.display().to_string())?;
    let mut file = std::io::BufWriter::new(file);
    let places: Vec<usize> = numbers.collect();
    for batch in places.chunks(BATCH) {
        let actor = Actor::system("crowd");
        let mut change = fleet.app.db.change(&actor, "node.seed", fleet.app.installation).await?;
        for place in batch {
            let member = let_in(fleet, &mut change, *place).await?;
            serde_json::to_writer(&mut file, &member)?;
            file.write_all(b"\n")?;
        }
        change.wake(Topic::Revoked);
        change.commit().await?;
    }
    file.flush()?;
    Ok(())
}

async fn let_in(fleet: &Fleet, change: &mut Change, place: usize) -> anyhow::Result<Member> {
    let (id, epoch, now) = (NodeId::new(), 1, change.at());
    let name = Spiffe::Node {
        installation: fleet.app.installation,
        node_id: id,
        epoch,
    };
    let working_key = KeyPair::generate()?;
    let result_key = SigningKey::generate();
    let life_s = fleet.limits.working_life_s;
    let working = fleet.ca.issue_working(&csr(&working_key)?, &name, life_s, now)?;
    let request = EnrolRequest {
        secret: String::new(),
        device_csr: String::new(),
        working_csr: String::new(),
        result_public: result_key.public(),
        simulated: true,
        hardware: Hardware::default(),
        facts: Facts {
            hostname: format!("crowd-{place}"),
            ..Facts::default()
        },
        versions: Versions {
            agent: agent::VERSION.to_owned(),
            executor: agent::VERSION.to_owned(),
            protocol: PROTOCOL,
        },
    };
    nodes::insert(change, id, &format!("crowd-{place}"), NodeMode::Machine).await?;
    nodes::enrolled(change.conn(), id, epoch, &request, now).await?;
    let kept = Kept {
        resume: None,
        quarantine_code: None,
    };
    nodes::set_state(change.conn(), id, NodeState::Ready, "one of a crowd", kept, now).await?;
    let of = Place {
        node: id,
        epoch,
        kind: CertificateKind::Working,
        generation: 1,
    };
    certificates::insert(change, &working, of).await?;
    let paper = Certificate {
        chain: working.pem,
        generation: 1,
        received_at: now,
    };
    Ok(Member {
        identity: Identity {
            installation: fleet.app.installation,
            node_id: id,
            epoch,
            working_key: working_key.serialize_pem(),
            working: paper.clone(),
            // A crowd does not renew: its certificates outlive it.
            device: paper,
            ca_bundle: fleet.ca.bundle_pem(),
            endpoints: Endpoints {
                node_api_url: fleet.app.config.node_url.clone(),
                node_api_resolve: None,
                enrol_url: fleet.app.config.enrol_url.clone(),
            },
            token_sha256: Sha256::of(b"crowd"),
        },
        result_key: result_key.to_text(),
    })
}

fn csr(key: &KeyPair) -> anyhow::Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.pem()?)
}

/// A new key for one purpose, and with it the next manifest: news for every node. Says which version.
pub async fn publish_again(fleet: &Fleet) -> anyhow::Result<u64> {
    let actor = Actor::system("crowd");
    let rotated = fleet::trust::rotate(
        fleet,
        &actor,
        &[Purpose::Diag],
        true,
        Some("everybody is to hear of it"),
    )
    .await;
    rotated.map_err(|error| anyhow::anyhow!("no new manifest: {}", error.code))?;
    fleet::trust::follow(fleet).await?;
    Ok(fleet.manifest_version())
}
