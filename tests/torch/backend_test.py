#!/usr/bin/env python3
"""The backend `tutti` of torch.distributed: every call, with every type, and the ends of process groups.

A world is some processes that run cases of backend_cases/ one after the other in one process group. The test starts
them, waits for them, and kills them if they take too long.
"""

import ctypes
import datetime
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

PATIENCE = float(os.environ.get("WATCHDOG_SECONDS", "120"))


def run_rank(rank, size, url, names):
    import pytutti.torch  # noqa: F401, registers the backend
    import torch
    import torch.distributed as dist

    from backend_cases import CASES, asynchronous, data, ends, forms, groups, users  # noqa: F401

    torch.set_num_threads(1)
    libc = ctypes.CDLL(None)
    libc.prctl(1, signal.SIGKILL)  # no rank outlives the test
    dist.init_process_group("tutti", init_method=url, rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=PATIENCE / 2))
    for name in names:
        try:
            kept = CASES[name](rank, size)
        except SystemExit:  # of a child
            raise
        except BaseException:
            print(f"rank {rank}, case {name}:\n{traceback.format_exc()}", flush=True)
            os._exit(1)
    if dist.is_initialized() and kept is None:
        dist.destroy_process_group()


class World(unittest.TestCase):
    def world(self, *names, size=3, killed=None, environment=None, url=None):
        """Runs cases in `size` ranks, of which `killed` ends by SIGKILL. Returns what they print."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = []
            for rank in range(size):
                command = [sys.executable, __file__, "--rank", str(rank), str(size), url or f"file://{folder}/store", *names]
                with open(f"{folder}/{rank}", "w", encoding="utf-8") as out:
                    ranks.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT,
                                                  env={**os.environ, "OMP_NUM_THREADS": "1", "TUTTI_SOCKET_IFNAME": "lo",
                                                       **(environment or {})}))
            end = time.monotonic() + PATIENCE
            try:
                codes = [process.wait(max(0.1, end - time.monotonic())) for process in ranks]
            except subprocess.TimeoutExpired:
                codes = None
            finally:
                for process in ranks:
                    process.kill()
                    process.wait()
            outputs = []
            for rank in range(size):
                with open(f"{folder}/{rank}", encoding="utf-8") as out:
                    outputs.append(out.read())
        text = "\n".join(outputs)
        self.assertEqual(codes, [-signal.SIGKILL if rank == killed else 0 for rank in range(size)], text)
        for words in ("terminate called", "Fatal Python error", "Segmentation"):
            self.assertNotIn(words, text)
        return outputs

    def test_data(self):
        self.world("reductions", "booleans", "averages", "moves")

    def test_forms(self):
        self.world("non_contiguous", "lists_in_one_piece", "unequal", "empty", "coalesced", "objects", "messages")

    def test_asynchronous(self):
        self.world("futures", "callbacks_that_call", "dropped", "from_threads", "wait_with_limit")

    def test_groups(self):
        self.world("sub_groups", "several_worlds", "monitored", "wrong_calls", "information")

    def test_users(self):
        self.world("profiler", "functional", "data_parallel")

    def test_detail(self):
        self.world("futures", "messages", "unequal", "objects", "callbacks_that_call",
                   environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})

    def test_over_tcp(self):
        self.world("reductions", "non_contiguous", "messages", "dropped", environment={"TUTTI_TRANSPORT": "tcp"})

    def test_killed(self):
        for text in self.world("killed", killed=2)[:2]:
            self.assertLess(float(re.search("after ([0-9.]+) s", text).group(1)), 1.0)

    def test_killed_amid_futures(self):
        self.world("killed_amid_futures", killed=2)

    def test_ends(self):
        for name in ("too_slow", "aborted", "shut_down_in_a_call", "without_end", "begun_again", "forked"):
            with self.subTest(name):
                self.world(name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        run_rank(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
    else:
        unittest.main(verbosity=2)
