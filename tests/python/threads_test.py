"""Ranks as threads, and threads of one rank."""

import functools
import threading
import time
import unittest.mock

import numpy
import pytutti
from support import LIMIT, Case, in_threads, threads


class Threads(Case):
    def test_results_come_by_rank(self):
        self.assertEqual(threads(3, lambda comm, factor: factor * comm.rank, 10), [0, 10, 20])
        self.assert_fails(pytutti.InvalidArgument, "0 ranks", pytutti.run_threads, 0, print)

    def test_what_a_rank_raises_is_raised_and_ends_the_others(self):
        told = []

        def body(comm):
            if comm.rank == 1:
                raise LookupError("on purpose")
            try:
                comm.barrier()
            except pytutti.Aborted as error:
                told.append(str(error))
                raise

        self.assert_fails(LookupError, "on purpose", threads, 3, body)
        self.assertEqual(len(told), 2)
        for text in told:
            self.assertIn("rank 1", text)
            self.assertIn("LookupError: on purpose", text)

    def test_an_error_of_its_own_call_is_raised_and_ends_the_others_too(self):
        """The communicator goes on after it, but this rank does not."""
        told = []

        def body(comm):
            if comm.rank == 2:
                comm.all_reduce([1, 2, 3])
            try:
                comm.barrier()
            except pytutti.Aborted as error:
                told.append(str(error))
                raise

        self.assert_fails(pytutti.InvalidArgument, "x is a builtins.list", threads, 3, body)
        self.assertEqual(len(told), 2)
        for text in told:
            self.assertIn("aborted the communicator: InvalidArgument: x is a builtins.list", text)

    def test_of_what_several_ranks_raise_the_first_is_raised(self):
        def body(comm):
            if comm.rank == 1:
                raise LookupError("the first")
            try:
                comm.barrier()
            except pytutti.Aborted:
                raise ValueError("a consequence") from None

        self.assert_fails(LookupError, "the first", threads, 3, body)

    def test_what_another_rank_has_reported_is_not_raised(self):
        def body(comm):
            if comm.rank == 1:
                told.wait(LIMIT)
                raise LookupError("the cause")
            try:
                told_of = pytutti.PeerLost("rank 1 is lost")
                told_of.reported = True
                raise told_of
            finally:
                told.set()

        told = threading.Event()
        self.assert_fails(LookupError, "the cause", threads, 2, body)

    def test_other_threads_run_while_a_call_waits(self):
        """The rank that waits would keep the lock of the interpreter from the one that it waits for."""

        def body(comm):
            ticks = 0
            work = comm.irecv(bytearray(1), 1 - comm.rank)
            if comm.rank == 0:
                end = time.monotonic() + 0.3
                while time.monotonic() < end:
                    ticks += 1
                self.assertGreater(ticks, 1000)
            comm.barrier()
            comm.send(b"x", 1 - comm.rank)
            work.wait()

        threads(2, body)

    def test_several_threads_of_a_rank_use_a_group_each_and_exchange_messages(self):
        def body(comm):
            groups = [comm.split(0) for _ in range(3)]

            def collectives(group, number):
                for i in range(300):
                    found = group.all_reduce(numpy.full(100, number * 1000 + i))
                    self.assertEqual(found[99], 2 * (number * 1000 + i))

            def messages(tag):
                other = 1 - comm.rank
                for i in range(300):
                    mine, theirs = numpy.array([i]), numpy.array([-1])
                    comm.sendrecv(mine, other, theirs, other, tag=tag)
                    self.assertEqual(theirs[0], i)

            in_threads(
                *(functools.partial(collectives, group, k) for k, group in enumerate(groups)),
                *(functools.partial(messages, tag) for tag in range(2)),
            )
            for group in groups:
                group.close()

        threads(2, body)

    def test_close_ends_the_calls_of_other_threads(self):
        def body(comm):
            if comm.rank == 1:
                return comm.recv(bytearray(1), 0, timeout=30)
            raised = []

            def wait():
                try:
                    comm.recv(bytearray(1), 1)
                except pytutti.Error as error:
                    raised.append(error)

            waiter = threading.Thread(target=wait)
            waiter.start()
            while not comm._users:
                time.sleep(0.001)
            comm.close()
            waiter.join(30)
            self.assertIsInstance(raised[0], pytutti.Aborted)

        self.assert_fails(pytutti.Aborted, "closed while another thread", threads, 2, body)

    def test_a_prepared_call_cannot_begin_once_close_has_seen_that_none_is_under_way(self):
        """It would use what close() frees."""
        raised = []

        def run(call):
            try:
                call.run()
            except pytutti.InvalidArgument as error:
                raised.append(str(error))

        def in_another_thread():
            other = threading.Thread(target=run, args=(call,))
            other.start()
            other.join(30)

        with pytutti.connect(0, 1) as comm:
            call = comm.prepare.all_reduce(numpy.ones(1))
            with unittest.mock.patch("pytutti.communicator.do_postponed", in_another_thread):
                comm.close()
        self.assertEqual(len(raised), 1)
        self.assertIn("was closed", raised[0])

    def test_a_prepared_call_outlives_a_close_that_gives_up(self):
        """Who hangs in a call still uses it."""
        with pytutti.connect(0, 1) as comm:
            call = comm.prepare.all_reduce(numpy.ones(1))
            comm._users.append(None)
            with unittest.mock.patch("pytutti.communicator.time") as time_there:
                time_there.monotonic.side_effect = (0, 0, 11)
                comm.close()
            self.assertTrue(call._handle)
            comm._users.clear()
            self.assertRaises(pytutti.Aborted, call.run)
