//! A platform of glass: the api, an agent and an executor in processes of their own, every word of which is written
//! down, with the database and the directory in the test's hands.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use base::auth::bootstrap_admin;
use base::config::{Config, DatabaseUrl};
use base::testing::{TestDb, eventually};
use base::{App, Clock};
use dev::api::Api;
use dev::children::{Kept, Program};
use dev::front::Front;
use dev::replica::{Replica, listens};
use dev::simnode::{NodeDir, SimNode};
use fleet::Fleet;
use host::pretend::Profile;
use model::api::{Enrolment, NodeCreate, NodeView};
use model::id::NodeId;
use model::state::{NodeMode, NodeState};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use wire::stop::Stop;

use crate::EXE;

/// Looks like a password and is in nobody's dictionary.
pub(crate) const PASSWORD: &str = "canary-pa55word-of-the-database";

pub(crate) struct Glass {
    pub(crate) db: TestDb,
    pub(crate) api: Api,
    pub(crate) fleet: Fleet,
    pub(crate) dir: PathBuf,
    pub(crate) replica: Replica,
    tracker: TaskTracker,
    stop: Stop,
}

impl Glass {
    /// `log_format` is a word of the setting of that name.
    pub(crate) async fn start(log_format: &str) -> Self {
        let db = TestDb::new().await;
        let dir = std::env::temp_dir().join(format!("glass-{}", db.name()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let [node, enrol] = [listener().await, listener().await];
        let url = |listener: &TcpListener| format!("https://{}", listener.local_addr().expect("bound"));
        let mut config = Config::defaults();
        config.database_url = Some(DatabaseUrl::new(db.app_url()));
        config.keys_dir = dir.join("keys");
        config.node_url = url(&node);
        config.enrol_url = url(&enrol);
        config.dev = true;
        let keys_dir = config.keys_dir.clone();
        let text = |value: &str| format!("{value:?}");
        let settings = vec![
            ("database_url", text(&format!("{}&password={PASSWORD}", db.app_url()))),
            ("keys_dir", text(&keys_dir.display().to_string())),
            ("node_url", text(&config.node_url)),
            ("enrol_url", text(&config.enrol_url)),
            ("wait_hold_s", "2".to_owned()),
            ("heartbeat_stale_s", "20".to_owned()),
            ("log_filter", text("trace")),
            ("log_format", text(log_format)),
        ];
        let app = App::open(config, Clock::real()).await.expect("the application opens");
        fleet::trust::init(&app, &keys_dir, true).await.expect("keys");
        let admin = bootstrap_admin(&app.db, "ada").await.expect("an administrator");
        let (stop, tracker) = (Stop::new(), TaskTracker::new());
        let fleet = Fleet::open(app, stop.token()).await.expect("the fleet opens");
        let replica = Replica::start(EXE.as_ref(), &dir.join("replica"), &settings).expect("a replica");
        let at = eventually("the replica listens", async || {
            let said = || std::fs::read_to_string(replica.dir().join("gpuaasd.log")).unwrap_or_default();
            listens(replica.dir()).ok_or_else(said)
        })
        .await;
        Front::start(node, vec![at.node], &tracker, &stop).expect("a front");
        Front::start(enrol, vec![at.enrol], &tracker, &stop).expect("a front");
        let url = format!("http://{}", at.public);
        let api = Api::new(&url, &admin.secret.reveal()).expect("a URL");
        let this = Self {
            db,
            api,
            fleet,
            dir,
            replica,
            tracker,
            stop,
        };
        eventually("the api answers", async || {
            this.api
                .get::<serde_json::Value>("/v1/me")
                .await
                .map_err(|e| e.to_string())
        })
        .await;
        this
    }

    pub(crate) async fn add_node(&self, name: &str) -> Enrolment {
        let body = NodeCreate {
            name: name.to_owned(),
            mode: Some(NodeMode::Machine),
            board_serial: None,
        };
        self.api.post("/v1/nodes", &body).await.expect("a node is added")
    }

    /// A simulated node at full voice, enrolled and ready.
    pub(crate) async fn node(&self, name: &str) -> (Enrolment, SimNode) {
        let enrolment = self.add_node(name).await;
        let dir = NodeDir::new(self.dir.join(name)).expect("a directory");
        SimNode::enrol(&dir, Profile::Cpu, &enrolment.token).expect("the host takes the token");
        let half = |what: &str, more: &[&str]| {
            let path = dir.path().display().to_string();
            let args = ["--log", "trace", what, "--dir", &path];
            Kept::start(Program {
                exe: EXE.into(),
                args: args.iter().chain(more).map(ToString::to_string).collect(),
                log: dir.log().join(format!("{what}.log")),
            })
        };
        let node = SimNode {
            name: name.to_owned(),
            executor: half("executor", &["--profile", Profile::Cpu.as_str()]),
            agent: half("agent", &[]),
            dir,
        };
        self.until_ready(enrolment.node.id).await;
        (enrolment, node)
    }

    pub(crate) async fn until_ready(&self, id: NodeId) {
        eventually("the node is ready", async || {
            let path = format!("/v1/nodes/{id}");
            let node: NodeView = self.api.get(&path).await.map_err(|e| e.to_string())?;
            match node.state {
                NodeState::Ready => Ok(()),
                state => Err(format!("{state}: {:?}", node.state_reason)),
            }
        })
        .await;
    }

    /// Every log that anybody wrote, by its file.
    pub(crate) fn logs(&self) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        collect(&self.dir, &mut found);
        found
    }

    pub(crate) async fn end(mut self) {
        tokio::task::block_in_place(|| self.replica.process.stop());
        self.stop.trigger();
        self.tracker.close();
        self.tracker.wait().await;
        self.fleet.app.db.close().await;
        std::fs::remove_dir_all(&self.dir).expect("nothing else holds the directory");
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port")
}

fn collect(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            let bytes = std::fs::read(&path).expect("a log");
            found.push((path, String::from_utf8(bytes).expect("logs are UTF-8")));
        }
    }
}
