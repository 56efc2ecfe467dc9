#!/usr/bin/env bash
# The suites that stand on services built from Go or Java, on Python or on a heavy SDK. Each is one function
# that either runs or prints why not; a missing service is named and never a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

suite_schemathesis() { tools/schemathesis.sh; }

# Add a suite: write `suite_<name>`, name it here.
suites=(schemathesis)

tools/setup.sh test
for suite in "${suites[@]}"; do
  echo "== $suite"
  "suite_$suite"
done
