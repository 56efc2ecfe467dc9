//! The rules, each a function of its own: a run asks those that it promises.

use std::collections::BTreeMap;

use super::{Event, History, Kind, Violation, What};

fn broken(kind: Kind, key: &str, why: impl Into<String>) -> Violation {
    Violation {
        kind,
        key: key.to_owned(),
        why: why.into(),
    }
}

/// What was asked for has an end.
pub fn all_ended(history: &History) -> Vec<Violation> {
    let open = |whats: &Vec<&What>| {
        whats.contains(&&What::Invoke) && !whats.iter().any(|what| matches!(what, What::Ok | What::Fail(_)))
    };
    let keys = history.by_key();
    let open = keys.iter().filter(|(_, whats)| open(whats));
    open.map(|(key, _)| broken(Kind::Lost, key, "asked for, and never told how it ended"))
        .collect()
}

/// The world changed at most once for each operation.
pub fn at_most_one_effect(history: &History) -> Vec<Violation> {
    let keys = history.by_key();
    let counted = keys
        .iter()
        .map(|(key, whats)| (key, whats.iter().filter(|what| ***what == What::Effect).count()));
    counted
        .filter(|(_, effects)| *effects > 1)
        .map(|(key, effects)| broken(Kind::Doubled, key, format!("{effects} effects")))
        .collect()
}

/// A move that was over is not made again, and none before it. Only the one in which its maker died is made once more,
/// in the next life: nobody could know whether it had been.
pub fn steps_once(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, whats) in history.by_key() {
        let mut last: Option<(u32, u64)> = None;
        for what in whats {
            let What::Step { order, life } = what else { continue };
            let again = last.is_some_and(|(before, lived)| *order < before || (*order == before && *life == lived));
            if again {
                let (before, _) = last.unwrap_or_default();
                found.push(broken(Kind::Doubled, key, format!("step {order} after step {before}")));
                break;
            }
            last = Some((*order, *life));
        }
    }
    found
}

/// Nobody is told that it is done before it is. Asked of those operations that change the world.
pub fn none_falsely_complete(history: &History, changes: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, whats) in history.by_key().into_iter().filter(|(key, _)| changes(key)) {
        let told = whats.iter().position(|what| **what == What::Ok);
        let done = whats.iter().position(|what| **what == What::Effect);
        if let Some(told) = told
            && done.is_none_or(|done| done > told)
        {
            found.push(broken(
                Kind::FalselyComplete,
                key,
                "told as done, and there was no effect",
            ));
        }
    }
    found
}

/// Whatever was asked for has been done.
pub fn none_failed(history: &History) -> Vec<Violation> {
    let failed = history.events().iter().filter_map(|event| match &event.what {
        What::Fail(why) => Some(broken(Kind::Failed, &event.key, why.clone())),
        What::Invoke | What::Info | What::Ok | What::Effect | What::Step { .. } | What::Takes(_) | What::Gives(_) => {
            None
        }
    });
    failed.collect()
}

/// The world does not change by itself.
pub fn none_unasked(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, whats) in history.by_key() {
        let asked = whats.iter().position(|what| **what == What::Invoke);
        let done = whats.iter().position(|what| **what == What::Effect);
        if let Some(done) = done
            && asked.is_none_or(|asked| asked > done)
        {
            found.push(broken(Kind::Unasked, key, "an effect that nobody had asked for"));
        }
    }
    found
}

/// A thing has one holder at a time, and only its holder gives it back.
pub fn one_holder_at_a_time(history: &History) -> Vec<Violation> {
    let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for Event { key, what } in history.events() {
        match what {
            What::Takes(who) => {
                if let Some(holder) = holders.insert(key, who) {
                    let why = format!("{who} takes what {holder} has");
                    found.push(broken(Kind::TwoHolders, key, why));
                }
            }
            What::Gives(who) => {
                let holder = holders.remove(key.as_str());
                if holder != Some(who) {
                    let why = format!("{who} gives back what {} has", holder.unwrap_or("nobody"));
                    found.push(broken(Kind::TwoHolders, key, why));
                }
            }
            What::Invoke | What::Info | What::Ok | What::Fail(_) | What::Effect | What::Step { .. } => {}
        }
    }
    found
}

/// How often whoever worked on something died between two moves of it, or in one: a run that never does that has proved
/// little.
pub fn deaths_at_work(history: &History, same_work: impl Fn(u32, u32) -> bool) -> u64 {
    let mut deaths = 0;
    for (_, whats) in history.by_key() {
        let mut last: Option<(u32, u64)> = None;
        for what in whats {
            let What::Step { order, life } = what else { continue };
            if last.is_some_and(|(before, lived)| lived != *life && same_work(before, *order)) {
                deaths += 1;
            }
            last = Some((*order, *life));
        }
    }
    deaths
}
