#!/usr/bin/env bash
# How long a person waits after editing one line of a noun crate: CPU seconds of `cargo check` over
# everything that depends on it, the median of three edits. Works in a copy of the tree, so an
# interrupt leaves no edit behind. Over the limit a crate is cut along a noun, never along layers.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LIMIT_S=5
if [ $# -gt 0 ]; then nouns=("$@"); else
  nouns=()
  for noun in fleet money allocation live apps; do [ ! -d "crates/$noun" ] || nouns+=("$noun"); done
fi

CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR CARGO_INCREMENTAL=1
# A steady place under target: its crates stay checked between runs, dependencies are shared.
tree=$CARGO_TARGET_DIR/edit-time
rm -rf "$tree"
mkdir -p "$tree"
cp -a Cargo.toml Cargo.lock crates "$tree/"
cd "$tree"
cargo check --quiet --locked

for noun in "${nouns[@]}"; do
  file=crates/$noun/src/lib.rs
  seconds=()
  for edit in 1 2 3; do
    printf '\nconst _: u32 = %d;\n' "$edit" >>"$file"
    TIMEFORMAT='%U %S'
    spent=$({ time cargo check --quiet --locked >/dev/null 2>"$tree/check.log"; } 2>&1) || {
      cat "$tree/check.log" >&2
      exit 1
    }
    seconds+=("$(awk '{ printf "%.1f", $1 + $2 }' <<<"$spent")")
  done
  median=$(printf '%s\n' "${seconds[@]}" | sort -n | sed -n 2p)
  echo "edit-time $noun $median CPU s (limit $LIMIT_S)"
done
