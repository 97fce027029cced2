"""Ranks that meet where something is amiss: loopback is down, a variable names a network that is not there, a process is
killed before all have met, or strangers are at the store that a rank serves.

    rendezvous_test.py TUTTI JOIN
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
import members
from harness import Case, Finished, free_port, run, start, tutti, wait_until


def may_unshare():
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


class Network(Case):
    """In a network namespace of their own, as sandboxes and some containers have it."""

    def within(self, loopback, *words, **variables):
        up = "ip link set lo up && " if loopback else ""
        return run("unshare", "-rn", "sh", "-c", up + 'exec "$@"', "sh", *words,
                   env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "TUTTI_TIMEOUT": "60"} | variables)

    @unittest.skipUnless(may_unshare(), "cannot make a network namespace")
    def test_loopback_that_is_down_is_an_error_at_once_that_says_how_to_bring_it_up(self):
        for transport in (None, "shm"):
            done = self.within(False, harness.PROGRAM, "run", "-n", "2", harness.JOIN, TUTTI_TRANSPORT=transport)
            self.assertNotEqual(done.code, 0, done)
            self.assertSays(done.err, r"cannot reach the store at .*loopback interface of this host is down.*ip link set lo up")

    @unittest.skipUnless(may_unshare(), "cannot make a network namespace")
    def test_variables_that_other_libraries_read_do_not_stop_a_job_of_one_host(self):
        for transport, variable, names in ((None, "NCCL_SOCKET_IFNAME", "^lo,docker"), ("shm", "GLOO_SOCKET_IFNAME", "eth7"),
                                           ("tcp", "NCCL_SOCKET_IFNAME", "eth7")):
            done = self.within(True, harness.PROGRAM, "run", "-n", "2", harness.JOIN,
                               **{"TUTTI_TRANSPORT": transport, variable: names})
            self.assertEqual((done.code, sorted(done.lines)), (0, ["[0] sum 3", "[1] sum 3"]), done)
            self.assertEqual(done.err.count(f"{variable}={names} matches no network interface and is ignored"), 1, done)
        done = self.within(True, harness.PROGRAM, "run", "-n", "2", harness.JOIN, TUTTI_SOCKET_IFNAME="^lo")
        self.assertSays(done.err, r"no network interface matches TUTTI_SOCKET_IFNAME=\^lo. This host has: lo 127.0.0.1")


class Killed(Case):
    """Three ranks started by hand, of which one is killed before all have met."""

    def setUp(self):
        super().setUp()
        self.port = free_port()

    def rank(self, rank, scheme):
        return start(harness.JOIN, env={"TUTTI_RANK": str(rank), "TUTTI_SIZE": "3", "TUTTI_TIMEOUT": "60",
                                        "TUTTI_RDZV": f"{scheme}://127.0.0.1:{self.port}"})

    def has_published(self, *ranks):
        done = tutti("store", "wait", *(f"tutti/0/rank_info/{rank}" for rank in ranks), "--rdzv", f"127.0.0.1:{self.port}")
        self.assertEqual(done.code, 0, done)

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.communicate()

    @contextlib.contextmanager
    def store(self, scheme):
        """Somebody who serves, unless rank 0 does."""
        if scheme == "tcp":
            yield
            return
        server = start(harness.PROGRAM, "store", "--port", str(self.port))
        try:
            self.assertIn("listening", server.stdout.readline())
            yield
        finally:
            server.terminate()
            server.communicate(timeout=10)

    def test_the_next_process_with_its_rank_takes_its_place(self):
        for scheme, victim in (("tcp", 1), ("store", 1), ("store", 0)):
            self.port = free_port()
            with self.subTest(scheme=scheme, victim=victim), self.store(scheme):
                ranks = [self.rank(rank, scheme) for rank in (0, 1)]
                self.has_published(0, 1)
                self.kill(ranks[victim])
                ranks[victim] = self.rank(victim, scheme)
                ranks.append(self.rank(2, scheme))
                done = [Finished(rank, 40) for rank in ranks]
                self.assertEqual([(one.code, one.lines) for one in done], [(0, ["sum 6"])] * 3, done)

    def test_without_rank_0_that_serves_all_end_at_once(self):
        ranks = [self.rank(rank, "tcp") for rank in (0, 1)]
        self.has_published(0, 1)
        self.kill(ranks[0])
        done = Finished(ranks[1], 40)
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, "closed the connection")


class Mended(Case):
    """A rank fails before it meets the other one, and is started again in the way that its error says."""

    def rank(self, rank, **variables):
        return start(harness.JOIN, env={"TUTTI_RANK": str(rank), "TUTTI_SIZE": "2", "TUTTI_TIMEOUT": "10",
                                        "TUTTI_RDZV": f"file://{self.folder}/store"} | variables)

    def test_in_a_file_its_place_is_free(self):
        first = self.rank(0)
        self.assertTrue(wait_until((self.folder / "store").exists))
        wrong = Finished(self.rank(1, TUTTI_SOCKET_IFNAME="=nosuch0"), 40)
        self.assertEqual(wrong.code, 1, wrong)
        self.assertSays(wrong.err, "no network interface matches TUTTI_SOCKET_IFNAME")
        done = [Finished(rank, 40) for rank in (first, self.rank(1))]
        self.assertEqual([(one.code, one.lines) for one in done], [(0, ["sum 3"])] * 2, done)


class BesideShells(Case):
    """Two ranks of one job on one host, each started by a shell that the launcher has started."""

    def test_whichever_variables_number_the_ranks_they_meet(self):
        for number in ("PMI_RANK", "PALS_RANKID"):
            with self.subTest(number=number):
                ranks = [start("sh", "-c", '"$0"; exit $?', harness.JOIN, env={
                    number: str(rank), "PMI_SIZE": "2", "MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": "2",
                    "XDG_RUNTIME_DIR": str(self.folder), "TUTTI_TIMEOUT": "10"}) for rank in range(2)]
                done = [Finished(rank, 40) for rank in ranks]
                self.assertEqual([(one.code, one.lines) for one in done], [(0, ["sum 3"])] * 2, done)


class Besieged(Case):
    """Two ranks with a secret, of which the first serves the store and may have few descriptors."""

    DESCRIPTORS = 128

    def rank(self, rank, *words):
        return start(*words, harness.JOIN, env=self.environment | {"TUTTI_RANK": str(rank), "TUTTI_SIZE": "2"})

    def test_strangers_at_the_store_leave_rank_0_the_descriptors_that_it_needs(self):
        place = f"127.0.0.1:{free_port()}"
        self.environment = {"TUTTI_RDZV": f"tcp://{place}", "TUTTI_SECRET": "known to members only",
                            "TUTTI_TIMEOUT": "60", "TUTTI_TRANSPORT": "tcp"}
        ranks = [self.rank(0, "sh", "-c", f'ulimit -n {self.DESCRIPTORS}; exec "$@"', "sh")]
        done = tutti("store", "wait", "tutti/0/rank_info/0", "--rdzv", place, env=self.environment)
        self.assertEqual(done.code, 0, done)
        with contextlib.ExitStack() as strangers:
            for _ in range(self.DESCRIPTORS + 20):
                stranger = strangers.enter_context(members.dial(place))
                stranger.sendall(b"\x80")  # without a byte the kernel would keep it from the server
            ranks.append(self.rank(1))
            done = [Finished(rank, 40) for rank in ranks]
        self.assertEqual([(one.code, one.lines) for one in done], [(0, ["sum 3"])] * 2, done)


if __name__ == "__main__":
    harness.main()
