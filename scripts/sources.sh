#!/bin/sh
# Prints the tracked (or, in an unpacked release, all) files below the top whose names end in one
# of the given suffixes: scripts/sources.sh .c .h
set -u
cd "$(dirname "$0")/.." || exit 1
if [ -e .git ] && command -v git >/dev/null 2>&1; then
    list='git ls-files --cached --others --exclude-standard'
else
    list='find daemon worker proto tests scripts conf systemd -type f'
fi
pattern=
for s; do
    pattern="${pattern:+$pattern|}$(printf '%s' "$s" | sed 's/[.]/\\./g')\$"
done
$list | grep -E "$pattern" | while IFS= read -r f; do
    [ -f "$f" ] && printf '%s\n' "$f"
done | LC_ALL=C sort
