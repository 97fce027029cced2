"""Every reduction and every move, with every type."""

import torch
import torch.distributed as dist

from . import case, same, fails, holds, number_types, all_types, values, everyone, fold, ops_of


@case
def reductions(rank, size):
    for dtype in number_types() + [torch.bool, torch.complex64, torch.complex128]:
        for op in ops_of(dtype):
            wanted = fold(op, everyone(size, 6, dtype))
            if not (dtype.is_complex and op != dist.ReduceOp.SUM):
                tensor = values(rank, 6, dtype)
                holds(dist.all_reduce(tensor, op) is None)
                same(tensor, wanted)
            tensor = values(rank, 6, dtype)
            dist.reduce(tensor, 1, op)
            same(tensor, wanted if rank == 1 else values(rank, 6, dtype))  # others keep what they have
            parts = [values(rank, 2 + to, dtype) for to in range(size)]
            out = torch.empty(2 + rank, dtype=dtype)
            dist.reduce_scatter(out, parts, op)
            same(out, fold(op, everyone(size, 2 + rank, dtype)))
            out = torch.empty(2, dtype=dtype)
            dist.reduce_scatter_tensor(out, values(rank, 2 * size, dtype), op)
            same(out, fold(op, everyone(size, 2 * size, dtype))[2 * rank : 2 * rank + 2])


@case
def booleans(rank, size):
    tensor = torch.tensor([False, rank == 0, rank != 0, True])
    dist.all_reduce(tensor)
    same(tensor, torch.tensor([False, True, True, True]))


@case
def halves_of_complex_numbers(rank, size):
    """Of complex32 there are sums, and no products."""
    wanted = fold(dist.ReduceOp.SUM, everyone(size, 4, torch.complex64)).to(torch.complex32)
    tensor = values(rank, 4, torch.complex32)
    dist.all_reduce(tensor)
    same(tensor, wanted)
    tensor = values(rank, 4, torch.complex32)
    dist.reduce(tensor, 1)
    same(tensor, wanted if rank == 1 else values(rank, 4, torch.complex32))
    fails(ValueError, "no PRODUCT of elements of type ComplexHalf", dist.reduce, tensor, 0, dist.ReduceOp.PRODUCT)


@case
def averages(rank, size):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        tensor = torch.full((3,), rank, dtype=dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, torch.full((3,), (size - 1) / 2, dtype=dtype))
    tensor = torch.tensor([complex(rank, 2)])
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    same(tensor, torch.tensor([complex((size - 1) / 2, 2)]))
    for dtype in (torch.int32, torch.int64, torch.uint8, torch.int8):  # towards 0
        tensor = torch.tensor([1 if rank == 0 else 0, 2 * size + 1 if rank == 0 else 0]).to(dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, torch.tensor([0, 2]).to(dtype))
    tensor = torch.tensor([-2 * size - 1 if rank == 0 else 0])
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    same(tensor, torch.tensor([-2]))
    for factor in (0.5, torch.tensor([0.5])):
        tensor = torch.full((3,), rank, dtype=torch.float32)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
        same(tensor, torch.full((3,), 0.5 * sum(range(size))))
    tensor = torch.full((size,), 4.0)
    out = torch.empty(1)
    dist.reduce_scatter_tensor(out, tensor, dist._make_nccl_premul_sum(0.25))
    same(out, torch.tensor([float(size)]))


@case
def moves(rank, size):
    for dtype in all_types():
        inputs = everyone(size, 4, dtype)
        tensor = inputs[rank].clone()
        dist.broadcast(tensor, 1)
        same(tensor, inputs[1])
        outs = [torch.empty(4, dtype=dtype) for _ in range(size)]
        dist.all_gather(outs, inputs[rank])
        for found, wanted in zip(outs, inputs):
            same(found, wanted)
        out = torch.empty(4 * size, dtype=dtype)
        dist.all_gather_into_tensor(out, inputs[rank])
        same(out, torch.cat([x.view(torch.uint8) for x in inputs]).view(dtype))
        outs = [torch.empty(4, dtype=dtype) for _ in range(size)] if rank == 2 else None
        dist.gather(inputs[rank], outs, dst=2)
        for found, wanted in zip(outs or [], inputs):
            same(found, wanted)
        out = torch.empty(4, dtype=dtype)
        dist.scatter(out, inputs if rank == 0 else None, src=0)
        same(out, inputs[rank])
        out = torch.empty(size, dtype=dtype)
        dist.all_to_all_single(out, values(rank, size, dtype))
        same(out, torch.cat([values(k, size, dtype)[rank : rank + 1].view(torch.uint8) for k in range(size)]).view(dtype))
        right, left = (rank + 1) % size, (rank - 1) % size
        sending = dist.isend(inputs[rank], right, tag=3)
        out = torch.empty(4, dtype=dtype)
        dist.recv(out, left, tag=3)
        same(out, inputs[left])
        sending.wait()
