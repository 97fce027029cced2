"""Tensors of a GPU, by way of cuda_double.cc: there is one GPU, which all ranks use."""

import datetime

import torch
import torch.distributed as dist

from . import all_are_here, case, everyone, fails, fold, holds, number_types, same, until, values

double = None  # the extension, which gpu_test.py loads


def on_gpu(tensor):
    made = double.empty(list(tensor.shape), tensor)
    made.copy_(tensor)
    return made


def off_gpu(tensor):
    """What is in it after all that is in the current stream."""
    made = torch.empty(tensor.shape, dtype=tensor.dtype)
    made.copy_(tensor)
    return made


def filled(tensor):
    """A tensor that the current stream writes some time after this returns."""
    source = on_gpu(tensor)
    made = double.empty(list(tensor.shape), tensor)
    made.copy_(source)
    return made


def both(call, wanted, *tensors):
    """Makes the call waited for and not, and compares the tensors with what is wanted of each."""
    for asynchronous in (False, True):
        given = [filled(tensor) for tensor in tensors]
        work = call(*given, asynchronous)
        if asynchronous:
            work.wait()
        for found, right in zip(given, wanted, strict=True):
            same(off_gpu(found), right)


@case
def gpu_collectives(rank, size):
    for dtype in [*number_types(), torch.bool, torch.complex64]:
        inputs = everyone(size, 13, dtype)
        mine, none = inputs[rank], torch.zeros(13, dtype=dtype)
        op = dist.ReduceOp.MAX if dtype == torch.bool else dist.ReduceOp.SUM
        total = fold(op, inputs)
        both(lambda x, later: dist.all_reduce(x, op, async_op=later), [total], mine)
        both(lambda x, later: dist.broadcast(x, 1, async_op=later), [inputs[1]], mine)
        both(lambda x, later: dist.reduce(x, 0, op, async_op=later), [total if rank == 0 else mine], mine)
        both(lambda x, y, later: dist.all_gather_into_tensor(y, x, async_op=later), [mine, torch.cat(inputs)],
             mine, none.repeat(size))
        both(lambda x, *outs: dist.all_gather(list(outs[:-1]), x, async_op=outs[-1]), [mine, *inputs],
             mine, *[none] * size)
        both(lambda x, *outs: dist.gather(x, list(outs[:-1]) if rank == 0 else None, 0, async_op=outs[-1]),
             [mine, *(inputs if rank == 0 else [none] * size)], mine, *[none] * size)
        both(lambda y, *ins: dist.scatter(y, list(ins[:-1]) if rank == 1 else None, 1, async_op=ins[-1]),
             [everyone(size, 13, dtype)[rank], *inputs], none, *inputs)
        both(lambda y, *ins: dist.reduce_scatter(y, list(ins[:-1]), op, async_op=ins[-1]),
             [total, *[mine] * size], none, *[mine] * size)
        both(lambda y, x, later: dist.reduce_scatter_tensor(y, x, op, async_op=later), [total, mine.repeat(size)],
             none, mine.repeat(size))
        both(lambda y, x, later: dist.all_to_all_single(y, x, async_op=later),
             [torch.cat(inputs), mine.repeat(size)], none.repeat(size), mine.repeat(size))
        both(lambda *all: dist.all_to_all(list(all[size:-1]), list(all[:size]), async_op=all[-1]),
             [*[mine] * size, *inputs], *[mine] * size, *[none] * size)
        splits = [(rank + k) % size for k in range(size)]
        sent = torch.cat([mine[:n] for n in splits])
        both(lambda y, x, later: dist.all_to_all_single(y, x, splits, splits, async_op=later),
             [torch.cat([inputs[k][:n] for k, n in enumerate(splits)]), sent], torch.zeros_like(sent), sent)


