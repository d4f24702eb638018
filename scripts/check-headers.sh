#!/bin/sh
# Compiles every header alone. HSPMD_BUILD: a configured build tree (for its compiler and flags).
set -u
cd "$(dirname "$0")/.." || exit 1
build=${HSPMD_BUILD:-build}
if [ ! -r "$build/Makefile" ]; then
    echo "no configured build tree in $build"
    exit 1
fi
# CUDA's headers are those that the tests bring.
value() { sed -n "s/^$1 = //p" "$build/Makefile" | head -n 1; }
HSP_HEADER_CC="$(value CC) -std=c11 -D_GNU_SOURCE -I. -Itests/lib/fakecuda/include $(value DEPS_CPPFLAGS) \
-Wall -Wextra -Wpedantic -Wstrict-prototypes -Wundef -Werror -Wno-unused-function -fsyntax-only -x c"
export HSP_HEADER_CC
headers=$(scripts/sources.sh .h)
if [ -z "$headers" ]; then
    echo "no headers found"
    exit 1
fi
# A header is included twice: the second time its guard must hide all of it.
printf '%s\n' "$headers" | xargs -P 2 -n 8 sh -c '
    rc=0
    for h; do
        printf "#include \"%s\"\n#include \"%s\"\nextern int hsp_unit;\n" "$h" "$h" |
            $HSP_HEADER_CC - || { echo "$h: does not compile alone"; rc=1; }
    done
    exit $rc' sh 2>&1 || exit 1
echo "$(printf '%s\n' "$headers" | wc -l) headers compile alone"
