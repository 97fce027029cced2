"""How long a collective takes by one algorithm and by another: the median of calls, each as long as on its slowest rank.

    $ python -m pytutti run -n 4 --no-label measure.py all_reduce 4M tree:4 ring
    > tree:4                    1.28 ms
    > ring                      1.48 ms
"""

import sys
import time

import numpy
import pytutti

_, collective, size, *algorithms = sys.argv
size = int(size.rstrip("KM")) << {"K": 10, "M": 20}.get(size[-1], 0)  # bytes

with pytutti.connect() as comm:
    x = numpy.ones(size // 4, numpy.float32)
    for algorithm in algorithms:
        call = getattr(comm.prepare, collective)(x, algorithm=algorithm)
        times = []
        for _ in range(6):
            comm.barrier()
            begin = time.perf_counter()
            call.run()
            times.append(time.perf_counter() - begin)
        slowest = comm.all_reduce(numpy.array(times[1:]), op="max")  # the first one opens connections
        if comm.rank == 0:
            print(f"{algorithm:24} {1000 * numpy.median(slowest):5.3g} ms")
