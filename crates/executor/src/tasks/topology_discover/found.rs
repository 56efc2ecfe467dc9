//! What stands in the way, as it is found: each obstacle with whom it concerns, one GPU or all of them.

use std::collections::BTreeSet;

use model::signal::Code;
use model::task::topology_discover::Blocker;
use model::value::Pci;

/// The subject of what concerns every slot.
pub(super) const HOST: &str = "host";

#[derive(Default)]
pub(super) struct Found {
    blockers: BTreeSet<Blocker>,
    warnings: BTreeSet<Blocker>,
    /// Something concerns them all.
    all_blocked: bool,
    blocked: BTreeSet<Pci>,
}

impl Found {
    /// Concerns the slot of this GPU, and is about the GPU itself.
    pub(super) fn blocks(&mut self, gpu: Pci, code: Code, detail: impl Into<String>, fix: impl Into<String>) {
        self.blocks_by(gpu, gpu.to_string(), code, detail, fix);
    }

    /// Concerns the slot of this GPU, and is about something else.
    pub(super) fn blocks_by(
        &mut self,
        gpu: Pci,
        subject: String,
        code: Code,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.blocked.insert(gpu);
        self.blockers.insert(blocker(code, subject, detail, fix));
    }

    /// Concerns every slot.
    pub(super) fn blocks_all(
        &mut self,
        subject: impl Into<String>,
        code: Code,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.all_blocked = true;
        self.blockers.insert(blocker(code, subject.into(), detail, fix));
    }

    /// Is about something that no slot has, but somebody will miss.
    pub(super) fn misses(&mut self, subject: &str, code: Code, detail: impl Into<String>, fix: impl Into<String>) {
        self.blockers.insert(blocker(code, subject.to_owned(), detail, fix));
    }

    pub(super) fn warns(&mut self, gpu: Pci, code: Code, detail: impl Into<String>, fix: impl Into<String>) {
        self.warnings.insert(blocker(code, gpu.to_string(), detail, fix));
    }

    pub(super) fn warns_all(&mut self, code: Code, detail: impl Into<String>, fix: impl Into<String>) {
        self.warnings.insert(blocker(code, HOST.to_owned(), detail, fix));
    }

    pub(super) fn blocks_gpu(&self, gpu: Pci) -> bool {
        self.all_blocked || self.blocked.contains(&gpu)
    }

    pub(super) fn sorted(self) -> (Vec<Blocker>, Vec<Blocker>) {
        (self.blockers.into_iter().collect(), self.warnings.into_iter().collect())
    }
}

fn blocker(code: Code, subject: String, detail: impl Into<String>, fix: impl Into<String>) -> Blocker {
    Blocker {
        code,
        subject,
        detail: detail.into(),
        fix: fix.into(),
    }
}
