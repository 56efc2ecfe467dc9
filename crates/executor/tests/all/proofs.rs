//! Every task type, every fault at every place. The counts are here so that a proof which quietly tries less fails.

use model::task::TaskType;

fn cells(task_type: TaskType) -> usize {
    match task_type {
        TaskType::HealthProbe => 42,
        TaskType::ProvisionUser => 240,
        TaskType::DeprovisionUser => 218,
        TaskType::VmProvision => 3810,
        TaskType::VmRelease => 597,
        TaskType::VmPower => 98,
        TaskType::TopologyDiscover => 70,
    }
}

#[test]
fn every_task_type_is_proven() {
    let mut others = Vec::new();
    for task_type in TaskType::ALL.iter().copied() {
        let proof = executor::proof(task_type).unwrap_or_else(|complaints| panic!("{task_type}: {complaints}"));
        if proof.cells != cells(task_type) {
            others.push(format!("{task_type}: {} cells: {:?}", proof.cells, proof.by_kind));
        }
    }
    assert!(others.is_empty(), "not as many as before: {others:#?}");
}
