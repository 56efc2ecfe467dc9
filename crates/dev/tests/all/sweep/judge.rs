//! After a fault: a healthy start over the same directory, and everything that has to hold then. The pretend host's
//! own log says what really happened; our journal is not asked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use host::pretend::State;
use model::dsse::Envelope;
use model::outcome::{Outcome, ResultPayload};
use model::signal::Code;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::legs::{Here, Leg, Script, Signed, host, now};
use super::strace::{Fault, Point};
use super::talk::{Ended, Heard, Talk};

/// How a leg ends when nothing fails.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    /// The machine failed the task, and a second one was needed.
    pub(crate) retried: bool,
    pub(crate) host: State,
    pub(crate) effects: Vec<String>,
    pub(crate) files: BTreeSet<PathBuf>,
}

macro_rules! must {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}

/// Brings the run in `dir` to its end and says how that was, or what is wrong.
pub(crate) fn judge(
    dir: &Path,
    leg: &Leg,
    told: Option<&Envelope>,
    fault: Option<(&Point, Fault)>,
) -> Result<Ending, String> {
    let (here, mut talk) = Here::ready(dir, leg)?;
    prepare(leg, &mut talk).map_err(heard("prepare"))?;
    let state = talk.state().map_err(heard("hello"))?;
    must!(state.trouble.is_none(), "it takes nothing: {:?}", state.trouble);
    must!(state.identity.is_some(), "it has no identity");
    let mut result = end(leg, &leg.work, &mut talk, told)?;
    let retried = result.outcome == Outcome::Failed;
    if retried {
        failed_rightly(dir, leg, &result, fault)?;
        result = end(leg, &leg.again, &mut talk, None)?;
    }
    here.end().map_err(|error| format!("{error:#}"))?;
    // Once more: what was written last is read too.
    let (here, mut talk) = Here::ready(dir, leg)?;
    let state = talk.state().map_err(heard("hello again"))?;
    must!(
        state.trouble.is_none() && state.tasks.is_empty(),
        "something is left open: {state:?}"
    );
    must!(state.results_pending == 0, "{} results are left", state.results_pending);
    here.end().map_err(|error| format!("{error:#}"))?;
    Ok(Ending {
        outcome: result.outcome,
        retried,
        host: host(dir, leg.profile),
        effects: effects(dir)?,
        files: files(&dir.join("executor")),
    })
}

/// What the agent would say again because it got no answer.
fn prepare(leg: &Leg, talk: &mut Talk) -> Heard<()> {
    match &leg.script {
        Script::Enrol => talk.enrol(leg.enrolled.clone()),
        Script::Trust(bundle) => talk.trust((**bundle).clone()).map(drop),
        // The very first start gives no identity.
        Script::Hello if talk.state()?.identity.is_none() => talk.enrol(leg.enrolled.clone()),
        Script::Hello | Script::Claim | Script::Resume | Script::Acknowledge => Ok(()),
    }
}

/// The signed end of a task: the same however often it is asked for, acknowledged, and without effect afterwards.
fn end(leg: &Leg, work: &Signed, talk: &mut Talk, told: Option<&Envelope>) -> Result<ResultPayload, String> {
    let Signed { task_id, envelope } = work;
    let first = talk.run(*task_id, envelope, now()).map_err(heard("the task"))?;
    let result = ResultPayload::open(&first, &leg.result_public).map_err(|code| format!("the result: {code}"))?;
    must!(result.task_id == *task_id, "a result of another task");
    must!(
        result.payload_sha256 == envelope.payload_digest(),
        "a result of other bytes"
    );
    let second = talk.run(*task_id, envelope, now()).map_err(heard("the task again"))?;
    must!(first == second, "two different results");
    must!(
        told.is_none_or(|told| *told == first),
        "another result than it gave before the fault"
    );
    talk.acknowledge(*task_id).map_err(heard("acknowledge"))?;
    let state = talk.state().map_err(heard("hello"))?;
    must!(
        state.tasks.iter().all(|held| held.task_id != *task_id),
        "it is still held"
    );
    Ok(result)
}

