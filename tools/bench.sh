#!/usr/bin/env bash
# The figures of a release build with their limits: size of the node's two programs, and what they
# hold in memory when nothing happens.
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
platform='' agent='' executor=''
# shellcheck disable=SC2329 # called by the trap
finish() {
  local pid
  for pid in $agent $executor $platform; do
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$state"
}
trap finish EXIT
trap 'exit 130' INT TERM

resident() { awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$1/status"; } # bytes of process $1

# The process of this platform that plays part $1 of its simulated node.
part() {
  local dir words
  for dir in /proc/[0-9]*; do
    { mapfile -d '' -t words <"$dir/cmdline"; } 2>/dev/null || continue
    [ "${words[1]:-}" = "$1" ] && [[ "${words[*]}" == *"$state"* ]] || continue
    echo "${dir#/proc/}"
    return
  done
}

# First the shipped programs alone: started, listening, not enrolled, on this machine and harmless.
alone=("--config" "$state/node.toml")
"$bin/gpuaas-node-executor" run "${alone[@]}" --state-dir "$state/executor" --socket "$state/executor.sock" \
  >"$state/executor.log" 2>&1 </dev/null &
executor=$!
"$bin/gpuaas-node-agent" run "${alone[@]}" --state-dir "$state/agent" --executor-socket "$state/executor.sock" \
  >"$state/agent.log" 2>&1 </dev/null &
agent=$!
# Then the same code at work: a simulated node that is enrolled and holds its long-poll. It lives in
# the larger binary of gpuaas-dev, so its figure is an upper bound.
"$bin/gpuaas-dev" --state "$state/dev" run >"$state/out" 2>&1 </dev/null &
platform=$!
for ((tries = 0; tries < READY_S * 5; tries++)); do
  if grep -q '^Ready' "$state/out" || ! kill -0 "$platform" 2>/dev/null; then break; fi
  sleep 0.2
done
sleep "$IDLE_S" # the figure is about a process that has nothing to do

measure() { # name, pid, limit, log
  if [ -n "$2" ] && [ -r "/proc/$2/status" ] && [ -n "$(resident "$2")" ]; then
    row "$1" "$(mib "$(resident "$2")")" "$3" MiB
  else
    echo "not run: $1: no such process"
    tail -n 5 "$4" | sed 's/^/  | /'
    failed=1
  fi
}
measure 'agent alone, idle RSS' "$agent" 15 "$state/agent.log"
measure 'executor alone, idle RSS' "$executor" 8 "$state/executor.log"
measure 'agent simulated, idle RSS' "$(part agent)" 15 "$state/out"
measure 'executor simulated, idle RSS' "$(part executor)" 8 "$state/out"

{
  echo '['
  printf '%s\n' "${rows[@]}" | sed '$!s/$/,/; s/^/  /'
  echo ']'
} >"$out"
echo "written: $out"
exit "$failed"
