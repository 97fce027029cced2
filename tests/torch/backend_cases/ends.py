"""How process groups end, and begin again."""

import datetime
import os
import signal
import sys
import threading
import time
import traceback

import torch
import torch.distributed as dist

from . import PATIENCE, all_are_here, case, ended_by, fails, holds


@case
def killed(rank, size):
    dist.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    fails(dist.DistBackendError, "rank 2 .*pid [0-9]+", dist.all_reduce, torch.ones(1))
    print(f"after {time.monotonic() - begin:.3f} s", flush=True)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    fails(dist.DistBackendError, "rank 2", work.wait)
    holds(work.is_completed() and not work.is_success())
    fails((RuntimeError,), "rank 2", work.get_future().wait)
    dist.destroy_process_group()


@case
def killed_amid_futures(rank, size):
    """Each future gets the error, and nothing ends in terminate()."""
    dist.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(10)]
    for future in [work.get_future() for work in works]:
        fails((RuntimeError,), "rank 2", future.wait)
    dist.irecv(torch.zeros(1), 2)  # dropped
    dist.destroy_process_group()


@case
def too_slow(rank, size):
    group = dist.new_group(range(size), timeout=datetime.timedelta(milliseconds=400))
    dist.all_reduce(torch.ones(1), group=group)
    if rank == 1:
        dist.recv(torch.zeros(1), 0)
        return
    begin = time.monotonic()
    fails(dist.DistBackendError, "rank 1", dist.all_reduce, torch.ones(1), group=group)
    holds(0.3 < time.monotonic() - begin < PATIENCE / 2)
    if rank == 0:
        dist.send(torch.zeros(1), 1)  # the world goes on


@case
def aborted(rank, size):
    dist.all_reduce(torch.ones(1))
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        done = threading.Thread(target=ended_by(dist.group.WORLD).abort)
        dist.recv(torch.zeros(1), 1)
        done.start()
        fails(dist.DistBackendError, "aborted", work.wait)
        done.join()
    else:
        if rank == 1:
            dist.isend(torch.zeros(1), 0)
        fails(dist.DistBackendError, "aborted", dist.recv, torch.zeros(1), 0, tag=9)
    fails(dist.DistBackendError, "aborted", dist.barrier)
    dist.destroy_process_group()


@case
def shut_down_in_a_call(rank, size):
    dist.all_reduce(torch.ones(1))
    all_are_here(rank, size)
    group = dist.group.WORLD
    if rank == 0:
        errors = []

        def wait():
            try:
                dist.recv(torch.zeros(1), 1, tag=9)
            except dist.DistBackendError as error:
                errors.append(str(error))

        thread = threading.Thread(target=wait)
        thread.start()
        pending = [dist.irecv(torch.zeros(1), 1, tag=8) for _ in range(3)]
        future = pending[0].get_future()
        ended_by(group).shutdown()
        thread.join(PATIENCE / 2)
        holds(not thread.is_alive() and errors, errors)
        fails((RuntimeError,), "destroyed its communicator|was shut down", future.wait)
        fails(dist.DistBackendError, "was shut down", group.barrier)
        ended_by(group).shutdown()
    else:
        fails(dist.DistBackendError, "rank 0|shut down", dist.recv, torch.zeros(1), 0, tag=9)
    dist.destroy_process_group()


@case
def begun_again(rank, size):
    """A store may serve several worlds of one name, one after the other."""
    store = dist.distributed_c10d._get_default_store()
    for _ in range(3):
        dist.destroy_process_group()
        dist.init_process_group("tutti", store=store, rank=rank, world_size=size)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        holds(tensor.item() == size)


@case
def begun_in_vain(rank, size):
    """Some ranks try and give up before others come; then all meet."""
    import pytutti.torch

    store = dist.distributed_c10d._get_default_store()
    again = dist.PrefixStore("again", store)

    def meet(**limit):
        return pytutti.torch.meet(again, rank, size, datetime.timedelta(**limit), "again")

    for turn, brave in enumerate(([0], [1], [0, 1], [0])):
        if rank in brave:
            fails(dist.DistBackendError, "", meet, milliseconds=300)
        store.set(f"tried/{turn}/{rank}", "")
        store.wait([f"tried/{turn}/{k}" for k in range(size)])
    tensor = torch.ones(1)
    meet(seconds=20).allreduce([tensor]).wait()
    holds(tensor.item() == size)


@case
def without_end(rank, size):
    """A program may end with work under way and groups alive."""
    group = dist.new_group(range(size))
    dist.all_reduce(torch.ones(1), group=group)
    works = [dist.irecv(torch.zeros(100), (rank + 1) % size) for _ in range(5)]
    futures = [work.get_future().then(lambda f: f.value()) for work in works[:3]]
    all_are_here(rank, size)
    globals()["kept"] = works, futures
    return "no destroy"


@case
def forked(rank, size):
    """A child cannot use the group, says so, and can end."""
    dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
    in_child(lambda: fails(ValueError, "child of fork", dist.all_reduce, torch.ones(1)))
    dist.barrier()


def in_child(call):
    """Its process ends as that of a script."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            call()
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.exit(code)  # with atexit
    end = time.monotonic() + PATIENCE / 2
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    holds(status == 0, status)


@case
def begun_in_a_child(rank, size):
    """Children of ranks that have used their group make one of their own."""
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
    store = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    store = dist.FileStore(f"{store.path}.children", size)

    def begin():
        dist.destroy_process_group()
        dist.init_process_group("tutti", store=store, rank=rank, world_size=size)
        work = dist.all_reduce(torch.ones(1), async_op=True)
        holds(work.get_future().then(lambda future: future.value()[0].item()).wait() == size)
        dist.irecv(torch.zeros(1), rank)  # dropped
        store.set(f"ends/{rank}", "")  # who ends with work pending ends the group for others
        store.wait([f"ends/{k}" for k in range(size)])

    in_child(begin)
    dist.barrier()


@case
def destroyed_by_a_handler(rank, size):
    """Signals are handled in the midst of a call, which then fails."""
    dist.all_reduce(torch.ones(1))
    all_are_here(rank, size)
    if rank == 0:
        signal.signal(signal.SIGALRM, lambda *_: dist.destroy_process_group())
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        fails(dist.DistBackendError, "was shut down", dist.all_reduce, torch.ones(1))
        holds(not dist.is_initialized())
    else:
        fails(dist.DistBackendError, "rank 0|shut down", dist.recv, torch.zeros(1), 0, tag=9)
        dist.destroy_process_group()
