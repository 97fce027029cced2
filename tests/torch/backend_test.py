#!/usr/bin/env python3
"""The backend `tutti` of torch.distributed: every call, with every type, and the ends of process groups.

A world is some processes that run cases of backend_cases/ one after the other in one process group. The test starts
them, waits for them, and kills them if they take too long.
"""

import atexit
import ctypes
import datetime
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import pytutti.torch.build  # noqa: E402
from backend_cases import CASES, asynchronous, data, ends, forms, groups, users  # noqa: E402, F401

pytutti.torch.build.load()  # or build it, before any rank waits for others
PATIENCE = float(os.environ.get("WATCHDOG_SECONDS", "120"))


def run_rank(rank, size, url, names):
    """In a child of the test, which has PyTorch already, since its import takes longer than most cases."""
    torch.set_num_threads(1)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # no rank outlives the test
    dist.set_debug_level_from_env()
    dist.init_process_group("tutti", init_method=url, rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=PATIENCE / 2))
    kept = None
    for name in names:
        kept = CASES[name](rank, size)
    if dist.is_initialized() and kept is None:
        dist.destroy_process_group()


def start_rank(rank, size, url, names, output, environment):
    """The process's number. It ends as a program of its own does, with what it has registered for that."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with open(output, "w", encoding="utf-8") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        os.environ.update(environment)
        run_rank(rank, size, url, names)
        code = 0
    except SystemExit as end:  # of a child of its own
        code = end.code
    except BaseException:
        print(f"rank {rank}:\n{traceback.format_exc()}", flush=True)
        os._exit(1)
    finally:
        if code == 0:
            atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class World(unittest.TestCase):
    def world(self, *names, size=3, killed=None, environment=None):
        """Runs cases in `size` ranks, of which `killed` ends by SIGKILL. Returns what they print."""
        environment = {"TUTTI_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", **(environment or {})}
        folder = tempfile.mkdtemp()  # not TemporaryDirectory, which a child that ends would remove
        try:
            files = [f"{folder}/{rank}" for rank in range(size)]
            ranks = [start_rank(rank, size, f"file://{folder}/store", names, files[rank], environment)
                     for rank in range(size)]
            codes = self.wait(ranks)
            outputs = []
            for file in files:
                with open(file, encoding="utf-8") as out:
                    outputs.append(out.read())
        finally:
            shutil.rmtree(folder)
        text = "\n".join(outputs)
        self.assertEqual(codes, [-signal.SIGKILL if rank == killed else 0 for rank in range(size)], text)
        for words in ("terminate called", "Fatal Python error", "Segmentation"):
            self.assertNotIn(words, text)
        return outputs

    def wait(self, ranks):
        codes, end = {}, time.monotonic() + PATIENCE
        try:
            while len(codes) < len(ranks) and time.monotonic() < end:
                for pid in set(ranks) - set(codes):
                    found, status = os.waitpid(pid, os.WNOHANG)
                    if found:
                        codes[pid] = os.waitstatus_to_exitcode(status)
                time.sleep(0.01)
        finally:
            for pid in set(ranks) - set(codes):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return [codes.get(pid, "took too long") for pid in ranks]

    def test_data(self):
        self.world("reductions", "booleans", "averages", "moves")

    def test_forms(self):
        self.world("non_contiguous", "lists_in_one_piece", "unequal", "empty", "coalesced", "left_region", "objects",
                   "messages")

    def test_asynchronous(self):
        self.world("futures", "callbacks_that_call", "dropped", "from_threads", "wait_with_limit")

    def test_groups(self):
        self.world("sub_groups", "several_worlds", "not_reconfigured", "monitored", "wrong_calls", "information")

    def test_beside_accelerators(self):
        self.world("beside_accelerators")

    def test_users(self):
        self.world("profiler", "functional", "data_parallel")

    def test_detail(self):
        self.world("futures", "messages", "unequal", "objects", "callbacks_that_call",
                   environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})

    def test_over_tcp(self):
        self.world("reductions", "non_contiguous", "messages", "dropped", environment={"TUTTI_TRANSPORT": "tcp"})

    def test_killed(self):
        busy = os.getloadavg()[0] > os.cpu_count()  # then a rank that spins may learn late
        for text in self.world("killed", killed=2)[:2]:
            self.assertLess(float(re.search("after ([0-9.]+) s", text).group(1)), 10 if busy else 1)

    def test_killed_amid_futures(self):
        self.world("killed_amid_futures", killed=2)

    def test_ends(self):
        for name in ("too_slow", "aborted", "shut_down_in_a_call", "without_end", "begun_again", "begun_in_vain", "forked"):
            with self.subTest(name):
                self.world(name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
