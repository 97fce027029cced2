"""Tensors as they may lie in memory, and the forms of calls."""

import torch
import torch.distributed as dist

from . import backend, case, everyone, fails, fold, holds, same, until, views


@case
def non_contiguous(rank, size):
    dtype = torch.float32
    inputs = everyone(size, 6, dtype)
    total = fold(dist.ReduceOp.SUM, inputs)
    for n, make in enumerate((lambda x: views(x)[0], lambda x: views(x)[1])):
        shaped = (lambda x: x) if n == 0 else (lambda x: x.reshape(2, 3))
        tensor = make(inputs[rank])
        dist.all_reduce(tensor)
        same(tensor, shaped(total))
        for root in range(size):
            tensor = make(inputs[rank])
            dist.reduce(tensor, root)
            same(tensor, shaped(total if rank == root else inputs[rank]))
            tensor = make(inputs[rank])
            dist.broadcast(tensor, root)
            same(tensor, shaped(inputs[root]))
            outs = [make(torch.zeros(6)) for _ in range(size)] if rank == root else None
            dist.gather(make(inputs[rank]), outs, dst=root)
            for found, wanted in zip(outs or [], inputs):
                same(found, shaped(wanted))
            out = make(torch.zeros(6))
            dist.scatter(out, [make(x) for x in inputs] if rank == root else None, src=root)
            same(out, shaped(inputs[rank]))
        outs = [make(torch.zeros(6)) for _ in range(size)]
        dist.all_gather(outs, make(inputs[rank]))
        for found, wanted in zip(outs, inputs):
            same(found, shaped(wanted))
        out = make(torch.zeros(6))
        dist.reduce_scatter(out, [make(inputs[rank]) for _ in range(size)])
        same(out, shaped(total))
        outs = [make(torch.zeros(6)) for _ in range(size)]
        dist.all_to_all(outs, [make(inputs[rank] + to) for to in range(size)])
        for k, found in enumerate(outs):
            same(found, shaped(inputs[k] + rank))
        sending = dist.isend(make(inputs[rank]), (rank + 1) % size)
        out = make(torch.zeros(6))
        receiving = dist.irecv(out, (rank - 1) % size)
        until(receiving.is_completed, "a receive for which nobody waits")
        same(out, shaped(inputs[(rank - 1) % size]))
        sending.wait()
    # Views that are computed when they are read: the conjugate, and the imaginary part of one. PyTorch passes
    # on a copy of those that torch.distributed itself gets.
    tensor = torch.tensor([complex(rank, 1)]).conj()
    backend().allreduce([tensor]).wait()
    same(tensor, torch.tensor([complex(sum(range(size)), -size)]))
    tensor = torch.tensor([complex(0, rank)]).conj().imag
    backend().allreduce([tensor]).wait()
    same(tensor, torch.tensor([-float(sum(range(size)))]))
    parameter = torch.nn.Parameter(torch.full((2, 3), float(rank)).t())
    with torch.no_grad():
        dist.all_reduce(parameter)
    same(parameter.detach(), torch.full((3, 2), float(sum(range(size)))))


@case
def not_copied_by_pytorch(rank, size):
    """It has no copies of integers of less than a byte, each of which it keeps in one."""
    for name in ("int1", "int4", "uint4"):
        dtype = getattr(torch, name, None)
        if dtype is None:  # PyTorch is too old
            continue

        def holding(number, step=1):
            return torch.full((4 * step,), number, dtype=torch.uint8).view(dtype)[::step]

        for step in (1, 2):
            outs = [holding(9, step) for _ in range(size)]
            dist.all_gather(outs, holding(rank, step))
            for k, out in enumerate(outs):
                same(out.view(torch.uint8), holding(k).view(torch.uint8))
            outs = [holding(9, step) for _ in range(size)]
            dist.all_to_all(outs, [holding(size * rank + k, step) for k in range(size)])
            for k, out in enumerate(outs):
                same(out.view(torch.uint8), holding(size * k + rank).view(torch.uint8))
            out = holding(rank, step)
            dist.broadcast(out, 1)
            same(out.view(torch.uint8), holding(1).view(torch.uint8))
            sending = dist.isend(holding(rank, step), (rank + 1) % size)
            dist.recv(out, (rank - 1) % size)
            same(out.view(torch.uint8), holding((rank - 1) % size).view(torch.uint8))
            sending.wait()
            outs = [holding(9, step) for _ in range(size)] if rank == 1 else None
            dist.gather(holding(rank, step), outs, dst=1)
            for k, out in enumerate(outs or []):
                same(out.view(torch.uint8), holding(k).view(torch.uint8))


