#!/usr/bin/env python3
"""Runs the tests of torch.distributed that PyTorch brings along, with a backend that PyTorch does not know.

    torch_suite.py [--backend tutti] [--jobs 2] [--limit 60] [--sample N | --others | --propose] [TEST ...]

The tests are those of torch.testing._internal.distributed.distributed_test. `torch_suite.txt` names each of them, with
`pass`, or with the reason for which it is not expected to. Without options the tests that are expected to pass are run,
or those that are named; with --sample N about N of them, which TEST_SAMPLE chooses. --others runs those that are not
expected to pass, and names those that do. --propose runs all, and writes what could be `torch_suite.txt`.

Many tests are closed to a backend whose name they do not know. PyTorch's own tables (DistTestCases) and its function
for skipping are told to let `tutti` through where they name another backend and mean a feature; see GATES.

A rank of a test is a fork of this process, which has imported everything, so that a test takes less than a second
instead of ten. A test that exceeds --limit is killed with all of its ranks, and has failed.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

LIST = pathlib.Path(__file__).with_suffix(".txt")
RANKS = 4
MANY_RANKS = 8  # for tests that do not run with fewer

# Reasons with which tests skip backends that they do not name. Each is about a feature that a backend may have.
GATES = (
    r"Only MPI supports (CPU )?all_to_all",
    r"Only gloo backend supports timeouts",
    r"GLOO Batch Send Recv CPU",
    r"get_future is only supported on mpi, nccl and gloo",
    r"Only Nccl & Gloo backend support DistributedDataParallel",
    r"Only Gloo backend supports sparse all reduce",
    r"Test requires backend \w+ to be one of .*'gloo'",
    r"Requires file:// initialization method",  # which it is here, but not known when the tests are imported
)
# Tests that take another branch for a backend of this name only to learn that tensors are in the CPU's memory.
KNOWN_AS = {
    "test_accumulate_gradients_no_sync": "gloo",
    "test_accumulate_gradients_no_sync_allreduce_hook": "gloo",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook": "gloo",
    "test_accumulate_gradients_no_sync_grad_is_view": "gloo",
}
# Words with which a test is skipped, and what `torch_suite.txt` says then.
REASONS = (
    (r"CUDA|GPU|NCCL|Nccl|to be one of \{'nccl'\}", "needs a GPU"),
    (r"https://|flakiness", "PyTorch skips it, whatever the backend"),
    (r"no torchvision", "needs torchvision"),
)


def load_tests(backend):
    """Imports PyTorch's tests with the gates open, and returns their class and the skipped ones with their reasons."""
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(RANKS), CUDA_VISIBLE_DEVICES="", MASTER_ADDR="127.0.0.1",
                      TUTTI_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    from torch.testing._internal import common_distributed, common_utils

    if backend != "gloo":
        import pytutti.torch  # noqa: F401, registers the backend
    for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add(backend)

    skip_if = common_utils.skip_but_pass_in_sandcastle_if

    def gated_skip_if(condition, reason):
        return skip_if(condition and not any(re.match(gate, reason) for gate in GATES), reason)

    common_utils.skip_but_pass_in_sandcastle_if = gated_skip_if
    common_utils.skip_but_pass_in_sandcastle = lambda reason: gated_skip_if(True, reason)
    for name in ("skip_but_pass_in_sandcastle", "skip_but_pass_in_sandcastle_if"):
        setattr(common_distributed, name, getattr(common_utils, name))
    from torch.testing._internal.distributed import distributed_test

    for table in ("PROFILING_SUPPORTED_BACKENDS", "CUDA_PROFILING_SUPPORTED_BACKENDS",
                  "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(distributed_test, table).append(backend)

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def run_test(self, name, pipe):
            distributed_test.BACKEND = KNOWN_AS.get(name, backend)  # the process group exists already
            super().run_test(name, pipe)

    tests = {name: getattr(Suite, name) for name in dir(Suite) if name.startswith("test_")}
    skipped = {name: test.__unittest_skip_why__ for name, test in tests.items() if hasattr(test, "__unittest_skip_why__")}
    return Suite, sorted(tests), skipped


class Run:
    """A test that runs: its ranks, and what they have reported."""

    def __init__(self, suite, name, ranks, limit):
        self.name, self.ranks, self.begin = name, ranks, time.monotonic()
        self.limit = self.begin + limit
        self.folder = tempfile.TemporaryDirectory(prefix="torch-suite-")
        folder = pathlib.Path(self.folder.name)
        for part in ("barrier", "test_dir", "init_dir"):
            (folder / part).mkdir()
        os.environ.update(TEMP_DIR=str(folder), WORLD_SIZE=str(ranks),
                          INIT_METHOD=f"file://{folder}/init_dir/shared_init_file")
        self.output = open(folder / "output", "w+b")
        self.pipes, self.processes = [], []
        context = multiprocessing.get_context("fork")
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            words = suite, rank, name, f"{folder}/meeting", theirs, self.output
            process = context.Process(target=run_rank, args=words)
            process.start()
            os.setpgid(process.pid, process.pid)
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def is_over(self):
        codes = [p.exitcode for p in self.processes]
        return None not in codes or 10 in codes or time.monotonic() > self.limit

    def kill(self):
        for process in self.processes:
            if process.exitcode is None:
                os.killpg(process.pid, signal.SIGKILL)  # each rank has a group of its own
            process.join()

    def outcome(self, skips):
        """'pass', or what went wrong, in one line; and everything that the ranks said."""
        codes = [p.exitcode for p in self.processes]
        timed_out = None in codes and 10 not in codes
        self.kill()
        said = "".join(received(pipe) for pipe in self.pipes)
        self.output.seek(0)
        said += self.output.read().decode(errors="replace")
        self.output.close()
        self.folder.cleanup()
        if timed_out:
            return "exceeds its time", said
        failed = [code for code in codes if code not in (0, None)]
        if not failed:
            return "pass", said
        if all(code in skips for code in failed):
            return f"skip: {skips[failed[0]]}", said
        lines = [line for line in said.splitlines() if re.match(r"\w+(\.\w+)*(Error|Exception|Failure)?: ", line)]
        return f"fail: {lines[0][:160]}" if lines else f"fail: ranks ended with {codes}", said


def received(pipe):
    """What a rank that failed has said, if it has."""
    try:
        return pipe.recv() + "\n" if pipe.poll() else ""
    except (EOFError, OSError):
        return ""


def run_rank(suite, rank, name, meeting, pipe, output):
    os.setpgid(0, 0)  # as the parent does; one of both is first
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdin = open(os.devnull)
    sys.modules[suite._run.__module__].INIT_METHOD = os.environ["INIT_METHOD"]
    suite._run(rank, name, meeting, pipe)


def run_tests(suite, names, jobs, limit, report):
    """Runs some tests at a time, and calls report(name, outcome, seconds, what it said) after each."""
    from torch.testing._internal.common_distributed import TEST_SKIPS

    skips = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}
    waiting, running = [(name, RANKS) for name in names], []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                name, ranks = waiting.pop(0)
                running.append(Run(suite, name, ranks, limit))
            alive = [p.sentinel for run in running for p in run.processes if p.exitcode is None]
            if not any(run.is_over() for run in running):
                patience = min(run.limit for run in running) - time.monotonic()
                multiprocessing.connection.wait(alive, timeout=max(0, patience))
            for run in [run for run in running if run.is_over()]:
                running.remove(run)
                outcome, said = run.outcome(skips)
                if outcome == f"skip: {TEST_SKIPS['small_worldsize'].message}" and run.ranks < MANY_RANKS:
                    waiting.insert(0, (run.name, MANY_RANKS))
                else:
                    report(run.name, outcome, time.monotonic() - run.begin, said)
    finally:
        for run in running:
            run.kill()


