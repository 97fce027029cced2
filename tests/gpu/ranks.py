#!/usr/bin/env python3
"""ranks.py RANKS PROGRAM [ARGUMENT ...]: runs the ranks of a program, which meet in a file, where `tutti run` may not have
been built. Exits with the first status that is not 0.

ranks.py HOSTSxRANKS TUTTI PROGRAM ...: so many hosts with so many ranks on each, by tools/hosts; 77 where that is not
possible.

FAKE_CUDA_SCHEDULE=any: in which order streams of the fake run is chosen by TEST_SAMPLE and GPU_MATRIX_PART. With
TEST_SAMPLE=all the program runs in each of the four.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


HOSTS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/hosts"


def schedules():
    wanted = os.environ.get("FAKE_CUDA_SCHEDULE", "eager")
    if wanted != "any":
        return [wanted]
    sample = os.environ.get("TEST_SAMPLE", "0")
    number = 1 if sample == "all" else int(sample)
    every = ["eager", "lazy", "reverse", f"random:{number % 1000}"]
    return every if sample == "all" else [every[(number + int(os.environ.get("GPU_MATRIX_PART", "0"))) % len(every)]]


def on_hosts(environment, hosts, ranks):
    command = [HOSTS, hosts, "-n", ranks, "--rate", "10gbit", "--burst", "1m", *sys.argv[3:]]
    status = subprocess.run(command, env=dict(environment, TUTTI=sys.argv[2])).returncode
    return 77 if status == 3 else status


def on_one_host(environment, ranks):
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{pathlib.Path(folder, 'meeting')}"
        started = [
            subprocess.Popen(sys.argv[2:], env=dict(environment, TUTTI_RANK=str(rank), TUTTI_SIZE=str(ranks), TUTTI_RDZV=meeting))
            for rank in range(ranks)
        ]
        # Each program has a watchdog of its own.
        return next((status for status in [process.wait() for process in started] if status != 0), 0)


def main():
    for schedule in schedules():
        print(f"streams run in the order {schedule}", file=sys.stderr, flush=True)
        environment = dict(os.environ, FAKE_CUDA_SCHEDULE=schedule)
        hosts = sys.argv[1].split("x")
        status = on_hosts(environment, *hosts) if len(hosts) == 2 else on_one_host(environment, int(hosts[0]))
        if status != 0:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
