"""Notebook: ranks as threads of one process, as a cell of a notebook would run them.

    $ python notebook.py
    > sum of the squares 0 to 9: 285
"""

import numpy
import pytutti


def sum_of_squares(comm, numbers):
    mine = numpy.array_split(numbers, comm.size)[comm.rank]
    return int(comm.all_reduce(numpy.array((mine**2).sum())))


results = pytutti.run_threads(4, sum_of_squares, numpy.arange(10))
print("sum of the squares 0 to 9:", results[0])
