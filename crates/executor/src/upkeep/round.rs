//! One round of the upkeep. A VM may take half an hour to start, and nobody else waits for that without a network: the
//! ports of all come first, then the VMs, and after each of them the ports of all again.

use host::{Host, Kept};
use model::id::AllocationId;
use model::task::vm_power::Power;

use super::Troubles;
use super::busy::Mine;
use super::mend;

pub(super) struct Round<'a> {
    pub(super) host: &'a Host,
    pub(super) boot_id: &'a str,
    /// From here on a task of this allocation waits. None if one has it already, and decides alone.
    pub(super) take: &'a dyn Fn(AllocationId) -> Option<Mine<'a>>,
    pub(super) over: &'a dyn Fn() -> bool,
}

impl Round<'_> {
    /// What could not be made whole; None if nobody knows, because it was over before or nothing could be read.
    pub(super) fn walk(&self) -> Option<Troubles> {
        let mut troubles = self.ports()?;
        let mut unstarted = Troubles::new();
        for Kept { machine, power, .. } in self.kept()?.into_iter().filter(|kept| kept.boot_id != self.boot_id) {
            self.one(machine.allocation, &mut unstarted, |allocation| {
                mend::machine(self.host, allocation, self.boot_id)
            })?;
            if power == Power::Running {
                troubles = self.ports()?;
            }
        }
        troubles.extend(unstarted);
        Some(troubles)
    }

    fn ports(&self) -> Option<Troubles> {
        let mut troubles = Troubles::new();
        for Kept { machine, .. } in self.kept()? {
            self.one(machine.allocation, &mut troubles, |allocation| {
                mend::port(self.host, allocation).map(drop)
            })?;
        }
        Some(troubles)
    }

    /// None if it is over.
    fn one(
        &self,
        allocation: AllocationId,
        troubles: &mut Troubles,
        mend: impl FnOnce(AllocationId) -> host::Result<()>,
    ) -> Option<()> {
        if (self.over)() {
            return None;
        }
        let Some(_mine) = (self.take)(allocation) else {
            return Some(());
        };
        if let Err(error) = mend(allocation) {
            tracing::error!(%allocation, code = %error.code(), %error, "a VM could not be made whole");
            troubles.insert(allocation, error.code());
        }
        Some(())
    }

    fn kept(&self) -> Option<Vec<Kept>> {
        let kept = self.host.slices.kept();
        kept.inspect_err(|error| tracing::error!(%error, "what should stand here cannot be read"))
            .ok()
    }
}

#[cfg(test)]
mod tests;
