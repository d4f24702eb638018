#!/usr/bin/env python3
"""Loses a store for good: jobs are adopted from their agents, twice, and end as the undisturbed
one, also beside another job of the name; of two jobs that the nodes keep one alone; one whose state
is lost behind its adoption goes on from its checkpoints on disk; or the state of a node is given
up, but no state on record without --force."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import QUERY, World
from stores import put_back
from train import Training, left_over
from wire import LIMIT, PROTOCOL, Conn, ask, check, children, until
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


def hello(w, node, kept):
    """An agent of whom nothing more comes than its hello."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(LIMIT)
    s.connect(w.sock)
    c = Conn(s)
    c.send("hello", dict(protocol=PROTOCOL, protocol_oldest=PROTOCOL, node=node, address="", incarnation="0" * 32,
                         was="0" * 32, cluster="0" * 32, generation="0", term="0",
                         same_latency_us=0, same_us_per_byte=0,
                         cross_latency_us=0, cross_us_per_byte=0, folder_free="0", cards=[], devices=[], paths=[],
                         kept=kept, holdings=[],
                         runs=[]))
    return c


def names(w):
    """Of members and of agents that are none."""
    return [n["name"] for n in ask(w.sock, "status", QUERY)["nodes"]]


def ambiguous(w, t):
    """Somebody keeps a job of the same name and number, of a cluster of his own. Returns his
    connection."""
    mine = w.nodes()["alpha"]["keeps"][0]
    t.status_id, t.cluster = mine["id"], mine["cluster"]
    c = hello(w, "gamma", [dict(job=number, name=name, cluster="f" * 32, generation="0", epoch="1", plan="1",
                                papers_damaged=False)
                           for number, name in ((mine["id"], "lost"), (7777, "%d" % mine["id"]))])
    until("gamma is parked", lambda: "gamma" in parked(w))
    for name in ("lost", "%d" % mine["id"], "%d@" % mine["id"]):
        r = w.try_ctl("job", "adopt", name)
        several = "several jobs are %s; give NUMBER@CLUSTER: " % name in r.stderr
        check(r.returncode == (3 if name[-1] == "@" else 7) and several == (name[-1] != "@"), repr(r))
        check("7777@" not in r.stderr, "a number is no name: %r" % r)
    r = w.try_ctl("job", "adopt", "lost")
    check("%d@%s" % (mine["id"], mine["cluster"][:8]) in r.stderr and "%d@ffffffff" % mine["id"] in r.stderr, repr(r))
    return c


def adopted(w, d, agents):
    """A job goes on from its agents' records, twice: with its executors at work, and with an agent
    that was killed."""
    calm = Training(w, "calm", steps=600, least=2)
    calm.end()
    t = Training(w, "lost", steps=600, least=2)
    t.reach(30)
    d = lose(w, d)
    until("both are parked", lambda: parked(w) == {"alpha": ["lost"], "beta": ["lost"]})
    r = w.try_ctl("job", "adopt", "los")
    check(r.returncode == 3 and "no connected agent stores a job los" in r.stderr
          and len(r.stderr.splitlines()) == 1, repr(r))
    # until: an agent may be between two calls
    for verb in ("status", "cancel", "events", "metrics", "wait"):
        until("%s says who keeps it" % verb, lambda: re.fullmatch(
            r"hspmdctl: job lost is not known here: .*: if state_dir is right, "
            r"hspmdctl job adopt lost takes it over, .*\n",
            w.try_ctl(verb, "lost").stderr))
    stranger = ambiguous(w, t)
    said = w.ctl("job", "adopt", "%d@%s" % (t.status_id, t.cluster[:12]))
    check("resumes from" in said
          and re.search(r"; job record of (alpha|beta) \(.*\), (alpha|beta) \(.*\): generation 0, epoch [0-9]+$",
                                          said), "it says so, and whose papers: %r" % said)
    stranger.s.close()
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    t.reach(150)
    first = t.status()
    check(first["epoch"] > 1000000 and not any(e["lost_steps"] for e in first["epochs"]), "no step is lost: %r" % first)

    agents[1].kill()
    agents[1].wait()
    d = lose(w, d)
    until("alpha is parked", lambda: "alpha" in parked(w))
    r = w.try_ctl("job", "adopt", "lost")
    check(r.returncode == 7 and "not connected" in r.stderr and "beta" in r.stderr and "--force" in r.stderr, repr(r))
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


