"""Calls that return at once, and what tells that they are done."""

import datetime

import torch
import torch.distributed as dist

from . import program, world


@program()
def many_at_once():
    """Calls are waited for in another order than they were made."""
    rank, ranks = world()
    tensors = [torch.full((1 + 1000 * i,), float(rank + i)) for i in range(12)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
        assert work.is_completed()
    for i, tensor in enumerate(tensors):
        assert (tensor == ranks * i + ranks * (ranks - 1) / 2).all()
    return tensors


@program()
def completes_by_itself():
    """A call that nobody waits for completes; the time limit is that of the group."""
    rank, ranks = world()
    tensor = torch.ones(100) * rank
    work = dist.all_reduce(tensor, async_op=True)
    del tensor  # the call keeps it
    while not work.is_completed():
        pass
    result = work.get_future().value()[0]
    assert (result == ranks * (ranks - 1) / 2).all()
    return result


@program()
def futures():
    """An average, by what is to be done after a sum; and another step after that."""
    rank, ranks = world()
    tensor = torch.full((4,), float(rank))
    future = dist.all_reduce(tensor, async_op=True).get_future()
    average = future.then(lambda done: done.value()[0] / ranks)
    doubled = average.then(lambda done: done.value() * 2)
    assert (doubled.wait() == ranks - 1).all()

    gathered = [torch.empty(2) for _ in range(ranks)]
    work = dist.all_gather(gathered, torch.full((2,), float(rank)), async_op=True)
    parts = work.get_future().wait()
    failing = work.get_future().then(lambda done: 1 / 0)
    try:
        failing.wait()
    except Exception as error:
        assert "division by zero" in str(error)
    else:
        raise AssertionError("an error in a callback is lost")
    return [average.value(), doubled.value(), parts]


@program()
def coalesced():
    """Several tensors in one call."""
    rank, ranks = world()
    tensors = [torch.full((2, 2), float(rank)), torch.full((5,), float(rank + 1))]
    dist.all_reduce_coalesced(tensors)
    assert (tensors[0] == ranks * (ranks - 1) / 2).all() and (tensors[1] == ranks * (ranks + 1) / 2).all()
    more = [torch.full((3,), float(rank)) for _ in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in more:
            dist.all_reduce(tensor)
    manager.wait()
    assert all((tensor == ranks * (ranks - 1) / 2).all() for tensor in more)
    return [tensors, more]


@program()
def barriers():
    """A rank that leaves a barrier knows that all have entered it; a store tells how many did."""
    _, ranks = world()
    store = dist.distributed_c10d._get_default_store()
    for turn in range(5):
        store.add(f"entered-{turn}", 1)
        if turn % 2:
            dist.barrier(async_op=True).wait()
        else:
            dist.barrier()
        assert store.add(f"entered-{turn}", 0) == ranks
    return ranks


@program()
def monitored_barriers():
    """A barrier that would say who is missing."""
    for turn in range(3):
        dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=20))
    return turn
