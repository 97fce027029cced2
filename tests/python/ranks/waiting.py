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
package = os.path.dirname(pytutti.__file__)


def interrupt_once_it_waits():
    """When the main thread has been seen at the same place of pytutti, or of this file's sleep, thirty times."""

    def place():
        frame = sys._current_frames()[threading.main_thread().ident]
        return (frame.f_lasti, frame.f_code) if frame.f_code.co_filename.startswith(package) or how == "body" else None

    def body():
        seen, times = None, 0
        while times < 30:
            now = place()
            times = times + 1 if now is not None and (now == seen or how == "body") else 0
            seen = now
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGUSR1 if how == "handler" else signal.SIGINT)

    threading.Thread(target=body, daemon=True).start()


if how == "connect":
    interrupt_once_it_waits()
    try:
        pytutti.connect(0, 2, rendezvous=f"file://{sys.argv[2]}/meeting")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit()

comm = pytutti.connect()
comm.barrier()
if how == "together":
    print("waits", flush=True)
    comm.recv(bytearray(1), source=1 - comm.rank)
if comm.rank != 0:
    try:
        comm.recv(bytearray(1), source=0)
        print("rank 1 got its message", flush=True)
        comm.send(b"y", 0)
    except pytutti.Aborted as error:
        print(f"rank 1: {error.rank} {error}", flush=True)
    sys.exit()

if how == "handler":
    signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    interrupt_once_it_waits()
    work = comm.irecv(bytearray(1), 1)
    end = time.monotonic() + 20
    while not handled and time.monotonic() < end:
        try:
            work.wait(1.5)
        except TimeoutError:
            pass
    print("handled", handled, flush=True)
    comm.send(b"x", 1)
    work.wait()  # what is pending at the end would abort the receive over there
    sys.exit()

if how == "close":

    def close(*_):
        comm.close()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, close)
interrupt_once_it_waits()
begin = time.monotonic()
try:
    if how == "collective":
        comm.all_reduce(numpy.ones(1))
    elif how == "work":
        comm.start.all_reduce(numpy.ones(1)).wait()
    elif how in ("message", "close"):
        comm.recv(bytearray(1), 1, tag=9)
    elif how == "prepared":
        comm.prepare.all_reduce(numpy.ones(1)).run()
    elif how == "body":
        with comm:
            while True:
                time.sleep(0.01)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert time.monotonic() - begin < (8 if how == "close" else 20)
