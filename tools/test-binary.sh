#!/usr/bin/env bash
# cargo's runner for one test binary, set by tools/test.sh: runs it under a deadline, shows its name
# while it runs and its counts afterwards, and notes counts and times for the summary.
# In: GPUAAS_TEST_LOGS (a directory); descriptor 3 is the person's screen.
set -uo pipefail

readonly DEADLINE_S=1500
binary=$1
target=$(basename "$binary" | sed 's/-[0-9a-f]*$//')
if [ "$target" = "${CARGO_CRATE_NAME:-$CARGO_PKG_NAME}" ]; then target=unit; fi
name="$CARGO_PKG_NAME $target"
log="$GPUAAS_TEST_LOGS/${name// /-}.log"

# A program without tests of its own is not worth a line.
if [ -z "$("$binary" --list --format=terse 2>/dev/null 3>&-)" ]; then exit 0; fi

printf '      %-26s' "$name" >&3
begun=${EPOCHREALTIME/./}
# libtest shows a test's time only when it is told that unstable options are fine; the variable is
# read by libtest at run time, nothing is compiled with it.
RUSTC_BOOTSTRAP=1 timeout --foreground --kill-after=30 "$DEADLINE_S" \
  "$@" -Z unstable-options --report-time --show-output >"$log" 2>&1 3>&- </dev/null
status=$?
took_ms=$(((${EPOCHREALTIME/./} - begun) / 1000))

# One line per binary: passed failed skipped. A test that says "not run:" did not pass; it is skipped.
read -r passed failed skipped result < <(awk '
  /^---- .* stdout ----$/ { test = $2 }
  /^not run: / { lines++; if (test != "" && !(test in said)) { said[test]; silent++ } }
  /^test result: / { passed += $4; failed += $6; ignored += $8; result = 1 }
  END { print passed - silent, failed + 0, ignored + lines, result + 0 }' "$log")
if [ "$status" -ne 0 ] && { [ "$failed" -eq 0 ] || [ "$result" -eq 0 ]; }; then failed=$((failed + 1)); fi

printf '%d %d %d\n' "$passed" "$failed" "$skipped" >>"$GPUAAS_TEST_LOGS/counts"
sed -n "s/^test \(.*\) \.\.\. .* <\([0-9.]*\)s>\$/\2 $CARGO_PKG_NAME::$target \1/p" "$log" >>"$GPUAAS_TEST_LOGS/times"
sed -n "s/^not run: /not run: $CARGO_PKG_NAME: /p" "$log" >>"$GPUAAS_TEST_LOGS/not-run"

printf '%4d passed' "$passed" >&3
[ "$failed" -eq 0 ] || printf ', %d FAILED' "$failed" >&3
[ "$skipped" -eq 0 ] || printf ', %d skipped' "$skipped" >&3
printf '  %d.%ds\n' $((took_ms / 1000)) $((took_ms % 1000 / 100)) >&3
if [ "$status" -ne 0 ]; then
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then echo "      over its deadline of $DEADLINE_S s" >&3; fi
  if grep -q '^failures:$' "$log"; then sed -n '/^failures:$/,$p' "$log"; else tail -n 40 "$log"; fi |
    head -n 200 | sed 's/^/      | /' >&3
fi
exit "$status"
