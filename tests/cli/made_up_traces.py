"""Traces of calls that nobody made, of which a report can be foretold."""

RANKS = 3


def made_up_ring(slow_link, late=(), hosts="h" * RANKS):
    """Five calls in each of which each rank sends one message to the next one: after 10 us it is there, over the slow
    link after 5 ms more. Ranks that are late come after 5 ms."""
    ranks = len(hosts)
    events = [{"name": "tutti_rank", "ph": "i", "s": "p", "ts": 0, "pid": rank, "tid": 1, "args": {
        "rank": rank, "host": hosts[rank], "lost": 0, "uncertainty_ns": 0, "clock_of_rank": 0}} for rank in range(ranks)]

    def add(rank, category, name, begin, end, **args):
        events.append({"name": name, "cat": category, "ph": "X", "pid": rank, "tid": 1, "ts": begin, "dur": end - begin,
                       "args": {"group": "a", "operation": number, **args}})

    for number in range(1, 6):
        start = [number * 20_000 + (5000 if rank in late else 0) for rank in range(ranks)]
        for rank in range(ranks):
            before = (rank - 1) % ranks
            arrived = max(start[rank], start[before] + 10 + (5000 if (before, rank) == slow_link else 0))
            step = {"call": f"all_reduce #{number}", "step": 0, "bytes": 4, "number": number}
            add(rank, "call", f"all_reduce #{number}", start[rank], arrived + 1, collective="all_reduce", algorithm="ring",
                bytes=4, root=0, ranks=ranks, place=rank, variable=False, count=1, type="f32", op="sum")
            add(rank, "message", "send", start[rank], start[rank] + 1, to=(rank + 1) % ranks, given_ns=0, **step)
            add(rank, "message", "receive", start[rank], arrived + 1, waited_ns=1000 * (arrived - start[rank]),
                **{"from": before}, **step)
    return {"displayTimeUnit": "ns", "traceEvents": events}


BOARD_SIZES = (8, 1024, 65536)


def time_on_board(size):
    """What a made-up call of that size takes, us."""
    return 2 + size / 1024


def made_up_board():
    """Calls of three sizes by two ranks over a board: after its post each waits for the other's, and takes it."""
    events = [{"name": "tutti_rank", "ph": "i", "s": "p", "ts": 0, "pid": rank, "tid": 1, "args": {
        "rank": rank, "host": "h", "lost": 0, "uncertainty_ns": 0, "clock_of_rank": 0}} for rank in range(2)]
    for number in range(30):
        size = BOARD_SIZES[number % 3]
        begin, end = number * 1000, number * 1000 + time_on_board(size)

        def add(name, category, begin, end, size, **args):
            events.append({"name": name, "cat": category, "ph": "X", "pid": rank, "tid": 1, "ts": begin, "dur": end - begin,
                           "args": {"group": "a", "operation": number, "bytes": size, **args}})

        for rank in range(2):
            add(f"all_reduce #{number}", "call", begin, end, size, collective="all_reduce", algorithm="direct", root=0,
                ranks=2, place=rank, variable=False, count=size // 4, type="f32", op="sum")
            add("post", "board", begin, begin + 0.1, size, step=0)
            add("wait", "board", begin + 0.1, begin + 0.2, 0, step=0)
            add("take", "board", begin + 0.2, end, 0, step=0)
            for phase, at, arrow in (("s", begin, 2 * number + rank), ("f", end - 0.001, 2 * number + 1 - rank)):
                events.append({"name": "message", "cat": "flow", "ph": phase, "id": arrow, "pid": rank, "tid": 1, "ts": at, "args": {}})
    return {"displayTimeUnit": "ns", "traceEvents": events}


def made_up_slices(size, slices, time):
    """One broadcast from rank 0 to rank 1 in that many messages, of `size` bytes together, each of which takes that long."""
    events = [{"name": "tutti_rank", "ph": "i", "s": "p", "ts": 0, "pid": rank, "tid": 1, "args": {
        "rank": rank, "host": "h", "lost": 0, "uncertainty_ns": 0, "clock_of_rank": 0}} for rank in range(2)]

    def add(rank, category, name, begin, end, **args):
        events.append({"name": name, "cat": category, "ph": "X", "pid": rank, "tid": 1, "ts": begin, "dur": end - begin,
                       "args": {"group": "a", "operation": 1, **args}})

    for rank in range(2):
        add(rank, "call", "broadcast #1", 0, slices * time, collective="broadcast", algorithm=f"tree:2*{slices}", bytes=size,
            root=0, ranks=2, place=rank, variable=False, count=size // 4, type="f32", op="sum")
    for number in range(slices):
        begin, end = number * time, (number + 1) * time
        step = {"call": "broadcast #1", "step": number, "bytes": size // slices, "number": number}
        add(0, "message", "send", begin, end, to=1, given_ns=0, **step)
        add(1, "message", "receive", begin, end, waited_ns=0, **{"from": 0}, **step)
    return {"displayTimeUnit": "ns", "traceEvents": events}
