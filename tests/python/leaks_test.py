"""10,000 calls of each kind leave nothing behind, and a call costs little more than in C."""

import gc
import time
import tracemalloc

import numpy
import pytutti
from pytutti._core import ffi, lib
from support import Case, threads

CALLS = 10_000


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def kinds(comm):
    """What is repeated: everything that makes an object of C."""
    x, out = numpy.ones(64), numpy.ones(64)
    add = pytutti.Op(lambda a, b: a + b, "f8")
    prepared = comm.prepare.all_reduce(x, out=out)

    def refused():
        try:
            comm.all_reduce(x, out=out[1:])
        except pytutti.InvalidArgument:
            pass

    def refused_by_c():
        try:
            comm.all_reduce(x, algorithm="none")
        except pytutti.InvalidArgument:
            pass

    return {
        "into a new array": lambda: comm.all_reduce(x),
        "in place": lambda: comm.all_reduce(x, out=x, op="max"),
        "with options": lambda: comm.all_reduce(x, out=out, timeout=20, algorithm="direct"),
        "by an op of Python": lambda: comm.all_reduce(x, out=out, op=add),
        "started": lambda: comm.start.all_reduce(x, out=out).wait(),
        "started and dropped": lambda: comm.start.barrier(),
        "prepared": lambda: prepared.run(),
        "with counts": lambda: comm.all_gather_v(x, [64] * comm.size),
        "messages": lambda: comm.sendrecv(x, comm.rank, out, comm.rank),
        "refused": refused,
        "refused by C": refused_by_c,
    }


class Leaks(Case):
    def test_calls_leave_nothing_behind(self):
        def body(comm):
            for name, call in kinds(comm).items():
                for _ in range(500):
                    call()
                comm.barrier()
                gc.collect()
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
                for _ in range(500):
                    call()
                gc.collect()
                grown = tracemalloc.get_traced_memory()[0] - before
                tracemalloc.stop()
                self.assertLess(grown, 20_000, name)  # an object for each call would be 50 times 500 bytes
                before = resident()
                for _ in range(CALLS):
                    call()
                comm.barrier()
                gc.collect()
                self.assertLess(resident() - before, 100 * CALLS, name)  # 100 bytes each

        threads(1, body)

    def test_communicators_leave_nothing_behind(self):
        def body(comm):
            def once():
                with comm.split(0) as group:
                    group.all_reduce(numpy.ones(1))

            for _ in range(200):
                once()
            before = resident()
            for _ in range(1000):
                once()
            gc.collect()
            self.assertLess(resident() - before, 4_000_000)

        threads(1, body)


class Speed(Case):
    def test_python_adds_less_than_5_us(self):
        """To a call of 4 bytes of one rank, by the best of many batches, which a busy machine does not change."""

        def best(call, batch=200):
            times = []
            for _ in range(100):
                begin = time.perf_counter()
                for _ in range(batch):
                    call()
                times.append((time.perf_counter() - begin) / batch)
            return min(times) * 1e6

        def body(comm):
            x = numpy.ones(1, "f4")
            address = ffi.cast("void*", x.ctypes.data)
            handle, null = comm._handle, ffi.NULL
            prepared = comm.prepare.all_reduce(x, out=x)
            python = best(lambda: comm.all_reduce(x, out=x))
            run = best(prepared.run)
            c = best(lambda: lib.tutti_all_reduce(handle, address, address, 1, lib.TUTTI_F32, lib.TUTTI_SUM, null))
            print(f"all_reduce of 4 B, one rank: {python:.2f} us, prepared {run:.2f} us, the function of C {c:.2f} us")
            self.assertLess(python - c, 5.0)
            self.assertLess(run - c, 5.0)

        threads(1, body)
