#!/usr/bin/env python3
"""Makes the folder that scripts/gpu-check takes to a GPU from this build: complete, at most 60 MB,
and run from another place without a GPU. Everything then ends as not judged, also where permissions
were lost and where the folder can only be read; a folder that has lost a file is refused."""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree stays as it is
SRC = os.path.abspath(os.environ.get("HSPMD_SRC", "."))
BUILD = os.path.abspath(os.environ.get("HSPMD_BUILD", "build"))
ROWS = ("first-light", "cuda-conformance", "one-gpu-demo", "cuda-loss-equality", "gpu-speed")
WANTED = ("hspmd-worker", "hspmdd", "hspmdctl", "tests/unit/worker/backend/device_test", "tests/gpu/blocking_calls",
          "tests/gpu/op_speed", "tests/gpu/netlink_refused")
MODULES = ("hspmd-cuda.so", "kerneltime.so")


def check(cond, what):
    if not cond:
        print("FAILED: %s" % what)
        sys.exit(1)


def gpu_check(top, *args, **env):
    """The script of the tree or bundle @top; as where nothing of this build is known."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("HSPMD_", "MAKE", "MFLAGS"))}
    return subprocess.run([sys.executable, "-B", os.path.join(top, "scripts", "gpu-check"), *args], capture_output=True,
                          text=True, timeout=600, env=dict(outside, **env))


def made(where):
    """The bundle in @where: the programs and modules of the list, each by itself or packed."""
    r = gpu_check(SRC, "bundle", where, HSPMD_BUILD=BUILD)
    check(r.returncode == 0, "bundle: %s%s" % (r.stdout, r.stderr))
    with open(os.path.join(where, "MANIFEST.json")) as f:
        manifest = json.load(f)
    check(tuple(manifest["programs"]) == WANTED and tuple(manifest["modules"]) == MODULES, "the list: %r" % manifest)
    there = {os.path.relpath(os.path.join(at, f), where): os.path.getsize(os.path.join(at, f))
             for at, _, files in os.walk(where) for f in files}
    for name in WANTED:
        check(name in there and there[name] < 2000, "what starts %s" % name)
    for name in WANTED + MODULES:
        check("real/" + name in there or "real/" + name + ".xz" in there, "%s is in the bundle" % name)
    for name in ("first_light.py", "page.py", "torch_speed.py", "shapes.txt"):
        check("tests/gpu/" + name in there, "%s is in the bundle" % name)
    check(sorted(manifest["files"]) == sorted(set(there) - {"MANIFEST.json"}), "every file is in the list")
    check(sum(there.values()) <= 60e6, "%.1f MB" % (sum(there.values()) / 1e6))
    check(not os.path.exists(where + ".part"), "nothing is left beside it")


def judged_by_nobody(where, *names):
    """`run` there: each row names the missing part."""
    r = gpu_check(where, "run", *names)
    rows = re.findall(r"^\| (\S+) \| (.*?) \| missing (.*?) \|", r.stdout, re.M)
    check(r.returncode == 77 and not r.stderr, "run without a GPU: %d %s%s" % (r.returncode, r.stdout, r.stderr))
    check([row[0] for row in rows] == list(names or ROWS), "rows: %r" % rows)
    for _, word, why in rows:
        check(word == "not judged" and re.search("driver|GPU", why), "a row: %s, %s" % (word, why))
    return r.stdout


def lose_permissions(where):
    for at, _, files in os.walk(where):
        for f in files:
            os.chmod(os.path.join(at, f), 0o444)


def read_only(where, todo):
    """todo() while @where is a file system that can only be read; False where that cannot be had.
    """
    if os.geteuid() != 0 or subprocess.run(["mount", "--bind", where, where], capture_output=True).returncode != 0:
        return False
    try:
        if subprocess.run(["mount", "-o", "remount,bind,ro", where], capture_output=True).returncode != 0:
            return False
        todo()
        return True
    finally:
        subprocess.run(["umount", where], check=True)


def copied(where):
    """From a folder that cannot be written to, a copy is used, and removed."""
    before = set(os.listdir(tempfile.gettempdir()))
    text = judged_by_nobody(where, "first-light", "gpu-speed")
    check("a copy in " in text, "the copy is named: %s" % text)
    left = [f for f in set(os.listdir(tempfile.gettempdir())) - before if f.startswith("hspmd-bundle-")]
    check(not left, "the copy is removed: %r" % left)


def main():
    with open(os.path.join(BUILD, "Makefile")) as f:
        lacks = re.findall(r"^(have_cuda|have_cupti) = no", f.read(), re.M)
    if lacks:
        print("needs a build with the CUDA backend and CUPTI: %s = no" % lacks[0])
        return 77
    home = tempfile.mkdtemp(prefix="hspmd-gpubundle-")
    try:
        first, other = os.path.join(home, "made"), os.path.join(home, "else where", "bundle")
        made(first)
        os.makedirs(os.path.dirname(other))
        shutil.move(first, other)
        if os.path.exists("/dev/nvidiactl"):
            print("there is a GPU here; the bundle is complete, how it ends without one is not seen")
            return 0
        mounted = read_only(other, lambda: copied(other))
        judged_by_nobody(other)
        lose_permissions(other)
        judged_by_nobody(other, "first-light", "cuda-conformance")
        check(os.stat(os.path.join(other, "hspmdd")).st_mode & stat.S_IXUSR, "permissions are given back")
        os.remove(os.path.join(other, "real", "kerneltime.so"))
        r = gpu_check(other, "run")
        check(r.returncode == 1 and "did not arrive whole" in r.stderr and "kerneltime.so" in r.stderr and
              len(r.stderr.splitlines()) == 1, "a bundle that lost a file: %s" % r.stderr)
        print("a bundle is complete and ends well without a GPU" +
              ("" if mounted else " (not seen: a read-only folder)"))
        return 0
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
