#!/usr/bin/env python3
"""Runs a job on two agents, first undisturbed, then with an executor killed, an agent leaving, one
joining and hspmdd killed: every step is done, the end is the same, and no state is left behind."""
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import QUERY, World
from wire import LIMIT, ask, check, children, until
from world import BUILD, main

STEPS = 250
JOB = {"apiVersion": "hspmd/v1", "name": "small", "data": {"validation_fraction": 0.05},
       "model": {"family": "gpt", "layers": 2, "hidden": 64, "heads": 2, "vocab": 256, "sequence": 32,
                 "tied_head": True},
       "train": {"steps": STEPS, "global_batch": 16, "dtype": "fp64", "seed": 1, "clip_norm": 1.0,
                 "optimizer": {"name": "adamw", "lr": 3e-3},
                 "schedule": {"name": "constant", "warmup_steps": 10}},
       "resources": {"min": 1, "max": 4}, "checkpoint": {"every_steps": 0},
       "recovery": {"every": 1}}  # tests count the steps that a loss costs


class Training:
    def __init__(self, w, name, steps=STEPS, least=1, train=None, checkpoint=None):
        self.w, self.name, self.steps = w, name, steps
        self.job = json.loads(json.dumps(JOB))
        self.job["name"], self.job["train"]["steps"] = name, steps
        self.job["train"].update(train or {})
        self.job["resources"]["min"] = least
        self.job["data"]["path"] = w.path("text.txt")
        self.job["checkpoint"].update(checkpoint or {}, path=w.path("out"))
        self.id = ask(w.sock, "submit", {"file": "job.yaml", "dry_run": False, "files": []},
                      json.dumps(self.job).encode())["id"]

    def shows_what_runs(self):
        """The plan shown leaves nothing open, and compiled by hand gives the very programs that
        run."""
        plan, runs = self.w.ctl("plan", "show", self.name), self.w.ctl("program", "show", self.name)
        for section in ("sizes: [", "homes:", "uses:", "reshards:"):
            check(section in plan, "%s in %s" % (section, plan))
        self.w.write("shown.yaml", plan)
        self.w.write("one.yaml", "{apiVersion: hspmd/v1, kind: plan, ranks: 1, pipelines: [{sequences: 16, stages: "
                     "[{layers: 2, ranks: [0]}]}]}")
        self.w.write("job.json", json.dumps(self.job))
        shown = self.w.path("shown.prog")
        self.w.ctl("compile", self.w.path("job.json"), "--plan", self.w.path("shown.yaml"), "-o", shown)
        check(self.w.ctl("program", "show", shown) == runs, "the plan shown is what runs")
        self.w.write("two.yaml", "{apiVersion: hspmd/v1, kind: cluster, nodes: [{name: x, devices: [{count: 1}]}, "
                     "{name: y, devices: [{count: 1}]}]}")
        moves = [json.loads(self.w.ctl("plan", self.w.path("job.json"), "--transition", start, self.w.path("one.yaml"),
                                       "--cluster", self.w.path("two.yaml"), "-o", "json"))
                 for start in (self.name, self.w.path("shown.yaml"))]
        check(moves[0].pop("from") == self.name and moves[1].pop("from") and moves[0] == moves[1],
              "from the job as from its plan: %r" % moves)

    def status(self):
        s = ask(self.w.sock, "status", QUERY)
        return next(j for j in s["jobs"] if j["id"] == self.id)

    def reach(self, step):
        return until("step %d" % step, lambda: self.status()["step"] >= step, 180)

    def on(self, device):
        """Waits until the job runs on @device too."""
        return until("it runs on " + device, lambda: (lambda j: j["state"] == "running" and "next_epoch" not in j and
                                                      device in j["devices"] and len(j["devices"]) > 1)
                     (self.status()))

    def end(self):
        s = until("the job ends", lambda: (lambda j: j if j["state"] in ("done", "failed", "cancelled") else None)
                  (self.status()), 300)  # sanitizers and one slow device
        check(s["state"] == "done" and s["step"] == self.steps, "job %s: %s, %s" % (s["name"], s["state"], s["reason"]))
        return s


