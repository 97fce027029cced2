"""Ctrl-C and other signals while a call waits."""

import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
import unittest.mock
import weakref

import numpy
import pytutti
from support import HERE, LIMIT, Alarm, Case, Finished, ranks, run, start, threads


class Interrupted(Exception):
    """What the handler of a signal raises."""


def interrupt(*_):
    raise Interrupted


class Lingering:
    """An op of Python's that another thread runs until it may end, while this one, which is rank 0 of 2, waits."""

    def __init__(self, test):
        self.runs, self.may_end = threading.Event(), threading.Event()
        self._started = threading.Event()
        test.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, interrupt))
        id = pytutti.UniqueId()
        other = threading.Thread(target=self._rank_1, args=(id,))
        other.start()
        self.comm = pytutti.connect(0, 2, id=id, timeout=LIMIT)
        test.addCleanup(other.join, LIMIT)
        test.addCleanup(self.comm.close)
        test.addCleanup(self.may_end.set)

    def _rank_1(self, id):
        with pytutti.connect(1, 2, id=id, timeout=LIMIT) as comm, contextlib.suppress(pytutti.Aborted):
            self._started.wait(LIMIT)
            comm.all_reduce(numpy.ones(1000), op=pytutti.Op(lambda a, b: a + b, "f8"), algorithm="tree")

    def call(self, how):
        """The all_reduce, and a reference to its array, which nobody else has."""

        def op(a, b):
            self.runs.set()
            self.may_end.wait(LIMIT)
            return a + b

        x = numpy.ones(1000)
        return how.all_reduce(x, out=x, op=pytutti.Op(op, "f8"), algorithm="tree"), weakref.ref(x)

    def interrupt(self, wait):
        """A signal comes while the op runs and this thread waits."""
        self._started.set()
        self.runs.wait(LIMIT)
        threading.Thread(target=self._signal, args=(threading.get_ident(),)).start()
        wait()

    def _signal(self, thread):
        """When it has been seen at the same place of pytutti thirty times, as in ranks/waiting.py."""
        package = os.path.dirname(pytutti.__file__)
        seen, times = None, 0
        while times < 30:
            frame = sys._current_frames()[thread]
            place = (frame.f_lasti, frame.f_code) if frame.f_code.co_filename.startswith(package) else None
            times = times + 1 if place is not None and place == seen else 0
            seen = place
            self.may_end.wait(0.005)
        signal.pthread_kill(thread, signal.SIGUSR1)