@case
def gpu_views(rank, size):
    """Tensors whose elements do not lie one after the other."""
    inputs = everyone(size, 12, torch.float32)
    total = fold(dist.ReduceOp.SUM, inputs)
    for asynchronous in (False, True):
        wide = filled(torch.zeros(24))
        part = wide[::2]
        part.copy_(filled(inputs[rank]))
        work = dist.all_reduce(part, async_op=asynchronous)
        if asynchronous:
            work.wait()
        same(off_gpu(part), total)
        same(off_gpu(wide[1::2]), torch.zeros(12))
        turned = filled(torch.zeros(2, 12)).t()
        wide = [turned[:, 0], turned[:, 1]]
        work = dist.all_gather([filled(torch.zeros(12)) for _ in range(size - 1)] + [wide[0]], part,
                               async_op=asynchronous)
        if asynchronous:
            work.wait()
        same(off_gpu(wide[0]), total)
    for result in dist.all_reduce_coalesced([filled(inputs[rank]), filled(inputs[rank])], async_op=True).wait():
        same(off_gpu(result), total)


@case
def gpu_memory_is_kept(rank, size):
    """The next tensor of its size gets the memory of one that nobody holds: not before the call has used it."""
    total = fold(dist.ReduceOp.SUM, everyone(size, 16, torch.float32))
    for _ in range(10):
        tensor = filled(values(rank, 16, torch.float32))
        gathered = filled(torch.zeros(16 * size))
        works = [dist.all_reduce(tensor, async_op=True)]
        wide = filled(torch.zeros(32))
        wide[::2].copy_(tensor := filled(values(rank, 16, torch.float32)))
        works.append(dist.all_gather_into_tensor(gathered, wide[::2], async_op=True))
        del wide, tensor
        for _ in range(3):
            filled(torch.full((16,), 99.0))
            filled(torch.full((32,), 99.0))
        works[0].wait()
        works[1].wait()
        same(off_gpu(works[0].get_future().wait()[0]), total)
        same(off_gpu(gathered), torch.cat(everyone(size, 16, torch.float32)))
        # That of the call itself, too: here the result is copied from it when the call is done.
        part = filled(torch.zeros(32))[::2]
        part.copy_(filled(values(rank, 16, torch.float32)))
        work = dist.all_reduce(part, async_op=True)
        until(work.is_completed, "an operation for which nobody waits")
        for _ in range(3):
            filled(torch.full((16,), 99.0))
        work.wait()
        same(off_gpu(part), total)


@case
def gpu_wait_does_not_block(rank, size):
    """wait() is for the stream: the caller may go on to what the others need before they call."""
    store = dist.distributed_c10d._get_default_store()
    tensor = filled(torch.full((4,), float(rank)))
    if rank > 0:
        store.wait(["rank 0 goes on"])
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        work.wait()
        holds(not work.is_completed())
        store.set("rank 0 goes on", "")
    work.wait()
    same(off_gpu(tensor), torch.full((4,), float(sum(range(size)))))
    until(work.is_completed, "an operation for which a stream waits")
    # It is for its own call: the next one needs what this rank does after it.
    works = [dist.all_reduce(filled(torch.ones(4)), async_op=True)]
    if rank == 0:
        works.append(dist.all_reduce(tensor, async_op=True))
    works[0].wait()
    off_gpu(filled(torch.ones(1)))
    if rank == 0:
        store.set("rank 0 goes on again", "")
    else:
        store.wait(["rank 0 goes on again"])
        works.append(dist.all_reduce(tensor, async_op=True))
    works[1].wait()
    off_gpu(tensor)


