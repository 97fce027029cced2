#!/usr/bin/env python3
"""tasks_test.py Model: the model of calls in each other's memory (tasks.pml) has no error, and its mutants have.

tasks_test.py Calls PROGRAM FAKE_DRIVER_FOLDER: what streams of real calls ran, as the fake driver logs it, is what the model
does, and nothing else would be. PROGRAM has kernels; without one it is skipped. Both need spin, and Model a compiler of C."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

MODEL = pathlib.Path(__file__).resolve().parent / "tasks.pml"
FORMS = {"LEADER": ("leader", "direct"), "ONE_SHOT": ("one-shot", "direct"), "TWO_SHOT": ("two-shot", "direct_two_shot")}
MUTANTS = ("NO_ARRIVAL", "EARLY_CREDIT", "NO_CREDIT", "WAITS_FIRST")
CALLS = 3  # with the first one of the program, which is as the others
TRIAL = 1  # message on each link when it is set up
WORD, WORDS_OF_LINK = 64, 5  # where the words of links lie; see transport/cuda_ipc/stream_links.cc
KINDS = {("wait", 0): 0, ("wait", 1): 1, ("write", 0): 2, ("write", 1): 3, ("copy", "begins"): 4, ("copy", "ends"): 5,
         ("kernel", "begins"): 6, ("kernel", "ends"): 7}
SIGNALS = (2, 3)
END = 1 << 30  # of a log for the model


def model(folder, *definitions):
    """Compiles the model and looks at all its states. Answers what is wrong with it."""
    words = [f"-D{one}" for one in definitions]
    subprocess.run(["spin", "-a", *words, MODEL], cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)
    subprocess.run(["cc", "-O1", "-w", "-DSAFETY", "-o", "pan", "pan.c"], cwd=folder, check=True, timeout=120)
    said = subprocess.run(["./pan", "-m100000"], cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "max search depth too small" not in said and "states, stored" in said, said
    return [line for line in said.splitlines() if line.startswith("pan:1:")]


def follows(log, *definitions):
    """Whether the model can take the steps of a log, of (rank, kind, peer, value), and nothing in it goes wrong."""
    with tempfile.TemporaryDirectory() as folder:
        codes = [((rank * 8 + kind) * 16 + peer) * 256 + value for rank, kind, peer, value in log] + [END]
        text = f"#define END {END}\nint log[{len(codes)}] = {{ {', '.join(map(str, codes))} }};\n"
        pathlib.Path(folder, "log.pml").write_text(text)
        shutil.copy(MODEL, folder)
        words = [f"-D{one}" for one in ("REPLAY", *definitions)]
        done = subprocess.run(["spin", "-u100000", *words, "tasks.pml"], cwd=folder, capture_output=True, text=True, timeout=60)
        assert "followed" in done.stdout or "timeout" in done.stdout or "assertion violated" in done.stdout, done.stdout + done.stderr
        return "followed" in done.stdout


def real_log(form, ranks, schedule):
    """What the streams of all ranks ran in such calls, in an order that holds for all of them."""
    program, driver = ARGUMENTS
    mode, algorithm = FORMS[form]
    copies = {"LEADER": lambda rank: 1 if rank > 0 else 0, "ONE_SHOT": lambda _: 1, "TWO_SHOT": lambda _: ranks - 1}[form]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        env = dict(os.environ, TUTTI_GPU_MODE=mode, LD_LIBRARY_PATH=driver, FAKE_CUDA_SCHEDULE=schedule, TUTTI_SIZE=str(ranks),
                   FAKE_CUDA_DEVICES="1" if mode == "leader" else str(ranks), FAKE_CUDA_LOG=str(folder / "log"),
                   TUTTI_RDZV=f"file://{folder / 'meeting'}", TUTTI_GPU_SLOT_BYTES="4096")
        started = [subprocess.Popen([program, algorithm, "100", str(CALLS - 1)], env=dict(env, TUTTI_RANK=str(rank)),
                                    stdout=subprocess.DEVNULL) for rank in range(ranks)]
        try:
            assert [process.wait(60) for process in started] == [0] * ranks
        finally:
            for process in started:
                process.kill()
                process.wait()
        rank_of = {process.pid: rank for rank, process in enumerate(started)}
        lines = [line.split() for line in (folder / "log").read_text().splitlines()]
    return without_trial([entry(ranks, rank_of[int(pid)], *words) for pid, *words in lines], copies)


def entry(ranks, rank, what, *words):
    if what in ("copy", "kernel"):
        return rank, KINDS[what, words[0]], 0, 0
    pair, word = divmod(int(words[0]) // WORD, WORDS_OF_LINK)
    owner, other = divmod(pair, ranks)
    assert word < 2 and rank == (owner if what == "wait" else other), (rank, what, words)
    return rank, KINDS[what, word], other if what == "wait" else owner, int(words[1])


def without_trial(log, copies):
    """From the first call on, which sends message number TRIAL + 1. The trial ends with copies, as the call may begin."""
    kept = set()
    for rank in {one[0] for one in log}:
        own = [i for i, one in enumerate(log) if one[0] == rank]
        first = next(place for place, i in enumerate(own) if log[i][3] > TRIAL)
        kept |= set(own[first - 2 * copies(rank):])  # begins and ends
    return [one for i, one in enumerate(log) if i in kept]


def swaps(log):
    """The log with two entries in the other order, for each two where that matters: one rank's that follow each other, and
    a wait with the signal that ended it."""
    for i, (rank, kind, peer, value) in enumerate(log):
        after = next((j for j in range(i + 1, len(log)) if log[j][0] == rank and log[j] != log[i]), None)
        ended = log.index((peer, kind - 2, rank, value)) if kind in SIGNALS and (peer, kind - 2, rank, value) in log else None
        for j in (after, ended):
            if j is not None:
                yield [log[j] if k == i else log[i] if k == j else one for k, one in enumerate(log)]


class Model(unittest.TestCase):
    def test_the_model_is_right_and_its_mutants_are_not(self):
        for form in FORMS:
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(model(folder, form), [], form)
                for mutant in MUTANTS:
                    self.assertNotEqual(model(folder, form, mutant), [], f"{form} {mutant}")


class Calls(unittest.TestCase):
    def test_real_calls_do_what_the_model_does(self):
        for form in FORMS:
            for ranks, schedule in ((2, "lazy"), (3, "random:1")):
                with self.subTest(form=form, ranks=ranks):
                    log = real_log(form, ranks, schedule)
                    words = (form, f"RANKS={ranks}", f"CALLS={CALLS}", f"BEFORE={TRIAL}")
                    kernels = sum(kind == KINDS["kernel", "ends"] for _, kind, _, _ in log)
                    self.assertEqual(kernels, CALLS * (1 if form == "LEADER" else ranks))
                    self.assertTrue(follows(log, *words), log)
                    swapped = list(swaps(log))
                    self.assertGreater(len(swapped), kernels * 4)
                    for other in swapped[::7]:
                        self.assertFalse(follows(other, *words), other)


if __name__ == "__main__":
    if shutil.which("spin") is None:
        print("skipped: checking the model takes spin (apt-get install spin)")
        sys.exit(77)
    CLASS, *ARGUMENTS = sys.argv[1:]
    if CLASS == "Calls" and not ARGUMENTS:
        print("skipped: there are no kernels for real calls (-Dgpu=enabled)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], CLASS])
