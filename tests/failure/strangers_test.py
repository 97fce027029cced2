"""Strangers at every listener of a job: they get nothing, and the job does not notice.

    strangers_test.py TUTTI ROUNDS

Prints what the job's speed is without strangers and with 2,000 of them; docs/security.md quotes it.
"""

import contextlib
import os
import pathlib
import random
import resource
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
import members
import watched_job
from harness import Case, Finished, is_sanitized, start
from sockets import tcp_listeners, unix_listeners
from watched_job import RANKS, SECRET, Job

CROWD = 2000
MEBIBYTE = 1 << 20
GREETING = b"\0" + struct.pack("<I", 0x3C85F7CE)


def noise(count, seed):
    return random.Random(seed).randbytes(count)


# What people and programs send to a port that they do not know.
WORDS = {
    "nothing": b"",
    "a zero": b"\0",
    "random bytes": noise(100_000, 1),
    "random bytes after our magic": b"TUTI" + noise(5000, 2),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + noise(600, 3),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n" + noise(200, 4),
    "nmap: null, generic lines, RPC, DNS": b"\r\n\r\n" + bytes.fromhex(
        "8000002872fe1d130000000000000002000186a00001977c00000000000000000000000000000000") + bytes.fromhex(
        "001e00060100000100000000000007766572736f6e0462696e640000100003"),
    "a PyTorch client": GREETING + b"\x01" + struct.pack("<Q", 1) + b"k" + struct.pack("<Q", 1) + b"v",
    "the length of a key of 2^31": GREETING + b"\x03" + struct.pack("<Q", 1 << 31),
    "the length of a value of -1": GREETING + b"\x01" + struct.pack("<Q", 1) + b"k" + struct.pack("<q", -1),
    "2^63 keys": GREETING + b"\x06" + struct.pack("<Q", 1 << 63),
    "an operation of ours, then the rest of HTTP": b"\x80" + b"GET / HTTP/1.1\r\n\r\n" * 10,
    "an old hello": b"TUTI" + struct.pack("<I16siiQ", 1, noise(16, 5), 0, 1, 7),
    "a hello and a made up proof": members.hello(members.LINK, 1, 0, 7) + noise(32, 6) + noise(1000, 7),
    "a client's hello and a made up proof": b"\x80" + members.hello(members.STORE) + noise(32, 8) + GREETING + b"\x07",
}


def is_closed(connection, heard, limit):
    """Whether the other side has closed within the time; at most `limit` bytes may come before."""
    connection.settimeout(20)
    try:
        while piece := connection.recv(65536):
            heard += piece
            if len(heard) > limit:
                return False
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no VmRSS of {pid}")


