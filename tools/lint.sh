#!/usr/bin/env bash
# Format and lints over every crate and every target; warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/format.sh --check
cargo clippy --quiet --all-targets -- -D warnings
if command -v cargo-deny >/dev/null 2>&1; then
  cargo deny --log-level error check
else
  echo "not run: cargo-deny is not installed (licences and duplicates are tested without it)"
fi
