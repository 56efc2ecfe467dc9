//! The judge on trial: a good history passes, and each way of being bad is found and named.

use super::*;

type Told = (&'static str, What);

fn history(events: &[Told]) -> History {
    let mut history = History::default();
    for (key, what) in events {
        history.put(*key, what.clone());
    }
    history
}

fn judged(events: &[Told]) -> Vec<(Kind, String)> {
    let history = history(events);
    let found = [
        all_ended(&history),
        at_most_one_effect(&history),
        steps_once(&history),
        none_falsely_complete(&history, |key| key != "look"),
        none_failed(&history),
        none_unasked(&history),
        one_holder_at_a_time(&history),
    ];
    let found = found.into_iter().flatten();
    found.map(|violation| (violation.kind, violation.key)).collect()
}

const fn step(order: u32, life: u64) -> What {
    What::Step { order, life }
}

fn takes(who: &str) -> What {
    What::Takes(who.to_owned())
}

fn gives(who: &str) -> What {
    What::Gives(who.to_owned())
}

#[test]
fn a_good_history_is_good() {
    let good = [
        ("a", What::Invoke),
        ("b", What::Invoke),
        ("a", What::Info),
        ("a", step(0, 1)),
        // Killed in it, and again in it, and then over it.
        ("a", step(1, 1)),
        ("a", step(1, 2)),
        ("a", step(1, 3)),
        ("a", step(2, 3)),
        ("a", What::Effect),
        ("b", What::Effect),
        ("a", What::Ok),
        // Asked twice, because an answer was lost; told twice.
        ("a", What::Ok),
        ("b", What::Ok),
        ("look", What::Invoke),
        ("look", What::Ok),
        ("slot", takes("a")),
        ("slot", gives("a")),
        ("slot", takes("b")),
    ];
    assert_eq!(judged(&good), []);
    assert_eq!(deaths_at_work(&history(&good), |_, _| true), 2);
    assert_eq!(deaths_at_work(&history(&good), |_, _| false), 0);
}

#[test]
fn what_never_ends_is_lost() {
    let lost = [("a", What::Invoke), ("a", What::Info), ("a", What::Effect)];
    assert_eq!(judged(&lost), [(Kind::Lost, "a".to_owned())]);
}

#[test]
fn two_effects_are_doubled() {
    let twice = [
        ("a", What::Invoke),
        ("a", What::Effect),
        ("a", What::Ok),
        ("a", What::Effect),
    ];
    assert_eq!(judged(&twice), [(Kind::Doubled, "a".to_owned())]);
}

#[test]
fn a_walk_that_begins_again_is_doubled() {
    for again in [
        // From the start after a kill; the same move in the same life.
        [step(0, 1), step(1, 1), step(0, 2)],
        [step(0, 1), step(1, 1), step(1, 1)],
    ] {
        let events: Vec<Told> = again.into_iter().map(|what| ("a", what)).collect();
        assert_eq!(judged(&events), [(Kind::Doubled, "a".to_owned())]);
    }
}

#[test]
fn done_before_it_was_done_is_falsely_complete() {
    let early = [("a", What::Invoke), ("a", What::Ok), ("a", What::Effect)];
    assert_eq!(judged(&early), [(Kind::FalselyComplete, "a".to_owned())]);
    assert_eq!(judged(&early[..2]), [(Kind::FalselyComplete, "a".to_owned())]);
}

#[test]
fn what_failed_or_was_never_asked_for_is_told() {
    let failed = [("a", What::Invoke), ("a", What::Fail("stuck".to_owned()))];
    assert_eq!(judged(&failed), [(Kind::Failed, "a".to_owned())]);
    let unasked = [("a", What::Effect)];
    assert_eq!(judged(&unasked), [(Kind::Unasked, "a".to_owned())]);
}

#[test]
fn a_thing_with_two_holders_is_found() {
    let both = [("slot", takes("a")), ("slot", takes("b"))];
    assert_eq!(judged(&both), [(Kind::TwoHolders, "slot".to_owned())]);
    let stranger = [("slot", takes("a")), ("slot", gives("b"))];
    assert_eq!(judged(&stranger), [(Kind::TwoHolders, "slot".to_owned())]);
}
