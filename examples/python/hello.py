"""Hello: four processes meet, and each says who it is.

    $ python -m pytutti run -n 4 hello.py
    [0] rank 0 of 4 sees the ranks [0, 1, 2, 3]
    [1] rank 1 of 4 sees the ranks [0, 1, 2, 3]
    [2] rank 2 of 4 sees the ranks [0, 1, 2, 3]
    [3] rank 3 of 4 sees the ranks [0, 1, 2, 3]
"""

import numpy
import pytutti

with pytutti.connect() as comm:
    ranks = comm.all_gather(numpy.array(comm.rank))
    print(f"rank {comm.rank} of {comm.size} sees the ranks {ranks.tolist()}")
