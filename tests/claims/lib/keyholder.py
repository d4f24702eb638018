"""Plays a holder of the worker key that is no member: speaks TLS under the key (by the command
openssl), and says every message of proto/wire/README.md, with numbers of jobs and epochs that there
are."""
import json
import os
import re
import select
import shutil
import struct
import subprocess
import time

from report import ROOT, Unjudged

MAGIC = 0x6D707368
FORGED = "forged \x1b[31m"  # why it says something: where that stands, it was believed
ROW = re.compile(r"\| (\d+) \| ([a-z-]+) \| (.*) \|$")
FIELD = re.compile(r"(\w+) (u32|u64|f64 list|f64|bool|text|name|digest|key|list)((?: since \d+)?)(?: <= (\d+))?"
                   r"(?: \(([^)]*)\))?((?: since \d+)?)")


class Field:
    def __init__(self, m, items):
        self.name, self.type, self.names, self.items = m[1], m[2], (m[5] or "").split(), items
        self.limit = int(m[4]) if m[4] else None


def parse_fields(text, at=0):
    """(fields of an object, where its end is)"""
    out = []
    while True:
        m = FIELD.match(text, at)
        if not m:
            raise ValueError("proto/wire/README.md: fields at %r" % text[at:at + 60])
        at, items = m.end(), None
        if m[2] == "list":
            if not text.startswith(" of {", at):
                raise ValueError("proto/wire/README.md: a list of %r" % text[at:at + 60])
            items, at = parse_fields(text, at + 5)
            at += 1
        out.append(Field(m, items))
        if not text.startswith(", ", at):
            return out, at
        at += 2


def messages():
    """[(number, name, fields, whether it has a blob)] of all messages."""
    out = []
    with open(os.path.join(ROOT, "proto", "wire", "README.md")) as f:
        for line in f:
            m = ROW.match(line.rstrip("\n"))
            if m:
                fields, end = parse_fields(m[3])
                if m[3][end:] not in ("", "; blob"):
                    raise ValueError("proto/wire/README.md: behind %s: %r" % (m[2], m[3][end:]))
                out.append((int(m[1]), m[2], fields, m[3].endswith("; blob")))
    return out


def protocol():
    with open(os.path.join(ROOT, "proto", "wire", "README.md")) as f:
        return int(re.search(r"^## Frames \(protocol (\d+)\)", f.read(), re.M)[1])


class Call:
    """A connection under the key. Any failure ends it: closed."""

    def __init__(self, port, key):
        if shutil.which("openssl") is None:
            raise Unjudged("openssl, the command")
        with open(key) as f:
            secret = f.read().strip()
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % port, "-tls1_3", "-psk", secret,
             "-psk_identity", "hspmd-worker",
             "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.data, self.closed, self.version = b"", False, protocol()
        os.set_blocking(self.process.stdout.fileno(), False)

    def send(self, kind, body, epoch=0, blob=b"", request=0):
        text = json.dumps(body).encode()
        head = struct.pack("<IBBHQQII", MAGIC, self.version, self.version, kind, request, epoch, len(text), len(blob))
        try:
            self.process.stdin.write(head + text + blob)
            self.process.stdin.flush()
        except OSError:
            self.closed = True

    def read(self, limit):
        """The next frame, (kind, body), within @limit seconds; None: none came."""
        end = time.monotonic() + limit
        while True:
            if len(self.data) >= 32:
                _, _, _, kind, _, _, n, blob = struct.unpack("<IBBHQQII", self.data[:32])
                if len(self.data) >= 32 + n + blob:
                    body, self.data = self.data[32:32 + n], self.data[32 + n + blob:]
                    return kind, json.loads(body) if body else {}
            left = end - time.monotonic()
            if self.closed or left < 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            got = self.process.stdout.read(65536)
            if not got:
                self.closed = True
            self.data += got or b""

    def hear(self):
        """Takes the messages that are there; heartbeats and echoes are not answered."""
        while self.read(0) is not None:
            pass

    def close(self):
        self.process.kill()
        self.process.communicate()


