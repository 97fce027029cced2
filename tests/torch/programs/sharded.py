"""Models and tensors of which each rank has a part: functional collectives, DTensor, FSDP, tensor parallelism."""

import tempfile

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from . import program, world
from .training import data, model, same, train, train_alone


def named(new, old):
    """A functional collective by the name that it has from PyTorch 2.13 on, or by the one before."""
    return getattr(functional, new, None) or getattr(functional, old)


@program()
def functional_collectives():
    """These return new tensors, which are waited for where they are used."""
    rank, ranks = world()
    everybody = dist.group.WORLD
    tensor = torch.full((ranks, 2), float(rank + 1))
    results = [
        functional.all_reduce(tensor, "sum", everybody),
        functional.all_reduce(tensor, "avg", everybody),
        named("all_gather_single", "all_gather_tensor")(tensor, 1, everybody),
        named("reduce_scatter_single", "reduce_scatter_tensor")(tensor, "sum", 0, everybody),
        functional.all_to_all_single(tensor * torch.arange(1.0, ranks + 1).view(-1, 1), None, None, everybody),
        functional.broadcast(tensor, 1, everybody),
        *functional.all_reduce_coalesced([tensor, tensor[:1]], "sum", everybody),
        *named("all_gather_single_coalesced", "all_gather_into_tensor_coalesced")([tensor, tensor[:1]], everybody),
        *named("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced")(
            [tensor, tensor * 2], "sum", [0, 0], everybody),
    ]
    results = [result + 0 for result in results]
    total = ranks * (ranks + 1) / 2
    assert (results[0] == total).all() and (results[1] == total / ranks).all() and (results[3] == total).all()
    assert (results[4] == torch.arange(1.0, ranks + 1).view(-1, 1) * (rank + 1)).all() and (results[5] == 2).all()
    return results


@program()
def distributed_tensors():
    """A product of matrices, of which each rank has rows or columns."""
    _, ranks = world()
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(5)
    left, right = torch.randn(12, 24), torch.randn(24, 8)
    results = []
    for of_left, of_right in ((Shard(0), Replicate()), (Shard(1), Shard(0)), (Replicate(), Shard(1))):
        product = distribute_tensor(left, mesh, [of_left]) @ distribute_tensor(right, mesh, [of_right])
        results.append(product.full_tensor())
        torch.testing.assert_close(results[-1], left @ right)
    moved = distribute_tensor(left, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
    assert moved.to_local().shape[1] == 24 // ranks and torch.equal(moved.full_tensor(), left)
    return results


@program()
def fully_sharded():
    """Each rank keeps a part of every parameter; layers are put together while they are used."""
    if not hasattr(torch.cpu.Stream, "record_event"):  # PyTorch 2.6 has this for accelerators only
        return None
    rank, ranks = world()
    net = model()
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in (net[0], net[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    inputs, targets = data(ranks)
    train(net, inputs[:, rank], targets[:, rank])
    return same([p.full_tensor().detach() for p in net.parameters()], train_alone(ranks))


@program()
def fully_sharded_by_wrapper():
    rank, ranks = world()
    net = FullyShardedDataParallel(model(), device_id=torch.device("cpu"), use_orig_params=True)
    inputs, targets = data(ranks)
    train(net, inputs[:, rank], targets[:, rank])
    with FullyShardedDataParallel.summon_full_params(net):
        return same([p.detach().clone() for p in net.parameters()], train_alone(ranks))


@program()
def tensor_parallel():
    """The first layer is cut into columns and the second into rows; a sum at the end puts the results together."""
    rank, ranks = world()
    layers = (torch.nn.Linear, (6, 24)), (torch.nn.Tanh, ()), (torch.nn.Linear, (24, 2))
    net, alone = (torch.nn.Sequential(*(kind(*sizes) for kind, sizes in layers)) for _ in range(2))
    torch.manual_seed(6)
    for parameter in alone.parameters():
        torch.nn.init.normal_(parameter)
    net.load_state_dict(alone.state_dict())
    parallelize_module(net, init_device_mesh("cpu", (ranks,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    batch = torch.randn(5, 6)
    result, expected = net(batch), alone(batch)
    torch.testing.assert_close(result, expected)
    result.sum().backward()
    expected.sum().backward()
    gradients = [p.grad.full_tensor() for p in net.parameters()]
    for own, other in zip(gradients, alone.parameters()):
        torch.testing.assert_close(own, other.grad)
    return [result.detach(), gradients]


@program()
def meshes():
    """Rows and columns of a mesh of ranks are groups."""
    rank, ranks = world()
    if ranks != 4:
        return None
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
    sums = []
    for name, expected in (("row", 2 * (rank % 2) + 2), ("column", 4 * (rank // 2) + 1)):
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=mesh.get_group(name))
        assert tensor == expected, f"{name}: {tensor}"
        sums.append(tensor)
    return sums


@program()
def checkpoints():
    """Every rank writes its part of the state; it is read again by ranks that have other parts."""
    rank, ranks = world()
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    mesh = init_device_mesh("cpu", (ranks,))
    whole = torch.arange(12.0 * ranks).view(12, ranks)
    torch.distributed.checkpoint.save({"weight": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=folder[0])
    state = {"weight": distribute_tensor(torch.zeros(12, ranks), mesh, [Shard(1)])}
    torch.distributed.checkpoint.load(state, checkpoint_id=folder[0])
    assert torch.equal(state["weight"].to_local(), whole[:, rank : rank + 1])
    return state["weight"].full_tensor()