def on_disk(w, name):
    """Steps of complete checkpoints, ascending; no step of another owner is among them. One that is
    being deleted has no manifest any more."""
    folder = os.path.join(w.path("out"), name)
    names = [f for f in os.listdir(folder) if f.startswith("step-") and not f.endswith(".tmp")]
    check(all(re.fullmatch(r"step-\d{10}", f) for f in names), "steps of one job: %r" % names)
    return sorted(int(f[5:]) for f in names if os.path.exists(os.path.join(folder, f, "manifest.json")))


def told(w, name, kind):
    events = [json.loads(line) for line in w.ctl("events", name, "-o", "jsonl").splitlines()]
    return [e for e in events if e["type"] == kind]


def lose_state(w, agents):
    """Both agents die, their executors too, and all that they keep in memory is gone; they come
    back."""
    for a in agents:
        below = children(a.pid)
        a.kill()
        a.wait()
        for pid in below:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
    for f in left_over(w):
        os.remove(f)
    agents[:] = [w.agent("alpha"), w.agent("beta")]


def from_disk(w, d, agents):
    """The papers were made before the first checkpoint, and the state is lost behind the adoption:
    the checkpoints on disk are the job's own. The job goes on from the newest, tells the cost,
    replaces and prunes them; any can be asked for."""
    t = Training(w, "disk", steps=1000000, least=2, checkpoint={"every_steps": 20, "keep": 3})
    t.reach(70)
    until("step 60 is on disk", lambda: on_disk(w, "disk")[-1:] >= [60])
    d = lose(w, d)
    until("both are parked", lambda: parked(w) == {"alpha": ["disk"], "beta": ["disk"]})
    w.ctl("job", "adopt", "disk")
    lose_state(w, agents)
    newest = on_disk(w, "disk")[-1]
    until("it goes on", lambda: t.status()["state"] == "running" and t.status()["step"] > newest, 120)
    lost = told(w, "disk", "state.lost")
    want = (r"(?:version (\d+) is lost, going back to version %d: (\d+) steps? (?:is|are) made again|"
            r".* its newest step is not known here: it resumes from version %d)$" % (newest, newest))
    m = re.match(want, lost[-1]["reason"]) if len(lost) == 1 else None
    check(m and (not m[1] or int(m[1]) - int(m[2]) == newest), "what is lost: %r" % lost)
    t.reach(newest + 50)
    check(not told(w, "disk", "ckpt.failed"), "its checkpoints are its own: %r" % told(w, "disk", "ckpt.failed"))
    have = until("old ones are pruned",
                 lambda: (lambda s: s if len(s) == 3 and s[0] >= newest else None)(on_disk(w, "disk")))
    w.ctl("cancel", "disk")
    until("its devices are free", lambda: not left_over(w))
    have = on_disk(w, "disk")
    listed = [json.loads(line) for line in w.ctl("ckpt", "list", "disk", "-o", "jsonl").splitlines()]
    line = re.compile(r"version (\d+) of epoch \d+, complete, seen by (?:alpha, beta|beta, alpha)$")
    seen = sorted(int(line.match(e["reason"])[1]) for e in listed if e["type"] == "ckpt.on_disk")
    check(seen == have, "ckpt list shows %r, on disk are %r" % (seen, have))
    r = w.try_ctl("resume", "disk", "--from", "7")
    check(r.returncode != 0 and "no complete checkpoint of step 7 on disk; there are %s" %
          ", ".join(map(str, have)) in r.stderr,
          repr(r))
    shutil.copytree(os.path.join(w.path("out"), "disk", "step-%010d" % have[-1]), w.path("kept"))
    shutil.rmtree(os.path.join(w.path("out"), "disk", "step-%010d" % have[-1]))
    r = w.try_ctl("resume", "disk", "--from", str(have[-1]))
    check(r.returncode != 0 and "there are %s" % ", ".join(map(str, have[:-1])) in r.stderr, repr(r))
    shutil.move(w.path("kept"), os.path.join(w.path("out"), "disk", "step-%010d" % have[-1]))
    w.ctl("resume", "disk", "--from", str(have[0]))
    until("it goes on", lambda: t.status()["state"] == "running" and t.status()["step"] > have[0], 60)
    looks_when_all_have_stopped(w, agents)
    until("its devices are free", lambda: not left_over(w))
    return d


