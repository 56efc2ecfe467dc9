#!/usr/bin/env bash
# The slow laboratory: a real slice (libvirt, QEMU, Open vSwitch, a block device) whose executor is
# killed in every phase. Minutes long, as root; what a machine lacks is named, not failed.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh test
tools/mini-guest.sh "${CARGO_TARGET_DIR:-target}/mini-guest"
cargo test -p executor --test all -- lab::kills --ignored --nocapture
