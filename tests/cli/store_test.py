#!/usr/bin/env python3
"""`tutti store` as people use it: what it prints, and its exit codes.

    store_test.py path/to/tutti
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import unittest

from harness import sockets_of, stop_process, wait_until

TUTTI = ""
GOOD, FAILED, TIMEOUT, USAGE = 0, 3, 4, 6  # those of `tutti --help`


def store(*words):
    return subprocess.run([TUTTI, "store", *words], capture_output=True, text=True, timeout=60)


class Store(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([TUTTI, "store", "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.place = self.server.stdout.readline().removeprefix("listening on ").strip()

    def tearDown(self):
        self.server.kill()
        self.server.communicate(timeout=60)

    def say(self, *words):
        return store(*words, "--rdzv", self.place)

    def assertGood(self, done, printed=""):
        self.assertEqual((done.returncode, done.stdout, done.stderr), (GOOD, printed, ""))

    def assertFails(self, done, code, *told):
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        for word in told:
            self.assertIn(word, done.stderr)
        self.assertRegex(done.stderr, "^tutti( store|: store)")

    def test_it_says_where_it_listens_and_ends_well_when_told_to(self):
        self.assertRegex(self.place, r"^127\.0\.0\.1:\d+$")
        for number in (signal.SIGTERM, signal.SIGINT):
            other = subprocess.Popen([TUTTI, "store", "--port", "0"], stdout=subprocess.PIPE, text=True)
            other.stdout.readline()
            other.send_signal(number)
            other.communicate(timeout=60)
            self.assertEqual(other.returncode, GOOD)

    def test_what_is_set_can_be_read_counted_and_deleted(self):
        self.assertGood(self.say("set", "colour", "light green"))
        self.assertGood(self.say("get", "colour"), "light green\n")
        self.assertGood(self.say("add", "n", "5"), "5\n")
        self.assertGood(self.say("add", "n", "-7"), "-2\n")
        self.assertGood(self.say("wait", "colour", "n"))
        self.assertGood(self.say("keys"), "2\n")
        self.assertGood(self.say("delete", "colour"))
        self.assertFails(self.say("delete", "colour"), FAILED, 'no key "colour"')
        self.assertGood(self.say("keys"), "1\n")

    def test_the_place_may_be_a_url(self):
        for scheme in ("tcp://", "store://"):
            self.assertGood(store("keys", "--rdzv", scheme + self.place), "0\n")

    def test_get_waits_for_whoever_sets(self):
        getter = subprocess.Popen([TUTTI, "store", "get", "late", "--rdzv", self.place], stdout=subprocess.PIPE, text=True)
        self.assertTrue(wait_until(lambda: sockets_of(getter.pid), 60))
        self.assertIsNone(getter.poll())
        self.assertGood(self.say("set", "late", "here"))
        self.assertEqual(getter.communicate(timeout=60)[0], "here\n")

    def test_clients_that_came_while_the_server_could_not_run_are_all_served(self):
        host, _, port = self.place.rpartition(":")
        stop_process(self.server.pid)
        with contextlib.ExitStack() as clients:
            waiting = []
            for _ in range(100):
                client = clients.enter_context(socket.create_connection((host, int(port)), timeout=60))
                client.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\x07")  # how many keys there are
                waiting.append(client)
            self.server.send_signal(signal.SIGCONT)
            self.assertEqual([client.recv(8) for client in waiting], [struct.pack("<q", 0)] * len(waiting))

    def test_a_place_that_is_no_tcp_store(self):
        for place in ("file:///tmp/x", "env://"):
            done = subprocess.run([TUTTI, "store", "keys"], capture_output=True, text=True, timeout=60,
                                  env=os.environ | {"TUTTI_RDZV": place})
            self.assertFails(done, USAGE, f"{place} is not a TCP store")

    def test_what_never_comes_and_who_is_not_there_are_failures_in_time(self):
        self.assertFails(self.say("wait", "never", "--timeout", "0.1"), TIMEOUT, '"never"', "0.1 s")
        self.assertFails(self.say("get", "never", "--timeout", "0.1"), TIMEOUT, '"never"')
        self.server.kill()
        self.server.wait(timeout=60)
        self.assertFails(self.say("get", "x", "--timeout", "1"), FAILED, self.place, "refused")

    def test_a_port_in_use_is_named(self):
        self.assertFails(store("--port", self.place.rpartition(":")[2]), FAILED, self.place, "in use",
                         f"process {self.server.pid}")

    def test_bad_usage(self):
        for words in (["bogus"], ["get"], ["set", "k"], ["add", "n", "x"], ["--port", "x"], ["--port", "65536"],
                      ["get", "k", "--timeout", "-1"], ["get", "k", "--rdzv", "::1:5"], ["get", "k", "--rdzv", "host"]):
            with self.subTest(words=words):
                self.assertFails(store(*words), USAGE)
        self.assertEqual(store("--help").returncode, GOOD)


if __name__ == "__main__":
    TUTTI = sys.argv.pop(1)
    unittest.main()
