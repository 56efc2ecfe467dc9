//! The tasks of a slice and the directories that they start from: a node that had such a guest before, and one that has
//! it now.

use std::path::PathBuf;

use dev::slice;
use model::task::{Task, vm_power, vm_provision};

use super::legs::Maker;

/// With the image in its store and the devices where they rest, so that a way back leads to where it began.
pub(super) fn provision_again(maker: &Maker) -> (Task, PathBuf) {
    let params = params(maker);
    let (come, go) = (Task::VmProvision(params.clone()), slice::release(&params));
    let template = maker.after(&[&come, &go]);
    (come, template)
}

pub(super) fn release(maker: &Maker) -> (Task, PathBuf) {
    let params = params(maker);
    (
        slice::release(&params),
        maker.after(&[&Task::VmProvision(params.clone())]),
    )
}

pub(super) fn power(maker: &Maker) -> (Task, PathBuf) {
    let params = params(maker);
    let task = Task::VmPower(vm_power::Params {
        allocation_id: params.allocation_id,
        vm_name: params.vm_name.clone(),
        action: vm_power::Action::Stop,
        graceful_timeout_seconds: 30,
    });
    (task, maker.after(&[&Task::VmProvision(params)]))
}

fn params(maker: &Maker) -> vm_provision::Params {
    let slot = slice::slot(maker.profile).expect("a slot");
    slice::wish(maker.allocation, vec![slot]).expect("a wish")
}
