#!/usr/bin/env python3
"""Programs in which something goes wrong, or which end without tidying up.

    torchrun ... failing.py SCENARIO        with FOLDER, where ranks leave notes, and BACKEND in the environment

A rank that is to be killed writes down when, so that the others can say how long it took until they knew.
"""

import atexit
import datetime
import os
import pathlib
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

TIMEOUT = datetime.timedelta(seconds=20)


def begin():
    """Makes the default group, and returns rank and number of ranks."""
    torch.set_num_threads(1)
    os.environ.update(TUTTI_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    backend = os.environ["BACKEND"]
    if backend != "gloo":
        import pytutti.torch  # noqa: F401, registers the backend
    launched = "TORCHELASTIC_RUN_ID" in os.environ
    meeting = {} if launched else {
        "init_method": f"file://{os.environ['FOLDER']}/meeting", "rank": int(os.environ["RANK"]),
        "world_size": int(os.environ["WORLD_SIZE"])}
    dist.init_process_group(backend, timeout=TIMEOUT, **meeting)
    return dist.get_rank(), dist.get_world_size()


def note(name):
    return pathlib.Path(os.environ["FOLDER"], name)


def die():
    note("killed").write_text(str(time.monotonic()))
    os.kill(os.getpid(), signal.SIGKILL)


def say(*words):
    print(*words, flush=True)


def say_error(error):
    """What a survivor prints; the test reads it."""
    now = time.monotonic()
    say(f"error {now - float(note('killed').read_text()):.3f} s after the kill: {error}")


def expect_error(call):
    try:
        call()
    except Exception as error:
        say_error(error)
    else:
        say("no error")


# ---- A rank is killed


def killed_in_collectives():
    """The last rank is killed between two of many sums; the others are told by the sum that lacks it."""
    rank, ranks = begin()
    tensor = torch.ones(1000)

    def sums():
        for turn in range(1000):
            if rank == ranks - 1 and turn == 20:
                die()
            dist.all_reduce(tensor)

    expect_error(sums)


def killed_in_data_parallel():
    """The last rank is killed in the midst of a backward(), when some of its gradients are under way."""
    rank, ranks = begin()
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)))
    wrapped = DistributedDataParallel(net, bucket_cap_mb=0.01)

    def train():
        for step in range(100):
            if rank == ranks - 1 and step == 3:
                net[1].weight.register_hook(lambda gradient: die())
            wrapped(torch.ones(4, 64)).sum().backward()

    expect_error(train)


def killed_while_others_wait():
    """Others have calls of every kind pending, and are told by wait(), by futures, and in a later call."""
    rank, ranks = begin()
    dist.barrier()
    if rank == ranks - 1:
        store = dist.distributed_c10d._get_default_store()
        store.wait([f"pending-{r}" for r in range(ranks - 1)], datetime.timedelta(seconds=15))
        die()
    parts = [torch.empty(10) for _ in range(ranks)]
    works = [dist.all_gather(parts, torch.ones(10), async_op=True), dist.all_reduce(torch.ones(1 << 20), async_op=True),
             dist.irecv(torch.empty(5), src=ranks - 1)]
    chained = works[1].get_future().then(lambda done: done.value())
    dist.distributed_c10d._get_default_store().set(f"pending-{rank}", "")
    for work in works:
        expect_error(work.wait)
    expect_error(chained.wait)
    expect_error(lambda: dist.all_reduce(torch.ones(3)))


def killed_in_a_group():
    """Two groups work. The ranks of the other one are told, too: their group comes from that of all, which is broken."""
    rank, ranks = begin()
    groups = [dist.new_group([0, 1]), dist.new_group(list(range(2, ranks)))]

    def sums():
        for turn in range(100000):
            if rank == ranks - 1 and turn == 20:
                die()
            dist.all_reduce(torch.ones(100), group=groups[rank >= 2])

    expect_error(sums)


