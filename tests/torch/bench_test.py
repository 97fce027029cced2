#!/usr/bin/env python3
"""`python -m pytutti.torch.bench`: what it refuses, and how it ends."""

import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

import harness


class Bench(harness.Case):
    def test_a_file_that_cannot_be_made_is_refused_before_anything_is_measured(self):
        there = self.folder / "rows"
        there.write_text("precious")
        for option in ("--csv", "--svg"):
            for path, says, env in ((there, "it is there already", {}),
                                    (self.folder / "none/rows", "there is no such folder", {"RANK": "0"})):
                done = harness.run(sys.executable, "-m", "pytutti.torch.bench", option, path, env=env)
                self.assertEqual((done.code, done.out, there.read_text()), (2, "", "precious"), done)
                self.assertSays(done.err, f"{option} {path}: {says}")

    def test_a_rank_that_ends_early_ends_the_others(self):
        (self.folder / "sitecustomize.py").write_text("import os; os.environ.get('RANK') == '1' and os._exit(3)")
        path = f"{self.folder}:{os.environ['PYTHONPATH']}"
        done = harness.run(sys.executable, "-m", "pytutti.torch.bench", "all_reduce",
                           env={"PYTHONPATH": path})
        self.assertEqual((done.code, done.out), (3, ""), done)


if __name__ == "__main__":
    harness.PROGRAM = sys.executable  # what these tests run, and no sanitizer slows it
    unittest.main(verbosity=2)
