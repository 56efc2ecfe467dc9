#!/usr/bin/env bash
# How long a person waits after editing one line of a noun crate: CPU seconds of `cargo check` over
# everything that depends on it, the median of three edits. The line is taken out again however this
# ends; a run that was killed is cleaned up by the next one. (Not in a copy of the tree: cargo takes
# a copy for the original when they share a target directory, and without that it builds everything.)
# Over the limit a crate is cut along a noun, never along layers.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LIMIT_S=5
if [ $# -gt 0 ]; then nouns=("$@"); else
  nouns=()
  for noun in fleet money allocation live apps; do [ ! -d "crates/$noun" ] || nouns+=("$noun"); done
fi

export CARGO_INCREMENTAL=1
readonly MARK='// edit-time'
log=$(mktemp)
clean() {
  local noun
  for noun in "${nouns[@]}"; do
    if grep -q "$MARK\$" "crates/$noun/src/lib.rs"; then sed -i "\\|$MARK\$|d" "crates/$noun/src/lib.rs"; fi
  done
}
trap 'clean; rm -f "$log"' EXIT
trap 'exit 130' INT TERM

check() {
  cargo check --quiet --locked >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}
clean
check
for noun in "${nouns[@]}"; do
  seconds=()
  for edit in 1 2 3; do
    clean
    printf 'const _: u32 = %d; %s\n' "$edit" "$MARK" >>"crates/$noun/src/lib.rs"
    TIMEFORMAT='%U %S'
    spent=$({ time check 2>&3; } 3>&2 2>&1)
    seconds+=("$(awk '{ printf "%.1f", $1 + $2 }' <<<"$spent")")
  done
  median=$(printf '%s\n' "${seconds[@]}" | sort -n | sed -n 2p)
  echo "edit-time $noun $median CPU s (limit $LIMIT_S)"
done