# ---- A rank makes a mistake, or ends early


def raises():
    """The last rank raises an exception; the others are told that it has ended."""
    rank, ranks = begin()
    for turn in range(1000):
        if rank == ranks - 1 and turn == 20:
            note("killed").write_text(str(time.monotonic()))
            raise ValueError("my own mistake")
        try:
            dist.all_reduce(torch.ones(100))
        except RuntimeError as error:
            say_error(error)
            break


def different_sizes():
    """Both are told of two calls that do not fit."""
    rank, _ = begin()
    note("killed").write_text(str(time.monotonic()))
    expect_error(lambda: dist.all_reduce(torch.ones(100 + rank)))


def times_out():
    """A rank waits in vain; the group is good for nothing afterwards, but ends."""
    rank, _ = begin()
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    note("killed").write_text(str(time.monotonic()))
    if rank == 0:
        expect_error(lambda: dist.all_reduce(torch.ones(100), group=group))
    dist.barrier()
    dist.destroy_process_group()


def does_not_come():
    """A monitored barrier tells rank 0 which ranks it misses. PyTorch's function is for gloo only, its method is not."""
    rank, ranks = begin()
    note("killed").write_text(str(time.monotonic()))
    if rank != ranks - 1:
        limit = datetime.timedelta(seconds=1)
        expect_error(lambda: dist.group.WORLD.monitored_barrier(limit, wait_all_ranks=True))
    dist.destroy_process_group()


def some_have_ended():
    """The same, but these ranks never will."""
    rank, _ = begin()
    note("killed").write_text(str(time.monotonic()))
    if rank < 2:
        expect_error(lambda: dist.group.WORLD.monitored_barrier(TIMEOUT, wait_all_ranks=True))
    elif rank == 2:
        die()


# ---- A signal comes


