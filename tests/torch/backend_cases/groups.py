"""Groups of some ranks, wrong calls, and what groups tell."""

import datetime
import inspect
import os
import tempfile
import time

import torch
import torch.distributed as dist

from . import PATIENCE, backend, case, ended_by, fails, holds, split_group


@case
def sub_groups(rank, size):
    pair, rest = dist.new_group([0, 1]), dist.new_group([1, 2])
    for group, members in ((pair, [0, 1]), (rest, [1, 2])):
        if rank not in members:
            continue
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=group)
        holds(tensor.item() == sum(members))
        tensor = torch.tensor([float(rank)])
        dist.broadcast(tensor, src=members[1], group=group)
        holds(tensor.item() == members[1])
    # Twice the same ranks, and one within a thread's reach of the other.
    twin = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=50))
    if rank in (0, 1):
        first = dist.all_reduce(torch.ones(1), group=twin, async_op=True)
        second = dist.all_reduce(torch.ones(1), group=pair, async_op=True)
        second.wait(), first.wait()
        dist.destroy_process_group(twin)
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=pair)  # the other goes on
        holds(tensor.item() == 2)
    dist.barrier()  # before one aborts what another still waits for
    # An aborted group does not take the world along.
    if rank in (1, 2):
        ended_by(rest).abort()
        fails(dist.DistBackendError, "abort", dist.all_reduce, torch.ones(1), group=rest)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    holds(tensor.item() == size)
    split = dist.group.WORLD._get_backend(torch.device("cpu"))
    holds(split.supports_splitting)


@case
def wrong_variable_of_one(rank, size):
    """A rank that cannot take part tells the others, which need not wait for it until their timeout."""
    import pytutti.torch

    def world():
        return dist.new_group(range(size), pg_options=pytutti.torch.Options(transport="tcp"))

    begin = time.monotonic()
    for variable in ("TUTTI_GPU_MODE", "TUTTI_SECRET_FILE"):
        for culprit in (size - 1, 0):
            if rank == culprit:
                os.environ[variable] = "pigeons"
                fails(ValueError, "pigeons", world)
                del os.environ[variable]
            else:
                fails(dist.DistBackendError, "pigeons", world)
    holds(time.monotonic() - begin < PATIENCE / 4)  # half of the timeout of one group
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=world())
    holds(tensor.item() == size)


@case
def several_worlds(rank, size):
    """A group with options meets by itself. A ring begins with each part at another rank, which its sums show."""
    import pytutti.torch

    with tempfile.NamedTemporaryFile("w", suffix=".tuning") as table:
        print("all_reduce tcp * * ring", file=table, flush=True)
        for in_order in (False, True):
            options = pytutti.torch.Options(transport="tcp", tuning_file=table.name, deterministic=in_order)
            group = dist.new_group(range(size), pg_options=options)
            tensor = torch.full((3,), (1e8, 1.0, -1e8)[rank])
            dist.all_reduce(tensor, group=group)
            holds(sorted(tensor.tolist()) == [0.0, 0.0, 0.0 if in_order else 1.0], tensor)
            dist.destroy_process_group(group)
    fails(TypeError, "lost_after must be a timedelta, and not 3", pytutti.torch.Options, lost_after=3)
    fails(TypeError, "pytutti.torch.Options", dist.new_group, range(size), pg_options={"transport": "tcp"})


@case
def timeouts_below_a_millisecond(rank, size):
    """0 is what C takes for tutti's default, of 300 s."""
    import pytutti.torch

    for options in (None, pytutti.torch.Options(transport="tcp")):
        for wrong in (datetime.timedelta(0), datetime.timedelta(microseconds=900), datetime.timedelta(seconds=-1)):
            fails(ValueError, "timeout of a process group is .*: give at least 1 ms", dist.new_group, [0, 1, 2], wrong,
                  pg_options=options)


@case
def not_reconfigured(rank, size):
    """PyTorch 2.14 and later can ask for it."""
    if "enable_reconfigure" in inspect.signature(dist.new_group).parameters:
        fails(ValueError, "the ranks of a process group do not change", dist.new_group, enable_reconfigure=True)


@case
def beside_accelerators(rank, size):
    """A default group for other devices only is no parent."""
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group("cuda:gloo", store=dist.PrefixStore("cuda", store), rank=rank, world_size=size)
    group = dist.new_group(backend="tutti")
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group)
    holds(tensor.item() == size)


