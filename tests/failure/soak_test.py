"""The soak: 8 ranks, random calls, every result checked, a random rank killed every few seconds, for as long as asked.

    soak_test.py TUTTI SOAK [--minutes M] [--seed N] [unittest's words]      (2 minutes, a new seed)

Five parts of equal length: without kills; recovered by `tutti run --max-restarts`, over shared memory and TCP; by
Communicator::shrink(), over both. If TEST_SAMPLE is a number, each recovery uses one transport. Each part prints a line
per minute and one at its end, and fails if a result is wrong, nobody makes progress, somebody innocent is named,
memory or descriptors grow, or anything is left in /dev/shm, in /tmp, as a socket or as a process.
"""

import os
import pathlib
import random
import re
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
from harness import Case, start

RANKS = 8
FEWEST = 3  # then the job restarts
STUCK = 40  # seconds without progress: longer than every deadline of the ranks
MIB = 1 << 20


def usage(pid):
    """Resident bytes and number of descriptors of a process; None when it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        return (int(resident[1]) * 1024, len(os.listdir(f"/proc/{pid}/fd"))) if resident else None
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def traces():
    """What ranks may leave behind on this host."""
    sockets = re.findall(r"@\S*tutti\S*", pathlib.Path("/proc/net/unix").read_text())
    shared = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    files = (name for name in os.listdir("/tmp") if name.startswith("tutti-") and not name.startswith("tutti-fuzz"))
    return {*sockets, *(f"/dev/shm/{name}" for name in shared), *(f"/tmp/{name}" for name in files)}


class Job:
    """A job, and what is known about it from what it writes."""

    def __init__(self, mode, seed, stop_file, transport):
        recovery = {"calm": [], "restart": ["--max-restarts", "1000000"],
                    "shrink": ["--max-restarts", "1000000", "--max-lost", RANKS - FEWEST]}[mode]
        # Large blocks, which the ranks' results are, go back to the system at once: else the holes that they leave in the
        # heap grow for many minutes, and hide what is kept for no good reason.
        tunables = "glibc.malloc.mmap_threshold=65536"
        self.process = start(harness.PROGRAM, "run", "-n", RANKS, "--no-label", *recovery, SOAK,
                             "shrink" if mode == "shrink" else "restart", seed, stop_file,
                             env={"TUTTI_TRANSPORT": transport, "TUTTI_TIMEOUT": "20", "GLIBC_TUNABLES": tunables})
        self.lock = threading.Lock()
        self.pids = {}  # by rank, of the latest attempt
        self.counts = {"calls": 0, "checked": 0, "restarts": 0, "shrinks": 0}
        self.named = []  # (when, rank, why) that survivors called lost
        self.wrong = []
        self.errors = []  # the last lines on standard error
        self.slowest_shrink = 0
        self.slow = []
        self.progress = time.monotonic()
        self.readers = [threading.Thread(target=self.read, args=(stream, take)) for stream, take in
                        ((self.process.stdout, self.on_line), (self.process.stderr, self.on_error))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, take):
        for line in stream:
            with self.lock:
                take(line.strip())

    def on_line(self, line):
        word, *rest = line.split()
        if word == "up":
            self.pids[int(rest[0])] = int(rest[1])
        elif word == "lost":
            self.named.append((time.monotonic(), int(rest[0]), " ".join(rest[1:])))
        elif word == "done":
            self.counts["calls"] += int(rest[0])
            self.counts["checked"] += int(rest[1])
            self.progress = time.monotonic()
        elif word == "shrunk":
            self.counts["shrinks"] += 1
            self.slowest_shrink = max(self.slowest_shrink, int(rest[1]))
            if int(rest[1]) > 1000:
                self.slow.append((line, self.errors[-12:]))
        else:
            self.wrong.append(line)

    def on_error(self, line):
        self.errors = (self.errors + [line])[-40:]
        if "starting all ranks again" in line:
            self.counts["restarts"] += 1

    def living(self):
        with self.lock:
            return {rank: pid for rank, pid in self.pids.items() if not harness.is_gone(pid)}

    def end(self):
        try:
            self.process.wait(timeout=60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            for reader in self.readers:
                reader.join()
            self.process.stdout.close()
            self.process.stderr.close()


class Growth:
    """Samples of memory and descriptors, compared between the beginning and the end."""

    def __init__(self, name):
        self.name = name
        self.samples = []

    def add(self, sample):
        if sample:
            self.samples.append(sample)

    def latest(self):
        return self.samples[-1] if self.samples else (0, 0)

    def complaints(self, more_bytes, more_descriptors):
        third = len(self.samples) // 3
        if third < 5:
            return []
        begin, end = self.samples[third // 2:third], self.samples[-third:]
        found = []
        before, after = (statistics.median(memory for memory, _ in part) for part in (begin, end))
        if after > before + more_bytes:
            found.append(f"memory of {self.name} grew from {before / MIB:.1f} to {after / MIB:.1f} MiB")
        before, after = (statistics.median(count for _, count in part) for part in (begin, end))
        if after > before + more_descriptors:
            found.append(f"descriptors of {self.name} grew from {before:g} to {after:g}")
        return found


class Soak(Case):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.traces_before = traces()

    def tearDown(self):
        super().tearDown()
        self.assertEqual(traces() - self.traces_before, set())

    def soak(self, mode, transport, share):
        generator = random.Random(f"{SEED} {mode} {transport}")
        stop = self.folder / f"stop-{transport}"
        self.job = Job(mode, generator.randrange(1 << 31), stop, transport)
        self.runner, self.ranks = Growth("the runner"), Growth("the ranks")
        self.of_one = {}  # pid: samples
        self.killed = []  # (when, rank)
        begin = time.monotonic()
        end = begin + MINUTES * 60 * share
        next_kill = begin + generator.uniform(1, 3)
        next_line = begin + 60
        try:
            while time.monotonic() < end:
                time.sleep(0.25)  # the rhythm of samples; nothing depends on it
                self.sample()
                self.check()
                if mode != "calm" and time.monotonic() >= next_kill:
                    next_kill = time.monotonic() + generator.uniform(1, 3)
                    self.kill_one(generator)
                if time.monotonic() >= next_line:
                    next_line += 60
                    self.tell(mode, transport, time.monotonic() - begin)
            stop.touch()
            self.job.end()
        finally:
            if self.job.process.poll() is None:
                self.job.process.terminate()
                self.job.end()
        self.tell(mode, transport, time.monotonic() - begin)
        for line, errors in self.job.slow:
            print(f"soak: slow: {line} after", *errors, sep="\n  ", file=sys.stderr)
        self.assertEqual((self.job.process.returncode, self.job.wrong), (0, []), self.job.errors)
        self.assertEqual(self.complaints(mode), [])
        self.assertGreater(self.job.counts["calls"], 0)
        if mode == "shrink" and len(self.killed) > 2:
            self.assertGreater(self.job.counts["shrinks"], 0, self.job.errors)

    def kill_one(self, generator):
        living = self.job.living()
        if not living:
            return  # between two attempts
        rank, pid = generator.choice(sorted(living.items()))
        self.killed.append((time.monotonic(), rank))  # first: survivors may speak before this thread goes on
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            self.killed.pop()

    def sample(self):
        living = self.job.living()
        found = {pid: usage(pid) for pid in living.values()}
        complete = [one for one in found.values() if one]
        if len(complete) == RANKS:  # fewer ranks need fewer descriptors
            self.runner.add(usage(self.job.process.pid))
            self.ranks.add((max(memory for memory, _ in complete), max(count for _, count in complete)))
        for pid, one in found.items():
            if one:
                self.of_one.setdefault(pid, []).append((len(complete), *one))

    def check(self):
        self.assertEqual(self.job.wrong, [])
        self.assertIsNone(self.job.process.poll(), self.job.errors)
        self.assertLess(time.monotonic() - self.job.progress, STUCK, ("nobody makes progress", self.job.errors))

    def complaints(self, mode):
        """Growth of the runner, of ranks that nobody killed, within a rank that outlived others; innocents who were named."""
        found = self.runner.complaints(2 * MIB, 2)
        if mode == "calm":  # in the other parts no rank lives long
            found += self.ranks.complaints(8 * MIB, 4)
        # Links are made when they are first used: so what a rank may have is what the busiest one had among all ranks.
        most = max((count for samples in self.of_one.values() for size, _, count in samples if size == RANKS), default=0)
        for pid, samples in self.of_one.items():
            fewer = [count for size, _, count in samples[-3:] if size < RANKS]
            if most and fewer and min(fewer) > most + 2:
                found.append(f"nobody had more than {most} descriptors among all, process {pid} {min(fewer)} among fewer ranks")
        if mode == "shrink":  # a runner that restarts ends the survivors, who then name each other with good reason
            restart_at = [when for n, (when, _) in enumerate(self.killed, 1) if n % (RANKS - FEWEST + 1) == 0]
            for when, rank, why in self.job.named:
                dead = {other for at, other in self.killed if when - STUCK < at <= when}
                if rank not in dead and not any(0 <= when - at < 10 for at in restart_at):
                    found.append(f"rank {rank} was named, but killed were {sorted(dead)}: {why}")
        return found

    def tell(self, mode, transport, seconds):
        (runner_memory, runner_count), (memory, count) = self.runner.latest(), self.ranks.latest()
        counts = self.job.counts
        print(f"soak: {mode}, {transport}, {seconds:.0f} s: {counts['calls']} calls, {counts['checked'] / MIB:.0f} MiB of "
              f"results checked, {len(self.killed)} kills, {counts['restarts']} restarts, {counts['shrinks']} shrinks "
              f"(slowest {self.job.slowest_shrink} ms); runner {runner_memory / MIB:.1f} MiB, {runner_count} descriptors; "
              f"largest rank {memory / MIB:.1f} MiB, {count} descriptors", file=sys.stderr, flush=True)

    def test_calm(self):
        self.soak("calm", "shm,tcp", 0.2)

    def test_restart(self):
        for transport in harness.sampled(("shm", "tcp"), 2):
            self.soak("restart", transport, 0.2)

    def test_shrink(self):
        for transport in harness.sampled(("tcp", "shm"), 2):
            self.soak("shrink", transport, 0.2)


def option(name, fallback):
    if name not in sys.argv:
        return fallback
    at = sys.argv.index(name)
    value = sys.argv[at + 1]
    del sys.argv[at:at + 2]
    return value


if __name__ == "__main__":
    MINUTES = float(option("--minutes", 2))
    SEED = int(option("--seed", random.randrange(1 << 31)))
    SOAK = os.path.abspath(sys.argv.pop(2))
    print(f"soak: {MINUTES:g} minutes, --seed {SEED}", file=sys.stderr, flush=True)
    harness.main()
