#!/usr/bin/env python3
"""tune_test.py TUTTI FAKE_DRIVER_FOLDER KERNELS_ON_FAKE: `tutti tune --on gpu` on the fake driver: it writes lines that GPUs'
calls choose by, and says that a fake was measured."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import harness
from harness import Case, tutti

harness.PROGRAM, DRIVER, KERNELS = sys.argv[1:4]
del sys.argv[1:4]
LIMIT = 100


def on_fake(*words, devices=1, **more):
    return tutti(*words, limit=LIMIT,
                 env=dict(LD_LIBRARY_PATH=DRIVER, LD_PRELOAD=KERNELS, FAKE_CUDA_DEVICES=str(devices), **more))


def has_driver():
    """Other than the fake, in whose folder Meson lets this process look for libraries, too."""
    load = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]
    return subprocess.run(load, env=dict(os.environ, LD_LIBRARY_PATH=""), capture_output=True, timeout=60).returncode == 0


class Tuning(Case):
    def setUp(self):
        super().setUp()
        self.table = self.folder / "my.tuning"

    def lines(self):
        return [line.split() for line in self.table.read_text().splitlines() if line and not line.startswith("#")]

    def tune(self, *words, **settings):
        done = on_fake("tune", "--on", "gpu", "--time", "4", "-o", self.table, *words, **settings)
        self.assertEqual(done.code, 0, done)
        return done

    def test_ranks_that_share_a_gpu(self):
        done = self.tune("all_reduce", "all_gather", "-g", "2,3", "-e", "4K")
        self.assertSays(done.out, r"of \d+ points", f"export TUTTI_TUNING_FILE={self.table}")
        self.assertRegex(self.table.read_text().splitlines()[0], r"^# Measured by .* and fake GPU \(1 GPU\), driver: fake;")
        for collective, kind, _, _, algorithm in self.lines():
            self.assertIn(collective, ("all_reduce", "all_gather"))
            self.assertEqual(kind, "cuda_leader")
            self.assertRegex(algorithm, "^(direct|direct_two_shot|all_pairs.*|staged)$")
        self.assertEqual({line[0] for line in self.lines()}, {"all_reduce", "all_gather"})

    def test_ranks_with_a_gpu_each_and_links(self):
        self.tune("broadcast", "-g", "2", "-e", "4K", "--transport", "cuda_peers,cuda_ipc", devices=2)
        self.assertEqual({line[1] for line in self.lines()}, {"cuda_peers", "cuda_ipc"})
        self.assertIn("and fake GPU (2 GPUs), driver: fake;", self.table.read_text())

    def test_each_kind_is_measured_as_its_calls_run(self):
        for kind, by_kernels in (("cuda_ipc", False), ("cuda_peers", True)):
            with self.subTest(kind=kind):
                done = self.tune("broadcast", "-g", "2", "-e", "4", "--transport", kind, "--force", devices=2,
                                 TUTTI_DEBUG="INFO", TUTTI_DEBUG_SUBSYS="SHM", TUTTI_GPU_MODE="staged")
                said = re.findall("calls on device memory (?:run on streams|are staged).*", done.out + done.err)
                self.assertEqual({("run on streams" in one, "or by kernels" in one) for one in said}, {(True, by_kernels)}, said)

    def choice(self, **settings):
        """Where an all_reduce of 4 MiB ran, which without a table a leader makes."""
        done = on_fake("bench", "all_reduce", "-g", "2", "--on", "gpu", "-b", "4M", "-e", "4M", "-n", "1", "-w", "0",
                       TUTTI_DEBUG="INFO", TUTTI_DEBUG_SUBSYS="TUNE", **settings)
        self.assertEqual(done.code, 0, done)
        return set(re.findall(r"all_reduce of 4194304 bytes over (\w+) among 2 ranks: (\w+)", done.out + done.err))

    def test_what_is_written_is_chosen_by(self):
        self.assertEqual(self.choice(), {("cuda_leader", "direct")})
        self.tune("all_reduce", "-g", "2", "-b", "4M", "-e", "4M")
        (line,) = self.lines()
        # Which is faster depends on the machine, so that each is made the result.
        for algorithm in ("staged", "direct_two_shot"):
            self.table.write_text(re.sub(rf"(?m)\b{line[4]}$", algorithm, self.table.read_text()))
            line[4] = algorithm
            choice = self.choice(TUTTI_TUNING_FILE=str(self.table))
            if algorithm == "staged":
                self.assertEqual({transport for transport, _ in choice}, {"shm"})
            else:
                self.assertEqual(choice, {("cuda_leader", algorithm)})

    def test_judges_a_table(self):
        self.table.write_text("all_gather cuda_leader 2 * staged\n")
        done = on_fake("tune", "--on", "gpu", "--check", "all_gather", "-g", "2", "-e", "1K", "--time", "3", "--table",
                       self.table)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, "choices of .*my.tuning", r"all_gather +cuda_leader +2 +4 +staged")

    def test_wrong_words_are_told(self):
        for words, reason in (
                (("barrier",), "a barrier has no memory that could be on a GPU; leave out --on gpu"),
                (("--transport", "shm"), 'no transport "shm" of GPUs.* There are cuda_leader, cuda_peers, cuda_ipc'),
                (("--transport", ","), "--transport takes some of cuda_leader, cuda_peers, cuda_ipc|no transport \"\" of GPUs"),
                (("--transport", "cuda_peers"), "cuda_peers needs a GPU for each of 2 ranks, and there is 1"),
                (("-g", "17", "--transport", "cuda_leader"), "cuda_leader is for up to 16 ranks, not 17")):
            with self.subTest(words=words):
                done = on_fake("tune", "--on", "gpu", *words, "-o", self.table)
                self.assertEqual(done.code, 6, done)
                self.assertSays(done.err, reason)
        self.assertSays(tutti("tune", "--on", "tpu").err, '--on takes host or gpu, not "tpu"')
        self.assertFalse(self.table.exists())

    def refused(self, driver, sentence):
        done = tutti("tune", "--on", "gpu", "-o", self.table, env=dict(LD_LIBRARY_PATH=driver, FAKE_CUDA_DEVICES="0"))
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, f"^tutti: tune: --on gpu needs a GPU: {sentence}")
        self.assertEqual(done.err.count("\n"), 1, done)
        self.assertFalse(self.table.exists())

    def test_without_a_gpu_one_sentence_says_so(self):
        self.refused(DRIVER, "the NVIDIA driver finds no GPU; see in nvidia-smi whether the machine has one")

    @unittest.skipIf(has_driver(), "this machine has a driver, with a GPU or without")
    def test_without_a_driver_one_sentence_says_so(self):
        self.refused(str(self.folder), "there is no NVIDIA driver")


if __name__ == "__main__":
    unittest.main()