def looks_when_all_have_stopped(w, agents):
    """An executor that is still stopping may delete old checkpoints: resume --from looks for them
    behind that."""
    executors = [pid for a in agents for pid in children(a.pid)]
    for pid in executors:
        os.kill(pid, signal.SIGSTOP)
    w.ctl("cancel", "disk")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(w.sock)
        c = Conn(s)
        have = on_disk(w, "disk")
        c.send("resume", dict(QUERY, name="disk", what=str(have[-1])), request=1)
        w.ctl("ckpt", "list", "disk")  # all nodes have answered meanwhile
        shutil.rmtree(os.path.join(w.path("out"), "disk", "step-%010d" % have[-1]))
        for pid in executors:
            os.kill(pid, signal.SIGCONT)
        said = c.expect("reply")[2]
    check(said["status"] != 0 and "no complete checkpoint of step %d on disk" % have[-1] in said["message"], said)


def final_of_another(w):
    """A later job of a name leaves the final model of the earlier one where it can be found."""
    final = os.path.join(w.path("out"), "twice", "final", "model.safetensors")
    number = Training(w, "twice", steps=15, least=2).end()["id"]
    with open(final, "rb") as f:
        before = f.read()
    Training(w, "twice", steps=16, least=2)
    until("it ends",
          lambda: [j for j in ask(w.sock, "status", QUERY)["jobs"] if j["name"] == "twice"][-1]["state"] == "done", 60)
    with open(final, "rb") as f, open(final.replace("final", "final.job-%d" % number), "rb") as g:
        check(g.read() == before and f.read() != before, "both models are there")


def discarded(w, d):
    """Unwanted state goes by an administrator's word, and the nodes join."""
    t = Training(w, "idle", steps=1000000, least=2)
    t.reach(10)
    d = lose(w, d)
    until("both are parked", lambda: parked(w) == {"alpha": ["idle"], "beta": ["idle"]})
    r = w.try_ctl("node", "discard", "nosuch")
    check(r.returncode == 3 and "no node nosuch; hspmdctl node list shows all" in r.stderr, repr(r))
    w.ctl("node", "discard", "alpha")
    until("alpha joins", lambda: w.up("alpha"))
    left = left_over(w)
    check(not [f for f in left if "/alpha/" in f] and [f for f in left if "/beta/" in f], "one of two: %r" % left)
    other = hello(w, "beta", [dict(job=7, name="other", cluster="f" * 32, generation="0", epoch="1", plan="1",
                                   papers_damaged=False)])
    until("both betas are parked", lambda: names(w).count("beta") == 2)
    r = w.try_ctl("node", "discard", "beta")
    check(r.returncode == 7 and "2 agents store state under this name" in r.stderr and left_over(w) == left, repr(r))
    other.s.close()
    until("the other beta is gone", lambda: names(w).count("beta") == 1)
    w.ctl("node", "discard", "beta")
    until("beta joins", lambda: w.up("beta"))
    check(not left_over(w), "nothing is left: %r" % left_over(w))


WILD = {"dtype": "fp32", "schedule": {"name": "constant"},  # grows a millionfold a step
        "optimizer": {"name": "adamw", "lr": 1e6, "weight_decay": 1.0}}


def kept(w, node, t):
    """Segments of a job on a node."""
    return sorted(f for f in left_over(w) if "/%s/job-%d+" % (node, t.id) in f)


def flip(path):
    with open(path, "r+b") as f:
        f.seek(200)
        byte = f.read(1)[0]
        f.seek(200)
        f.write(bytes([byte ^ 1]))


