#!/usr/bin/env python3
"""The programs give with backend tutti what they give with gloo, however their ranks are started and meet.

    programs_test.py [unittest's words]

TESTED_BACKEND=gloo compares gloo with itself, which tells whether a program or the backend is at fault, and
TESTED_PROGRAM_NAME runs one program only.
"""

import contextlib
import functools
import importlib
import os
import pathlib
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
sys.path.insert(0, str(HERE))

import harness
import programs
import run_programs
import torch
import torch._dynamo  # which optimizers import when first used
import torch.multiprocessing

BACKEND = os.environ.get("TESTED_BACKEND", "tutti")
ONLY = os.environ.get("TESTED_PROGRAM_NAME")
PATIENCE = int(os.environ.get("WATCHDOG_SECONDS", "120"))


def fork_and_join(ranks, *arguments, environment=None):
    """Runs all programs on ranks that have imported what this process has."""
    fork_and_call(ranks, run_programs.run_child, environment or {}, *arguments)


def fork_and_call(ranks, function, *arguments):
    """When one rank fails the others are ended, and its exception is raised."""
    started = torch.multiprocessing.start_processes(function, arguments, nprocs=ranks, join=False, start_method="fork")
    end = time.monotonic() + PATIENCE
    try:
        while not started.join(timeout=max(0, end - time.monotonic())):
            if time.monotonic() >= end:
                raise AssertionError(f"{ranks} ranks did not end within {PATIENCE} s")
    finally:
        for process in started.processes:
            process.kill()
            process.join()


def send_or_receive(rank, url, may_receive):
    """Rank 0 returns at once, and does not destroy its group."""
    import pytutti.torch  # noqa: F401, the backend

    torch.distributed.init_process_group(BACKEND, init_method=url, rank=rank, world_size=2)
    tensor = torch.full((3,), float(rank))
    if rank == 0:
        tensor += 1
        torch.distributed.send(tensor, 1)
        torch.distributed.broadcast(tensor, 0)
    else:
        may_receive.wait(PATIENCE)
        torch.distributed.recv(tensor, 0)
        torch.distributed.broadcast(tensor, 0)
        torch.testing.assert_close(tensor, torch.ones(3))


def run_example(rank, environment, folder, name):
    """The main() of an example, as torchrun would call it."""
    os.environ.update(environment, RANK=str(rank))
    with open(folder / f"{rank}.out", "w") as output, contextlib.redirect_stdout(output):
        importlib.import_module(name).main()


def results_in(folder, ranks):
    return [torch.load(pathlib.Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(ranks)]


@functools.cache
def results_of_gloo(ranks):
    with tempfile.TemporaryDirectory() as folder:
        fork_and_join(ranks, "gloo", f"file://{folder}/meeting", ranks, folder, ONLY)
        return results_in(folder, ranks)


class Programs(harness.Case):
    def assertLikeGloo(self, ranks):
        """Compares what the ranks have left in the test's folder."""
        ours = results_in(self.folder, ranks)
        slowest = sorted(((seconds, name) for name, seconds in ours[0]["times"].items()), reverse=True)[:3]
        print(f"{len(ours[0]['results'])} programs on {ranks} ranks, slowest", slowest, file=sys.stderr)
        for rank, (own, other) in enumerate(zip(ours, results_of_gloo(ranks), strict=True)):
            expected = {p.name for p in programs.all_programs() if p.ranks <= ranks and (p.gloo or BACKEND != "gloo")}
            if ONLY is None:
                self.assertEqual(set(own["results"]), expected)
            for name, result in other["results"].items():
                with self.subTest(program=name, rank=rank, ranks=ranks):
                    self.assertSame(own["results"][name], result)

    def assertSame(self, own, other):
        if isinstance(other, (list, tuple)):
            self.assertEqual(len(own), len(other))
            for pair in zip(own, other):
                self.assertSame(*pair)
        elif isinstance(other, torch.Tensor):
            torch.testing.assert_close(own, other)
        else:
            self.assertEqual(own, other)

    def forks(self, ranks, init_method, environment=None):
        fork_and_join(ranks, BACKEND, init_method, ranks, str(self.folder), ONLY, environment=environment)
        self.assertLikeGloo(ranks)

    def commands(self, ranks, *commands):
        """Programs that start ranks, or are one: (words before the script's name, words after it, environment) each."""
        script = HERE / "run_programs.py"
        only = ["--only", ONLY] if ONLY else []
        started = [harness.start(sys.executable, *before, script, BACKEND, *after, *only, env=environment)
                   for before, after, environment in commands]
        try:
            for process in started:
                finished = harness.Finished(process, PATIENCE)
                self.assertEqual(finished.code, 0, finished)
        finally:
            for process in started:
                process.kill()
        self.assertLikeGloo(ranks)

    def meeting_point(self, ranks):
        """For init method env://."""
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(harness.free_port()), "WORLD_SIZE": str(ranks)}

    def example(self, name, ranks):
        """What each rank prints."""
        fork_and_call(ranks, run_example, self.meeting_point(ranks), self.folder, name)
        return [(self.folder / f"{rank}.out").read_text() for rank in range(ranks)]

    @unittest.skipIf(BACKEND == "gloo", "the examples name their backend")
    def test_examples(self):
        for rank, said in enumerate(self.example("torch_ddp", 2)):
            self.assertEqual(said, f"rank {rank} of 2: differs from one process by less than 1e-6: True\n")
        for rank, said in enumerate(self.example("torch_ring", 3)):
            self.assertEqual(said, f"rank {rank} of 3 has {[6.0 * i for i in range(10)]}\n")

    @unittest.skipIf(BACKEND == "gloo", "its calls return when the other rank has what was sent")
    def test_what_a_rank_has_sent_arrives_though_it_returns_first(self):
        context = torch.multiprocessing.get_context("fork")
        may_receive = context.Event()
        arguments = (f"file://{self.folder}/meeting", may_receive)
        ranks = [context.Process(target=send_or_receive, args=(rank, *arguments)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        ranks[0].join(PATIENCE)
        may_receive.set()
        ranks[1].join(PATIENCE)
        for rank in ranks:
            rank.kill()
            rank.join()
        self.assertEqual([rank.exitcode for rank in ranks], [0, 0])

    def test_forked_ranks_meet_in_a_file(self):
        self.forks(4, f"file://{self.folder}/meeting")

    def test_forked_ranks_meet_by_the_environment(self):
        self.forks(3, "env://", self.meeting_point(3))

    def test_spawned_ranks_meet_at_a_port(self):
        self.commands(2, ([], [f"tcp://127.0.0.1:{harness.free_port()}", self.folder, "--spawn", "2"], {}))

    def test_commands_meet_by_the_environment(self):
        """And PyTorch compares the calls of all ranks before it makes them."""
        common = {**self.meeting_point(2), "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
        self.commands(2, *(([], ["env://", self.folder], {**common, "RANK": str(rank)}) for rank in range(2)))

    def test_torchrun_starts_ranks(self):
        """And data go over TCP, as between hosts."""
        self.commands(3, (["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"],
                          ["env://", self.folder], {"TUTTI_TRANSPORT": "tcp"}))


if __name__ == "__main__":
    harness.PROGRAM = sys.executable  # what these tests run, and no sanitizer slows it
    unittest.main(verbosity=2)
