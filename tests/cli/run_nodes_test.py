"""tutti run on several nodes, here all on one host: numbering, one end for all, whoever dies."""

import contextlib
import itertools
import re
import signal
import socket
import threading
import time

import harness
from harness import Case, free_port, script, sockets_of, start, stop_process, wait_until


class Relay:
    """A network on which one connection, by number, is slow to be made."""

    def __init__(self, endpoint, slow, delay):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.target, self.slow, self.delay = endpoint.rsplit(":", 1), slow, delay

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            for number in itertools.count():
                here, _ = self.listener.accept()
                threading.Thread(target=self.connect, args=(here, self.delay if number == self.slow else 0), daemon=True).start()

    def connect(self, here, delay):
        time.sleep(delay)
        while True:
            try:
                there = socket.create_connection(self.target)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        with here, there:
            back = threading.Thread(target=self.pass_on, args=(there, here), daemon=True)
            back.start()
            self.pass_on(here, there)
            back.join()

    def pass_on(self, a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)


class SeveralNodes(Case):
    def setUp(self):
        super().setUp()
        self.endpoint = f"127.0.0.1:{free_port()}"

    def start_node(self, node, *program, nodes=2, ranks=2):
        return start(harness.PROGRAM, "run", "-n", ranks, "--nnodes", nodes, "--node-rank", node,
                     "--rdzv-endpoint", self.endpoint, *program)

    def finish(self, *processes):
        return [harness.Finished(process, 30) for process in processes]

    def test_ranks_are_numbered_over_all_nodes(self):
        tell = script('echo "$TUTTI_RANK/$TUTTI_SIZE/$TUTTI_LOCAL_RANK $GROUP_RANK $TUTTI_RDZV $TUTTI_JOB"')
        late, early = self.finish(self.start_node(1, *tell), self.start_node(0, *tell))  # either may come first
        self.assertEqual((early.code, late.code), (0, 0), (early, late))
        self.assertEqual(sorted(early.lines + late.lines),
                         [f"[{r}] {r}/4/{r % 2} {r // 2} store://{self.endpoint} job" for r in range(4)])

    def test_ranks_inherit_none_of_the_runners_connections(self):
        done = self.finish(*(self.start_node(node, *script("ls -l /proc/self/fd")) for node in range(2)))
        for one in done:
            self.assertEqual(set(re.findall(r" (\d+) -> (?!/proc|/memfd:tutti-blackbox )", one.out)), {"0", "1", "2"}, one)

    def test_node_0_stays_until_all_nodes_are_done(self):
        ready = self.folder / "ready"
        first = self.start_node(0, *script(f"touch {ready}$RANK"))
        second = self.start_node(1, *script(f"until [ -e {ready}0 ] && [ -e {ready}1 ]; do sleep 0.01; done"))
        first, second = self.finish(first, second)  # the store would be gone, and that an error, if node 0 left first
        self.assertEqual((first.code, second.code), (0, 0), (first, second))

    def test_the_next_job_at_an_endpoint_waits_until_the_last_has_gone(self):
        print_much = script("head -c 200000 /dev/zero | tr '\\\\0' x")  # more than the pipe takes that nobody reads yet
        first, second = self.start_node(0, *print_much, ranks=1), self.start_node(1, "true", ranks=1)
        second = self.finish(second)[0]
        successor = self.start_node(1, "true", ranks=1)
        self.assertTrue(wait_until(lambda: successor.poll() is not None or sockets_of(successor.pid)))
        first, = self.finish(first)
        next_first, successor = self.finish(self.start_node(0, "true", ranks=1), successor)
        self.assertEqual([done.code for done in (first, second, next_first, successor)], [0] * 4,
                         (first, second, next_first, successor))

    def test_a_failure_on_one_node_ends_all_with_its_code(self):
        for culprit in range(3):
            with self.subTest(culprit=culprit):
                ready = self.folder / f"ready{culprit}"
                ready.mkdir()
                nodes = [self.start_node(node, *script(
                    f'touch {ready}/$RANK; [ $RANK = {2 * culprit + 1} ] || exec sleep 100;'
                    f'until [ "$(ls {ready} | wc -l)" = 6 ]; do sleep 0.01; done; exit 7'), nodes=3)
                    for node in range(3)]
                done = self.finish(*nodes)
                self.assertEqual([d.code for d in done], [7, 7, 7], done)
                self.assertSays(done[culprit].err, rf"^tutti: rank {2 * culprit + 1} \(host .* exited with code 7")
                for other in {0, 1, 2} - {culprit}:
                    self.assertSays(done[other].err, rf"on node {culprit} rank {2 * culprit + 1} .* exited with code 7")

    def test_a_timeout_says_that_ranks_of_other_nodes_run(self):
        first, second = self.start_node(0, "--timeout", "3", "true"), self.start_node(1, "sleep", "100")
        first, second = self.finish(first, second)
        self.assertEqual((first.code, second.code), (124, 124), (first, second))
        self.assertSays(first.err, "did not end within 3 s; still running: ranks of other nodes; ending all")

    def test_an_interrupt_of_one_runner_ends_all(self):
        ready = self.folder / "ready"
        first = self.start_node(0, "sleep", "100")
        second = self.start_node(1, *script(f"touch {ready}; exec sleep 100"))
        self.assertTrue(wait_until(ready.exists))
        second.send_signal(signal.SIGTERM)
        first, second = self.finish(first, second)
        self.assertEqual((first.code, second.code), (143, 143), (first, second))
        self.assertSays(first.err, "on node 1 tutti run received SIGTERM")

    def test_the_others_end_when_the_runner_of_node_0_is_killed(self):
        ready = self.folder / "ready"
        first = self.start_node(0, "sleep", "100")
        second = self.start_node(1, *script(f"touch {ready}; exec sleep 100"))
        self.assertTrue(wait_until(ready.exists))
        first.kill()
        first, second = self.finish(first, second)
        self.assertEqual(second.code, 1, second)
        self.assertSays(second.err, "the store of the job is gone")

    def test_the_others_end_when_any_runner_falls_silent(self):
        ready = self.folder / "ready"
        first, second = (self.start_node(node, "sleep", "100", nodes=3) for node in range(2))
        third = self.start_node(2, *script(f"touch {ready}; exec sleep 100"), nodes=3)
        self.assertTrue(wait_until(ready.exists))
        third.kill()
        for done in self.finish(first, second, third)[:2]:  # who is alive goes on showing it, or node 1 would be named
            self.assertEqual(done.code, 1, done)
            self.assertSays(done.err, "on node 2 tutti run has not been heard of for 15 s")

    def test_a_pause_of_node_0_is_not_the_end(self):
        go = self.folder / "go"
        program = script(f"touch {self.folder}/ready$RANK; until [ -e {go} ]; do sleep 0.05; done")
        first, second = (self.start_node(node, *program, ranks=1) for node in range(2))
        self.assertTrue(wait_until(lambda: all((self.folder / f"ready{rank}").exists() for rank in range(2))))
        before = sockets_of(second.pid)
        stop_process(first.pid)
        # Its answer to the heartbeat missed, the runner has given up its connection and made another.
        self.assertTrue(wait_until(lambda: sockets_of(second.pid) - before, 12))
        first.send_signal(signal.SIGCONT)
        go.touch()
        first, second = self.finish(first, second)
        self.assertEqual((first.code, second.code), (0, 0), (first, second))

    def test_two_ranks_that_end_in_a_pause_of_node_0_are_both_only_lost(self):
        lose, go = self.folder / "lose", self.folder / "go"
        program = script(f"touch {self.folder}/ready$RANK; case $RANK in 3|4) name={lose};; *) name={go};; esac;"
                         f"until [ -e $name ]; do sleep 0.05; done; [ $name = {go} ]")
        first, second = (self.start_node(node, "--max-lost", "2", *program, ranks=3) for node in range(2))
        self.assertTrue(wait_until(lambda: all((self.folder / f"ready{rank}").exists() for rank in range(6))))
        before = sockets_of(second.pid)
        stop_process(first.pid)
        lose.touch()
        # The runner has given up the connection over which it wanted to tell of the first one.
        self.assertTrue(wait_until(lambda: not before & sockets_of(second.pid), 12))
        first.send_signal(signal.SIGCONT)
        go.touch()
        first, second = self.finish(first, second)
        self.assertEqual((first.code, second.code), (0, 0), (first, second))

    def start_and_stop_node_0(self):
        ready = self.folder / "ready"
        first = self.start_node(0, "sleep", "100")
        second = self.start_node(1, *script(f"touch {ready}; exec sleep 100"))
        self.assertTrue(wait_until(ready.exists))
        stop_process(first.pid)
        return first, second

    def end_node_0(self, first):
        first.kill()
        first.send_signal(signal.SIGCONT)
        self.finish(first)

    def test_a_runner_can_be_ended_while_node_0_does_not_answer(self):
        first, second = self.start_and_stop_node_0()
        second.send_signal(signal.SIGTERM)
        done = harness.Finished(second, 15)
        self.end_node_0(first)
        self.assertEqual(done.code, 143, done)

    def test_who_interrupts_again_does_not_wait_for_node_0(self):
        first, second = self.start_and_stop_node_0()
        self.assertTrue(wait_until(lambda: second.poll() is not None or second.send_signal(signal.SIGINT), 15))
        self.end_node_0(first)
        done = harness.Finished(second, 1)
        self.assertEqual(done.code, -signal.SIGINT, done)  # while it ended

    def test_nodes_that_disagree_are_told(self):
        first, other = self.finish(self.start_node(0, "sleep", "100"), self.start_node(1, "sleep", "100", ranks=3))
        self.assertEqual((first.code, other.code), (6, 6), (first, other))
        self.assertSays(other.err, "this node was told 2 nodes with 3 ranks each, node 0 2 nodes with 2 ranks each; give")
        self.assertSays(first.err, "on node 1 this node was told 2 nodes with 3 ranks each")

    def test_one_place_cannot_be_taken_twice(self):
        first, second = self.start_node(0, "sleep", "100", nodes=3), self.start_node(1, "sleep", "100", nodes=3)
        third = self.start_node(1, "sleep", "100", nodes=3)
        wait_until(lambda: second.poll() is not None or third.poll() is not None)
        loser, winner = (second, third) if second.poll() is not None else (third, second)
        loser = self.finish(loser)[0]
        self.assertEqual(loser.code, 6, loser)
        self.assertSays(loser.err, r"--node-rank 1 is taken by another tutti run \(host .*, pid \d+\)")
        winner.terminate()
        self.finish(winner, first)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as holder:
            host, port = self.endpoint.split(":")
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # with free_port()
            holder.bind((host, int(port)))
            holder.listen()
            done = self.finish(self.start_node(0, "true"))[0]
            self.assertNotEqual(done.code, 0, done)
            self.assertSays(done.err, port)

    def test_a_runner_without_node_0_gives_up_in_time(self):
        process = start(harness.PROGRAM, "run", "--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", self.endpoint,
                        "true", env={"TUTTI_TIMEOUT": "1"})
        done = harness.Finished(process, 10)
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, re.escape(self.endpoint))

    def test_a_node_that_never_comes_is_missed_in_time(self):
        words = lambda node: (harness.PROGRAM, "run", "--nnodes", "3", "--node-rank", node, "--rdzv-endpoint", self.endpoint,
                              "true")
        nodes = [start(*words(node), env={"TUTTI_TIMEOUT": "2"}) for node in (0, 2)]
        for done in self.finish(*nodes):
            self.assertEqual(done.code, 3, done)
            self.assertSays(done.err, r"on node 1 tutti run has not come within 2 s \(TUTTI_TIMEOUT\); start it .* --node-rank 1")

    def test_a_slow_first_connection_of_the_watcher_is_no_failure(self):
        secret = {"TUTTI_SECRET": "a secret for these tests"}
        words = lambda node, endpoint: (harness.PROGRAM, "run", "--nnodes", "2", "--node-rank", node, "--rdzv-endpoint", endpoint,
                                        "true")
        third = 2  # after those that waits for node 0 and that tells it what happens here
        with Relay(self.endpoint, slow=third, delay=1.5) as relay:
            first, second = self.finish(start(*words(0, self.endpoint), env=secret), start(*words(1, relay.endpoint), env=secret))
        self.assertEqual((first.code, second.code), (0, 0), (first, second))

    def test_node_0_waits_until_its_name_is_known_as_the_others_do(self):
        process = start(harness.PROGRAM, "run", "--nnodes", "2", "--rdzv-endpoint", "nobody.invalid:1", "true",
                        env={"TUTTI_TIMEOUT": "4"})
        done = harness.Finished(process, 20)
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, "cannot resolve the name nobody.invalid|did not answer for nobody.invalid")
        self.assertGreater(done.seconds, 3.5, done)

    def test_a_runner_that_waits_for_node_0_can_be_interrupted(self):
        process = self.start_node(1, "true")
        self.assertTrue(wait_until(lambda: harness.state_of(process.pid) == "S"))  # between two tries
        process.send_signal(signal.SIGINT)
        done = harness.Finished(process, 2)
        self.assertEqual(done.code, -signal.SIGINT, done)


if __name__ == "__main__":
    harness.main()
