"""A job that works until it is told to stop, and counts; strangers disturb it meanwhile."""

import select
import time

import harness
from harness import Finished, start
from sockets import tcp_listeners

SECRET = b"what the members of this job know"
RANKS = 4
ROUNDS = ""  # the program that its ranks run


class Job:
    """A store of its own and RANKS ranks that work until they are told to stop, with a pause after each round, in which
    others have the processors."""

    def __init__(self, case, transport, elements=1000, pause_ms=5):
        self.case = case
        case.secret.write_bytes(SECRET)
        case.secret.chmod(0o600)
        self.store = start(harness.PROGRAM, "store", "--port", "0", "--secret-file", case.secret)
        self.place = self.store.stdout.readline().split()[-1]
        self.environment = {"TUTTI_SIZE": str(RANKS), "TUTTI_RDZV": f"store://{self.place}", "TUTTI_JOB": "watched",
                            "TUTTI_SECRET_FILE": str(case.secret), "TUTTI_TRANSPORT": transport,
                            "TUTTI_TIMEOUT": "60"}
        self.elements = elements
        self.pause_ms = pause_ms
        self.ranks = []

    def begin(self):
        for rank in range(RANKS):
            more = {"stdin": -1} if rank == 0 else {}  # a pipe
            self.ranks.append(start(ROUNDS, self.elements, self.pause_ms, env=self.environment | {"TUTTI_RANK": str(rank)}, **more))
        self.case.assertTrue(self.ranks[0].stdout.readline().startswith("0 "), self.ranks[0])

    def rounds(self):
        """How many are done, and when that was."""
        self.ranks[0].stdin.write("count\n")
        self.ranks[0].stdin.flush()
        answer = select.poll()
        answer.register(self.ranks[0].stdout, select.POLLIN)
        self.case.assertTrue(answer.poll(60_000), "the job stands still")
        count, when = self.ranks[0].stdout.readline().split()
        return int(count), float(when)

    def go_on(self, rounds=20):
        """Waits until the job has worked so much more."""
        first, _ = self.rounds()
        while self.rounds()[0] < first + rounds:
            pass

    def speed(self, seconds):
        """Rounds per second."""
        first, begin = self.rounds()
        count, end = first, begin
        while end - begin < seconds:
            time.sleep(0.05)  # only paces the questions
            count, end = self.rounds()
        return (count - first) / (end - begin)

    def listeners(self):
        return [listener for rank in self.ranks for listener in tcp_listeners(rank.pid)]

    def finish(self):
        self.ranks[0].stdin.close()
        self.ranks[0].stdin = None
        for rank in self.ranks:
            done = Finished(rank, 60)
            self.case.assertEqual(done.code, 0, done)
            self.case.assertRegex(done.lines[-1], r"^done \d+ wrong 0$")

    def end(self):
        for process in [*self.ranks, self.store]:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=20)

    def pids(self):
        return [self.store.pid] + [rank.pid for rank in self.ranks]
