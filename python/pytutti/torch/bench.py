"""Times torch.distributed over tutti beside torch.distributed over Gloo, in the same processes.

    python -m pytutti.torch.bench                                    # all collectives, 2 ranks, 4 B to 64 MiB
    python -m pytutti.torch.bench all_reduce -g 4 -b 64K -e 1M -f 4  # these only
    python -m pytutti.torch.bench --ddp -g 2                         # a training step of a small model
    python -m pytutti run -n 2 python -m pytutti.torch.bench         # in processes of a launcher

Sizes are those of nccl-tests: the larger buffer of a rank in bytes, and for all_gather and reduce_scatter that of all
parts. A time is that of one blocking call: the mean over as many calls as take --min-time, of the slowest rank. Both
libraries take turns --repetitions times, and the table has the medians. `ratio` is Gloo's time over tutti's.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import pytutti.torch  # noqa: F401  registers the backend

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all")
LIBRARIES = ("tutti", "gloo")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Call = Callable[[], Any]
FIELDS = ("collective", "ranks", "bytes", "tutti_us", "gloo_us", "ratio", "tutti_busbw_GBps", "gloo_busbw_GBps")


def size(text: str) -> int:
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in UNITS else (text, "")
    if not digits.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 4, 64K or 16M")
    return int(digits) * UNITS.get(unit, 1)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pytutti.torch.bench", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("collectives", nargs="*", metavar="COLLECTIVE",
                        help=f"of {' '.join(COLLECTIVES)} (default: all)")
    parser.add_argument("-g", "--ranks", type=positive, default=2, help="ranks to start, without a launcher (2)")
    parser.add_argument("-b", "--min-bytes", type=size, default=4, metavar="SIZE", help="first size, with K, M, G (4)")
    parser.add_argument("-e", "--max-bytes", type=size, default=64 << 20, metavar="SIZE", help="last size (64M)")
    parser.add_argument("-f", "--factor", type=positive, default=16, help="from one size to the next (16)")
    parser.add_argument("-r", "--repetitions", type=positive, default=5, help="turns of each library (5)")
    parser.add_argument("--min-time", type=float, default=0.03, metavar="SECONDS", help="of a turn (0.03)")
    parser.add_argument("--ddp", action="store_true", help="time a step of DistributedDataParallel instead")
    parser.add_argument("--csv", metavar="FILE", help="write the rows to a new file, too")
    parser.add_argument("--svg", metavar="FILE", help="draw the rows in a new file (needs matplotlib)")
    chosen = parser.parse_args()
    for name in chosen.collectives:
        if name not in COLLECTIVES:
            parser.error(f"{name!r} is not measured; there are {' '.join(COLLECTIVES)}")
    if chosen.factor < 2:
        parser.error("--factor is 2 or more")
    if chosen.min_bytes > chosen.max_bytes:
        parser.error(f"the first size, {chosen.min_bytes}, is above the last, {chosen.max_bytes}")
    if os.environ.get("RANK", "0") == "0":  # who writes files, before anything is measured
        for option, path in (("--csv", chosen.csv), ("--svg", chosen.svg)):
            if path and os.path.lexists(path):
                parser.error(f"{option} {path}: it is there already; name a file that is not, or remove it")
            if path and not os.path.isdir(os.path.dirname(path) or "."):
                parser.error(f"{option} {path}: there is no such folder")
        if chosen.svg and importlib.util.find_spec("matplotlib") is None:
            parser.error("--svg needs matplotlib: install it, or give --csv and draw the rows later")
    chosen.collectives = chosen.collectives or list(COLLECTIVES)
    return chosen


# ---- The ranks


def start_ranks(ranks: int) -> int:
    """Runs this command once more in so many processes, which meet in a file. Returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="pytutti-bench-") as folder:
        shared = {"WORLD_SIZE": str(ranks), "PYTUTTI_BENCH_STORE": os.path.join(folder, "store"),
                  "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytutti.torch.bench", *sys.argv[1:]]
        started = [subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                   for rank in range(ranks)]
        failed: list[int] = []

        def watch(process: subprocess.Popen[bytes]) -> None:
            if process.wait() and not failed:
                failed.append(process.returncode)
                for other in started:  # which would wait for it
                    other.terminate()

        watchers = [threading.Thread(target=watch, args=(process,)) for process in started]
        for watcher in watchers:
            watcher.start()
        for watcher in watchers:
            watcher.join()
    return failed[0] if failed else 0