/// A task may fail if the machine itself did, and then it has taken back what it did; what removes things stays where
/// it is and is asked for again.
fn failed_rightly(dir: &Path, leg: &Leg, result: &ResultPayload, fault: Option<(&Point, Fault)>) -> Result<(), String> {
    let machine = |point: &Point| point.path.as_ref().is_some_and(|path| path.starts_with("host"));
    let may = fault.is_some_and(|(point, fault)| fault != Fault::Kill && machine(point));
    must!(may, "it failed: {:?} {:?}", result.code, result.detail);
    let told = matches!(result.code, Some(Code::HostCommandFailed | Code::DiskFull));
    must!(told, "it failed with {:?}", result.code);
    let left = differences(&host(dir, leg.profile), &leg.before);
    must!(
        leg.only_forward() || left.is_empty(),
        "it failed and left something: {left:?}"
    );
    Ok(())
}

/// What is not the same on two hosts, and how it is on the first. A whole host fills pages.
fn differences(one: &State, other: &State) -> Vec<String> {
    let value = |state: &State| serde_json::to_value(state).expect("a state");
    let mut found = Vec::new();
    differ("", &value(one), &value(other), &mut found);
    found
}

fn differ(at: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(ones), Value::Object(others)) => {
            let keys: BTreeSet<&String> = ones.keys().chain(others.keys()).collect();
            // No two runs are at the same time.
            for key in keys.into_iter().filter(|key| *key != "since") {
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differ(&format!("{at}/{key}"), &of(ones), &of(others), found);
            }
        }
        _ if one != other => found.push(format!("{at}: {one} (should be {other})")),
        _ => {}
    }
}

fn heard(what: &'static str) -> impl Fn(Ended) -> String {
    move |ended| format!("{what}: {ended}")
}

#[derive(Deserialize)]
struct Effect {
    seq: u64,
    verb: String,
}

/// The verbs that changed the machine. Their numbers have no gap and no repetition.
fn effects(dir: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(dir.join("host/effects.jsonl")).map_err(|error| error.to_string())?;
    let mut verbs = Vec::new();
    for line in text.lines() {
        let effect: Effect = serde_json::from_str(line).map_err(|error| format!("the host's log: {error}"))?;
        verbs.push(effect.verb);
        must!(
            effect.seq == verbs.len() as u64,
            "the host's log has a gap at {}",
            effect.seq
        );
    }
    Ok(verbs)
}

fn files(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            let name = PathBuf::from(entry.file_name());
            found.extend(files(&path).into_iter().map(|file| name.join(file)));
        } else {
            found.insert(PathBuf::from(entry.file_name()));
        }
    }
    found
}

/// A run with a fault ends like one without. Where the machine failed a task and a second one succeeded, only the
/// outcome counts: the way there was longer.
pub(crate) fn same(ending: &Ending, reference: &Ending) -> Result<(), String> {
    must!(ending.outcome == reference.outcome, "it ended {:?}", ending.outcome);
    let other = differences(&ending.host, &reference.host);
    must!(other.is_empty(), "the host is another: {other:?}");
    must!(
        ending.files == reference.files,
        "files were left or are gone: {:?}",
        ending.files.symmetric_difference(&reference.files).collect::<Vec<_>>()
    );
    must!(
        ending.retried || once(&ending.effects) == reference.effects,
        "effects: {:?}",
        ending.effects
    );
    Ok(())
}

/// A wipe whose end nobody could write down is done again, and whole: its proof is of one wipe from marking to reading.
fn once(effects: &[String]) -> Vec<String> {
    const WIPE: [&str; 2] = ["plant", "wipe"];
    let mut told: Vec<String> = Vec::new();
    let mut rest = effects;
    while let [first, more @ ..] = rest {
        if rest.starts_with(&WIPE.map(str::to_owned)) && told.ends_with(&WIPE.map(str::to_owned)) {
            rest = &rest[WIPE.len()..];
            continue;
        }
        told.push(first.clone());
        rest = more;
    }
    told
}
