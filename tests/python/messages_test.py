"""Messages between two ranks, and calls that are waited for later."""

import asyncio
import copy
import gc
import pickle
import unittest.mock
import weakref

import numpy
import pytutti
from support import Case, beside_a_silent_rank, threads


class Messages(Case):
    def test_send_and_receive(self):
        def body(comm):
            other = 1 - comm.rank
            if comm.rank == 0:
                comm.send(numpy.arange(3.0), 1, tag=7)
                comm.send(b"abc", to=1)
            else:
                self.assertEqual(comm.probe(tag=7), (0, 7, 3))
                out = numpy.zeros(5)
                self.assertEqual(comm.recv(out, source=pytutti.ANY_SOURCE, tag=7), pytutti.Status(0, 7, 3))
                self.assert_same(out, numpy.array([0.0, 1, 2, 0, 0]))
                self.assert_fails(pytutti.Truncated, "3", comm.recv, bytearray(2), 0)
            self.assertIsNone(comm.iprobe(tag=1))
            mine, theirs = numpy.array([comm.rank]), numpy.array([-1])
            self.assertEqual(comm.sendrecv(mine, other, theirs, other).source, other)
            self.assertEqual(theirs[0], other)
            self.assert_fails(pytutti.InvalidArgument, "in and out overlap", comm.sendrecv, mine, other, mine, other)
            works = [comm.isend(mine, other, tag=4), comm.irecv(theirs, other, tag=pytutti.ANY_TAG)]
            for work in works:
                work.wait()
            self.assertTrue(works[1].done())
            self.assertEqual(works[1].status, (other, 4, 1))

        threads(2, body)

    def test_a_deadline(self):
        def body(comm):
            error = self.assert_fails(pytutti.Timeout, "recv", comm.recv, bytearray(1), 1, timeout=0.3)
            self.assertIsInstance(error, TimeoutError)
            return error.rank

        self.assertEqual(beside_a_silent_rank(body), 1)

    def test_a_probe_that_times_out_fails_alone(self):
        def body(comm):
            for source in (1 - comm.rank, pytutti.ANY_SOURCE):
                error = self.assert_fails(pytutti.Timeout, "timed out after 0.05 s", comm.probe, source, timeout=0.05)
                self.assertIn("the communicator goes on", str(error))
            comm.barrier()

        threads(2, body)