@case
def gpu_streams(rank, size):
    """A call is in the order of the stream that is current for its caller."""
    total = float(sum(range(size)))
    for stream in (1, 2, 0):
        before = double.set_stream(stream)
        tensors = [filled(torch.full((8,), float(rank))) for _ in range(3)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        double.set_stream(stream + 1)
        for work in works:
            work.wait()
        for tensor in tensors:
            same(off_gpu(tensor), torch.full((8,), total))
        double.set_stream(before)


@case
def gpu_sharded(rank, size):
    """As FSDP calls: gathers and reductions on streams of their own, of memory that nobody holds when they run."""
    inputs = everyone(size, 8 * size, torch.float32)
    average = fold(dist.ReduceOp.SUM, inputs).div(size)[8 * rank:8 * rank + 8]
    for _ in range(5):
        pending = []
        for stream in (1, 2):
            before = double.set_stream(stream)
            whole, part = filled(torch.zeros(8 * size)), filled(torch.zeros(8))
            pending += [(dist.all_gather_into_tensor(whole, filled(inputs[rank][:8]), async_op=True), whole,
                         torch.cat([x[:8] for x in inputs])),
                        (dist.reduce_scatter_tensor(part, filled(inputs[rank]), dist.ReduceOp.AVG, async_op=True), part,
                         average)]
            filled(torch.full((8,), 99.0))
            off_gpu(filled(torch.full((8 * size,), 99.0)))  # the double gives memory of one stream to another at once
            double.set_stream(before)
        for work, found, wanted in pending:
            work.wait()
            same(off_gpu(found), wanted)


@case
def gpu_scaled(rank, size):
    """As DDP averages gradients, and its hooks divide before they add."""
    for dtype in (torch.float32, torch.float64):
        inputs = everyone(size, 21, dtype)
        total, none = fold(dist.ReduceOp.SUM, inputs), torch.zeros(7, dtype=dtype)
        both(lambda x, later: dist.all_reduce(x, dist.ReduceOp.AVG, async_op=later), [total / size], inputs[rank])
        scaled = dist._make_nccl_premul_sum(0.25)
        both(lambda x, later: dist.all_reduce(x, scaled, async_op=later), [total / 4], inputs[rank])
        mine = inputs[rank][:7].repeat(size)
        both(lambda y, x, later: dist.reduce_scatter_tensor(y, x, scaled, async_op=later), [total[:7] / 4, mine],
             none, mine)


@case
def gpu_futures(rank, size):
    total = torch.full((100,), float(sum(range(size))))
    works = [dist.all_reduce(filled(torch.full((100,), float(rank))), async_op=True) for _ in range(8)]
    read = [work.get_future().then(lambda future: off_gpu(future.value()[0])) for work in works]
    for found in torch.futures.wait_all(read):
        same(found, total)
    same(off_gpu(works[0].get_future().wait()[0]), total)  # after it was done
    for _ in range(300):  # while another thread ends it, for its future
        work = dist.all_reduce(filled(torch.full((100,), float(rank))), async_op=True)
        work.get_future()
        same(off_gpu(work.result()[0]), total)


@case
def gpu_messages(rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    for count in (1, 100_000):
        for receive_first in (False, True):
            out = filled(torch.zeros(count))
            ops = [dist.P2POp(dist.isend, filled(torch.full((count,), float(rank))), right),
                   dist.P2POp(dist.irecv, out, left)]
            for work in dist.batch_isend_irecv(ops[::-1] if receive_first else ops):
                work.wait()
            same(off_gpu(out), torch.full((count,), float(left)))
    # Into a tensor whose elements do not lie one after the other, which a kernel puts there.
    for _ in range(20):
        wide = filled(torch.zeros(24))
        work = dist.isend(filled(torch.full((12,), float(rank + 1))), right, tag=4)
        dist.recv(wide[::2], left, tag=4)
        same(off_gpu(wide), torch.stack([torch.full((12,), float(left + 1)), torch.zeros(12)], 1).reshape(-1))
        work.wait()
    # One for which there is no message for long holds back neither others nor collectives.
    late, soon = filled(torch.zeros(2)), filled(torch.zeros(2))
    waiting = dist.irecv(late, left, tag=1)
    dist.all_reduce(soon)
    dist.isend(filled(torch.full((2,), float(rank))), left, tag=2).wait()
    dist.irecv(soon, right, tag=2).wait()
    same(off_gpu(soon), torch.full((2,), float(right)))
    dist.send(filled(torch.full((2,), float(rank))), right, tag=1)
    waiting.wait()
    same(off_gpu(late), torch.full((2,), float(left)))
    # wait() is for its own call: the next receive gets what is sent after it.
    first, second = filled(torch.zeros(4)), filled(torch.zeros(4))
    works = [dist.irecv(first, left, tag=3), dist.irecv(second, left, tag=3)]
    sent = [dist.isend(filled(torch.full((4,), float(rank))), right, tag=3)]
    works[0].wait()
    sent.append(dist.isend(first, right, tag=3))
    works[1].wait()
    same(off_gpu(second), torch.full((4,), float((rank - 2) % size)))
    # More receives than there are streams.
    many = [filled(torch.zeros(1)) for _ in range(40)]
    works = [dist.irecv(tensor, left, tag=10 + k) for k, tensor in enumerate(many)]
    dist.all_reduce(soon, async_op=True).wait()
    off_gpu(soon)
    for k in reversed(range(40)):
        dist.isend(filled(torch.full((1,), float(k))), right, tag=10 + k)
    for k, work in enumerate(works):
        work.wait()
        same(off_gpu(many[k]), torch.full((1,), float(k)))
    if rank == 0:
        tensor = filled(torch.zeros(1))
        seen = {dist.recv(tensor) for _ in range(size - 1)}
        holds(seen == set(range(1, size)))
    else:
        dist.send(filled(torch.ones(1)), 0)


@case
def gpu_lanes(rank, size):
    """A send holds back none with another tag while there are streams, however many tags were in use before."""
    ones = filled(torch.ones(1))

    def send(tag):
        if rank == 0:
            return dist.isend(ones, 1, tag=tag)
        return dist.recv(filled(torch.zeros(1)), 0, tag=tag)

    def one_passes(tags):
        """Sends of rank 0 come after a collective, which rank 1 calls when one of another stream has passed them."""
        tensor = filled(torch.ones(1))
        if rank > 0:
            send(1)
            dist.all_reduce(tensor)
            for tag in tags:
                send(tag)
            return
        double.set_stream(41)  # which is none of the pool
        dist.all_reduce(tensor, async_op=True).wait()
        works = [send(tag) for tag in tags]
        double.set_stream(42)
        works.append(send(1))
        double.set_stream(0)
        for work in works:
            until(work.is_completed, "a send")

    dist.all_reduce(filled(torch.ones(1)), async_op=True).wait()  # has one of the 32 streams of the pool
    for tag in range(100, 170):
        work = send(tag)
        if rank == 0:
            until(work.is_completed, "a send")
    one_passes(range(100, 130))
    works = [send(tag) for tag in range(200, 240)]  # which keep their streams, since nobody asks for them
    one_passes([100])
    works.clear()


@case
def gpu_barrier(rank, size):
    """It comes after the caller's work on the GPU, and what was started there."""
    tensor = filled(torch.full((4,), float(rank)))
    work = dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    same(off_gpu(work.result()[0]), torch.full((4,), float(sum(range(size)))))
    double.set_stream(5)  # which has no order with the others
    same(off_gpu(tensor), torch.full((4,), float(sum(range(size)))))
    double.set_stream(0)
    group = dist.new_group([0, 1])
    if rank < 2:
        tensor = filled(torch.full((4,), float(rank)))
        dist.all_reduce(tensor, group=group)
        same(off_gpu(tensor), torch.ones(4))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    holds(objects == [{"rank": k} for k in range(size)])


@case
def gpu_wrong_calls(rank, size):
    tensor = filled(torch.ones(2))
    fails(ValueError, "on cuda:0 and on cpu: they must be on one device", dist.all_gather_into_tensor,
          torch.zeros(2 * size), tensor)
    dist.all_reduce(tensor)
    same(off_gpu(tensor), torch.full((2,), float(size)))


@case
def gpu_graphs(rank, size):
    """Calls that are captured are done at once, and wait() orders the streams of the capture."""
    def future_of(work):
        return work.get_future().wait()

    mine = filled(torch.zeros(10))
    gathered, found = (filled(torch.zeros(10 * size)) for _ in range(2))
    double.set_stream(1)
    dist.all_gather_into_tensor(gathered, mine)  # the first call of a group is not for graphs
    works = []

    def step(wait):
        works.append(dist.all_gather_into_tensor(gathered, mine, async_op=True))
        holds(wait(works[-1]))
        found.copy_(gathered)

    waits = [lambda work: work.wait(), lambda work: work.wait(datetime.timedelta(seconds=1)), future_of]
    graphs = [double.Graph(lambda wait=wait: step(wait)) for wait in waits]
    for number, graph in enumerate(2 * graphs):
        mine.copy_(torch.full((10,), float(rank + number)))
        graph.launch()
        same(off_gpu(found), torch.cat([torch.full((10,), float(k + number)) for k in range(size)]))
    for work in works:
        holds(work.wait() and work.is_completed())
    double.set_stream(0)
    all_are_here(rank, size)
