//! Promises that hold for every chain that can exist, not only for the ones we thought of.

use proptest::prelude::*;

use super::*;

/// Any result that is possible at a hop.
fn result_at(hop: Hop) -> BoxedStrategy<HopResult> {
    let at = |hops: &'static [(Hop, &'static [Reason])], code: Code| {
        hops.iter()
            .filter(move |(at, _)| *at == hop)
            .flat_map(move |(_, reasons)| reasons.iter().map(move |&r| Fault::new(hop, code, r).expect("listed")))
    };
    let fails: Vec<Fault> = SIGNALS.iter().flat_map(|row| at(row.fails, row.code)).collect();
    let warns: Vec<Fault> = SIGNALS.iter().flat_map(|row| at(row.warns, row.code)).collect();
    let warns = if warns.is_empty() {
        Just(None).boxed()
    } else {
        prop::option::of(prop::sample::select(warns)).boxed()
    };
    prop_oneof![
        3 => warns.prop_map(|warning| HopResult::Pass { warning }),
        2 => prop::sample::select(fails).prop_map(HopResult::Fail),
        1 => prop::sample::select(Skip::ALL).prop_map(HopResult::NotEvaluated),
    ]
    .boxed()
}

fn chain() -> impl Strategy<Value = Chain> {
    let results: Vec<_> = Hop::ALL.iter().map(|&hop| result_at(hop)).collect();
    results.prop_map(|results| Chain::judged(|hop| results[hop as usize]))
}

fn replaced(chain: &Chain, at: Hop, by: HopResult) -> Chain {
    Chain::judged(|hop| if hop == at { by } else { chain.get(hop) })
}

fn answer(chain: &Chain) -> Classification {
    classify(chain.clone(), SideCheck::NotEvaluated(Skip::NotRequested))
}

proptest! {
    #[test]
    fn there_is_a_cause_exactly_when_something_failed(chain in chain()) {
        let failed = chain.iter().any(|(_, result)| result.fault().is_some());
        let found = answer(&chain);
        prop_assert_eq!(found.cause.is_some(), failed);
        prop_assert_eq!(found.first_failed_hop.is_some(), failed);
        prop_assert_eq!(found.verdict == Verdict::Failed, failed);
        prop_assert_eq!(found.signals.is_empty(), !failed);
    }

    #[test]
    fn the_cause_is_a_failure_of_the_chain_and_none_stands_above_it(chain in chain()) {
        if let Some(cause) = answer(&chain).cause {
            prop_assert_eq!(chain.get(cause.hop()), HopResult::Fail(cause));
            for (hop, result) in chain.iter() {
                let Some(other) = result.fault() else { continue };
                let above = (other.signal(), hop) < (cause.signal(), cause.hop());
                prop_assert!(!above, "{other:?} stands above {cause:?}");
            }
        }
    }

    #[test]
    fn seeing_one_more_hop_pass_never_changes_the_cause(
        chain in chain(),
        hop in prop::sample::select(Hop::ALL),
        paused: bool,
    ) {
        if let HopResult::NotEvaluated(_) = chain.get(hop) {
            let more = replaced(&chain, hop, HopResult::PASS);
            prop_assert_eq!(answer(&more).cause, answer(&chain).cause);
            let (more, less) = (more.gated(paused), chain.gated(paused));
            prop_assert_eq!(answer(&more).cause, answer(&less).cause);
        }
    }

    #[test]
    fn seeing_one_more_hop_pass_never_worsens_the_verdict(
        chain in chain(),
        hop in prop::sample::select(Hop::ALL),
    ) {
        let rank = |verdict| match verdict {
            Verdict::Healthy => 0,
            Verdict::Inconclusive => 1,
            Verdict::Failed => 2,
        };
        let more = answer(&replaced(&chain, hop, HopResult::PASS));
        prop_assert!(rank(more.verdict) <= rank(answer(&chain).verdict));
    }

    #[test]
    fn one_more_failure_never_lowers_the_cause(
        (chain, (hop, more)) in (
            chain(),
            prop::sample::select(Hop::ALL).prop_flat_map(|hop| (Just(hop), result_at(hop))),
        ),
    ) {
        let before = answer(&chain).cause;
        if more.fault().is_some() && chain.get(hop).fault().is_none() {
            let after = answer(&replaced(&chain, hop, more)).cause;
            prop_assert!(after.is_some() && (before.is_none() || after <= before));
        }
    }

    #[test]
    fn gating_twice_is_gating_once_and_only_ever_silences(chain in chain(), paused: bool) {
        let gated = chain.clone().gated(paused);
        prop_assert_eq!(gated.clone().gated(paused), gated.clone());
        for (hop, result) in gated.iter() {
            let silenced = result == HopResult::NotEvaluated(Skip::UpstreamFailed);
            prop_assert!(silenced || result == chain.get(hop));
        }
        let (before, after) = (answer(&chain), answer(&gated));
        prop_assert_eq!(after.first_failed_hop, before.first_failed_hop);
        prop_assert_eq!(after.cause.is_some(), before.cause.is_some());
    }

    #[test]
    fn complete_means_thirteen_passes(chain in chain()) {
        let found = answer(&chain);
        let passes = chain.iter().filter(|(_, result)| result.passed()).count();
        prop_assert_eq!(found.complete, passes == 13);
        prop_assert!(!found.complete || found.verdict == Verdict::Healthy);
    }
}
