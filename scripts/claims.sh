#!/bin/sh
# Runs the claims (every executable file tests/claims/NAME, or those named) against a built tree
# and prints a Markdown table from the JSON object in the last line of each.
#   HSPMD_BUILD (default build), HSPMD_SEED, HSPMD_JOB, HSPMD_TEXT are passed on.
#   HSPMD_TABLE: a file whose table takes the rows, such as tests/claims/FIGURES.md.
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
    python3 tests/claims/lib/row.py "$(basename "$path")" "$rc" "$out" ${HSPMD_TABLE:+"$HSPMD_TABLE"} || {
        bad=1
        tail -n 30 "$out" | sed 's/^/    /' >&2
    }
done
if [ "$n" -eq 0 ]; then
    echo "scripts/claims.sh: no claims found" >&2
    bad=1
fi
exit "$bad"
