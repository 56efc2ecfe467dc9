//! Many nodes on one api process: waiting costs no query, everybody is back after a kill, news and tasks reach all,
//! and an end reaches the one it is meant for. Ten thousand are the bench's business.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::metrics::DATABASE_USES;
use base::testing::TestDb;
use base::tx::Actor;
use base::wake::Topic;
use dev::crowd::{Crowd, Member, Order, Wish, publish_again, seed};
use dev::daemon::Daemon;
use fleet::Fleet;
use fleet::certificate::store as certificates;
use fleet::certificate::store::Place;
use model::id::NodeId;
use model::node_api::CertificateKind;
use model::signal::Code;
use wire::spiffe::Spiffe;
use wire::tls::PeerCertificate;

use crate::EXE;

const NODES: u64 = 150;
const PATIENCE: Duration = Duration::from_secs(180);

struct Scene {
    db: TestDb,
    dir: PathBuf,
    daemon: Daemon,
}

impl Scene {
    async fn start(nodes: u64) -> Self {
        let db = TestDb::new().await;
        let dir = std::env::temp_dir().join(format!("crowd-{}", db.name()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let urls = (db.owner_url(), db.app_url());
        let settings = [("wait_hold_s", "3"), ("probe_every_s", "86400")];
        let daemon = Daemon::start(Path::new(EXE), &dir, urls, &settings)
            .await
            .expect("a daemon");
        let scene = Self { db, dir, daemon };
        seed(&scene.daemon.fleet, 0..nodes as usize, &scene.members())
            .await
            .expect("nodes");
        scene
    }

    fn members(&self) -> PathBuf {
        self.dir.join("members")
    }

    fn member(&self, place: usize) -> Member {
        let text = std::fs::read_to_string(self.members()).expect("their papers");
        serde_json::from_str(text.lines().nth(place).expect("that many")).expect("a member")
    }

    async fn end(self) {
        self.daemon.stop().await.expect("it stops");
        std::fs::remove_dir_all(&self.dir).expect("nothing else holds the directory");
        drop(self.db);
    }
}

#[tokio::test]
async fn many_nodes_wait_for_nothing_and_lose_nothing() {
    let scene = Scene::start(NODES).await;
    let daemon = &scene.daemon;
    let wish = Wish {
        ramp_ms: 3000,
        spread_ms: Some(1500),
        ..Wish::default()
    };
    let mut crowd = Crowd::start(Path::new(EXE), &scene.members(), &wish)
        .await
        .expect("a crowd");
    daemon.until_held(NODES, PATIENCE).await.expect("all are held");

    waiting_costs_no_query(daemon, &mut crowd).await;
    everybody_comes_back_in_the_same_session(daemon, &mut crowd).await;
    news_and_tasks_reach_everybody(daemon, &mut crowd).await;
    an_end_reaches_the_one_it_is_meant_for(&scene, &mut crowd).await;
    drop(crowd);
    scene.end().await;
}

async fn waiting_costs_no_query(daemon: &Daemon, crowd: &mut Crowd) {
    let polls = 2 * NODES;
    let before = crowd.stats().await.expect("figures").answered;
    let (began, uses) = (Instant::now(), daemon.metric(DATABASE_USES).await.expect("counted"));
    crowd
        .until("every node asks twice more", PATIENCE, |stats| {
            stats.answered >= before + polls
        })
        .await
        .expect("they do");
    let uses = daemon.metric(DATABASE_USES).await.expect("counted") - uses;
    let loops = 40.0 * began.elapsed().as_secs_f64();
    assert!(uses > 0.0, "the count is alive");
    assert!(
        uses < loops + polls as f64 / 4.0,
        "{uses} uses for {polls} polls in {:?}",
        began.elapsed()
    );
}

async fn everybody_comes_back_in_the_same_session(daemon: &Daemon, crowd: &mut Crowd) {
    let starts = daemon.process.starts();
    daemon.process.kill();
    crowd
        .until("everybody has noticed", PATIENCE, |stats| {
            stats.failures.values().sum::<u64>() >= NODES
        })
        .await
        .expect("connections break with the process");
    daemon.until_ready(PATIENCE).await.expect("it is back");
    daemon.until_held(NODES, PATIENCE).await.expect("and so are they");
    assert!(daemon.process.starts() > starts);
    let stats = crowd.stats().await.expect("figures");
    assert_eq!((stats.sessions, stats.superseded), (NODES, 0), "{stats:?}");
}

async fn news_and_tasks_reach_everybody(daemon: &Daemon, crowd: &mut Crowd) {
    let version = publish_again(&daemon.fleet).await.expect("a manifest");
    crowd
        .until("the manifest is known", PATIENCE, |stats| {
            (stats.manifest, stats.manifest_known_by) == (version, NODES)
        })
        .await
        .expect("everybody is told");

    let fleet = &daemon.fleet;
    let nodes: Vec<uuid::Uuid> = sqlx::query_scalar("select id from node order by id")
        .fetch_all(fleet.app.db.read())
        .await
        .expect("rows");
    let actor = Actor::system("test");
    let mut change = fleet
        .app
        .db
        .change(&actor, "node.probe", fleet.app.installation)
        .await
        .expect("a change");
    for node in nodes {
        fleet::task::enqueue_probe(fleet, &mut change, node.into())
            .await
            .expect("queued");
    }
    change.commit().await.expect("one commit for all");
    crowd
        .until("every node has answered its task", PATIENCE, |stats| {
            stats.results == NODES
        })
        .await
        .expect("all do");
    let (done, doubled): (i64, i64) = sqlx::query_as(
        "select count(*) filter (where state = 'succeeded'), count(*) - count(distinct node_id) from task",
    )
    .fetch_one(fleet.app.db.read())
    .await
    .expect("counted");
    assert_eq!((done, doubled), (NODES as i64, 0));
    let stats = crowd.tell(Order::SelfProbe { every_s: 1 }).await.expect("figures");
    crowd
        .until("self-probes arrive", PATIENCE, |now| {
            now.self_probes >= stats.self_probes + 20
        })
        .await
        .expect("they do");
}

async fn an_end_reaches_the_one_it_is_meant_for(scene: &Scene, crowd: &mut Crowd) {
    let fleet = &scene.daemon.fleet;
    let node = scene.member(7).identity.node_id;
    let refused = |stats: &dev::crowd::Stats| stats.failures.get(Code::CertRevoked.as_str()).copied().unwrap_or(0);
    assert_eq!(refused(&crowd.stats().await.expect("figures")), 0);
    revoke(fleet, node).await;
    crowd
        .until("the one is turned away", PATIENCE, |stats| refused(stats) > 0)
        .await
        .expect("it is");
    let stands = scene.daemon.until_held(NODES - 1, PATIENCE).await;
    stands.expect("the others are not");
}

async fn revoke(fleet: &Fleet, node: NodeId) {
    let actor = Actor::system("test");
    let mut change = fleet
        .app
        .db
        .change(&actor, "node.revoke", node)
        .await
        .expect("a change");
    let at = change.at();
    certificates::revoke_all(change.conn(), node, None, "test", at)
        .await
        .expect("revoked");
    change.wake(Topic::Revoked);
    change.commit().await.expect("committed");
}

/// The sweep reads only what has changed; a certificate that came and went between two sweeps has changed nothing.
#[tokio::test]
async fn what_came_and_went_between_two_sweeps_is_gone() {
    let scene = Scene::start(3).await;
    let fleet = &scene.daemon.fleet;
    let refresh = async || {
        let now = fleet.app.clock.now();
        fleet.identity.refresh(fleet.app.db.read(), now).await.expect("swept")
    };
    refresh().await;
    assert!(refresh().await.is_empty(), "nothing has changed");

    let member = scene.member(1);
    let node = member.identity.node_id;
    let first = member.identity.working.leaf().expect("a certificate");
    fleet.identify(&first).await.expect("it stands");

    let second = issue_again(fleet, &member).await;
    fleet.identify(&second).await.expect("looked up at once");
    revoke(fleet, node).await;
    assert!(refresh().await.contains(&node), "whoever waits for it has to ask again");
    for certificate in [first, second] {
        let refused = fleet
            .identify(&certificate)
            .await
            .expect_err("it does not stand any more");
        assert_eq!(refused.code, Code::CertRevoked);
    }
    fleet
        .identify(&scene.member(2).identity.working.leaf().expect("a certificate"))
        .await
        .expect("others are not touched");
    scene.end().await;
}

async fn issue_again(fleet: &Fleet, member: &Member) -> PeerCertificate {
    let identity = &member.identity;
    let name = Spiffe::Node {
        installation: identity.installation,
        node_id: identity.node_id,
        epoch: identity.epoch,
    };
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = crate::puppet::csr(&key, None);
    let issued = fleet
        .ca
        .issue_working(&request, &name, 3600, fleet.app.clock.now())
        .expect("issued");
    let actor = Actor::system("test");
    let mut change = fleet
        .app
        .db
        .change(&actor, "node.renew", identity.node_id)
        .await
        .expect("a change");
    let place = Place {
        node: identity.node_id,
        epoch: identity.epoch,
        kind: CertificateKind::Working,
        generation: 2,
    };
    certificates::insert(&mut change, &issued, place).await.expect("stored");
    change.commit().await.expect("committed");
    let chain = wire::pem::certificates(&issued.pem).expect("PEM");
    PeerCertificate::parse(&chain[0]).expect("a certificate")
}
