#!/usr/bin/env python3
"""Runs a job on two agents while hspmdd runs on stores that are not the cluster's, or its store is
moved or deleted while it runs. Nothing is deleted and nothing stops: with the right store the job
goes on, in the epoch that runs, without a step lost."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import QUERY, World
from ports import free_port
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
    """A backup that was made while the job trained is put back while it trains on, into a folder
    made anew."""
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
    check(after["epoch"] == before["epoch"] and [children(a.pid) for a in agents] == kids,
          "the epoch runs on: %r" % after)
    check(not any(e["lost_steps"] for e in after["epochs"]), "no step is lost: %r" % after)
    check("generation 1" in w.log(), "of another generation")
    another_epoch(t, agents[1])
    check(t.status()["epoch"] > 1000000, "of that generation: %r" % t.status())
    d.kill()
    d.wait()
    d = w.daemon()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    seen = [json.loads(line)["seq"] for line in w.ctl("events", "-o", "jsonl").splitlines()]
    check(seen == sorted(set(seen)) and seen[-1] > 1 << 40, "numbers of events never come again: %r" % seen[-3:])
    check("generation 2" not in w.log(), "that is done once")
    return d


def mistaken(w, d, t):
    """A backup of before the last epoch is put back by mistake: the job is behind, and its reason
    has the command that puts the newer store back. Then the job goes on in the epoch that runs."""
    before = t.status()
    d.kill()
    d.wait()
    put_back(w, "backup.db")
    d = w.daemon()
    until("it is behind", lambda: t.status()["state"] == "behind")
    reason = t.status()["reason"]
    found = re.search(r"\(replaced last: end hspmdd, then hspmdd -c CONFIG "
                      r"--restore (with )?(\S+?)( of state_dir)?\)", reason)
    check(found, "the reason says how: %r" % reason)
    # a long path is cut down to its last name
    newer = os.path.join(w.path("state"), found.group(2))
    check(newer.startswith(w.path("state/state.db.replaced-")), "it is the one that was replaced: %r" % reason)
    d.kill()
    d.wait()
    put_back(w, newer)
    d = w.daemon()
    t.reach(before["step"] + 20)
    after = t.status()
    check(after["epoch"] == before["epoch"], "the epoch runs on: %r, was %r" % (after, before))
    return d


def another_epoch(t, agent):
    """The first executor of @agent dies, which runs the job when none has died before."""
    epoch = t.status()["epoch"]
    os.kill(children(agent.pid)[0], signal.SIGKILL)
    until("a new epoch", lambda: (lambda j: j["epoch"] > epoch and j["state"] == "running")(t.status()))


def last_week(w, d, t, agents):
    """The folder is put back as it was before the last epoch, without --restore. A store that a
    restore has replaced before is beside it, and is no newer one: the reason does not name it. The
    newer folder is, and the job goes on."""
    check([f for f in os.listdir(w.path("state"))
           if re.fullmatch(r"state\.db\.replaced-[0-9.]+", f)], "one was replaced")
    d.kill()
    d.wait()
    shutil.copytree(w.path("state"), w.path("older"))
    d = w.daemon()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    another_epoch(t, agents[0])
    before = t.status()
    d.kill()
    d.wait()
    os.rename(w.path("state"), w.path("newer"))
    os.rename(w.path("older"), w.path("state"))
    d = w.daemon()
    until("it is behind", lambda: t.status()["state"] == "behind")
    reason = t.status()["reason"]
    check("put the newer store back; " in reason and "replaced" not in reason, "nothing older is named: %r" % reason)
    d.kill()
    d.wait()
    shutil.rmtree(w.path("state"))
    os.rename(w.path("newer"), w.path("state"))
    d = w.daemon()
    t.reach(before["step"] + 20)
    check(t.status()["epoch"] == before["epoch"], "the epoch runs on: %r, was %r" % (t.status(), before))
    return d


def healthz(port):
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d/healthz" % port, timeout=LIMIT) as r:
            return r.status
    except urllib.error.HTTPError as e:
        return e.code


def gone(w, t, port, words):
    """hspmdd says that its store is not there, takes no command, and training goes on."""
    def problem():
        return ask(w.sock, "status", QUERY).get("problem", "")
    until("status says: %s" % words, lambda: words in problem())
    check("problem: %s/state.db: %s" % (w.path("state"), words) in w.ctl("status"), "in one line: %r" % w.ctl("status"))
    check(healthz(port) == 503, "/healthz is not ok")
    r = w.try_ctl("scale", "small", "--max", "3")
    check(r.returncode != 0 and words in r.stderr and len(r.stderr.splitlines()) == 1, "a command is refused: %r" % r)
    t.reach(t.status()["step"] + 10)


def moved(w, d, t):
    """The folder of a running hspmdd is moved, another store is put at its path, and it is moved
    back: hspmdd notices, and goes on by itself. Then it is deleted: hspmdd's records are saved, and
    put back."""
    d.kill()
    d.wait()
    port = free_port()
    d = w.daemon("metrics_listen: 127.0.0.1:%d\n" % port)
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    before = t.status()
    check(healthz(port) == 200, "all is well")
    os.rename(w.path("state"), w.path("away"))
    gone(w, t, port, "it was moved or unmounted: put it back")
    os.mkdir(w.path("state"))
    shutil.copy(w.path("backup.db"), w.path("state/state.db"))
    gone(w, t, port, "another file is in its place")
    os.rename(w.path("state"), w.path("other"))  # at once: files of TensorBoard come there
    os.rename(w.path("away"), w.path("state"))
    until("it goes on by itself", lambda: "problem" not in ask(w.sock, "status", QUERY))
    check(healthz(port) == 200 and t.status()["max"] == before["max"], "nothing was changed: %r" % t.status())
    w.ctl("scale", "small", "--max", "5")
    for kind in "store.stuck", "store.written":
        check(w.ctl("events").count(kind) == 1, "an event: %s" % w.ctl("events"))

    os.rename(w.path("state"), w.path("deleted"))
    shutil.rmtree(w.path("deleted"))
    gone(w, t, port, "it was deleted")
    os.mkdir(w.path("state"))
    w.ctl("backup", w.path("saved.db"))
    d.kill()
    d.wait()
    put_back(w, "saved.db")
    d = w.daemon()
    t.reach(t.status()["step"] + 20)
    after = t.status()
    check(after["epoch"] == before["epoch"] and after["max"] == 5 and not any(e["lost_steps"] for e in after["epochs"]),
          "the epoch runs on: %r, was %r" % (after, before))
    return d


def adopted_by_mistake(w, d):
    """An hspmdd with a mistyped folder adopts a job. With the right folder its nodes are foreign,
    and the first advice is to start the other one again: there the job goes on, without a step
    lost."""
    t = Training(w, "mist", steps=1000000, least=2)
    t.reach(20)
    both = {"alpha": ["mist"], "beta": ["mist"]}
    d.kill()
    d.wait()
    d = w.daemon(state="stat")
    until("both are parked", lambda: parked(w) == both)
    check("if state_dir here" in w.nodes()["alpha"]["reason"], "it is asked first: %r" % w.nodes())
    w.ctl("job", "adopt", "mist")
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    t.reach(t.status()["step"] + 20)
    d.kill()
    d.wait()
    d = w.daemon()
    until("both are parked", lambda: parked(w) == both)
    r, again = w.try_ctl("job", "adopt", "mist"), r"start hspmdd with the state_dir of (that )?cluster( \w+)? again"
    check(r.returncode == 7 and re.search("nothing to adopt; " + again, r.stderr), "adopt says so: %r" % r)
    check(re.search(": " + again + ".*; node discard deletes it", w.nodes()["alpha"]["reason"]),
          "REASON: %r" % w.nodes())
    d.kill()
    d.wait()
    w.daemon(state="stat")
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    t.reach(t.status()["step"] + 20)
    check(not any(e["lost_steps"] for e in t.status()["epochs"]), "no step is lost: %r" % t.status())
    w.ctl("cancel", "mist")
    until("no state is left", lambda: not left_over(w))


def ended_since(w, d, t):
    """The job is cancelled; then an earlier backup is put back. The job is not trained again until
    somebody says so."""
    w.ctl("cancel", "small")
    until("no state is left", lambda: not left_over(w))
    d.kill()
    d.wait()
    put_back(w, "backup.db")
    d = w.daemon()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    until("it is held", lambda: t.status()["held"] and "it may have ended since" in t.status()["reason"])
    until("an event says so", lambda: "job.held" in w.ctl("events", "small"))
    check(not left_over(w), "nothing is begun")
    check("small" in w.ctl("resume", "small"), "until somebody says so")
    until("it is held no more", lambda: not t.status()["held"])
    return d


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
    d = last_week(w, d, t, agents)
    d = moved(w, d, t)
    d = ended_since(w, d, t)
    w.ctl("cancel", "small")
    until("no state is left", lambda: not left_over(w))
    adopted_by_mistake(w, d)


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "with any store, nothing is lost"))
