"""Ctrl-C and other signals while a call waits."""

import os
import signal
import sys
import tempfile

from support import HERE, LIMIT, Case, Finished, ranks, run, start


class Signals(Case):
    def test_ctrl_c_ends_a_call_that_waits_and_the_others_learn_who_did_that(self):
        for how in ("collective", "work", "message", "prepared"):
            done = ranks(2, "waiting.py", how)
            self.assertEqual(done.code, 0, done)
            self.assertIn("[0] interrupted", done.lines, done)
            self.assertRegex(done.out, r"\[1\] rank 1: 0 .*rank 0 .* aborted the communicator: interrupted", done)

    def test_a_handler_closes_the_communicator_in_a_call(self):
        done = ranks(2, "waiting.py", "close")
        self.assertEqual(done.code, 0, done)
        self.assertIn("[0] interrupted", done.lines, done)

    def test_an_exception_in_the_body_of_with_is_told(self):
        done = ranks(2, "waiting.py", "body")
        self.assertRegex(done.out, r"\[1\] rank 1: 0 .*rank 0 .* aborted the communicator: KeyboardInterrupt", done)

    def test_ctrl_c_for_the_program_ends_all_ranks(self):
        process = start(
            sys.executable,
            "-m",
            "pytutti",
            "run",
            "-n",
            2,
            "--timeout",
            LIMIT - 5,
            HERE / "ranks" / "waiting.py",
            "together",
        )
        for _ in range(2):
            self.assertIn("waits", process.stdout.readline())
        os.kill(process.pid, signal.SIGINT)
        done = Finished(process)
        self.assertEqual(done.code, 128 + signal.SIGINT, done)
        self.assertIn("KeyboardInterrupt", done.err, done)

    def test_ctrl_c_while_the_others_have_not_come(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(sys.executable, HERE / "ranks" / "waiting.py", "connect", folder)
            self.assertEqual((done.code, done.out), (0, "interrupted\n"), done)

    def test_a_handler_that_raises_nothing_runs_and_the_call_goes_on(self):
        done = ranks(2, "waiting.py", "handler")
        self.assertEqual(done.lines, ["[0] handled [1]", "[1] rank 1 got its message"], done)
