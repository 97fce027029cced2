"""What the tests of pytutti share. They run in the Python that has the wheel, which knows nothing of this checkout."""

import concurrent.futures
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import traceback
import unittest

import numpy
import pytutti

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT = 60  # seconds; what takes longer hangs
LIBC = ctypes.CDLL(None)


class Case(unittest.TestCase):
    maxDiff = None

    def assert_same(self, found, wanted):
        numpy.testing.assert_array_equal(numpy.asarray(found), numpy.asarray(wanted))
        self.assertEqual(numpy.asarray(found).dtype, numpy.asarray(wanted).dtype)

    def assert_fails(self, kind, words, function, *arguments, **options):
        with self.assertRaises(kind) as caught:
            function(*arguments, **options)
        self.assertIn(words, str(caught.exception))
        return caught.exception


class Finished:
    def __init__(self, process):
        try:
            self.out, self.err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"{process.args} did not end within {LIMIT} s\n{out}\n{err}") from None
        self.code = process.returncode
        self.lines = sorted(self.out.splitlines())

    def __repr__(self):
        return f"code {self.code}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"


def start(*words, **environment):
    """A process of a session of its own, which does not outlive this one."""
    return subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: LIBC.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG
        env={**os.environ, **environment},
    )


def run(*words, **environment):
    return Finished(start(*words, **environment))


def ranks(count, script, *words, options=(), **environment):
    """The script by the program of the package, one process per rank."""
    return run(
        sys.executable,
        "-m",
        "pytutti",
        "run",
        "-n",
        count,
        "--timeout",
        LIMIT - 5,
        *options,
        HERE / "ranks" / script,
        *words,
        **environment,
    )


class Alarm:
    """Ends this process with all stacks if a test hangs."""

    def __init__(self, seconds):
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True

    def _ring(self):
        import faulthandler

        faulthandler.dump_traceback(all_threads=True)
        os._exit(99)

    def __enter__(self):
        self._timer.start()

    def __exit__(self, *_):
        self._timer.cancel()


def threads(count, function, *arguments, **options):
    """Ranks as threads of this process."""
    with Alarm(LIMIT):
        return pytutti.run_threads(count, function, *arguments, timeout=LIMIT, **options)


def beside_a_silent_rank(function):
    """What function(comm) returns in rank 0 while rank 1 is there and makes no call: one that had left would be lost."""
    over = threading.Event()

    def body(comm):
        if comm.rank == 1:
            return over.wait(LIMIT)
        try:
            return function(comm)
        finally:
            over.set()

    return threads(2, body)[0]


def in_threads(*functions):
    """Calls each in a thread of its own, and raises what one of them raises."""

    def call(function):
        try:
            function()
        except BaseException:
            traceback.print_exc()  # at once: the others may wait for this one until the alarm
            raise

    with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
        for called in [pool.submit(call, function) for function in functions]:
            called.result()
