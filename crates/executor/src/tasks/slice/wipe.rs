//! Every disk of the slots, wiped and looked at. Markers that nobody could have known are planted before and sought
//! afterwards; a method that the disk fails at gives way to the next, and a disk that stays dirty is an error.

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
        self.slots.iter().map(|slot| self.wipe_one(slot)).collect()
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
        let mut prove = |slot: &Slot| {
            let begun = begun.iter().find(|begun| begun.slot_id == slot.slot_id);
            let begun = begun.ok_or_else(|| fail(Code::WipeUnproved, format!("{} was skipped", slot.nvme_device)))?;
            let proof = self.look_for_markers(slot, begun)?;
            proofs.push(proof.clone());
            if proof.is_clean() {
                return Ok(());
            }
            let why = format!(
                "{}: {} markers, {} signatures and {} other blocks are left after {}",
                slot.nvme_device,
                proof.markers_found,
                proof.signatures_found,
                proof.blocks_not_zero,
                begun.method.as_str()
            );
            Err(fail(Code::WipeUnproved, why))
        };
        // Every disk is looked at, however the others are.
        let seen: Vec<Result<(), Fail>> = self.slots.iter().map(&mut prove).collect();
        seen.into_iter().collect()
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

fn plant_and_wipe(disk: &dyn OpenDisk, markers: &Markers, method: WipeMethod) -> host::Result<(u32, Wiped)> {
    let planted = disk.plant(markers)?;
    Ok((planted, disk.wipe(method)?))
}