def only_one(w, d, agents):
    """Both nodes keep a job that has failed and one that trains; the second alone is adopted. The
    first stays as it is."""
    wild = Training(w, "wild", steps=500, least=2, train=WILD)
    until("it fails", lambda: wild.status()["state"] == "failed" and wild.status()["keeps_state"], 60)
    t = Training(w, "long", steps=1000000, least=2)
    t.reach(20)
    t.id, wild.id = t.status()["id"], wild.status()["id"]
    before = [kept(w, n, wild) for n in ("alpha", "beta")]
    check(all(before), "both keep it: %r" % left_over(w))
    d.kill()
    d.wait()
    flip(w.path("segments/alpha/job-%d.papers" % t.id))
    shutil.rmtree(w.path("state"))
    d = w.daemon()
    until("both are parked", lambda: {n: sorted(j) for n, j in parked(w).items()} ==
          {"alpha": ["long", "wild"], "beta": ["long", "wild"]})
    damaged = [(n, k["job"]) for n in ("alpha", "beta") for k in w.nodes()[n]["keeps"] if k["papers_damaged"]]
    check(damaged == [("alpha", "long")] and "long (job record damaged)" in w.ctl("node", "list"),
          "status says so: %r" % damaged)
    until("its papers are told",
          lambda: re.search("job-%d.papers in the state folder of an agent at .* that calls itself alpha "
                                                   "is damaged" % t.id, w.ctl("events")))
    r = w.try_ctl("job", "adopt", "long")
    check(r.returncode == 7 and len(r.stderr.splitlines()) == 1 and
          re.search(r"job %d: only one agent has the newest job record; choose one with --from NODE; beta \(.*\): "
                    r"generation [0-9]+, epoch [0-9]+; alpha \(.*\): no job record$" % t.id, r.stderr), repr(r))
    until("the feed has it", lambda: "adopt.refused" in w.ctl("events"))
    r = w.try_ctl("job", "adopt", "long", "--from", "gamma")
    check(r.returncode == 7 and "no agent of this node or address stores the job" in r.stderr, repr(r))
    check(re.search(r"job record of beta \([^,]*\): generation [0-9]+",
                    w.ctl("job", "adopt", "long", "--from", "beta")), "only those")
    until("both are members", lambda: w.up("alpha") and w.up("beta"))
    t.reach(60)
    check(not any(e["lost_steps"] for e in t.status()["epochs"]), "no step is lost: %r" % t.status())
    check("state.lost" not in w.ctl("events"), "nor state")
    check(wild.status()["state"] == "foreign"
          and re.search("stored by (alpha, beta|beta, alpha): hspmdctl job adopt wild", wild.status()["reason"]),
          "it is shown: %r" % wild.status())
    check([k["job"] for k in w.nodes()["beta"]["keeps"]] == ["wild"], "and where: %r" % w.nodes()["beta"])
    for restart in range(2):  # of hspmdd, of an agent
        if restart == 0:
            d.kill()
            d.wait()
            d = w.daemon()
        else:
            agents[1].kill()
            agents[1].wait()
            os.mkdir(w.path("segments/beta/job-1+9+9+e9+s0.seg"))  # keeps no agent from starting
            agents[1] = w.agent("beta")
        until("both are members", lambda: w.up("alpha") and w.up("beta"))
        until("it goes on", lambda: t.status()["state"] == "running")
        t.reach(t.status()["step"] + 20)
        until("it is shown", lambda: wild.status()["state"] == "foreign")
        check([kept(w, n, wild) for n in ("alpha", "beta")] == before, "it stays as it is: %r" % left_over(w))
    check("job-1+9+9+e9+s0.seg is a folder" in w.log(), "the folder is told")
    os.rmdir(w.path("segments/beta/job-1+9+9+e9+s0.seg"))
    other = hello(w, "alpha", [dict(job=7, name="other", cluster="f" * 32, generation="0", epoch="1", plan="1",
                                    papers_damaged=False)])
    until("another alpha is parked", lambda: names(w).count("alpha") == 2)
    r = w.try_ctl("node", "discard", "alpha")
    both = shlex.split(r.stderr.split("stop the others: ")[-1].replace(",", " "))
    ours = "uid %d pid %d" % (os.getuid(), os.getpid())
    check(r.returncode == 7 and len(both) == 2 and ours in both, repr(r))
    w.ctl("node", "discard", [address for address in both if address != ours][0])
    other.s.close()
    until("the other alpha is gone", lambda: names(w).count("alpha") == 1)
    until("alpha keeps it no more", lambda: not kept(w, "alpha", wild) and "stored by beta:" in wild.status()["reason"])
    check(kept(w, "beta", wild) == before[1] and kept(w, "alpha", t), "nothing else goes")
    w.ctl("node", "adopt", "beta")
    until("it waits for devices", lambda: wild.status()["state"] not in ("foreign", "failed"))
    w.ctl("cancel", "wild")
    until("beta keeps it no more", lambda: not kept(w, "beta", wild))
    until("it goes on", lambda: t.status()["state"] == "running")
    t.reach(t.status()["step"] + 20)
    w.ctl("cancel", "long")
    until("no state is left", lambda: not left_over(w))
    return d


