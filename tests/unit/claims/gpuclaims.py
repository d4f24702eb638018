#!/usr/bin/env python3
"""Tests the pure parts of the GPU claims and of scripts/gpu-check: statistics, verdicts, records of
kernels, the libraries that an ELF file needs, and how the claims end on a machine without a GPU."""
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # the source tree stays as it is
SRC = os.path.abspath(os.environ.get("HSPMD_SRC", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")))
BUILD = os.path.abspath(os.environ.get("HSPMD_BUILD", os.path.join(SRC, "build")))
sys.path.insert(0, os.path.join(SRC, "tests/claims/lib"))
import equality  # noqa: E402
import gpu  # noqa: E402
import gpustats  # noqa: E402
import onegpu  # noqa: E402
import report  # noqa: E402
import row  # noqa: E402

CLAIMS = ("cuda-conformance", "cuda-loss-equality", "gpu-speed", "one-gpu-demo")
GPT = {"family": "gpt", "layers": 12, "hidden": 768, "heads": 12, "vocab": 50257, "sequence": 1024, "tied_head": True}
LLAMA = {"family": "llama", "layers": 3, "hidden": 64, "heads": 8, "kv_heads": 4, "intermediate": 88, "vocab": 256,
         "sequence": 32, "tied_head": False}


def script(path, name):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(SRC, path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


check = script("scripts/gpu-check", "gpucheck")


class Models(unittest.TestCase):
    def test_gpt2_has_the_published_number_of_parameters(self):
        self.assertEqual(gpustats.parameters(GPT)[0], 124439808)

    def test_parameters_are_those_of_our_graphs(self):
        for model in (dict(GPT, vocab=50304), dict(GPT, tied_head=False, layers=2), LLAMA,
                      dict(LLAMA, tied_head=True, kv_heads=0, intermediate=0)):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
                json.dump({"apiVersion": "hspmd/v1", "name": "m", "model": model, "data": {"path": "/x"},
                           "train": {"steps": 1, "global_batch": 1, "optimizer": {"name": "adamw", "lr": 0.1}}}, f)
                f.flush()
                text = subprocess.run([os.path.join(BUILD, "hspmdctl"), "graph", "show", f.name], capture_output=True,
                                      text=True, check=True).stdout
            self.assertEqual(gpustats.parameters(model)[0], int(re.search(r"(\d+) parameters", text).group(1)))

    def test_flops_of_a_token(self):
        products = 12 * 768 * (12 * 768 + 13) + 50257 * 768
        self.assertEqual(gpustats.flops_per_token(GPT), 6 * products + 12 * 12 * 768 * 1024)
        self.assertAlmostEqual(gpustats.mfu(1e6, GPT, gpustats.flops_per_token(GPT) * 2e6), 0.5)


class Kernels(unittest.TestCase):
    def test_what_covers_a_time_counts_once(self):
        self.assertEqual(gpustats.covered([(0, 10), (5, 20), (30, 40), (35, 38)], 0, 100), 0.3)
        self.assertEqual(gpustats.covered([(0, 10), (90, 200)], 5, 95), 10 / 90)
        self.assertEqual(gpustats.covered([], 0, 1), 0)

    def test_only_the_last_steps_count_and_copies_are_no_kernels(self):
        text = "".join("k %d %d 7 gemm<float, 1>\n" % (t, t + 8 * 10**8) for t in range(10**9, 10 * 10**9, 10**9))
        text += "k 1 500000000 7 warm up\nc 9800000000 9900000000 8 copy\nf 0 0 8 fill\ndropped 3\n"
        records, dropped = gpustats.read_kernels(text)
        self.assertEqual((len(records), dropped), (11, 3))
        share, with_copies, begin = gpustats.busy(records, [1.0] * 4)
        self.assertEqual(begin, 5800000000)  # the fifth second's kernel ends here
        self.assertAlmostEqual(share, 0.8)
        self.assertAlmostEqual(with_copies, 0.8)  # the copy came after the last kernel
        self.assertEqual(gpustats.longest(records, begin), [(1.0, 4, "gemm<float, 1>")])

    def test_an_unfinished_record_is_refused(self):
        for text in ("", "k 1 2 7 gemm\n"):
            self.assertRaises(ValueError, gpustats.read_kernels, text)
        self.assertRaises(ValueError, gpustats.busy, [("c", 1, 2, 7, "copy")], [1.0])


class Speed(unittest.TestCase):
    def test_the_medians_decide(self):
        self.assertEqual(gpustats.speed_verdict([90, 101, 300], [100, 1, 200], 0.96), (True, 1.01))
        self.assertEqual(gpustats.speed_verdict([99], [100], 0.99), (False, 0.99))

    def test_idle_time_fails_and_unknown_idle_time_is_not_judged(self):
        self.assertEqual(gpustats.speed_verdict([200], [100], 0.9499), (False, 2.0))
        self.assertEqual(gpustats.speed_verdict([200], [100], None), (None, 2.0))
        self.assertEqual(gpustats.speed_verdict([50], [100], None), (False, 0.5))


class Losses(unittest.TestCase):
    def runs(self, n, seed=1, noise=1e-3):
        """Makes losses of @n runs that differ by autocorrelated noise: each step moves the
        deviation of a run a little."""
        rnd, out = random.Random(seed), []
        for _ in range(n):
            off, run = 0.0, []
            for t in range(200):
                off = 0.9 * off + rnd.gauss(0, noise)
                run.append((5.5 - 3 * t / 200) * (1 + off))
            out.append(run)
        return out

    def test_a_run_of_the_same_kind_is_within_the_noise(self):
        good = sum(gpustats.within_noise(*self.runs(3, seed))[0] for seed in range(200))
        self.assertGreaterEqual(good, 198)

    def test_a_run_that_is_elsewhere_is_not(self):
        ours, a, b = self.runs(3)
        for wrong in ([x * 1.02 for x in ours],                                      # an offset
                      [x * (1 + 1e-4 * t) for t, x in enumerate(ours)],              # learns slower
                      [x + (0.5 if t == 150 else 0) for t, x in enumerate(ours)],    # one step
                      [float("nan")] * 200, [float("inf")] + ours[1:]):
            self.assertFalse(gpustats.within_noise(wrong, a, b)[0])

    def test_size_and_drift_are_held_each_by_itself(self):
        a, b = [1.01, 0.99] * 100, [0.99, 1.01] * 100  # noise 0.02 about 1
        self.assertTrue(gpustats.within_noise([1.03, 0.97] * 100, a, b)[0])
        self.assertFalse(gpustats.within_noise([1.05, 0.95] * 100, a, b)[0])  # no drift
        self.assertTrue(gpustats.within_noise([1.0] * 150 + [1.035] * 50, a, b)[0])
        ok, figures = gpustats.within_noise([1.0] * 150 + [1.045] * 50, a, b)  # rms 0.0225
        self.assertFalse(ok)
        self.assertAlmostEqual(figures["drift"], 0.045)
        self.assertLess(figures["distance"], 0.03)

    def test_two_runs_without_noise_say_nothing(self):
        ours, a, _ = self.runs(3)
        self.assertFalse(gpustats.within_noise(a, a, a)[0])
        self.assertFalse(gpustats.within_noise(ours, a, a)[0])
        self.assertRaises(ValueError, gpustats.within_noise, ours[1:], a, a)

    def test_learning(self):
        self.assertTrue(gpustats.falls(self.runs(1)[0]))
        self.assertFalse(gpustats.falls([5.0] * 200))


class Machine(unittest.TestCase):
    def test_cards_are_known_by_name(self):
        for name, flops in (("NVIDIA H200", 989e12), ("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA H100 PCIe", 756e12),
                            ("NVIDIA A100-SXM4-40GB", 312e12), ("NVIDIA GeForce RTX 4090", 165e12), ("Other", None)):
            self.assertEqual(gpu.peaks(name)[0], flops)

    def test_a_driver_that_fails_is_named(self):
        with mock.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("x", 1)):
            self.assertIn("does not answer", gpu.look()["missing"])
        with mock.patch("subprocess.run", return_value=mock.Mock(returncode=-11)):
            self.assertIn("status -11", gpu.look()["missing"])

    def test_a_pytorch_that_does_not_load_in_time_is_named(self):
        with mock.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("x", 1)):
            self.assertRegex(gpu.torch_python()[1], "PyTorch .* 120 seconds")

    def test_without_a_gpu_each_claim_names_what_is_missing(self):
        env = dict(os.environ, HSPMD_SEED="5")
        if "missing" not in gpu.look():
            self.skipTest("there is a GPU here")
        for claim in CLAIMS:
            r = subprocess.run([sys.executable, "-B", os.path.join(SRC, "tests/claims", claim)], capture_output=True,
                               text=True, env=env)
            last = json.loads(r.stdout.splitlines()[-1])
            self.assertEqual((r.returncode, last["claim"], last["holds"], last["seed"]), (77, claim, None, 5))
            self.assertRegex(last["figures"]["missing"], "driver|GPU")


class Rows(unittest.TestCase):
    def report(self, **more):
        return "words\n" + json.dumps(dict({"claim": "c", "holds": True,
                                            "figures": {"x": 0.123456, "y": "a|b"}, "seed": 1,
                                            "seconds": 2.0}, **more))

    def test_a_row_takes_its_place_in_the_table(self):
        must = "| claim | what must hold |\n|---|---|\n| a | x |\n\n"
        head = must + "| claim | holds | figures | seed | seconds |\n|---|---|---|---|---|\n"
        table = head + "| a | yes | x 1 | 1 | 2 |\n| ab | yes | y 1 | 1 | 2 |\nend\n"
        self.assertEqual(row.placed(table, "a", "| a | NO |"), head + "| a | NO |\n| ab | yes | y 1 | 1 | 2 |\nend\n")
        self.assertEqual(row.placed(table, "b", "| b | NO |"),
                         head + "| a | yes | x 1 | 1 | 2 |\n| ab | yes | y 1 | 1 | 2 |\n| b | NO |\nend\n")
        self.assertEqual(row.placed(head, "a", "| a | NO |"), head + "| a | NO |\n")

    def test_a_report_becomes_a_row(self):
        self.assertEqual(row.row("c", 0, self.report()), ("| c | yes | x 0.1235, y a/b | 1 | 2 |", True))
        self.assertEqual(row.row("c", 77, self.report(holds=None))[1], None)
        self.assertEqual(row.row("c", 1, self.report(holds=False))[1], False)

    def test_what_does_not_agree_does_not_hold(self):
        for rc, text in ((1, self.report()), (0, self.report(holds=None)), (0, self.report(claim="d")), (0, ""),
                         (0, self.report(holds=1)), (-9, "no report")):
            line, holds = row.row("c", rc, text)
            self.assertEqual((holds, line.split(" | ")[1]), (False, "NO"))


CLAIM = """#!/usr/bin/env python3
import os, subprocess, sys, time
sys.path.insert(0, %r)
from report import Claim, say
def body(claim):
    claim.figures = {"rows": 1}
    orphan = subprocess.run(["sh", "-c", "sleep 600 >&2 & echo $!"], stdout=subprocess.PIPE,
                            text=True, start_new_session=True).stdout
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open(os.environ["PIDS"], "w") as f:
        print(claim.dir, os.getpid(), child.pid, orphan, file=f)
    os.rename(os.environ["PIDS"], os.environ["PIDS"] + ".all")
    while True:
        say("beside waiting")
        time.sleep(0.05)
Claim("c").run(body)
"""
RUN = """
import importlib.machinery, importlib.util, os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, %r)
import gpu
loader = importlib.machinery.SourceFileLoader("check", %r)
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)
class Here:
    where, gpu = sys.argv[1], gpu
    def __init__(self, where): pass
    def __enter__(self): return self
    def __exit__(self, *exc): pass
    def describe(self): pass
gpu.look = lambda: {}
check.Here, check.CLAIMS, check.find_bundle = Here, {"c": 1, "d": 1}, lambda: None
sys.exit(check.main(["run"]))
"""


class Ending(unittest.TestCase):
    """A claim with two processes that a signal to its own group does not reach."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.where, self.pids = folder.name, []
        os.makedirs(self.where + "/tests/claims")
        lib = os.path.join(SRC, "tests/claims/lib")
        with open(self.where + "/tests/claims/c", "w") as f:
            f.write(CLAIM % lib)
        self.program = RUN % (lib, os.path.join(SRC, "scripts/gpu-check"))
        self.addCleanup(self.end_all)

    def begin(self):
        path = self.where + "/pids"
        p = subprocess.Popen([sys.executable, "-c", self.program, self.where],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, env=dict(os.environ, PIDS=path))
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.wait_for(lambda: os.path.exists(path + ".all"))
        with open(path + ".all") as f:
            words = f.read().split()
        self.folder, self.pids = words[0], [int(w) for w in words[1:]]
        self.assertEqual(list(map(self.lives, self.pids)), [True] * 3, words)
        return p

    def lives(self, pid):
        try:
            with open("/proc/%d/stat" % pid) as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def wait_for(self, condition):
        late = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), late)
            time.sleep(0.02)

    def end_all(self):
        for pid in filter(self.lives, self.pids):
            os.kill(pid, signal.SIGKILL)

    def test_a_run_that_is_ended_leaves_nothing_and_says_what_it_had(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            p = self.begin()
            p.send_signal(number)
            text = p.communicate(timeout=60)[0]
            self.assertEqual(list(filter(self.lives, self.pids)), [], text)
            self.assertEqual((p.returncode, os.path.exists(self.folder)), (128 + number, False), text)
            self.assertRegex(text, r"\| c \| not judged \| rows 1, missing to be let run: it was ended by SIGTERM \|")
            self.assertIn("| d | not run | ended by %s | | |" % number.name, text)
            os.remove(self.where + "/pids.all")

    def test_a_run_that_nobody_reads_or_that_is_killed_leaves_nothing(self):
        for end, status in ((lambda p: p.stdout.close(), 128 + signal.SIGPIPE), (lambda p: p.kill(), -signal.SIGKILL)):
            p = self.begin()
            end(p)
            self.assertEqual(p.wait(60), status)
            self.wait_for(lambda: not any(map(self.lives, self.pids)) and not os.path.exists(self.folder))
            os.remove(self.where + "/pids.all")


HANGS = """
import sys, time
sys.path.insert(0, %r)
import harness, onegpu
from report import Claim, Failed
class Stands(harness.Cluster):
    def __init__(self, *_): pass
    def __enter__(self): return self
    def __exit__(self, *exc): pass
    def start_worker(self, *args, **more): pass
    def node_state(self, name): return "ready"
    def submit(self, path): pass
    def job(self, name): return {"state": "running", "epoch": 1, "step": 7}
    def wait(self, job, condition, timeout):
        time.sleep(timeout)
        raise Failed("no " + condition)
onegpu.Cluster, onegpu.write_job, onegpu.four = Stands, lambda *args: "", lambda *args: ""
Claim("c").run(lambda claim: onegpu.together(claim, {"train": {"steps": 100}}, {}))
"""


class Waits(unittest.TestCase):
    def test_a_job_that_hangs_does_not_hold_however_soon_the_claim_ends(self):
        r = subprocess.run([sys.executable, "-B", "-c", HANGS %
                            os.path.join(SRC, "tests/claims/lib")], capture_output=True, text=True,
                           env=dict(os.environ, HSPMD_LIMIT="2"))
        self.assertEqual((r.returncode, json.loads(r.stdout.splitlines()[-1])["holds"]), (1, False),
                         r.stdout + r.stderr)

    def test_waits_end_before_the_alarm(self):
        for limit in (report.LIMIT, 470, 100):
            with mock.patch.multiple(report, SHORTER=limit, MARGIN=min(18, limit // 10)):
                claim = mock.Mock(spec=report.Claim, over=False, start=time.monotonic())
                self.assertLess(report.Claim.left(claim), limit - 9)

    def wait(self, steps, left):
        """Calls onegpu.go_on with a cluster whose waits all time out: @steps has the step of the
        job at the start and after each wait, @left the seconds left to the claim."""
        cluster, claim = mock.Mock(), mock.Mock()
        claim.late.side_effect = report.Unjudged
        claim.left.side_effect = left
        cluster.wait.side_effect = report.Failed
        cluster.job.side_effect = [{"step": s} for s in steps]
        onegpu.go_on(claim, cluster, "j", "done")

    def test_what_stands_still_fails_and_what_is_slow_is_late(self):
        self.assertRaises(report.Failed, self.wait, [7, 7], [300])
        self.assertRaises(report.Failed, self.wait, [7, 9, 8], [300, 210, 210])
        self.assertRaises(report.Failed, self.wait, [7, 7], [5])
        self.assertRaises(report.Unjudged, self.wait, [7, 9], [5, -5])

    def test_a_wait_of_a_disturbed_run_ends_with_its_claim(self):
        cluster, claim = mock.Mock(), mock.Mock()
        claim.late.side_effect = report.Unjudged
        claim.left.side_effect = left = [5, 0, 5, 0, 5, 2]
        cluster.wait.side_effect = report.Failed
        for own, end in (("", report.Failed), ("job.yaml", report.Unjudged), ("job.yaml", report.Failed)):
            with mock.patch.dict(os.environ, HSPMD_JOB=own):
                self.assertRaises(end, equality.disturb, claim, cluster, "j", 1, [(9, "join")])
                self.assertEqual(cluster.wait.call_args, mock.call("j", "step=9", left[0]))


class Bundle(unittest.TestCase):
    GOOD = "CC = gcc\ncuda_reason = \nhave_cuda = yes\nhave_cupti = yes\n"

    def test_a_build_that_lacks_something_says_what_and_what_to_do(self):
        self.assertIsNone(check.unfit(self.GOOD, "b"))
        for makefile, words in (
                (self.GOOD.replace("have_cuda = yes", "have_cuda = no").replace("reason = ", "reason = no nvcc"),
                 r"no CUDA backend \(no nvcc\).* --with-cuda=DIR"),
                (self.GOOD.replace("have_cupti = yes", "have_cupti = no"), r"cupti\.h.* kerneltime\.so .* install"),
                ("", "no CUDA backend")):
            why = check.unfit(makefile, "b")
            self.assertRegex(why, "^b .*" + words)
            self.assertNotIn("\n", why)

    def test_the_makefile_holds_what_configure_found(self):
        with open(os.path.join(BUILD, "Makefile")) as f:
            makefile = f.read()
        with open(os.path.join(BUILD, "config.status")) as f:
            found = dict(re.findall(r'^S\["HAVE_(CUDA|CUPTI)_TRUE"\]="(#?)"', f.read(), re.M))
        for name in ("CUDA", "CUPTI"):
            self.assertEqual(check.configured(makefile, "have_" + name.lower()), "no" if found[name] else "yes")
        self.assertEqual(check.configured(makefile, "cuda_reason") == "", found["CUDA"] == "")

    def test_what_is_not_built_or_did_not_arrive_is_named(self):
        with tempfile.TemporaryDirectory() as where:
            self.assertRaisesRegex(check.Trouble, "kerneltime.so is not built in " + where,
                                   check.module, where, "kerneltime.so")
            os.makedirs(where + "/tests/bench")
            for name in ("a", "tests/bench/kerneltime.so"):
                open(os.path.join(where, name), "w").close()
            self.assertEqual(check.module(where, "kerneltime.so"), where + "/tests/bench/kerneltime.so")
            files = {"a": 0, "tests/bench/kerneltime.so": 1, "lib/c": 0}
            self.assertEqual(check.absent(where, {"files": files}), ["tests/bench/kerneltime.so", "lib/c"])

    def test_a_list_that_did_not_arrive_is_named(self):
        for text in ("", "{}", '{"machine": "x', '{"machine": "x86_64", "files": 3}', "[]"):
            with tempfile.TemporaryDirectory() as where:
                with open(os.path.join(where, check.MANIFEST), "w") as f:
                    f.write(text)
                self.assertRaisesRegex(check.Trouble,
                                       "did not arrive whole, bring it again: MANIFEST.json", check.Here, where)

    def test_the_script_of_each_claim_travels(self):
        for name in check.CLAIMS:
            path = check.script(name)
            self.assertTrue(os.access(os.path.join(SRC, path), os.X_OK), path)
            self.assertTrue(any(path == s or path.startswith(s + "/") for s in check.SOURCES), path)
        self.assertEqual(next(iter(check.CLAIMS)), "first-light")

    def test_libraries_are_sorted_by_whose_they_are(self):
        for name in ("libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libpthread.so.0", "libmvec.so.1"):
            self.assertTrue(check.GLIBC.match(name), name)
        for name in ("libcap.so.2", "libcrypto.so.3", "libmicrohttpd.so.12", "libnettle.so.8", "libresolve.so.1"):
            self.assertFalse(check.GLIBC.match(name) or check.NVIDIA.match(name) or check.GCC.match(name), name)
        for name in ("libcublasLt.so.13", "libcudart.so.13", "libcudnn_graph.so.9", "libnccl.so.2", "libcuda.so.1",
                     "libnvidia-ml.so.1", "libcupti.so.13"):
            self.assertTrue(check.NVIDIA.match(name), name)
        self.assertTrue(check.GCC.match("libstdc++.so.6") and check.GCC.match("libgcc_s.so.1"))

    def test_needs_are_found_recursively(self):
        found, nvidia = check.libraries([os.path.join(BUILD, "hspmd-worker")])
        self.assertIn("libc.so.6", found)
        self.assertIn("libgcrypt.so.20" if "libsystemd.so.0" in found else "libuv.so.1", found)
        self.assertEqual(nvidia, [])
        self.assertTrue(all(os.path.exists(p) for p in found.values()))
        self.assertGreaterEqual(check.newest([os.path.join(BUILD, "hspmd-worker")], "GLIBC"), (2, 14))

    def test_programs_for_an_older_machine_start_with_the_loader_of_the_bundle(self):
        with tempfile.TemporaryDirectory() as where:
            os.makedirs(where + "/real")
            os.makedirs(where + "/glibc")
            path = check.interpreter(os.path.join(BUILD, "hspmdctl"))
            check.copy(os.path.join(BUILD, "hspmdctl"), where + "/real/hspmdctl")
            found, _ = check.libraries([os.path.join(BUILD, "hspmdctl")])
            for name in filter(check.GLIBC.match, found):
                check.copy(found[name], where + "/glibc/" + name)
            folder = check.with_our_glibc(where, {"interpreter": path, "programs": ["hspmdctl"]})
            try:
                program = folder + "/real/hspmdctl"
                self.assertEqual(check.interpreter(program), folder + "/ld")
                r = subprocess.run([program, "--version"], capture_output=True, text=True,
                                   env=dict(os.environ, LD_LIBRARY_PATH=where + "/glibc", LD_DEBUG="libs"))
                self.assertEqual(r.returncode, 0, r.stderr[-500:])
                self.assertIn(where + "/glibc/libc.so.6", r.stderr)
            finally:
                check.shutil.rmtree(folder)

    def test_large_files_travel_small(self):
        with tempfile.TemporaryDirectory() as where:
            data = b"hspmd" * (check.SQUEEZED_BYTES // 4)
            with open(where + "/big.so", "wb") as f:
                f.write(data)
            with open(where + "/small.so", "wb") as f:
                f.write(b"x")
            check.squeeze(where)
            self.assertEqual(sorted(os.listdir(where)), ["big.so.xz", "small.so"])
            check.expand(where)
            check.expand(where)
            with open(where + "/big.so", "rb") as f:
                self.assertEqual(f.read(), data)

    def test_what_did_not_arrive_whole_is_named(self):
        with tempfile.TemporaryDirectory() as where:
            with open(where + "/big.so", "wb") as f:
                f.write(random.Random(1).randbytes(check.SQUEEZED_BYTES))
            check.squeeze(where)
            os.truncate(where + "/big.so.xz", 1000)
            self.assertRaisesRegex(check.Trouble, "big.so.xz", check.expand, where)

    def bundle_that_lost_its_permissions(self, where):
        os.makedirs(where + "/real")
        for name in check.PROGRAMS:
            for path, text in ((name, check.START % (".", name)), ("real/" + name, "#!/bin/sh\nexit 0\n")):
                with open(os.path.join(where, path), "w") as f:
                    f.write(text)
                os.chmod(os.path.join(where, path), 0o444)
        with open(os.path.join(where, check.MANIFEST), "w") as f:
            f.write("{}")
        return {"programs": check.PROGRAMS, "interpreter": "/lib64/ld-linux-x86-64.so.2"}

    def test_permissions_that_a_transfer_took_are_given_back(self):
        with tempfile.TemporaryDirectory() as where:
            m = self.bundle_that_lost_its_permissions(where)
            self.assertEqual(check.settle(where, m), (where, False))
            self.assertEqual(subprocess.run([where + "/hspmdctl"]).returncode, 0)

    def test_a_copy_is_used_where_that_cannot_be_done(self):
        with tempfile.TemporaryDirectory() as where:
            m, access = self.bundle_that_lost_its_permissions(where), os.access
            with mock.patch("sys.stdout", io.StringIO()) as out, \
                    mock.patch("os.access", lambda p, mode:
                               False if (p, mode) == (where, os.W_OK) else access(p, mode)):
                other, is_copy = check.settle(where, m)
            try:
                self.assertTrue(is_copy and where in out.getvalue())
                self.assertEqual(subprocess.run([other + "/hspmdctl"]).returncode, 0)
                self.assertFalse(access(where + "/hspmdctl", os.X_OK))
                with mock.patch.dict(os.environ, HSPMD_BUILD=other):
                    self.assertEqual(check.find_bundle(), other)
            finally:
                check.shutil.rmtree(os.path.dirname(other))

    def test_a_machine_without_a_cache_of_libraries_is_no_trouble(self):
        with mock.patch("subprocess.run",
                        return_value=mock.Mock(returncode=1, stdout="", stderr="Can't open cache file")):
            self.assertIsNone(check.cached("libc.so.6"))
        self.assertIsNotNone(check.cached("libc.so.6"))

    def test_a_wrong_command_says_how(self):
        for args, rc in ((["--help"], 0), ([], 2), (["run", "--fast"], 2),
                         (["bundle", "a", "b"], 2), (["run", "nothing"], 1)):
            with mock.patch("sys.stdout", io.StringIO()) as out, mock.patch("sys.stderr", io.StringIO()) as err:
                self.assertEqual(check.main(args), rc, args)
            self.assertIn("gpu-check", out.getvalue() + err.getvalue())


if __name__ == "__main__":
    unittest.main()
