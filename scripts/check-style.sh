#!/bin/sh
# Checks rules of the house that neither compiler nor clang-format sees. Each breach is one line.
# HSPMD_BUILD: a built tree, for the check of exported symbols.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${HSPMD_BUILD:-build}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
scripts/sources.sh .c >"$tmp/c"
scripts/sources.sh .c .h >"$tmp/ch"
if [ ! -s "$tmp/ch" ]; then
    echo "no sources found"
    exit 1
fi
: >"$tmp/bad"

# --- one pass over all sources: code without comments, then patterns --------------------------
xargs awk '
function strip(s,   r, i) {             # comments out, strings kept
    r = ""
    while (s != "") {
        if (inside) {
            i = index(s, "*/")
            if (i == 0) return r
            s = substr(s, i + 2); inside = 0
        } else {
            i = index(s, "/*")
            if (i == 0) return r s
            r = r substr(s, 1, i - 1); s = substr(s, i + 2); inside = 1
        }
    }
    return r
}
FNR == 1 { inside = 0; open = 0 }
/(TODO|FIXME|XXX)([^A-Za-z]|$)/ && !/XXXX/ { print FILENAME ":" FNR ": an open promise: " $0 }
{
    code = strip($0)
    if (code ~ /(^|[^A-Za-z0-9_])(sprintf|vsprintf|strcpy|strcat|strncat|stpcpy|atoi|atol|atof|strtok|gets|alloca|rand|srand|random|drand48|tmpnam|mktemp|system|popen|ctime|asctime|localtime|gmtime|setlocale)[ ]*\(/)
        print FILENAME ":" FNR ": banned function: " $0
    # the names of another library are not ours to choose
    if (code ~ /(^|[^A-Za-z0-9_])typedef[ ]+struct/ && FILENAME !~ /^tests\/lib\/fakecuda\/include\//)
        print FILENAME ":" FNR ": typedef of a struct: " $0
    if (code ~ /^[ ]*#[ ]*pragma[ ]+(pack|once)/)
        print FILENAME ":" FNR ": pragma: " $0
    if (code ~ /(^|[^A-Za-z0-9_])assert\(/)
        print FILENAME ":" FNR ": assert() vanishes with NDEBUG, use HSP_ASSERT: " $0
}' <"$tmp/ch" >>"$tmp/bad"

# --- files ------------------------------------------------------------------------------------
scripts/sources.sh .c .h .sh .cu | sed 's|.*/||' | sort | uniq -d |
    sed 's/$/: two files of this name/' >>"$tmp/bad"
while IFS= read -r h; do
    case "$h" in
    *.h)
        guard=HSP_$(basename "$h" | tr 'a-z.-' 'A-Z__')
        grep -q "^#ifndef $guard\$" "$h" || echo "$h: header guard is not $guard" >>"$tmp/bad"
        ;;
    esac
done <"$tmp/ch"
scripts/sources.sh local.mk | xargs cat | sed 's/#.*//' >"$tmp/mk"
tr ' \t\\' '\n\n\n' <"$tmp/mk" | sort -u >"$tmp/words"
while IFS= read -r c; do
    grep -qxF "$c" "$tmp/words" || grep -qxF "${c%.c}" "$tmp/words" ||
        echo "$c: in no local.mk, so never built" >>"$tmp/bad"
done <"$tmp/c"
sed 's|/[^/]*$||' "$tmp/ch" | sort -u | while IFS= read -r dir; do
    case "$dir" in tests/unit/* | */*/*) continue ;; esac
    [ -f "$dir/README.md" ] || echo "$dir: no README.md"
done >>"$tmp/bad"
scripts/sources.sh .mk .am .ac .sh .md .yaml | xargs grep -nI '[[:space:]]$' /dev/null |
    sed 's/:[^:]*$/: blank at the end of the line/' >>"$tmp/bad"

# --- exported symbols --------------------------------------------------------------------------
archives=$(find "$build/proto" "$build/daemon" "$build/worker" -name '*.a' 2>/dev/null)
if [ -z "$archives" ]; then
    echo "$build: no libraries, build first" >>"$tmp/bad"
else
    # shellcheck disable=SC2086
    nm -A -g --defined-only $archives 2>/dev/null |
        awk 'NF > 2 && $NF !~ /^(hsp_|main$|__odr_asan|__asan)/ { print $1 " exports " $NF " without the prefix hsp_" }' |
        sed "s|^$build/||" >>"$tmp/bad"
fi

# --- report for the reader: the longest functions and files; a long one is no failure, but its
# author should have a reason
xargs awk '
FNR == 1 { open = 0 }
/^\{/ { start = FNR; open = 1 }
/^\}/ && open { n = FNR - start + 1; if (n > 70) printf "%5d lines: function at %s:%d\n", n, FILENAME, start; open = 0 }
' <"$tmp/c" | sort -rn | head -n 10
xargs wc -l <"$tmp/ch" | awk '$2 != "total" && $1 > 800 { printf "%5d lines: %s\n", $1, $2 }' | sort -rn | head -n 10

if [ -s "$tmp/bad" ]; then
    cat "$tmp/bad"
    exit 1
fi
echo "$(wc -l <"$tmp/ch") files keep the rules"
