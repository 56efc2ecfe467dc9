#!/usr/bin/env bash
# The suites that stand on services built from Go or Java, or on a heavy SDK. Each is one function
# that either runs or prints why not; a missing service is named and never a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# Add a suite: write `suite_<name>`, name it here.
suites=()

if [ ${#suites[@]} -eq 0 ]; then
  echo "not run: no suite needs Go or Java yet"
  exit 0
fi
tools/setup.sh test
for suite in "${suites[@]}"; do
  echo "== $suite"
  "suite_$suite"
done
