#!/usr/bin/env python3
"""ranks.py RANKS PROGRAM [ARGUMENT ...]: runs the ranks of a program, which meet in a file, where `tutti run` may not have
been built. Exits with the first status that is not 0.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def main():
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
