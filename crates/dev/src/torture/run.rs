//! One run: set the stage, spoil the roads, let tenants and killers loose, and judge what is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use wire::stop::Stop;

use super::load::{Book, Slot};
use super::renter::Renter;
use super::report::Outcome;
use super::stage::{Ground, Stage};
use super::tasks;
use super::witness::same_task;
use crate::children::Kept;
use crate::dice::Dice;
use crate::freezer::{Freezer, Freezes};
use crate::history::{What, deaths_at_work};
use crate::killer::{Hand, Kills, Victim};
use crate::proxy::Policy;
use crate::simnode::SimNode;

/// The victims, in the order in which kills are counted.
pub(super) const VICTIMS: [&str; 3] = ["agent", "executor", "api"];
const AGENT: usize = 0;
const EXECUTOR: usize = 1;
const API: usize = 2;

#[derive(Clone, Debug)]
pub struct Wish {
    pub seed: u64,
    pub tasks: u64,
    pub kills: u64,
    /// Not before, even if there were tasks and kills enough.
    pub at_least: Duration,
    /// Of a hundred requests, and of a hundred answers.
    pub loss_pct: u64,
    /// Tenants at once on each node.
    pub slots: u32,
    /// Renters of slices at once, on all nodes of slices together.
    pub renters: u32,
    /// Nodes, the last ones of those that are rented out whole, on which nobody lives.
    pub idle_nodes: usize,
    /// If no task ends for this long, something is stuck for good.
    pub patience: Duration,
    /// On average so long between two kills on one node.
    pub kill_every: Duration,
    /// How often agents, executors and api replicas are chosen, among each other. Zero: never.
    pub victims: [u64; 3],
    /// Times that an api replica stands still, at least. Zero: never.
    pub freezes: u64,
    /// On average so long between two of them, and for how long at least and at most: longer than a lease.
    pub freeze_every: Duration,
    pub freeze_lasts: (Duration, Duration),
    /// Somebody moves the clock: what a node would not begin by it is asked for again.
    pub clock_jumps: bool,
    /// When it comes, the run ends early, and what there is is judged.
    pub stop: Stop,
    /// Told each second how far it is.
    pub progress: fn(&str),
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            seed: 1,
            tasks: 10_000,
            kills: 5_000,
            at_least: Duration::ZERO,
            loss_pct: 10,
            slots: 4,
            renters: 6,
            idle_nodes: 0,
            patience: Duration::from_secs(180),
            kill_every: Duration::from_millis(1200),
            victims: [4, 5, 4],
            freezes: 20,
            freeze_every: Duration::from_secs(20),
            freeze_lasts: (Duration::from_secs(4), Duration::from_secs(7)),
            clock_jumps: false,
            stop: Stop::new(),
            progress: |line| println!("{line}"),
        }
    }
}

/// Runs to the end and judges. An error means that there was no run to judge.
pub async fn run(wish: &Wish, ground: &Ground) -> anyhow::Result<Outcome> {
    let mut trial = Trial::begin(wish, ground).await?;
    let (stage, kills, book) = (trial.stage.clone(), trial.kills.clone(), trial.book.clone());
    let freezes = trial.freezes.clone();
    let killers = async {
        let mut hands = hands(wish, &stage, &mut trial.dice);
        let mut freezer = freezer(wish, &stage, &mut trial.dice);
        let keep_step = || kills.wait_for(book.ended(), wish.tasks);
        let all = hands.iter_mut().map(|hand| hand.run(&kills, keep_step));
        let all = futures_util::future::join_all(all);
        tokio::join!(all, freezer.run(&freezes, || kills.enough()));
    };
    let tenants = async {
        while let Some(ended) = trial.slots.join_next().await {
            ended??;
        }
        Ok::<(), anyhow::Error>(())
    };
    let stopped = async {
        wish.stop.stopped().await;
        (wish.progress)("ending early: tenants move out");
        kills.end();
        book.close();
        std::future::pending::<()>().await;
    };
    let stuck = tokio::select! {
        () = stopped => false,
        (done, ()) = async { tokio::join!(tenants, killers) } => done.map(|()| false)?,
        () = watch(wish, &stage, &book, &kills, &freezes) => true,
    };
    drop((stage, kills, book));
    trial.judge(stuck).await
}

