#!/usr/bin/env python3
"""Runs hspmdctl trace on a pipeline on three agents: every device is in it with the same steps, no
two spans of a queue overlap, forward comes before backward, messages are sent before they have
arrived, all within the bound of the clocks that the trace states; one that the end of an epoch cuts
says so; a step that cannot be traced is refused in one line."""
import json
import os
import signal
import subprocess
import sys
import threading

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import World
from train import JOB, Training
from wire import LIMIT, ask, check, children, until
from world import BUILD, main

PLAN = """{apiVersion: hspmd/v1, kind: plan, ranks: 3, pipelines: [{sequences: 16, micro_batches: 4, stages: [
  {layers: 1, ranks: [0]}, {layers: 1, ranks: [1, 2], tensor: [1, 1]}]}]}
"""
BOUND = 100000.0  # microseconds: the bound on clocks on one machine, at any load


class Traced(Training):
    """The job on a pipeline of three, its second stage cut by tensors."""

    def __init__(self, w, name, steps):
        self.w, self.name, self.steps = w, name, steps
        self.job = json.loads(json.dumps(JOB))
        self.job["name"], self.job["train"]["steps"] = name, steps
        self.job["data"]["path"] = w.path("text.txt")
        self.job["checkpoint"]["path"] = w.path("out")
        self.job["annotations"] = ["three.yaml"]
        self.id = ask(w.sock, "submit", {"file": "job.yaml", "dry_run": False,
                                         "files": [{"name": "three.yaml", "text": PLAN}]},
                      json.dumps(self.job).encode())["id"]


def trace(w, *args):
    r = subprocess.run([os.path.join(BUILD, "hspmdctl"), "-a", w.sock, "trace"] + list(args), capture_output=True,
                       text=True, timeout=3 * LIMIT)
    return r.returncode, r.stdout, r.stderr


def spans(doc):
    return [e for e in doc["traceEvents"] if e["ph"] == "X"]


def check_queues(doc):
    """By time; no two spans of a queue overlap, to the nanosecond."""
    last, end = -1.0, {}
    for e in doc["traceEvents"]:
        if e["ph"] == "M":
            continue
        check(e["ts"] >= last, "events are in order: %r" % e)
        last = e["ts"]
        if e["ph"] == "X":
            q = (e["pid"], e["tid"])
            check(e["ts"] >= end.get(q, 0) - 0.0015, "no overlap in a queue: %r" % e)
            end[q] = e["ts"] + e["dur"]


def check_devices(doc, n_steps):
    d = doc["otherData"]["devices"]
    first = d[0]["first_step"]
    names = {e["pid"]: e["args"]["name"] for e in doc["traceEvents"] if e["name"] == "process_name"}
    check(len(d) == 3 and all(x["told"] and x["steps"] == n_steps and x["first_step"] == first and x["lost"] == 0
                              for x in d), "devices %r" % d)
    check({names[r].split("/")[0] for r in range(3)} == {"alpha", "beta", "gamma"}, "names %r" % names)
    check("pipeline 0, stage 0" in names[0] and "stage 1" in names[1], "stages %r" % names)
    check(0 < doc["otherData"]["clock_error_us"] < BOUND, "clocks %r" % doc["otherData"])
    for r in range(3):
        mine = [e for e in spans(doc) if e["pid"] == r]
        check({e["args"]["step"] for e in mine
               if e["tid"] < 2} == set(range(first, first + n_steps)), "steps of %d" % r)
        check({e["tid"] for e in mine} == {0, 1, 2}, "queues of %d" % r)
        check(any(e["name"].startswith("linear ") for e in mine), "products of %d" % r)
        check(any(e["name"] == "vote" for e in mine), "votes of %d" % r)


def check_phases(doc, n_steps):
    """A micro-batch goes forward before it goes backward, on every device; the update comes last.
    """
    first = doc["otherData"]["devices"][0]["first_step"]
    for r in range(3):
        for step in range(first, first + n_steps):
            of = [e for e in spans(doc) if e["pid"] == r and e["tid"] < 2 and e["args"]["step"] == step]
            for m in range(4):
                fwd = [e["ts"] + e["dur"] for e in of if e["cat"] == "forward" and e["args"]["micro"] == m]
                bwd = [e["ts"] for e in of if e["cat"] == "backward" and e["args"]["micro"] == m]
                check(fwd and bwd and max(fwd) <= min(bwd) + 0.0015, "micro-batch %d of step %d on %d" % (m, step, r))
            vote = max(e["ts"] + e["dur"] for e in of if e["name"] == "vote")
            adamw = [e["ts"] for e in of if e["name"].startswith("adamw")]
            check(adamw and min(adamw) >= vote - 0.0015, "updates of step %d on %d" % (step, r))


