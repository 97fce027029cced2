#!/usr/bin/env python3
"""One rank that runs all programs, in one process group, and saves their results.

    run_programs.py BACKEND INIT_METHOD FOLDER [--only NAME] [--spawn RANKS]

Results are written to FOLDER/RANK.pt when all programs have succeeded. Which rank this is says the environment; with
--spawn this process starts so many ranks.
"""

import argparse
import datetime
import os
import pathlib
import time
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing

import programs

TIMEOUT = datetime.timedelta(seconds=30)


def run_rank(rank, backend, init_method, ranks, folder, only=None):
    torch.set_num_threads(1)
    os.environ.update(TUTTI_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    warnings.simplefilter("ignore", FutureWarning)  # PyTorch renames collectives; programs know them by either name
    if backend != "gloo":
        import pytutti.torch  # noqa: F401, registers the backend
    place = {} if rank is None else {"rank": rank, "world_size": ranks}
    dist.init_process_group(backend, init_method=init_method, timeout=TIMEOUT, **place)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    results, times = {}, {}
    for program in programs.all_programs():
        if program.ranks > ranks or (backend == "gloo" and not program.gloo) or only not in (None, program.name):
            continue
        begin = time.monotonic()
        try:
            results[program.name] = program()
        except Exception as error:
            raise RuntimeError(f"program {program.name} failed on rank {rank} of {ranks}") from error
        for group in set(dist.distributed_c10d._world.pg_map) - {dist.group.WORLD}:
            dist.destroy_process_group(group)
        times[program.name] = time.monotonic() - begin
    dist.barrier()
    dist.destroy_process_group()
    torch.save({"results": results, "times": times}, pathlib.Path(folder) / f"{rank}.pt")


def run_child(rank, environment, *arguments):
    """A rank that torch.multiprocessing has started, with what another launcher would have put into its environment."""
    os.environ.update(environment, RANK=str(rank))
    by_environment = arguments[1] == "env://"
    run_rank(None if by_environment else rank, *arguments)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("backend")
    options.add_argument("init_method")
    options.add_argument("folder")
    options.add_argument("--only")
    options.add_argument("--spawn", type=int)
    options = options.parse_args()
    arguments = (options.backend, options.init_method, options.spawn, options.folder, options.only)
    if options.spawn:
        torch.multiprocessing.spawn(run_child, ({}, *arguments), nprocs=options.spawn)
    else:
        run_rank(None, *arguments)


if __name__ == "__main__":
    main()