def plan_of_today(w, t, other):
    """plan --exit-code: 0 while a job runs the plan of now, 10 when there is no such job.
    """
    for job, code in ((t.job, 0), (dict(t.job, name=other), 10)):
        w.write("today.json", json.dumps(job))

        def asked():
            r = subprocess.run([os.path.join(BUILD, "hspmdctl"), "-a", w.sock, "plan", "--live", "--exit-code",
                                w.path("today.json")], capture_output=True, text=True, timeout=LIMIT)
            check(r.returncode in (0, 10) and "RANK" in r.stdout and "\nstate folders " in r.stdout and
                  "\nstate: " in r.stdout, "plan --exit-code: %r, wanted %d" % (r, code))
            return r.returncode == code
        # a busy device may be measured anew
        until("plan --exit-code gives %d" % code, asked, 3 * LIMIT)


def held_up(w):
    """The final model cannot be written for a while: wait says why, once, and status where the
    model is in the end."""
    t = Training(w, "held", steps=15, least=2)
    os.makedirs(os.path.join(w.path("out"), "held"), exist_ok=True)
    in_the_way = os.path.join(w.path("out"), "held", "final")
    with open(in_the_way, "w"):
        pass
    p = subprocess.Popen([os.path.join(BUILD, "hspmdctl"), "-a", w.sock, "wait", "held", "--timeout", "%ds" % LIMIT],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    w.started.append(p)
    said = p.stderr.readline()
    why = "hspmdctl: job held is finishing at step 15: the final model is not written: .*drain gives it"
    check(re.match(why, said), "it says why: %r" % said)
    os.remove(in_the_way)
    out, more = p.communicate(timeout=LIMIT)
    check(p.returncode == 0 and out == "job held is done at step 15\n" and not more, "%r %r" % (out, more))
    check("\nfinal model: in %s\n" % in_the_way in w.ctl("status", "held"), w.ctl("status", "held"))
    check(re.fullmatch("all steps are done; (alpha|beta) has written the final model",
                       t.status()["reason"]), t.status())


INCARNATION = r"incarnation(\.\w{6})?"  # the second while it is written, when a node has joined


def left_over(w):
    """Files of jobs in the state folders."""
    found = []
    for at, _, files in os.walk(w.path("segments")):
        found += [os.path.join(at, f) for f in files if f != "agent.lock" and not re.fullmatch(INCARNATION, f)]
    return found


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    d = w.daemon()
    a, b = w.agent("alpha"), w.agent("beta")
    until("both are up", lambda: w.up("alpha") and w.up("beta"))

    calm = Training(w, "calm").end()["loss"]
    until("no state is left", lambda: not left_over(w))

    held_up(w)
    until("no state is left", lambda: not left_over(w))

    t = Training(w, "stormy")
    t.on("beta/0")  # a device that "calm" had may be given back after its state
    plan_of_today(w, t, "unknown")
    t.reach(20)
    t.shows_what_runs()
    os.kill(children(b.pid)[0], 9)  # its segments stay; it comes back with them
    t.reach(40)
    d.kill()
    d.wait()
    time.sleep(0.2)
    d = w.daemon()
    t.reach(60)
    c = w.agent("gamma")
    t.on("gamma/0")
    b.terminate()  # hands its state over
    check(b.wait(LIMIT) == 0, "planned leave of beta")
    check("beta/0" not in t.status()["devices"], "beta is out of the plan")
    t.on("gamma/0")  # the state is on two nodes
    a.kill()
    a.wait()
    stormy = t.end()
    check(abs(stormy["loss"] / calm - 1) < 1e-6, "loss %.15g, undisturbed %.15g" % (stormy["loss"], calm))
    check(len(stormy["epochs"]) >= 3, "epochs %r" % stormy["epochs"])
    until("gamma keeps no state", lambda: not [f for f in left_over(w) if "/gamma/" in f])
    c.terminate()
    check(c.wait(LIMIT) == 0, "planned leave of gamma")


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker"], "training goes on through all of it"))
