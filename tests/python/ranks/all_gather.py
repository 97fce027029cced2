"""A second communicator of the same ranks, which meet by the first."""

import pytutti

with pytutti.connect() as first:

    def all_gather(mine):
        together = first.all_gather(mine)
        return [bytes(together[k * len(mine) : (k + 1) * len(mine)]) for k in range(first.size)]

    with pytutti.connect(first.rank, first.size, all_gather=all_gather) as comm:
        print(comm.all_gather(bytearray([comm.rank])).tolist())

    def broken(mine):
        raise LookupError("on purpose")

    try:
        pytutti.connect(first.rank, first.size, all_gather=broken)
    except LookupError:
        pass
    first.barrier()