@case
def bound_to_a_device(rank, size):
    """init_process_group(device_id=...) lets PyTorch make sub-groups from the default group by calls of NCCL's backend."""
    dist.group.WORLD.bound_device_id = torch.device("cuda", 0)
    pair = dist.new_group([0, 1])
    if rank in (0, 1):
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=pair)
        holds(tensor.item() == 2)
    part = split_group([[0, 1], [2]])
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=part)
    holds(tensor.item() == (2 if rank in (0, 1) else 1))


@case
def monitored(rank, size):
    world, minute = dist.group.WORLD, datetime.timedelta(seconds=60)
    for limit in (minute, minute, datetime.timedelta(days=110_000)):
        world.monitored_barrier(limit)
    short = datetime.timedelta(milliseconds=300)
    if rank == 1:  # comes when the others have given up
        dist.recv(torch.zeros(1), 0, tag=21)
    words = "rank 1 of 3 did not come within 300 ms"
    fails(dist.DistBackendError, words, world.monitored_barrier, short, wait_all_ranks=True)
    if rank == 0:
        dist.send(torch.zeros(1), 1, tag=21)
    dist.barrier()  # the group goes on
    world.monitored_barrier(minute)
    if rank != 1:
        fails(dist.DistBackendError, "did not come within 0 ms|not answered within 0 ms", world.monitored_barrier,
              datetime.timedelta(0))
        dist.barrier()
    else:
        dist.barrier()
        fails(dist.DistBackendError, "within 0 ms", world.monitored_barrier, datetime.timedelta(0))


@case
def monitored_by_some(rank, size):
    """A barrier that is the first, to which one does not come, counts for nobody's later groups."""
    group = dist.new_group(range(size))
    if rank != 1:
        fails(dist.DistBackendError, "did not come|not answered", group.monitored_barrier,
              datetime.timedelta(milliseconds=100))
    for _ in range(2):
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=dist.new_group(range(size)))
        holds(tensor.item() == size)


@case
def wrong_calls(rank, size):
    """Nothing was sent, so that the group goes on."""
    ours = backend()
    fails(ValueError, "tensor on meta.*CPU and of NVIDIA GPUs only", ours.allreduce, [torch.zeros(2, device="meta")])
    fails(ValueError, "layout Sparse", ours.allreduce, [torch.eye(3).to_sparse()])
    fails(ValueError, "takes one tensor, but got 2", ours.allreduce, [torch.zeros(1), torch.zeros(1)])
    fails(ValueError, "no SUM of elements of type Float8", dist.reduce, torch.zeros(2, dtype=torch.float8_e5m2), 0)
    fails(ValueError, "band has no meaning.* op of your own$", dist.all_reduce, torch.zeros(2), dist.ReduceOp.BAND)
    fails(ValueError, "there must be", ours._allgather_base, torch.zeros(5), torch.zeros(2))
    fails(ValueError, "are 1 tensors, but there must be 3", ours.allgather, [[torch.zeros(1)]], [torch.zeros(1)])
    fails(ValueError, "add up to 2", dist.all_to_all_single, torch.zeros(3), torch.zeros(3), [1, 1, 1], [2, 0, 0])
    fails(ValueError, "cannot share", dist.all_to_all_single, torch.zeros(4), torch.zeros(4))
    fails(ValueError, "7 is not a rank of", ours.send, [torch.zeros(1)], 7, 0)
    fails(ValueError, "tag -5", ours.send, [torch.zeros(1)], 0, -5)
    fails(ValueError, "type Int and Float", ours.alltoall_base, torch.zeros(3), torch.zeros(3, dtype=torch.int32),
          [], [])
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    holds(tensor.item() == size)


@case
def information(rank, size):
    ours = backend()
    holds(ours.name() == "tutti" and ours.rank() == rank and ours.size() == size)
    holds(dist.get_backend() == "tutti")
    before = ours._get_sequence_number_for_group()
    dist.barrier()
    holds(ours._get_sequence_number_for_group() == before + 1)
    work = dist.barrier(async_op=True)
    fails(RuntimeError, "support getDuration", work._get_duration)
    work.wait()  # to end the group with work pending would be to end it for others
