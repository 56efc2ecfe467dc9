//! `gpuaas-dev run`: the platform for a newcomer. Prints what it does as it does it, then stays until Ctrl-C; the
//! state is kept and the next start finds everything as it was.

mod screen;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use base::auth::{Scope, TokenSecret, Whose, bootstrap_admin, token_by_secret, token_create, token_revoke};
use base::db::managed::{Managed, Options};
use base::tx::Actor;
use base::{App, Clock};
use host::pretend::Profile;
use model::api::{Enrolment, NodeCreate, NodeView, Page};
use model::id::UserId;
use model::state::{NodeMode, NodeState};
use model::time::Timestamp;
use wire::stop::Stop;

use crate::api::Api;
use crate::images::Operators;
use crate::people;
use crate::platform::{Ground, Platform, keys_dir};
use crate::simnode::{NodeDir, SimNode};
use crate::state::{Running, StateDir};
use screen::{done, price_of, ready, say};

/// The name of the first simulated node.
const FIRST: &str = "sim-a";
/// For how long a start waits for its nodes.
const READY_WITHIN: Duration = Duration::from_secs(60);
const TOKEN_LIFE_S: i64 = 30 * 86_400;
/// One that ends sooner is not kept.
const KEPT_FOR_MS: i64 = 86_400_000;
/// What a start calls its token, and the very first one.
const TOKEN: &str = "gpuaas-dev";
const FIRST_TOKEN: &str = "bootstrap";
const DEV_USER: &str = "operator@demo.invalid";

pub struct Wish {
    pub state_dir: PathBuf,
    pub database_url: Option<(String, String)>,
    pub postgres_bin_dir: Option<PathBuf>,
    pub nodes: Vec<Profile>,
    /// The binary that plays agent and executor.
    pub exe: PathBuf,
}

/// How a run ended.
pub enum Ended {
    Stopped,
    /// Another one runs on this state directory.
    Already(Option<Running>),
}

pub async fn run(wish: Wish, stop: Stop) -> anyhow::Result<Ended> {
    let Some(state) = StateDir::take(&wish.state_dir)? else {
        return Ok(Ended::Already(crate::state::running(&wish.state_dir)));
    };
    let began = Instant::now();
    say(&format!(
        "gpuaas-dev {}   DEV MODE · loopback only · not for production",
        env!("CARGO_PKG_VERSION")
    ));
    let people = people::provider().await?;
    let about = format!("SIMULATED provider at {}, asks for no password", people.url());
    done("people", &about, began);
    let (managed, mut ground) = database(&wish, &state).await?;
    ground.tune = people::believed(&people);
    let mut platform = start_platform(&ground).await?;
    let api = Api::new(&platform.public_urls[0], &token(&platform.apps[0], &state).await?)?;
    images(&ground, &platform, &api).await;
    let mut nodes = Vec::new();
    for (index, profile) in wish.nodes.iter().enumerate() {
        nodes.push(node(&wish, &state, &api, index, *profile, &stop).await?);
    }
    catalog(&api).await?;
    state.announce(&Running {
        url: platform.public_urls[0].clone(),
        token: api.token().to_owned(),
        pid: std::process::id(),
    })?;
    ready(&wish, &platform, began);
    let outcome = tokio::select! {
        () = stop.stopped() => Ok(()),
        ended = platform.ended() => ended.context("a role ended by itself"),
    };
    let since = Instant::now();
    if std::io::stdout().is_terminal() {
        say(""); // the terminal has written ^C
    }
    say("Stopping: nodes, control plane, database …");
    state.withdraw()?;
    tokio::task::spawn_blocking(move || nodes.iter_mut().for_each(SimNode::stop)).await?;
    platform.stop().await?;
    if let Some(managed) = managed {
        managed.stop().await?;
    }
    say(&format!(
        "Stopped in {:.1}s. State is kept in {}",
        since.elapsed().as_secs_f64(),
        wish.state_dir.display()
    ));
    outcome.map(|()| Ended::Stopped)
}

