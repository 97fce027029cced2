"""tutti run: how jobs end, what of theirs ends with them, and whose fault is named."""

import os
import pathlib
import re
import signal
import socket
import subprocess

import harness
from harness import Case, is_gone, script, start, stop_process, tutti, wait_until


def may_clean_up(test, waiting):
    """Rank 0 fails once the other one is ready, which ends as `waiting` says, with what it waits in put in there."""
    ready = test.folder / "ready"
    other = f'trap "echo cleaned up; exit 0" TERM; touch {ready}; while :; do sleep 0.05; done'
    done = tutti("run", "-n", "2", *script(
        f'if [ $RANK = 0 ]; then while [ ! -e {ready} ]; do sleep 0.01; done; exit 4; fi;' + waiting.format(other)))
    test.assertEqual(done.code, 4, done)
    test.assertIn("[1] cleaned up", done.lines)


class Ends(Case):
    def test_success_is_0_and_the_first_failing_code_is_passed_on(self):
        self.assertEqual(tutti("run", "-n", "2", "true").code, 0)
        done = tutti("run", "-n", "3", *script('[ $RANK != 1 ] || { echo last words; exit 5; }; exec sleep 100'))
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, rf"rank 1 \(host {re.escape(socket.gethostname())}, pid \d+\) exited with code 5; "
                                  r"its last line: last words\n$")
        self.assertEqual(done.err.count("\n"), 1)

    def test_a_rank_killed_by_a_signal_is_named_with_it(self):
        done = tutti("run", "-n", "3", *script('[ $RANK != 2 ] || kill -KILL $$; exec sleep 100'))
        self.assertEqual(done.code, 128 + signal.SIGKILL, done)
        self.assertSays(done.err, r"rank 2 .* was killed by SIGKILL; it wrote nothing")

    def test_without_grace_a_child_in_a_session_of_its_own_ends_with_the_job(self):
        done = tutti("run", "--kill-grace", "0", *script("setsid sleep 100 & echo $!"))
        self.assertEqual(done.code, 0, done)
        self.assertTrue(is_gone(done.out.strip()), done)

    def test_a_rank_killed_from_outside_ends_the_job(self):
        process = start(harness.PROGRAM, "run", "-n", "3", "--no-label", *script("echo $RANK $$; exec sleep 100"))
        pids = dict(process.stdout.readline().split() for _ in range(3))
        os.kill(int(pids["1"]), signal.SIGKILL)
        done = harness.Finished(process, 10)
        self.assertEqual(done.code, 137, done)
        self.assertSays(done.err, rf"rank 1 \(host .*, pid {pids['1']}\) was killed by SIGKILL; its last line: 1 ")

    def test_of_several_that_failed_at_once_the_killed_one_is_named(self):
        go = self.folder / "go"
        process = start(harness.PROGRAM, "run", "-n", "3", "--no-label", *script(
            f'echo $RANK $$; while [ ! -e {go} ]; do sleep 0.01; done; exit 1'))
        pids = dict(process.stdout.readline().split() for _ in range(3))
        stop_process(process.pid)  # so that it sees all ends at once
        os.kill(int(pids["2"]), signal.SIGKILL)
        go.touch()
        self.assertTrue(wait_until(lambda: all(is_gone(pid) for pid in pids.values())))
        os.kill(process.pid, signal.SIGCONT)
        done = harness.Finished(process, 10)
        self.assertEqual(done.code, 137, done)
        self.assertSays(done.err, r"rank 2 .* was killed by SIGKILL")

    def test_one_that_is_killed_right_after_another_has_failed_is_named(self):
        pid, seen = self.folder / "pid", self.folder / "seen"
        done = tutti("run", "-n", "2", "--no-label", *script(
            f'if [ $RANK = 0 ]; then echo $$ > {pid}.new; mv {pid}.new {pid}; until [ -e {seen} ]; do :; done; exit 1; fi;'
            f'until [ -e {pid} ]; do :; done; read zero < {pid}; > {seen};'
            'exec 2> /dev/null; while read -r line < /proc/$zero/stat && [ "${line#*) Z}" = "$line" ]; do :; done;'
            'kill -KILL $$'))
        self.assertEqual(done.code, 137, done)
        self.assertSays(done.err, r"rank 1 .* was killed by SIGKILL")
        self.assertEqual(done.err.count("\n"), 1)

    def test_who_ignores_sigterm_is_killed_after_the_grace(self):
        ready = self.folder / "ready"
        done = tutti("run", "-n", "3", "--kill-grace", "0.3s", *script(
            f'if [ $RANK = 0 ]; then until [ -e {ready}1 ] && [ -e {ready}2 ]; do sleep 0.01; done; exit 3; fi;'
            f'trap "" TERM; touch {ready}$RANK; sleep 100; sleep 100'))
        self.assertEqual(done.code, 3, done)
        self.assertGreater(done.seconds, 0.3)

    def test_others_may_clean_up_within_the_grace(self):
        may_clean_up(self, "{}")

    def test_a_stopped_rank_ends_too(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "--no-label", "--kill-grace", "100", *script(
            'if [ $RANK = 0 ]; then read go; exit 4; fi; echo $$; kill -STOP $$; sleep 100'), stdin=subprocess.PIPE)
        pid = process.stdout.readline().strip()
        self.assertTrue(wait_until(lambda: harness.state_of(pid) == "T"))
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(harness.Finished(process, 20).code, 4)

    def test_ranks_that_finish_early_do_not_end_the_job(self):
        process = start(harness.PROGRAM, "run", "-n", "3", "--no-label", *script("read go; echo done $RANK"),
                        stdin=subprocess.PIPE)  # of rank 0 only: the others read the end of nothing and finish
        self.assertEqual({process.stdout.readline() for _ in range(2)}, {"done 1\n", "done 2\n"})
        out, err = process.communicate("\n", timeout=20)
        self.assertEqual((process.returncode, out), (0, "done 0\n"), err)

    def test_interrupts_reach_the_ranks_and_the_exit_code(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number.name):
                process = start(harness.PROGRAM, "run", "-n", "2", "--no-label", "python3", "-c", (
                    "import os, signal\n"
                    f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])\n"
                    "os.write(1, b'ready\\n')\n"
                    f"signal.sigtimedwait([{int(number)}], 100)\n"
                    "os.write(1, b'caught\\n')"))
                for _ in range(2):
                    self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                done = harness.Finished(process, 10)
                self.assertEqual(done.code, 128 + number, done)
                self.assertEqual(done.lines, ["caught"] * 2, done)

    def test_a_job_is_stopped_and_continued_as_a_whole(self):
        pipes = [self.folder / f"pipe{rank}" for rank in range(2)]
        for pipe in pipes:
            os.mkfifo(pipe)
        process = start(harness.PROGRAM, "run", "-n", "2", "--no-label",
                        *script(f"echo $$; read line < {self.folder}/pipe$RANK; echo end"))
        everybody = [process.pid, *(process.stdout.readline().strip() for _ in range(2))]
        process.send_signal(signal.SIGTSTP)
        self.assertTrue(wait_until(lambda: all(harness.state_of(pid) == "T" for pid in everybody)))
        process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: all(harness.state_of(pid) != "T" for pid in everybody)))
        for pipe in pipes:
            pipe.write_text("go\n")
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (0, "end\nend\n"), err)

    def test_a_second_interrupt_does_not_wait_for_the_grace(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "--kill-grace", "100", "--no-label",
                        *script('trap "echo no" INT; echo ready; while :; do sleep 1; done'))
        for _ in range(2):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline(), "no\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(harness.Finished(process, 10).code, 130)

    def test_the_time_limit_ends_the_job_and_names_who_was_late(self):
        done = tutti("run", "-n", "3", "--timeout", "0.5", *script("[ $RANK = 1 ] || exec sleep 100"))
        self.assertEqual(done.code, 124, done)
        self.assertSays(done.err, r"did not end within 0\.5 s; still running: rank 0, 2;")

    def test_a_time_limit_below_a_millisecond_is_none_without_end(self):
        self.assertEqual(tutti("run", "-n", "1", "--timeout", "0.0001", "sleep", "100", limit=20).code, 124)

    def test_grandchildren_may_clean_up_too(self):
        may_clean_up(self, "({}) & wait")

    def test_what_a_finished_rank_left_ends_while_the_others_go_on(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "--no-label", *script(
            'if [ $RANK = 1 ]; then sleep 100 >/dev/null 2>&1 & echo $!; else read never; fi'), stdin=subprocess.PIPE)
        pid = process.stdout.readline().strip()
        self.assertTrue(wait_until(lambda: is_gone(pid), 5))
        self.assertIsNone(process.poll())
        process.communicate("\n", timeout=10)

    def test_grandchildren_end_with_the_job(self):
        ready = self.folder / "ready"
        done = tutti("run", "-n", "2", "--no-label", *script(
            'sleep 100 & echo $!; setsid sleep 100 & echo $!; (sleep 100 & echo $!); '
            f'touch {ready}$RANK; [ $RANK = 0 ] || wait; until [ -e {ready}1 ]; do sleep 0.01; done; exit 9'))
        self.assertEqual(done.code, 9, done)
        self.assertEqual(len(done.lines), 6, done)
        self.assertEqual([pid for pid in done.lines if not is_gone(pid)], [])

    def test_grandchildren_end_after_success_as_well(self):
        done = tutti("run", "-n", "2", "--no-label", *script('sleep 100 >/dev/null 2>&1 & echo $!'))
        self.assertEqual(done.code, 0, done)
        self.assertEqual([pid for pid in done.lines if not is_gone(pid)], [])

    def test_nothing_survives_a_runner_that_is_killed(self):
        process = start(harness.PROGRAM, "run", "-n", "3", "--no-label", *script('sleep 100 & echo $! $$; wait'))
        pids = [pid for _ in range(3) for pid in process.stdout.readline().split()]
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: all(is_gone(pid) for pid in pids), 5), pids)

    def test_what_the_caller_started_before_it_became_the_runner_is_not_ours_to_end(self):
        done = harness.run("bash", "-c", f'sleep 77 >/dev/null 2>&1 & echo $!; exec {harness.PROGRAM} run true')
        pid = int(done.out)
        survived = not is_gone(pid)
        if survived:
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(survived, done)
        self.assertEqual(done.code, 0, done)
        self.assertNotRegex(done.err, "tutti")

    def test_orphans_do_not_pile_up_as_zombies(self):
        go = self.folder / "go"
        process = start(harness.PROGRAM, "run", *script(
            f'(sh -c "until [ -e {go} ]; do sleep 0.01; done" & echo $!); read never'), stdin=subprocess.PIPE)
        pid = process.stdout.readline().strip()
        parent = lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        self.assertTrue(wait_until(lambda: parent() == str(process.pid)))  # it is ours now
        go.touch()
        self.assertTrue(wait_until(lambda: harness.state_of(pid) is None, 5), harness.state_of(pid))
        process.communicate("\n", timeout=10)


if __name__ == "__main__":
    harness.main()