def join() -> dict[str, dist.ProcessGroup]:
    """The groups of all ranks, by library."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = os.environ.get("PYTUTTI_BENCH_STORE")
    dist.init_process_group("gloo", init_method=f"file://{store}" if store else "env://", rank=rank, world_size=ranks)
    return {library: dist.new_group(backend=library) for library in LIBRARIES}


# ---- The calls


def call_of(collective: str, of_bytes: int, group: dist.ProcessGroup) -> tuple[Call, Callable[[], bool], int]:
    """A blocking call, a function that checks its result, and the bytes that it really moves."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    parts = ranks if collective in ("all_gather", "reduce_scatter", "all_to_all") else 1
    count = max(1, of_bytes // 4 // parts) * parts
    whole, other = torch.ones(count), torch.zeros(count)
    part = torch.full((count // parts,), float(rank))
    if collective == "all_reduce":
        values = torch.zeros(count)  # stays zero, however often it is summed in place
        return lambda: dist.all_reduce(values, group=group), lambda: bool((values == 0).all()), 4 * count
    if collective == "broadcast":
        values = torch.full((count,), float(rank) + 1)
        return lambda: dist.broadcast(values, 0, group=group), lambda: bool((values == 1).all()), 4 * count
    if collective == "all_gather":
        gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # the name from 2.13 on
        return (lambda: gather(other, part, group=group),
                lambda: other.view(ranks, -1)[:, 0].tolist() == list(range(ranks)), 4 * count)
    if collective == "reduce_scatter":
        scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)  # the same
        return (lambda: scatter(part, whole, group=group), lambda: bool((part == ranks).all()),
                4 * count)
    return (lambda: dist.all_to_all_single(other, whole, group=group), lambda: bool((other == 1).all()), 4 * count)


def bus_bandwidth(collective: str, of_bytes: int, microseconds: float, ranks: int) -> float:
    """In GB/s, by the factors of nccl-tests: what a link has to carry, whatever the algorithm."""
    factor = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1}.get(collective, (ranks - 1) / ranks)
    return of_bytes / microseconds / 1e3 * factor


@dataclasses.dataclass
class Turns:
    """Calls that take turns."""

    repetitions: int
    min_time: float

    def medians(self, calls: dict[str, Call]) -> dict[str, float]:
        """Microseconds of each call."""
        enough = {name: self._calls_for(call) for name, call in calls.items()}
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(self.repetitions):
            for name in list(calls)[:: 1 if turn % 2 == 0 else -1]:
                times[name].append(self._time(calls[name], enough[name]))
        return {name: statistics.median(values) for name, values in times.items()}

    def _time(self, call: Call, calls: int) -> float:
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return slowest((time.perf_counter() - begin) * 1e6 / calls)

    def _calls_for(self, call: Call) -> int:
        calls, spent = 4, 0.0
        for _ in range(12):  # warms up as well
            spent = self._time(call, calls) * calls / 1e6
            if spent >= self.min_time:
                break
            calls = min(calls * 2, 1 << 14) if spent < self.min_time / 4 else calls + calls // 2
        return max(3, min(calls, int(calls * self.min_time / spent) + 1))


def slowest(microseconds: float) -> float:
    value = torch.tensor([microseconds], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return float(value.item())


# ---- What is measured


def measure(
    chosen: argparse.Namespace, groups: dict[str, dist.ProcessGroup], turns: Turns
) -> list[dict[str, Any]]:
    ranks = dist.get_world_size()
    say(f"{'':14} {'':>10} {'tutti':>10} {'':>8} {'gloo':>10}\n"
        f"{'collective':14} {'bytes':>10} {'us':>10} {'busbw':>8} {'us':>10} {'busbw':>8} {'ratio':>7}")
    rows = []
    for collective in chosen.collectives:
        of_bytes = chosen.min_bytes
        while of_bytes <= chosen.max_bytes:
            made = {library: call_of(collective, of_bytes, group) for library, group in groups.items()}
            times = turns.medians({library: call for library, (call, _, _) in made.items()})
            wrong = [library for library, (_, check, _) in made.items() if not check()]
            if wrong:
                raise SystemExit(f"rank {dist.get_rank()}: {collective} of {of_bytes} bytes is wrong over {wrong[0]}")
            moved = made["tutti"][2]
            row = dict(zip(FIELDS, (
                collective, ranks, moved, times["tutti"], times["gloo"], times["gloo"] / times["tutti"],
                *(bus_bandwidth(collective, moved, times[library], ranks) for library in LIBRARIES))))
            rows.append(row)
            say(f"{collective:14} {moved:10d} {row['tutti_us']:10.1f} {row['tutti_busbw_GBps']:8.2f} "
                f"{row['gloo_us']:10.1f} {row['gloo_busbw_GBps']:8.2f} {row['ratio']:7.2f}")
            of_bytes *= chosen.factor
    ratios = [row["ratio"] for row in rows]
    say(f"ratio: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}, of {len(rows)} "
        f"points; torch {torch.__version__}, {ranks} ranks on {os.cpu_count()} cores")
    return rows


def measure_ddp(groups: dict[str, dist.ProcessGroup], turns: Turns) -> None:
    """A step of training: forward, backward with the gradients averaged in buckets, optimizer."""
    torch.manual_seed(0)
    inputs, wanted = torch.randn(32, 256), torch.randn(32, 16)

    def step_of(group: dist.ProcessGroup | None) -> Call:
        layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                  torch.nn.Linear(512, 16)]
        model: torch.nn.Module = torch.nn.Sequential(*layers)
        if group is not None:
            model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step() -> None:
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.mse_loss(model(inputs), wanted)
            loss.backward()
            optimizer.step()

        return step

    times = turns.medians({**{library: step_of(group) for library, group in groups.items()}, "alone": step_of(None)})
    say(f"DDP, 402,448 parameters (1.6 MB of gradients), batch of 32 per rank, {dist.get_world_size()} ranks: "
        f"{times['tutti']:.0f} us per step over tutti, {times['gloo']:.0f} us over gloo, "
        f"{times['alone']:.0f} us without DDP")


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def write_csv(path: str, rows: list[dict[str, Any]]) -> None:
    with open(path, "x", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows({**row, **{name: f"{row[name]:.3f}" for name in FIELDS[3:]}} for row in rows)


def draw(path: str, rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(row["collective"] for row in rows))
    figure, panels = pyplot.subplots(1, len(names), figsize=(3.2 * len(names), 3), sharey=True, squeeze=False)
    for panel, name in zip(panels[0], names):
        of_name = [row for row in rows if row["collective"] == name]
        for library, colour, mark in (("gloo", "#999999", "s"), ("tutti", "#b3261e", "o")):
            panel.loglog([row["bytes"] for row in of_name], [row[f"{library}_us"] for row in of_name], color=colour,
                         marker=mark, markersize=4, label=library)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("bytes")
        panel.grid(True, which="major", linewidth=0.3)
    panels[0][0].set_ylabel("microseconds per call")
    panels[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    chosen = options()
    if "RANK" not in os.environ:
        return start_ranks(chosen.ranks)
    groups = join()
    turns = Turns(chosen.repetitions, chosen.min_time)
    if chosen.ddp:
        measure_ddp(groups, turns)
    else:
        rows = measure(chosen, groups, turns)
        if dist.get_rank() == 0 and chosen.csv:
            write_csv(chosen.csv, rows)
        if dist.get_rank() == 0 and chosen.svg:
            draw(chosen.svg, rows)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
