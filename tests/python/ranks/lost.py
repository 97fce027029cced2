"""Rank 2 kills itself in the middle; the others say what they know, and shrink."""

import os
import signal

import numpy
import pytutti

comm = pytutti.connect()
comm.barrier()
if comm.rank == 2:
    for other in (0, 1):
        comm.recv(bytearray(1), other)
    os.kill(os.getpid(), signal.SIGKILL)
comm.send(b"x", 2)
try:
    comm.all_reduce(numpy.ones(4))
except pytutti.PeerLost as error:
    rest = comm.shrink(30)
    total = rest.all_reduce(numpy.ones(1))[0]
    print("survivor:", error.rank, error.process.split()[0], error.collective, total, flush=True)
