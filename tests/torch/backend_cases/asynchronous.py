"""Calls that do not wait, their futures, and messages."""

import concurrent.futures
import datetime
import gc
import threading

import torch
import torch.distributed as dist

from . import PATIENCE, case, same, holds, fails, until


@case
def messages(rank, size):
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            tensor = torch.zeros(1)
            source = dist.recv(tensor)
            holds(tensor.item() == source)
            seen.add(source)
        holds(seen == set(range(1, size)))
    else:
        dist.send(torch.tensor([float(rank)]), 0)
    dist.barrier()  # before others send, which rank 0 would receive from anybody
    # By tag, not by the order of sending.
    if rank == 0:
        for tag in range(5):
            dist.send(torch.tensor([float(tag)]), 1, tag=tag)
    if rank == 1:
        for tag in reversed(range(5)):
            tensor = torch.zeros(1)
            dist.recv(tensor, 0, tag=tag)
            holds(tensor.item() == tag)
    large = 1 << 20
    out = torch.zeros(large)
    ops = [dist.P2POp(dist.irecv, out, (rank - 1) % size),
           dist.P2POp(dist.isend, torch.full((large,), float(rank)), (rank + 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(out, torch.full((large,), float((rank - 1) % size)))
    tensor = torch.zeros(2)
    receiving = dist.irecv(tensor, rank)  # from itself
    dist.isend(torch.ones(2), rank).wait()
    receiving.wait()
    same(tensor, torch.ones(2))


@case
def futures(rank, size):
    total = float(sum(range(size)))
    works = [dist.all_reduce(torch.full((100,), float(rank)), async_op=True) for _ in range(20)]
    done = [work.get_future().then(lambda f: f.value()[0][0].item()) for work in works]
    holds(torch.futures.wait_all(done) == [total] * 20)
    work = dist.all_reduce(torch.full((4,), float(rank)), async_op=True)
    until(work.is_completed, "an operation for which nobody waits")
    holds(work.is_success())
    same(work.get_future().wait()[0], torch.full((4,), total))  # after it was done
    same(work.result()[0], torch.full((4,), total))
    outs = [torch.zeros(1) for _ in range(size)]
    holds(len(dist.all_gather(outs, torch.tensor([1.0]), async_op=True).get_future().wait()) == size)
    holds(dist.barrier(async_op=True).get_future().wait() == [])
    turned = torch.full((2, 3), float(rank)).t()
    dist.all_reduce(turned, async_op=True).get_future().wait()
    same(turned, torch.full((3, 2), total))


@case
def callbacks_that_call(rank, size):
    """A callback may start operations and wait for their futures, as compressing hooks of DDP do; several at once."""
    def again(future):
        tensor = future.value()[0]
        return dist.all_reduce(tensor, async_op=True).get_future().wait()[0]

    # Their own groups, since callbacks of several futures run in no order.
    groups = [dist.new_group(range(size)) for _ in range(4)]
    chains = []
    for group in groups:
        first = dist.all_reduce(torch.ones(5), group=group, async_op=True).get_future()

        def nested(future, group=group):
            return dist.all_reduce(future.value()[0], group=group, async_op=True).get_future().wait()[0]

        chains.append(first.then(nested))
    for future in chains:
        same(future.wait(), torch.full((5,), float(size * size)))
    work = dist.all_reduce(torch.ones(5), async_op=True)
    same(work.get_future().then(again).wait(), torch.full((5,), float(size * size)))
    for group in groups:
        dist.destroy_process_group(group)


@case
def callbacks_that_wait(rank, size):
    """However many callbacks wait for each other, there is a thread for what they wait for."""
    many = 100
    all_wait = threading.Barrier(many + 1)

    def wait(future):
        all_wait.wait(PATIENCE / 2)
        return tuple(future.wait()[0].shape)

    tensors = [torch.zeros(1) for _ in range(many)]
    works = [dist.irecv(tensor, (rank - 1) % size, tag=tag) for tag, tensor in enumerate(tensors)]
    done = [work.get_future().then(wait) for work in works]
    dist.barrier()  # until here nobody has sent: what is done already calls back in then() itself
    sent = [dist.isend(torch.ones(1), (rank + 1) % size, tag=tag) for tag in range(many)]
    all_wait.wait(PATIENCE / 2)
    holds([future.wait() for future in done] == [(1,)] * many)
    for work in sent:
        work.wait()


@case
def dropped(rank, size):
    """The tensors of a Work that nobody has live until it is done."""
    kept = [torch.full((1000,), float(rank)).reshape(10, 100).t() for _ in range(10)]
    for tensor in kept:
        dist.all_reduce(tensor, async_op=True)
    dist.all_reduce(torch.zeros(1 << 18), async_op=True)  # nobody has the tensor, either
    tensor = torch.zeros(1 << 16)
    dist.irecv(tensor, (rank - 1) % size, tag=11)
    address, count = tensor.data_ptr(), tensor.numel()
    del tensor
    gc.collect()
    others = [torch.zeros(1 << 16) for _ in range(20)]
    holds(all(x.data_ptr() != address for x in others), "memory of a receive was given away")
    dist.barrier()  # until here nobody has sent
    dist.send(torch.ones(count), (rank + 1) % size, tag=11)
    dist.barrier()
    holds(all(x.sum().item() == 0 for x in others))
    wanted = torch.full((100, 10), float(sum(range(size))))
    until(lambda: all(torch.equal(x, wanted) for x in kept), "the result of a dropped Work")


@case
def from_threads(rank, size):
    groups = [dist.new_group(range(size)) for _ in range(4)]

    def calls(group):
        for i in range(50):
            tensor = torch.full((10,), float(i))
            work = dist.all_reduce(tensor, group=group, async_op=i % 2 == 0)
            if work:
                work.wait()
            holds(tensor[0].item() == i * size, tensor)

    with concurrent.futures.ThreadPoolExecutor(len(groups)) as pool:
        list(pool.map(calls, groups))  # which raises what one of them raises
    for group in groups:
        dist.destroy_process_group(group)


@case
def wait_with_limit(rank, size):
    tensor = torch.zeros(1)
    receiving = dist.irecv(tensor, (rank - 1) % size, tag=5)
    holds(not receiving.is_completed())
    fails(dist.DistBackendError, "is not done after 50 ms", receiving.wait, datetime.timedelta(milliseconds=50))
    errors = []

    def wait_for_centuries():
        try:
            receiving.wait(datetime.timedelta(days=200_000))
        except dist.DistBackendError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait_for_centuries)
    waiting.start()
    waiting.join(0.2)
    holds(waiting.is_alive(), errors)
    dist.barrier()
    dist.send(torch.ones(1), (rank + 1) % size, tag=5)
    receiving.wait(datetime.timedelta(seconds=60))
    holds(tensor.item() == 1)
    waiting.join(PATIENCE / 2)
    holds(not waiting.is_alive() and not errors, errors)
