//! Every task type, every fault at every place. The counts are here so that a proof which quietly tries less fails.

use model::task::TaskType;

fn cells(task_type: TaskType) -> usize {
    match task_type {
        TaskType::HealthProbe => 42,
        TaskType::ProvisionUser => 240,
        TaskType::DeprovisionUser => 87,
        TaskType::VmProvision => 3738,
        TaskType::VmRelease => 585,
        TaskType::VmPower => 98,
        TaskType::TopologyDiscover => 70,
    }
}

#[test]
fn every_task_type_is_proven() {
    for task_type in TaskType::ALL.iter().copied() {
        let proof = executor::proof(task_type).unwrap_or_else(|complaints| panic!("{task_type}: {complaints}"));
        assert_eq!(proof.cells, cells(task_type), "{task_type}: {:?}", proof.by_kind);
    }
}
