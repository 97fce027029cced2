"""Every collective, waited for, started and prepared, into a new array, into one that is given, and in place."""

import numpy
import pytutti
from pytutti._core import lib
from pytutti.names import COLLECTIVES
from support import Case, threads

N = 3


def x(rank, count=6, dtype="i4"):
    return (numpy.arange(count) + 10 * rank).astype(dtype)


def wait(comm, name, *arguments, **options):
    return getattr(comm, name)(*arguments, **options)


def start(comm, name, *arguments, **options):
    return getattr(comm.start, name)(*arguments, **options).wait()


def prepare(comm, name, *arguments, **options):
    call = getattr(comm.prepare, name)(*arguments, **options)
    if name in ("broadcast",) or arguments[0] is options.get("out"):
        return call.run()  # in place: a second time it would have another input
    call.run()
    call.start()
    return call.wait()


WAYS = (wait, start, prepare)
ALL = [x(rank) for rank in range(N)]
PARTS = [numpy.concatenate([part[2 * rank : 2 * rank + 2] for part in ALL]) for rank in range(N)]


def results(name, rank):
    """What a rank gets; None: nothing."""
    total = sum(ALL).astype("i4")
    root = rank == 1
    return {
        "all_reduce": total,
        "reduce": total if root else None,
        "all_gather": numpy.concatenate(ALL),
        "gather": numpy.concatenate(ALL) if root else None,
        "reduce_scatter": total[2 * rank : 2 * rank + 2],
        "all_to_all": PARTS[rank],
        "scan": sum(ALL[: rank + 1]).astype("i4"),
        "exclusive_scan": sum(ALL[:rank]).astype("i4") if rank else ALL[0],
    }[name]


NAMES = ("all_reduce", "reduce", "all_gather", "gather", "reduce_scatter", "all_to_all", "scan", "exclusive_scan")
ROOTED = ("reduce", "gather")


