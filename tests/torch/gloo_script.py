"""A script that knows nothing of tutti; tests run it on tutti.

    torchrun --nproc-per-node 2 gloo_script.py NAME [BACKEND]
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if __name__ == "__main__":
    dist.init_process_group(*sys.argv[2:])
    rank, ranks = dist.get_rank(), dist.get_world_size()
    values = torch.arange(4.0) + rank
    dist.all_reduce(values)
    pair = dist.new_group(backend="gloo")
    least = torch.tensor([rank])
    dist.all_reduce(least, dist.ReduceOp.MAX, group=pair)
    if dist.get_backend() == "gloo":
        dist.monitored_barrier(timeout=timedelta(seconds=20))
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    model(torch.ones(1, 2) * rank).sum().backward()
    what = type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__
    gradient = model.module.weight.grad.tolist()
    print(f"{sys.argv[1]}: rank {rank} of {ranks}: {values.tolist()} {least.item()} {gradient}; {dist.get_backend()} is {what}\n",
          end="", flush=True)  # at once: ranks share the output
    dist.destroy_process_group()
