#!/usr/bin/env python3
"""A store that is lost for good: jobs are adopted from their agents, twice, and end as the undisturbed one; or what a node
keeps is given up."""
import json
import os
import shutil
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import QUERY, World
from train import Training, left_over
from wire import ask, check, until
from world import main


def parked(w):
    """{node: jobs that it keeps} of the agents that are no members."""
    return {n["name"]: [k["job"] or k["id"] for k in n["keeps"]] for n in ask(w.sock, "status", QUERY)["nodes"]
            if n["state"] == "foreign"}


def losses(w, name):
    """Of every step, as the job has written them beside its model."""
    found = [os.path.join(at, f) for at, _, files in os.walk(os.path.join(w.path("out"), name)) for f in files
             if f == "metrics.jsonl"]
    check(len(found) == 1, "one file of metrics: %r" % found)
    with open(found[0]) as f:
        lines = [json.loads(line) for line in f]
    return {m["step"]: m["loss"] for m in lines}


def lose(w, d):
    """hspmdd and its folder are gone; a new one begins."""
    d.kill()
    d.wait()
    shutil.rmtree(w.path("state"))
    return w.daemon()


def adopted(w, d, agents):
    """A job goes on from what its agents keep, twice: with its executors at work, and with an agent that was killed."""
    calm = Training(w, "calm", steps=600, least=2)
    calm.end()
    t = Training(w, "lost", steps=600, least=2)
    t.reach(30)
    d = lose(w, d)
    until("both are parked", lambda: parked(w) == {"alpha": ["lost"], "beta": ["lost"]})
    r = w.try_ctl("job", "adopt", "los")
    check(r.returncode == 3 and "no agent here keeps a job los" in r.stderr and len(r.stderr.splitlines()) == 1, repr(r))
    check("goes on" in w.ctl("job", "adopt", "lost"), "it says so")
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    t.reach(150)
    first = t.status()
    check(first["epoch"] > 1000000 and not any(e["lost_steps"] for e in first["epochs"]), "no step is lost: %r" % first)

    agents[1].kill()
    agents[1].wait()
    d = lose(w, d)
    until("alpha is parked", lambda: "alpha" in parked(w))
    r = w.try_ctl("job", "adopt", "lost")
    check(r.returncode == 7 and "not here" in r.stderr and "beta" in r.stderr and "--force" in r.stderr, repr(r))
    agents[1] = w.agent("beta")
    until("both are parked", lambda: parked(w) == {"alpha": ["lost"], "beta": ["lost"]})
    w.ctl("node", "adopt", "alpha")
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    s = t.end()
    check(s["epoch"] > 2000000 or len(s["epochs"]) > 0, "of another generation: %r" % s)
    check(not any(e["lost_steps"] for e in s["epochs"]), "no step is lost: %r" % s)
    want, have = losses(w, "calm"), losses(w, "lost")
    check(sorted(have) == sorted(want), "every step is told: %r" % sorted(set(want) - set(have)))
    worst = max(abs(have[k] / want[k] - 1) for k in want)
    check(worst < 1e-9, "losses of the undisturbed run, to %g" % worst)
    until("no state is left", lambda: not left_over(w))
    return d


def discarded(w, d):
    """What nobody wants goes by an administrator's word, and the nodes join."""
    t = Training(w, "idle", steps=1000000, least=2)
    t.reach(10)
    d = lose(w, d)
    until("both are parked", lambda: parked(w) == {"alpha": ["idle"], "beta": ["idle"]})
    w.ctl("node", "discard", "alpha")
    until("alpha joins", lambda: w.up("alpha"))
    check(not [f for f in left_over(w) if "/alpha/" in f] and [f for f in left_over(w) if "/beta/" in f], "one of two")
    w.ctl("node", "discard", "beta")
    until("beta joins", lambda: w.up("beta"))
    check(not left_over(w), "nothing is left")


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    d = w.daemon()
    agents = [w.agent("alpha"), w.agent("beta")]
    until("both are up", lambda: w.up("alpha") and w.up("beta"))
    d = adopted(w, d, agents)
    discarded(w, d)


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "a job is adopted from its agents"))
