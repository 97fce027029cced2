"""Ranks as processes that multiprocessing makes, and a rank that is lost."""

import multiprocessing
import os
import pickle
import sys
import threading
import time
import unittest.mock

import numpy
import pytutti
from support import LIMIT, Case, ranks, run

START_METHODS = ("spawn", "fork", "forkserver")


def rank_of_a_pool(rank, size, id, results):
    with pytutti.connect(rank, size, id=id, setup_timeout=LIMIT / 2) as comm:
        results.put((rank, comm.all_reduce(numpy.array([rank, 1])).tolist()))


def rank_that_just_ends(rank, id, may_receive):
    """Its communicator is open when its function returns, and a thread of rank 0 goes on with it."""
    global kept
    kept = pytutti.connect(rank, 2, id=id, setup_timeout=LIMIT / 2)
    values = numpy.full(3, rank + 1.0)
    if rank == 0:
        threading.Thread(target=broadcast_and_send, args=(kept, values)).start()
    else:
        may_receive.wait(LIMIT)
        broadcast_and_send(kept, values)
        assert values.tolist() == [1, 1, 1]


def broadcast_and_send(comm, values):
    comm.broadcast(values, 0)
    if comm.rank == 0:
        comm.send(values, 1)
    else:
        comm.recv(values, 0)


def child_of_a_rank(comm, id, results):
    """After fork(): the parent's communicator is the parent's."""
    try:
        comm.barrier()
    except pytutti.InvalidArgument as error:
        results.put(str(error))
    comm.close()
    with pytutti.connect(1, 2, id=id) as own:
        results.put(own.all_reduce(numpy.ones(1)).tolist())


def child_of_a_process_with_ops(results):
    """fork() was called while another thread ran an op: here no thread does."""
    results.put(sorted(pytutti._library.callbacks))


