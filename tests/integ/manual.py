#!/usr/bin/env python3
"""The manual says everything: each option of each program's help and each key of each file has its
place in its page, which mandoc finds without fault; completion knows commands, options and the
names that hspmdd knows."""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from wire import LIMIT, check
from world import complete

BUILD = os.environ.get("HSPMD_BUILD", "build")
SRC = os.environ.get("HSPMD_SRC", ".")


def run(*args):
    r = subprocess.run([os.path.join(BUILD, args[0])] + list(args[1:]), capture_output=True, text=True, timeout=LIMIT)
    check(r.returncode == 0, "%s: %r" % (args, r))
    return r.stdout


def page(path):
    with open(os.path.join(SRC, path)) as f:
        return f.read()


def has_flags(text, flags, path):
    check(len(flags) > 0, "no options for %s" % path)
    for f in flags:
        check(re.search(r"Fl Fl %s\b(?!-)" % re.escape(f), text), "%s: option --%s is missing" % (path, f))


def has_keys(text, keys, path):
    check(len(keys) > 5, "no keys for %s" % path)
    for k in keys:
        check(".It Ic %s\n" % k in text, "%s: key %s is missing" % (path, k))
    for k in re.findall(r"^\.It Ic (\S+)$", text, re.M):
        check(k in keys, "%s: there is no key %s" % (path, k))


def flags_of(text):
    return set(re.findall(r"^  (?:-\w, |    )?--([a-z-]+)", text, re.M))


def pages():
    for prog, path in [("hspmdd", "daemon/app/hspmdd"), ("hspmd-worker", "worker/app/hspmd-worker")]:
        has_flags(page(path + ".8"), flags_of(run(prog, "--help")), path + ".8")
        keys = re.findall(r"^#([a-z_]+):", run(prog, "--print-example"), re.M)
        has_keys(page(path + ".yaml.5"), keys, path + ".yaml.5")
    help_text = run("hspmdctl", "help")
    text = page("daemon/ctl/hspmdctl.1")
    flags = flags_of(help_text)
    for line in help_text.split("Commands:\n")[1].split("\n\n")[0].splitlines():
        name = [w for w in line.split("  ")[1].split() if w.islower()]
        check(re.search(r"^\.It Ic %s( Ar|$)" % " ".join(name), text, re.M), "command %s is missing" % name)
        flags |= flags_of(run("hspmdctl", "help", *name))
    has_flags(text, flags, "daemon/ctl/hspmdctl.1")
    table = page("daemon/planner/job_file.c")
    has_keys(page("daemon/ctl/hspmd-job.5"), re.findall(r'^    F\("([\w.]+)"', table, re.M), "hspmd-job.5")
    return ["daemon/app/hspmdd.8", "daemon/app/hspmdd.yaml.5", "worker/app/hspmd-worker.8",
            "worker/app/hspmd-worker.yaml.5", "daemon/ctl/hspmdctl.1", "daemon/ctl/hspmd-job.5"]


def lint(paths):
    if shutil.which("mandoc") is None:
        print("mandoc is not here: its check is left out")
        return
    r = subprocess.run(["mandoc", "-Tlint", "-Wwarning"] + [os.path.join(SRC, p) for p in paths],
                       capture_output=True, text=True)
    check(r.returncode == 0 and r.stdout == "", "mandoc:\n%s%s" % (r.stdout, r.stderr))


def completion():
    check(complete("su") == ["submit", "suspend"], "su: %r" % complete("su"))
    check(complete("ckpt", "") == ["list", "save", "verify"], "ckpt: %r" % complete("ckpt", ""))
    check(complete("status", "--wa") == ["--watch"], "an option of one command")
    check("--address" in complete("scale", "--"), "the options of all commands")
    check(complete("status", "-o", "js") == ["json", "jsonl"], "formats")
    check(complete("drain", "x") == [], "no daemon, no names: %r" % complete("drain", "x"))


lint(pages())
completion()
print("the manual says everything")
