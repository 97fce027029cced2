"""tutti run --max-restarts: who is started again, how often, with what, and what puts an end to it."""

import fcntl
import os
import pty
import re
import signal
import termios

import harness
from harness import Case, free_port, is_gone, script, start, tutti, wait_until


def restart_lines(done):
    return re.findall(r"^tutti: (starting all ranks again after .*)$", done.err, re.M)


class OneNode(Case):
    def test_all_ranks_are_started_again_until_they_end_well(self):
        done = tutti("run", "-n", "2", "--max-restarts", "5", "--no-label", *script(
            'echo $RANK $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS;'
            '[ $TORCHELASTIC_RESTART_COUNT = 2 ] || { [ $RANK = 0 ] || exec sleep 100; exit 3; }'))
        self.assertEqual(done.code, 0, done)
        # Rank 1 may be ended before it writes, but not in the last attempt.
        self.assertEqual([line for line in done.lines if line[0] == "0"], [f"0 {count} 5" for count in range(3)])
        self.assertIn("1 2 5", done.lines)
        lines = restart_lines(done)
        self.assertEqual(len(lines), 2, done)
        for i, line in enumerate(lines):
            self.assertRegex(line, rf"rank 0 \(host .*, pid \d+\) exited with code 3: restart {i + 1} of 5, {4 - i} left$")

    def test_when_none_is_left_the_last_failure_is_the_end(self):
        done = tutti("run", "-n", "2", "--max_restarts=2", *script('exit $((10 + TORCHELASTIC_RESTART_COUNT))'))
        self.assertEqual(done.code, 12, done)
        self.assertEqual(len(restart_lines(done)), 2, done)
        done = tutti("run", "-n", "2", *script("exit 9"))
        self.assertEqual((done.code, restart_lines(done)), (9, []), done)

    def test_ranks_that_meet_and_lose_one_meet_again(self):
        done = tutti("run", "-n", "3", "--max-restarts", "1", *script(
            f'[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec {harness.JOIN};'
            f'[ $RANK = 1 ] && TUTTI_INJECT=kill:rank=1,op=1; export TUTTI_INJECT; exec {harness.JOIN} --repeat'))
        self.assertEqual((done.code, sorted(done.lines)[-3:]), (0, [f"[{r}] sum 6" for r in range(3)]), done)
        self.assertSays(done.err, r"again after rank 1 \(host .*\) was killed by SIGKILL: restart 1 of 1, 0 left")

    def test_the_store_holds_nothing_of_the_attempt_before(self):
        done = tutti("run", "-n", "1", "--max-restarts", "1", *script(
            f'{harness.PROGRAM} store add n 1; exit $((1 - TORCHELASTIC_RESTART_COUNT))'))
        self.assertEqual((done.code, done.lines), (0, ["1", "1"]), done)

    def test_nothing_of_an_attempt_is_left_when_the_next_begins(self):
        pid_file = self.folder / "pid"
        done = tutti("run", "-n", "1", "--max-restarts", "1", *script(
            f'if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then setsid sleep 100 & echo $! > {pid_file}; exit 1; fi;'
            f'kill -0 $(cat {pid_file}) 2>/dev/null && echo alive || echo gone'))
        self.assertEqual((done.code, done.lines), (0, ["gone"]), done)

    def test_logs_keep_what_every_attempt_wrote(self):
        for _ in range(2):  # of this run only
            done = tutti("run", "-n", "1", "--max-restarts", "1", "--log-dir", self.folder, *script(
                'echo $TORCHELASTIC_RESTART_COUNT; exit $((1 - TORCHELASTIC_RESTART_COUNT))'))
            self.assertEqual((done.code, (self.folder / "rank-0.log").read_text()), (0, "0\n1\n"), done)

    def test_a_trace_has_the_calls_of_every_attempt(self):
        trace = self.folder / "t.json"
        done = tutti("run", "-n", "2", "--max-restarts", "1", "--trace", trace, *script(
            f'{harness.JOIN} && exit $((1 - TORCHELASTIC_RESTART_COUNT))'))
        self.assertEqual(done.code, 0, done)
        self.assertSays(tutti("trace", trace).out, r"(?m)^all_reduce +\S+ +2 +4000 +2 ")

    def test_what_no_restart_can_help_is_not_tried_again(self):
        for words, code in ((["no-such-program"], 127), ([self.folder], 126)):
            done = tutti("run", "--max-restarts", "3", *words)
            self.assertEqual((done.code, restart_lines(done)), (code, []), done)
        self.assertSays(tutti("run", "--max-restarts", "many", "true").err, "--max-restarts takes a whole number")

    def test_the_time_limit_is_that_of_all_attempts(self):
        done = tutti("run", "--max-restarts", "1000000", "--timeout", "1", *script("exit 1"))
        self.assertEqual(done.code, 124, done)
        self.assertSays(done.err, "did not end within 1 s")
        self.assertGreater(len(restart_lines(done)), 1, done)

    def test_who_interrupts_means_the_job_not_the_attempt(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "--max-restarts", "9", *script("echo x; exec sleep 100"))
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        done = harness.Finished(process, 10)
        self.assertEqual((done.code, restart_lines(done)), (130, []), done)

    def test_also_while_the_ranks_of_a_failed_attempt_end(self):
        ready = self.folder / "ready"
        process = start(harness.PROGRAM, "run", "-n", "2", "--max-restarts", "9", "--kill-grace", "100", "--no-label", *script(
            f'if [ $RANK = 0 ]; then until [ -e {ready} ]; do sleep 0.01; done; exit 5; fi;'
            f'trap "echo ending" TERM; trap "exit 0" INT; touch {ready}; while :; do sleep 0.05; done'))
        self.assertEqual(process.stdout.readline(), "ending\n")
        process.send_signal(signal.SIGINT)
        done = harness.Finished(process, 10)
        self.assertEqual((done.code, restart_lines(done)), (130, []), done)

    def test_rank_0_reads_the_terminal_again(self):
        master, terminal = pty.openpty()
        process = start(harness.PROGRAM, "run", "--max-restarts", "1", *script(
            'echo ready; read line; echo got $line; exit $((1 - TORCHELASTIC_RESTART_COUNT))'), stdin=terminal,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        for word in (b"one\n", b"two\n"):
            self.assertEqual(process.stdout.readline(), "ready\n")
            os.write(master, word)
            self.assertEqual(process.stdout.readline(), f"got {word.decode()}")
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, (out, err))
        os.close(master)
        os.close(terminal)

    def test_a_killed_runner_leaves_nothing_of_a_later_attempt_either(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "--max-restarts", "1", "--no-label", *script(
            '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; sleep 100 & echo $! $$; wait'))
        pids = [pid for _ in range(2) for pid in process.stdout.readline().split()]
        process.kill()
        process.communicate()
        self.assertTrue(wait_until(lambda: all(is_gone(pid) for pid in pids), 5), pids)


