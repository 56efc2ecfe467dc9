//! Every device of the slots, reset and looked at. There is no "continue" after a reset that failed.

use host::Baseline;
use model::proof::ResetProof;
use steps::Fail;

use super::{Hold, failed};

impl Hold {
    /// What the devices' ROMs are before a tenant has them.
    pub(in crate::tasks) fn look_at_roms(&self) -> Result<Baseline, Fail> {
        let look = |device| {
            let seen = self.host.devices.vbios_sha256(device).map_err(failed)?;
            Ok((device, seen))
        };
        self.devices().map(look).collect()
    }

    /// A whole proof for each, or the first failure.
    pub(in crate::tasks) fn reset(&self, baseline: &Baseline) -> Result<Vec<ResetProof>, Fail> {
        let devices = &self.host.devices;
        let reset = |device| {
            devices.ensure_vfio_bound(device).map_err(failed)?;
            let before = baseline.get(&device).copied().flatten();
            devices.reset(device, before).map_err(failed)
        };
        self.devices().map(reset).collect()
    }
}