/// A stage with tenants on it: whatever else happens to it is the caller's.
pub struct Trial {
    pub stage: Arc<Stage>,
    wish: Wish,
    book: Arc<Book>,
    kills: Arc<Kills>,
    pub freezes: Arc<Freezes>,
    dice: Dice,
    slots: JoinSet<anyhow::Result<()>>,
    began: Instant,
}

impl Trial {
    /// Sets the stage, spoils the roads and lets the tenants in.
    pub async fn begin(wish: &Wish, ground: &Ground) -> anyhow::Result<Self> {
        let mut dice = Dice::new(wish.seed);
        let stage = Arc::new(Stage::set(ground, &mut dice).await?);
        (wish.progress)(&format!(
            "seed {}: {} nodes and {} api replicas are up",
            wish.seed,
            stage.nodes.len(),
            stage.replicas.len()
        ));
        let began = Instant::now();
        let until = began + wish.at_least;
        let book = Arc::new(Book::new(wish.tasks, until, &stage));
        let kills = Arc::new(Kills::new(wish.kills, until, VICTIMS.len()));
        stage.set_roads(Policy::Lose {
            requests_pct: wish.loss_pct,
            answers_pct: wish.loss_pct,
        });
        let mut slots = JoinSet::new();
        for node in 0..stage.machines().saturating_sub(wish.idle_nodes) {
            for slot in 0..wish.slots {
                let (stage, book, kills) = (stage.clone(), book.clone(), kills.clone());
                let slot = Slot {
                    stage,
                    book,
                    kills,
                    node,
                    slot,
                    clock_jumps: wish.clock_jumps,
                };
                slots.spawn(slot.run());
            }
        }
        let renters = if stage.slice_nodes > 0 { wish.renters } else { 0 };
        for _ in 0..renters {
            let (stage, book, kills) = (stage.clone(), book.clone(), kills.clone());
            let renter = Renter {
                stage,
                book,
                kills,
                clock_jumps: wish.clock_jumps,
            };
            slots.spawn(renter.run());
        }
        Ok(Self {
            stage,
            wish: wish.clone(),
            book,
            kills,
            freezes: Arc::default(),
            dice,
            slots,
            began,
        })
    }

