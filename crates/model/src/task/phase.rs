//! The phases of a task that a person watches: each with the time that it may take before somebody is told. Nothing is cut
//! short by it; what a step may really take at most is its own affair on the host.

/// What taking back a phase may take, if nothing is said.
const UNDO_S: u32 = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The step of this name, in the executor's table.
    pub name: &'static str,
    pub within_s: u32,
    pub undone_within_s: u32,
}

impl Phase {
    pub const fn new(name: &'static str, within_s: u32) -> Self {
        Self {
            name,
            within_s,
            undone_within_s: UNDO_S,
        }
    }

    pub const fn undone_within(self, undone_within_s: u32) -> Self {
        Self {
            undone_within_s,
            ..self
        }
    }

    /// As a node tells that it is taking it back.
    pub fn undo(&self) -> String {
        format!("undo_{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::task::TaskType;

    /// Whoever gives a tenant something or takes it away is watched, and no phase may last for ever.
    #[test]
    fn every_phase_has_a_time_of_its_own() {
        for task_type in TaskType::ALL.iter().copied() {
            let (phases, most) = (task_type.phases(), task_type.spec().max_runtime_s);
            assert_eq!(
                phases.is_empty(),
                !task_type.gives() && !task_type.takes_away(),
                "{task_type}"
            );
            let names: BTreeSet<&str> = phases.iter().map(|phase| phase.name).collect();
            assert_eq!(names.len(), phases.len(), "{task_type}");
            for phase in phases {
                let what = format!("{task_type} {}", phase.name);
                assert!((60..=most).contains(&phase.within_s), "{what}");
                assert!(phase.undone_within_s >= 60, "{what}");
            }
        }
    }
}
