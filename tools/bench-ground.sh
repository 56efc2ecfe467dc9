#!/usr/bin/env bash
# The figures of a release build with their limits: size of the node's two programs, and what they
# hold in memory when nothing happens.
# Prints a table and writes target/bench/ground.json. Fails when a figure is over its limit. The build is
# tools/bench.sh's business.
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

printf '%-32s %10s %10s %6s\n' name value limit ratio
row 'agent binary, stripped' "$(mib "$(stat -c %s "$bin/gpuaas-node-agent")")" 15 MiB
row 'executor binary, stripped' "$(mib "$(stat -c %s "$bin/gpuaas-node-executor")")" 8 MiB

# --- idle memory ------------------------------------------------------------------------------
# The shipped programs as they stand on a host: enrolled with a control plane, probed, holding their
# long-poll. The host is this machine, and nothing but a health probe is asked of it.
state=$(mktemp -d "${TMPDIR:-/tmp}/gpuaas-bench.XXXXXX")
chmod 0711 "$state" # Postgres runs as another user when we are root
mkdir "$state/executor" "$state/agent" "$state/home"
control='' agent='' executor=''
# shellcheck disable=SC2329 # called by the trap
finish() {
  local pid
  for pid in $agent $executor $control; do
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$state"
}
trap finish EXIT
trap 'exit 130' INT TERM

resident() { awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$1/status"; } # bytes of process $1

port=$((20000 + $$ % 20000))
cat >"$state/gpuaasd.toml" <<EOF
managed_postgres = true
state_dir = "$state/control"
listen_public = "127.0.0.1:$port"
listen_node = "127.0.0.1:$((port + 1))"
listen_enrol = "127.0.0.1:$((port + 2))"
listen_metrics = "127.0.0.1:$((port + 3))"
node_names = ["127.0.0.1"]
EOF
mkdir -m 0711 "$state/control"
"$bin/gpuaasd" trust init --config "$state/gpuaasd.toml" >"$state/out"
token=$("$bin/gpuaasd" admin bootstrap bench --config "$state/gpuaasd.toml" | head -n 1)
"$bin/gpuaasd" run --all --config "$state/gpuaasd.toml" >"$state/out" 2>&1 </dev/null &
control=$!
gpuaas() {
  env -i HOME="$state/home" GPUAAS_URL="http://127.0.0.1:$port" GPUAAS_TOKEN="$token" "$bin/gpuaas" "$@"
}
until_true() { # what is waited for, command…
  local what=$1 tries
  shift
  for ((tries = 0; tries < READY_S * 5; tries++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  echo "never: $what" >&2
  tail -n 20 "$state/out" "$state/executor.log" "$state/agent.log" >&2
  exit 1
}
until_true 'the control plane answers' gpuaas node list
policy=(--config "$state/node.toml")
gpuaas node enroll bench | sed -n 's/^token\t//p' |
  "$bin/gpuaas-node-executor" enroll - "${policy[@]}" --state-dir "$state/executor" \
    --agent-state-dir "$state/agent" >"$state/executor.log"
"$bin/gpuaas-node-executor" run "${policy[@]}" --state-dir "$state/executor" --socket "$state/executor.sock" \
  >"$state/executor.log" 2>&1 </dev/null &
executor=$!
"$bin/gpuaas-node-agent" run "${policy[@]}" --state-dir "$state/agent" --executor-socket "$state/executor.sock" \
  >"$state/agent.log" 2>&1 </dev/null &
agent=$!
ready() { gpuaas node show bench | grep -Pq '^state\tready$'; }
until_true 'the node is ready' ready
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
measure 'agent enrolled, idle RSS' "$agent" 15 "$state/agent.log"
measure 'executor enrolled, idle RSS' "$executor" 8 "$state/executor.log"

{
  echo '['
  printf '%s\n' "${rows[@]}" | sed '$!s/$/,/; s/^/  /'
  echo ']'
} >"$out"
echo "written: $out"
exit "$failed"
