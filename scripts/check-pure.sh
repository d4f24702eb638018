#!/bin/sh
# Checks that pure libraries do no I/O, read no clock, draw no randomness, know no sockets: every
# undefined symbol of their archives must be ours, or stand in a list of harmless ones. An
# allow-list, so that a call nobody thought of is found too. Runs in a build tree (make check) or
# with HSPMD_BUILD set. Exit: 0 pure, 77 not judgeable, 1 not.
set -u
src=$(cd "$(dirname "$0")/.." && pwd) || exit 1
build=${HSPMD_BUILD:-$(pwd)}
list=${1:-$src/scripts/pure-rooms.txt}

common='hsp_.*|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__chk_fail'
common="$common|malloc|calloc|realloc|free"
common="$common|(__)?(mem(cpy|move|set|cmp|chr|mem)|mempcpy)(_chk)?"
common="$common|strn?len|strn?cmp|strn?casecmp|str(chr|rchr|str|spn|cspn|pbrk|n?dup)|(__)?st[rp](n)?cpy(_chk)?"
common="$common|strtod|(__)?v?snprintf(_chk)?|strerror_r|__errno_location|qsort|qsort_r|bsearch"
common="$common|__ctype_[a-z_]*|__[a-z]+[td]i[0-9]?"
common="$common|(a?(sin|cos|tan)h?|exp|exp2|expm1|log|log2|log10|log1p|pow|sqrt|cbrt|erf|erfc|fabs|floor|ceil|trunc|round|rint|nearbyint|llround|lround|llrint|lrint|fmod|fmax|fmin|ldexp|frexp|hypot|atan2|scalbn|modf|copysign|nextafter)f?"

bad=0
n=0
if [ ! -r "$list" ]; then
    echo "no list of pure libraries: $list"
    exit 1
fi
while read -r archive extra; do
    case "$archive" in '' | '#'*) continue ;; esac
    n=$((n + 1))
    if [ ! -s "$build/$archive" ]; then
        if ! ls "$src/${archive%/*}"/*.c >/dev/null 2>&1; then
            n=$((n - 1)) # a room without sources has nothing to judge
            continue
        fi
        echo "$archive: missing (a gate without its input fails)"
        bad=1
        continue
    fi
    symbols=$(nm -u "$build/$archive") || bad=1
    if printf '%s\n' "$symbols" | grep -Eq '__(a|t|ub)san_'; then
        echo "built with a sanitizer: not judged"
        exit 77
    fi
    if ! printf '%s\n' "$symbols" | grep -q ' U '; then
        echo "$archive: no undefined symbol at all: not a library of ours"
        bad=1
    fi
    found=$(printf '%s\n' "$symbols" | awk -v ok="^($common${extra:+|$extra})\$" '
        /:$/ { object = $0 }
        $1 == "U" && $2 !~ ok { print object " " $2 }')
    if [ -n "$found" ]; then
        printf '%s\n' "$found" | sed "s|^|$archive: impure: |"
        bad=1
    fi
done <"$list"
if [ "$n" -eq 0 ]; then
    echo "$list names no library"
    bad=1
fi
[ "$bad" -eq 0 ] && echo "$n pure libraries"
exit "$bad"
