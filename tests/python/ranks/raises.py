"""Rank 0 raises in the body of with, while rank 1 waits for it."""

import numpy
import pytutti

with pytutti.connect() as comm:
    comm.barrier()
    if comm.rank == 0:
        raise LookupError("on purpose")
    comm.all_reduce(numpy.ones(1))