def forgotten(w, d, agents):
    """A job that was adopted is cancelled and forgotten while a node is away: the state that comes
    back with the node goes."""
    t = Training(w, "gone", steps=1000000, least=2)
    t.reach(10)
    agents[1].kill()
    agents[1].wait()
    d = lose(w, d)
    until("alpha is parked", lambda: "alpha" in parked(w))
    w.ctl("job", "adopt", "gone", "--force")
    w.ctl("cancel", "gone")
    w.ctl("forget", "gone")
    until("alpha joins and keeps nothing", lambda: w.up("alpha") and not [f for f in left_over(w) if "/alpha/" in f])
    check([f for f in left_over(w) if "/beta/" in f], "beta does")
    agents[1] = w.agent("beta")
    until("beta joins and keeps nothing", lambda: w.up("beta") and not left_over(w))
    return d


def on_record(w, d, agents):
    """A job that is behind is on record: its state goes by cancel, or by --force."""
    t = Training(w, "known", steps=1000000, least=2)
    t.reach(10)
    w.ctl("backup", w.path("known.db"))
    epoch = t.status()["epoch"]
    os.kill(children(agents[1].pid)[0], signal.SIGKILL)
    until("another epoch", lambda: t.status()["epoch"] > epoch and t.status()["state"] == "running")
    t.id = t.status()["id"]
    d.kill()
    d.wait()
    put_back(w, "known.db")
    d = w.daemon()
    until("it is behind", lambda: w.up("alpha") and w.up("beta") and t.status()["state"] == "behind")
    r = w.try_ctl("node", "discard", "beta")
    check(r.returncode == 7 and "known here, which would be lost: known;" in r.stderr and "--force" in r.stderr and
          len(r.stderr.splitlines()) == 1, repr(r))
    check(kept(w, "beta", t), "nothing is deleted")
    w.ctl("node", "discard", "beta", "--force")
    until("beta keeps nothing", lambda: w.up("beta") and not kept(w, "beta", t))
    check(kept(w, "alpha", t), "alpha does")
    w.ctl("cancel", "known")
    until("no state is left", lambda: not left_over(w))
    w.ctl("forget", "known")
    return d


def steps(w, job):
    """Of the lines of metrics that hspmdd has of @job."""
    return [json.loads(line)["step"] for line in w.ctl("metrics", str(job.id), "-o", "jsonl").splitlines()]


def forgotten_when_all_have_stopped(w, name, agents):
    """forget straight behind cancel waits for the executors, which are still stopping."""
    executors = [pid for a in agents for pid in children(a.pid)]
    for pid in executors:
        os.kill(pid, signal.SIGSTOP)
    w.ctl("cancel", name)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(w.sock)
        c = Conn(s)
        c.send("forget", dict(QUERY, name=name), request=1)
        before = w.ctl("status", name)
        for pid in executors:
            os.kill(pid, signal.SIGCONT)
        said = c.expect("reply")[2]
    check("cancelled" in before and said["status"] == 0, (before, said))
    check(w.try_ctl("status", name).returncode == 3, "it is forgotten")


