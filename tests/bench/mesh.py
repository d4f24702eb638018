#!/usr/bin/python3
"""Times all-reduces of the mesh among processes of this machine (make bench). Prints one line of
JSON for each transport, size and number of ranks; times Open MPI as well, if it is installed.
of_limit is a ratio: the bytes per second that a rank sends, over the bytes per second of memcpy
(shm) or of one stream through loopback (unix, tcp), both measured in the same run."""
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../claims/lib"))
from harness import *  # noqa: E402,F403
from meshspeed import MB, bench, missing, moved, open_mpi  # noqa: E402

RUNS = 5


def measure(transport, ranks, size):
    peer = missing() is None and transport != "unix"
    ours, theirs, limit = [], [], []
    for _ in range(RUNS):
        ours.append(bench(transport, ranks, size))
        theirs += [open_mpi(transport, ranks, size)] if peer else []
        limit.append(bench("copy" if transport == "shm" else "stream", 1, size))
    a = statistics.median(ours)
    out = {"bench": "all-reduce", "transport": transport, "ranks": ranks, "bytes": size, "ms": round(a * 1e3, 3),
           "best_ms": round(min(ours) * 1e3, 3),
           "of_limit": round(moved(ranks, size) / a / (size / statistics.median(limit)), 3)}
    if peer:
        out["open_mpi_ms"] = round(statistics.median(theirs) * 1e3, 3)
    return out


def main():
    try:
        for transport in ("shm", "unix", "tcp"):
            for size in (MB, 64 * MB):
                for ranks in (2, 4):
                    say(json.dumps(measure(transport, ranks, size)))
    except Failed as e:
        say("bench failed:", e)
        return 1
    return 0


sys.exit(main())
