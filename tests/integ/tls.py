#!/usr/bin/env python3
"""Trains over TLS, which devices of different hosts use: here forced between agents of one host.
The end is that of the clear run, every mesh is encrypted, and an administrator's other choice is
shown."""
import json
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import World
from train import Training
from wire import check, until
from world import main

LINE = re.compile(r"epoch (\d+) of job (\d+), (\w+): (\d+) peers by shared memory, (\d+) by Unix sockets, "
                  r"(\d+) by TLS, (\d+) in clear")
TCP = "transport: tcp\n"


def links(w, job):
    """{(mesh, kind of link)} of all peers of a job's epochs."""
    seen = set()
    for m in LINE.finditer(w.log()):
        if int(m[2]) == job:
            seen |= {(m[3], kind) for kind, n in zip(("shm", "unix", "tls", "clear"), m.groups()[3:]) if int(n) > 0}
    return seen


def shown(w, text, field):
    check(text in w.ctl("status"), "status shows %r: %s" % (text, w.ctl("status")))
    check(json.loads(w.ctl("status", "-o", "json"))["data_plane"] == field, "so does -o json")


def leave(*agents):
    for a in agents:
        a.terminate()
    for a in agents:
        check(a.wait(20) == 0, "planned leave")


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    d = w.daemon()
    agents = [w.agent("alpha"), w.agent("beta")]
    until("both are up", lambda: w.up("alpha") and w.up("beta"))
    t = Training(w, "one-host", 400)
    one_host, job = t.end()["loss"], t.status()["id"]
    check(links(w, job) == {("data", "shm"), ("state", "shm")}, "one host: %r" % links(w, job))
    leave(*agents)

    agents = [w.agent("alpha", more=TCP), w.agent("beta", more=TCP)]
    until("both are up again", lambda: w.up("alpha") and w.up("beta"))
    shown(w, "data plane: tls between hosts, NCCL within hosts only\n", "tls")
    t = Training(w, "encrypted", 400)  # gamma measures its device meanwhile
    t.reach(20)
    check(t.status()["data_plane"] == "tls", "of the job, too")
    agents.append(w.agent("gamma", more=TCP))  # state moves there
    t.on("gamma/0")
    agents[0].kill()  # and copies are fetched
    agents.pop(0).wait()
    loss = t.end()["loss"]
    check(abs(loss / one_host - 1) < 1e-6, "loss %.15g, on one host %.15g" % (loss, one_host))
    job = t.status()["id"]
    check(links(w, job) == {("data", "tls"), ("state", "tls"), ("move", "tls")}, "encrypted: %r" % links(w, job))

    t = Training(w, "chosen", 400, least=2)
    t.reach(5)
    d.kill()
    d.wait()
    w.daemon("data_plane: clear\n")
    shown(w, "data plane: clear (chosen in hspmdd.yaml)\n", "clear")
    check("chosen: tls, NCCL within hosts only until its next epoch" in w.ctl("status"),
          "the epoch that runs is shown: " + w.ctl("status"))
    job = t.status()["id"]
    check({kind for _, kind in links(w, job)} == {"tls"}, "before: %r" % links(w, job))
    agents.append(w.agent("delta", more=TCP))
    until("delta is up", lambda: w.up("delta"))
    leave(agents.pop(0))  # the job must go on where delta is: it asks for two devices
    t.on("delta/0")
    check(t.status()["data_plane"] == "clear", "the next epoch is as chosen")
    check({("data", "clear"), ("state", "clear"), ("move", "clear")} <= links(w, job), "clear: %r" % links(w, job))
    t.end()
    leave(*agents)


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "encrypted, or shown not to be"))