class Shelf:
    """A store of the program's own, for threads."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def add(self, key, amount):
        with self.changed:
            self.values[key] = self.values.get(key, 0) + amount
            return self.values[key]

    def get(self, key):
        return self.values[key]

    def check(self, keys):
        return all(key in self.values for key in keys)

    def wait(self, keys, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: self.check(keys), timeout.total_seconds()):
                raise TimeoutError


class Processes(Case):
    def test_every_start_method(self):
        for method in START_METHODS:
            context = multiprocessing.get_context(method)
            id, results = pytutti.UniqueId(), context.Queue()
            children = [context.Process(target=rank_of_a_pool, args=(rank, 3, id, results)) for rank in range(3)]
            for child in children:
                child.start()
            found = sorted(results.get(timeout=LIMIT) for _ in children)
            for child in children:
                child.join(LIMIT)
                self.assertEqual(child.exitcode, 0, method)
            self.assertEqual(found, [(rank, [3, 3]) for rank in range(3)], method)

    def test_what_a_child_has_sent_arrives_though_it_ends_without_close(self):
        for method in START_METHODS:
            context = multiprocessing.get_context(method)
            with pytutti.connect(0, 1):  # what a child does at its end does not depend on its parent
                id, may_receive = pytutti.UniqueId(), context.Event()
                children = [context.Process(target=rank_that_just_ends, args=(rank, id, may_receive))
                            for rank in range(2)]
                for child in children:
                    child.start()
                children[0].join(LIMIT)
                may_receive.set()
                children[1].join(LIMIT)
                self.assertEqual([child.exitcode for child in children], [0, 0], method)

    def test_a_child_of_fork_is_told_whose_the_communicator_is_and_makes_its_own(self):
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        with pytutti.connect(0, 1) as comm:
            id = pytutti.UniqueId()
            child = context.Process(target=child_of_a_rank, args=(comm, id, results))
            child.start()
            self.assertIn("child of fork()", results.get(timeout=LIMIT))
            with pytutti.connect(0, 2, id=id) as both:
                self.assertEqual(both.all_reduce(numpy.ones(1)).tolist(), [2.0])
            self.assertEqual(results.get(timeout=LIMIT), [2.0])
            child.join(LIMIT)
            self.assertEqual(child.exitcode, 0)
            self.assertEqual(comm.all_reduce(numpy.ones(1)).tolist(), [1.0])

    def test_a_child_of_fork_runs_no_op_of_another_thread(self):
        """A thread of the child could have the same identity, and would be refused every call."""
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        runs, may_end = threading.Event(), threading.Event()

        def op(a, b):
            runs.set()
            may_end.wait(LIMIT)
            return a + b

        ranks = threading.Thread(target=pytutti.run_threads, args=(
            2, lambda comm: comm.all_reduce(numpy.ones(1), op=pytutti.Op(op, "f8"), timeout=LIMIT)))
        ranks.start()
        try:
            runs.wait(LIMIT)
            child = context.Process(target=child_of_a_process_with_ops, args=(results,))
            child.start()
            self.assertEqual(results.get(timeout=LIMIT), [])
            child.join(LIMIT)
            self.assertEqual(child.exitcode, 0)
        finally:
            may_end.set()
            ranks.join(LIMIT)

    def test_what_all_gather_returns_is_counted(self):
        """Too many parts would be written behind the memory that is there for them."""
        for words, parts in (
            ("2000 parts instead of 2", lambda mine: [mine] * 2000),
            ("1 parts instead of 2", lambda mine: [mine]),
            ("[3, 3] bytes", lambda mine: [b"abc"] * 2),
            ("NoneType instead of a list", lambda mine: None),
            ("bytes instead of a list", lambda mine: mine * 2),
            ("a list of 2 instead of", lambda mine: [None, mine]),
        ):
            self.assert_fails(pytutti.InvalidArgument, words, pytutti.connect, 0, 2, all_gather=parts)
        self.assert_fails(pytutti.InvalidArgument, "needs rank and size", pytutti.connect, all_gather=list)

    def test_ranks_meet_in_a_store_of_the_programs(self):
        store, results = Shelf(), []

        def rank(number):
            for _ in range(2):
                with pytutti.connect(number, 3, store=store, setup_timeout=LIMIT / 2) as comm:
                    results.append(comm.all_reduce(numpy.array([number, 1])).tolist())

        threads = [threading.Thread(target=rank, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual(results, [[3, 3]] * 6)

    def test_jobs_that_share_a_store_meet_by_their_names(self):
        """The ranks 1 come in another order than the ranks 0, so by numbers alone each would meet the other job's."""
        store, results, threads = Shelf(), [], []

        def rank(number, job):
            with pytutti.connect(number, 2, store=store, job=job, setup_timeout=LIMIT / 4) as comm:
                results.append((job, bytes(comm.all_gather(numpy.frombuffer(job.encode(), "u1")))))

        def have_come(count):
            return lambda: sum(isinstance(value, bytes) for value in store.values.values()) == count

        for count, place in enumerate([(0, "a"), (0, "b"), (1, "b"), (1, "a")], 1):
            threads.append(threading.Thread(target=rank, args=place))
            threads[-1].start()
            with store.changed:
                self.assertTrue(store.changed.wait_for(have_come(count), LIMIT))
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual(sorted(results), [("a", b"aa")] * 2 + [("b", b"bb")] * 2)

    def test_who_does_not_come_to_a_store_is_named(self):
        store = Shelf()
        store.set("pytutti/1/2", b"came")
        self.assert_fails(pytutti.RendezvousFailed, "rank 0 of 4 has waited 0.05 s at a Shelf for ranks 1, 3, which",
                          pytutti.connect, 0, 4, store=store, setup_timeout=0.05)
        with unittest.mock.patch.dict(os.environ, TUTTI_TIMEOUT="1.5"):
            self.assert_fails(pytutti.RendezvousFailed, "rank 0 of 2 has waited 1.5 s at a Shelf for rank 1,",
                              pytutti.connect, 0, 2, store=Shelf())
        with unittest.mock.patch.dict(os.environ, TUTTI_TIMEOUT="soon"):
            self.assert_fails(pytutti.InvalidArgument, 'TUTTI_TIMEOUT is "soon": not a positive number',
                              pytutti.connect, 0, 1, store=Shelf())
        self.assert_fails(pytutti.InvalidArgument, "a dict, which has no add()", pytutti.connect, 0, 2, store={})
        self.assert_fails(pytutti.InvalidArgument, "needs rank and size", pytutti.connect, store=store)
        self.assert_fails(pytutti.InvalidArgument, "give one of them", pytutti.connect, 0, 2, store=store,
                          id=pytutti.UniqueId())

    def test_errors_and_ids_pass_between_processes(self):
        try:
            pytutti.connect(5, 2)
        except pytutti.InvalidArgument as error:
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), again.rank), (pytutti.InvalidArgument, str(error), -1))
        id = pytutti.UniqueId()
        self.assertEqual(bytes(pickle.loads(pickle.dumps(id))), bytes(id))
        self.assert_fails(pytutti.InvalidArgument, "128", pytutti.UniqueId, b"short")

    def test_a_child_of_fork_ends_in_the_body_of_with_as_it_says(self):
        for end, code in (("sys.exit(3)", 3), ("raise LookupError('of its own')", 1), ("sys.exit()", 0)):
            done = run(sys.executable, "-c", "import os, sys, pytutti\n"
                       "with pytutti.connect(0, 1):\n"
                       "    child = os.fork()\n"
                       f"    if child == 0: {end}\n"
                       "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))")
            self.assertEqual((done.code, done.out), (0, f"{code}\n"), done)
            self.assertNotIn("InvalidArgument", done.err)

    def test_functions_that_a_program_registers_for_its_end_may_call(self):
        done = run(sys.executable, "-c", "import atexit, pytutti\n"
                   "atexit.register(lambda: print(comm.barrier(), comm))\n"
                   "comm = pytutti.connect(0, 1)")
        self.assertEqual((done.code, done.out), (0, "None <pytutti.Communicator: rank 0 of 1>\n"), done)

    def test_the_survivors_learn_who_was_lost_and_go_on(self):
        done = ranks(3, "lost.py", options=("--max-lost", 1))
        self.assertEqual(
            [line for line in done.lines if "survivor" in line],
            ["[0] survivor: 2 pid all_reduce 2.0", "[1] survivor: 2 pid all_reduce 2.0"],
            done,
        )

    def test_a_process_may_end_while_a_thread_waits(self):
        begin = time.monotonic()
        done = ranks(2, "exits.py")
        self.assertEqual(done.code, 0, done)
        self.assertIn("[0] ends 0", done.lines, done)
        self.assertIn("[0] child: <pytutti.Communicator: rank 0 of 2, closed> True", done.lines, done)
        self.assertNotIn("terminate", done.err, done)
        self.assertLess(time.monotonic() - begin, 20)

    def test_by_an_all_gather_of_the_program(self):
        done = ranks(3, "all_gather.py")
        self.assertEqual(done.lines, [f"[{rank}] [0, 1, 2]" for rank in range(3)], done)
