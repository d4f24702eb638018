#!/usr/bin/python3
"""Sends SIGHUP: settings that may change while a job runs are applied, the rest is named, and a
wrong file changes nothing. A device that is given another speed is said anew to hspmdd, and the job
goes on with the losses of an undisturbed device."""
import os
import re
import sys
import tarfile

sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403


def rewrite(path, **keys):
    with open(path) as f:
        conf = json.load(f)
    conf.update(keys)
    with open(path, "w") as f:
        json.dump(conf, f)


def last_event(c, kind):
    found = [e for e in c.events() if e["type"] == kind]
    return found[-1] if found else None


def daemon_reload(c):
    conf = os.path.join(c.dir, "hspmdd.yaml")
    rewrite(conf, log_level="debug", heartbeat="150ms", max_nodes=99)
    c.daemon.send_signal(signal.SIGHUP)
    e = wait_for("the reload", lambda: last_event(c, "config.reloaded"), 10)
    if e["reason"] != "heartbeat 200ms -> 150ms, log_level info -> debug; needs a restart: max_nodes":
        raise Failed("reload said %r" % e)
    if e["data"]["actor"] != "SIGHUP":
        raise Failed("no actor: %r" % e)
    with open(conf, "a") as f:
        f.write("\nlisten: [")
    c.daemon.send_signal(signal.SIGHUP)
    e = wait_for("the refusal", lambda: last_event(c, "config.refused"), 10)
    if "hspmdd.yaml:" not in e["reason"] or "the old configuration stays" not in e["reason"]:
        raise Failed("refusal said %r" % e)


def worker_log(c, name):
    with open(c.logs[name]) as f:
        return f.read()


def worker_reload(c, name):
    conf = os.path.join(c.dir, name + ".yaml")
    rewrite(conf, devices=[{"kind": "cpu", "speed": 0.4, "memory": "768MiB"}], leave_timeout="7s", listen="127.0.0.2")
    c.workers[name].send_signal(signal.SIGHUP)
    wait_for("the agent's reload", lambda: "configuration reloaded: leave_timeout 90s -> 7s, device 0 speed 1 -> 0.4, "
             "memory 1024 -> 768 MiB; needs a restart: listen" in worker_log(c, name), 10)
    d = wait_for("the new figures", lambda: [d for d in c.nodes()[name].get("devices", [])
                                             if d["speed"] == 0.4 and d["up"]], 20)
    if d[0]["memory_bytes"] != 768 << 20:
        raise Failed("device %r" % d)
    shown = json.loads(c.ctl("node", "show", name, "-o", "json").stdout)["nodes"]
    if [n["name"] for n in shown] != [name] or shown[0]["devices"][0]["speed"] != 0.4:
        raise Failed("node show: %r" % shown)
    if c.ctl("--no-headers", "node", "list").stdout.count("live") != 2:
        raise Failed("node list")
    rewrite(conf, devices=[{"kind": "cpu", "speed": 4}])
    c.workers[name].send_signal(signal.SIGHUP)
    wait_for("the agent's refusal", lambda: "reload refused: " in worker_log(c, name), 10)


def bundle(claim, c):
    """hspmdctl debug bundle: one tar that others can read."""
    path = os.path.join(claim.dir, "b.tar")
    if c.ctl("debug", "bundle", "--file", path + "/nowhere/x", check=False).returncode != 1:
        raise Failed("a bundle that cannot be written")
    c.ctl("debug", "bundle", "--file", path)
    with tarfile.open(path) as t:
        names = t.getnames()
        job = json.loads(t.extractfile("hspmd-bundle/status.json").read())["jobs"][0]
        if job["name"] != "small":
            raise Failed("status in the bundle")
        plan = "jobs/small-%d/plan.yaml" % job["id"]
        for want in ("version.txt", "events.jsonl", plan, "config/hspmdd.yaml", "config/hspmdd-in-use.yaml"):
            if "hspmd-bundle/" + want not in names:
                raise Failed("%s is not in the bundle: %r" % (want, names))
        used = t.extractfile("hspmd-bundle/config/hspmdd-in-use.yaml").read().decode()
        if "state_dir: " not in used or "failure_detection: " not in used or re.search("[0-9a-f]{64}", used):
            raise Failed("the configuration in use: %s" % used)
        if b'"type":"config.reloaded"' not in t.extractfile("hspmd-bundle/events.jsonl").read():
            raise Failed("events in the bundle")
        if b"ranks:" not in t.extractfile("hspmd-bundle/" + plan).read():
            raise Failed("plan in the bundle")


def suspend(c):
    """The job's devices are free, and it goes on as if nothing had been."""
    out = c.ctl("suspend", "small").stdout
    if "is suspended at step" not in out:
        raise Failed("suspend: %r" % out)
    wait_for("the devices to be free", lambda: not [d for n in c.nodes().values() for d in n["devices"]
                                                    if d.get("job")], 20)
    again = c.ctl("suspend", "small", check=False)
    if again.returncode != 7:
        raise Failed("suspended twice: %r" % again)
    c.ctl("resume", "small")


def fits(schema, value, where):
    """The part of JSON Schema that conf/events.schema.json uses."""
    types = {"object": dict, "string": str, "integer": int, "number": (int, float)}
    if "type" in schema and not isinstance(value, types[schema["type"]]):
        raise Failed("%s: %r is no %s" % (where, value, schema["type"]))
    if "enum" in schema and value not in schema["enum"]:
        raise Failed("%s: %r" % (where, value))
    if "minimum" in schema and value < schema["minimum"]:
        raise Failed("%s: %r" % (where, value))
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise Failed("%s: %r" % (where, value))
    if isinstance(value, dict):
        for k in schema.get("required", []):
            if k not in value:
                raise Failed("%s: no %s in %r" % (where, k, value))
        for k, v in value.items():
            if k not in schema["properties"]:
                raise Failed("%s.%s is not in the schema: %r" % (where, k, value))
            fits(schema["properties"][k], v, where + "." + k)


def events_fit(c):
    with open(os.path.join(ROOT, "conf/events.schema.json")) as f:
        schema = json.load(f)
    for e in c.events():
        fits(schema, e, "event")
    if " by SIGHUP" not in c.ctl("events").stdout:
        raise Failed("the table of events names no actor")


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(hidden=32, sequence=32)
    job["train"].update(steps=300, global_batch=8)
    single = write_job(claim, job, "one", text)
    path = write_job(claim, job, "small", text)
    reference, _ = run_offline(claim, single, "one")
    with Cluster(claim) as c:
        c.start_workers([1.0, 1.0])
        c.submit(path)
        c.wait_step("small", 10, 60)
        daemon_reload(c)
        worker_reload(c, "w1")
        bundle(claim, c)
        suspend(c)
        c.wait_done("small", 120)
        events_fit(c)
        distance = loss_distance(reference, c.metrics("small"), 300)
    return distance <= 1e-9, {"loss": distance}


Claim("reload").run(body)