class Strangers(Case):
    def setUp(self):
        super().setUp()
        self.secret = self.folder / "secret"
        self.jobs = []

    def tearDown(self):
        for job in self.jobs:
            job.end()
        super().tearDown()

    def job(self, transport="tcp", **options):
        self.jobs.append(Job(self, transport, **options))
        return self.jobs[-1]

    def assertShownOut(self, what, connection):
        heard = bytearray()
        self.assertTrue(is_closed(connection, heard, members.ANSWER), f"{what} heard {bytes(heard[:100])}")
        self.assertIn(len(heard), (0, members.ANSWER), what)
        connection.close()

    def assertTurnedAway(self, listener, greeting, keys):
        for what, key in keys.items():
            with members.dial(listener) as connection:
                connection.sendall(greeting)
                answer = members.read(connection, members.ANSWER)
                self.assertFalse(members.is_acceptors(key, greeting, answer), what)
                connection.sendall(members.proof(key, greeting, answer))
                self.assertEqual(members.read(connection, 1), b"", what)

    def say_all(self, listeners, job):
        """Every word at every listener, all at once; the job goes on meanwhile, and all are shown out."""
        open_ones = []
        for listener in listeners:
            for what, words in WORDS.items():
                connection = members.dial(listener)
                with contextlib.suppress(ConnectionError):
                    connection.sendall(words)
                if what == "nothing":
                    connection.close()
                else:
                    open_ones.append((f"{what} at {listener}", connection))
        if job.ranks:
            job.go_on()
        for what, connection in open_ones:
            self.assertShownOut(what, connection)

    def assertLittleGrowth(self, before):
        """`before`: resident memory by process."""
        for pid, bytes_before in before.items():
            if not is_sanitized():  # a sanitizer keeps what was freed
                self.assertLess(resident(pid) - bytes_before, 32 * MEBIBYTE)

    def crowd(self, listeners, words=b""):
        """CROWD connections that say so much and then nothing."""
        connections = []
        for i in range(CROWD):
            connection = members.dial(listeners[i % len(listeners)])
            connection.sendall(words)
            connections.append(connection)
        return connections

    def disperse(self, crowd):
        for connection in crowd:
            connection.close()

    def test_before_the_job_and_while_it_runs_strangers_are_shown_out_at_every_tcp_port(self):
        job = self.job()
        self.say_all([job.place], job)
        job.begin()
        listeners = job.listeners()
        before = {pid: resident(pid) for pid in job.pids()}
        self.say_all([job.place, *listeners], job)
        self.assertLittleGrowth(before)
        job.finish()

    def test_a_rank_has_one_tcp_port_if_it_needs_any_and_two_threads_of_tutti_whatever_it_talks_over(self):
        for transport, ports in (("shm", 0), ("tcp", 1), ("shm,tcp", 0)):
            job = self.job(transport)
            job.begin()
            for rank in job.ranks:  # the caller's, the acceptor's and the failure detector's; sanitizers add theirs
                threads = 3 if is_sanitized() else len(os.listdir(f"/proc/{rank.pid}/task"))
                self.assertEqual((len(tcp_listeners(rank.pid)), threads), (ports, 3), transport)
            job.finish()

    def test_strangers_at_the_unix_sockets_are_shown_out(self):
        job = self.job("shm")
        job.begin()
        for rank in job.ranks:
            listeners = unix_listeners(rank.pid)
            self.assertEqual(len(listeners), 2)  # of shared memory, and the acceptor's
            for listener in listeners:
                for what, words in WORDS.items():
                    with members.dial(listener) as connection:
                        with contextlib.suppress(ConnectionError):
                            connection.sendall(words)
                        connection.shutdown(socket.SHUT_WR)
                        heard = bytearray()
                        self.assertTrue(is_closed(connection, heard, 0), what)
                        self.assertEqual(heard, b"", what)
        crowd = []
        for i in range(600):
            crowd.append(socket.socket(socket.AF_UNIX))
            crowd[-1].setblocking(False)
            with contextlib.suppress(BlockingIOError):
                crowd[-1].connect("\0" + listeners[i % 2][1:])
        job.go_on()
        for connection in crowd:
            connection.close()
        job.finish()

    def acceptor_of(self, rank, greeting):
        """The Unix socket that answers a member's greeting."""
        answers = {}
        for listener in unix_listeners(rank.pid):
            with members.dial(listener) as connection:
                connection.sendall(greeting)
                connection.shutdown(socket.SHUT_WR)
                answers[listener] = members.read(connection, members.ANSWER)
        self.assertEqual(sorted(map(len, answers.values())), [0, members.ANSWER])
        return max(answers, key=lambda listener: len(answers[listener]))

    def test_the_failure_detectors_unix_socket_demands_the_same_proof_as_a_port(self):
        job = self.job("shm")
        job.begin()
        member = members.Store(job.place, SECRET)
        key = members.job_key(SECRET, member.get("tutti/watched/0/token"))
        wrong = {"another secret": members.job_key(SECRET + b"!", b"?" * 16), "the secret itself": SECRET}
        for number, rank in enumerate(job.ranks):
            greeting = members.hello(members.WATCH, (number + 1) % RANKS, number)
            listener = self.acceptor_of(rank, greeting)
            with members.dial(listener) as connection:
                connection.sendall(greeting)
                self.assertTrue(members.is_acceptors(key, greeting, members.read(connection, members.ANSWER)))
            self.assertTurnedAway(listener, greeting, wrong)
            self.assertShownOut("a hello of a link", self.said(listener, members.hello(members.LINK, 1, number, 7)))
            slow = self.said(listener, greeting[:20])  # and no more
            self.assertShownOut("half a hello", slow)
        job.go_on()
        member.close()
        job.finish()

    def said(self, listener, words):
        connection = members.dial(listener)
        connection.sendall(words)
        return connection

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_other_users_get_no_answer_at_the_unix_sockets(self):
        job = self.job("shm")
        job.begin()
        for number, rank in enumerate(job.ranks):
            greeting = members.hello(members.WATCH, (number + 1) % RANKS, number)
            listener = self.acceptor_of(rank, greeting)
            child = os.fork()
            if child == 0:
                try:
                    os.setuid(65534)
                    connection = members.dial(listener)
                    with contextlib.suppress(ConnectionError):
                        connection.sendall(greeting)
                    os._exit(len(members.read(connection, members.ANSWER)))
                finally:
                    os._exit(255)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        job.go_on()
        job.finish()

    def test_a_member_gets_through_and_nobody_without_the_right_key_does(self):
        job = self.job()
        job.begin()
        member = members.Store(job.place, SECRET)
        token = member.get("tutti/watched/0/token")
        self.assertEqual(len(token), 16)
        key = members.job_key(SECRET, token)
        with self.assertRaises(PermissionError):
            members.Store(job.place, SECRET + b"!")
        wrong = {
            "another secret": members.job_key(SECRET + b"!", token),
            "another job": members.job_key(SECRET, noise(16, 9)),
            "no secret": members.job_key(b"", token),
            "the secret itself": SECRET,
            "the key of the store": members.store_key(SECRET),
        }
        for number, rank in enumerate(job.ranks):
            for listener in tcp_listeners(rank.pid):
                for purpose in (members.LINK, members.WATCH):
                    greeting = members.hello(purpose, (number + 1) % RANKS, number, 99)
                    with members.dial(listener) as connection:
                        connection.sendall(greeting)
                        answer = members.read(connection, members.ANSWER)
                    self.assertTrue(members.is_acceptors(key, greeting, answer))
                    self.assertTurnedAway(listener, greeting, wrong)
                    if purpose == members.LINK:  # if heartbeats ended, that rank would count as lost
                        with members.dial(listener) as connection:
                            recorded = members.enter(connection, key, greeting)
                            self.assertIsNotNone(recorded)
                        replay = members.dial(listener)
                        replay.sendall(recorded)
                        self.assertShownOut("a replayed handshake", replay)
        replay = members.dial(job.place)
        replay.sendall(member.recorded + GREETING + b"\x07")
        self.assertShownOut("a replayed client", replay)
        job.go_on()
        member.close()
        job.finish()

    def test_a_second_process_with_the_same_rank_is_refused_and_the_first_works_on(self):
        job = self.job()
        job.begin()
        done = Finished(start(watched_job.ROUNDS, "1", "0", env=job.environment | {"TUTTI_RANK": "1"}), 60)
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.err, r"rank 1 is already taken by process \d+")
        job.go_on()
        job.finish()

    def test_who_writes_a_byte_per_second_is_shown_out_after_seconds(self):
        job = self.job()
        job.begin()
        slow = [(listener, members.dial(listener), said) for listener in [job.place, *job.listeners()]
                for said in (b"\x80" + members.hello(members.STORE), members.hello(members.LINK, 1, 0, 7))]
        over = threading.Event()

        def dribble():
            for i in range(30):
                for _, connection, said in slow:
                    with contextlib.suppress(OSError):
                        connection.send(said[i:i + 1])
                if over.wait(1):
                    return

        writer = threading.Thread(target=dribble)
        writer.start()
        try:
            begin = time.monotonic()
            for listener, connection, _ in slow:
                self.assertShownOut(f"a slow writer at {listener}", connection)
            self.assertLess(time.monotonic() - begin, 20)
        finally:
            over.set()
            writer.join()
        job.go_on()
        job.finish()

    def test_a_job_starts_and_works_among_two_thousand_who_say_nothing_or_half_of_something(self):
        job = self.job(pause_ms=0)
        crowd = self.crowd([job.place]) + self.crowd([job.place], b"\x80TUTI")
        before = {job.store.pid: resident(job.store.pid)}
        job.begin()
        self.assertLittleGrowth(before)
        self.disperse(crowd)
        before = {pid: resident(pid) for pid in job.pids()}
        speeds = [job.speed(1.5)]
        for words in (b"", b"TUTI"):
            crowd = self.crowd([job.place, *job.listeners()], words)
            speeds.append(job.speed(1.5))
            self.disperse(crowd)
            speeds.append(job.speed(1.5))
        self.assertLittleGrowth(before)
        print("rounds per second: {:.0f} alone, {:.0f} among 2000 who say nothing, {:.0f} alone, {:.0f} among 2000 who "
              "say half of something, {:.0f} alone".format(*speeds), flush=True)
        job.finish()


def main():
    harness.PROGRAM, watched_job.ROUNDS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most < 5 * CROWD:
        print(f"skipped: this needs {5 * CROWD} descriptors, and may have {most}")
        sys.exit(77)
    sys.argv[1:3] = []
    unittest.main(verbosity=2, warnings="ignore")  # sockets that a failed check leaves open


if __name__ == "__main__":
    main()
