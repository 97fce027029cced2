"""Ranks that share memory need no TCP: they listen on no port and connect to nobody but the store. Others do.

    ports_test.py TUTTI JOIN
"""

import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
import sockets
from harness import Case, Finished, start

RANKS = 4


def environment_of(pid):
    pairs = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


class Ports(Case):
    def setUp(self):
        super().setUp()
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=20)
        super().tearDown()

    def start(self, *words, **variables):
        self.processes.append(start(*words, env=variables))
        return self.processes[-1]

    def run_job(self, *options, word="--repeat", **variables):
        """Returns the launcher once every rank has made an all_reduce, and the ranks' processes by rank."""
        job = self.start(harness.PROGRAM, "run", "-n", RANKS, *options, harness.JOIN, word, **variables)
        heard = set()
        while len(heard) < RANKS:
            line = job.stdout.readline()
            self.assertRegex(line, r"\[\d\] sum 10", job.stderr.read() if not line else "")
            heard.add(line)
        ranks = {int(environment_of(pid)["TUTTI_RANK"]): pid for pid in harness.processes_with(self.mark)
                 if "TUTTI_RANK" in environment_of(pid)}
        self.assertEqual(sorted(ranks), list(range(RANKS)))
        return job, ranks

    def assertNoTcp(self, ranks):
        """But the connection to the store."""
        for rank, pid in ranks.items():
            self.assertEqual(sockets.tcp_listeners(pid), [], rank)
            store = environment_of(pid)["TUTTI_RDZV"].removeprefix("store://")
            self.assertEqual([other for _, other in sockets.tcp_sockets(pid, sockets.CONNECTED)], [store], rank)
            self.assertEqual(len(sockets.unix_listeners(pid)), 2, rank)  # of shared memory, and the acceptor's

    def assertTcp(self, ranks):
        for rank, pid in ranks.items():
            self.assertEqual(len(sockets.tcp_listeners(pid)), 1, rank)
        # Each connects at least to the coordinator.
        self.assertGreaterEqual(len(sockets.tcp_sockets(ranks[0], sockets.CONNECTED)), RANKS)

    def test_ranks_that_share_memory_listen_on_no_port(self):
        for options, variables in (((), {}), ((), {"TUTTI_TRANSPORT": "shm"}), (("--tls",), {})):
            with self.subTest(options=options, variables=variables):
                job, ranks = self.run_job(*options, **variables)
                self.assertNoTcp(ranks)
                job.terminate()
                job.communicate(timeout=20)

    def test_ranks_that_do_not_share_memory_listen_on_one_port_each(self):
        refused = ("--inject", "refuse:rank=2,call=memfd,errno=EMFILE")
        for options, variables in (((), {"TUTTI_TRANSPORT": "tcp"}), (refused, {})):
            with self.subTest(options=options, variables=variables):
                job, ranks = self.run_job(*options, **variables)
                self.assertTcp(ranks)
                self.assertEqual(sockets.unix_listeners(ranks[2]), [])
                job.terminate()
                job.communicate(timeout=20)

    def test_a_rank_whose_memory_was_offered_but_fails_brings_all_back_to_tcp(self):
        # Rank 1 makes a ring when it starts and one for the probe, and cannot map the one that rank 0 hands to it.
        job, ranks = self.run_job("--inject", "refuse:rank=1,call=mmap,errno=EMFILE,nth=3")
        self.assertTcp(ranks)
        job.terminate()
        _, said = job.communicate(timeout=20)
        self.assertSays(said, r"shared memory is not used on host .*: rank \d: ")

    def test_ranks_that_meet_in_a_file_have_no_tcp_socket_at_all(self):
        for rank in range(RANKS):
            self.start(harness.JOIN, "--repeat", TUTTI_RANK=str(rank), TUTTI_SIZE=str(RANKS),
                       TUTTI_RDZV=f"file://{self.folder}/meeting")
        for process in self.processes:
            self.assertRegex(process.stdout.readline(), "sum 10")
            for state in range(1, 12):
                self.assertEqual(sockets.tcp_sockets(process.pid, f"{state:02X}"), [])

    def test_the_survivors_of_a_coordinator_that_is_killed_or_stopped_find_each_other(self):
        for end in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(end=end):
                job, ranks = self.run_job("--max-lost", "1", word="--shrink", TUTTI_LOST_AFTER="2")
                self.assertNoTcp(ranks)
                os.kill(ranks[0], end)
                for rank in range(1, RANKS):
                    self.assertTrue(harness.wait_until(lambda pid=ranks[rank]: harness.is_gone(pid)), rank)
                if end == signal.SIGSTOP:
                    os.kill(ranks[0], signal.SIGKILL)
                done = Finished(job, 30)
                self.assertEqual(sorted(line for line in done.lines if "survivors" in line),
                                 [f"[{rank}] survivors {RANKS - 1}" for rank in range(1, RANKS)], done)


def main():
    harness.PROGRAM, harness.JOIN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    sys.argv[1:3] = []
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
