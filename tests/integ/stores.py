#!/usr/bin/env python3
"""A job on two agents while hspmdd runs on stores that are not the cluster's. Nothing is deleted and nothing stops:
with the right store the job goes on, in the epoch that runs, without a step lost."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import QUERY, World
from train import Training, left_over
from wire import LIMIT, ask, check, children, until
from world import BUILD, main


def refused(w, state):
    """hspmdd does not begin on a folder that is no store, and makes none."""
    with open(w.path("d.yaml")) as f:
        text = f.read().replace("state_dir: " + w.path("state"), "state_dir: " + w.path(state))
    r = subprocess.run([os.path.join(BUILD, "hspmdd"), "--config", w.write("typo.yaml", text)], capture_output=True,
                       text=True, timeout=LIMIT)
    check(r.returncode == 1 and "--init" in r.stderr and len(r.stderr.splitlines()) == 1, "it says what to do: %r" % r)
    check(not os.path.exists(w.path(state)), "no folder is made")


def put_back(w, name):
    """hspmdd puts a store back and ends; it serves when it is started again."""
    r = subprocess.run([os.path.join(BUILD, "hspmdd"), "--config", w.path("d.yaml"), "--restore", w.path(name)],
                       capture_output=True, text=True, timeout=LIMIT)
    check(r.returncode == 0 and "start hspmdd" in r.stdout, "it is put back: %r" % r)


def segments(w):
    return sorted(f for f in left_over(w) if f.endswith(".seg"))


def parked(w):
    """{node: jobs that it keeps} of the agents that are no members."""
    return {n["name"]: [k["job"] or k["id"] for k in n["keeps"]] for n in ask(w.sock, "status", QUERY)["nodes"]
            if n["state"] == "foreign"}


def restored(w, d, t, agents, kids):
    """A backup that was made while the job trained is put back while it trains on, into a folder made anew."""
    before = t.status()
    check("--restore" in w.ctl("backup", w.path("backup.db")), "it says what for")
    for name in "/dev/null", w.path("state/state.db"):
        r = subprocess.run([os.path.join(BUILD, "hspmdctl"), "--address", w.sock, "backup", name], capture_output=True,
                           text=True, timeout=LIMIT)
        check(r.returncode != 0 and "name another" in r.stderr, "what is there stays: %r" % r)
    check(os.stat(w.path("backup.db")).st_mode & 0o777 == 0o600, "for its owner only")
    t.reach(before["step"] + 10)
    d.kill()
    d.wait()
    shutil.rmtree(w.path("state"))
    os.mkdir(w.path("state"))
    put_back(w, "backup.db")
    d = w.daemon()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    t.reach(before["step"] + 40)
    after = t.status()
    check(after["epoch"] == before["epoch"] and [children(a.pid) for a in agents] == kids, "the epoch runs on: %r" % after)
    check(not any(e["lost_steps"] for e in after["epochs"]), "no step is lost: %r" % after)
    check("generation 1" in w.log(), "of another generation")
    os.kill(children(agents[1].pid)[0], signal.SIGKILL)
    until("a new epoch", lambda: t.status()["epoch"] > 1000000 and t.status()["state"] == "running")
    d.kill()
    d.wait()
    d = w.daemon()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    seen = [json.loads(line)["seq"] for line in w.ctl("events", "-o", "jsonl").splitlines()]
    check(seen == sorted(set(seen)) and seen[-1] > 1 << 40, "numbers of events never come again: %r" % seen[-3:])
    check("generation 2" not in w.log(), "that is done once")
    return d


def mistaken(w, d, t):
    """A backup of before the last epoch is put back by mistake: the job is behind, and its reason has the command that
    puts the newer store back. Then the job goes on in the epoch that runs."""
    before = t.status()
    d.kill()
    d.wait()
    put_back(w, "backup.db")
    d = w.daemon()
    until("it is behind", lambda: t.status()["state"] == "behind")
    reason = t.status()["reason"]
    found = re.search(r"\(replaced last: end hspmdd, then hspmdd -c CONFIG --restore (with )?(\S+?)( of state_dir)?\)", reason)
    check(found, "the reason says how: %r" % reason)
    newer = os.path.join(w.path("state"), found.group(2))  # a long path is cut down to its last name
    check(newer.startswith(w.path("state/state.db.replaced-")), "it is the one that was replaced: %r" % reason)
    d.kill()
    d.wait()
    put_back(w, newer)
    d = w.daemon()
    t.reach(before["step"] + 20)
    after = t.status()
    check(after["epoch"] == before["epoch"], "the epoch runs on: %r, was %r" % (after, before))
    return d


def ended_since(w, d, t):
    """The job is cancelled; then a backup of before is put back. It is not trained again until somebody says so."""
    w.ctl("cancel", "small")
    until("no state is left", lambda: not left_over(w))
    d.kill()
    d.wait()
    put_back(w, "backup.db")
    w.daemon()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    until("it is held", lambda: t.status()["held"] and "it may have ended since" in t.status()["reason"])
    until("an event says so", lambda: "job.held" in w.ctl("events", "small"))
    check(not left_over(w), "nothing is begun")
    check("small" in w.ctl("resume", "small"), "until somebody says so")
    until("it is held no more", lambda: not t.status()["held"])


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    d = w.daemon()
    agents = [w.agent("alpha"), w.agent("beta")]
    until("both are up", lambda: w.up("alpha") and w.up("beta"))
    t = Training(w, "small", steps=1000000, least=2)
    t.reach(20)
    kids, before = [children(a.pid) for a in agents], t.status()
    d.kill()
    d.wait()

    # a typo; then an hspmdd that begins anew with it: before, this deleted all state within seconds
    refused(w, "sate")
    d = w.daemon(state="sate")
    until("both are parked", lambda: parked(w) == {"alpha": ["small"], "beta": ["small"]})
    check(len(segments(w)) >= 2 and [children(a.pid) for a in agents] == kids, "nothing is deleted or ended")
    check("foreign" in w.ctl("status") and "small" in w.ctl("status"), "status says so: %s" % w.ctl("status"))
    d.kill()
    d.wait()

    d = w.daemon()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    t.reach(before["step"] + 20)
    after = t.status()
    check(after["epoch"] == before["epoch"] and not any(e["lost_steps"] for e in after["epochs"]),
          "the epoch runs on: %r, was %r" % (after, before))
    d = restored(w, d, t, agents, kids)
    d = mistaken(w, d, t)
    ended_since(w, d, t)
    w.ctl("cancel", "small")
    until("no state is left", lambda: not left_over(w))


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "with any store, nothing is lost"))
