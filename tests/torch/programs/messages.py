"""From one rank to another."""

import torch
import torch.distributed as dist
import torch_ring

from . import program, world


@program()
def blocking():
    """Rank 0 sends, and gets an answer that is larger."""
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.arange(5.0), dst=1)
        answer = torch.empty(5, 1000)
        dist.recv(answer, src=1)
        assert (answer == torch.arange(5.0).view(5, 1)).all()
        return answer
    if rank == 1:
        question = torch.empty(5)
        dist.recv(question, src=0)
        dist.send(question.view(5, 1).repeat(1, 1000), dst=0)
        return question
    return None


@program()
def not_blocking():
    """Both send before they receive, more than any buffer holds."""
    rank, ranks = world()
    sent = torch.full((1 << 19,), float(rank))
    received = torch.empty(1 << 19)
    works = [dist.isend(sent, dst=(rank + 1) % ranks), dist.irecv(received, src=(rank - 1) % ranks)]
    for work in works:
        work.wait()
    assert (received == (rank - 1) % ranks).all()
    return received[:: 1 << 14]


@program(ranks=3)
def chain_of_three():
    """The middle rank passes on what it gets, plus one."""
    rank = dist.get_rank()
    tensor = torch.zeros(4)
    if rank == 0:
        dist.send(tensor + 1, dst=1)
    elif rank == 1:
        dist.recv(tensor, src=0)
        dist.send(tensor + 1, dst=2)
    elif rank == 2:
        dist.recv(tensor, src=1)
        assert (tensor == 2).all()
    return tensor


@program()
def every_type():
    rank = dist.get_rank()
    results = []
    for dtype in (torch.uint8, torch.int16, torch.int64, torch.bfloat16, torch.float64, torch.bool, torch.complex64):
        tensor = torch.tensor([1, 0, 1]).to(dtype)
        if rank == 0:
            dist.send(tensor, dst=1)
        elif rank == 1:
            received = torch.zeros(3).to(dtype)
            dist.recv(received, src=0)
            assert torch.equal(received, tensor), f"{dtype}: {received}"
            results.append(received)
    return results


@program()
def tags():
    """Messages are received in another order than they were sent, by their tags."""
    rank = dist.get_rank()
    if rank == 0:
        works = [dist.isend(torch.full((3,), float(tag)), dst=1, tag=tag) for tag in range(5)]
        for work in works:
            work.wait()
    elif rank == 1:
        for tag in reversed(range(5)):
            tensor = torch.empty(3)
            dist.recv(tensor, src=0, tag=tag)
            assert (tensor == tag).all(), f"tag {tag}: {tensor}"
    return rank


@program()
def from_any():
    """Rank 0 hears from all others, in the order in which they come; the tag keeps other messages away."""
    rank, ranks = world()
    if rank != 0:
        dist.send(torch.full((2,), float(rank)), dst=0, tag=7)
        return None
    heard = []
    for _ in range(ranks - 1):
        tensor = torch.empty(2)
        source = dist.recv(tensor, tag=7)
        assert (tensor == source).all(), f"from {source}: {tensor}"
        heard.append(source)
    assert sorted(heard) == list(range(1, ranks))
    return sorted(heard)


@program()
def views():
    """A column is sent, and received into a column."""
    rank = dist.get_rank()
    matrix = torch.arange(12.0).view(4, 3) * (1 - rank)
    if rank == 0:
        dist.send(matrix[:, 1].contiguous(), dst=1)
    elif rank == 1:
        column = torch.empty(4)
        dist.recv(column, src=0)
        matrix[:, 2] = column
        assert matrix[:, 2].tolist() == [1, 4, 7, 10]
    return matrix


@program()
def batches():
    """Everybody sends to both neighbours and receives from both, in one batch."""
    rank, ranks = world()
    ahead, behind = (rank + 1) % ranks, (rank - 1) % ranks
    own = torch.full((6,), float(rank))
    received = torch.empty(6)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, own, ahead), dist.P2POp(dist.irecv, received, behind)])
    for work in works:
        work.wait()
    assert (received == behind).all()
    return received


@program(gloo=False)
def to_oneself():
    rank = dist.get_rank()
    received = torch.empty(3)
    works = [dist.isend(torch.full((3,), float(rank)), dst=rank), dist.irecv(received, src=rank)]
    for work in works:
        work.wait()
    assert (received == rank).all()
    return received


@program()
def ring_all_reduce():
    """The example that sums by messages gives what all_reduce gives."""
    torch.manual_seed(dist.get_rank())
    own = torch.randn(1001)
    expected = own.clone()
    dist.all_reduce(expected)
    torch_ring.ring_all_reduce(own)
    torch.testing.assert_close(own, expected)
    return own
