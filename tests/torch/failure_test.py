#!/usr/bin/env python3
"""When a rank of torch.distributed dies, the others know which; and groups and processes may end at any time.

    failure_test.py [unittest's words]
"""

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

import harness

BACKEND = os.environ.get("TESTED_BACKEND", "tutti")
PACKAGE = importlib.util.find_spec("pytutti._core")
PATIENCE = int(os.environ.get("WATCHDOG_SECONDS", "30"))
ATTEMPTS = 5


def soon():
    """Seconds from a rank's end until the others know: a process that shares its core is told later."""
    return 1 if os.getloadavg()[0] < os.cpu_count() else 3


class Ranks(harness.Case):
    """Scenarios of failing.py."""

    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen([sys.executable, HERE / "forked_ranks.py", BACKEND], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, env=harness.clean_environment())

    @classmethod
    def tearDownClass(cls):
        cls.server.stdin.close()
        cls.server.stdout.close()
        cls.server.wait(PATIENCE)

    def ranks(self, scenario, number):
        """Runs it; what became of each rank. Nobody may hang, nor end by the words of C++."""
        job = {"scenario": scenario, "ranks": number, "folder": str(self.folder), "limit": PATIENCE}
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        result = json.loads(self.server.stdout.readline())
        for rank, one in enumerate(result):
            self.assertIsNotNone(one["code"], f"rank {rank} hangs in {scenario}: {one['said']}")
            self.assertNotIn("terminate called", one["said"], f"rank {rank} in {scenario}")
            self.assertIn(one["code"], (0, 1, -signal.SIGKILL), f"rank {rank} in {scenario}: {one['said']}")
        return result

    def assertAllEnd(self, scenario, number, *words, code=0):
        """As a rank does that nothing has happened to."""
        for rank, one in enumerate(self.ranks(scenario, number)):
            self.assertEqual(one["code"], code, f"rank {rank}: {one['said']}")
            for word in words:
                self.assertIn(word, one["said"], f"rank {rank}")

    def assertKnows(self, said, culprit, errors):
        """A survivor has named the culprit as often as expected; the seconds after which it first did."""
        found = re.findall(r"^error (\S+) s after the kill: (.*)", said, re.M)
        self.assertEqual(len(found), errors, said)
        for _, error in found:
            if BACKEND != "gloo":
                self.assertRegex(error, rf"\brank {culprit}\b.*\bis lost\b")
        return float(found[0][0])

    def assertReported(self, rank, culprit):
        """The file for torchrun has the same words."""
        if BACKEND != "gloo":
            message = json.loads((self.folder / f"error-{rank}.json").read_text())["message"]
            self.assertRegex(message["message"], rf"\brank {culprit}\b.*\bis lost\b")

    def assertSurvivorsKnow(self, scenario, number, errors=1):
        """Soon; something else may delay a process, so that there are several attempts."""
        for attempt in range(ATTEMPTS):
            result = self.ranks(scenario, number)
            self.assertEqual(result[-1]["code"], -signal.SIGKILL, result[-1]["said"])
            times = []
            for rank, one in enumerate(result[:-1]):
                times.append(self.assertKnows(one["said"], number - 1, errors))
                self.assertReported(rank, number - 1)
                self.assertEqual(one["code"], 0, one["said"])
            print(f"{scenario}: survivors know after", times, file=sys.stderr)
            if max(times) < soon():
                return
            for left in list(self.folder.iterdir()):
                left.unlink()
        self.fail(f"it took the survivors {times} s to learn of the kill, in each of {ATTEMPTS} attempts")

    def test_killed_in_collectives(self):
        self.assertSurvivorsKnow("killed_in_collectives", 4)

    def test_killed_in_data_parallel(self):
        self.assertSurvivorsKnow("killed_in_data_parallel", 3)

    def test_killed_while_others_wait(self):
        self.assertSurvivorsKnow("killed_while_others_wait", 3, errors=5)

    def test_killed_in_a_group(self):
        self.assertSurvivorsKnow("killed_in_a_group", 4)

    def test_raises(self):
        *survivors, culprit = self.ranks("raises", 3)
        self.assertIn("ValueError: my own mistake", culprit["said"])
        self.assertEqual(culprit["code"], 1)
        for one in survivors:
            self.assertRegex(one["said"], r"error \S+ s after the kill: .*\brank 2\b")

    def test_different_sizes(self):
        for one in self.ranks("different_sizes", 2):
            self.assertRegex(one["said"], r"error .*(?s:100.*101|101.*100)")

    def test_times_out(self):
        result = self.ranks("times_out", 2)
        seconds = float(re.search(r"error (\S+) s after the kill: .*timed out.*rank 1\b", result[0]["said"])[1])
        self.assertLess(seconds, 3)
        self.assertGreater(seconds, 0.9)

    def test_does_not_come(self):
        result = self.ranks("does_not_come", 3)
        self.assertRegex(result[0]["said"], r"error \S+ s after the kill: .*\b[Rr]anks? 2\b")

    def test_some_have_ended(self):
        result = self.ranks("some_have_ended", 4)
        # rank 1 may be late itself
        self.assertRegex(result[0]["said"], r"error \S+ s after the kill: .*\b[Rr]anks (1, )?2, 3 ")
        if BACKEND != "gloo":
            for rank in range(2):
                self.assertIn("monitored_barrier: rank", result[rank]["said"])

    def assertInterrupted(self, said, before=""):
        found = re.search(rf"^{before}KeyboardInterrupt after (\S+) s", said, re.M)
        self.assertTrue(found, said)
        self.assertLess(float(found[1]), 5)

    @unittest.skipIf(BACKEND == "gloo", "Gloo asks nobody")
    def test_interrupted_in_a_call(self):
        self.assertInterrupted(self.ranks("interrupted_in_a_call", 2)[0]["said"])

    @unittest.skipIf(BACKEND == "gloo", "Gloo asks nobody")
    def test_interrupted_in_a_wait(self):
        said = self.ranks("interrupted_in_a_wait", 2)[0]["said"]
        self.assertInterrupted(said)
        self.assertRegex(said, "others learn: .*interrupted")

    @unittest.skipIf(BACKEND == "gloo", "Gloo asks nobody")
    def test_interrupted_in_a_monitored_barrier(self):
        self.assertInterrupted(self.ranks("interrupted_in_a_monitored_barrier", 2)[0]["said"])

    def assertBothInterrupted(self, said):
        self.assertInterrupted(said)
        self.assertIn("a later call has an error of its own", said)
        self.assertInterrupted(said, "pytutti: ")

    @unittest.skipUnless(PACKAGE, "needs the package; the test of the wheel runs it")
    def test_interrupted_beside_pytutti(self):
        self.assertBothInterrupted(self.ranks("interrupted_beside_pytutti", 2)[0]["said"])

    @unittest.skipUnless(PACKAGE, "needs the package; the test of the wheel runs it")
    def test_interrupted_after_pytutti(self):
        self.assertBothInterrupted(self.ranks("interrupted_after_pytutti", 2)[0]["said"])

    @unittest.skipUnless(PACKAGE, "needs the package; the test of the wheel runs it")
    def test_interrupted_threads_of_pytutti(self):
        said = self.ranks("interrupted_threads_of_pytutti", 2)[0]["said"]
        self.assertInterrupted(said)
        self.assertNotIn("still waits", said)

    def test_aborted(self):
        self.assertIn("aborted", self.ranks("aborted", 2)[0]["said"])

    def test_destroyed_at_once(self):
        self.assertAllEnd("destroyed_at_once", 3, "destroyed")

    def test_destroyed_with_calls_pending(self):
        self.assertAllEnd("destroyed_with_calls_pending", 2, "destroyed", "forgotten")

    def test_destroyed_by_one(self):
        result = self.ranks("destroyed_by_one", 2)
        self.assertRegex(result[1]["said"], r"error \S+ s after the kill: .*\brank 0\b")
        for one in result:
            self.assertIn("destroyed", one["said"])

    def test_destroyed_again_and_again(self):
        self.assertAllEnd("destroyed_again_and_again", 3, "destroyed")

    def test_just_ends(self):
        self.assertAllEnd("just_ends", 2, "ends")

    def test_calls_at_the_end(self):
        self.assertAllEnd("calls_at_the_end", 2, "sum [2.0, 2.0, 2.0]")

    def test_ends_with_calls_pending(self):
        self.assertAllEnd("ends_with_calls_pending", 2, "ends")

    def test_exits_in_a_thread(self):
        self.assertAllEnd("exits_in_a_thread", 2, "ends")

    def test_exits_by_exception(self):
        self.assertAllEnd("exits_by_exception", 2, "of my own", code=1)

    def test_keeps_works_until_the_end(self):
        self.assertAllEnd("keeps_works_until_the_end", 2, "ends")


class Torchrun(harness.Case):
    def test_torchrun_shows_who_was_killed(self):
        """Its agent looks every three seconds, so that survivors can say what they know before it ends them."""
        run = harness.run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3",
                          "--monitor-interval", "3", "--log-dir", self.folder / "logs", "--redirects", "3",
                          HERE / "failing.py", "killed_in_collectives", limit=PATIENCE,
                          env={"BACKEND": BACKEND, "FOLDER": str(self.folder)})
        self.assertEqual(run.code, 1, run)
        self.assertIn("SIGKILL", run.err)
        for rank in (0, 1):
            said = next(self.folder.glob(f"logs/*/attempt_0/{rank}/stdout.log")).read_text()
            self.assertRegex(said, r"error \S+ s after the kill: .*rank 2\b.*is lost")
            print(said, file=sys.stderr)
            report = next(self.folder.glob(f"logs/*/attempt_0/{rank}/error.json"))
            message = json.loads(report.read_text())["message"]
            self.assertRegex(message["message"], r"rank 2\b.*is lost")


if __name__ == "__main__":
    harness.PROGRAM = sys.executable  # what these tests run, and no sanitizer slows it
    unittest.main(verbosity=2)
