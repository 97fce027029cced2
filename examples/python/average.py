"""Average: every rank brings a gradient, every rank gets the average, while it does something else.

    $ python -m pytutti run -n 4 average.py
    [0] rank 0: 1.5
    [1] rank 1: 1.5
    [2] rank 2: 1.5
    [3] rank 3: 1.5
"""

import numpy
import pytutti

with pytutti.connect() as comm:
    gradient = numpy.full(1_000_000, comm.rank, numpy.float32)
    work = comm.start.all_reduce(gradient, out=gradient, op="avg")
    # What needs no gradient is done here; and `await work` lets other coroutines run.
    work.wait()
    print(f"rank {comm.rank}: {gradient[-1]}")
