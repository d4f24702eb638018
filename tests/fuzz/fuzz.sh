#!/bin/sh
# Runs libFuzzer targets, FUZZ_JOBS at once for FUZZ_SECONDS each; one line a target, and the input
# of a failure in fuzz-found. Called by `make fuzz` in the build tree.
#   fuzz.sh tests/fuzz/fuzz_NAME...
set -u
seconds=${FUZZ_SECONDS:-60}
jobs=${FUZZ_JOBS:-2}
mkdir -p fuzz-corpus fuzz-found fuzz-log || exit 1

# One target: its seeds join the findings of earlier runs.
one() {
    name=${1##*/fuzz_}
    log=fuzz-log/$name
    mkdir -p "fuzz-corpus/$name"
    dict=$HSPMD_SRC/tests/fuzz/seeds/$name.dict
    if "$1" --seeds "fuzz-corpus/$name" >"$log" 2>&1 &&
        "$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1536 -print_final_stats=1 \
            -verbosity=1 -artifact_prefix="fuzz-found/$name-" \
            ${dict:+$([ -f "$dict" ] && echo "-dict=$dict")} "fuzz-corpus/$name" >"$log" 2>&1; then
        printf 'ok     %-16s %s\n' "$name" "$(sed -n \
            's/.*\(cov: [0-9]* ft: [0-9]* corp: [0-9]*\).*/\1/p' "$log" | tail -n 1), $(sed -n \
            's/^Done \([0-9]*\) runs in \([0-9]*\) second.*/\1 runs in \2 s/p' "$log")"
    else
        printf 'FAILED %-16s %s\n' "$name" "$(sed -n \
            's/.*Test unit written to /input: /p' "$log" | head -n 1)"
        tail -n 40 "$log"
        return 1
    fi
}

if [ "$1" = --one ]; then
    one "$2"
    exit
fi
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 "$0" --one
