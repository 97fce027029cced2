"""What stands above the backend: the profiler, functional collectives, DistributedDataParallel."""

import torch
import torch.distributed as dist
import torch.distributed.nn

from . import case, same, holds


@case
def profiler(rank, size):
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(torch.ones(4))
        dist.all_reduce(torch.ones(4), async_op=True).wait()
        dist.broadcast(torch.ones(4), 0)
        sending = dist.isend(torch.ones(2), (rank + 1) % size)
        dist.recv(torch.ones(2), (rank - 1) % size)
        sending.wait()
    names = [event.name for event in profile.function_events]
    holds(names.count("tutti:all_reduce") == 2 and "tutti:broadcast" in names, names)
    holds("tutti:send" in names and "tutti:recv" in names, names)


@case
def functional(rank, size):
    import torch.distributed._functional_collectives as functions

    world = dist.group.WORLD
    same(functions.all_reduce(torch.ones(2), "sum", world) + 0, torch.full((2,), float(size)))
    same(functions.all_gather_tensor(torch.tensor([float(rank)]), 0, world) + 0, torch.arange(float(size)))
    same(functions.reduce_scatter_tensor(torch.arange(float(size)), "sum", 0, world) + 0,
         torch.tensor([float(size * rank)]))
    same(functions.all_to_all_single(torch.arange(float(size)), None, None, world) + 0, torch.full((size,), float(rank)))
    x = torch.full((2,), float(rank), requires_grad=True)
    torch.distributed.nn.functional.all_reduce(x).sum().backward()
    same(x.grad, torch.full((2,), float(size)))


@case
def data_parallel(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    def model():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 10))

    data = torch.arange(float(20 * size * 4)).reshape(size * 4, 20).sin()
    alone = model()
    alone(data).square().mean().backward()
    for buckets in (25, 0.001):
        parallel = DistributedDataParallel(model(), bucket_cap_mb=buckets)
        for _ in range(3):
            parallel.zero_grad()
            parallel(data[4 * rank : 4 * rank + 4]).square().mean().backward()
        for mine, wanted in zip(parallel.module.parameters(), alone.parameters()):
            torch.testing.assert_close(mine.grad, wanted.grad)
    for hook, state in ((default_hooks.fp16_compress_hook, None),
                        (powerSGD_hook.powerSGD_hook,
                         powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1.1))):
        parallel = DistributedDataParallel(model())
        parallel.register_comm_hook(state, hook)
        for _ in range(4):
            parallel.zero_grad()
            parallel(data[4 * rank : 4 * rank + 4]).square().mean().backward()
        found = [None] * size
        dist.all_gather_object(found, [p.grad.sum().item() for p in parallel.parameters()])
        holds(all(f == found[0] for f in found), found)