async fn database(wish: &Wish, state: &StateDir) -> anyhow::Result<(Option<Managed>, Ground)> {
    let since = Instant::now();
    let ground = |owner_url: String, app_url: String| Ground {
        owner_url,
        app_url,
        keys_dir: keys_dir(state.path()),
        clock: Clock::real(),
        ports: [8080, 9443, 9444],
        replicas: 1,
        tune: Arc::new(|_| {}),
    };
    if let Some((owner, app)) = &wish.database_url {
        done("database", "yours, by URL", since);
        return Ok((None, ground(owner.clone(), app.clone())));
    }
    let dir = state.path().join("pg");
    let managed = Managed::start(Options::new(&dir, wish.postgres_bin_dir.clone())).await?;
    done(
        "database",
        &format!("private PostgreSQL {}, {}", managed.major(), dir.display()),
        since,
    );
    let (owner, app) = (managed.owner_url(), managed.app_url());
    Ok((Some(managed), ground(owner, app)))
}

async fn start_platform(ground: &Ground) -> anyhow::Result<Platform> {
    let since = Instant::now();
    let platform = Platform::start(ground).await?;
    done("identity", "dev CA and task-signing keys, kept beside the state", since);
    let roles = control::Role::ALL.len();
    done(
        "control",
        &format!("{roles} roles, nodes at {}", platform.node_url),
        since,
    );
    Ok(platform)
}

/// Something to make slices of. A state directory of an older build has no key for it, and works all the same.
async fn images(ground: &Ground, platform: &Platform, api: &Api) {
    let since = Instant::now();
    let operators = Operators {
        keys_dir: &ground.keys_dir,
        now: platform.apps[0].clock.now(),
    };
    match operators.demo(api).await {
        Ok(image) => done(
            "images",
            &format!("{} listed (SIMULATED, nothing boots it)", image.name),
            since,
        ),
        Err(error) => say(&format!("  ! images    none is listed: {error:#}")),
    }
}

/// A token for the command line. After a kill the one that was announced is still in use by whoever waits or follows, and
/// stays; otherwise each start makes a new one and ends that of the start before, which nobody has any more.
async fn token(app: &App, state: &StateDir) -> anyhow::Result<String> {
    if let Some(announced) = crate::state::running(state.path())
        && let Ok(secret) = announced.token.parse::<TokenSecret>()
        && let Some(row) = token_by_secret(&app.db, &secret).await?
        && row.user_name == DEV_USER
        && row.revoked_at.is_none()
        && Timestamp::from(row.expires_at).since_ms(app.clock.now()) > KEPT_FOR_MS
    {
        return Ok(announced.token);
    }
    let user: Option<uuid::Uuid> = sqlx::query_scalar("select id from app_user where name = $1")
        .bind(DEV_USER)
        .fetch_optional(app.db.read())
        .await?;
    let made = match user {
        None => bootstrap_admin(&app.db, DEV_USER).await?,
        Some(id) => {
            end_earlier(app, id.into()).await?;
            let (scopes, actor) = ([Scope::Admin], Actor::system(TOKEN));
            token_create(&app.db, &actor, id.into(), TOKEN, &scopes, TOKEN_LIFE_S).await?
        }
    };
    Ok(made.secret.reveal())
}

/// Only those that a start has made: whatever a person has made stays.
async fn end_earlier(app: &App, user: UserId) -> anyhow::Result<()> {
    let earlier: Vec<uuid::Uuid> =
        sqlx::query_scalar("select id from api_token where user_id = $1 and name = any($2) and revoked_at is null")
            .bind(user.uuid())
            .bind([TOKEN, FIRST_TOKEN].as_slice())
            .fetch_all(app.db.read())
            .await?;
    for id in earlier {
        token_revoke(&app.db, &Actor::system(TOKEN), Whose::Of(user), id.into()).await?;
    }
    Ok(())
}