    /// Waits until so many more tasks have ended, and says how long it took.
    pub async fn more(&self, tasks: u64) -> anyhow::Result<Duration> {
        let (began, before) = (Instant::now(), self.book.ended());
        while self.book.ended() < before + tasks {
            anyhow::ensure!(began.elapsed() < self.wish.patience, "no task ends any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(began.elapsed())
    }

    /// Lets it all go on for a while.
    pub async fn goes_on(&self, lasts: Duration) {
        tokio::time::sleep(lasts).await;
    }

    /// Lets the tenants who are there move out, and judges.
    pub async fn end(mut self) -> anyhow::Result<Outcome> {
        self.book.close();
        let all = async {
            while let Some(ended) = self.slots.join_next().await {
                ended??;
            }
            Ok::<(), anyhow::Error>(())
        };
        let stuck = match tokio::time::timeout(self.wish.patience, all).await {
            Ok(done) => done.map(|()| false)?,
            Err(_) => true,
        };
        self.judge(stuck).await
    }

    async fn judge(mut self, stuck: bool) -> anyhow::Result<Outcome> {
        let (stage, book, counts, took) = (&self.stage, &self.book, self.stage.counts(), self.began.elapsed());
        stage.set_roads(Policy::Pass);
        tasks::until_all_ended(stage).await;
        let mut history = book.history()?;
        tasks::landed(stage, &mut history).await?;
        let starts = stage
            .nodes
            .iter()
            .map(|(_, node)| node.agent.starts() + node.executor.starts());
        let restarts = stage.replicas.iter().map(|replica| replica.process.starts());
        let events = history.events();
        let mut violations = super::report::judge(&history);
        if !stuck {
            violations.extend(super::left::behind(stage)?);
        }
        let outcome = Outcome {
            tasks: book.ended(),
            slice_tasks: book.slice_tasks(),
            kills: self.kills.by_kind(),
            freezes: self.freezes.done(),
            longest_freeze: self.freezes.longest(),
            called_stale: tasks::taken_for(stage, "node.stale").await?,
            called_copies: tasks::taken_for(stage, "node.cloned").await?,
            renewals: tasks::renewals(stage).await?,
            counts,
            asked_again: book.asked_again(),
            starts: starts.chain(restarts).map(u64::from).sum(),
            took,
            stuck,
            violations,
            deaths_at_work: deaths_at_work(&history, same_task),
            events: events.len() as u64,
            effects: events.iter().filter(|event| event.what == What::Effect).count() as u64,
        };
        self.slots.shutdown().await;
        if let Some(stage) = Arc::into_inner(self.stage) {
            stage.strike().await;
        }
        Ok(outcome)
    }
}

fn hands<'a>(wish: &Wish, stage: &'a Stage, dice: &mut Dice) -> Vec<Hand<'a>> {
    let [agents, executors, replicas] = wish.victims;
    let of_node = |(_, node): &'a (_, SimNode)| Hand {
        victims: vec![
            victim(vec![(AGENT, &node.agent)], 4 * agents),
            victim(vec![(EXECUTOR, &node.executor)], 4 * executors),
            // A whole node goes down now and then.
            victim(
                vec![(EXECUTOR, &node.executor), (AGENT, &node.agent)],
                agents.min(executors),
            ),
        ],
        watched: Some(node.dir.host().join("touches.jsonl")),
        pause: wish.kill_every,
        dice: dice.fork(),
    };
    let mut hands: Vec<Hand<'a>> = stage.nodes.iter().map(of_node).collect();
    let processes = stage.replicas.iter().map(|replica| &replica.process);
    hands.push(Hand {
        victims: processes
            .map(|process| victim(vec![(API, process)], replicas))
            .collect(),
        watched: None,
        pause: wish.kill_every,
        dice: dice.fork(),
    });
    hands
}

fn freezer<'a>(wish: &Wish, stage: &'a Stage, dice: &mut Dice) -> Freezer<'a> {
    let never = wish.freezes == 0;
    let processes = stage.replicas.iter().map(|replica| &replica.process);
    Freezer {
        victims: processes.filter(|_| !never).collect(),
        pause: wish.freeze_every,
        lasts: wish.freeze_lasts,
        dice: dice.fork(),
    }
}

fn victim(processes: Vec<(usize, &Kept)>, weight: u64) -> Victim<'_> {
    Victim { processes, weight }
}

/// Tells how far it is, each second; returns if nothing has ended for too long.
async fn watch(wish: &Wish, stage: &Stage, book: &Book, kills: &Kills, freezes: &Freezes) {
    let began = Instant::now();
    let (mut ended, mut since) = (0, began);
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        if book.ended() > ended {
            (ended, since) = (book.ended(), Instant::now());
        } else if since.elapsed() > wish.patience {
            return;
        }
        let counts = stage.counts();
        let by_kind = kills.by_kind().into_iter().zip(VICTIMS);
        let by_kind: Vec<String> = by_kind.map(|(count, kind)| format!("{kind} {count}")).collect();
        (wish.progress)(&format!(
            "{:>5} s  tasks {ended}/{}  kills {}/{} ({})  freezes {}  lost {} requests, {} answers of {}  connections {}  asked again {}",
            began.elapsed().as_secs(),
            wish.tasks,
            kills.done(),
            wish.kills,
            by_kind.join(", "),
            freezes.done(),
            counts.lost_requests,
            counts.lost_answers,
            counts.requests,
            counts.connections,
            book.asked_again(),
        ));
    }
}
