#!/usr/bin/python3
"""Slows one of two equal agents below its probed speed (its executor is held back by signals).
hspmdd plans again with the speed it observed, not twice within a minute, and the losses stay those
of one device."""
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

SPEED = 0.4  # of both devices
HELD = 0.06  # of a core: the part of the device that is held back
LOOK = 0.004  # seconds


class Brake(threading.Thread):
    """Stops and continues a process so that it gets no more than a part of a core, at any load of
    the machine. An unused part is not saved up: waiting for others does not make it faster
    afterwards."""

    def __init__(self, pid, rate):
        super().__init__(daemon=True)
        self.pid, self.rate, self.released = pid, rate, threading.Event()

    def cpu(self):
        with open("/proc/%d/stat" % self.pid) as f:
            if f.read().rsplit(")", 1)[1].split()[0] in "ZX":
                raise ProcessLookupError
        total = 0
        for task in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/schedstat" % (self.pid, task)) as f:
                total += int(f.read().split()[0])
        return total * 1e-9

    def run(self):
        try:
            used, then, left = self.cpu(), time.monotonic(), 0.0
            while not self.released.wait(LOOK):
                now, cpu = time.monotonic(), self.cpu()
                left = min(LOOK, left + self.rate * (now - then) - (cpu - used))
                used, then = cpu, now
                os.kill(self.pid, signal.SIGCONT if left > 0 else signal.SIGSTOP)
            os.kill(self.pid, signal.SIGCONT)
        except (OSError, ProcessLookupError):
            pass  # the process has ended

    def release(self):
        self.released.set()
        self.join()


def slow_epochs(c):
    return [e for e in c.job("small")["epochs"] if e["cause"].startswith("slow")]


def shares(epoch):
    """node -> sequences, out of the plan's summary; a device that is left out has none."""
    return {node: int(n) for n, node in re.findall(r"(\d+) sequences in \d+: \d+ blocks on (w\d)/0", epoch["plan"])}


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["train"].update(steps=120, global_batch=16)
    job["recovery"] = {"every": 1}
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    with Cluster(claim) as c:
        c.start_workers([SPEED, SPEED])
        c.submit(write_job(claim, job, "small", text))
        c.wait_step("small", 15, 60)
        brake = Brake(c.executors("w1")[0], HELD)
        brake.start()
        slow = wait_for("an epoch because of a slow device", lambda: slow_epochs(c), 60, 0.2)[0]
        before, after = shares(c.job("small")["epochs"][0]), shares(slow)
        say("%s: %s, then %s" % (slow["cause"], before, after))
        if "w1/0 takes" not in slow["cause"] or before.get("w1", 0) < 5 or after.get("w1", 0) > 4:
            raise Failed("the shares are not what the devices give")
        speed = {n: v["devices"][0]["observed_speed"] for n, v in c.nodes().items()}
        say("observed speeds: %s" % speed)
        if speed["w0"] != 1 or not 0.02 <= speed["w1"] < 0.6:
            raise Failed("observed speeds %s" % speed)
        # fast again, and with too little to do: a change is for the next minute
        brake.release()
        c.wait_done("small", 120)
        spread = [e["ts"] for e in c.events("small") if e["type"] == "node.slow"]
        if len(spread) != 1 or len(slow_epochs(c)) != 1:
            raise Failed("planned again at %s" % spread)
        distance = loss_distance(reference, c.metrics("small"), job["train"]["steps"])
    return distance <= 1e-9, {"loss": distance, "speed": speed["w1"], "steps_lost": slow["lost_steps"]}


Claim("slow").run(body)