class Lost(Case):
    """tutti run --max-lost: the others may go on."""

    def test_as_many_as_allowed_may_fail_and_the_rest_decide(self):
        ready = self.folder / "ready"
        done = tutti("run", "-n", "4", "--max-lost", "2", *script(
            f'case $RANK in 1) exit 3;; 2) until [ -e {ready} ]; do sleep 0.01; done; kill -9 $$;; esac;'
            f'touch {ready}; echo well'))
        self.assertEqual((done.code, sorted(done.lines)), (0, ["[0] well", "[3] well"]), done)
        self.assertSays(done.err, r"rank 1 \(.*\) exited with code 3", r"rank 2 \(.*\) was killed by SIGKILL")

    def test_one_more_is_the_end_of_the_attempt(self):
        text = '[ $RANK = 0 ] && exec sleep 100; exit $((10 + RANK))'
        done = tutti("run", "-n", "4", "--max-lost", "2", *script(text))
        self.assertIn(done.code, (11, 12, 13), done)
        self.assertSays(done.err, r"ending the ranks on .*: rank \d .*, one more than the 2 that may be lost")
        done = tutti("run", "-n", "4", "--max-lost", "2", "--max-restarts", "1", *script(
            f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec {harness.JOIN}; {text}"))
        self.assertEqual((done.code, sorted(done.lines)), (0, [f"[{r}] sum 10" for r in range(4)]), done)
        self.assertEqual(len(restart_lines(done)), 1, done)

    def test_all_can_not_be_lost(self):
        self.assertSays(tutti("run", "-n", "4", "--max-lost", "4", "true").err, "--max-lost takes .* 0 to 3")


class SeveralNodes(Case):
    def setUp(self):
        super().setUp()
        self.endpoint = f"127.0.0.1:{free_port()}"

    def start_node(self, node, text, *more, restarts=3, nodes=2):
        return start(harness.PROGRAM, "run", "-n", "2", "--nnodes", nodes, "--node-rank", node, "--rdzv-endpoint",
                     self.endpoint, "--max-restarts", restarts, *more, "--no-label", *script(text))

    def finish(self, *processes):
        return [harness.Finished(process, 40) for process in processes]

    def test_a_failure_on_any_node_starts_all_ranks_again(self):
        # One failure on each node, in attempts of their own; in the third all meet.
        text = (f'[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exec {harness.JOIN};'
                '[ $RANK = $((1 + 2 * TORCHELASTIC_RESTART_COUNT)) ] && exit 4; exec sleep 100')
        nodes = self.finish(*(self.start_node(node, text) for node in range(2)))
        for node in nodes:
            self.assertEqual((node.code, node.lines), (0, ["sum 10"] * 2), node)
            self.assertEqual(len(restart_lines(node)), 2, node)
            for i, line in enumerate(restart_lines(node)):
                self.assertSays(line, rf"rank {1 + 2 * i} \(host .*\) exited with code 4: restart {i + 1} of 3, {2 - i} left")

    def test_ranks_that_had_ended_well_are_started_again_with_the_others(self):
        text = '[ $RANK = 3 ] || { echo $RANK >> %s/ended; exit 0; };' % self.folder
        text += ('[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0;'
                 f'until [ "$(cat {self.folder}/ended | wc -l)" = 3 ]; do sleep 0.01; done; exit 4')
        nodes = self.finish(*(self.start_node(node, text) for node in range(2)))
        self.assertEqual([node.code for node in nodes], [0, 0], nodes)
        self.assertEqual(sorted((self.folder / "ended").read_text().split()), list("001122"))

    def test_when_none_is_left_all_nodes_end_with_the_last_failure(self):
        text = '[ $RANK = 2 ] && exit $((10 + TORCHELASTIC_RESTART_COUNT)); exec sleep 100'
        nodes = self.finish(*(self.start_node(node, text, restarts=2) for node in range(2)))
        self.assertEqual([node.code for node in nodes], [12, 12], nodes)
        self.assertEqual([len(restart_lines(node)) for node in nodes], [2, 2], nodes)

    def test_an_interrupt_between_two_attempts_ends_all_nodes(self):
        ready = self.folder / "ready"
        stubborn = (f'[ $RANK = 2 ] && exit 5; [ $RANK = 3 ] || exec sleep 100;'
                    f'trap "echo ending" TERM; trap "exit 0" INT; touch {ready}; while :; do sleep 0.05; done')
        first = self.start_node(0, stubborn)
        second = self.start_node(1, f"until [ $RANK = 3 ] || [ -e {ready} ]; do sleep 0.01; done; {stubborn}")
        self.assertEqual(second.stdout.readline(), "ending\n")  # while the other node may have begun again
        second.send_signal(signal.SIGINT)
        first, second = self.finish(first, second)
        self.assertEqual((first.code, second.code), (130, 130), (first, second))
        self.assertSays(first.err, "on node 1 tutti run received SIGINT")

    def test_ranks_may_be_lost_on_all_nodes_together(self):
        for lost, code in ((2, 0), (1, 7)):
            with self.subTest(lost=lost):
                text = f'case $RANK in 1|2) exit 7;; esac; [ {lost} = 2 ] || exec sleep 100'  # one on each node
                nodes = self.finish(*(self.start_node(node, text, "--max-lost", lost, restarts=0) for node in range(2)))
                self.assertEqual([node.code for node in nodes], [code, code], nodes)
                for node, rank in zip(nodes, (1, 2)):
                    self.assertSays(node.err, rf"rank {rank} \(.*\) exited with code 7")

    def test_a_lost_runner_is_the_end_whatever_is_left(self):
        first, second = (self.start_node(node, 'echo x; exec sleep 100') for node in range(2))
        second.stdout.readline()
        first.stdout.readline()
        first.kill()
        first, second = self.finish(first, second)
        self.assertEqual((second.code, restart_lines(second)), (1, []), second)
        self.assertSays(second.err, "the store of the job is gone")

    def test_nodes_that_disagree_on_how_often_are_told(self):
        first, second = self.finish(self.start_node(0, "exec sleep 100"), self.start_node(1, "exec sleep 100", restarts=2))
        self.assertEqual((first.code, second.code), (6, 6), (first, second))
        self.assertSays(second.err, "up to 2 restarts, node 0 .* up to 3 restarts; give the same .*--max-restarts")


if __name__ == "__main__":
    harness.main()
