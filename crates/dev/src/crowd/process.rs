//! The inside of a crowd's process: reads its members, sets them going one after the other, and answers orders.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::Pace;
use agent::api::Overrides;
use anyhow::Context;
use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Order;
use super::member::{Member, Player};
use super::tally::{Stats, Tally, add};

/// Open files that are not a member's connection.
const OTHER_FILES: u64 = 200;

/// How a crowd behaves.
#[derive(Args, Clone, Debug, Default)]
pub struct Wish {
    /// How many of the members take part [default: all]
    #[arg(long)]
    pub count: Option<usize>,
    /// The server to call instead of the one in the members' own papers
    #[arg(long)]
    pub url: Option<String>,
    /// The first calls are spread over this time
    #[arg(long, default_value_t = 0)]
    pub ramp_ms: u64,
    /// How far a lost connection's first retry is spread [default: as the agent does]
    #[arg(long)]
    pub spread_ms: Option<u64>,
}

impl Wish {
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = vec![format!("--ramp-ms={}", self.ramp_ms)];
        args.extend(self.count.map(|count| format!("--count={count}")));
        args.extend(self.url.iter().map(|url| format!("--url={url}")));
        args.extend(self.spread_ms.map(|spread| format!("--spread-ms={spread}")));
        args
    }

    fn pace(&self) -> Pace {
        let mut pace = Pace::default();
        if let Some(spread) = self.spread_ms.map(Duration::from_millis) {
            pace.spread = spread;
            pace.retry = (spread.min(pace.retry.0), spread.max(pace.retry.0).min(pace.retry.1));
        }
        pace
    }
}

/// Runs until whoever gives orders hangs up.
pub async fn run(members: PathBuf, socket: PathBuf, wish: Wish) -> anyhow::Result<()> {
    let files = base::open_files::raise();
    let mut members = read(&members)?;
    members.truncate(wish.count.unwrap_or(usize::MAX));
    anyhow::ensure!(
        members.len() as u64 + OTHER_FILES <= files,
        "{} members need more than the {files} open files that this process may have",
        members.len()
    );
    let tally = Arc::new(Tally::default());
    let pace = wish.pace();
    let mut players = Vec::with_capacity(members.len());
    for member in members {
        let overrides = Overrides {
            api_url: wish.url.clone(),
            api_resolve: None,
        };
        players.push(Arc::new(Player::new(member, overrides, pace.clone(), tally.clone())?));
    }
    let listener = UnixListener::bind(&socket)?;
    let mut at_work = JoinSet::new();
    let step = Duration::from_millis(wish.ramp_ms) / u32::try_from(players.len().max(1))?;
    for (place, player) in players.iter().cloned().enumerate() {
        let delay = step * u32::try_from(place)?;
        let tally = tally.clone();
        at_work.spawn(async move {
            sleep(delay).await;
            add(&tally.members);
            player.poll().await;
        });
    }
    let (stream, _) = listener.accept().await?;
    answer(stream, &players, &tally, &mut at_work).await
}

async fn answer(
    stream: UnixStream,
    players: &[Arc<Player>],
    tally: &Tally,
    at_work: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let (orders, mut answers) = stream.into_split();
    let mut orders = BufReader::new(orders).lines();
    while let Some(line) = orders.next_line().await? {
        match serde_json::from_str(&line)? {
            Order::Report => {}
            Order::SelfProbe { every_s } => {
                for player in players {
                    let player = player.clone();
                    at_work.spawn(async move { player.probe_every(Duration::from_secs(every_s)).await });
                }
            }
            Order::Heartbeat { every_s } => {
                for player in players {
                    let player = player.clone();
                    at_work.spawn(async move { player.beat_every(Duration::from_secs(every_s)).await });
                }
            }
        }
        let stats: Stats = tally.stats();
        let mut line = serde_json::to_vec(&stats)?;
        line.push(b'\n');
        answers.write_all(&line).await?;
    }
    Ok(())
}

/// One member a line.
fn read(path: &Path) -> anyhow::Result<Vec<Member>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