def check_messages(doc):
    """Each message leaves before it has arrived, as far as the two clocks are known."""
    error = [d["clock_error_us"] for d in doc["otherData"]["devices"]]
    leaves = {e["id"]: e for e in doc["traceEvents"] if e["ph"] == "s"}
    arrives = {e["id"]: e for e in doc["traceEvents"] if e["ph"] == "f"}
    check(leaves and set(leaves) == set(arrives), "%d leave, %d arrive" % (len(leaves), len(arrives)))
    for i, a in leaves.items():
        b = arrives[i]
        check(a["pid"] != b["pid"] and a["ts"] <= b["ts"] + error[a["pid"]] + error[b["pid"]], "message %s" % i)
    return len(leaves)


def refused(w, code, text, *args):
    c, out, err = trace(w, *args)
    check(c == code and out == "" and err.count("\n") == 1 and text in err, "%r: %d %r %r" % (args, c, out[:200], err))


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    w.daemon(dead="5s")
    a, b, c = w.agent("alpha"), w.agent("beta"), w.agent("gamma")
    until("all are up", lambda: w.up("alpha") and w.up("beta") and w.up("gamma"))
    refused(w, 3, "no job small", "small")
    t = Traced(w, "small", 100000)
    t.reach(10)

    code, out, err = trace(w, "small", "-o", w.path("t.json"), "--steps", "3")
    check(code == 0 and out == "" and "3 steps from step" in err and "incomplete" not in err,
          "%d %r %r" % (code, out, err))
    refused(w, 1, "cannot create a file beside ", "small", "-o", w.path("nowhere/t.json"))
    with open(w.path("t.json")) as f:
        doc = json.load(f)
    check(doc["otherData"]["job"] == "small" and doc["otherData"]["note"] == "", "head %r" % doc["otherData"])
    check_devices(doc, 3)
    check_queues(doc)
    check_phases(doc, 3)
    n = check_messages(doc)
    print("%d spans, %d messages, clocks to within %.0f us" % (len(spans(doc)), n, doc["otherData"]["clock_error_us"]))

    code, out, err = trace(w, "small", "--steps", "1")
    check(code == 0 and len(spans(json.loads(out))) > 0 and "1 step from step" in err, "to standard output: %r" % err)
    refused(w, 2, "steps 65 is not a number", "small", "--steps", "65")

    got = []
    other = threading.Thread(target=lambda: got.append(trace(w, "small", "--steps", "64", "-o", w.path("cut.json"))))
    stopped = children(b.pid)[0]  # no step ends without it
    os.kill(stopped, signal.SIGSTOP)
    other.start()
    second = threading.Thread(target=lambda: got.append(trace(w, "small", "--steps", "64", "-o", w.path("cut.json"))))
    second.start()
    until("one of them is refused", lambda: got)
    check(got[0][0] == 7 and "another trace of the job is under way" in got.pop()[2], "two at a time")
    # comes before 64 steps are over, or the trace is whole
    w.ctl("drain", "gamma", "--reason", "lunch")
    os.kill(stopped, signal.SIGCONT)
    second.join(4 * LIMIT)
    other.join(4 * LIMIT)
    check(got and got[0][0] == 0, "a trace that is cut: %r" % got)
    with open(w.path("cut.json")) as f:
        cut = json.load(f)
    check_queues(cut)
    whole = all(d["steps"] == 64 for d in cut["otherData"]["devices"])
    check(whole or "epoch" in cut["otherData"]["note"] and "incomplete" in got[0][2], "%r %r" % (cut["otherData"], got))

    w.ctl("cancel", "small")
    until("it is over", lambda: t.status()["state"] == "cancelled")
    refused(w, 7, "only steps that run can be traced", "small")


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "a job was traced"))
