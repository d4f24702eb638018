#!/bin/sh
# Runs the claims (every executable file tests/claims/NAME, or those named) against a built tree
# and prints a Markdown table from the JSON object in the last line of each.
#   HSPMD_BUILD (default build), HSPMD_SEED, HSPMD_JOB, HSPMD_TEXT are passed on.
# Exit 0 when every claim holds or cannot be judged here; 1 otherwise.
set -u
cd "$(dirname "$0")/.." || exit 1
HSPMD_BUILD=${HSPMD_BUILD:-build}
export HSPMD_BUILD
[ -r "$HSPMD_BUILD/Makefile" ] || {
    echo "scripts/claims.sh: $HSPMD_BUILD is no built tree (HSPMD_BUILD)" >&2
    exit 1
}
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
bad=0
n=0
[ $# -gt 0 ] || set -- tests/claims/*
echo "| claim | holds | figures | seed | seconds |"
echo "|---|---|---|---|---|"
for path; do
    case "$path" in */*) ;; *) path=tests/claims/$path ;; esac
    [ -f "$path" ] && [ -x "$path" ] || continue
    n=$((n + 1))
    "$path" >"$out"
    rc=$?
    python3 - "$(basename "$path")" "$rc" "$out" <<'PY' || {
import json, sys

name, rc, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lines = open(path, errors="replace").read().strip().splitlines()
try:
    last = json.loads(lines[-1])
    holds, figures = last["holds"], last["figures"]
    seed, seconds = last["seed"], last["seconds"]
    if last["claim"] != name:
        raise ValueError("names the claim %s" % last["claim"])
except (IndexError, KeyError, ValueError, TypeError) as e:
    print("| %s | NO | exit %d, last line is no report: %s | | |" % (name, rc, e))
    sys.exit(1)
word = {True: "yes", False: "NO", None: "not judged"}.get(holds, "NO")
agrees = {0: True, 77: None}.get(rc, False) is holds
def text(v):
    return "%.4g" % v if isinstance(v, float) else str(v)
cell = ", ".join("%s %s" % (k, text(v)) for k, v in figures.items()).replace("|", "/")
if not agrees:
    word, cell = "NO", "exit %d disagrees with the report; %s" % (rc, cell)
print("| %s | %s | %s | %s | %s |" % (name, word, cell, seed, text(seconds)))
sys.exit(0 if agrees and holds is not False else 1)
PY
        bad=1
        tail -n 30 "$out" | sed 's/^/    /' >&2
    }
done
if [ "$n" -eq 0 ]; then
    echo "scripts/claims.sh: no claims found" >&2
    bad=1
fi
exit "$bad"
