#!/usr/bin/env python3
"""Tests first light (tests/gpu) without a GPU: the page that it makes from sample outputs of its
programs, its verdict, and a whole run on an emulated GPU (tests/lib/mockdevgpu)."""
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True  # the source tree stays as it is
SRC = os.path.abspath(os.environ.get("HSPMD_SRC", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")))
BUILD = os.path.abspath(os.environ.setdefault("HSPMD_BUILD", os.path.join(SRC, "build")))
MOCKDEVS = os.path.join(BUILD, "tests/lib/mockdevgpu")
OP_SPEED = os.path.join(BUILD, "tests/gpu/op_speed")
sys.path.insert(0, os.path.join(SRC, "tests/gpu"))
import first_light  # noqa: E402
import page  # noqa: E402
import torch_speed  # noqa: E402
from report import Claim, Unjudged  # noqa: E402

R = page.Result
PROBE = json.dumps({"name": "NVIDIA H200", "sm": 90, "memory_bytes": 141 << 30, "gemm_bf16_flops": 7.1e14,
                    "gemm_fp32_flops": 5e13, "mem_bytes_per_s": 4.2e12, "host_bytes_per_s": 5.4e10, "op_us": 2.5})
GOOD_SUITE = "".join("[ RUN      ] test_%d\n[       OK ] test_%d\n" % (i, i)
                     for i in range(6)) + "[  PASSED  ] 6 test(s).\n"
BAD_SUITE = """[ RUN      ] every_op
ERROR: linear bf16 operand 2 element 7: 1.5, expected 2, off by 0.5, tolerance 0.01
[  ERROR   ] --- [   LINE   ] --- opsuite.c:315: error: Failure!
[  FAILED  ] every_op
[ RUN      ] replay
[       OK ] replay
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] every_op
"""
CALLS = """context 1.52 s, 1210 of 143771 MiB taken
cublasLtCreate 0.31 s, 1242 of 143771 MiB taken
launch of a kernel, the first                    ok         0.021 ms
cudaMalloc of 512 MiB                            BLOCKS  1000.412 ms
cudaGraphExecUpdate, cudaGraphLaunch             FAILED     0.100 ms invalid argument
cudaMallocAsync, cudaFreeAsync                   ok         0.020 ms
kernels that waited: 10 of 10
calls that failed: 1
"""
GOOD_CALLS = re.sub(".* FAILED .*\n|calls that.*\n", "", CALLS)
OURS = """attention gpt2-s1024 forward hspmd 400.0 us 128.8 TFLOP/s
attention gpt2-s1024 backward hspmd 1000.0 us 128.8 TFLOP/s
product gpt2-q y hspmd 60.0 us 644.2 TFLOP/s
product gpt2-q dx hspmd 61.0 us 633.7 TFLOP/s
product gpt2-head dw hspmd refused: no memory for 2000000000000 bytes
"""
THEIRS = """attention gpt2-s1024 forward torch 300.0 us 171.8 TFLOP/s
attention gpt2-s1024 backward torch 800.0 us 161.1 TFLOP/s
attention gpt2-s1024 forward cudnn 300.0 us 171.8 TFLOP/s
attention gpt2-s1024 forward flash refused: No available kernel. Aborting execution.
product gpt2-q y torch 57.0 us 678.1 TFLOP/s
"""
NETLINK = """NCCL 2.28.9
allowed getifaddrs: ok
allowed ncclGetUniqueId: ok
refused getifaddrs: Address family not supported by protocol
"""


def key(name):
    return re.sub(r"\W+", "_", name)


def results(**more):
    """Returns the Results of a run without faults. @more replaces some of them: key(name of the
    program) = the other fields of its Result."""
    out = [R("probe", 0, 9.8, PROBE), R("device_test, seed 1", 0, 21, GOOD_SUITE),
           R("device_test, seed 2", 0, 20, GOOD_SUITE),
           R(page.AS_HSPMD, 0, 8, GOOD_CALLS), R(page.AS_CUDA, 0, 9, GOOD_CALLS), R("op_speed", 0, 5, OURS),
           R("torch_speed", 0, 30, THEIRS),
           R("netlink", 0, 1, NETLINK)]
    return [R(r.name, *more[k]) if k in more else r for r in out for k in [key(r.name)]]


class Reading(unittest.TestCase):
    def test_calls_that_block_fail_or_never_end(self):
        self.assertEqual([c[:2] for c in page.calls(CALLS)],
                         [("launch of a kernel, the first", "ok"), ("cudaMalloc of 512 MiB", "BLOCKS"),
                          ("cudaGraphExecUpdate, cudaGraphLaunch", "FAILED"), ("cudaMallocAsync, cudaFreeAsync", "ok")])
        cut = CALLS[:CALLS.index("BLOCKS")]
        self.assertEqual(page.calls(cut)[-1], ("cudaMalloc of 512 MiB", "NO END", ""))
        lines = page.calls_lines(R("beside", None, 45, cut))
        self.assertEqual((lines[0], lines[1].split()), ("beside: 1 of 2 block", "NO END cudaMalloc of 512 MiB".split()))

    def test_every_call_of_the_program_is_read(self):
        with open(os.path.join(SRC, "tests/gpu/blocking_calls.cu")) as f:
            names = re.findall(r'attempt\("([^"]+)"', f.read())
        self.assertGreaterEqual(len(names), 20)
        # as attempt() prints
        text = "".join("%-48s %-6s %9.3f ms\n" % (n, "BLOCKS", 1.5) for n in names)
        self.assertEqual([(c, word) for c, word, _ in page.calls(text)], [(n, "BLOCKS") for n in names])

    def test_speeds_are_laid_side_by_side(self):
        table = page.speeds(OURS, THEIRS)
        row = table["attention", "gpt2-s1024", "forward"]
        self.assertEqual((page.ratio(row, "torch"), page.ratio(row, "flash")), (0.75, None))
        self.assertEqual(table["product", "gpt2-q", "dx"], {"hspmd": (61.0, 633.7)})
        self.assertNotIn(("product", "gpt2-head", "dw"), table)

    def test_a_suite_that_failed_says_which_test_and_why(self):
        self.assertEqual(page.suite_counts(BAD_SUITE), (1, ["every_op"]))
        self.assertRegex(page.suite_line(R("s", 1, 3, BAD_SUITE)),
                         "FAILED every_op; 1 passed; exit 1: linear bf16 operand 2")
        self.assertEqual(page.suite_line(R("s", 0, 3, GOOD_SUITE)), "s: 6 passed in 3 s")
        self.assertRegex(page.suite_line(R("s", -11, 3, "[ RUN      ] x\n")),
                         r"FAILED as a whole; 0 passed; signal 11: \[ RUN")

    def test_what_is_missing_is_no_failure(self):
        for status, text, what in (
                (127, "x: error while loading shared libraries: libcublasLt.so.13: cannot open",
                 "the library libcublasLt.so.13"),
                (77, "words\nop_speed: no GPU: no driver\n", "no driver"),
                (77, "torch_speed.py: no PyTorch: no\n", "no PyTorch: no"),
                (0, "1..0 # SKIP there is none\n", "there is none"),
                (1, "hspmd-worker: no GPU: driver version is insufficient\n", "driver version is insufficient")):
            r = R("x", status, 1, text)
            self.assertEqual((page.missing(r), page.failure(r)), (what, None))
        lost = "[ RUN      ] b_gemm\n[  FAILED  ] b_gemm\ncuda: no GPU: unspecified launch failure\n"
        for status, text in ((1, lost), (page.NOT_RUN, "disk full"), (1, "GPU 0 has failed\n"),
                             (127, "sh: not found"), (-6, ""), (None, "")):
            r = R("x", status, 45, text)
            self.assertIsNone(page.missing(r))
            self.assertTrue(page.failure(r))


class Judging(unittest.TestCase):
    def test_all_that_ran_to_its_end_holds_also_where_calls_block(self):
        holds, figures = page.verdict(results())
        self.assertIs(holds, True)
        self.assertEqual(figures,
                         {"tests": 12, "blocking": 1, "least attention/torch": 0.75, "least product/torch": 0.95})

    def test_a_failure_decides_over_what_is_missing(self):
        gone = (77, 0, "PyTorch that sees the GPU")
        self.assertIsNone(page.verdict(results(torch_speed=gone))[0])
        self.assertIn("PyTorch", page.verdict(results(torch_speed=gone))[1]["missing"])
        for more in ({"device_test_seed_2": (1, 9, BAD_SUITE)}, {"op_speed": (1, 9, "op_speed: GPU 0 has failed\n")},
                     {key(page.AS_HSPMD): (None, 45, GOOD_CALLS)}, {"probe": (-11, 1, "")}):
            holds, figures = page.verdict(results(torch_speed=gone, **more))
            self.assertIs(holds, False, more)
            self.assertTrue(figures["failed"])


class Page(unittest.TestCase):
    FACTS = [("run", ["2026-11-24 10:00 UTC, hspmd 1234567"]), ("driver", ["580.159.04, with CUDA 13.0"]),
             ("libraries", ["/usr/lib/libcublasLt.so.13", "libnccl.so is not here"]),
             ("peer", ["PyTorch 2.11.0 CUDA 13.0"])]

    def text(self, **more):
        return page.page(self.FACTS, results(**more), "/tmp/logs")

    def test_a_good_run(self):
        text = self.text()
        for words in ("device     opens, measured in 10 s: NVIDIA H200, sm_90, 141 GiB", "products 710 TFLOP/s in bf16",
                      "context 1.52 s, 1210 of 143771 MiB taken", "driver     580.159.04", "libnccl.so is not here",
                      "device_test, seed 2: 6 passed in 20 s",
                      page.AS_CUDA + ": 1 of 3 block; kernels that waited: 10 of 10",
                      "  BLOCKS  cudaMalloc of 512 MiB\n",
                      "gpt2-s1024      forward     128.8     0.75     0.75        -",
                      "gpt2-q                644.2    0.95       633.7       -           -       -",
                      "product gpt2-head dw hspmd refused: no memory", "AF_NETLINK refused getifaddrs: Address family",
                      "failed     nothing", "missing    nothing", "logs       /tmp/logs"):
            self.assertIn(words, text)

    def test_calls_that_failed_are_named(self):
        text = self.text(**{key(page.AS_CUDA): (1, 9, CALLS)})
        self.assertIn("  FAILED  cudaGraphExecUpdate, cudaGraphLaunch (0.100 ms invalid argument)\n", text)
        self.assertIn("failed     %s: exit 1: calls that failed: 1\n" % page.AS_CUDA, text)

    def test_it_is_one_page_with_all_shapes_and_every_call_blocking(self):
        shapes = torch_speed.read_shapes(first_light.SHAPES)
        lines = ["%s %s %s %s 10.0 us 1.0 TFLOP/s\n" % (kind, name, part, who) for kind, name, _ in shapes
                 for part in (("forward", "backward") if kind == "attention" else ("y", "dx", "dw"))
                 for who in ("hspmd", "torch")]
        calls = "".join("call %-43d BLOCKS  1000.000 ms\n" % i for i in range(10))
        text = self.text(op_speed=(0, 1, "".join(lines)), torch_speed=(0, 1, ""),
                         **{key(n): (0, 1, calls) for n in (page.AS_HSPMD, page.AS_CUDA)})
        self.assertEqual(text.count("1.00"), 10 + 30)
        self.assertLessEqual(len(text.splitlines()), 80)

    def test_a_device_that_does_not_open_comes_first(self):
        lines = self.text(probe=(1, 1, "hspmd-worker: no GPU: driver version is insufficient\n")).splitlines()
        self.assertEqual(lines[1], "device     does NOT open: driver version is insufficient")
        self.assertIn("missing    probe: driver version is insufficient", lines)
        lines = self.text(probe=(None, 30, "")).splitlines()
        self.assertEqual(lines[1], "device     does NOT open: was ended after 30 s; last: it printed nothing")
        self.assertIn("cannot be read", self.text(probe=(0, 1, "ready\n")).splitlines()[1])

    def test_programs_that_had_nothing_to_say(self):
        text = page.page([], [R(r.name, 77, 0, "more time than 360 s") for r in results()], "/tmp/logs")
        self.assertEqual(len(re.findall("more time than 360 s", text)), 1 + 2 + 2 + 1 + 8)


class Programs(unittest.TestCase):
    def op_speed(self, shapes, **env):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(shapes)
            f.flush()
            return subprocess.run([OP_SPEED, f.name], capture_output=True, text=True,
                                  env=dict(os.environ, **env), timeout=60)

    def test_op_speed_prints_what_the_page_reads(self):
        r = self.op_speed("# nothing\n\nattention a 1 32 4 2 16\nproduct p 8 16 8\nproduct huge 1000000 1000000 8\n",
                          LD_LIBRARY_PATH=MOCKDEVS, HSPMD_PLUGINS=MOCKDEVS)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertEqual(list(page.speeds(r.stdout)), [("attention", "a", "forward"), ("attention", "a", "backward"),
                                                       ("product", "p", "y"),
                                                       ("product", "p", "dx"), ("product", "p", "dw")])
        self.assertRegex(page.refusals(R("", 0, 1, r.stdout))[0],
                         "^product huge y hspmd refused: .*2000000000000 bytes")

    def test_op_speed_names_a_line_that_is_no_shape(self):
        for line in ("attention a 1 32 4 3 16", "product p 8 16", "product p 8 16 8 8",
                     "product p 8 0 8", "sum s 1 1 1",
                     "attention a 999999 999999 999999 1 1"):
            r = self.op_speed("product p 8 8 8\n%s\n" % line, LD_LIBRARY_PATH=MOCKDEVS, HSPMD_PLUGINS=MOCKDEVS)
            self.assertEqual((r.returncode, r.stderr),
                             (2, "op_speed: line 2: neither an attention nor a product: %s\n" % line))

    def test_without_a_gpu_each_names_what_is_missing(self):
        if "missing" not in first_light.gpu.look():
            self.skipTest("there is a GPU here")
        for step in first_light.steps([1], sys.executable):
            if step.name.startswith("netlink") or not os.path.exists(step.args[0]):
                continue
            r = subprocess.run(step.args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            self.assertRegex(page.missing(R(step.name, r.returncode, 1, r.stdout)) or "nothing",
                             "driver|PyTorch", step.name)

    def test_netlink_is_refused_to_nccl(self):
        r = subprocess.run([os.path.join(BUILD, "tests/gpu/netlink_refused")], capture_output=True,
                           text=True, timeout=60)
        if r.returncode == page.MISSING:
            self.skipTest(r.stderr + r.stdout)
        lines = page.netlink_lines(R("netlink", r.returncode, 1, r.stdout))
        self.assertEqual((r.returncode, lines[:2]),
                         (0, ["AF_NETLINK allowed getifaddrs: ok", "AF_NETLINK allowed ncclGetUniqueId: ok"]))
        self.assertTrue(lines[2].startswith("AF_NETLINK refused getifaddrs: ") and not lines[2].endswith("ok"), lines)
        self.assertEqual(len(lines), 4)

    def test_the_shapes_are_those_of_both_programs(self):
        shapes = torch_speed.read_shapes(first_light.SHAPES)
        self.assertEqual({(kind, len(extents)) for kind, _, extents in shapes}, {("attention", 5), ("product", 3)})
        self.assertEqual(len({name for _, name, _ in shapes}), len(shapes))


class Runs(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def run_step(self, *args, seconds=20, left=20, **env):
        with mock.patch("sys.stdout", io.StringIO()):
            return first_light.run(first_light.Step("step", seconds, list(args), env), self.dir.name, left)

    def test_a_program_that_does_not_end_is_ended_and_its_words_stay(self):
        r = self.run_step("/bin/sh", "-c", "echo begun; sleep 60 & sleep 60", seconds=0.5)
        self.assertEqual((r.status, r.text), (None, "begun\n"))
        self.assertLess(r.seconds, 10)
        self.assertEqual(self.run_step("/bin/sh", "-c", "exit 3").status, 3)
        with open(os.path.join(self.dir.name, first_light.LOG)) as f:
            self.assertRegex(f.read(), r"^\n# step: /bin/sh -c echo begun.*\nbegun\n\n# step: .*exit 3\n$")

    def test_each_program_gets_its_settings_and_no_more_than_the_time_left(self):
        with mock.patch.dict(os.environ, CUDA_MODULE_LOADING="LAZY"):
            show = ("/bin/sh", "-c", "echo ${CUDA_MODULE_LOADING-none}")
            self.assertEqual(self.run_step(*show, CUDA_MODULE_LOADING=None).text, "none\n")
            self.assertEqual(self.run_step(*show, CUDA_MODULE_LOADING="EAGER").text, "EAGER\n")
        self.assertEqual(page.missing(self.run_step("/bin/true", left=1)), "more time than 360 s")
        self.assertRegex(page.missing(self.run_step("/nowhere/op_speed")), "/nowhere/op_speed, which is not built")
        self.assertRegex(page.missing(self.run_step(None)), "PyTorch")

    def test_what_cannot_be_run_or_written_is_a_failure(self):
        path = os.path.join(self.dir.name, "no-program")
        with open(path, "w") as f:
            f.write("neither a script nor a program")
        os.chmod(path, 0o755)
        self.assertRegex(page.failure(self.run_step(path)), "^cannot be run, .*Exec format error")
        os.remove(os.path.join(self.dir.name, first_light.LOG))
        os.symlink("/dev/full", os.path.join(self.dir.name, first_light.LOG))
        self.assertRegex(page.failure(self.run_step("/bin/true")), "No space left")

    def test_of_much_that_is_printed_the_end_is_judged(self):
        with mock.patch.object(first_light, "TEXT_BYTES", 100):
            r = self.run_step("/bin/sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x; echo; echo the end")
        self.assertLessEqual(len(r.text), 100)
        self.assertTrue(r.text.endswith("x\nthe end\n"))

    def test_logs_that_cannot_be_kept_are_named(self):
        with mock.patch.dict(os.environ, HSPMD_LOGS="/dev/null/logs"):
            self.assertRaisesRegex(Unjudged, "HSPMD_LOGS.*/dev/null/logs", first_light.log_folder)

    def test_a_whole_run_on_a_gpu_that_is_not_there(self):
        shapes, logs = os.path.join(self.dir.name, "shapes"), os.path.join(self.dir.name, "logs")
        with open(shapes, "w") as f:
            f.write("attention a 1 32 4 2 16\nproduct p 8 16 8\n")
        claim = mock.Mock(spec=Claim, random=random.Random(1), left=lambda limit: limit)
        seen = {"gpus": [{"name": "mockdev", "bytes": 4 << 30, "sm": 90}], "cuda": "13.0"}
        env = {"HSPMD_LOGS": logs, "LD_LIBRARY_PATH": MOCKDEVS, "HSPMD_PLUGINS": MOCKDEVS, "HSPMD_SUITE": "small"}
        with mock.patch.dict(os.environ, env), mock.patch("gpu.look", return_value=seen), \
                mock.patch.object(first_light, "SHAPES", shapes), mock.patch("gpu.plugin", return_value=MOCKDEVS), \
                mock.patch("gpu.torch_python", return_value=(None, "PyTorch")), \
                mock.patch("sys.stdout", io.StringIO()) as out:
            holds, figures = first_light.body(claim)
        text = out.getvalue()
        self.assertIsNone(holds, text)  # no PyTorch
        self.assertEqual((figures["tests"], "PyTorch" in figures["missing"], "failed" in figures),
                         (14, True, False), text)
        for words in ("device     opens, measured in", ": mockdev, sm_90, 4 GiB", "7 passed in",
                      "failed     nothing", "peer       not here"):
            self.assertIn(words, text)
        with open(os.path.join(logs, "page.txt")) as f:
            self.assertIn(f.read(), text)
        self.assertEqual(sorted(os.listdir(logs)), [first_light.LOG, "page.txt"])
        with open(os.path.join(logs, first_light.LOG)) as f:
            self.assertRegex(f.read(),
                             r"^run: (?s:.)*\[       OK \] every_op_matches_the_reference(?s:.)*\n# netlink: ")

    def test_a_run_that_is_ended_prints_what_it_has(self):
        claim = mock.Mock(spec=Claim, random=random.Random(1), left=lambda limit: limit)
        done = [R("probe", 0, 9.8, PROBE), R("device_test, seed 1", 0, 21, GOOD_SUITE),
                Unjudged("to be let run: it was ended by SIGTERM")]
        with mock.patch.dict(os.environ,
                             HSPMD_LOGS=self.dir.name), mock.patch("gpu.look", return_value={"cuda": "13.0"}), \
                mock.patch("gpu.plugin",
                           return_value=MOCKDEVS), mock.patch("gpu.torch_python", return_value=(None, "PyTorch")), \
                mock.patch.object(first_light, "run", side_effect=done), mock.patch("sys.stdout", io.StringIO()) as out:
            holds, figures = first_light.body(claim)
        self.assertEqual((holds, figures["tests"]), (None, 6))
        for words in ("device     opens, measured in 10 s", "device_test, seed 1: 6 passed", "ended by SIGTERM"):
            self.assertIn(words, out.getvalue())


if __name__ == "__main__":
    unittest.main()
