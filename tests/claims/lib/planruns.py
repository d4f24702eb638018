"""Runs one job offline under plans: shared by random-plans-equal and switching-equal.

A Model is a job with the run of one device; a Case is a plan for it, compiled and run in one
process.
"""
import os
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from equality import BOUND
from harness import *  # noqa: F403
import randomplans

WORKERS = max(1, len(os.sched_getaffinity(0)))
HANGS = 120  # seconds after which a run of a job of ours has stopped for good
NUDGE = 1e-13  # of the learning rate
GROWTH = 100   # of a nudge, in the losses of a stable job
DRAWS = 10     # of a job until it is a stable one


class Model:
    """A job and the losses of one device with it."""

    def __init__(self, claim, job, name, text):
        self.claim, self.job, self.name, self.text = claim, job, name, text
        self.path = write_job(claim, job, name, text)
        self.metrics = self.gradients = None

    def run(self, gradients=True):
        self.metrics, self.gradients = run_offline(self.claim, self.path, self.name, gradients=gradients)
        return self


def is_stable(claim, job, name, text, steps=None):
    """Whether a job can tell plans apart in its first @steps (all): one that makes a hair of its
    learning rate grow makes rounding grow, too, and differs from itself whenever a sum is taken in
    another order. Runs one device in fp64, no plan."""
    runs = []
    steps = steps or job["train"]["steps"]
    for i, lr in enumerate((1, 1 + NUDGE)):
        j = randomplans.clone(job)
        j["train"].update(dtype="fp64", steps=steps)
        j["train"]["optimizer"]["lr"] *= lr
        runs.append(Model(claim, j, "%s-nudge%d" % (name, i), text).run(gradients=False).metrics)
    return loss_distance(*runs, steps) <= GROWTH * NUDGE


def stable_model(claim, i, text, steps, judged=None):
    """Random job @i of so many steps, one that trains stably (in the first @judged): of others
    every order of summation has losses of its own."""
    for again in range(DRAWS):
        name = "job%d" % i + (".%d" % again if again else "")
        job = randomplans.random_job(random.Random("%d %s" % (claim.seed, name)), i, steps)
        if is_stable(claim, job, name, text, judged):
            return Model(claim, job, name, text)
        say("%s is not stable: another one" % name)
    raise Failed("no stable job in %d draws" % DRAWS)


class Case:
    """A plan for a model. @total: by way of its total form, as `hspmdctl plan` prints it."""

    def __init__(self, model, plan, name, total=False):
        self.model, self.plan, self.name, self.total = model, plan, name, total
        self.loss = self.gradient = self.why = None

    def step(self, *args):
        try:
            return call(*args, timeout=HANGS if not is_own() else 600, env={"OPENBLAS_NUM_THREADS": "1"})
        except subprocess.TimeoutExpired:
            raise Failed("%s does not end" % os.path.basename(args[0]))

    def measure(self):
        m = self.model
        path = write_plan(m.claim, self.plan, self.name)
        base = os.path.join(m.claim.dir, self.name)
        if self.total:
            text = self.step(prog("hspmdctl"), "plan", m.path, "--plan", path, "-o", "yaml").stdout
            path = base + ".total.yaml"
            with open(path, "w") as f:
                f.write(text)
        self.step(prog("hspmdctl"), "compile", m.path, "-o", base + ".prog", "--plan", path)
        self.step(prog("hspmd-worker"), "--run", base + ".prog", "--metrics", base + ".jsonl", "--dump-gradients",
                  base + ".grad", "--threads", 1, "--quiet")
        self.loss = loss_distance(m.metrics, read_jsonl(base + ".jsonl"), m.job["train"]["steps"])
        self.gradient = gradient_distance(m.gradients, base + ".grad")
        loss, gradient = BOUND[m.job["train"]["dtype"]]
        if not self.loss <= loss:
            self.why = "loss apart by %.2e" % self.loss
        elif not self.gradient <= gradient:
            self.why = "gradient apart by %.2e" % self.gradient

    def judge(self):
        """Sets `why` if the plan does not give the results of one device. Leaves no file."""
        try:
            self.measure()
        except Failed as e:
            self.why = str(e)
        finally:
            base = os.path.join(self.model.claim.dir, self.name + ".")
            for end in ("prog", "jsonl", "grad", "total.yaml", "plan.yaml"):
                if os.path.exists(base + end):
                    os.unlink(base + end)
        return self


def kind(why):
    """Whether a plan is refused, breaks the run, or computes something else."""
    return "refused" if why.startswith("hspmdctl") or "hspmdctl compile" in why else \
        "different" if "apart" in why else "broken"


def minimise(case, until):
    """The smallest case that fails in the same way, found greedily; @until: claim.left() at which
    to stop."""
    claim, n, found = case.model.claim, 0, True
    while found:
        found = False
        for job, plan in randomplans.smaller(case.model.job, case.plan):
            if claim.left() < until:
                return case
            n += 1
            name = "%s-s%d" % (case.name.split("-s")[0], n)
            try:
                model = case.model if job == case.model.job else Model(claim, job, name + "-one", case.model.text).run()
            except Failed:
                continue  # no job at all
            smaller = Case(model, plan, name, case.total).judge()
            if smaller.why and kind(smaller.why) == kind(case.why):
                case, found = smaller, True
                break
    return case


def keep(case):
    """Writes job, plan and text of a failing case to a folder in the build tree that is not
    deleted, and returns the folder."""
    claim = case.model.claim
    folder = os.path.join(BUILD, "failed-plans", "%s-%d-%s" % (claim.name, claim.seed, case.name.split("-s")[0]))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    text = case.model.text
    if text == claim.text and text.startswith(claim.dir):
        text = shutil.copy(text, folder)
    job = write_job(claim, case.model.job, "kept", text)
    os.replace(job, os.path.join(folder, "job.yaml"))
    os.replace(write_plan(claim, case.plan, "kept"), os.path.join(folder, "plan.yaml"))
    return folder


def in_parallel(work, items):
    """work(item) of each, in the order given, by as many threads as there are processors."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, items))
