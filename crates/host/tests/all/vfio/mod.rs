//! Passthrough on a real kernel: an emulated machine with an IOMMU, in which this very binary runs [`inside`] as the only
//! program. The kernel, its sysfs, its groups and its drivers are real; the board and its devices are QEMU's, and three
//! of those carry the numbers of a GPU.

mod board;
mod ids;
mod inside;

use std::path::PathBuf;

/// How the machine says that a lab has started it.
const MARK: &str = "gpuaas.lab=vfio";
const ENDED_WELL: &str = "lab host: ended with 0";

/// Beside the tests' own programs, where the lab has it built.
fn machine_files() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let target = exe.ancestors().find(|dir| dir.join("lab-host/initrd").exists())?;
    Some(target.join("lab-host"))
}

#[test]
#[ignore = "boots a machine: make test-lab"]
fn groups_are_bound_refused_and_given_back_as_the_kernel_sees_it() {
    if !rustix::process::geteuid().is_root() {
        println!("not run: needs root");
        return;
    }
    let Some(files) = machine_files() else {
        println!("not run: no lab host, tools/lab-host.sh makes it");
        return;
    };
    let said = board::run(&files);
    for line in said.lines().filter(|line| line.starts_with("lab: ")) {
        println!("{line}");
    }
    assert!(said.contains(ENDED_WELL), "the machine said:\n{said}");
    assert!(
        said.contains("lab: passthrough was tried"),
        "nothing was tried:\n{said}"
    );
}