def read_list():
    """What is expected of each test: {name: `pass` or a reason}."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(maxsplit=1) for line in lines)


def sampled(names, number):
    """About so many of them, by the number in TEST_SAMPLE; all where it says `all`, or nothing."""
    seed = os.environ.get("TEST_SAMPLE", "all")
    return list(names) if seed == "all" else random.Random(int(seed)).sample(list(names), min(number, len(names)))


def propose(names, outcomes, expected):
    """Keeps reasons that people have written."""
    for name in names:
        outcome = outcomes[name]
        if outcome.startswith("skip: "):
            outcome = next((reason for words, reason in REASONS if re.search(words, outcome)), outcome)
        elif outcome != "pass" and expected.get(name, "pass") != "pass":
            outcome = expected[name]
        print(name, outcome)


def parse_options():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--backend", default="tutti")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--limit", type=float, default=60)
    options.add_argument("--sample", type=int)
    options.add_argument("--others", action="store_true")
    options.add_argument("--propose", action="store_true")
    options.add_argument("tests", nargs="*")
    return options.parse_args()


def main():
    options = parse_options()
    suite, names, skipped = load_tests(options.backend)
    expected = read_list()
    if unlisted := set(names) ^ set(expected):
        print(f"{len(unlisted)} tests of PyTorch and of {LIST.name} differ: {' '.join(sorted(unlisted)[:5])} ...")
    passing = [name for name in names if expected.get(name) == "pass"]
    chosen = options.tests or passing
    if options.sample:
        chosen = sampled(passing, options.sample)
    elif options.others or options.propose:
        chosen = [n for n in names if n not in skipped and (options.propose or n not in passing)]

    outcomes = {name: f"skip: {reason}" for name, reason in skipped.items()}
    wrong = sorted(unlisted)

    def report(name, outcome, seconds, said):
        outcomes[name] = outcome
        as_expected = options.propose or (outcome == "pass") != options.others
        if not options.propose:
            print(f"{name}: {outcome} ({seconds:.1f} s)", flush=True)
        if not as_expected:
            wrong.append(name)
            print(said)

    begin = time.monotonic()
    run_tests(suite, chosen, options.jobs, options.limit, report)
    if options.propose:
        propose(names, outcomes, expected)
        return 0
    passed = sum(outcomes.get(name) == "pass" for name in chosen)
    print(f"{passed} of {len(chosen)} tests passed in {time.monotonic() - begin:.0f} s; "
          f"{len(passing)} of the {len(names)} that PyTorch has are expected to")
    if wrong:
        print("not as expected:", " ".join(wrong))
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