class Started(Case):
    def test_the_first_of_several_and_all_of_them(self):
        def body(comm):
            other = 1 - comm.rank
            got = [numpy.zeros(1), numpy.zeros(1)]
            works = [comm.irecv(got[tag], other, tag) for tag in (0, 1)]
            comm.send(numpy.ones(1), other, 1)
            self.assertEqual(pytutti.wait_any(works), 1)
            comm.barrier()
            comm.send(numpy.full(1, 2.0), other, 0)
            self.assertEqual([out is array for out, array in zip(pytutti.wait_all(iter(works)), got)], [True, True])
            self.assertEqual([int(array[0]) for array in got], [2, 1])
            self.assertEqual(pytutti.wait_all([]), [])
            self.assert_fails(pytutti.InvalidArgument, "there is nothing to wait for", pytutti.wait_any, [])
            self.assert_fails(pytutti.InvalidArgument, "wait_any: works[1] is None", pytutti.wait_any, [works[0], None])
            comm.send(numpy.ones(2), other, 3)
            works = [comm.irecv(bytearray(8), other, 3), comm.isend(numpy.ones(1), other, 4)]
            self.assert_fails(pytutti.Truncated, "2 x f64", pytutti.wait_all, works)
            self.assertTrue(all(work.done() for work in works))
            comm.recv(numpy.ones(1), other, 4)

        threads(2, body)

    def test_a_wait_with_a_limit(self):
        def body(comm):
            if comm.rank == 0:
                work = comm.start.all_reduce(numpy.ones(2))
                self.assertFalse(work.done())
                self.assert_fails(TimeoutError, "goes on", work.wait, 0.05)
                self.assert_fails(TimeoutError, "goes on", work.wait, 0)
                self.assert_fails(pytutti.InvalidArgument, "above 0", work.wait, -1)
                comm.send(b"x", 1)
                self.assert_same(work.wait(), numpy.full(2, 2.0))
                self.assert_same(work.wait(0), numpy.full(2, 2.0))
                call = comm.prepare.broadcast(numpy.ones(2), 1)
                call.start()
                self.assert_fails(TimeoutError, "goes on", call.wait, 0.05)
                self.assert_fails(TimeoutError, "goes on", call.wait, 0)
                comm.send(b"x", 1)
                call.wait(50)
            else:
                comm.recv(bytearray(1), 0)
                comm.all_reduce(numpy.ones(2))
                comm.recv(bytearray(1), 0)
                comm.broadcast(numpy.zeros(2), 1)

        threads(2, body)

    def test_await(self):
        def body(comm):
            async def several():
                works = [comm.start.all_reduce(numpy.full(1000, float(i))) for i in range(20)]
                found = await asyncio.wait_for(asyncio.gather(*(self.result(work) for work in works)), 50)
                self.assertEqual([int(one[999]) for one in found], [2 * i for i in range(20)])
                return await works[0]  # a second time, when it is done

            return asyncio.run(several())[0]

        self.assertEqual(threads(2, body), [0.0, 0.0])

    async def result(self, work):
        return await work

    def test_what_a_work_failed_with_is_raised_by_await(self):
        def body(comm):
            async def receive():
                return await comm.irecv(bytearray(1), 1, timeout=0.2)

            return self.assert_fails(pytutti.Timeout, "recv", asyncio.run, receive()).rank

        self.assertEqual(beside_a_silent_rank(body), 1)

    def test_a_cancelled_await_leaves_the_work_as_it_is(self):
        def body(comm):
            async def impatient():
                work = comm.irecv(got, 1)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(self.result(work), 0.05)
                comm.send(b"x", 1)
                await work

            got = bytearray(1)
            if comm.rank == 0:
                asyncio.run(impatient())
                self.assertEqual(got, b"y")
            else:
                comm.recv(bytearray(1), 0)
                comm.send(b"y", 0)

        threads(2, body)

    def test_arrays_of_a_work_live_until_it_is_done(self):
        class Watched(numpy.ndarray):
            pass

        def body(comm):
            if comm.rank == 1:
                comm.recv(bytearray(1), 0)
                return comm.send(numpy.full(1 << 20, 7.0), 0, tag=1)
            target = numpy.zeros(1 << 20).view(Watched)
            gone = weakref.ref(target)
            work = comm.irecv(target, 1, tag=1)
            del target
            del work
            gc.collect()
            self.assertIsNotNone(gone())
            self.assertEqual(gone()[0], 0.0)
            comm.send(b"x", 1)
            for _ in range(5000):
                gc.collect()
                if gone() is None:
                    break
                asyncio.run(asyncio.sleep(0.001))
            self.assertIsNone(gone())

        threads(2, body)

    def test_works_in_cycles_are_collected(self):
        """The collector may end the handle before the Work, which uses it once more."""

        class Cycle:
            pass

        def body(comm):
            for _ in range(20):
                for _ in range(200):
                    cycle = Cycle()
                    cycle.work, cycle.itself = comm.irecv(numpy.ones(4), comm.rank), cycle
                del cycle
                gc.collect()
                for _ in range(200):
                    comm.send(numpy.ones(4), comm.rank)

        threads(1, body)

    def test_what_the_collector_has_ended_cannot_be_used(self):
        """It ends the objects of a cycle in any order, and one that it ends later may still call the others."""
        said = []

        class Last:
            """The others are older, so that they are ended first."""

            def __del__(self):
                for call in self.calls:
                    try:
                        call()
                    except pytutti.InvalidArgument as error:
                        said.append(str(error))

        def make(comm):
            group = comm.split(0)
            prepared, started = group.prepare.barrier(), group.prepare.barrier()
            started.start()
            work = group.irecv(numpy.ones(4), 0)
            last = Last()
            last.calls = [group.barrier, prepared.run, started.wait, lambda: work.wait(10)]
            for made in (group, prepared, started, work):
                made.last = last

        def body(comm):
            make(comm)
            gc.collect()
            comm.barrier()

        threads(1, body)
        self.assertEqual(len(said), 4, said)

    def test_the_collector_runs_in_an_op(self):
        """There tutti must not be called, though what is collected is a Work, whose arrays have to live on."""

        class Cycle:
            pass

        def body(comm):
            def drop(made):
                cycle = Cycle()
                cycle.itself, cycle.made = cycle, made

            def collect(accumulated, operand):
                gc.collect()
                return accumulated + operand

            op = pytutti.Op(collect, "f8")
            for elements in (4, 1 << 14) * 4:
                drop(comm.irecv(numpy.ones(4), comm.rank, tag=5))
                drop(comm.prepare.all_reduce(numpy.ones(4)))
                self.assertEqual(comm.all_reduce(numpy.ones(elements), op=op)[-1], 2.0)
                work = comm.start.all_reduce(numpy.ones(elements), op=op)
                drop(comm.irecv(numpy.ones(4), comm.rank, tag=5))
                self.assertEqual(work.wait()[-1], 2.0)
            for _ in range(16):  # what the receives wait for
                comm.send(numpy.ones(4), comm.rank, tag=5)

        gc.disable()
        try:
            threads(2, body)
        finally:
            gc.enable()

    def test_a_prepared_call_that_was_dropped_while_it_ran(self):
        def body(comm):
            if comm.rank == 0:
                call = comm.prepare.all_reduce(numpy.ones(1000), out=numpy.zeros(1000))
                call.start()
                del call
                gc.collect()
                self.assertEqual(len(comm._abandoned), 1)
                comm.send(b"x", 1)
                comm.barrier()
            else:
                comm.recv(bytearray(1), 0)
                self.assert_same(comm.all_reduce(numpy.ones(1000)), numpy.full(1000, 2.0))
                comm.barrier()

        threads(2, body)

    def test_the_collector_ends_a_failed_work_before_the_words_of_another_error_are_read(self):
        self.addCleanup(gc.enable)
        gc.disable()
        with pytutti.connect(0, 1) as comm:
            group = comm.split(0)
            cycle = [group.irecv(bytearray(1), 0)]
            cycle.append(cycle)
            group.abort("of the other one")
            self.assertTrue(cycle[0].done())
            del cycle
            with unittest.mock.patch("pytutti._library._interrupt", lambda: (gc.collect(), None)[1]):
                self.assert_fails(pytutti.InvalidArgument, "none", comm.all_reduce, numpy.ones(1), algorithm="none")
            group.close()

    def test_what_owns_a_handle_is_not_copied(self):
        def rank(comm):
            work, call, value = comm.start.barrier(), comm.prepare.barrier(), numpy.ones(1)
            for one in (comm, work, call):
                for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                    self.assert_fails(TypeError, f"a {type(one).__name__} of pytutti can be neither", copied, one)
            work.wait()
            call.run()
            return comm.all_reduce(value).item()

        self.assertEqual(threads(2, rank), [2, 2])

    def test_a_call_on_a_communicator_that_is_gone(self):
        def body(comm):
            later = comm.split(0).start
            gc.collect()
            self.assert_fails(pytutti.InvalidArgument, "is gone", later.barrier)

        threads(1, body)
