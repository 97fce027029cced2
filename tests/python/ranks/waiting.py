"""Rank 0 waits for what never comes, says so, and gets Ctrl-C. argv: where it waits, and how many ranks there are."""
import os
import signal
import sys
import threading
import time

import numpy
import pytutti

how = sys.argv[1]
handled = []


def interrupt_soon():
    """Once the main thread sleeps in its call."""
    def body():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGUSR1 if how == "handler" else signal.SIGINT)

    threading.Thread(target=body, daemon=True).start()


if how == "connect":
    interrupt_soon()
    try:
        pytutti.connect(0, 2, rendezvous=f"file://{sys.argv[2]}/meeting")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit()

comm = pytutti.connect()
comm.barrier()
if comm.rank != 0:
    try:
        comm.recv(bytearray(1), source=0)
        print("rank 1 got its message", flush=True)
    except pytutti.Aborted as error:
        print(f"rank 1: {error.rank} {error}", flush=True)
    sys.exit()

if how == "handler":
    signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    interrupt_soon()
    work = comm.irecv(bytearray(1), 1)
    try:
        work.wait(1.5)
    except TimeoutError:
        print("handled", handled, flush=True)
    comm.send(b"x", 1)
    sys.exit()

interrupt_soon()
begin = time.monotonic()
try:
    if how == "collective":
        comm.all_reduce(numpy.ones(1))
    elif how == "work":
        comm.start.all_reduce(numpy.ones(1)).wait()
    elif how == "message":
        comm.recv(bytearray(1), 1, tag=9)
    elif how == "prepared":
        comm.prepare.all_reduce(numpy.ones(1)).run()
    elif how == "body":
        with comm:
            while True:
                time.sleep(0.01)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert time.monotonic() - begin < 20
