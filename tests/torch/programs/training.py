"""Data-parallel training on made-up data, which must give what one process gives with all of the data."""

import torch
import torch.distributed as dist
import torch_ddp
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from . import program, world

STEPS, BATCH = 10, 8


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def data(ranks):
    """(inputs, targets) of every step and rank."""
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(STEPS, ranks, BATCH, 6, generator=generator)
    weights = torch.randn(6, 2, generator=generator)
    return inputs, torch.sin(inputs @ weights)


def train(net, inputs, targets, optimizer=None):
    """Takes a step per batch."""
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for batch, target in zip(inputs, targets):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(batch), target).backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def train_alone(ranks, **options):
    """What one process gets from all batches of a step together."""
    inputs, targets = data(ranks)
    return train(model(), inputs.flatten(1, 2), targets.flatten(1, 2), **options)


def same(parameters, expected, tolerance=1e-6):
    for own, other in zip(parameters, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=tolerance)
    return parameters


@program()
def averaged_by_hand():
    """After each backward() the gradients of all ranks are averaged."""
    rank, ranks = world()
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = data(ranks)
    for batch, target in zip(inputs[:, rank], targets[:, rank]):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(batch), target).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= ranks
        optimizer.step()
    return same([p.detach() for p in net.parameters()], train_alone(ranks))


@program()
def distributed_data_parallel():
    rank, ranks = world()
    inputs, targets = data(ranks)
    net = DistributedDataParallel(model())
    return same(train(net, inputs[:, rank], targets[:, rank]), train_alone(ranks))


@program()
def small_buckets():
    """Many buckets are in flight at once; gradients are views into them."""
    rank, ranks = world()
    inputs, targets = data(ranks)
    net = DistributedDataParallel(model(), bucket_cap_mb=1e-4, gradient_as_bucket_view=True)
    return same(train(net, inputs[:, rank], targets[:, rank]), train_alone(ranks))


@program()
def static_graph():
    rank, ranks = world()
    inputs, targets = data(ranks)
    net = DistributedDataParallel(model(), static_graph=True)
    return same(train(net, inputs[:, rank], targets[:, rank]), train_alone(ranks))


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.left, self.right = torch.nn.Linear(6, 2), torch.nn.Linear(6, 2)

    def forward(self, batch, left):
        return self.left(batch) if left else self.right(batch)


@program()
def unused_parameters():
    """In each step a rank uses one of two heads; a head that no rank uses keeps its gradient."""
    rank, ranks = world()
    net = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
    alone = TwoHeads()
    inputs, targets = data(ranks)
    for step in range(4):
        net.zero_grad()
        alone.zero_grad()
        uses_left = [step == 0 or (step + r) % 2 == 0 for r in range(ranks)]
        loss = torch.nn.functional.mse_loss(net(inputs[step, rank], uses_left[rank]), targets[step, rank])
        loss.backward()
        for r in range(ranks):
            loss = torch.nn.functional.mse_loss(alone(inputs[step, r], uses_left[r]), targets[step, r])
            (loss / ranks).backward()
    return same([p.grad for p in net.parameters() if p.grad is not None],
                [p.grad for p in alone.parameters() if p.grad is not None])


@program()
def accumulated_gradients():
    """Between two steps gradients of several batches add up on each rank, before they are averaged."""
    rank, ranks = world()
    inputs, targets = data(ranks)
    net, alone = DistributedDataParallel(model()), model()
    with net.no_sync():
        for step in range(3):
            torch.nn.functional.mse_loss(net(inputs[step, rank]), targets[step, rank]).backward()
    torch.nn.functional.mse_loss(net(inputs[3, rank]), targets[3, rank]).backward()
    for step in range(4):
        torch.nn.functional.mse_loss(alone(inputs[step].flatten(0, 1)), targets[step].flatten(0, 1)).backward()
    return same([p.grad for p in net.parameters()], [p.grad for p in alone.parameters()])


@program()
def compressed_gradients():
    """A hook sends gradients as float16, and one of our own does the average by a future."""
    rank, ranks = world()
    inputs, targets = data(ranks)
    compressed = DistributedDataParallel(model())
    compressed.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(compressed, inputs[:, rank], targets[:, rank])
    same([p.detach() for p in compressed.parameters()], train_alone(ranks), tolerance=1e-2)

    def average(_, bucket):
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / ranks)

    hooked = DistributedDataParallel(model())
    hooked.register_comm_hook(None, average)
    return same(train(hooked, inputs[:, rank], targets[:, rank]), train_alone(ranks))


@program()
def uneven_inputs():
    """Ranks with fewer batches than others join the collectives of those until all are done."""
    rank, _ = world()
    net = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with Join([net]):
        for _ in range(3 + rank):
            optimizer.zero_grad()
            net(torch.ones(BATCH, 6)).sum().backward()
            optimizer.step()
    parameters = [p.detach() for p in net.parameters()]
    for parameter in parameters:
        copy = parameter.clone()
        dist.broadcast(copy, src=0)
        torch.testing.assert_close(parameter, copy, rtol=0, atol=0)
    return parameters


@program()
def parts_of_an_optimizer():
    """Each rank keeps the state of its part of the parameters, and the others get what it computes."""
    rank, ranks = world()
    inputs, targets = data(ranks)
    net = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    return same(train(net, inputs[:, rank], targets[:, rank], optimizer), train_alone(ranks))


@program()
def sampler():
    """The ranks share a data set: each example is seen once per epoch, and in another order in the next."""
    rank, ranks = world()
    examples = TensorDataset(torch.arange(12 * ranks))
    order = DistributedSampler(examples, num_replicas=ranks, rank=rank, seed=4)
    epochs = []
    for epoch in range(2):
        order.set_epoch(epoch)
        own = torch.cat([batch for (batch,) in DataLoader(examples, batch_size=5, sampler=order)])
        parts = [torch.empty_like(own) for _ in range(ranks)]
        dist.all_gather(parts, own)
        assert torch.cat(parts).sort().values.equal(torch.arange(12 * ranks))
        epochs.append(own)
    assert not epochs[0].equal(epochs[1])
    return epochs


@program()
def example_of_training():
    """The example gives the same model on every rank, and the one that a single process gets."""
    return same(torch_ddp.train_together(), torch_ddp.train_alone(dist.get_world_size()))
