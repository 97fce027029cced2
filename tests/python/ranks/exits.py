"""Rank 0 ends while a thread of its own waits, and forks a child that ends like any program; rank 1 just ends."""

import os
import sys
import threading
import time

import pytutti

comm = pytutti.connect()
if comm.rank == 0:

    def wait():
        try:
            comm.recv(bytearray(1), 1)
        except pytutti.Error as error:
            print("thread:", error, flush=True)

    threading.Thread(target=wait, daemon=True).start()
    while not comm._users:
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        begin = time.monotonic()
        comm.close()
        print("child:", comm, time.monotonic() - begin < 5, flush=True)
        sys.exit()
    os.waitpid(child, 0)
print("ends", comm.rank, flush=True)
