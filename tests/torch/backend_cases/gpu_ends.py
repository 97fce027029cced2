"""The ends of groups with tensors of a GPU, and of ranks."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from . import all_are_here, case, fails, gpu, holds, same, split_group, until
from .gpu import filled, off_gpu


@case
def gpu_destroyed_after_wait(rank, size):
    """wait() lets only the stream wait, so a group that is destroyed then waits for the call."""
    total = torch.full((1000,), float(sum(range(size))))
    for _ in range(10):
        group = dist.new_group(range(size))
        tensor = filled(torch.full((1000,), float(rank)))
        dist.all_reduce(tensor, async_op=True, group=group).wait()
        dist.destroy_process_group(group)
        same(off_gpu(tensor), total)


class Interrupted(Exception):
    pass


@case
def gpu_destroying_is_interrupted(rank, size):
    """The wait of destroy_process_group() ends when a handler raises something; the others are told then."""
    def interrupt(*_):
        raise Interrupted("by a handler")

    store = dist.distributed_c10d._get_default_store()
    group = dist.new_group(range(size))
    tensor = filled(torch.ones(4))
    dist.all_reduce(tensor, group=group)  # the first call of a group needs all ranks
    if rank == 0:
        dist.all_reduce(tensor, async_op=True, group=group).wait()
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        fails(Interrupted, "by a handler", dist.destroy_process_group, group)
        signal.signal(signal.SIGALRM, before)
        store.set("rank 0 has left", "")
    else:
        store.wait(["rank 0 has left"])

        def call_twice():  # the first needs only what rank 0 had sent, and may be done before this rank is told
            dist.all_reduce(tensor, group=group)
            dist.all_reduce(tensor, group=group)

        fails(dist.DistBackendError, "rank 0.*with (work|a call|an operation)", call_twice)


def end_after_wait(rank, size, failure, group=None):
    """Rank 0 ends while a stream of it waits for others. Returns what keeps its group from being destroyed."""
    store = dist.distributed_c10d._get_default_store()
    dist.all_reduce(filled(torch.ones(4)), group=group)  # the first call of a group needs all ranks
    all_are_here(rank, size)
    tensor = filled(torch.full((4,), float(rank)))
    if rank > 0:
        store.wait(["rank 0 ends"])
        if failure:
            fails(dist.DistBackendError, "rank 0", dist.all_reduce, tensor, group=group)
        else:
            dist.all_reduce(tensor, group=group)
            same(off_gpu(tensor), torch.full((4,), float(sum(range(size)))))
        return "no destroy"
    dist.all_reduce(tensor, async_op=True, group=group).wait()
    sys.last_value = failure  # as Python does
    store.set("rank 0 ends", "")
    return "no destroy"


@case
def gpu_ends_after_wait(rank, size):
    return end_after_wait(rank, size, None)


@case
def gpu_ends_after_wait_in_split_group(rank, size):
    return end_after_wait(rank, size, None, split_group([list(range(size))]))


@case
def gpu_fails_after_wait(rank, size):
    return end_after_wait(rank, size, ValueError("the program's"))


@case
def gpu_killed(rank, size):
    tensor = filled(torch.ones(2))
    dist.all_reduce(tensor)
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(tensor, async_op=True)
    begin = time.monotonic()
    until(work.is_completed, "an operation whose rank is lost")
    holds(not work.is_success())
    text = fails(dist.DistBackendError, f"rank {size - 1}.* is lost", work.wait)
    print(f"after {time.monotonic() - begin} s: {text}")
    fails(dist.DistBackendError, f"rank {size - 1}.* is lost", dist.all_reduce, tensor)


@case
def gpu_none(rank, size):
    tensor = gpu.double.empty([0], torch.empty(0))
    fails(ValueError, "got a tensor on cuda:0, but .*hides all GPUs", dist.all_reduce, tensor)
