"""Groups of some ranks."""

import datetime

import torch
import torch.distributed as dist

from . import program, world


@program()
def even_and_odd():
    """Two groups work at the same time, each on its own sum."""
    rank, ranks = world()
    groups = [dist.new_group(list(range(side, ranks, 2))) for side in (0, 1)]
    own = groups[rank % 2]
    tensor = torch.full((5,), float(rank))
    dist.all_reduce(tensor, group=own)
    assert (tensor == sum(range(rank % 2, ranks, 2))).all()
    assert dist.get_rank(own) == rank // 2 and dist.get_process_group_ranks(own) == list(range(rank % 2, ranks, 2))
    overall = torch.full((5,), float(rank))
    dist.all_reduce(overall)
    dist.destroy_process_group(own)
    return [tensor, overall]


@program()
def overlapping():
    """A rank has calls pending in the group of all and in one of two; neither waits for the other."""
    rank, ranks = world()
    pair = dist.new_group([0, 1])
    everybody, two = torch.full((3,), float(rank)), torch.full((3,), float(rank))
    works = [dist.all_reduce(everybody, async_op=True)]
    if rank < 2:
        works.insert(rank, dist.all_reduce(two, group=pair, async_op=True))  # in another order on each rank
    for work in works:
        work.wait()
    assert (everybody == ranks * (ranks - 1) / 2).all()
    assert rank >= 2 or (two == 1).all()
    return [everybody, two]


@program()
def alone():
    rank = dist.get_rank()
    groups = [dist.new_group([member]) for member in range(dist.get_world_size())]
    tensor = torch.full((2,), float(rank))
    dist.all_reduce(tensor, group=groups[rank])
    dist.barrier(group=groups[rank])
    parts = [torch.empty(2)]
    dist.all_gather(parts, tensor, group=groups[rank])
    assert (tensor == rank).all() and torch.equal(parts[0], tensor)
    return tensor


@program(ranks=3)
def roots_are_global():
    """In a group of the last two ranks the root is still named by its rank among all."""
    rank, ranks = world()
    group = dist.new_group([ranks - 2, ranks - 1])
    if rank < ranks - 2:
        return None
    tensor = torch.full((3,), float(rank))
    dist.broadcast(tensor, src=ranks - 1, group=group)
    assert (tensor == ranks - 1).all()
    dist.broadcast(tensor, group_src=0, group=group)
    if rank == ranks - 1:
        dist.send(tensor, dst=ranks - 2, group=group)
    else:
        dist.recv(tensor, src=ranks - 1, group=group)
    return tensor


@program()
def made_again():
    """Groups come and go; and members may be listed in another order."""
    rank, ranks = world()
    results = []
    for turn in range(6):
        group = dist.new_group(list(reversed(range(ranks))), timeout=datetime.timedelta(seconds=20))
        tensor = torch.full((3,), float(rank + turn))
        dist.all_reduce(tensor, group=group)
        dist.destroy_process_group(group)
        results.append(tensor)
    return results


@program()
def only_members_meet():
    """With local synchronization the others need not call new_group."""
    rank = dist.get_rank()
    if rank > 1:
        return None
    group = dist.new_group([0, 1], use_local_synchronization=True)
    tensor = torch.full((3,), float(rank))
    dist.all_reduce(tensor, group=group)
    assert (tensor == 1).all()
    return tensor


@program()
def subgroups():
    """new_subgroups cuts the ranks into groups of neighbours."""
    rank, ranks = world()
    if ranks % 2:
        return None
    own, _ = dist.new_subgroups(group_size=2)
    tensor = torch.full((3,), float(rank))
    dist.all_reduce(tensor, group=own)
    assert (tensor == 4 * (rank // 2) + 1).all()
    return tensor
