#!/usr/bin/env python3
"""A script for Gloo runs on tutti without a change: `python -m pytutti.torchrun --takeover gloo`."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

import harness


class Takeover(harness.Case):
    def torchrun(self, *words, **variables):
        variables.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", TUTTI_SOCKET_IFNAME="lo")
        return harness.run(sys.executable, "-m", "pytutti.torchrun", *words, env=variables, limit=60)

    def assertRanksSay(self, done, backend, name="gloo"):
        self.assertEqual(done.code, 0, done)
        said = sorted(re.findall(r"word: .*", done.out))
        self.assertEqual(said, [f"word: rank {rank} of 2: [1.0, 3.0, 5.0, 7.0] 1 [[0.5, 0.5]]; {name} is {backend}"
                                for rank in range(2)])

    def test_a_script_for_gloo_runs_as_it_is(self):
        script = str(HERE / "gloo_script.py")
        done = self.torchrun("--takeover", "gloo", "--standalone", "--nproc-per-node", "2", script, "word", "gloo")
        self.assertRanksSay(done, "TuttiBackend")

    def test_so_does_one_that_leaves_the_choice_to_pytorch(self):
        script = str(HERE / "gloo_script.py")
        done = self.torchrun("--takeover", "gloo", "--standalone", "--nproc-per-node", "2", script, "word")
        self.assertRanksSay(done, "TuttiBackend", "undefined")

    def test_pytorch_compares_calls_of_all_ranks_if_it_is_told_to(self):
        script = str(HERE / "gloo_script.py")
        done = self.torchrun("--takeover", "gloo", "--standalone", "--nproc-per-node", "2", script, "word", "gloo",
                             TORCH_DISTRIBUTED_DEBUG="DETAIL")
        self.assertRanksSay(done, "_ProcessGroupWrapper")

    def test_wrong_words_are_named(self):
        for words, complaint in ((("script.py",), "--takeover is missing; without it this is torchrun"),
                                 (("--takeover", "nccl", "script.py"), "cannot stand in for 'nccl', only for gloo"),
                                 (("--takeover", "gloo", "--no-python", "true"), "needs a script of Python")):
            with self.subTest(words=words):
                done = self.torchrun(*words)
                self.assertEqual(done.code, 1, done)
                self.assertIn(complaint, done.err)

    def test_a_missing_script_is_named(self):
        done = self.torchrun("--takeover", "gloo", "--standalone", "--nproc-per-node", "1", "missing.py")
        self.assertNotEqual(done.code, 0)
        self.assertIn("there is no script missing.py", done.err)


if __name__ == "__main__":
    harness.PROGRAM = sys.executable  # what these tests run, and no sanitizer slows it
    unittest.main()
