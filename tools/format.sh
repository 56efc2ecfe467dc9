#!/usr/bin/env bash
# Formats every file, or with --check says which are not. Task handlers are declared by a macro from the
# registry, where cargo fmt does not look, so they are named here.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt "$@"
edition=$(sed -n 's/^edition = "\(.*\)"/\1/p' Cargo.toml)
rustfmt --edition "$edition" "$@" crates/executor/src/tasks/*.rs
