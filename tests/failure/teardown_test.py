"""However a rank comes to an end, it does so in bounded time, and the others learn at once that it is gone.

    teardown_test.py TUTTI JOIN TEARDOWN FORK
"""

import json
import os
import pathlib
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
from harness import Case, Finished, free_port, start, tutti

TRANSPORTS = {"shm": {}, "tcp": {}, "tls": {"TUTTI_TRANSPORT": "tcp", "TUTTI_TLS": "1"}}
# Of the whole job: starting, a few MiB of data, the end. Under a sanitizer three times as much. What waits for a deadline
# takes TIMEOUT or more.
LIMIT, TIMEOUT = 10, 60


class Ways(Case):
    def go(self, way, *more, transport="shm", ranks=3):
        done = tutti("run", "-n", ranks, "--no-label", TEARDOWN, way, *more, limit=TIMEOUT + 30,
                     env={"TUTTI_TRANSPORT": transport, "TUTTI_TIMEOUT": str(TIMEOUT)} | TRANSPORTS[transport])
        self.assertEqual(done.code, 0, (way, transport, done))
        self.assertLess(done.seconds, LIMIT * (3 if harness.is_sanitized() else 1), (way, transport, done))
        return done

    def transports(self, way):
        """Under a sanitizer one for each way, and another one in a later commit: its jobs take ten times as long."""
        if not harness.is_sanitized():
            return TRANSPORTS
        names = list(TRANSPORTS)
        first = zlib.crc32(way.encode()) % len(names)
        return harness.sampled(names[first:] + names[:first], len(names))

    def check(self, way):
        for transport in self.transports(way):
            with self.subTest(transport):
                lines = sorted(self.go(way, transport=transport).lines)
                self.assertEqual([line.split()[:2] for line in lines], [["lost", "1"]] * 2, lines)
                self.go(way, "all", transport=transport)

    def test_destroyed(self):
        self.check("destroy")

    def test_destroyed_with_work_in_flight(self):
        self.check("destroy-with-work")

    def test_exit_with_work_in_flight(self):
        self.check("exit")

    def test_exit_while_another_thread_is_in_a_call(self):
        self.check("exit-while-in-a-call")

    def test_quick_exit(self):
        self.check("quick-exit")

    def test_exit_without_any_cleaning_up(self):
        self.check("_exit")

    def test_an_exception_unwinds_through_it(self):
        self.check("throw")

    def test_static_objects_end_after_main(self):
        self.check("return")

    def test_static_objects_end_after_libcrypto(self):
        # The library cleans up while our threads still run, and so leaves what it keeps for each of them.
        os.environ["LSAN_OPTIONS"] = "detect_leaks=0"
        self.addCleanup(os.environ.pop, "LSAN_OPTIONS")
        self.check("return-openssl")

    def test_a_local_static_ends_after_main(self):
        self.check("local-static")

    def test_a_parent_is_destroyed_before_its_sub_group(self):
        self.check("destroy-parent-first")

    def test_programs_that_are_started_inherit_no_descriptor(self):
        self.check("exec")


class Fork(Case):
    def go(self, *words):
        for transport in TRANSPORTS:
            # What only threads that are not in the child referred to is lost there, and would count as a leak.
            done = tutti("run", "-n", "3", FORK, *words, limit=60, env={
                "TUTTI_TRANSPORT": transport,
                "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=0"} | TRANSPORTS[transport])
            self.assertEqual((done.code, done.err), (0, ""), (transport, done))

    def test_a_child_gets_errors_and_the_parent_goes_on(self):
        self.go()

    def test_also_when_other_threads_are_in_the_middle_of_something(self):
        if harness.is_sanitized():
            self.skipTest("a sanitizer's allocator, unlike the C library's, may stay locked in such a child")
        self.go("busy")


class ErrorFile(Case):
    """Ranks without a runner, which would end the survivors before they can say anything."""

    def setUp(self):
        super().setUp()
        self.url = f"tcp://127.0.0.1:{free_port()}"

    def path(self, rank):
        return self.folder / f"error-{rank}.json"

    def start_rank(self, rank, size, *words, **variables):
        return start(harness.JOIN, *words, env={
            "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(size), "TUTTI_RDZV": self.url,
            "TORCHELASTIC_ERROR_FILE": str(self.path(rank))} | variables)

    def test_survivors_leave_their_verdict_for_torchrun(self):
        ranks = [self.start_rank(rank, 3, "--repeat", TUTTI_INJECT="kill:rank=1,op=5") for rank in range(3)]
        done = [Finished(rank, 30) for rank in ranks]
        self.assertEqual([d.code for d in done], [1, -9, 1], done)
        for rank in (0, 2):
            message = json.loads(self.path(rank).read_text())["message"]
            self.assertSays(message["message"], r"^tutti::Error: peer_lost: .*rank 1 ")
            self.assertEqual((message["extraInfo"]["code"], message["extraInfo"]["rank"]), ("peer_lost", 1))
            self.assertGreater(int(message["extraInfo"]["timestamp"]), 1_700_000_000)
        self.assertEqual(sorted(os.listdir(self.folder)), ["error-0.json", "error-2.json"])

    def test_who_does_not_find_the_others_says_so_too(self):
        done = Finished(self.start_rank(0, 2, TUTTI_TIMEOUT="0.5"), 30)
        self.assertEqual(done.code, 1, done)
        self.assertEqual(json.loads(self.path(0).read_text())["message"]["extraInfo"]["code"], "rendezvous")

    def test_a_wrong_call_leaves_none(self):
        done = Finished(self.start_rank(5, 2), 30)
        self.assertEqual(done.code, 1, done)
        ranks = [self.start_rank(rank, 2, "--input-span", "999") for rank in range(2)]
        for done in (Finished(rank, 30) for rank in ranks):
            self.assertSays(done.err, "^invalid_argument")
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    TEARDOWN, FORK = (os.path.abspath(sys.argv.pop(3)) for _ in range(2))
    harness.PROGRAM = os.path.abspath(sys.argv[1])
    if "built without TLS" in tutti("run", "--tls", "true").err:
        del TRANSPORTS["tls"]
    harness.main()
