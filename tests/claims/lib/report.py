"""Begins and ends a claim: its name, its seed, its folder, and the report in the last line."""
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import offspring

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.abspath(os.environ.get("HSPMD_BUILD", os.path.join(ROOT, "build")))
LIMIT = 588  # seconds; ten minutes less the time of ending
SHORTER = int(os.environ.get("HSPMD_LIMIT") or LIMIT)  # of scripts/gpu-check
# Each wait ends so many seconds before the alarm: the wait can tell work that hangs from work that
# is slow, the alarm cannot.
MARGIN = min(18, SHORTER // 10)
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Failed(Exception):
    """The claim does not hold, or could not be measured; the text says why."""


class Unjudged(Exception):
    """The claim cannot be judged here; the text names the missing part."""


def say(*words):
    """A claim that nobody reads ends as by SIGHUP."""
    try:
        print(*words, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        signal.raise_signal(signal.SIGHUP)


class Claim:
    """figures, wrong: the figures so far, and whether something was found that must not be; they
    are reported also by a claim that ends before its time."""

    figures, wrong, over = {}, False, False

    def __init__(self, name):
        self.name = name
        self.figures = {}
        self.pid = os.getpid()
        self.mark = offspring.new(os.environ)
        self.start = time.monotonic()
        self.seed = random.SystemRandom().randrange(1, 2**31)
        self.dir = tempfile.mkdtemp(prefix="hspmd-claim-")
        self.text = None  # of make_text
        self.own_data = None  # the meaning of data.path of HSPMD_JOB
        self.awaits = None  # programs that go on without end unless they hang
        if os.environ.get("HSPMD_SEED"):
            try:
                self.seed = int(os.environ["HSPMD_SEED"])
            except ValueError:
                self.end(False, {"error": "HSPMD_SEED is no integer"})
        self.random = random.Random(self.seed)
        say("claim %s, seed %d" % (name, self.seed))

    def end(self, holds, figures):
        left = offspring.end(self.mark)
        shutil.rmtree(self.dir, ignore_errors=True)
        seconds = round(time.monotonic() - self.start, 1)
        figures = json.loads(json.dumps(figures), parse_constant=str)  # JSON knows no NaN
        if left:
            say("these cannot be killed, and may keep a GPU: %s" % " ".join(map(str, left)))
        say(json.dumps({"claim": self.name, "holds": holds, "figures": figures, "seed": self.seed, "seconds": seconds}))
        sys.exit({True: 0, False: 1, None: 77}[holds])

    def late(self):
        """Ends a claim whose time is over. If the user chose the job or a shorter limit, the claim
        is not judged; else it does not hold."""
        if SHORTER < LIMIT:
            raise Unjudged("more time than %d seconds" % SHORTER)
        if os.environ.get("HSPMD_JOB"):
            raise Unjudged("a smaller job: this one is not judged within %d seconds" % LIMIT)
        raise Failed("out of time")

    def alarm(self, *_):
        if self.awaits:
            raise Failed("out of time in the wait for %s" % self.awaits)
        self.late()

    @contextlib.contextmanager
    def awaiting(self, what):
        """If the time of the claim runs out within this context, the claim does not hold: each wait
        has a bound of its own, which finds work that is only slow."""
        self.awaits = what
        try:
            yield
        finally:
            self.awaits = None

    def judge(self, body):
        """Calls body(self). If a program was ended because the time of the claim is over, the claim
        is late."""
        try:
            return body(self)
        except subprocess.TimeoutExpired:
            if self.left() > 1:
                raise
        self.late()

    def ended(self, number, _):
        """Ends by SIGTERM or its like: no time is left for anything, the processes of the claim end
        with it, and it reports its figures so far."""
        if os.getpid() != self.pid:  # a process that was forked off
            os._exit(1)
        for n in SIGNALS:
            signal.signal(n, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.over = True
        raise Unjudged("to be let run: it was ended by %s" % signal.Signals(number).name)

    def run(self, body):
        """Calls body(self) -> (holds, figures); with any exception but Unjudged the claim does not
        hold."""
        signal.signal(signal.SIGALRM, self.alarm)
        signal.setitimer(signal.ITIMER_REAL, max(1.0, min(LIMIT, SHORTER) - (time.monotonic() - self.start)))
        for n in SIGNALS:
            signal.signal(n, self.ended)
        try:
            holds, figures = self.judge(body)
        except Unjudged as e:
            say("not judged: this needs", e)
            holds, figures = False if self.wrong else None, dict(self.figures, missing=str(e)[:300])
        except Failed as e:
            say("failed:", e)
            holds, figures = False, dict(self.figures, error=str(e)[:300])
        except Exception as e:
            traceback.print_exc(file=sys.stdout)
            holds, figures = False, dict(self.figures, error=("%s: %s" % (type(e).__name__, e))[:300])
        for n in SIGNALS:
            signal.signal(n, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.end(holds, figures)

    def left(self, limit=570):
        return 0 if self.over else min(limit, SHORTER - MARGIN) - (time.monotonic() - self.start)