class Forger:
    """Makes the bodies. @jobs: the facts that the stranger has found out, for each job: the numbers
    of job, epoch, plan, step that there are; a message is about one of them, mostly. @known: names,
    and digests of incarnations and clusters."""

    def __init__(self, rnd, name):
        self.random, self.name = rnd, name
        self.jobs = [{"job": [1], "epoch": [1], "plan": [1], "step": [1], "last": 1}]
        self.known = {"name": ["a"], "digest": ["%032x" % 0]}
        self.about = self.jobs[0]

    def number(self, what, limit):
        odd = [0, 1, 2, 10**12, 2**64 - 1]
        near = [n + d for n in self.about.get(what, [0, 1]) for d in (0, 0, 0, 0, 1, -1)]
        n = max(0, self.random.choice(near if self.random.randrange(8) else odd))
        return n if limit is None or n <= limit else n % (limit + 1)

    def kind_of(self, name):
        for what, names in (("job", ("job",)), ("plan", ("plan", "from_plan", "keep_plan")),
                            ("epoch", ("running", "prepared", "armed", "known", "base_epoch", "ckpt_epoch", "epoch")),
                            ("step", ("step", "version", "steps"))):
            if name in names:
                return what
        return "small"

    def value(self, f):
        r = self.random
        if f.type == "u32":
            if f.name in ("protocol", "protocol_oldest"):
                return protocol()
            return self.number(self.kind_of(f.name), f.limit if f.limit is not None else 2**32 - 1)
        if f.type == "u64":
            return str(self.number(self.kind_of(f.name), None))
        if f.type == "f64":
            return r.choice([0, 1, 0.5, 1e9, "nan"])
        if f.type == "bool":
            return r.random() < 0.5
        if f.type == "digest":
            return r.choice(self.known["digest"])
        if f.type == "key":
            return "%064x" % r.getrandbits(256)
        if f.type == "name":
            return r.choice(f.names)
        if f.type == "text":
            if f.name == "node":
                text = self.name
            elif f.name in ("name", "job_name"):
                text = r.choice(self.known["name"])
            elif f.name in ("reason", "why", "fault", "part"):
                text = FORGED
            else:
                text = r.choice([FORGED, "", "127.0.0.1:1", "\x1b[31m", self.name])
            return text[:f.limit]
        n = r.randrange(min(4, f.limit + 1))
        if f.type == "f64 list":
            return [r.choice([0, 1, 1e9]) for _ in range(n)]
        return [self.body(f.items) for _ in range(n)]

    def body(self, fields):
        return {f.name: self.value(f) for f in fields}

    def message(self, fields):
        """(body, epoch)"""
        self.about = self.random.choice(self.jobs)
        return self.body(fields), self.number("epoch", 2**64 - 1)

    def credible(self, name, fields, about):
        """The same about a job in its current epoch, as a member would say it, with numbers that
        can be."""
        self.about = about
        body = dict(self.body(fields), job=about["job"][0])
        if "step" in body:
            others = [self.random.randint(0, about["last"]), self.random.randint(0, min(about["step"]))]
            step = about["last"] if name == "finished" else self.random.choice(about["step"] + others)
            body["step"] = str(step)
            if "final" in body:
                body["final"] = step == about["last"]
        if "term" in body:
            body["term"] = "0"
        return body, about["epoch"][0]

    def hello(self, node, **more):
        """Of a node without devices."""
        zeros = "%032x" % 0
        return dict(dict(protocol=protocol(), protocol_oldest=protocol(), node=node, address="",
                         incarnation=zeros, was=zeros,
                         cluster=zeros, generation="0", term="0", same_latency_us=0,
                         same_us_per_byte=0, cross_latency_us=0,
                         cross_us_per_byte=0, folder_free="0", cards=[], devices=[], paths=[], kept=[], holdings=[],
                         runs=[]), **more)
