#!/usr/bin/env python3
"""One rank of torch.distributed, over Gloo or over tutti, or of PyTorch's symmetric memory, for
`tutti bench --against torch-gloo,torch-symm`.

    tutti-rival-torch-gloo --version [tutti | symmetric]     what is measured
    tutti-rival-torch-gloo --setting NAME ...    as `tutti bench` starts it; NAME begins with tutti: over tutti; with
                                                 one-shot or two-shot: in symmetric memory

With --transport gpu the calls are on memory of GPUs, which ranks use in turn.

What a call costs is measured by the code that measures all libraries, which is the shared library beside this script.
"""

import ctypes
import functools
import os
import pathlib
import sys
import traceback
import zlib
from datetime import timedelta

import torch
import torch.distributed as dist

PREPARE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
FUNCTION = ctypes.CFUNCTYPE(None)


class Rival(ctypes.Structure):
    """As in python.cc."""

    _fields_ = [("rank", ctypes.c_int), ("ranks", ctypes.c_int), ("threads", ctypes.c_int), ("prepare", PREPARE),
                ("call", FUNCTION), ("after_fill", FUNCTION), ("before_check", FUNCTION), ("leave", FUNCTION)]


def or_die(function):
    """An exception cannot pass through C, so it ends the process."""
    def guarded(*arguments):
        try:
            function(*arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    return guarded


def tensor_at(address, count):
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def call_of(name, given, result, rank, ranks):
    """The call, and whether it works in place on `result`."""
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # the name from 2.13 on
    scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)

    def exchange():
        receiving = dist.irecv(result, before)
        dist.isend(given, after).wait()
        receiving.wait()

    if name in ("all_reduce", "all_reduce_inplace"):
        return lambda: dist.all_reduce(result), True
    if name == "reduce":
        return lambda: dist.reduce(result, 0), True
    if name == "gather":
        parts = list(result.chunk(ranks)) if rank == 0 else None
        return lambda: dist.gather(given, parts, 0), False
    if name == "scatter":
        parts = list(given.chunk(ranks)) if rank == 0 else None
        return lambda: dist.scatter(result, parts, 0), False
    return {"broadcast": lambda: dist.broadcast(result, 0), "all_gather": lambda: gather(result, given),
            "reduce_scatter": lambda: scatter(result, given), "alltoall": lambda: dist.all_to_all_single(result, given),
            "barrier": dist.barrier, "sendrecv": exchange}[name], False


def symmetric_call_of(name, given, result, two_shots):
    """An all_reduce in memory that the kernels of all ranks use; its copies of the host are `given` and `result`."""
    if name not in ("all_reduce", "all_reduce_inplace"):
        raise ValueError(f"symmetric memory has no {name}")
    import torch.distributed._symmetric_memory as symmetric
    group = dist.group.WORLD.group_name
    memory = symmetric.empty(result.numel(), dtype=torch.float32, device=result.device)
    symmetric.rendezvous(memory, group)
    # In two shots the memory is the result, too.
    fill = (lambda: memory.copy_(result)) if name == "all_reduce_inplace" else (lambda: memory.copy_(given))
    if two_shots:
        return lambda: torch.ops.symm_mem.two_shot_all_reduce_(memory, "sum", group), fill, lambda: result.copy_(memory)
    return lambda: torch.ops.symm_mem.one_shot_all_reduce_out(memory, "sum", group, result), fill, lambda: None


class Calls:
    """The functions of a Rival."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks
        self.prepared = lambda: None
        self.fill = lambda: None
        self.deliver = lambda: None

    def prepare(self, name, given_at, given_count, result_at, result_count):
        given, result = tensor_at(given_at, given_count), tensor_at(result_at, result_count)
        name = name.decode()
        self.prepared, in_place = call_of(name, given, result, self.rank, self.ranks)
        # The copy is not timed, which favours a call that torch.distributed has in place only.
        copies = in_place and name != "all_reduce_inplace"
        self.fill = (lambda: result.copy_(given)) if copies else (lambda: None)

    def before_check(self):
        self.deliver()

    def call(self):
        self.prepared()

    def after_fill(self):
        self.fill()

    def leave(self):
        """Closing connections is not measured, and ranks that end first cause errors on others."""
        os._exit(0)

class DeviceCalls(Calls):
    """The same on memory of a GPU: the host's buffers are copied to it, and results back."""

    def __init__(self, rank, ranks, setting):
        super().__init__(rank, ranks)
        self.setting = setting
        self.device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(self.device)

    def prepare(self, name, given_at, given_count, result_at, result_count):
        host_given, host_result = tensor_at(given_at, given_count), tensor_at(result_at, result_count)
        given, result = host_given.to(self.device), host_result.to(self.device)
        name = name.decode()
        deliver = lambda: None
        if self.setting in ("one-shot", "two-shot"):
            enqueue, fill, deliver = symmetric_call_of(name, given, result, self.setting == "two-shot")
        else:
            enqueue, in_place = call_of(name, given, result, self.rank, self.ranks)
            fill = (lambda: result.copy_(given)) if in_place and name != "all_reduce_inplace" else (lambda: None)

        def copy_in():
            given.copy_(host_given)
            result.copy_(host_result)
            fill()
            torch.cuda.synchronize()

        def copy_out():
            deliver()
            host_result.copy_(result)

        def call():
            enqueue()
            torch.cuda.synchronize()

        self.prepared, self.fill, self.deliver = call, copy_in, copy_out


def value_of(option):
    return sys.argv[sys.argv.index(option) + 1]


def version(over_tutti):
    text = f"PyTorch {torch.__version__}"
    if not over_tutti:
        return f"{text} with symmetric memory" if sys.argv[2:] == ["symmetric"] else f"{text} with Gloo"
    import pytutti
    import pytutti.torch
    files = sorted(path for path in pathlib.Path(pytutti.__file__).parent.rglob("*")
                   if path.is_file() and path.suffix != ".pyc")
    build = functools.reduce(lambda crc, path: zlib.crc32(path.read_bytes(), crc), files, 0)
    return f"{text} with pytutti {pytutti.__version__}, build {build:08x}"


def main():
    over_tutti = (sys.argv[2:] == ["tutti"]) if "--version" in sys.argv else value_of("--setting").startswith("tutti")
    if "--version" in sys.argv:
        try:
            print(version(over_tutti))
        except ImportError as error:
            sys.exit(f"{error}; tools/peers/install pytutti installs it")
        return
    on_gpu = value_of("--transport") == "gpu"
    if on_gpu and not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} finds no GPU; install a build for CUDA (tools/peers/install torch-gloo)")
    if over_tutti:
        import pytutti.torch  # noqa: F401  registers the backend
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("tutti" if over_tutti else "gloo", init_method=f"file://{value_of('--folder')}/store",
                            rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    calls = DeviceCalls(rank, ranks, value_of("--setting")) if on_gpu else Calls(rank, ranks)
    # Gloo has a thread that waits for the network, and one that runs the calls.
    rival = Rival(rank, ranks, 1 if over_tutti else 2, PREPARE(or_die(calls.prepare)), FUNCTION(or_die(calls.call)),
                  FUNCTION(or_die(calls.after_fill)), FUNCTION(or_die(calls.before_check)), FUNCTION(or_die(calls.leave)))
    library = ctypes.CDLL(str(pathlib.Path(__file__).resolve().parent / "libtutti-rival-python.so"))
    words = [os.fsencode(word) for word in sys.argv]
    sys.exit(library.tutti_rival_run(len(words), (ctypes.c_char_p * len(words))(*words), ctypes.byref(rival)))


if __name__ == "__main__":
    main()
