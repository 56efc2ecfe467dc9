//! Leases: one holder at a time, whoever races, and none that ends by itself.

use std::sync::atomic::{AtomicU64, Ordering};

use host::pretend::{Pretend, Profile};
use host::{Leases, Owner};
use model::id::{AllocationId, OpId, SlotId};
use model::signal::Code;

use crate::facts::Scratch;

fn slot(n: u64) -> SlotId {
    let last = ["0", "4", "8", "c", "g", "m", "r", "w"][n as usize];
    format!("slot_0000000000000000000000000{last}").parse().expect("an id")
}

fn owner() -> Owner {
    Owner {
        allocation: AllocationId::new(),
        op: OpId::new(),
        epoch: 1,
    }
}

fn both(name: &str, suite: fn(&dyn Leases)) {
    suite(&Pretend::in_memory(Profile::Cpu));
    let dir = Scratch::new(name);
    suite(&host::real::Leases::under(&dir.0));
}

#[test]
fn abuse_27_one_slot_for_two() {
    both("leases", |leases| {
        const ROUNDS: u64 = 125;
        // What each slot's holder writes down while it has it.
        let held: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let (won, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 1..=8u64 {
                let (held, won, lost) = (&held, &won, &lost);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let owner = owner();
                        let wanted: Vec<u64> = (0..=round % 3).map(|n| (thread * 5 + round * 3 + n * 2) % 8).collect();
                        let slots: Vec<SlotId> = wanted.iter().map(|n| slot(*n)).collect();
                        match leases.ensure_leased(&slots, &owner) {
                            Ok(()) => {
                                won.fetch_add(1, Ordering::Relaxed);
                                for n in &wanted {
                                    let before = held[*n as usize].swap(thread, Ordering::SeqCst);
                                    assert!(before == 0 || before == thread, "slot {n} has two holders");
                                }
                                for n in &wanted {
                                    held[*n as usize].store(0, Ordering::SeqCst);
                                }
                            }
                            Err(error) => {
                                assert_eq!(error.code(), Code::SlotLeased, "{error}");
                                lost.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        leases.ensure_not_leased(&slots, &owner).expect("given back");
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::Relaxed) + lost.load(Ordering::Relaxed), 8 * ROUNDS);
        assert!(won.load(Ordering::Relaxed) > 0, "somebody got one");
        for n in 0..8 {
            assert_eq!(leases.holder(slot(n)).expect("readable"), None);
        }
    });
}

#[test]
fn abuse_28_lease_of_the_dead() {
    both("dead", |leases| {
        let (dead, rival, slots) = (owner(), owner(), [slot(1), slot(2)]);
        // Whoever took it was killed; nothing of it is left but the lease.
        leases.ensure_leased(&slots, &dead).expect("free");
        for _ in 0..3 {
            assert_eq!(
                leases.ensure_leased(&slots, &rival).expect_err("taken").code(),
                Code::SlotLeased
            );
            leases.ensure_not_leased(&slots, &rival).expect("nothing of its own");
            assert_eq!(
                leases.ensure_held(&slots, &rival).expect_err("taken").code(),
                Code::SlotLeased
            );
            let released = leases.ensure_released(&slots, rival.allocation);
            assert_eq!(released.expect_err("not its own").code(), Code::SlotLeased);
        }
        // Another operation of the same allocation may not provision on it, but may release it.
        let release = Owner {
            op: OpId::new(),
            ..dead
        };
        assert_eq!(
            leases.ensure_leased(&slots, &release).expect_err("taken").code(),
            Code::SlotLeased
        );
        leases.ensure_leased(&slots, &dead).expect("its own goes on");
        leases.ensure_held(&slots, &release).expect("the allocation's");
        assert_eq!(
            leases.holder(slots[0]).expect("readable"),
            Some(dead),
            "still the first one's"
        );
        assert_eq!(leases.ensure_released(&slots, dead.allocation).expect("released"), 2);
        leases.ensure_leased(&slots, &rival).expect("free now");
    });
}