class Signals(Case):
    def test_ctrl_c_ends_a_call_that_waits_and_the_others_learn_who_did_that(self):
        for how in ("collective", "work", "message", "prepared"):
            done = ranks(2, "waiting.py", how)
            self.assertEqual(done.code, 0, done)
            self.assertIn("[0] interrupted", done.lines, done)
            self.assertRegex(done.out, r"\[1\] rank 1: 0 .*rank 0 .* aborted the communicator: interrupted", done)

    def test_a_handler_closes_the_communicator_in_a_call(self):
        done = ranks(2, "waiting.py", "close")
        self.assertEqual(done.code, 0, done)
        self.assertIn("[0] interrupted", done.lines, done)

    def test_an_exception_in_the_body_of_with_is_told(self):
        done = ranks(2, "waiting.py", "body")
        self.assertRegex(done.out, r"\[1\] rank 1: 0 .*rank 0 .* aborted the communicator: KeyboardInterrupt", done)

    def test_ctrl_c_for_the_program_ends_all_ranks(self):
        process = start(
            sys.executable,
            "-m",
            "pytutti",
            "run",
            "-n",
            2,
            "--timeout",
            LIMIT - 5,
            HERE / "ranks" / "waiting.py",
            "together",
        )
        with Alarm(LIMIT):
            for _ in range(2):
                self.assertIn("waits", process.stdout.readline())
        os.kill(process.pid, signal.SIGINT)
        done = Finished(process)
        self.assertEqual(done.code, 128 + signal.SIGINT, done)
        self.assertIn("KeyboardInterrupt", done.err, done)

    def test_ctrl_c_while_the_others_have_not_come(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(sys.executable, HERE / "ranks" / "waiting.py", "connect", folder)
            self.assertEqual((done.code, done.out), (0, "interrupted\n"), done)

    def test_a_handler_that_raises_nothing_runs_and_the_call_goes_on(self):
        done = ranks(2, "waiting.py", "handler")
        self.assertEqual(done.lines, ["[0] handled [1]", "[1] rank 1 got its message"], done)

    def test_arrays_live_while_an_operation_goes_on_whose_wait_was_interrupted(self):
        with Alarm(LIMIT):
            lingering = Lingering(self)
            work, array = lingering.call(lingering.comm.start)
            self.assertRaises(Interrupted, lingering.interrupt, work.wait)
            self.assertFalse(work.done())
            work.out = None
            gc.collect()
            self.assertIsNotNone(array())
            lingering.may_end.set()
            self.assertRaises(pytutti.Aborted, work.wait)
            gc.collect()
            self.assertIsNone(array())

    def test_arrays_live_likewise_if_a_handler_raises_when_a_call_has_just_started(self):
        looked = threading.Event()

        def rank_1(comm):
            looked.wait(LIMIT)
            comm.send(numpy.ones(3), 0)
            comm.all_reduce(numpy.ones(3))

        def rank_0(comm):
            def call(*arguments, **named):
                pytutti.Communicator._call(comm, *arguments, **named)
                raise Interrupted

            arrays = []
            with unittest.mock.patch.object(comm, "_call", call):
                for start in (lambda x: comm.irecv(x, 1), lambda x: comm.start.all_reduce(x, out=x)):
                    x = numpy.zeros(3)
                    arrays.append(weakref.ref(x))
                    self.assertRaises(Interrupted, start, x)
                    del x
            gc.collect()
            alive = [array() is not None for array in arrays]
            looked.set()
            self.assertEqual(alive, [True, True])

        def rank(comm):
            (rank_1 if comm.rank else rank_0)(comm)
            comm.barrier()

        threads(2, rank)

    def test_arrays_of_a_prepared_call_live_likewise_though_it_was_closed_or_dropped(self):
        for end in (pytutti.Prepared.close, lambda call: None):
            with self.subTest(end=end), Alarm(LIMIT):
                lingering = Lingering(self)
                call, array = lingering.call(lingering.comm.prepare)
                call.start()
                self.assertRaises(Interrupted, lingering.interrupt, call.wait)
                end(call)
                del call
                gc.collect()
                self.assertIsNotNone(array())
                lingering.may_end.set()
                lingering.comm.close()
                gc.collect()
                self.assertIsNone(array())

    def test_arrays_of_a_call_live_likewise_while_another_thread_drives(self):
        """It is in an op, and would go on with the call whose wait was interrupted."""
        for call in (lambda comm, x: comm.all_reduce(x, out=x), lambda comm, x: comm.recv(x, 1)):
            with self.subTest(call=call), Alarm(LIMIT):
                lingering = Lingering(self)

                def drive():
                    with contextlib.suppress(pytutti.Aborted):
                        lingering.call(lingering.comm)

                driver = threading.Thread(target=drive)
                driver.start()
                x = numpy.ones(1000)
                array = weakref.ref(x)
                self.assertRaises(Interrupted, lingering.interrupt, lambda: call(lingering.comm, x))
                del x
                gc.collect()
                self.assertIsNotNone(array())
                lingering.may_end.set()
                driver.join(LIMIT)
                lingering.comm.close()
                gc.collect()
                self.assertIsNone(array())

    def test_ctrl_c_ends_ranks_of_run_threads_that_have_not_met(self):
        comes, called = threading.Event(), []

        def connect(rank, *arguments, **options):
            if rank == 1:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
                comes.wait(LIMIT)
            return pytutti.connect(rank, *arguments, **options)

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, interrupt))
        with Alarm(LIMIT), unittest.mock.patch("pytutti.threads.connect", connect):
            self.assertRaises(Interrupted, pytutti.run_threads, 2, called.append, setup_timeout=LIMIT)
            ranks = {thread.name: thread for thread in threading.enumerate() if thread.name.startswith("rank ")}
            ranks["rank 0"].join(LIMIT / 3)
            self.assertFalse(ranks["rank 0"].is_alive())
            self.assertIsInstance(ranks["rank 0"].raised, pytutti.Aborted)
            comes.set()
            ranks["rank 1"].join(LIMIT / 3)
            self.assertFalse(ranks["rank 1"].is_alive())
        self.assertEqual(called, [])

    def test_ranks_of_run_threads_that_meet_after_ctrl_c_do_not_begin(self):
        met, called = threading.Barrier(3), []

        def connect(rank, *arguments, **options):
            comm = pytutti.connect(rank, *arguments, **options)
            if rank == 1:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            met.wait(LIMIT)
            return comm

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, interrupt))
        with Alarm(LIMIT), unittest.mock.patch("pytutti.threads.connect", connect):
            self.assertRaises(Interrupted, pytutti.run_threads, 2, called.append, setup_timeout=LIMIT)
            ranks = [thread for thread in threading.enumerate() if thread.name.startswith("rank ")]
            self.assertEqual(len(ranks), 2)
            met.wait(LIMIT)
            for rank in ranks:
                rank.join(LIMIT / 3)
                self.assertFalse(rank.is_alive())
        self.assertEqual(called, [])
