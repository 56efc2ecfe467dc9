#!/usr/bin/env bash
# All benches of a release build, or those that are named: `ground` (sizes, idle memory) and what
# `gpuaas-dev bench --help` lists. Figures go to target/bench/<name>.json; a run of all of them is also kept,
# with date, cores and commit, in bench/results, to be committed. Fails when a goal is missed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=$target/bench
mkdir -p "$out"

commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain -- . ':!bench/results' 2>/dev/null)" ] || commit=$commit-dirty

ground=false named=() failed=0
for name in "$@"; do
  if [ "$name" = ground ]; then ground=true; else named+=("$name"); fi
done

cargo build --release --bins
if [ $# -eq 0 ]; then
  rm -f "$out"/*.json # a figure of an earlier run is not one of this run
  ground=true
fi
if "$ground"; then tools/bench-ground.sh || failed=1; fi
if [ $# -eq 0 ] || [ ${#named[@]} -gt 0 ]; then
  "$target/release/gpuaas-dev" bench --out "$out" "${named[@]}" || failed=1
fi

if [ $# -eq 0 ]; then
  mkdir -p bench/results
  find bench/results -name '*.json' ! -name torture.json -delete # that one has a run of its own
  for figures in "$out"/*.json; do
    printf '{\n"date": "%s",\n"cores": %s,\n"commit": "%s",\n"figures": %s\n}\n' \
      "$(date -u +%FT%TZ)" "$(nproc)" "$commit" "$(<"$figures")" >"bench/results/$(basename "$figures")"
  done
  echo "kept: bench/results (commit it)"
fi
exit "$failed"
