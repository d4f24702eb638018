#!/usr/bin/env python3
"""Watches hspmdd: /metrics and /healthz while a job trains and one of its agents dies,
requests that are wrong, promtool's judgement of the text where it is here, and the TensorBoard
event files of the job. Names that completion offers."""
import json
import math
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request

sys.dont_write_bytecode = True  # the source tree stays as it is
import train
from join import World
from wire import LIMIT, check, until
from world import BUILD, complete, main


STEPS = train.STEPS = train.JOB["train"]["steps"] = 120  # also one slow device ends them soon


class Watched(World):
    def write(self, name, text):
        return World.write(self, name, text + ("metrics_listen: 127.0.0.1:0\n" if name == "d.yaml" else ""))

    def base(self):
        found = re.findall(r"metrics on (http://\S+)/metrics", self.log())
        return found[-1] if found else None

    def get(self, path, method="GET"):
        """(status, content type, text)"""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.base() + path, method=method), timeout=LIMIT) as r:
                return r.status, r.headers["Content-Type"], r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.headers["Content-Type"], e.read().decode()

    def metrics(self):
        status, kind, text = self.get("/metrics")
        check(status == 200 and kind == "text/plain; version=0.0.4; charset=utf-8", "answer %d %s" % (status, kind))
        check(text.endswith("\n"), "the last line ends")
        return {k: float(v) for k, v in (l.rsplit(" ", 1) for l in text.splitlines() if not l.startswith("#"))}


# ---- TensorBoard's files, read by their definition
# -------------------------------------------------

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        n, crc = struct.unpack_from("<QI", data, at)
        check(crc == masked(data[at:at + 8]), "checksum of a length in %s" % path)
        body = data[at + 12:at + 12 + n]
        check(struct.unpack_from("<I", data, at + 12 + n)[0] == masked(body), "checksum of a record in %s" % path)
        yield body
        at += 16 + n


