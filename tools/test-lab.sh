#!/usr/bin/env bash
# The slow laboratory: passthrough on a real kernel in an emulated machine with an IOMMU; and a real slice (libvirt, QEMU,
# Open vSwitch, a block device) whose executor is killed in every phase; between them, each mutating call of the tasks of
# a slice as the last one, an I/O error and a full disk; before them, what a slice needs under the executor's own unit, by
# a systemd in a container. Minutes long, as root; what a machine lacks is named, not failed.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh test
tools/mini-guest.sh "${CARGO_TARGET_DIR:-target}/mini-guest"
tools/lab-host.sh "${CARGO_TARGET_DIR:-target}/lab-host"
tools/unit.sh
cargo test -p host --test all -- vfio:: --ignored --nocapture
cargo test -p dev --test all -- no_call_of_a_slice --ignored --nocapture
cargo test -p executor --test all -- lab::kills --ignored --nocapture
