//! A crowd: thousands of nodes in one process, for what only shows at scale. Each has a row, a certificate, a session
//! and a result key of its own and speaks through the agent's own calls and pauses; only its executor is a double that
//! does nothing and signs. The crowd is a process of its own, told what to do over a Unix socket, so that its memory
//! and its files are not counted with those of the server under test.

pub mod bare;
mod member;
mod process;
mod seed;
mod tally;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use crate::children::{Program, spawn};

pub use member::Member;
pub use process::{Wish, run};
pub use seed::{publish_again, seed};
pub use tally::Stats;

/// What a crowd can be told. It answers everything with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Report,
    /// From now on every member looks at its own hops and posts what it sees this often.
    SelfProbe {
        every_s: u64,
    },
    /// And beats this often, as if it held a task.
    Heartbeat {
        every_s: u64,
    },
}

/// A crowd in its own process; it ends with this handle.
pub struct Crowd {
    child: Child,
    answers: BufReader<OwnedReadHalf>,
    orders: OwnedWriteHalf,
}

impl Crowd {
    /// Starts the members in `members`, spread over `ramp`. Returns when the first have begun.
    pub async fn start(exe: &Path, members: &Path, wish: &Wish) -> anyhow::Result<Self> {
        let socket = members.with_extension("sock");
        if socket.exists() {
            std::fs::remove_file(&socket)?;
        }
        let mut args = vec!["crowd".to_owned(), "--members".to_owned(), text(members)];
        args.extend(["--socket".to_owned(), text(&socket)]);
        args.extend(wish.args());
        let mut child = spawn(&Program {
            exe: exe.to_owned(),
            args,
            log: members.with_extension("log"),
        })?;
        let connected = connect(&socket, &mut child).await;
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => {
                end(&mut child);
                return Err(error.context(format!("see {}", members.with_extension("log").display())));
            }
        };
        let (answers, orders) = stream.into_split();
        Ok(Self {
            child,
            answers: BufReader::new(answers),
            orders,
        })
    }

    pub fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub async fn tell(&mut self, order: Order) -> anyhow::Result<Stats> {
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        self.orders.write_all(&line).await?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).await?;
        serde_json::from_str(&answer).context("the crowd has left")
    }

    pub async fn stats(&mut self) -> anyhow::Result<Stats> {
        self.tell(Order::Report).await
    }

    /// Asks until `reached`, and gives the figures that reached it.
    pub async fn until(
        &mut self,
        what: &str,
        within: Duration,
        reached: impl Fn(&Stats) -> bool,
    ) -> anyhow::Result<Stats> {
        let deadline = Instant::now() + within;
        loop {
            let stats = self.stats().await?;
            if reached(&stats) {
                return Ok(stats);
            }
            anyhow::ensure!(Instant::now() < deadline, "not within {within:?}: {what}; {stats:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        tracing::warn!(%error, "a crowd was not ended");
    }
}

/// It reads ten thousand keys first; that takes a while.
async fn connect(socket: &PathBuf, child: &mut Child) -> anyhow::Result<UnixStream> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Ok(stream) = UnixStream::connect(socket).await {
            return Ok(stream);
        }
        if let Some(status) = child.try_wait()? {
            anyhow::bail!("the crowd did not start: {status}");
        }
        anyhow::ensure!(Instant::now() < deadline, "the crowd does not answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
