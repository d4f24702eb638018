#!/usr/bin/env python3
"""Programs of this version beside programs of the next one (built with another range of versions):
they work together in the version that both speak, through an upgrade of hspmdd below its agents;
fields that are not known yet are passed over; versions before the first of the promise are refused
with one line."""
import json
import os
import socket
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from wire import LIMIT, OLDEST, PROTOCOL, Conn, check, until
from world import BUILD, Folder, main

NEXT = "tests/integ/next/"  # programs that speak OLDEST to PROTOCOL + 1
QUERY = {"name": "", "what": "", "since": "0", "timeout_ms": 0, "follow": False}


class World(Folder):
    def __init__(self):
        super().__init__()
        self.sock = self.path("d.sock")
        self.write("d.yaml", json.dumps({"listen": "", "socket": self.sock, "metrics_listen": "",
                                         "state_dir": self.path("state"), "heartbeat": "200ms"}))

    def daemon(self, of):
        p = self.spawn(of + "hspmdd", "d.yaml")
        until("hspmdd answers", lambda: p.poll() is not None or self.ctl("").returncode == 0)
        check(p.poll() is None, "hspmdd runs")
        return p

    def agent(self, of, node):
        self.write(node + ".yaml", json.dumps({"coordinator": self.sock, "node": node, "state_dir": self.path("shm"),
                                               "devices": [{"speed": 0.5, "memory": "64MiB"}]}))
        return self.spawn(of + "hspmd-worker", node + ".yaml", node + ".log")

    def ctl(self, of):
        return subprocess.run([os.path.join(BUILD, of + "hspmdctl"), "--address", self.sock, "-o", "json", "status"],
                              capture_output=True, text=True, timeout=LIMIT)

    def live(self, of):
        """{node: incarnation} of those that are up, as a hspmdctl says."""
        r = self.ctl(of)
        check(r.returncode == 0, "status: %r" % r)
        return {n["name"]: n["incarnation"] for n in json.loads(r.stdout)["nodes"]
                if n["state"] == "live" and all(d["up"] for d in n["devices"])}

    def call(self, newest, oldest):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(LIMIT)
        s.connect(self.sock)
        c = Conn(s)
        c.version, c.oldest = newest, oldest
        return c


def says(c, message):
    """The answer to a request, which has a field more than we know."""
    c.send(message, dict(QUERY, colour="green"), request=1)
    r = c.expect("reply")[2]
    return r["status"], r["message"]


def strangers(w):
    """A hspmdctl of the next version says more, and asks more; one of the version before the
    promise."""
    check(says(w.call(PROTOCOL + 1, PROTOCOL), "status") == (0, ""), "a field that is not known yet")
    status, why = says(w.call(PROTOCOL, PROTOCOL), "status")
    check(status != 0 and why == "status.colour: unknown field", "in our version there is none: %s" % why)
    status, why = says(w.call(PROTOCOL + 1, PROTOCOL), 199)
    check(status != 0
          and why == "hspmdd speaks protocol %d and does not have message 199 of protocol %d: upgrade hspmdd"
          % (PROTOCOL, PROTOCOL + 1), "a request that is not known yet: %s" % why)
    old = w.call(OLDEST - 1, 0)
    old.send("status", QUERY, request=1)
    got = old.s.recv(64)
    check(len(got) == 32 and (got[4], got[5]) == (PROTOCOL, OLDEST), "the range of hspmdd: %r" % got)
    old.s.close()
    until("one line", lambda: "the program there speaks protocol %d, the program here protocol %d to %d: upgrade the "
          "program there" % (OLDEST - 1, OLDEST, PROTOCOL) in w.log())


def hello(c, node, newest, oldest, **more):
    c.send("hello", dict(dict(protocol=newest, protocol_oldest=oldest, node=node, address="", incarnation="0" * 32,
                              was="0" * 32, cluster="0" * 32, generation="0", term="0", same_latency_us=0,
                              same_us_per_byte=0, cross_latency_us=0, cross_us_per_byte=0, cards=[], devices=[],
                              paths=[], kept=[], holdings=[], runs=[]), **more))


def older(w):
    """An agent of the oldest version is a member; its kept jobs have no papers_damaged."""
    c = w.call(OLDEST, OLDEST)
    hello(c, "delta", OLDEST, OLDEST)
    check(c.expect("welcome")[2]["protocol"] == OLDEST, "the version of the agent")
    c.s.close()
    c = w.call(OLDEST, OLDEST)
    hello(c, "epsilon", OLDEST, OLDEST,
          kept=[dict(job=7, name="dusk", cluster="1" * 32, generation="0", epoch="3", plan="1")])
    check("job dusk of cluster 11111111" in c.expect("parked")[2]["reason"], "what it keeps is understood")
    c.s.close()


def run(w):
    d = w.daemon("")
    agents = [w.agent("", "alpha"), w.agent(NEXT, "beta")]
    until("both agents are up", lambda: len(w.live("")) == 2)
    first = w.live(NEXT)
    strangers(w)
    older(w)
    c = w.call(PROTOCOL + 1, PROTOCOL)  # an agent of the next version, with unknown fields
    hello(c, "gamma", PROTOCOL + 1, PROTOCOL, folder_free="0", colour="green")
    check(c.expect("welcome")[2]["protocol"] == PROTOCOL, "the newest version that both speak")
    c.send(99, {"colour": "green"})
    c.send("heartbeat", {"seq": "1", "clock_us": "1", "folder_free": "0"})
    while c.frame(LIMIT)[0] != "heartbeat":
        pass  # hspmdd asks gamma to measure, and answers after a message that it does not have
    c.s.close()
    d.terminate()
    check(d.wait(LIMIT) == 0, "hspmdd ends in order")
    d = w.daemon(NEXT)
    until("both agents are back", lambda: len(w.live(NEXT)) == 2)
    check(w.live("") == first, "and have lost nothing: %s, then %s" % (first, w.live("")))
    for p in agents + [d]:
        p.terminate()
        check(p.wait(LIMIT) == 0, "all end in order")


if __name__ == "__main__":
    sys.exit(main(World, run, [of + p for of in ("", NEXT) for p in ("hspmdd", "hspmdctl", "hspmd-worker")],
                  "versions work together"))