@case
def lists_in_one_piece(rank, size):
    """chunk() makes them, and they must not be mixed up with others that only look the same."""
    inputs = everyone(size, 5, torch.int32)
    whole = torch.zeros(5 * size, dtype=torch.int32)
    dist.all_gather(list(whole.chunk(size)), inputs[rank])
    same(whole, torch.cat(inputs))
    whole = torch.zeros(5 * size, dtype=torch.int32)
    backwards = list(whole.chunk(size))[::-1]
    dist.all_gather(backwards, inputs[rank])
    same(whole, torch.cat(inputs[::-1]))
    out = torch.empty(5, dtype=torch.int32)
    dist.reduce_scatter(out, list(torch.cat(inputs).chunk(size)))
    same(out, inputs[rank] * size)
    repeated = [out] * size
    dist.all_to_all(list(whole.chunk(size)), repeated)
    same(whole[:5], inputs[0] * size)


@case
def lists_over_the_other_side(rank, size):
    """Lists in one piece that overlap the other side of their call."""
    whole = torch.arange(size + 1.0) + 10 * rank
    outs = list(whole[:size].chunk(size))
    dist.all_gather(outs, whole[(rank + 1) % size:][:1])  # another rank's place
    same(whole[:size], torch.tensor([10.0 * k + (k + 1) % size for k in range(size)]))
    parts = list(torch.arange(2.0 * size).chunk(size))
    dist.reduce_scatter(parts[(rank + 1) % size], parts)
    same(parts[(rank + 1) % size], size * torch.tensor([2.0 * rank, 2 * rank + 1]))
    ins = list((torch.arange(float(size)) + 10 * rank).chunk(size))
    dist.scatter(ins[size - 1], ins if rank == 0 else None, src=0)
    same(ins[size - 1], torch.tensor([float(rank)]))
    whole = torch.arange(size + 1.0) + 10 * rank
    dist.all_to_all(list(whole[1:].chunk(size)), list(whole[:size].chunk(size)))
    same(whole[1:], torch.tensor([10.0 * k + rank for k in range(size)]))


@case
def barrier_of_devices(rank, size):
    """A program for GPUs that runs on the processor."""
    for _ in range(2):
        dist.barrier(device_ids=[0])
        dist.barrier()


@case
def unequal(rank, size):
    outs = [torch.zeros(k + 1, dtype=torch.int64) for k in range(size)]
    dist.all_gather(outs, torch.full((rank + 1,), rank))
    for k, out in enumerate(outs):
        same(out, torch.full((k + 1,), k))
    outs = [torch.zeros(2 * k + rank) for k in range(size)]
    dist.all_to_all(outs, [torch.full((2 * rank + k,), 10.0 * rank + k) for k in range(size)])
    for k, out in enumerate(outs):
        same(out, torch.full((2 * k + rank,), 10.0 * k + rank))
    outs = [torch.zeros(0 if k == 0 else 1) for k in range(size)]  # the first begins nowhere
    dist.all_to_all(outs, [torch.full((0 if rank == 0 else 1,), float(rank)) for k in range(size)])
    for k, out in enumerate(outs[1:], 1):
        same(out, torch.full((1,), float(k)))
    sent = [k if rank == 0 else 1 for k in range(size)]
    received = [rank] + [1] * (size - 1)
    out = torch.zeros(sum(received), 2)
    dist.all_to_all_single(out, torch.full((sum(sent), 2), float(rank)), received, sent)
    same(out, torch.cat([torch.full((n, 2), float(k)) for k, n in enumerate(received)]))
    for splits in ((), ([2] * size, [2] * size)):  # in place
        tensor = torch.arange(2 * size) + 100 * rank
        dist.all_to_all_single(tensor, tensor, *splits)
        same(tensor, torch.cat([torch.arange(2 * rank, 2 * rank + 2) + 100 * k for k in range(size)]))


