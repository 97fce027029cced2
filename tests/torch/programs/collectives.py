"""Collectives that move data from rank to rank, with lists and with tensors."""

import torch
import torch.distributed as dist

from . import program, world

ANY = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64,
       torch.bool, torch.complex64, torch.complex128)


@program()
def broadcast_from_each():
    rank, ranks = world()
    results = []
    for root in range(ranks):
        for dtype in ANY:
            tensor = torch.full((5,), rank * 3 + 1, dtype=torch.int64).to(dtype)
            dist.broadcast(tensor, src=root)
            assert (tensor == torch.tensor(root * 3 + 1).to(dtype)).all(), f"{dtype} from {root}: {tensor}"
            results.append(tensor)
    return results


@program(gloo=False)
def broadcast_every_second_column():
    rank, _ = world()
    tensor = torch.full((4, 6), float(rank))
    dist.broadcast(tensor.t()[::2], src=1)
    assert (tensor[:, ::2] == 1).all() and (tensor[:, 1::2] == rank).all(), tensor
    return tensor


@program()
def all_gather_lists():
    rank, ranks = world()
    results = []
    for dtype in ANY:
        parts = [torch.zeros(2, 3).to(dtype) for _ in range(ranks)]
        dist.all_gather(parts, torch.full((2, 3), rank).to(dtype))
        assert all((part == torch.tensor(r).to(dtype)).all() for r, part in enumerate(parts)), parts
        results.append(parts)
    return results


@program()
def all_gather_into_views():
    """The parts of the list are columns of one matrix, and what is sent is one of them."""
    rank, ranks = world()
    matrix = torch.zeros(4, ranks)
    matrix[:, rank] = rank + 1
    dist.all_gather(list(matrix.unbind(1)), matrix[:, rank])
    assert (matrix == torch.arange(1.0, ranks + 1)).all(), matrix
    return matrix


@program()
def all_gather_tensors():
    rank, ranks = world()
    whole = torch.empty(ranks * 3, 2)
    dist.all_gather_into_tensor(whole, torch.full((3, 2), float(rank)))
    assert (whole.view(ranks, -1) == torch.arange(float(ranks)).view(-1, 1)).all()
    return whole


@program(gloo=False)
def all_gather_stacked():
    rank, ranks = world()
    stack = torch.empty(ranks, 3, 2)
    dist.all_gather_into_tensor(stack, torch.full((3, 2), float(rank)))
    assert (stack == torch.arange(float(ranks)).view(-1, 1, 1)).all()
    return stack


@program(gloo=False)
def all_gather_unequal():
    """Ranks may contribute parts of different lengths where the list says so."""
    rank, ranks = world()
    parts = [torch.empty(r + 1) for r in range(ranks)]
    dist.all_gather(parts, torch.full((rank + 1,), float(rank)))
    assert all((part == r).all() for r, part in enumerate(parts)), parts
    return parts


@program()
def all_gather_complex():
    rank, ranks = world()
    own = torch.complex(torch.arange(3.0), torch.full((3,), float(rank)))
    parts = [torch.empty(3, dtype=torch.complex64) for _ in range(ranks)]
    dist.all_gather(parts, own)
    assert all((part.imag == r).all() and (part.real == torch.arange(3.0)).all() for r, part in enumerate(parts))
    whole = torch.empty(3 * ranks, dtype=torch.complex64)
    dist.all_gather_into_tensor(whole, own)
    assert torch.equal(whole, torch.cat(parts))
    return [parts, whole]


@program()
def gather_to_each():
    """Only the destination has a list."""
    rank, ranks = world()
    results = []
    for root in range(ranks):
        parts = [torch.empty(3) for _ in range(ranks)] if rank == root else None
        dist.gather(torch.full((3,), float(rank * 10 + root)), parts, dst=root)
        if rank == root:
            assert all((part == r * 10 + root).all() for r, part in enumerate(parts)), parts
            results.append(parts)
    return results


@program(gloo=False)
def gather_complex():
    rank, ranks = world()
    parts = [torch.empty(3, dtype=torch.complex128) for _ in range(ranks)] if rank == 1 else None
    dist.gather(torch.full((3,), complex(rank, -rank), dtype=torch.complex128), parts, dst=1)
    if rank == 1:
        assert all((part == complex(r, -r)).all() for r, part in enumerate(parts)), parts
    return parts


@program()
def scatter_from_each():
    """Off the root the list is None or empty."""
    rank, ranks = world()
    results = []
    for root in range(ranks):
        for nothing in (None, []):
            tensor = torch.empty(3)
            parts = [torch.full((3,), float(r * 10 + root)) for r in range(ranks)]
            dist.scatter(tensor, parts if rank == root else nothing, src=root)
            assert (tensor == rank * 10 + root).all(), tensor
            results.append(tensor)
    return results


@program()
def new_names():
    """What PyTorch from 2.13 on calls the collectives of single tensors."""
    if not hasattr(dist, "all_gather_single"):
        return None
    rank, ranks = world()
    whole = torch.empty(ranks * 2)
    dist.all_gather_single(whole, torch.full((2,), float(rank)))
    assert (whole == torch.arange(float(ranks)).repeat_interleave(2)).all()
    part = torch.empty(2)
    dist.reduce_scatter_single(part, whole)
    assert (part == rank * ranks).all()
    return [whole, part]


@program()
def all_to_all_lists():
    rank, ranks = world()
    parts = [torch.empty(2) for _ in range(ranks)]
    dist.all_to_all(parts, [torch.full((2,), float(10 * rank + other)) for other in range(ranks)])
    assert all((part == 10 * other + rank).all() for other, part in enumerate(parts)), parts
    return parts


@program(gloo=False)
def all_to_all_unequal_lists():
    rank, ranks = world()
    parts = [torch.empty(rank + other) for other in range(ranks)]
    dist.all_to_all(parts, [torch.full((rank + other,), float(10 * rank + other)) for other in range(ranks)])
    assert all((part == 10 * other + rank).all() for other, part in enumerate(parts)), parts
    return parts


@program()
def all_to_all_tensors():
    """A transposition: in equal parts, and in parts of 1, 2, 3 ... rows."""
    rank, ranks = world()
    equal = torch.empty(ranks)
    dist.all_to_all_single(equal, torch.arange(float(ranks)) + 10 * rank)
    assert (equal == 10 * torch.arange(float(ranks)) + rank).all(), equal
    sent = torch.arange(float(ranks)).repeat_interleave(rank + 1).view(-1, 1) + 10 * rank
    unequal = torch.empty(ranks * (ranks + 1) // 2, 1)
    dist.all_to_all_single(unequal, sent, [other + 1 for other in range(ranks)], [rank + 1] * ranks)
    expected = 10 * torch.arange(float(ranks)).repeat_interleave(torch.arange(1, ranks + 1)) + rank
    assert (unequal.view(-1) == expected).all(), unequal
    return [equal, unequal]
