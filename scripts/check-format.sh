#!/bin/sh
# Checks that every C file is as clang-format 14 writes it. `scripts/check-format.sh --fix`
# rewrites.
set -u
cd "$(dirname "$0")/.." || exit 1
command -v clang-format >/dev/null 2>&1 || {
    echo "clang-format is missing (scripts/setup)"
    exit 1
}
files=$(scripts/sources.sh .c .h)
if [ "${1-}" = --fix ]; then
    printf '%s\n' "$files" | xargs -P 2 -n 16 clang-format -i
    exit
fi
bad=$(printf '%s\n' "$files" | xargs -P 2 -n 16 clang-format --dry-run 2>&1 |
    sed -n 's/:[0-9]*:[0-9]*: warning:.*//p' | sort | uniq -c)
if [ -n "$bad" ]; then
    printf '%s\n' "$bad" | sed 's/^ *\([0-9]*\) /\1 places to format in /'
    exit 1
fi
echo "$(printf '%s\n' "$files" | wc -l) files formatted"
