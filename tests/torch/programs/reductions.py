"""Sums and other combinations of what the ranks contribute."""

import torch
import torch.distributed as dist

from . import program, world

WHOLE = (torch.int8, torch.uint8, torch.int32, torch.int64)
NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, *WHOLE)


@program()
def all_reduce_with_each_op():
    """Every rank contributes small numbers; each op has a result that is easily computed."""
    rank, ranks = world()
    results = []
    for dtype in NUMBERS:
        for op, expected in (
            (dist.ReduceOp.SUM, ranks * (ranks + 1) // 2),
            (dist.ReduceOp.PRODUCT, torch.arange(1, ranks + 1).prod().item()),
            (dist.ReduceOp.MIN, 1),
            (dist.ReduceOp.MAX, ranks),
        ):
            tensor = torch.full((3, 5), rank + 1, dtype=dtype)
            dist.all_reduce(tensor, op=op)
            assert (tensor == expected).all(), f"{op} of {dtype}: {tensor}, not {expected}"
            results.append(tensor)
    return results


@program()
def all_reduce_bits():
    rank, ranks = world()
    results = []
    for dtype in WHOLE:
        for op, expected in (
            (dist.ReduceOp.BAND, 64),
            (dist.ReduceOp.BOR, 64 + 2**ranks - 1),
            (dist.ReduceOp.BXOR, 64 * (ranks % 2) + 2**ranks - 1),
        ):
            tensor = torch.full((7,), 64 + 2**rank, dtype=dtype)
            dist.all_reduce(tensor, op=op)
            assert (tensor == expected).all(), f"{op} of {dtype}: {tensor}, not {expected}"
            results.append(tensor)
    return results


@program()
def all_reduce_truth():
    """Of booleans a sum says whether any rank had True, and a product whether all had."""
    rank, _ = world()
    results = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.BOR):
        tensor = torch.tensor([rank == 0, rank == 1, True, False])
        dist.all_reduce(tensor, op=op)
        assert tensor.tolist() == [True, True, True, False], f"{op}: {tensor}"
        results.append(tensor)
    for op in (dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.BAND):
        tensor = torch.tensor([rank == 0, rank == 1, True, False])
        dist.all_reduce(tensor, op=op)
        assert tensor.tolist() == [False, False, True, False], f"{op}: {tensor}"
        results.append(tensor)
    return results


@program()
def all_reduce_average():
    rank, ranks = world()
    results = []
    for dtype in (torch.float32, torch.float64):
        tensor = torch.arange(10, dtype=dtype) + rank
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        torch.testing.assert_close(tensor, torch.arange(10, dtype=dtype) + (ranks - 1) / 2)
        results.append(tensor)
    return results


@program(gloo=False)
def all_reduce_half_averages():
    rank, ranks = world()
    results = []
    for dtype in (torch.float16, torch.bfloat16):
        tensor = torch.arange(10, dtype=dtype) + 2 * rank
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        torch.testing.assert_close(tensor, torch.arange(10, dtype=dtype) + (ranks - 1))
        results.append(tensor)
    return results


@program(gloo=False)
def all_reduce_scaled():
    """Each rank may scale its own contribution: by a number, or by a tensor of one element."""
    rank, ranks = world()
    expected = torch.arange(6.0) * sum((r + 1) * 0.5 for r in range(ranks))
    results = []
    for factor in (0.5, torch.tensor([0.5])):
        tensor = torch.arange(6.0) * (rank + 1)
        dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(factor))
        torch.testing.assert_close(tensor, expected)
        results.append(tensor)
    return results


@program()
def all_reduce_shapes():
    """Nothing, a scalar, a transposed matrix, and more than fits into any buffer."""
    rank, ranks = world()
    total = ranks * (ranks + 1) / 2
    transposed = torch.arange(12.0).view(3, 4).t() * (rank + 1)
    dist.all_reduce(transposed)
    torch.testing.assert_close(transposed, torch.arange(12.0).view(3, 4).t() * total)
    scalar = torch.tensor(float(rank + 1))
    dist.all_reduce(scalar)
    assert scalar.shape == () and scalar == total
    empty = torch.empty(0, 3)
    dist.all_reduce(empty)
    large = torch.full((1 << 21,), float(rank + 1))
    dist.all_reduce(large)
    assert (large == total).all()
    return [transposed, scalar, empty, large[:: 1 << 16]]


@program(gloo=False)
def all_reduce_column():
    """Only the elements of the view change."""
    rank, ranks = world()
    matrix = torch.full((6, 4), float(rank + 1))
    dist.all_reduce(matrix[:, 1])
    assert (matrix[:, 1] == ranks * (ranks + 1) / 2).all() and (matrix[:, [0, 2, 3]] == rank + 1).all(), matrix
    return matrix


@program()
def reduce_to_each():
    rank, ranks = world()
    results = []
    for root in range(ranks):
        for op, expected in ((dist.ReduceOp.SUM, ranks * (ranks + 1) / 2), (dist.ReduceOp.MAX, ranks)):
            tensor = torch.full((4,), float(rank + 1))
            dist.reduce(tensor, dst=root, op=op)
            if rank == root:
                assert (tensor == expected).all()
                results.append(tensor)
    return results


@program()
def all_reduce_complex():
    rank, ranks = world()
    tensor = torch.complex(torch.ones(4), torch.full((4,), float(rank)))
    dist.all_reduce(tensor)
    assert (tensor.real == ranks).all() and (tensor.imag == ranks * (ranks - 1) / 2).all()
    return tensor


@program()
def reduce_scatter_lists():
    rank, ranks = world()
    tensor = torch.empty(4)
    dist.reduce_scatter(tensor, [torch.full((4,), float(rank + part)) for part in range(ranks)])
    assert (tensor == ranks * (ranks - 1) / 2 + ranks * rank).all()
    return tensor


@program()
def reduce_scatter_tensors():
    rank, ranks = world()
    results = []
    for dtype in (torch.float32, torch.int64, torch.complex64):
        tensor = torch.empty(2, dtype=dtype)
        dist.reduce_scatter_tensor(tensor, torch.arange(2 * ranks).to(dtype) * (rank + 1))
        assert (tensor == torch.arange(2 * rank, 2 * rank + 2) * (ranks * (ranks + 1) // 2)).all(), tensor
        results.append(tensor)
    return results
