//! Every disk of the slots, wiped and looked at. Markers that nobody could have known are planted before and sought
//! afterwards; a method that the disk fails at gives way to the next, and a disk that stays dirty is an error. Of several
//! disks each has a thread of its own: one may take hours, and does not get faster by waiting for another.

use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use host::{Markers, OpenDisk, Wiped};
use model::id::SlotId;
use model::proof::{Verdict, WipeMethod, WipeProof};
use model::signal::Code;
use model::task::slot::Slot;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use steps::Fail;

use super::{Hold, fail, failed};

/// A wipe that was done and proves nothing yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tasks) struct Begun {
    slot_id: SlotId,
    method: WipeMethod,
    tool_rc: i32,
    markers_planted: u32,
    started_at: Timestamp,
}

impl Hold {
    pub(in crate::tasks) fn wipe(&self) -> Result<Vec<Begun>, Fail> {
        self.all_at_once(|slot| self.wipe_one(slot)).into_iter().collect()
    }

    /// The answers are in the order of the slots, whoever was first.
    fn all_at_once<T: Send>(&self, work: impl Fn(&Slot) -> Result<T, Fail> + Sync) -> Vec<Result<T, Fail>> {
        if let [only] = self.slots.as_slice() {
            return vec![work(only)];
        }
        let (work, operations) = (&work, &self.host.operations);
        std::thread::scope(|scope| {
            let begin = |(number, slot)| {
                let place = operations.place(number).map_err(failed)?;
                Ok(scope.spawn(move || {
                    let _entered = place.enter();
                    work(slot)
                }))
            };
            let begun: Vec<Result<_, Fail>> = self.slots.iter().enumerate().map(begin).collect();
            let end = |begun: Result<ScopedJoinHandle<'_, _>, Fail>| {
                begun?.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            begun.into_iter().map(end).collect()
        })
    }

    fn wipe_one(&self, slot: &Slot) -> Result<Begun, Fail> {
        let started_at = self.clock.now();
        let disk = self.guarded(slot)?;
        let markers = self.markers(slot)?;
        let mut last = fail(Code::WipeUnproved, format!("{}: it offers no method", slot.nvme_device));
        for method in disk.wipe_methods().map_err(failed)? {
            match plant_and_wipe(&*disk, &markers, method) {
                Ok((markers_planted, Wiped { method, tool_rc: 0 })) => {
                    return Ok(Begun {
                        slot_id: slot.slot_id,
                        method,
                        tool_rc: 0,
                        markers_planted,
                        started_at,
                    });
                }
                Ok((_, wiped)) => {
                    let why = format!("{}: {} ended with {}", slot.nvme_device, method.as_str(), wiped.tool_rc);
                    last = fail(Code::WipeUnproved, why);
                }
                Err(error) => last = failed(error),
            }
        }
        Err(last)
    }

    /// What was seen of each disk goes into `proofs`, clean or dirty; an error for the first that is not clean.
    pub(in crate::tasks) fn prove_wiped(&self, begun: &[Begun], proofs: &mut Vec<WipeProof>) -> Result<(), Fail> {
        proofs.clear();
        // Every disk is looked at, however the others are.
        let seen = self.all_at_once(|slot| {
            let begun = begun.iter().find(|begun| begun.slot_id == slot.slot_id);
            let begun = begun.ok_or_else(|| fail(Code::WipeUnproved, format!("{} was skipped", slot.nvme_device)))?;
            self.look_for_markers(slot, begun)
        });
        proofs.extend(seen.iter().flatten().cloned());
        seen.into_iter().try_for_each(|proof| clean(&proof?))
    }

    fn look_for_markers(&self, slot: &Slot, begun: &Begun) -> Result<WipeProof, Fail> {
        let sought = self
            .guarded(slot)?
            .seek(&self.markers(slot)?, begun.method)
            .map_err(failed)?;
        let mut proof = WipeProof {
            slot_id: slot.slot_id,
            nvme_device: slot.nvme_device.clone(),
            serial: slot.nvme_serial.clone(),
            wwn: slot.nvme_wwn.clone(),
            size_bytes: slot.nvme_size_bytes,
            method: begun.method,
            tool_rc: begun.tool_rc,
            nonce: self.nonce,
            markers_planted: begun.markers_planted,
            markers_found: sought.markers_found,
            signatures_found: sought.signatures_found,
            read_back_bytes: sought.read_back_bytes,
            blocks_not_zero: sought.blocks_not_zero,
            started_at: begun.started_at,
            ended_at: self.clock.now(),
            verdict: Verdict::Dirty,
        };
        proof.verdict = proof.judge();
        Ok(proof)
    }

