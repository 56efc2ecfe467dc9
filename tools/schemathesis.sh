#!/usr/bin/env bash
# Asks a running platform everything that openapi.json allows, and much that it forbids, as an operator and as a tenant:
# no server error, no answer that the document does not describe, and some of it is granted: both get a machine. Bounded,
# and the same every time. Needs Python; without it, or without the package, it says so and is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VERSION=4.32.5 SEED=59 SKU=slice.h100.1 EXAMPLES=${EXAMPLES:-12}
document=$PWD/openapi.json
hooks=$PWD/tools/schemathesis_hooks.py
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
python=$target/schemathesis/bin/python

if [ ! -x "$python" ]; then
  python3 -m venv "$target/schemathesis" 2>/dev/null || { echo "not run: schemathesis: no python3 with venv"; exit 0; }
fi
"$python" -m pip install -q "schemathesis==$VERSION" || { echo "not run: schemathesis $VERSION cannot be installed"; exit 0; }

cargo build --bin gpuaas-dev
state=$(mktemp -d)
chmod 711 "$state"
"$target/debug/gpuaas-dev" --state "$state/dev" run --node sim:h100x8 >"$state/log" 2>&1 &
dev=$!
trap 'kill $dev 2>/dev/null || true; wait $dev 2>/dev/null || true; cd /; rm -rf "$state"' EXIT
for _ in $(seq 600); do
  [ -s "$state/dev/dev.json" ] && break
  kill -0 "$dev" 2>/dev/null || { cat "$state/log" >&2; exit 1; }
  sleep 0.1
done
field() { "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }
url=$(field "$state/dev/dev.json" url)
operator=$(field "$state/dev/dev.json" token)
curl -fsS -X POST "$url/v1/tokens" -H "authorization: Bearer $operator" -H 'content-type: application/json' \
  -d '{"name":"tenant","scopes":["project"],"days":1}' >"$state/tenant.json"
tenant=$(field "$state/tenant.json" secret)

ask() { curl -fsS -H "authorization: Bearer $operator" -H 'content-type: application/json' "$@" >"$state/answer.json"; }
ask "$url/v1/me"
own="$(field "$state/answer.json" user_id) $(field "$state/answer.json" token_id) $(field "$state/tenant.json" id)"
ask "$url/v1/projects"
project=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["items"][0]["id"])' "$state/answer.json")
body="{\"project\":\"$project\",\"sku\":\"$SKU\"}"
ask -X POST "$url/v1/allocations" -H 'idempotency-key: seed' -d "$body"
allocation=$(field "$state/answer.json" id)
for _ in $(seq 300); do
  ask "$url/v1/allocations/$allocation"
  [ "$(field "$state/answer.json" state)" = active ] && break
  sleep 0.2
done
[ "$(field "$state/answer.json" state)" = active ] || { cat "$state/answer.json" >&2; exit 1; }
export SCHEMATHESIS_HOOKS=$hooks HOOKS_PROJECT=$project HOOKS_SKU=$SKU HOOKS_ALLOCATION=$allocation HOOKS_OWN=$own

# What it remembers between runs goes with the state.
cd "$state"
failed=0
for who in operator tenant; do
  echo "== schemathesis as $who"
  export HOOKS_GRANTED=$state/granted.$who
  touch "$HOOKS_GRANTED"
  # Streams go on for as long as somebody listens; their answers have tests of their own.
  "$target/schemathesis/bin/schemathesis" run "$document" --url "$url" --seed "$SEED" --max-examples "$EXAMPLES" \
    --header "authorization: Bearer ${!who}" --phases coverage,fuzzing --workers 1 --no-shrink --warnings off \
    --exclude-path-regex '/events$' --request-timeout 30 --continue-on-failure \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance \
    --output-sanitize true || failed=1
  echo "$(wc -l <"$HOOKS_GRANTED") allocations were granted to $who"
  [ -s "$HOOKS_GRANTED" ] || failed=1
  # Or most of it was refused at the door.
  curl -fsS -H "authorization: Bearer ${!who}" "$url/v1/me" >"$state/answer.json" || failed=1
done
# What the platform says about it goes with the state, too.
[ "$failed" = 0 ] || grep -rhE 'ERROR|WARN' "$state/dev/log" | tail -n 20 || true
exit "$failed"
