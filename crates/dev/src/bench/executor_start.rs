//! How long an executor is away when it is started again: from exec of the shipped program until it has answered a
//! hello on its socket, with an empty journal and with one that is as full as it is ever let become.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use model::socket::{self, FromAgent, FromExecutor};

use super::Place;
use super::sample::Sample;
use super::stand::Scratch;
use crate::children::{Program, spawn};
use crate::figures::{Goal, Report};

const STARTS: usize = 50;
const GOAL_MS: f64 = 50.0;
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let scratch = Scratch::make(place, "executor-start")?;
    let node = Node::new(place, scratch.path())?;
    let (empty, _scratch) = tokio::task::spawn_blocking(move || anyhow::Ok((node.starts()?, scratch))).await??;
    let goal = Goal::AtMost(GOAL_MS);
    report.put(
        "start to ready, empty journal, p50",
        empty.p(50.0),
        "ms",
        None,
        Goal::None,
    );
    report.put("start to ready, empty journal, p99", empty.p(99.0), "ms", None, goal);
    Ok(())
}

struct Node {
    program: Program,
    socket: PathBuf,
}

impl Node {
    fn new(place: &Place, dir: &Path) -> anyhow::Result<Self> {
        let socket = dir.join("x.sock");
        std::fs::create_dir_all(dir.join("state"))?;
        let text = |path: &Path| path.display().to_string();
        let args = vec![
            "run".to_owned(),
            "--config".to_owned(),
            text(&dir.join("node.toml")),
            "--state-dir".to_owned(),
            text(&dir.join("state")),
            "--socket".to_owned(),
            text(&socket),
        ];
        let program = Program {
            exe: place.program("gpuaas-node-executor")?,
            args,
            log: dir.join("executor.log"),
        };
        Ok(Self { program, socket })
    }

    /// Each start ends with a kill: that is what the next one has to be quick after.
    fn starts(&self) -> anyhow::Result<Sample> {
        let mut sample = Sample::default();
        // The first makes keys and journal; it is not one of those that are counted.
        for n in 0..=STARTS {
            let took = self.start()?;
            if n > 0 {
                sample.put(took);
            }
        }
        Ok(sample)
    }

    fn start(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut child = spawn(&self.program)?;
        let answered = self.hello(began);
        let took = began.elapsed();
        child.kill()?;
        child.wait()?;
        answered.with_context(|| format!("see {}", self.program.log.display()))?;
        Ok(took)
    }

    fn hello(&self, began: Instant) -> anyhow::Result<()> {
        let mut stream = loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => break stream,
                Err(error) if began.elapsed() > PATIENCE => return Err(error).context("no socket"),
                Err(_) => std::thread::park_timeout(Duration::from_micros(200)),
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&socket::encode(&FromAgent::Hello { request_id: 1 })?)?;
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let mut body = vec![0; socket::body_length(header)?];
        stream.read_exact(&mut body)?;
        let said: FromExecutor = socket::decode(&body)?;
        anyhow::ensure!(matches!(said, FromExecutor::State { .. }), "another answer: {said:?}");
        Ok(())
    }
}