    fn markers(&self, slot: &Slot) -> Result<Markers, Fail> {
        let small = || {
            fail(
                Code::WipeUnproved,
                format!("{} has no room for a marker", slot.nvme_device),
            )
        };
        Markers::new(self.nonce, slot.nvme_size_bytes).ok_or_else(small)
    }
}

fn clean(proof: &WipeProof) -> Result<(), Fail> {
    if proof.is_clean() {
        return Ok(());
    }
    let why = format!(
        "{}: {} markers, {} signatures and {} other blocks are left after {}",
        proof.nvme_device,
        proof.markers_found,
        proof.signatures_found,
        proof.blocks_not_zero,
        proof.method.as_str()
    );
    Err(fail(Code::WipeUnproved, why))
}

fn plant_and_wipe(disk: &dyn OpenDisk, markers: &Markers, method: WipeMethod) -> host::Result<(u32, Wiped)> {
    let planted = disk.plant(markers)?;
    Ok((planted, disk.wipe(method)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use host::Owner;
    use host::pretend::{Fault, Pretend, Profile};
    use model::id::derive_op;
    use model::value::Nonce;

    use super::super::super::vm_provision;
    use super::*;
    use crate::Clock;

    /// Four slots, leased, without a VM.
    fn hold(pretend: &Pretend) -> Hold {
        let params = vm_provision::proof::params(4);
        let owner = Owner {
            allocation: params.allocation_id,
            op: derive_op(params.allocation_id, "a test", 1),
            epoch: 1,
        };
        let hold = Hold {
            host: pretend.host(),
            owner,
            vm: params.vm_name,
            slots: params.slots,
            nonce: Nonce::from_bytes([7; 32]),
            clock: Clock::real(),
        };
        pretend.meddle(|state| {
            for disk in state.hardware.disks.values_mut() {
                disk.disk.identity.size_bytes = hold.slots[0].nvme_size_bytes;
            }
        });
        let leased = hold.host.leases.ensure_leased(&hold.slot_ids(), &hold.owner);
        leased.expect("nobody has them");
        hold
    }

    #[test]
    fn all_disks_are_at_work_before_one_is_done() {
        let hold = hold(&Pretend::in_memory(Profile::L40sx4));
        let together = Barrier::new(hold.slots.len());
        let answers = hold.all_at_once(|slot| {
            together.wait();
            Ok(slot.slot_id)
        });
        let ids: Vec<SlotId> = answers.into_iter().map(|id| id.expect("no failure")).collect();
        assert_eq!(ids, hold.slot_ids());
    }

    #[test]
    fn a_disk_that_stays_dirty_is_named_and_the_others_are_proved() {
        let pretend = Pretend::in_memory(Profile::L40sx4);
        let hold = hold(&pretend);
        let lies = &hold.slots[2].nvme_device;
        pretend.meddle(|state| assert!(state.hardware.faults.insert(Fault::WipeDoesNothing(lies.clone()))));
        let begun = hold.wipe().expect("each says that it did");
        let mut proofs = Vec::new();
        let fail = hold.prove_wiped(&begun, &mut proofs).expect_err("one is dirty");
        assert!(format!("{fail:?}").contains(lies.as_str()), "{fail:?}");
        let seen: Vec<_> = proofs.iter().map(|proof| (proof.slot_id, proof.is_clean())).collect();
        let clean = [true, true, false, true];
        assert_eq!(seen, hold.slot_ids().into_iter().zip(clean).collect::<Vec<_>>());
        pretend.meddle(|state| assert!(state.hardware.faults.insert(Fault::WipeStops(lies.clone()))));
        let fail = hold.wipe().expect_err("one stops");
        assert!(format!("{fail:?}").contains(lies.as_str()), "{fail:?}");
    }
}
