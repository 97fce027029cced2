"""Collectives through which gradients flow, and numbers that are computed by several ranks together."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable

from . import program, world


def own_rows(rank):
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(rank))


def contrast(rows):
    """A loss in which every row is compared with every other, so that it cannot be computed rank by rank."""
    return torch.logsumexp(rows @ rows.t(), dim=1).sum()


def expected_gradient():
    """Of the loss of all rows, as one process computes it; the part that belongs to this rank."""
    rank, ranks = world()
    rows = torch.cat([own_rows(r) for r in range(ranks)]).requires_grad_()
    contrast(rows).backward()
    return rows.grad.view(ranks, 4, 3)[rank]


@program()
def all_gather_of_pytorch():
    """Every rank has the whole loss; backward() adds what all of them say about a row, so each takes a part of it."""
    rows = own_rows(dist.get_rank()).requires_grad_()
    loss = contrast(torch.cat(differentiable.all_gather(rows))) / dist.get_world_size()
    loss.backward()
    torch.testing.assert_close(rows.grad, expected_gradient())
    return rows.grad


class Gather(torch.autograd.Function):
    """all_gather, whose gradient is a sum over ranks."""

    @staticmethod
    def forward(context, rows):
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows)
        return tuple(parts)

    @staticmethod
    def backward(context, *gradients):
        stacked = torch.stack(gradients)
        dist.all_reduce(stacked)
        return stacked[dist.get_rank()]


@program()
def all_gather_made_at_home():
    rows = own_rows(dist.get_rank()).requires_grad_()
    loss = contrast(torch.cat(Gather.apply(rows))) / dist.get_world_size()
    loss.backward()
    torch.testing.assert_close(rows.grad, expected_gradient())
    return rows.grad


@program()
def all_gather_with_own_part():
    """all_gather cuts the graph; with its own part put back a rank has the gradient of the whole loss for its rows."""
    rank, ranks = world()
    rows = own_rows(rank).requires_grad_()
    parts = [torch.empty_like(rows) for _ in range(ranks)]
    dist.all_gather(parts, rows.detach())
    parts[rank] = rows
    contrast(torch.cat(parts)).backward()
    torch.testing.assert_close(rows.grad, expected_gradient())
    return rows.grad


@program()
def other_differentiable_calls():
    rank, ranks = world()
    tensor = torch.full((3,), float(rank + 1), requires_grad=True)
    total = differentiable.all_reduce(tensor * tensor)
    part = differentiable.reduce_scatter(torch.empty(3), [tensor * part for part in range(ranks)])
    swapped = differentiable.all_to_all([torch.empty(3) for _ in range(ranks)], [tensor * r for r in range(ranks)])
    copied = differentiable.broadcast(tensor, 0)
    (total.sum() + part.sum() + torch.stack(swapped).sum() + copied.sum()).backward()
    return [total.detach(), part.detach(), [s.detach() for s in swapped], tensor.grad]


@program()
def soft_max():
    """Each rank has some of the scores; the largest and the sum of all make it the soft-max of a vector."""
    rank, ranks = world()
    scores = torch.randn(100 * ranks, generator=torch.Generator().manual_seed(7)) * 50
    own = scores.view(ranks, -1)[rank]
    largest = own.max()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    exponentials = (own - largest).exp()
    total = exponentials.sum()
    dist.all_reduce(total)
    probabilities = exponentials / total
    torch.testing.assert_close(probabilities, torch.softmax(scores, 0).view(ranks, -1)[rank])
    return probabilities


@program()
def norm():
    """Each rank has some of the elements; only the sum of squares is to be combined."""
    rank, ranks = world()
    vector = torch.randn(1000 * ranks, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    squares = vector.view(ranks, -1)[rank].square().sum()
    dist.all_reduce(squares)
    torch.testing.assert_close(squares.sqrt(), vector.norm())
    return squares
