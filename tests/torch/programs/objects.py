"""Python's objects instead of tensors."""

import torch
import torch.distributed as dist

from . import program, world


@program()
def all_gather_objects():
    rank, ranks = world()
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank, "letters": "abc" * rank})
    assert objects == [{"rank": r, "letters": "abc" * r} for r in range(ranks)]
    return [repr(o) for o in objects]


@program()
def broadcast_objects():
    rank = dist.get_rank()
    objects = ["settings", {"rate": 0.1}, torch.arange(3)] if rank == 1 else [None] * 3
    dist.broadcast_object_list(objects, src=1)
    assert objects[:2] == ["settings", {"rate": 0.1}] and objects[2].tolist() == [0, 1, 2]
    return repr(objects)


@program()
def gather_and_scatter_objects():
    rank, ranks = world()
    gathered = [None] * ranks if rank == 0 else None
    dist.gather_object(("from", rank), gathered, dst=0)
    own = [None]
    dist.scatter_object_list(own, gathered, src=0)
    assert own == [("from", rank)]
    return repr(own)


@program()
def send_objects():
    rank = dist.get_rank()
    objects = ["first", {"second": 2}] if rank == 0 else [None, None]
    if rank == 0:
        dist.send_object_list(objects, dst=1)
    elif rank == 1:
        dist.recv_object_list(objects, src=0)
        assert objects == ["first", {"second": 2}]
    return repr(objects)
