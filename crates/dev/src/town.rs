//! The test context: a town of its own for every test. Its own database, two api replicas behind a front, every
//! role, and real agents on pretended hosts, each in processes of its own. When it goes it leaves nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::auth::{Scope, bootstrap_admin, token_create, user_create};
use base::config::Config;
use base::testing::{TestDb, eventually};
use base::{Actor, Clock};
use fleet::Fleet;
use host::pretend::Profile;
use model::api::{Enrolment, NodeCreate, NodeView, TaskView};
use model::id::{NodeId, TaskId, UserId};
use model::state::{NodeMode, NodeState, TaskState};
use wire::stop::Stop;

use crate::api::Api;
use crate::images::Operators;
use crate::platform::{Ground, Platform};
use crate::simnode::{NodeDir, SimNode};

pub struct Town {
    pub db: TestDb,
    pub platform: Platform,
    dir: PathBuf,
    api: Api,
    exe: PathBuf,
    calls: AtomicUsize,
    fleet_stop: Stop,
}

/// Times that are minutes in production. Still generous: a loaded machine must not make a test fail.
fn tune(config: &mut Config) {
    config.wait_hold_s = 2;
    config.heartbeat_stale_s = 20;
}

impl Town {
    /// `exe` is the gpuaas-dev binary under test.
    pub async fn start(exe: &str) -> Self {
        Self::tuned(exe, tune).await
    }

    pub async fn tuned(exe: &str, tune: impl Fn(&mut Config) + Send + Sync + 'static) -> Self {
        Self::at(exe, Clock::real(), tune).await
    }

    /// Where no time passes: no lease ends, no node is asked a second time for what it has not answered. For tests that
    /// compare rows before and after, on machines of any speed.
    pub async fn still(exe: &str) -> Self {
        Self::at(exe, Clock::fixed(Clock::real().now()), tune).await
    }

    /// With a clock of the test's own. Hosts keep the machine's time, so only played ones live in such a town.
    pub async fn at(exe: &str, clock: Clock, tune: impl Fn(&mut Config) + Send + Sync + 'static) -> Self {
        let db = TestDb::with_clock(clock).await;
        let dir = std::env::temp_dir().join(format!("town-{}", db.name()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let ground = Ground {
            owner_url: db.owner_url(),
            app_url: db.app_url(),
            keys_dir: dir.join("keys"),
            clock: db.clock().clone(),
            ports: [0; 3],
            replicas: 2,
            tune: Arc::new(tune),
        };
        let platform = Platform::start(&ground).await.expect("the platform starts");
        let admin = bootstrap_admin(&platform.apps[0].db, "ada")
            .await
            .expect("the first administrator");
        let api = Api::new(&platform.public_urls[0], &admin.secret.reveal()).expect("a URL of ours");
        let fleet_stop = Stop::new();
        Self {
            db,
            platform,
            dir,
            api,
            exe: PathBuf::from(exe),
            calls: AtomicUsize::new(0),
            fleet_stop,
        }
    }

    /// A client that asks another replica with every call.
    pub fn api(&self) -> Api {
        let turn = self.calls.fetch_add(1, Ordering::SeqCst) % self.platform.public_urls.len();
        self.api.at(&self.platform.public_urls[turn]).expect("a URL of ours")
    }

    /// Somebody with this role on the platform (or none, for `Project`), and a token of that scope.
    pub async fn person(&self, name: &str, scope: Scope) -> (UserId, Api) {
        let db = &self.platform.apps[0].db;
        let actor = Actor::system("town");
        let roles: &[Scope] = if scope == Scope::Project { &[] } else { &[scope] };
        let user = user_create(db, &actor, name, roles).await.expect("a user");
        let token = token_create(db, &actor, user, "town", &[scope], 86_400).await;
        let secret = token.expect("a token").secret.reveal();
        (user, Api::new(self.api().url(), &secret).expect("a URL of ours"))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The API's own functions, for what no route asks for yet.
    pub async fn fleet(&self) -> Fleet {
        Fleet::open(self.platform.apps[0].clone(), self.fleet_stop.token())
            .await
            .expect("the fleet opens")
    }

    /// So that there is something to make slices of.
    pub async fn lists_demo_image(&self) {
        let operators = Operators {
            keys_dir: &self.dir.join("keys"),
            now: self.db.clock().now(),
        };
        operators.demo(&self.api()).await.expect("the image is listed");
    }

    /// A row and its token, without a host behind it.
    pub async fn add_node(&self, name: &str) -> Enrolment {
        self.add_node_for(name, NodeMode::Machine).await
    }

    /// The same for slices or for whole machines.
    pub async fn add_node_for(&self, name: &str, mode: NodeMode) -> Enrolment {
        let body = NodeCreate {
            name: name.to_owned(),
            mode: Some(mode),
            board_serial: None,
        };
        self.api().post("/v1/nodes", &body).await.expect("a node is added")
    }

    /// A simulated node, enrolled and ready.
    pub async fn node(&self, name: &str, profile: Profile) -> (NodeId, SimNode) {
        self.node_for(name, profile, NodeMode::Machine).await
    }

    pub async fn node_for(&self, name: &str, profile: Profile, mode: NodeMode) -> (NodeId, SimNode) {
        let enrolment = self.add_node_for(name, mode).await;
        let dir = NodeDir::new(self.dir.join(name)).expect("a directory");
        SimNode::enrol(&dir, profile, &enrolment.token).expect("the host takes the token");
        let node = SimNode::start(&self.exe, name, dir, profile);
        self.until_node(enrolment.node.id, NodeState::Ready).await;
        (enrolment.node.id, node)
    }

    pub async fn show_node(&self, id: NodeId) -> NodeView {
        self.api()
            .get(&format!("/v1/nodes/{id}"))
            .await
            .expect("the node is there")
    }

    pub async fn until_node(&self, id: NodeId, state: NodeState) -> NodeView {
        eventually(&format!("node is {state}"), async || {
            let node = self.show_node(id).await;
            if node.state == state {
                Ok(node)
            } else {
                Err(format!("{}: {:?}", node.state, node.state_reason))
            }
        })
        .await
    }

    pub async fn until_task(&self, id: TaskId, wanted: impl Fn(TaskState) -> bool) -> TaskView {
        eventually("the task gets there", async || {
            let task: TaskView = self
                .api()
                .get(&format!("/v1/tasks/{id}"))
                .await
                .map_err(|e| e.to_string())?;
            if wanted(task.state) {
                Ok(task)
            } else {
                Err(format!("{} {:?}", task.state, task.phase))
            }
        })
        .await
    }

    /// Takes the town down. A test that ends without it leaves the directory for a person to look at.
    pub async fn end(self) {
        self.fleet_stop.trigger();
        self.platform.stop().await.expect("the platform stops");
        std::fs::remove_dir_all(&self.dir).expect("nothing else holds the directory");
    }
}
