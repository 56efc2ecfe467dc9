#!/usr/bin/env bash
# The figures of a release build with their limits: size of the node's two programs, and what they
# hold in memory when nothing happens, read from a running platform with one simulated node.
# Prints a table and writes target/bench/ground.json. Fails when a figure is over its limit.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
bin=$target/release
out=$target/bench/ground.json
readonly IDLE_S=10 READY_S=120
mkdir -p "$(dirname "$out")"

rows=() failed=0
# name value limit unit; less is better.
row() {
  local ratio ok=true
  ratio=$(awk -v v="$2" -v l="$3" 'BEGIN { printf "%.2f", v / l }')
  awk -v v="$2" -v l="$3" 'BEGIN { exit !(v > l) }' && { ok=false; failed=1; }
  rows+=("$(printf '{"name":"%s","value":%s,"unit":"%s","limit":%s,"ratio":%s,"goal":"at most the limit","ok":%s}' "$1" "$2" "$4" "$3" "$ratio" "$ok")")
  printf '%-32s %10s %10s %6s  %s\n' "$1" "$2 $4" "$3 $4" "$ratio" "$([ "$ok" = true ] && echo ok || echo OVER)"
}
mib() { awk -v b="$1" 'BEGIN { printf "%.2f", b / 1048576 }'; }

cargo build --release --bins
printf '%-32s %10s %10s %6s\n' name value limit ratio
row 'agent binary, stripped' "$(mib "$(stat -c %s "$bin/gpuaas-node-agent")")" 15 MiB
row 'executor binary, stripped' "$(mib "$(stat -c %s "$bin/gpuaas-node-executor")")" 8 MiB

# --- idle memory ------------------------------------------------------------------------------
state=$(mktemp -d "${TMPDIR:-/tmp}/gpuaas-bench.XXXXXX")
chmod 0711 "$state" # Postgres runs as another user when we are root
platform=''
# shellcheck disable=SC2329 # called by the trap
finish() {
  if [ -n "$platform" ]; then
    kill -TERM "$platform" 2>/dev/null || true
    wait "$platform" 2>/dev/null || true
  fi
  rm -rf "$state"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Resident bytes of the process that runs program $1 for this platform; nothing if there is none.
resident() {
  local dir words
  for dir in /proc/[0-9]*; do
    [ "$(readlink "$dir/exe" 2>/dev/null)" = "$(realpath "$bin/$1")" ] || continue
    { mapfile -d '' -t words <"$dir/cmdline"; } 2>/dev/null || continue
    [[ "${words[*]}" == *"$state"* ]] || tr '\0' '\n' <"$dir/environ" 2>/dev/null | grep -qF "$state" || continue
    awk '/^VmRSS:/ { print $2 * 1024 }' "$dir/status"
    return
  done
}

"$bin/gpuaas-dev" run --state "$state/dev" >"$state/out" 2>&1 </dev/null &
platform=$!
for ((tries = 0; tries < READY_S * 5; tries++)); do
  if grep -q '^Ready' "$state/out" || ! kill -0 "$platform" 2>/dev/null; then break; fi
  sleep 0.2
done
if grep -q '^Ready' "$state/out"; then
  sleep "$IDLE_S" # the figure is about a process that has nothing to do
  for figure in 'agent gpuaas-node-agent 15' 'executor gpuaas-node-executor 8'; do
    read -r name program limit <<<"$figure"
    bytes=$(resident "$program")
    if [ -n "$bytes" ]; then row "$name idle, resident" "$(mib "$bytes")" "$limit" MiB; else
      echo "not run: $name idle, resident: no process of $program in this platform"
    fi
  done
else
  echo "not run: idle memory: gpuaas-dev did not get ready"
  tail -n 10 "$state/out" | sed 's/^/  | /'
  failed=1
fi

{
  echo '['
  printf '%s\n' "${rows[@]}" | sed '$!s/$/,/; s/^/  /'
  echo ']'
} >"$out"
echo "written: $out"
exit "$failed"