def twins(w, d, agents):
    """A job that is adopted and another one of its name are two: in metrics, event files, and
    answers."""
    old = Training(w, "twin", steps=1000000, least=2)
    old.reach(15)
    d = lose(w, d)
    until("both are parked", lambda: parked(w) == {"alpha": ["twin"], "beta": ["twin"]})
    c = w.agent("gamma")
    until("gamma is up", lambda: w.up("gamma"))
    new = Training(w, "twin", steps=1000000)
    new.reach(10)
    r = w.try_ctl("job", "adopt", "twin")
    check(r.returncode == 7 and "another job twin is running here" in r.stderr, repr(r))
    w.ctl("cancel", str(new.id))
    w.ctl("job", "adopt", "twin")
    before = until("it is adopted", lambda: w.up("alpha") and w.up("beta") and old.status()["step"])
    old.reach(before + 10)
    rows = w.ctl("status", "--no-headers").splitlines()
    for job, state in ((old, "running"), (new, "cancelled")):
        check(any(line.split()[:3] == [str(job.id), "twin", state] for line in rows), "both are shown: %r" % rows)
    check(min(steps(w, old)) > 10 and min(steps(w, new)) == 0, "each has its own steps")
    check(json.loads(w.ctl("status", "twin", "-o", "json"))["jobs"][0]["id"] == old.id, "the name is the live one's")
    check(json.loads(w.ctl("status", str(new.id), "-o", "json"))["jobs"][0]["state"] == "cancelled",
          "the number is not")
    check(sorted(os.listdir(w.path("state/jobs"))) == sorted("twin-%d" % j.id for j in (old, new)), "a folder each")
    first = json.loads(w.ctl("events", str(new.id), "-o", "jsonl").splitlines()[0])
    check((first["type"], first["job_id"]) == ("admin.submit", new.id), "its own events: %r" % first)
    r = w.try_ctl("resume", str(new.id))
    check(r.returncode == 7 and "another job twin, number %d, is running" % old.id in r.stderr, repr(r))
    w.ctl("forget", str(new.id))
    r = w.try_ctl("metrics", str(new.id))
    check(r.returncode == 3 and "no job %d" % new.id in r.stderr, repr(r))
    with contextlib.closing(sqlite3.connect(w.path("state/state.db"))) as db:
        check(db.execute("SELECT DISTINCT job FROM metric").fetchall() == [(old.id,)],
              "its lines are gone, the others not")
    check(steps(w, old), "the others not")
    forgotten_when_all_have_stopped(w, "twin", agents)
    until("no state is left", lambda: not left_over(w))
    c.terminate()
    c.wait()
    return d


def crowd(w):
    """Somebody parks agents without end: such agents have 288 places. An agent with a place keeps
    it for a while, and one without is told when to come back."""
    kept = [dict(job=7, name="none", cluster="f" * 32, generation="0", epoch="1", plan="1", papers_damaged=False)]
    calls = [hello(w, "x%d" % i, kept) for i in range(288)]
    until("all have a place", lambda: len(parked(w)) == 288)
    more = hello(w, "x288", kept)
    said = more.expect("parked")[2]
    check(30000 <= said["again_ms"] < 60000 and "too many agents" in said["reason"], "it is told: %r" % said)
    check(more.expect(None) is None and w.up("alpha"), "and closed")
    check(sorted(parked(w)) == sorted("x%d" % i for i in range(288)), "who is here stays")
    check("node.crowd" in w.ctl("events"), "people are told")
    for c in calls:
        c.s.close()


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    d = w.daemon()
    agents = [w.agent("alpha"), w.agent("beta")]
    until("both are up", lambda: w.up("alpha") and w.up("beta"))
    final_of_another(w)
    d = adopted(w, d, agents)
    d = only_one(w, d, agents)
    d = forgotten(w, d, agents)
    d = on_record(w, d, agents)
    d = twins(w, d, agents)
    d = from_disk(w, d, agents)
    discarded(w, d)
    crowd(w)


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "a job is adopted from its agents"))
