#!/usr/bin/env python3
"""How the extension for PyTorch is found and built: a failure is told once, and nothing is left half done.

A script stands for the compiler.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import torch

from pytutti.torch import build

PATIENCE = float(os.environ.get("WATCHDOG_SECONDS", "120"))
FAILS = "echo 'no such header' >&2; exit 1"
SUCCEEDS = 'echo built >"$2"'


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.outputs = self.folder / "outputs"
        self.outputs.touch()
        self.set_variables(PYTUTTI_CACHE=str(self.folder / "cache"), CXX=str(self.folder / "compiler"))

    def set_variables(self, **variables):
        change = unittest.mock.patch.dict(os.environ, variables)
        change.start()
        self.addCleanup(change.stop)

    def compile_by(self, command):
        """Its arguments are `-o`, the file to write, and more."""
        compiler = self.folder / "compiler"
        compiler.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho "$2" >>{self.outputs}\n{command}\n')
        compiler.chmod(0o755)

    def compiled(self):
        return self.outputs.read_text().splitlines()

    def test_a_failure_is_told_once(self):
        """Not again at the end of the process."""
        self.compile_by(FAILS)
        done = subprocess.run(
            [sys.executable, "-c", "import pytutti.torch\n"
             "try:\n"
             "    pytutti.torch.backend_class()\n"
             "except RuntimeError as error:\n"
             "    print(type(error).__name__, error)"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"(?s)^BuildError .*no such header")
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(len(self.compiled()), 1)

    def test_a_rank_that_waits_meanwhile_has_the_same_failure(self):
        self.compile_by(FAILS)
        waits, errors = threading.Event(), []
        build_really, lock_really = build._build, build.fcntl.flock

        def rank():
            try:
                build.extension()
            except build.BuildError as error:
                errors.append(str(error))

        other = threading.Thread(target=rank)

        def build_once_the_other_waits(*arguments):
            if other.ident is None:
                other.start()
                waits.wait(PATIENCE)
            build_really(*arguments)

        def lock(*arguments):
            if other.ident is not None:
                waits.set()
            lock_really(*arguments)

        with unittest.mock.patch.object(build, "_build", build_once_the_other_waits), \
                unittest.mock.patch.object(build.fcntl, "flock", lock):
            rank()
            other.join(PATIENCE)
        self.assertEqual(len(errors), 2)
        for error in errors:
            self.assertIn("no such header", error)
        self.assertEqual(len(self.compiled()), 1)
        self.assertRaises(build.BuildError, build.extension)  # one that comes later tries again
        self.assertEqual(len(self.compiled()), 2)

    def test_each_compiler_writes_a_file_of_its_own(self):
        target = self.folder / "made" / "extension.so"
        target.parent.mkdir()
        self.compile_by(SUCCEEDS)
        build._build(target)
        build._build(target)
        self.assertEqual(target.read_text(), "built\n")
        self.assertEqual(len({*self.compiled(), str(target)}), 3)
        self.assertEqual(list(target.parent.iterdir()), [target])

    def test_a_folder_that_cannot_be_locked_is_refused_with_the_remedy(self):
        self.compile_by(SUCCEEDS)
        (build._cache() / f"torch-{torch.__version__}-{build._fingerprint()}" / "lock").mkdir(parents=True)
        with self.assertRaisesRegex(build.BuildError, "set PYTUTTI_CACHE to a folder"):
            build.extension()
        self.assertEqual(self.compiled(), [])

    def test_the_ready_extension_is_for_the_library_of_the_package(self):
        self.compile_by(SUCCEEDS)
        ready, place = self.folder / "ready.so", unittest.mock.Mock(return_value=build._include())
        ready.touch()
        names = ("PYTUTTI_LIBRARY", "PYTUTTI_INCLUDE")
        self.set_variables(**dict.fromkeys(names, ""))
        with unittest.mock.patch.multiple(build, _prebuilt=lambda _: ready, _library=place, _include=place):
            self.assertEqual(build.extension(), ready)
            for name in names:
                with unittest.mock.patch.dict(os.environ, {name: "another"}):
                    self.assertEqual(build.extension().read_text(), "built\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
