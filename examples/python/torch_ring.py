"""A sum over all ranks by a ring of messages: each rank sends to the next and receives from the one before.

    torchrun --nproc-per-node 4 torch_ring.py

The tensor is cut into one part per rank. In n-1 steps the parts travel around the ring and grow by what each rank adds;
then every rank has one complete part. In n-1 more steps the complete parts travel around once, so that all have all.
Each rank sends 2(n-1)/n of the tensor, however many ranks there are.
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    """Like dist.all_reduce(tensor)."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ahead, behind = (rank + 1) % ranks, (rank - 1) % ranks
    parts = list(torch.tensor_split(tensor, ranks))

    def exchange(sent, received):
        """Sends one part to the next rank while another arrives."""
        work = dist.isend(parts[sent % ranks], dst=ahead)
        dist.irecv(received, src=behind).wait()
        work.wait()

    for step in range(ranks - 1):
        grown = (rank - step - 1) % ranks
        arrived = torch.empty_like(parts[grown])
        exchange(rank - step, arrived)
        parts[grown] += arrived
    for step in range(ranks - 1):
        exchange(rank - step + 1, parts[(rank - step) % ranks])


def main():
    import pytutti.torch  # noqa: F401, now there is a backend "tutti"

    dist.init_process_group("tutti")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tensor = torch.arange(10.0) * (rank + 1)
    ring_all_reduce(tensor)
    assert torch.equal(tensor, torch.arange(10.0) * (ranks * (ranks + 1) / 2))
    print(f"rank {rank} of {ranks} has {tensor.tolist()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
