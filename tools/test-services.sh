#!/usr/bin/env bash
# The suites that stand on services built from Go or Java, on Python or on a heavy SDK. Each is one function
# that either runs or prints why not; a missing service is named and never a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

suite_schemathesis() { tools/schemathesis.sh; }

# People sign in at a provider that others wrote, over its own pages.
suite_identity() {
  local target=${CARGO_TARGET_DIR:-target} from=crates/dev/tests/identity_provider
  if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    echo "not run: node and npm not found"
    return 0
  fi
  local home=$target/services/identity place
  mkdir -p "$home" "$target/tmp"
  place=$(realpath "$target/tmp")/identity-provider.json
  rm -f "$place"
  cp "$from"/{package.json,package-lock.json,provider.mjs} "$home"
  if ! npm ci --prefix "$home" --no-audit --no-fund --ignore-scripts --loglevel=error >"$home/npm.log" 2>&1; then
    tail -n 5 "$home/npm.log"
    echo "not run: the provider could not be fetched"
    return 0
  fi
  node "$home/provider.mjs" "$place" >"$home/provider.log" 2>&1 &
  local provider=$!
  # shellcheck disable=SC2064 # the process and the file of this very run
  trap "kill $provider 2>/dev/null || true; rm -f '$place'" EXIT
  local tries=0
  until [ -s "$place" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ] || ! kill -0 "$provider" 2>/dev/null; then
      tail -n 20 "$home/provider.log"
      echo "the provider did not start"
      return 1
    fi
    sleep 0.1
  done
  cargo test -p dev --test all login::real -- --nocapture
}

# Add a suite: write `suite_<name>`, name it here.
suites=(schemathesis identity)

tools/setup.sh test
for suite in "${suites[@]}"; do
  echo "== $suite"
  "suite_$suite"
done