/// The n-th simulated node: enrolled if it is new, found again if it is not, and waited for.
async fn node(
    wish: &Wish,
    state: &StateDir,
    api: &Api,
    index: usize,
    profile: Profile,
    stop: &Stop,
) -> anyhow::Result<SimNode> {
    let since = Instant::now();
    let name = match index {
        0 => FIRST.to_owned(),
        n => format!("sim-{}", char::from(b'a' + u8::try_from(n % 26)?)),
    };
    let dir = NodeDir::new(state.path().join("nodes").join(&name))?;
    let known: Page<NodeView> = api.get("/v1/nodes?limit=200").await?;
    let known = known.items.into_iter().find(|node| node.name == name);
    if known.as_ref().is_none_or(|node| node.epoch == 0) {
        let enrolment: Enrolment = match known {
            None => {
                let body = NodeCreate {
                    name: name.clone(),
                    mode: Some(NodeMode::Slice),
                    board_serial: None,
                };
                api.post("/v1/nodes", &body).await?
            }
            Some(node) => {
                api.post(&format!("/v1/nodes/{}/enroll", node.id), &serde_json::json!({}))
                    .await?
            }
        };
        SimNode::enrol(&dir, profile, &enrolment.token)?;
    }
    let running = SimNode::start(&wish.exe, &name, dir, profile);
    let node = settled(api, &name, since, stop).await?;
    let life = node.certificate.as_ref().map_or_else(String::new, |c| {
        format!(
            ", certificate {}h",
            (c.not_after.since_ms(c.not_before) + 1_800_000) / 3_600_000
        )
    });
    let gpus = node.last_probe.as_ref().map_or(0, |probe| probe.gpus.len());
    let label = format!(
        "{name} SIMULATED {}, {gpus} GPUs, {}{life}",
        profile.as_str(),
        node.state
    );
    if node.state == NodeState::Ready {
        done("node", &label, since);
        slots(api, &node).await?;
    } else {
        say(&format!(
            "  ! node      {label}; its logs: {}",
            running.dir.log().display()
        ));
    }
    Ok(running)
}

/// Something to rent, and a project to rent it in. Money comes later: nothing is charged.
async fn catalog(api: &Api) -> anyhow::Result<()> {
    let since = Instant::now();
    let (project, sku) = crate::demo::ensure(api).await?;
    let price = price_of(sku.price_micro_per_hour, &sku.currency);
    let text = format!(
        "{} {price}/h · project \"{}\" (no funds yet: nothing is charged)",
        sku.name, project.name
    );
    done("catalog", &text, since);
    Ok(())
}

/// What the node can rent out, approved at once: there is nothing to weigh on a pretended host.
async fn slots(api: &Api, node: &NodeView) -> anyhow::Result<()> {
    let since = Instant::now();
    if node.mode != NodeMode::Slice {
        return Ok(());
    }
    let approved = crate::slots::approve_all(api, node.id).await?;
    let count = approved.slots.len();
    let text = format!(
        "{count} approved (automatic in dev), {} blockers",
        approved.blockers.len()
    );
    done("slots", &text, since);
    for blocker in approved.blockers {
        say(&format!("  ! slots     {blocker}"));
    }
    Ok(())
}

/// Waits until the node is ready, in a state that only a person ends, or until the person has had enough.
async fn settled(api: &Api, name: &str, since: Instant, stop: &Stop) -> anyhow::Result<NodeView> {
    let mut told = since;
    loop {
        let list: Page<NodeView> = api.get("/v1/nodes?limit=200").await?;
        let node = list
            .items
            .into_iter()
            .find(|node| node.name == name)
            .context("the node is gone")?;
        let fresh = node
            .last_seen_at
            .is_some_and(|at| at > node.state_since || node.state == NodeState::Ready);
        match node.state {
            NodeState::Ready if fresh => return api.get(&format!("/v1/nodes/{}", node.id)).await,
            NodeState::Quarantined | NodeState::Draining | NodeState::Drained => return Ok(node),
            _ if stop.is_stopped() => return Ok(node),
            _ if since.elapsed() > READY_WITHIN => {
                say(&format!(
                    "  ! node      {name} is {} after {}s; see its log",
                    node.state,
                    READY_WITHIN.as_secs()
                ));
                return Ok(node);
            }
            _ => {
                if told.elapsed() > Duration::from_secs(5) {
                    told = Instant::now();
                    let why = node
                        .waiting
                        .map_or_else(String::new, |waiting| format!(": {}", waiting.reason));
                    say(&format!("  … node      {name} is {}{why}", node.state));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
