#!/usr/bin/python3
"""Varies the text of a job: one that is nowhere, one that comes later, one that differs on one
node; initial weights that are nowhere, a model that is too large."""
import os
import socket
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403


class Places(Cluster):
    """Each worker in a folder of its own: /proc/self/cwd/text.txt is another file for each."""

    def folder(self, name):
        path = os.path.join(self.dir, "at-" + name)
        os.makedirs(path, exist_ok=True)
        return path

    def put(self, name, text):
        with open(os.path.join(self.folder(name), "text.txt"), "w") as f:
            f.write(text)

    def spawn(self, name, args):
        before = os.getcwd()
        os.chdir(self.folder(name))
        try:
            return super().spawn(name, args)
        finally:
            os.chdir(before)


def blocked(c, job, *texts):
    """The reason says why; so do the events."""
    wait_for("%s to be blocked by %s" % (job, texts[0]), lambda: all(t in c.job(job)["reason"] for t in texts), 60)
    if c.job(job)["state"] != "pending":
        raise Failed("job %s is %s" % (job, c.job(job)["state"]))
    if not any(texts[0] in e["reason"] for e in c.events(job) if e["type"] == "data.refused"):
        raise Failed("no event says %s" % texts[0])


NOWHERE = ("hspmdctl: data.path /nonexistent/text is not there on this machine; nodes were not asked: a node that "
           "cannot read it takes no part in the job\n")


def of_this_machine(claim, nowhere):
    """submit names files that are not there only where a node of the plan has the name of this
    machine."""
    with Cluster(claim, "here") as c:
        c.start_worker("elsewhere", [{"speed": 0.5}])
        told = c.submit(nowhere).stderr
        c.ctl("cancel", "nowhere")
        c.start_worker(socket.gethostname().lower(), [{"speed": 0.5}])
        told_here = c.submit(nowhere).stderr
    if NOWHERE in told or NOWHERE not in told_here:
        raise Failed("submit: %r, with a node on this machine: %r" % (told, told_here))


def body(claim):
    text = "".join("%d bottles of beer on the wall\n" % i for i in range(9000))
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(layers=2, hidden=32, heads=2)
    job["train"].update(steps=60, global_batch=8)
    nowhere = write_job(claim, job, "nowhere", "/nonexistent/text")
    job["resources"] = {"min": 2, "max": 8}
    small = write_job(claim, job, "small", "/proc/self/cwd/text.txt")
    job["resources"] = {"min": 1, "max": 1}
    job["checkpoint"] = {"every_steps": 20}
    alone = write_job(claim, job, "alone", "/proc/self/cwd/text.txt")
    beside = write_job(claim, job, "beside", "/proc/self/cwd/text.txt")
    held = write_job(claim, dict(job, resources={"min": 3, "max": 3}), "held", "/proc/self/cwd/text.txt", steps=100000)
    weights = write_job(claim, dict(job, init_from="/nonexistent/w.safetensors"), "weights", "/proc/self/cwd/text.txt")
    wide = dict(job["model"], layers=48, hidden=4096)
    large = write_job(claim, dict(job, model=wide, resources={"max": 8}), "large", "/proc/self/cwd/text.txt")
    of_this_machine(claim, nowhere)
    with Places(claim) as c:
        c.worker_config = {"replica_holders": 0}
        c.start_workers([0.5, 0.5])
        for path, said in ((nowhere, NOWHERE), (write_job(claim, job, "here", os.path.join(ROOT, "README.m?")), "")):
            if c.ctl("submit", "-n", path).stderr != said:
                raise Failed("dry run: %r" % c.ctl("submit", "-n", path).stderr)
        c.submit(nowhere)
        blocked(c, "nowhere", "/nonexistent/text: No such file or directory",
                "waits for 1 device; 0 of 2 can be used: w")
        c.ctl("cancel", "nowhere")
        c.submit(small)
        blocked(c, "small", "/proc/self/cwd/text.txt: No such file or directory")
        for n in ("w0", "w1"):
            c.put(n, text if n == "w0" else text + "x\n")
        for n in ("w0", "w1"):  # a node that comes anew is asked again at once
            c.kill_agent(n)
            c.start_worker(n, [{"speed": 0.5}], wait=False)
        blocked(c, "small", "w1: /proc/self/cwd/text.txt differs from the file that other nodes have; give all nodes ")
        told = [f["reason"] for f in c.status()["facts"] if f["kind"] == "data-differs"]
        want = r"/proc/self/cwd/text.txt: %d bytes, digest \w{32}; other nodes have %d bytes, digest \w{32}$"
        if len(told) != 1 or not re.match(want % (len(text) + 2, len(text)), told[0]):
            raise Failed("left out: %r" % told)
        c.put("w2", text)
        c.start_worker("w2", [{"speed": 0.5}])  # the one that differs is not needed any more
        c.wait_step("small", 1, 60)
        j = c.job("small")
        devices = j["devices"]
        said = "copies 2: every part of the state is on at least 2 nodes"
        if j["nodes_per_shard_min"] != 2 or j["durability"] != said or said not in c.ctl("status", "small").stdout:
            raise Failed("copies: %r %r" % (j["nodes_per_shard_min"], j["durability"]))
        c.wait_done("small", 60)
        if sorted(devices) != ["w0/0", "w2/0"]:
            raise Failed("it ran on %s" % devices)
        c.submit(alone)
        for cost in ("every step: there is no checkpoint", "the steps since checkpoint "):
            said = wait_for("what a loss would cost: " + cost, lambda: (
                lambda t: t if t.endswith(cost) or (cost in t and t[-1].isdigit()) else None)
                (c.job("alone").get("durability", "")), 30, poll=0.01)
            if not re.match("a loss of node w[0-2] would cost ", said):
                raise Failed(said)
        c.wait_done("alone", 60)
        p = c.ctl("scale", "alone", "--max", "2", check=False)
        if p.returncode != 7 or "job alone is done: it uses no devices any more" not in p.stderr:
            raise Failed("scale of a job that is done: %d %s" % (p.returncode, p.stderr))
        c.put("w1", text)
        c.submit(held)
        c.wait_step("held", 1, 60)
        said = c.ctl("submit", beside).stdout
        for part in ("\nthis plan uses all devices, also those of other jobs\n", "waits for 1 device; 0 of 3 can be "
                     "used (job held has 3); devices become free when a job ends or is scaled down; its checkpoints are"):
            if part not in said:
                raise Failed("submit beside another job: %r" % said)
        c.ctl("cancel", "beside")
        c.ctl("cancel", "held")
        c.submit(weights)
        blocked(c, "weights", "init_from: cannot open /nonexistent/w.safetensors: No such file or directory",
                "waits for 1 device; 0 of 3 can be used: w")
        said = c.ctl("submit", large).stdout
        if "job large was submitted and is pending: needs " not in said:
            raise Failed(said)
    return True, {}


Claim("data").run(body)
