//! What silence means after outages, of our own and of others, and what becomes of a clock that jumps.

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

#[test]
fn what_was_heard_in_the_future_was_heard_by_now() {
    let presence = Presence::new(1000);
    let (node, session, ahead) = (NodeId::new(), SessionId::new(), NOW.plus_ms(600_000));
    presence.heard_in(node, session, ahead);
    let beat = HeartbeatRequest {
        tasks: Vec::new(),
        results_pending: 0,
        disk: None,
        trouble: None,
    };
    presence.told(node, &beat, ahead);
    let mut unwritten = presence.lock();
    unwritten.not_after(NOW);
    assert_eq!(unwritten.conditions[&node].at, NOW);
    let heard = unwritten.due(1000)[&node];
    assert_eq!((heard.at, heard.session), (NOW, Some((session, NOW))));
}

#[test]
fn another_that_stands_still_again_and_again_suspends_no_silence_for_ever() {
    let (stale_ms, missed_ms) = (50_000, 90_000);
    let means = |all_ms, own_ms| silence_ms(all_ms, own_ms, stale_ms, missed_ms);
    assert_eq!(means(50_000, 50_000), Some(50_000));
    assert_eq!(means(49_000, 49_000), None);
    assert_eq!(means(1000, 139_000), None, "it may hold them still");
    assert_eq!(means(1000, 140_000), Some(140_000), "nobody holds them any longer");
    assert_eq!(means(1000, 1000), None, "an outage of our own counts for all");
    let presence = Presence::new(1000);
    let own = presence.listening().own;
    presence.others_stood_still();
    assert_eq!(presence.listening().own, own);
    presence.listen_anew();
    assert!(presence.listening().own > own);
}

#[test]
fn what_has_to_be_dated_back_is_so_until_it_was_done() {
    let presence = Presence::new(1000);
    assert!(!presence.clock_jumped(NOW), "a first look compares with nothing");
    assert_eq!(
        presence.to_date_back(),
        Some(DIFFER_MS),
        "but what is far ahead is wrong"
    );
    presence.dated_back();
    assert!(!presence.clock_jumped(NOW));
    assert_eq!(presence.to_date_back(), None);
    assert!(presence.clock_jumped(NOW.plus_ms(-60_000)));
    assert!(!presence.clock_jumped(NOW.plus_ms(-60_000)));
    assert_eq!(presence.to_date_back(), Some(0), "nobody has said that it was done");
    presence.dated_back();
    assert_eq!(presence.to_date_back(), None);
}
