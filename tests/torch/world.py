"""Ranks of a test: some processes that run cases of backend_cases/ one after the other in one process group.

The test starts them, waits for them, and kills them if they take too long.
"""

import atexit
import ctypes
import datetime
import os
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
from backend_cases import CASES  # noqa: E402

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