def fields(data):
    """(number, value) of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        v = shift = 0
        while True:
            b = data[at]
            at += 1
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                return v
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            n = {1: 8, 5: 4}.get(kind) or varint()
            raw = data[at:at + n]
            at += n
            yield key >> 3, struct.unpack("<d",
                                          raw)[0] if kind == 1 else struct.unpack("<f", raw)[0] if kind == 5 else raw


def scalars(folder):
    """(step, tag) -> value of all event files."""
    found = {}
    for name in sorted(os.listdir(folder)):
        check(re.match(r"events\.out\.tfevents\.\d{10}\..+\.\d+$", name), "name %s" % name)
        for i, body in enumerate(records(os.path.join(folder, name))):
            event = dict(fields(body))
            check(event[1] > 1.6e9, "wall time")
            if i == 0:
                check(event[3] == b"brain.Event:2", "the first record tells the version")
                continue
            for number, value in fields(event[5]):
                v = dict(fields(value))
                check(number == 1 and set(v) == {1, 2}, "a value has a tag and a number")
                found[event.get(2, 0), v[1].decode()] = v[2]
    return found


# ---- the test
# --------------------------------------------------------------------------------------

def wrong_requests(w):
    check(w.get("/healthz") == (200, "text/plain; charset=utf-8", "ok\n"), "health")
    check(w.get("/")[0] == 404 and w.get("/metricsx")[0] == 404, "unknown paths")
    check(w.get("/metrics", "POST")[0] == 405 and w.get("/metrics", "DELETE")[0] == 405, "only reading")
    check(w.get("/metrics", "HEAD")[2] == "", "HEAD has no text")
    host, port = w.base()[7:].rsplit(":", 1)
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00",
                    b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET\r\n\r\n", b""):
        with socket.create_connection((host, int(port)), LIMIT) as s:
            try:
                s.sendall(garbage)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass  # the server may close while we still write
    check(w.get("/healthz")[0] == 200, "garbage harms nobody")


def promtool(w):
    if not shutil.which("promtool"):
        print("promtool is not here: the text was read by this test only")
        return
    r = subprocess.run(["promtool", "check", "metrics"], input=w.get("/metrics")[2], capture_output=True, text=True)
    check(r.returncode == 0 and not r.stderr.strip(), "promtool: %s%s" % (r.stdout, r.stderr))


def names_are_completed(w):
    """Of jobs where a command takes one, of nodes where it takes those."""
    for words, want in ((("drain", ""), ["alpha", "beta"]), (("node", "show", "b"), ["beta"]),
                        (("node", "check", "beta", "a"), ["alpha"]), (("cancel", ""), ["small"]),
                        (("ckpt", "list", "s"), ["small"]), (("status", "a"), ["alpha"]), (("wait", "x"), [])):
        got = complete(*words, address=w.sock)
        check(sorted(got) == want, "completion of %r: %r" % (words, got))


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    d = w.daemon()
    until("metrics are offered", w.base)
    check(w.metrics()['hspmd_nodes{state="live"}'] == 0, "no nodes yet")
    w.agent("alpha")
    b = w.agent("beta")
    until("both are up", lambda: w.up("alpha") and w.up("beta"))
    m = w.metrics()
    check(m['hspmd_nodes{state="live"}'] == 2 and m['hspmd_gpus{model="cpu",state="idle"}'] == 2, "two nodes %r" % m)
    check(m['hspmd_membership_changes_total{cause="join"}'] == 2
          and m['hspmd_connections{kind="agent"}'] == 2, "joined")
    check(m["process_open_fds"] > 5 and m["process_resident_memory_bytes"] > 1e6, "process %r" % m)
    wrong_requests(w)
    with open(w.path("d.yaml")) as f:
        good = f.read()
    for text, want in ((good + "lisen: x\n", 0), (good, 1)):
        World.write(w, "d.yaml", text)
        d.send_signal(signal.SIGHUP)
        until("a reload that is %d" % want, lambda: w.metrics()["hspmd_config_last_reload_successful"] == want)

    job = train.Training(w, "small")
    labels = 'job="small",job_id="%d"' % job.id
    job.on("beta/0")
    job.reach(40)
    m = w.metrics()
    check(m['hspmd_job_step{%s}' % labels] >= 40 and m['hspmd_jobs{state="running"}'] == 1, "it trains %r" % m)
    check(0 < m['hspmd_job_loss{%s}' % labels] < 7, "loss %r" % m)
    check(m['hspmd_job_tokens_total{%s}' % labels] >= 40 * 16 * 32, "tokens %r" % m)
    check(m['hspmd_job_step_seconds_count{%s}' % labels] >= 35, "steps are measured")
    check(m['hspmd_plan_solve_seconds_count'] >= 1, "planning is measured")
    check(m['hspmd_job_time_seconds_total{%s,class="productive"}' % labels] > 0, "time is accounted for")
    names_are_completed(w)
    b.kill()
    until("it goes on without beta", lambda: job.status()["devices"] == ["alpha/0"])
    after = job.status()["step"]
    job.reach(min(after + 5, STEPS - 5))
    m = w.metrics()
    check(m['hspmd_switch_seconds_count{phase="total"}'] >= 2, "start and recovery are measured")
    check(m['hspmd_plan_epoch{%s}' % labels] >= 2 and m['hspmd_node_suspect_total{node="beta"}'] >= 1, "%r" % m)
    promtool(w)
    job.end()
    until("a job that is over has no lines", lambda: 'job="small"' not in w.get("/metrics")[2])

    want = {s["step"]: s for s in metric_lines(w)}
    folder = w.path("state/jobs/small-%d/tb" % job.id)
    until("all steps are in the event files", lambda: (STEPS - 1, "train/loss") in scalars(folder))
    got = scalars(folder)
    for step in range(STEPS):
        check(math.isclose(got[step, "train/loss"], want[step]["loss"], rel_tol=1e-6), "loss of step %d" % step)
        check(math.isclose(got[step, "train/lr"], want[step]["lr"], rel_tol=1e-6), "lr of step %d" % step)
        check((step, "plan/epoch") in got, "epoch of step %d" % step)
    check(sum((step, "train/tokens_per_second") in got for step in range(STEPS)) >= STEPS - 10, "speeds")


def metric_lines(w):
    r = subprocess.run([os.path.join(BUILD, "hspmdctl"), "-a", w.sock, "metrics", "-o", "jsonl",
                        "small"], capture_output=True,
                       text=True, timeout=LIMIT)
    check(r.returncode == 0, "hspmdctl metrics: %s" % r.stderr)
    return [json.loads(l) for l in r.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main(Watched, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "what others watch is what happens"))
