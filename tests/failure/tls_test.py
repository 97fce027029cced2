"""A job whose connections are encrypted: its results, what a listener gets, who disagrees, and who dies.

    tls_test.py TUTTI JOIN
"""

import os
import pathlib
import select
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
from harness import Case, Finished, free_port, start, tutti

SECRET = "what the members of this job know"
RANKS = 3


class Relay:
    """Hands on what comes between those who connect to it and `place`, and keeps it."""

    def __init__(self, place):
        host, _, port = place.rpartition(":")
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.heard = bytearray()
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.hand_on, args=(client, socket.create_connection(self.target)))
            self.threads.append(thread)
            thread.start()

    def hand_on(self, client, server):
        other = {client: server, server: client}
        with client, server:
            while True:
                for side in select.select([client, server], [], [], 30)[0]:
                    try:
                        data = side.recv(65536)
                        self.heard += data
                        if not data:
                            return
                        other[side].sendall(data)
                    except OSError:
                        return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()


class Tls(Case):
    def setUp(self):
        super().setUp()
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=10)
        super().tearDown()

    def serve(self, *words):
        server = start(harness.PROGRAM, "store", "--port", "0", *words, env={"TUTTI_SECRET": SECRET})
        self.processes.append(server)
        return server.stdout.readline().removeprefix("listening on ").strip()

    def start_rank(self, rank, rendezvous, *words, size=RANKS, **env):
        process = start(harness.JOIN, *words, env={
            "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(size), "TUTTI_RDZV": rendezvous, "TUTTI_SECRET": SECRET,
            "TUTTI_TRANSPORT": "tcp"} | env)
        self.processes.append(process)
        return process

    def test_results_are_right(self):
        for size in (0, 1000, 1000000):
            done = tutti("run", "--tls", "-n", RANKS, "--no-label", harness.JOIN, "--count", size, "--transports",
                         env={"TUTTI_TRANSPORT": "tcp"}, limit=60)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(done.lines.count("sum %d" % (6 if size else 0)), RANKS, done)
            self.assertEqual(sum("tcp" in line for line in done.lines), RANKS, done)

    def test_the_store_tells_a_listener_nothing(self):
        names = (b"/rank_info", b"token", b"pid ")
        for words, env in (((), {}), (("--tls",), {"TUTTI_TLS": "1"})):
            relay = Relay(self.serve(*words))
            try:
                ranks = [self.start_rank(rank, "store://" + relay.address, **env) for rank in range(RANKS)]
                for done in [Finished(rank, 60) for rank in ranks]:
                    self.assertEqual((done.code, done.out), (0, "sum 6\n"), done)
            finally:
                relay.close()
            seen = [name in relay.heard for name in names]
            self.assertEqual(seen, [not words] * len(names))
            self.assertGreater(len(relay.heard), 1000)

    def test_ranks_that_disagree_say_who_encrypts_and_who_does_not(self):
        ranks = [self.start_rank(rank, f"file://{self.folder}/store", size=2, TUTTI_TLS=tls)
                 for rank, tls in ((0, "0"), (1, "1"))]
        for done in [Finished(rank, 30) for rank in ranks]:
            self.assertEqual(done.code, 1, done)
            self.assertSays(done.err, "^rendezvous: rank 1 encrypts its connections and rank 0 does not: set TUTTI_TLS=1")

    def test_a_rank_and_a_store_that_disagree_name_the_variable(self):
        for words, here in (("--tls",), "0"), ((), "1"):
            done = Finished(self.start_rank(0, "store://" + self.serve(*words), TUTTI_TLS=here), 30)
            self.assertEqual(done.code, 1, done)
            self.assertSays(done.err, "^rendezvous: .*TUTTI_TLS, which is %s here" % {"0": "off", "1": "on"}[here])

    def test_without_a_secret_there_is_no_key(self):
        done = Finished(self.start_rank(0, f"file://{self.folder}/store", TUTTI_TLS="1", TUTTI_SECRET=None), 30)
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.err, "^invalid_argument: TLS .*needs a secret: .*TUTTI_SECRET")
        done = tutti("run", "--tls", "--insecure", "-n", "2", "true")
        self.assertSays(done.err, "TLS .*needs a secret")

    def test_a_rank_that_is_killed_is_named_at_once(self):
        place = "store://" + self.serve("--tls")
        ranks = [self.start_rank(rank, place, "--repeat", TUTTI_TLS="1") for rank in range(RANKS)]
        self.assertEqual([rank.stdout.readline() for rank in ranks], ["sum 6\n"] * RANKS)
        begin = time.monotonic()
        os.kill(ranks[1].pid, signal.SIGKILL)
        for done in [Finished(ranks[rank], 30) for rank in (0, 2)]:
            self.assertEqual(done.code, 1, done)
            self.assertSays(done.err, "^peer_lost: .*rank 1 ")
        # At once, and not only when a silence (10 s) or the deadline (20 s) is over. The fault matrix times it.
        self.assertLess(time.monotonic() - begin, 9)

    def test_several_nodes(self):
        port = free_port()
        nodes = [start(harness.PROGRAM, "run", "--tls", "-n", "2", "--nnodes", "2", "--node-rank", node, "--no-label",
                       "--rdzv-endpoint", f"127.0.0.1:{port}", harness.JOIN,
                       env={"TUTTI_TRANSPORT": "tcp", "TUTTI_SECRET": SECRET}) for node in range(2)]
        for done in [Finished(node, 60) for node in nodes]:
            self.assertEqual((done.code, done.lines), (0, ["sum 10"] * 2), done)


if __name__ == "__main__":
    harness.main()