class Collectives(Case):
    def check(self, body, count=N):
        threads(count, body)

    def test_each_makes_a_new_array(self):
        def body(comm):
            for name in NAMES:
                for way in WAYS:
                    mine = x(comm.rank)
                    found = way(comm, name, mine, **({"root": 1} if name in ROOTED else {}))
                    wanted = results(name, comm.rank)
                    self.assert_same(mine, x(comm.rank))
                    self.assertIsNone(found) if wanted is None else self.assert_same(found, wanted)

        self.check(body)

    def test_each_fills_the_array_that_is_given(self):
        def body(comm):
            for name in NAMES:
                for way in WAYS:
                    wanted = results(name, comm.rank)
                    if wanted is None:
                        self.assertIsNone(way(comm, name, x(comm.rank), root=1))
                        continue
                    out = numpy.full(wanted.shape, -1, "i4")
                    if name == "exclusive_scan" and comm.rank == 0:
                        wanted = out.copy()  # stays as it is
                    found = way(comm, name, x(comm.rank), out=out, **({"root": 1} if name in ROOTED else {}))
                    self.assertIs(found, out)
                    self.assert_same(out, wanted)

        self.check(body)

    def test_in_place(self):
        def body(comm):
            for name in ("all_reduce", "scan", "all_to_all", "exclusive_scan"):
                for way in WAYS:
                    mine = x(comm.rank)
                    self.assertIs(way(comm, name, mine, out=mine), mine)
                    self.assert_same(mine, results(name, comm.rank))
            for way in WAYS:
                whole = numpy.zeros(6 * N, "i4")
                own = whole[6 * comm.rank : 6 * comm.rank + 6]
                own[:] = x(comm.rank)
                way(comm, "all_gather", own, out=whole)
                self.assert_same(whole, results("all_gather", comm.rank))

        self.check(body)

    def test_broadcast_and_scatter(self):
        def body(comm):
            for way in WAYS:
                mine = x(comm.rank)
                self.assertIs(way(comm, "broadcast", mine, 2), mine)
                self.assert_same(mine, ALL[2])
                out = numpy.zeros(2, "i4")
                way(comm, "scatter", ALL[0] if comm.rank == 0 else None, out)
                self.assert_same(out, ALL[0][2 * comm.rank : 2 * comm.rank + 2])
            if comm.rank == 0:
                self.assert_same(comm.scatter(ALL[0]), ALL[0][:2])
            else:
                self.assert_fails(pytutti.InvalidArgument, "out must be given", comm.scatter)
                comm.scatter(out=numpy.zeros(2, "i4"))

        self.check(body)

    def test_parts_of_different_sizes(self):
        counts, gaps = [1, 0, 3], [5, 0, 1]
        part = [numpy.arange(count, dtype="f8") + 10 * rank for rank, count in enumerate(counts)]
        joined = numpy.concatenate(part)

        def body(comm):
            mine = part[comm.rank]
            for way in WAYS:
                self.assert_same(way(comm, "all_gather_v", mine, counts), joined)
                spread = way(comm, "all_gather_v", mine, counts, out=numpy.full(7, -1.0), displacements=gaps)
                self.assert_same(spread, [-1.0, 20, 21, 22, -1, 0, -1])
                found = way(comm, "gather_v", mine, counts, root=2)
                self.assertIsNone(found) if comm.rank != 2 else self.assert_same(found, joined)
                self.assert_same(
                    way(comm, "reduce_scatter_v", joined, counts, op="max"),
                    joined[sum(counts[: comm.rank]) : sum(counts[: comm.rank + 1])],
                )
                out = numpy.zeros(counts[comm.rank])
                way(comm, "scatter_v", joined if comm.rank == 1 else None, counts, out=out, root=1)
                self.assert_same(out, joined[sum(counts[: comm.rank]) : sum(counts[: comm.rank + 1])])
                sent = [comm.rank + 1] * N  # to each as many
                got = way(comm, "all_to_all_v", numpy.full(sum(sent), comm.rank, "u1"), sent, [1, 2, 3])
                self.assert_same(got, numpy.array([0, 1, 1, 2, 2, 2], "u1"))

        self.check(body)

    def test_ops(self):
        def body(comm):
            mine = numpy.array([comm.rank + 1, 2], "u2")
            for op, wanted in {
                "sum": [6, 6],
                "product": [6, 8],
                "min": [1, 2],
                "max": [3, 2],
                "band": [0, 2],
                "bor": [3, 2],
                "bxor": [0, 2],
            }.items():
                self.assert_same(comm.all_reduce(mine, op=op), numpy.array(wanted, "u2"))
            self.assert_same(comm.all_reduce(mine.astype("f4"), op="avg"), numpy.array([2, 2], "f4"))
            factor = pytutti.PremulSum(0.5)
            for way in WAYS:
                self.assert_same(way(comm, "all_reduce", mine.astype("f8"), op=factor), numpy.array([3.0, 3.0]))

        self.check(body)

    def test_an_op_of_python(self):
        longest = pytutti.Op(lambda a, b: numpy.where(abs(b) > abs(a), b, a), "f8")

        def into(a, b):
            a += b

        def body(comm):
            mine = numpy.array([(-1.0) ** comm.rank * comm.rank, 5.0 - comm.rank])
            for way in WAYS:
                self.assert_same(way(comm, "all_reduce", mine, op=longest), numpy.array([2.0, 5.0]))
                self.assert_same(
                    way(comm, "scan", mine, op=pytutti.Op(into, "f8"))[1:], numpy.array([[5.0, 9.0, 12.0][comm.rank]])
                )

        self.check(body)

    def test_a_name_that_means_two_types_is_refused(self):
        self.assert_fails(TypeError, "'i8' is int8 for tutti and int64 for NumPy", pytutti.Op, max, "i8")
        self.assert_fails(TypeError, "'u8' is uint8 for tutti and uint64 for NumPy", pytutti.Op, max, "u8")
        for name in ("int64", "i64", "=i8", numpy.dtype("i8"), numpy.int64):
            add = pytutti.Op(lambda a, b: a + b, name)
            self.assert_same(threads(2, lambda comm, op=add: comm.all_reduce(numpy.ones(1, "i8"), op=op))[0],
                             numpy.array([2]))

    def test_what_an_op_raises_ends_the_call_and_the_communicator(self):
        def broken(a, b):
            raise ZeroDivisionError("on purpose")

        def body(comm):
            comm.all_reduce(numpy.ones(3), op=pytutti.Op(broken, "f8"))

        self.assert_fails(ZeroDivisionError, "on purpose", threads, 2, body)

    def test_what_an_op_raises_is_raised_by_each_wait_and_ends_the_communicator_if_nobody_waits(self):
        def body(comm, how):
            def broken(a, b):
                if comm.rank == 0:
                    raise ZeroDivisionError("on purpose")
                return a + b

            op = pytutti.Op(broken, "f8")
            if how == "prepared":
                call = comm.prepare.all_reduce(numpy.ones(3), op=op, algorithm="tree")
                wait = call.run
            else:
                work = comm.start.all_reduce(numpy.ones(3), op=op, algorithm="tree")
                wait = work.wait
            if comm.rank == 0 and how != "dropped":
                for _ in range(2):
                    self.assert_fails(ZeroDivisionError, "on purpose", wait)
            elif comm.rank == 0:
                del work, wait
            else:
                try:
                    wait()
                except pytutti.Aborted:
                    pass  # the tree has what it needs of rank 0 perhaps before it learns
            self.assert_fails(pytutti.Aborted, "ZeroDivisionError: on purpose", comm.recv, bytearray(1), 1 - comm.rank)

        for how in ("prepared", "started", "dropped"):
            threads(2, body, how)

    def test_an_op_that_calls_tutti_is_refused(self):
        """It would wait for the call that it belongs to, for ever."""
        refused = []

        def body(comm):
            work, call = comm.start.barrier(), comm.prepare.barrier()

            def op(a, b):
                mine = (comm.iprobe, comm.barrier, comm.start.barrier, comm.close, work.wait, work.done, call.run)
                for way in (*mine, pytutti.UniqueId, pytutti.connect):
                    try:
                        way()
                    except pytutti.InvalidArgument as error:
                        refused.append(str(error))
                return a + b

            self.assert_same(comm.all_reduce(numpy.ones(3), op=pytutti.Op(op, "f8"), algorithm="tree"), [2.0] * 3)
            call.run()

        threads(2, body)
        self.assertEqual(len(refused), 9)
        self.assertEqual({text.split(":")[0] for text in refused}, {"an op must not call tutti"})

    def test_shapes(self):
        def body(comm):
            matrix = numpy.full((4, 3), comm.rank, "f4")
            self.assertEqual(comm.all_gather(matrix).shape, (8, 3))
            self.assertEqual(comm.reduce_scatter(matrix).shape, (2, 3))
            self.assertEqual(comm.all_reduce(numpy.float32(comm.rank)).shape, ())
            self.assertEqual(comm.all_gather(numpy.array(comm.rank)).tolist(), [0, 1])
            self.assertEqual(comm.all_reduce(numpy.zeros((0, 3))).shape, (0, 3))
            self.assert_fails(pytutti.InvalidArgument, "(3, 2)", comm.reduce_scatter, numpy.zeros((3, 2)))
            self.assert_fails(
                pytutti.InvalidArgument, "cannot be divided into 2 parts", comm.all_to_all, numpy.zeros(3)
            )

        self.check(body, 2)

    def test_arguments_of_a_wrong_type_are_named(self):
        def body(comm):
            for name, wrong in (("algorithm", 3), ("timeout", "30"), ("op", ["sum"])):
                self.assert_fails(pytutti.InvalidArgument, name, comm.all_reduce, x(0), **{name: wrong})

            # Before it is compared with the rank: on the root, elsewhere, and where nobody is root.
            for call in (comm.broadcast, comm.reduce, comm.gather, comm.scatter):
                for name, wrong in (("root is 0.0: give an int", 0.0), ("root is '0': give an int", "0"),
                                    ("root is 1: give an integer from 0 to 0", 1), ("root is -1", -1)):
                    self.assert_fails(pytutti.InvalidArgument, name, call, x(0), root=wrong)
            for call in (comm.gather_v, comm.scatter_v):
                self.assert_fails(pytutti.InvalidArgument, "root is 0.0: give an int", call, x(0), [6], root=0.0)
            for call in (comm.all_gather_v, comm.reduce_scatter_v):
                self.assert_fails(pytutti.InvalidArgument, "counts[0] is 6.0: give an int", call, x(0), [6.0])
                self.assert_fails(pytutti.InvalidArgument, "counts[0] is -6", call, x(0), [-6])
                self.assert_fails(pytutti.InvalidArgument, "counts is 6: give a list", call, x(0), 6)
            self.assert_fails(pytutti.InvalidArgument, "recv_counts[0] is '6'", comm.all_to_all_v, x(0), [6], ["6"])
            self.assert_fails(pytutti.InvalidArgument, "peer is '0'", comm.transport_to, "0")
            self.assert_fails(pytutti.InvalidArgument, "a rank of the sub-group is 0.5", comm.subgroup, [0.5])
            self.assert_fails(pytutti.InvalidArgument, "size is -1", comm.chosen_algorithm, "all_reduce", -1)
            self.assert_fails(pytutti.InvalidArgument, "colour is 'red'", comm.split, "red")
            for call in (comm.send, comm.isend):
                self.assert_fails(pytutti.InvalidArgument, "to is 'x'", call, x(0), "x")
                self.assert_fails(pytutti.InvalidArgument, "tag is 1.0", call, x(0), 0, 1.0)
            for call in (comm.recv, comm.irecv):
                self.assert_fails(pytutti.InvalidArgument, "source is None", call, x(0), None)
            for name, words in (("to is 0.0", (x(0), 0.0, x(0), 0)), ("source is '0'", (x(0), 0, x(0), "0")),
                                ("tag is '1'", (x(0), 0, x(0), 0, "1"))):
                self.assert_fails(pytutti.InvalidArgument, name, comm.sendrecv, *words)
            for call in (comm.probe, comm.iprobe):
                self.assert_fails(pytutti.InvalidArgument, "source is '0'", call, "0")
                self.assert_fails(pytutti.InvalidArgument, "tag is 0.5", call, 0, 0.5)
            for call, least in ((comm.isend, 0), (comm.send, 0), (comm.recv, -1), (comm.irecv, -1)):
                for wrong in (least - 1, 2**30 + 1, 2**31):
                    self.assert_fails(pytutti.InvalidArgument, f"from {least} to {2**30}", call, x(0), 0, wrong)
            self.assert_fails(pytutti.InvalidArgument, "peer is None", comm.transport_to, None)
            self.assert_fails(pytutti.InvalidArgument, "of the sub-group is '0'", comm.subgroup, ["0"])

        self.check(body, 1)
        self.assert_fails(pytutti.PlanError, "give the collective", pytutti.algorithm, print)
        self.assert_fails(pytutti.PlanError, "no collective 'all_reduc': did you mean 'all_reduce'? there are",
                          pytutti.algorithm, "all_reduc")
        self.assert_fails(pytutti.InvalidArgument, "id is a bytes", pytutti.connect, 0, 1, id=b"abc")
        self.assert_fails(pytutti.InvalidArgument, "rank is '0'", pytutti.connect, "0", 1)
        self.assert_fails(pytutti.InvalidArgument, "give an integer from", pytutti.connect, 0, 1 << 40)
        self.assert_fails(pytutti.InvalidArgument, "size is 0: give an integer from 1", pytutti.connect, 0, 0)
        self.assert_fails(pytutti.InvalidArgument, "number of ranks, then", pytutti.run_threads, print, 2)

    def test_algorithms_and_timeouts(self):
        def body(comm):
            self.assert_same(comm.all_reduce(x(comm.rank), algorithm="ring"), results("all_reduce", 0))
            self.assert_fails(pytutti.InvalidArgument, "no_such", comm.all_reduce, x(0), algorithm="no_such")
            self.assert_fails(pytutti.InvalidArgument, "timeout", comm.barrier, timeout=-1)
            self.assertEqual(comm.transport_to(comm.rank), "self")
            self.assertIsInstance(comm.chosen_algorithm("all_reduce", 8), str)
            last = len(COLLECTIVES) - 1
            self.assert_fails(pytutti.InvalidArgument, f"valid are 0 to {last}", comm._text, lib.tutti_chosen_algorithm, last + 1, 8)
            self.assert_fails(pytutti.InvalidArgument, "did you mean 'all_reduce'?", comm.chosen_algorithm,
                              "all_redduce", 8)

        self.check(body)

    def test_groups(self):
        def body(comm):
            with comm.split(comm.rank % 2, -comm.rank) as half:
                self.assertEqual((half.rank, half.size), ((comm.rank == 0) * 1, 2) if comm.rank != 1 else (0, 1))
                self.assertEqual(int(half.all_reduce(numpy.array(comm.rank))), 1 if comm.rank == 1 else 2)
            part = comm.split(None if comm.rank == 1 else 0)
            self.assertEqual(part is None, comm.rank == 1)
            if part is not None:
                self.assertEqual(part.size, N - 1)
                part.close()
            self.assert_fails(pytutti.InvalidArgument, "colour is -1: give an integer from 0", comm.split, -1)
            with comm.split_by_host() as here:
                self.assertEqual(here.size, N)
            if comm.rank < 2:
                pair = comm.subgroup([1, 0])
                self.assertEqual(pair.rank, 1 - comm.rank)
                pair.close()
            comm.barrier()
            self.assert_fails(pytutti.InvalidArgument, "closed", half.barrier)
            with comm.split(0) as group:
                call = group.prepare.barrier()
                call.run()
            self.assert_fails(pytutti.InvalidArgument, "closed", call.run)

        self.check(body)
