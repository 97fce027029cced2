#!/usr/bin/env python3
"""ranks.py RANKS PROGRAM [ARGUMENT ...]: runs the ranks of a program, which meet in a file, where `tutti run` may not have
been built. Exits with the first status that is not 0.

ranks.py HOSTSxRANKS TUTTI PROGRAM ...: so many hosts with so many ranks on each, by tools/hosts; 77 where that is not
possible.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


HOSTS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/hosts"


def on_hosts(hosts, ranks):
    command = [HOSTS, hosts, "-n", ranks, "--rate", "10gbit", "--burst", "1m", *sys.argv[3:]]
    status = subprocess.run(command, env=dict(os.environ, TUTTI=sys.argv[2])).returncode
    return 77 if status == 3 else status


def main():
    if "x" in sys.argv[1]:
        return on_hosts(*sys.argv[1].split("x"))
    ranks = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{pathlib.Path(folder, 'meeting')}"
        started = [
            subprocess.Popen(sys.argv[2:], env=dict(os.environ, TUTTI_RANK=str(rank), TUTTI_SIZE=str(ranks), TUTTI_RDZV=meeting))
            for rank in range(ranks)
        ]
        # Each program has a watchdog of its own.
        return next((status for status in [process.wait() for process in started] if status != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
