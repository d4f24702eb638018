#!/usr/bin/env python3
"""Checks that the manual is complete: each option of each program's help and each key of each file
has its place in its page, which mandoc finds without fault; columns of tables are explained;
completion knows commands, options and the names that hspmdd knows; scripts/quickstart and demo have
a help; the files that README.md and conf/ name are there."""
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


def section(text, command):
    """The section of hspmdctl.1 on one command: up to the next that is on the outer list."""
    lines, depth, begun = [], 0, False
    for line in text.split(".Sh COMMANDS\n")[1].splitlines():
        depth += line.startswith(".Bl ") - line.startswith(".El")
        if depth == 1 and line.startswith(".It Ic "):
            begun = re.match(r"\.It Ic %s( Ar|$)" % command, line) is not None
        if begun:
            lines.append(line)
    return "\n".join(lines)


def pages():
    for prog, path in [("hspmdd", "daemon/app/hspmdd"), ("hspmd-worker", "worker/app/hspmd-worker")]:
        has_flags(page(path + ".8"), flags_of(run(prog, "--help")), path + ".8")
        keys = re.findall(r"^#([a-z_]+):", run(prog, "--print-example"), re.M)
        has_keys(page(path + ".yaml.5"), keys, path + ".yaml.5")
    help_text = run("hspmdctl", "help")
    text = page("daemon/ctl/hspmdctl.1")
    of_all = flags_of(help_text)
    has_flags(text.split(".Sh COMMANDS\n")[0], of_all, "daemon/ctl/hspmdctl.1")
    for line in help_text.split("Commands:\n")[1].split("\n\n")[0].splitlines():
        name = [w for w in line.split("  ")[1].split() if w.islower()]
        check(re.search(r"^\.It Ic %s( Ar|$)" % " ".join(name), text, re.M), "command %s is missing" % name)
        own = flags_of(run("hspmdctl", "help", *name)) - of_all
        if own:
            has_flags(section(text, " ".join(name)), own, "hspmdctl.1, " + " ".join(name))
    columns = re.search(r"^\.Sh COLUMNS\n(.*?)^\.Sh ", text, re.M | re.S).group(1)
    for path, head, n in (("cmd_status.c", "EPOCH", 2), ("cmd_plan.c", "RANK", 1)):
        tables = re.findall(r"struct hsp_column \w+\[\] = {([^;]*\"%s\".*?)};" % head,
                            page("daemon/ctl/" + path), re.S)
        check(len(tables) == n, "%d tables with the column %s in %s" % (len(tables), head, path))
        for name in re.findall(r'"([A-Z ]+)"', "".join(tables)):
            check(re.search(r"\b%s\b" % name, columns) or name in ("JOB", "STATE", "REASON", "RANK", "DEVICE"),
                  "column %s of %s is not explained" % (name, path))
    table = page("daemon/planner/job_file.c")
    has_keys(page("daemon/ctl/hspmd-job.5"), re.findall(r'^    F\("([\w.]+)"', table, re.M), "hspmd-job.5")
    cluster = page("daemon/ctl/hspmd-job.5").split(".Sh CLUSTER FILES\n")[1].split("\n.Sh ")[0]
    keys = re.findall(r'\bF\(\w+, "([\w.]+)"', page("daemon/planner/cluster_file.c"))
    check(len(keys) > 20, "no keys of cluster files")
    for word in {w for k in keys for w in k.split(".")}:
        check(re.search(r"\b%s\b" % word, cluster), "hspmd-job.5: key %s of cluster files is missing" % word)
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


def scripts():
    """Asked for help, or mistyped, they do nothing else: quickstart would install packages and
    build."""
    for name in "quickstart", "demo":
        for word, code in (("--help", 0), ("-h", 0), ("--hepl", 2)):
            r = subprocess.run([os.path.join(SRC, "scripts", name), word], capture_output=True, text=True, timeout=LIMIT,
                               env=dict(os.environ, HSPMD_BUILD="/nonexistent"))
            said = r.stdout if code == 0 else r.stderr
            check(r.returncode == code and "scripts/%s [--text FILE]" % name in said, "%s %s: %r" % (name, word, r))
        r = subprocess.run([os.path.join(SRC, "scripts", name), "--text", "/nonexistent/x"], capture_output=True, text=True,
                           timeout=LIMIT, env=dict(os.environ, HSPMD_BUILD="/nonexistent"))
        check(r.returncode == 1 and "/nonexistent/x: No such file" in r.stdout + r.stderr and "packages" not in r.stdout,
              "%s --text: %r" % (name, r))


def front():
    """README.md stays short, and each file that it or a page of conf/ names is there."""
    check(page("README.md").count("\n") <= 80, "README.md has more than 80 lines")
    for path in "README.md", "conf/README.md", "conf/JOBS.md", "conf/GPUS.md", "tests/claims/README.md":
        for name in re.findall(r"(?<![\w/-])(?:conf|daemon|proto|scripts|systemd|tests|worker)/[\w./-]*\w", page(path)):
            check(os.path.exists(os.path.join(SRC, name)), "%s names %s, which is not there" % (path, name))


front()
lint(pages())
completion()
scripts()
print("the manual says everything")
