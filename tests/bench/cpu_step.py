#!/usr/bin/python3
"""Times the parts of a CPU step of the reference model (make bench), as one line of JSON a
thread count.

gemm_share: time in matrix products (attention included) of all instructions; of_flop_limit: their
rate over the rate of fused multiply-adds on registers; of_memory_limit: bytes a second of the other
ops over those of memcpy. best_ms is the sum of the fastest time of every instruction: the step of
an undisturbed machine. Both limits are measured in the same run. HSPMD_JOB: another job (one rank).
Arguments: thread counts.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../claims/lib"))
from harness import *  # noqa: E402,F403

STEPS = 24


def products(ops):
    return {k: v for k, v in ops.items() if k.startswith(("linear", "attention"))}


def report(r):
    ops, limits = r["ops"], r["limits"]
    gemm = products(ops)
    rest = {k: v for k, v in ops.items() if k not in gemm and v["bytes"] > 0}
    flops = sum(v["flops"] for v in gemm.values()) / sum(v["seconds"] for v in gemm.values())
    moved = sum(v["bytes"] for v in rest.values()) / sum(v["seconds"] for v in rest.values())
    out = {"bench": "cpu-step", "threads": r["threads"], "steps": r["steps"], "step_ms": {}}
    out["step_ms"] = {k: round(v * 1e3, 2) for k, v in r["step_s"].items()}
    out["spread"] = round((r["step_s"]["max"] - r["step_s"]["min"]) / r["step_s"]["median"], 3)
    out.update(gemm_share=r["gemm_share"], gemm_gflops=round(flops * 1e-9, 1),
               flop_limit_gflops=round(limits["flops"] * 1e-9, 1), of_flop_limit=round(flops / limits["flops"], 3),
               other_gbytes=round(moved * 1e-9, 1), memory_limit_gbytes=round(limits["copy_bytes"] * 1e-9, 1),
               of_memory_limit=round(moved / limits["copy_bytes"], 3))
    top = sorted(ops.items(), key=lambda kv: -kv[1]["seconds"])
    out["best_ms"] = round(sum(v["best"] for v in ops.values()) * 1e3, 2)
    out["ms"] = {k: round(v["seconds"] * 1e3, 2) for k, v in top if v["seconds"] > 5e-5}
    return out


def main():
    claim = Claim("bench")  # its folder, text and seed; no claim is judged
    path = os.environ.get("HSPMD_JOB") or os.path.join(ROOT, "tests/claims/jobs/reference.yaml")
    job = write_job(claim, load_job(path), "bench", make_text(claim), steps=STEPS)
    program = os.path.join(claim.dir, "bench.prog")
    try:
        call(prog("hspmdctl"), "compile", job, "-o", program)
        cores = len(os.sched_getaffinity(0))
        for n in [int(a) for a in sys.argv[1:]] or sorted({1, min(2, cores), cores}):
            r = call(prog("tests/bench/stepbench"), program, n, STEPS)
            say(json.dumps(report(json.loads(r.stdout))))
    except Failed as e:
        say("bench failed:", e)
        return 1
    finally:
        shutil.rmtree(claim.dir, ignore_errors=True)
    return 0


sys.exit(main())
