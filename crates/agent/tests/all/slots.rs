//! The identity survives whatever a crash does to one slot.

use std::fs;
use std::path::Path;

use agent::identity::{Certificate, Enrolling, Identity, Kept, SLOT_BYTES, SlotError, Slots};
use model::digest::Sha256;
use model::id::{InstallationId, NodeId};
use model::node_api::Endpoints;
use model::time::Timestamp;
use proptest::prelude::*;

use crate::place::Place;

fn identity(generation: u64, filler: usize) -> Identity {
    let certificate = Certificate {
        chain: "c".repeat(filler),
        generation,
        received_at: Timestamp::from_millis(1_800_000_000_000),
    };
    Identity {
        installation: InstallationId::new(),
        node_id: NodeId::new(),
        epoch: 1,
        working_key: "secret-key".to_owned(),
        working: certificate.clone(),
        device: certificate,
        ca_bundle: "ca".to_owned(),
        endpoints: Endpoints {
            node_api_url: "https://node-api.test".to_owned(),
            node_api_resolve: None,
            enrol_url: "https://enrol.test".to_owned(),
        },
        token_sha256: Sha256::of(b"token"),
    }
}

fn set(slots: &Slots, identity: &Identity) {
    let identity = identity.clone();
    slots.change(|kept| kept.identity = Some(identity)).expect("kept");
}

/// The file that a write changes.
fn changed(before: &[Vec<u8>; 2], after: &[Vec<u8>; 2]) -> usize {
    let differ: Vec<usize> = (0..2).filter(|slot| before[*slot] != after[*slot]).collect();
    assert_eq!(differ.len(), 1, "one write changes one slot");
    differ[0]
}

fn files(dir: &Path) -> [Vec<u8>; 2] {
    ["identity.a", "identity.b"].map(|name| fs::read(dir.join(name)).expect("slot"))
}

#[test]
fn the_newest_write_is_read_back_and_sizes_never_change() {
    let place = Place::new();
    for generation in 1..=5 {
        let slots = Slots::open(place.path()).expect("open");
        let wanted = identity(generation, 100 * generation as usize);
        set(&slots, &wanted);
        drop(slots);
        assert_eq!(Slots::open(place.path()).expect("open").kept().identity, Some(wanted));
        for slot in files(place.path()) {
            assert_eq!(slot.len(), SLOT_BYTES);
        }
    }
    let modes = ["identity.a", "identity.b"].map(|name| {
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(place.path().join(name)).expect("slot").permissions())
    });
    assert_eq!(modes.map(|mode| mode & 0o777), [0o600; 2]);
}

#[test]
fn a_second_agent_is_refused_and_a_tool_may_look() {
    let place = Place::new();
    let slots = Slots::open(place.path()).expect("open");
    set(&slots, &identity(1, 10));
    assert!(matches!(Slots::open(place.path()), Err(SlotError::AlreadyRunning(_))));
    assert_eq!(Slots::peek(place.path()).expect("peek"), slots.kept());
}

#[test]
fn an_identity_that_is_too_large_is_refused_and_the_old_one_stays() {
    let place = Place::new();
    let slots = Slots::open(place.path()).expect("open");
    let small = identity(1, 10);
    set(&slots, &small);
    let large = identity(2, SLOT_BYTES);
    assert!(matches!(
        slots.change(|kept| kept.identity = Some(large)),
        Err(SlotError::TooLarge(_))
    ));
    assert_eq!(slots.kept().identity, Some(small));
}

#[test]
fn keys_do_not_show_in_debug_output() {
    let enrolling = Enrolling {
        token_sha256: Sha256::of(b"t"),
        working_key: "secret-key".to_owned(),
    };
    let kept = Kept {
        identity: Some(identity(1, 1)),
        enrolling: Some(enrolling),
    };
    assert!(!format!("{kept:?}").contains("secret-key"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Torn at any byte, and with any garbage behind the tear, the write before it is what is found.
    #[test]
    fn a_torn_write_loses_only_itself(old in 1_usize..2000, new in 1_usize..2000, cut in 0.0_f64..1.0, noise: u8) {
        let place = Place::new();
        let slots = Slots::open(place.path()).expect("open");
        set(&slots, &identity(1, old));
        let whole = identity(2, old);
        set(&slots, &whole);
        let before = files(place.path());
        let last = identity(3, new);
        set(&slots, &last);
        drop(slots);
        let after = files(place.path());
        let slot = changed(&before, &after);
        // Head and body; what an older, longer body left behind it does not count.
        let body: [u8; 4] = after[slot][16..20].try_into().expect("length");
        let written = 24 + u32::from_be_bytes(body) as usize;
        let cut = ((written as f64) * cut) as usize;
        let mut torn = after[slot][..cut].to_vec();
        torn.extend_from_slice(&before[slot][cut..]);
        torn[cut] = torn[cut].wrapping_add(noise);
        fs::write(place.path().join(["identity.a", "identity.b"][slot]), &torn).expect("torn");

        let found = Slots::open(place.path()).expect("open").kept().identity;
        let expected = if torn[..written] == after[slot][..written] { last } else { whole };
        prop_assert_eq!(found, Some(expected));
    }
}