def interrupt(call):
    """Rank 0 calls, in vain, and gets a SIGINT meanwhile; rank 1 stays until rank 0 is through."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["through"], TIMEOUT)
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        call()
    except BaseException as error:
        say(f"{type(error).__name__} after {time.monotonic() - began:.3f} s: {error}")
    store.set("through", "")


def interrupted_in_a_call():
    begin()
    interrupt(lambda: dist.all_reduce(torch.ones(4)))


def interrupted_in_a_wait():
    """Whoever else waits learns that the operation was aborted."""
    begin()
    work = dist.all_reduce(torch.ones(4), async_op=True) if dist.get_rank() == 0 else None
    interrupt(lambda: work.wait())
    if work:
        try:
            work.wait()
        except dist.DistBackendError as error:
            say("others learn:", error)


def interrupted_in_a_monitored_barrier():
    begin()
    interrupt(lambda: dist.group.WORLD.monitored_barrier(TIMEOUT))


def interrupted_beside_pytutti(lone=None):
    """A process that has loaded both, this one last; what a handler raises comes once, where it belongs."""
    begin()
    interrupt(lambda: dist.all_reduce(torch.ones(4)))
    if dist.get_rank() == 1:
        return
    import pytutti

    lone = lone or pytutti.connect(rank=0, size=1)
    try:
        lone.broadcast(torch.ones(2).numpy(), root=9)
    except pytutti.InvalidArgument:
        say("a later call has an error of its own")
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    began = time.monotonic()
    try:
        lone.recv(torch.ones(2).numpy(), source=0)
    except BaseException as error:
        say(f"pytutti: {type(error).__name__} after {time.monotonic() - began:.3f} s")


def interrupted_after_pytutti():
    import pytutti

    interrupted_beside_pytutti(pytutti.connect(rank=0, size=1))


def interrupted_threads_of_pytutti():
    """Ranks of run_threads() end in a process that has loaded both, though one of them has not come."""
    import pytutti.threads
    begin()
    connect, comes, ended = pytutti.connect, threading.Event(), threading.Event()
    def come(number, *words, **options):
        comes.wait(30 * number)
        try:
            return connect(number, *words, **options)
        finally:
            ended.set()
    pytutti.threads.connect = come
    interrupt(lambda: pytutti.run_threads(2, print, setup_timeout=60))
    say("rank 0", "has ended" if dist.get_rank() == 1 or ended.wait(10) else "still waits")


# ---- Ends of groups


def aborted():
    """A thread waits for a message that never comes; another aborts the group."""
    rank, _ = begin()
    if rank == 0:
        work = dist.irecv(torch.empty(5), src=1)
        waiting = threading.Thread(target=lambda: expect_error(work.wait))
        note("killed").write_text(str(time.monotonic()))
        waiting.start()
        dist.distributed_c10d._abort_process_group()
        waiting.join(15)
        say("still waits" if waiting.is_alive() else "aborted")


def destroyed_at_once():
    begin()
    dist.destroy_process_group()
    say("destroyed")


def destroyed_with_calls_pending():
    rank, _ = begin()
    works = [dist.irecv(torch.empty(5), src=1 - rank), dist.all_reduce(torch.ones(1 << 18), async_op=True)]
    dist.destroy_process_group()
    say("destroyed")
    del works
    say("forgotten")


def destroyed_by_one():
    """Rank 0 destroys its group while rank 1 still waits for it."""
    rank, _ = begin()
    dist.all_reduce(torch.ones(3))
    note("killed").write_text(str(time.monotonic()))
    if rank == 1:
        expect_error(lambda: dist.all_reduce(torch.ones(3)))
    dist.destroy_process_group()
    say("destroyed")


def destroyed_again_and_again():
    """Groups of some, and of all under the same name, come and go."""
    rank, ranks = begin()
    for turn in range(10):
        group = dist.new_group([0, 1])
        if rank < 2:
            dist.all_reduce(torch.ones(10), group=group)
        if turn % 2:
            dist.destroy_process_group(group)
    dist.destroy_process_group()
    for turn in range(3):
        dist.init_process_group(os.environ["BACKEND"], init_method=f"file://{note(f'meeting-{turn}')}", rank=rank,
                                world_size=ranks, timeout=TIMEOUT)
        dist.all_reduce(torch.ones(10))
        dist.destroy_process_group()
    say("destroyed")


# ---- Ends of processes that have not destroyed anything


def just_ends():
    begin()
    dist.all_reduce(torch.ones(3))
    say("ends")


def calls_at_the_end():
    """Functions that the program registers for its end come before that of the backend, as with Gloo."""
    if os.environ["BACKEND"] != "gloo":
        import pytutti.torch  # noqa: F401

    def last_call():
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        say("sum", tensor.tolist())

    atexit.register(last_call)
    begin()
    dist.new_group([0, 1])


def ends_with_calls_pending():
    rank, _ = begin()
    global works
    works = [dist.irecv(torch.empty(5), src=1 - rank)]
    if rank == 0:
        works.append(dist.all_reduce(torch.ones(1 << 18), async_op=True))
    say("ends")


def exits_in_a_thread():
    """A daemon thread waits in a collective when the interpreter ends."""
    rank, _ = begin()
    entered = threading.Event()

    def wait():
        entered.set()
        try:
            dist.recv(torch.empty(5), src=1 - rank)
        except Exception as error:
            say("error:", error)

    threading.Thread(target=wait, daemon=True).start()
    entered.wait(10)
    say("ends")
    sys.exit(0)


def exits_by_exception():
    begin()
    dist.all_reduce(torch.ones(3), async_op=True)
    raise KeyError("of my own")


def keeps_works_until_the_end():
    """Works and groups are referred to by globals, which go when much else has gone."""
    rank, _ = begin()
    sys.modules["kept"] = [dist.all_reduce(torch.ones(3), async_op=True), dist.new_group([0, 1]),
                           dist.isend(torch.ones(3), dst=1 - rank), dist.group.WORLD]
    say("ends")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
