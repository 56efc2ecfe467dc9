#!/usr/bin/env bash
# The whole test run: set-up, format, lints, build, one private Postgres, every test, and the proof
# that nothing was left behind. Shows each stage with its time; ends with one line of totals.
# Every log stays in target/test. A failing stage does not hide the later ones, a failing build does.
set -uo pipefail # no -e: a failed stage is counted, and the later ones still run
cd "$(dirname "$0")/.." || exit 1

readonly STAGES=9
target=${CARGO_TARGET_DIR:-target}
logs=$target/test
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
rm -f "$logs"/*
touch "$logs/counts" "$logs/times" "$logs/not-run"

# Short, because socket paths are; crossable, because Postgres runs as another user when we are root.
run=$(mktemp -d "${TMPDIR:-/tmp}/gpuaas-test.XXXXXX") || exit 1
mkdir "$run/tmp"
chmod 0711 "$run" "$run/tmp"
if [ "${CI:-}" = true ]; then export CARGO_INCREMENTAL=0; fi

job='' postgres='' broken=0 number=0 problems=()
set -m # every stage is a process group of its own
exec 3>&1

finish() {
  [ -z "$job" ] || kill -KILL -- "-$job" 2>/dev/null
  stop_postgres
  rm -rf "$run"
}
stop_postgres() {
  [ -n "$postgres" ] || return 0
  kill -TERM "$postgres" 2>/dev/null
  wait "$postgres" 2>/dev/null
  postgres=''
}
trap 'finish; exit 130' INT TERM HUP
trap finish EXIT

# --- stages -----------------------------------------------------------------------------------
head_line() { number=$((number + 1)); stage=$1; begun=${EPOCHREALTIME/./}; printf '[%d/%d] %s …' "$number" "$STAGES" "$1"; }
tail_line() { # $1: what to add before the time
  local ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
  printf '%s %d.%ds\n' "$1" $((ms / 1000)) $((ms % 1000 / 100))
  printf '%d.%03d stage %s\n' $((ms / 1000)) $((ms % 1000)) "$stage" >>"$logs/times"
}
# Run a command as a group of its own, so that an interrupt can end all of it.
apart() {
  "$@" </dev/null &
  job=$!
  wait "$job"
  local status=$?
  job=''
  return "$status"
}
quiet_stage() { # name, command…
  local name=$1 log="$logs/stage-${1// /-}.log"
  shift
  head_line "$name"
  if apart "$@" >"$log" 2>&1; then tail_line ''; return 0; fi
  tail_line ' FAILED'
  tail -n 120 "$log" | sed 's/^/      | /'
  broken=$((broken + 1))
  problems+=("$name")
  return 1
}
totals() {
  local passed failed skipped
  read -r passed failed skipped < <(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$logs/counts")
  if [ -s "$logs/times" ]; then
    echo "slowest:"
    sort -rn "$logs/times" | head -n 10 | awk '{ t = $1; $1 = ""; printf "  %8.2fs %s\n", t, $0 }'
  fi
  cat "$logs/not-run"
  [ ${#problems[@]} -eq 0 ] || echo "failed: ${problems[*]}"
  echo "$passed passed, $((failed + broken)) failed, $skipped skipped"
  [ $((failed + broken)) -eq 0 ]
}

# --- what the machine looked like before ------------------------------------------------------
machine() {
  ls -d /run/netns/* /sys/class/net/* 2>/dev/null
  ls -d /var/lib/gpuaas /run/gpuaas /etc/gpuaas "${XDG_STATE_HOME:-$HOME/.local/state}/gpuaas" 2>/dev/null
  cksum /etc/passwd /etc/group 2>/dev/null
  # People edit while tests run; a build machine does not.
  if [ "${CI:-}" = true ]; then git status --porcelain 2>/dev/null; fi
}

quiet_stage set-up tools/setup.sh test || { totals; exit 1; }
before=$(machine)
quiet_stage format tools/format.sh --check
quiet_stage clippy cargo clippy --all-targets -- -D warnings
# One graph for programs and tests, so that nothing is built twice with different features.
quiet_stage build cargo build --lib --bins --tests || { totals; exit 1; }

# A guest that fits a test; kept beside the build.
quiet_stage 'mini guest' tools/mini-guest.sh "$target/mini-guest"

# --- one Postgres for the run -----------------------------------------------------------------
head_line database
if [ -n "${GPUAAS_TEST_PG_SOCKET:-}" ]; then
  tail_line ' given by GPUAAS_TEST_PG_SOCKET'
elif "$target/debug/gpuaas-dev" test-postgres --help >/dev/null 2>&1; then
  env GPUAAS_TEST_RUN="$run" "$target/debug/gpuaas-dev" test-postgres --dir "$run/pg" \
    </dev/null >"$logs/postgres.out" 2>"$logs/postgres.log" &
  postgres=$!
  for ((tries = 0; tries < 600; tries++)); do
    if grep -sqx ready "$logs/postgres.out" || ! kill -0 "$postgres" 2>/dev/null; then break; fi
    sleep 0.1
  done
  if grep -qx ready "$logs/postgres.out"; then
    export GPUAAS_TEST_PG_SOCKET="$run/pg/sock"
    tail_line ''
  else
    tail_line ' FAILED'
    tail -n 30 "$logs/postgres.log" | sed 's/^/      | /'
    broken=$((broken + 1))
    problems+=(database)
  fi
else
  tail_line ' none: gpuaas-dev has no test-postgres'
fi

# --- tests ------------------------------------------------------------------------------------
head_line tests
echo
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
# Its own temporary directory, and the mark by which orphans are found.
apart env TMPDIR="$run/tmp" GPUAAS_TEST_RUN="$run" GPUAAS_TEST_LOGS="$logs" \
  "CARGO_TARGET_${host}_RUNNER=$PWD/tools/test-binary.sh" \
  cargo test --lib --bins --tests --no-fail-fast >"$logs/stage-tests.log" 2>&1
ran=$?
counts=$(awk '{ p += $1; f += $2; s += $3 } END { printf " %d passed, %d failed, %d skipped,", p, f, s }' "$logs/counts")
printf '[%d/%d] tests …' "$number" "$STAGES"
tail_line "$counts"
if [ "$ran" -ne 0 ] && ! awk '$2 > 0 { found = 1 } END { exit !found }' "$logs/counts"; then
  tail -n 40 "$logs/stage-tests.log" | sed 's/^/      | /'
  broken=$((broken + 1))
  problems+=(tests)
fi
stop_postgres

# --- a million mutated tasks, and other documents; alone, because it takes every core ------------
quiet_stage fuzz env TMPDIR="$run/tmp" "$target/debug/gpuaas-dev" fuzz --count 1000000 --seed "${FUZZ_SEED:-1}" &&
  grep -h 'mutated,' "$logs/stage-fuzz.log" | sed 's/^/      /'

# --- leave no trace ---------------------------------------------------------------------------
# A process is ours if it carries the run's mark, or names the run's directory.
orphans() {
  local dir words
  for dir in /proc/[0-9]*; do
    [ "${dir#/proc/}" != "$$" ] && [ "${dir#/proc/}" != "$BASHPID" ] || continue
    { mapfile -d '' -t words <"$dir/environ"; } 2>/dev/null || continue
    if [[ " ${words[*]} " != *" GPUAAS_TEST_RUN=$run "* ]]; then
      { mapfile -d '' -t words <"$dir/cmdline"; } 2>/dev/null || continue
      [[ "${words[*]}" == *"$run"* ]] || continue
    fi
    { mapfile -d '' -t words <"$dir/cmdline"; } 2>/dev/null
    [ ${#words[@]} -eq 0 ] || printf '%s %s\n' "${dir#/proc/}" "${words[*]}"
  done
}
head_line 'leave no trace'
left=()
for ((tries = 0; tries < 25; tries++)); do # what was told to stop may take a moment
  alive=$(orphans)
  [ -n "$alive" ] || break
  sleep 0.2
done
while read -r pid words; do
  [ -n "$pid" ] || continue
  left+=("process $pid: ${words:0:160}")
  kill -KILL "$pid" 2>/dev/null
done <<<"$alive"
while read -r line; do left+=("socket $line"); done < <(awk -v run="$run/" 'index($NF, run) == 1 { print $NF }' /proc/net/unix)
while read -r line; do left+=("mount $line"); done < <(awk -v run="$run/" 'index($2, run) == 1 { print $2 }' /proc/self/mounts)
while read -r line; do left+=("loop device $line"); done < <(grep -sF "$run/" /sys/block/loop*/loop/backing_file)
while read -r line; do left+=("changed: $line"); done < <(diff <(echo "$before") <(machine) | grep '^[<>]')
while read -r line; do left+=("file $line"); done < <(find "$run/tmp" -mindepth 1 | head -n 20)
if [ ${#left[@]} -eq 0 ] && rmdir "$run/tmp"; then
  tail_line ''
else
  tail_line ' FAILED'
  printf '      | %s\n' "${left[@]}"
  broken=$((broken + 1))
  problems+=('leave-no-trace')
fi

totals
