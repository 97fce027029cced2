"""What who starts tutti does to signals: ignored or blocked ones, which fork and exec keep, change nothing in how it ends."""

import pathlib
import re
import signal

import harness
from harness import Case, script, start, tutti, wait_until

ALL = (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


def inheriting(ignored=(), blocked=()):
    def prepare():
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    return {"preexec_fn": prepare}


def signals_of(pid, name):
    """Those of a process that are ignored (SigIgn), blocked (SigBlk) or caught (SigCgt)."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    mask = int(re.search(rf"^{name}:\s*(\w+)", status, re.M).group(1), 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


class Inherited(Case):
    def test_a_job_ends_with_the_code_of_its_ranks(self):
        for ignored, blocked in (((signal.SIGCHLD,), ()), (ALL, ()), ((), ALL), (ALL, ALL)):
            for code in (0, 3):
                with self.subTest(ignored=ignored, blocked=blocked, code=code):
                    done = tutti("run", "-n", "2", *script(f"exit {code}"), **inheriting(ignored, blocked))
                    self.assertEqual(done.code, code, done)

    def test_sigterm_ends_a_job_whatever_was_inherited(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "--no-label", "--kill-grace", "0.1",
                        *script("echo ready; sleep 100"), **inheriting(ALL, ALL))
        for _ in range(2):
            self.assertEqual(process.stdout.readline(), "ready\n")
        process.terminate()
        self.assertEqual(harness.Finished(process, 10).code, 128 + signal.SIGTERM)

    def test_ranks_find_what_they_would_find_without_us(self):
        look = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]
        for ignored, blocked in ((ALL, ()), ((), ALL), ((signal.SIGCHLD, signal.SIGPIPE), (signal.SIGTERM,))):
            with self.subTest(ignored=ignored, blocked=blocked):
                how = inheriting(ignored, blocked)
                self.assertEqual(tutti("run", *look, **how).out, harness.run(*look, **how).out)

    def test_ranks_of_bench_and_tune_and_doctors_children_are_waited_for(self):
        how = inheriting(ALL, ALL)
        done = tutti("bench", "barrier", "-g", "2", "-n", "5", "--format", "csv", **how)
        self.assertEqual((done.code, len(done.lines)), (0, 2), done)
        done = tutti("tune", "barrier", "-g", "2", "--transport", "shm", "--time", "1", "-o", self.folder / "t", **how)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(tutti("doctor", **how).code, tutti("doctor").code)

    def test_nohup_is_meant_for_tune_too(self):
        meeting = self.folder / "meeting"
        meeting.mkdir()
        process = start(harness.PROGRAM, "tune", "barrier", "-g", "2", "--transport", "shm", "--time", "60", "-o",
                        self.folder / "t", env={"TMPDIR": str(meeting)}, **inheriting([signal.SIGHUP], ALL))
        self.assertTrue(wait_until(lambda: any(meeting.iterdir())))  # it has begun
        self.assertIn(signal.SIGHUP, signals_of(process.pid, "SigIgn"))
        self.assertIn(signal.SIGTERM, signals_of(process.pid, "SigCgt"))
        self.assertEqual(signals_of(process.pid, "SigBlk") & set(ALL), set())
        process.terminate()
        self.assertEqual(harness.Finished(process, 20).code, 128 + signal.SIGTERM)

    def test_a_reader_that_leaves_is_no_error_message(self):
        for how in (inheriting(), inheriting([signal.SIGPIPE], [signal.SIGPIPE])):
            process = start(harness.PROGRAM, "plan", "all_reduce", "-n", "64", "--algo", "ring", "--json", **how)
            process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read()
            process.stderr.close()
            self.assertEqual((process.wait(timeout=20), said), (-signal.SIGPIPE, ""))


if __name__ == "__main__":
    harness.main()
