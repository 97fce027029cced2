"""What the cases of backend_test.py need. A case is a function of rank and number of ranks."""

import os
import re
import time
import unittest.mock

import torch
import torch.distributed as dist

PATIENCE = float(os.environ.get("WATCHDOG_SECONDS", "120"))
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def same(found, wanted):
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        raise AssertionError(f"{found.dtype} {tuple(found.shape)} and not {wanted.dtype} {tuple(wanted.shape)}")
    left, right = (torch.clone(x.resolve_conj().resolve_neg(), memory_format=torch.contiguous_format).reshape(-1)
                   for x in (found, wanted))
    if left.numel() and not torch.equal(left.view(torch.uint8), right.view(torch.uint8)):
        raise AssertionError(f"{found} and not {wanted}")


def holds(condition, *what):
    if not condition:
        raise AssertionError(*what)


def fails(kind, words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        holds(re.search(words, str(error)), f"it says: {error}, and not: {words}")
        return str(error)
    raise AssertionError(f"no {kind.__name__} with {words}")


def until(condition, what):
    """Waits for something that another thread does."""
    end = time.monotonic() + PATIENCE / 2
    while not condition():
        holds(time.monotonic() < end, f"{what} does not come")
        time.sleep(0.001)


def all_are_here(rank, size):
    """As a barrier, but by the store: a rank that ends its group after a barrier may end it for others."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"here/{rank}", "")
    store.wait([f"here/{k}" for k in range(size)])


def split_group(ranks):
    """As after init_process_group(device_id=...) on a machine with a GPU."""
    world, gpu = dist.group.WORLD, torch.device("cuda", 0)
    world.bound_device_id = gpu
    with unittest.mock.patch("torch.accelerator.is_available", lambda: True), \
            unittest.mock.patch("torch.accelerator.current_accelerator", lambda: gpu):
        made = dist.split_group(split_ranks=ranks)
    world.bound_device_id = None
    return made


def number_types():
    return [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16,
            torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]


def all_types():
    return [*number_types(), torch.bool, torch.complex64, torch.complex128, torch.complex32, torch.float8_e4m3fn,
            torch.float8_e5m2]


def values(rank, count, dtype):
    """Small numbers of which every sum and product that the cases make is exact."""
    plain = [(7 * rank + 3 * i) % 4 for i in range(count)]
    if dtype == torch.bool:
        return torch.tensor([v > 1 for v in plain])
    if dtype.is_complex:
        return torch.tensor([complex(v, rank + 1) for v in plain]).to(dtype)
    return torch.tensor(plain).to(dtype)


def everyone(size, count, dtype):
    return [values(rank, count, dtype) for rank in range(size)]


def fold(op, inputs):
    """The reduction that PyTorch itself computes of all inputs."""
    if inputs[0].dtype in (torch.uint16, torch.uint32, torch.uint64):
        return fold(op, [x.to(torch.int64) for x in inputs]).to(inputs[0].dtype)
    combine = {dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul, dist.ReduceOp.MIN: torch.minimum,
               dist.ReduceOp.MAX: torch.maximum, dist.ReduceOp.BAND: torch.bitwise_and,
               dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor}[op]
    result = inputs[0].clone()
    for x in inputs[1:]:
        result = combine(result, x)
    return result


def ops_of(dtype):
    ops = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT]
    if not dtype.is_complex:
        ops += [dist.ReduceOp.MIN, dist.ReduceOp.MAX]
    if not dtype.is_complex and not dtype.is_floating_point:
        ops += [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
    if dtype == torch.bool:
        ops.remove(dist.ReduceOp.SUM)  # PyTorch's own sum of bool is another thing; see booleans()
    return ops


def views(tensor):
    """Tensors with the same elements that lie otherwise in memory."""
    spread = torch.empty(2 * tensor.numel(), dtype=tensor.dtype)[::2]
    spread.copy_(tensor)
    turned = tensor.clone().reshape(2, -1).t().contiguous().t()
    return [spread, turned.reshape(2, -1)]


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def ended_by(group):
    """What has its abort() and shutdown(): before PyTorch 2.7 not the group itself."""
    return group if hasattr(group, "abort") else group._get_backend(torch.device("cpu"))
