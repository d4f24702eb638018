#!/usr/bin/python3
"""Breaks the state folder of a node while a job runs, and kills an executor of another node: the
job goes on without that node, status says for how long and names the remedy, and an administrator's
word brings the node back. As root the folder is mounted read-only, so its state is still read; else
a file stands in its place. No plan has state in a folder without room; when there is more room, the
job is planned anew."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403


class Folder:
    """The folder of a node, broken and mended."""

    def __init__(self, path):
        self.path, self.mounted = path, False

    def mount(self, *args):
        return subprocess.run(["mount", *args], capture_output=True).returncode == 0

    def spoil(self):
        """Returns the name of the errno, and the remedy."""
        self.mounted = os.geteuid() == 0 and self.mount("--bind", self.path, self.path)
        if self.mounted:
            if not self.mount("-o", "remount,ro,bind", self.path):
                raise Failed("cannot make %s read-only" % self.path)
            return "[EROFS]; mount it writable"
        os.rename(self.path, self.path + ".away")
        with open(self.path, "w"):
            pass
        return "[ENOTDIR]; put a folder in the place of the file"

    def mend(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.path], capture_output=True)
            self.mounted = False
        elif os.path.isfile(self.path):
            os.unlink(self.path)
            os.rename(self.path + ".away", self.path)


def devices(c):
    return sorted(c.job("small")["devices"])


def facts(c):
    return [f for f in c.status()["facts"] if f["kind"] == "state-folder"]


def judge_fact(c, named):
    found = facts(c)
    if len(found) != 1 or found[0]["node"] != "w1" or "device" in found[0] or "job" in found[0]:
        raise Failed("facts: %s" % found)
    f = found[0]
    if named not in f["reason"] or not 0 <= f["seconds"] < 60 or not 0 < f["left_seconds"] <= 60:
        raise Failed("the fact says %s, expected %s" % (f, named))
    if not f["since"] < f["until"]:
        raise Failed("since %s until %s" % (f["since"], f["until"]))
    table = c.ctl("status").stdout
    if "state-folder" not in table or named not in table:
        raise Failed("status does not say it: %s" % table)


def too_small(claim, job):
    """The folder of w1 has room for its incarnation, and for no state: a job is planned without it,
    and with it when the folder has grown. Needs root."""
    with Cluster(claim, "full") as c:
        where = os.path.join(c.state, "w1")
        os.mkdir(where)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700,size=128k", "state", where],
                                               capture_output=True).returncode != 0:
            say("no right to mount: the folder that is full is left out")
            return
        try:
            c.start_workers([0.5, 0.5, 0.5])
            c.submit(job)
            c.wait_step("small", 10, 120)
            if devices(c) != ["w0/0", "w2/0"]:
                raise Failed("it runs on %s" % devices(c))
            if facts(c) or len(c.job("small")["epochs"]) != 1:
                raise Failed("an attempt has failed: %s" % [e["type"] for e in c.events("small")])
            shown = c.ctl("node", "show", "w1").stdout
            if "state folder: 1" not in shown or " KiB free" not in shown:
                raise Failed("node show: %s" % shown)
            subprocess.run(["mount", "-o", "remount,size=64m", where], check=True)
            wait_for("w1 to be used", lambda: devices(c) == ["w0/0", "w1/0", "w2/0"], 120, 0.2)
            if not any("more room in the state folder of w1" in e["data"].get("cause", "") for e in c.events("small")):
                raise Failed("the events do not say why: %s" % c.events("small"))
            c.ctl("cancel", "small")
        finally:
            subprocess.run(["umount", "-l", where], capture_output=True)


def one_layout_only(claim, job):
    """A switch seals the new layout beside the old one. While the folder of the only member has no
    room for that, a node that joins changes nothing, and no attempt fails. Needs root."""
    with Cluster(claim, "two") as c:
        where = os.path.join(c.state, "w0")
        os.mkdir(where)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700,size=64m", "state", where],
                                               capture_output=True).returncode != 0:
            say("no right to mount: the folder with room for one layout is left out")
            return
        try:
            c.start_workers([0.5])
            c.submit(job)
            c.wait_step("small", 5, 120)
            size = int(c.job("small")["folder_bytes"] * 1.1) // 4096 * 4096
            subprocess.run(["mount", "-o", "remount,size=%d" % size, where], check=True)
            wait_for("hspmdd to know the room", lambda: [n for n in c.status()["nodes"] if n["name"] == "w0"][0]
                     ["folder_free_bytes"] < size / 4, 30, 0.2)
            c.start_worker("w1", [{"speed": 0.4}])
            wait_for("the planner's answer", lambda: any(
                e["type"] in ("plan.kept", "plan.infeasible") for e in c.events("small")), 60, 0.2)
            if devices(c) != ["w0/0"] or len(c.job("small")["epochs"]) != 1 or facts(c):
                raise Failed("an attempt was made: %s" % [e["type"] for e in c.events("small")])
            subprocess.run(["mount", "-o", "remount,size=64m", where], check=True)
            wait_for("w1 to be used", lambda: devices(c) == ["w0/0", "w1/0"], 120, 0.2)
            c.ctl("cancel", "small")
        finally:
            subprocess.run(["umount", "-l", where], capture_output=True)


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["train"].update(steps=300, global_batch=16)
    job["recovery"] = {"every": 1}
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    too_small(claim, write_job(claim, job, "small", text))
    # no keeper changes the layout
    alone = dict(job, train=dict(job["train"], steps=3000), recovery={"copies": 1, "every": 1})
    one_layout_only(claim, write_job(claim, alone, "small", text))
    with Cluster(claim) as c:
        c.start_workers([0.5, 0.5, 0.5])
        folder = Folder(os.path.join(c.state, "w1", "w1"))
        try:
            c.submit(write_job(claim, job, "small", text))
            c.wait_step("small", 15, 120)
            if len(devices(c)) != 3:
                raise Failed("it runs on %s" % devices(c))
            named = folder.spoil()
            c.kill_executor("w2")
            wait_for("the job to go on without w1", lambda: c.job("small")["state"] == "running" and
                     devices(c) == ["w0/0", "w2/0"], 120, 0.2)
            judge_fact(c, named)
            lost = c.job("small")["epochs"][-1]["lost_steps"]
            step = c.job("small")["step"]
            c.wait_step("small", step + 5, 120)
            folder.mend()
            c.ctl("undrain", "w1", "--reason", "mended")
            wait_for("w1 to be used again", lambda: len(devices(c)) == 3, 120, 0.2)
            if facts(c):
                raise Failed("it is still left out: %s" % facts(c))
            c.wait_done("small", 600)
        finally:
            folder.mend()
        failed = [e["reason"] for e in c.events("small") if e["type"] == "job.failed"]
        distance = loss_distance(reference, c.metrics("small"), job["train"]["steps"])
    return distance <= 1e-9 and lost <= 1 and not failed, {"loss": distance, "steps_lost": lost, "named": named}


Claim("folder").run(body)
