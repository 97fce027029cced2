"""Training with a copy of the model on every rank, each of which sees a part of the data.

    torchrun --nproc-per-node 2 torch_ddp.py

DistributedDataParallel averages the gradients of all ranks during backward(), so that all copies take the same step. It
is the step that one process would take with the data of all ranks, except for rounding.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 40, 16


def make_model():
    torch.manual_seed(0)  # the same on every rank
    return torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def make_batch(step, rank):
    """Points of a plane, and how far each is from a circle: every rank makes its own."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    points = torch.rand(BATCH, 2, generator=generator) * 2 - 1
    return points, points.norm(dim=1, keepdim=True) - 0.5


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for points, distances in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(points), distances)
        loss.backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def train_together():
    rank = dist.get_rank()
    return train(DistributedDataParallel(make_model()), (make_batch(step, rank) for step in range(STEPS)))


def train_alone(ranks):
    """The same by one process."""
    batches = ([make_batch(step, rank) for rank in range(ranks)] for step in range(STEPS))
    return train(make_model(), ([torch.cat(parts) for parts in zip(*batch)] for batch in batches))


def main():
    import pytutti.torch  # noqa: F401, now there is a backend "tutti"

    dist.init_process_group("tutti")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pairs = zip(train_together(), train_alone(ranks))
    difference = max((ours - alone).abs().max().item() for ours, alone in pairs)
    print(f"rank {rank} of {ranks}: differs from one process by less than 1e-6: {difference < 1e-6}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