@case
def empty(rank, size):
    for shape in ((0,), (0, 3)):
        tensor = torch.zeros(shape)
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 0)
        dist.reduce(tensor, 0)
        dist.all_gather([torch.zeros(shape) for _ in range(size)], tensor)
        dist.gather(tensor, [torch.zeros(shape) for _ in range(size)] if rank == 0 else None, dst=0)
        dist.scatter(tensor, [torch.zeros(shape) for _ in range(size)] if rank == 0 else None, src=0)
        dist.reduce_scatter(tensor, [torch.zeros(shape) for _ in range(size)])
        dist.all_to_all([torch.zeros(shape) for _ in range(size)], [torch.zeros(shape) for _ in range(size)])
        dist.all_to_all_single(tensor, torch.zeros(shape))
        dist.all_gather_into_tensor(torch.zeros(0), tensor)
        sending = dist.isend(tensor, (rank + 1) % size)
        dist.recv(tensor, (rank - 1) % size)
        sending.wait()


@case
def coalesced(rank, size):
    total = float(sum(range(size)))
    for count in (3, 200000):  # copied to one call, and not
        tensors = [torch.full((count,), float(rank)), torch.full((2, 2), float(2 * rank)).t(), torch.zeros(0)]
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        same(tensors[0], torch.full((count,), total))
        same(tensors[1], torch.full((2, 2), 2 * total))
    outs = [torch.zeros(size), torch.zeros(2 * size)]
    with dist._coalescing_manager(async_ops=True) as region:
        dist.all_gather_into_tensor(outs[0], torch.tensor([float(rank)]))
        dist.all_gather_into_tensor(outs[1], torch.full((2,), float(rank)))
    region.wait()
    same(outs[1], torch.arange(float(size)).repeat_interleave(2))
    outs = [torch.zeros(1), torch.zeros(2)]
    with dist._coalescing_manager():
        dist.reduce_scatter_tensor(outs[0], torch.arange(float(size)))
        dist.reduce_scatter_tensor(outs[1], torch.arange(float(2 * size)))
    same(outs[1], size * torch.arange(float(2 * size))[2 * rank : 2 * rank + 2])
    # The region that a backend sees: one Work stands for all.
    tensors = [torch.ones(2), torch.zeros(3)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as region:
        dist.isend(tensors[0], (rank + 1) % size)
        dist.irecv(tensors[0].new_zeros(2) if rank < 0 else tensors[1][:2], (rank - 1) % size)
    region.wait()
    same(tensors[1], torch.tensor([1.0, 1.0, 0.0]))
    lists = [[torch.zeros(2), torch.zeros(1)] for _ in range(size)]  # for each rank, what it brings
    dist.all_gather_coalesced(lists, [torch.full((2,), float(rank)), torch.tensor([5.0 + rank])])
    for k, (first, second) in enumerate(lists):
        same(first, torch.full((2,), float(k)))
        same(second, torch.tensor([5.0 + k]))


@case
def left_region(rank, size):
    """An exception ends a coalescing region, and the next one is a new one."""
    tensor = torch.zeros(2)

    def leave():
        with dist._coalescing_manager(device=torch.device("cpu")):
            dist.isend(torch.ones(2), (rank + 1) % size, tag=1)
            dist.irecv(tensor, (rank - 1) % size, tag=1)
            raise KeyError("of the program")

    fails(KeyError, "of the program", leave)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as region:
        dist.isend(torch.full((2,), 2.0), (rank + 1) % size, tag=2)
        other = torch.zeros(2)
        dist.irecv(other, (rank - 1) % size, tag=2)
    work, = region.works
    region.wait()
    holds(len(work.result()) == 2, work.result())
    same(other, torch.full((2,), 2.0))


@case
def objects(rank, size):
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * (1000 * rank)})
    holds([f["rank"] for f in found] == list(range(size)))
    box = [("a", 1), None] if rank == 0 else [None, None]
    dist.broadcast_object_list(box, 0)
    holds(box == [("a", 1), None])
    got = [None]
    dist.scatter_object_list(got, list(range(size)) if rank == 1 else None, src=1)
    holds(got == [rank])
    found = [None] * size if rank == 0 else None
    dist.gather_object(rank * rank, found, dst=0)
    holds(found is None or found == [k * k for k in range(size)])
