"""Times all-reduces of the mesh and of Open MPI, each as processes on this machine:
tests/bench/meshbench and mpibench.

A run gives the seconds of one call, for several batches of calls in a row; a batch takes as long as
its slowest rank.
"""
import json
import os
import shutil
import statistics

from harness import call, prog

MB = 1 << 20
CALLS = {MB: 20, 64 * MB: 1}     # per batch
BATCHES = {MB: 8, 64 * MB: 3}
BTL = {"shm": "self,vader", "tcp": "self,tcp"}
# A waiting rank of Open MPI polls; whether it yields meanwhile matters with more ranks than
# processors.
SETTINGS = {"default": [], "yield": ["--mca", "mpi_yield_when_idle", "1"]}


def seconds(out):
    return json.loads(out.stdout)["seconds"]


def bench(transport, ranks, size):
    """Median seconds of a call by our mesh; transport "copy" and "stream": of memcpy, of one way
    through loopback."""
    return statistics.median(seconds(call(prog("tests/bench/meshbench"), transport, ranks, size, CALLS[size],
                                          BATCHES[size], timeout=120)))


def open_mpi(transport, ranks, size, setting="default"):
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    loopback = ["--mca", "btl_tcp_if_include", "lo"] if transport == "tcp" else []
    out = call("mpirun", "--oversubscribe", "-np", ranks, "--mca", "pml", "ob1", "--mca", "btl", BTL[transport],
               *loopback, *SETTINGS[setting], prog("tests/bench/mpibench"), size, CALLS[size], BATCHES[size],
               timeout=120, env=env)
    return statistics.median(seconds(out))


def missing():
    """The part that Open MPI needs and that is missing here; None: none."""
    if not os.path.exists(prog("tests/bench/mpibench")):
        return "libopenmpi-dev when the tree was configured"
    return None if shutil.which("mpirun") else "openmpi-bin"


def moved(ranks, size):
    """Bytes each rank must send: 2 (n - 1) / n of the buffer."""
    return 2 * (ranks - 1) / ranks * size
