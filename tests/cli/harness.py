"""What the tests of the built program share: running it with a deadline, and seeing what it leaves behind."""

import contextlib
import ctypes
import functools
import io
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = os.environ.get("TESTED_PROGRAM", "build/tutti")
JOIN = os.environ.get("TESTED_JOIN", "build/tests/tools/join")

@functools.cache
def is_sanitized():
    """Sanitizers need descriptors, memory and time of their own."""
    program = pathlib.Path(PROGRAM).read_bytes()
    return b"__asan_" in program or b"__tsan_" in program


def sampled(cases, one_in):
    """Every `one_in`-th case if TEST_SAMPLE is a number, which chooses the first; else all."""
    number = os.environ.get("TEST_SAMPLE", "all")
    return list(cases) if number == "all" else list(cases)[int(number) % one_in :: one_in]


@functools.cache
def collectives():
    """The names of all collectives, as `tutti plan --list` prints them."""
    listed = subprocess.run([PROGRAM, "plan", "--list"], capture_output=True, text=True, check=True, timeout=60).stdout
    return tuple(re.findall(r"(?m)^(\w+)$", listed))


# Variables of the launcher that runs the tests must not reach what is tested.
FOREIGN = ("TUTTI_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "MASTER_")


# What in /dev/shm is a test's own. The folders in which ranks under comparison meet are those of a test beside it.
MADE_HERE = r".*tutti(?!-versus-)"
HELD_PORTS = []


def free_port():
    """One of loopback's, chosen by the kernel. As long as this process lives nobody else gets it, but a server may listen
    there: it can share the port (SO_REUSEADDR) with a socket that does not."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    HELD_PORTS.append(held)
    return held.getsockname()[1]


def clean_environment(**extra):
    base = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN) and k not in ("RANK", "WORLD_SIZE")}
    base["TUTTI_TIMEOUT"] = "20"
    base.update(extra)
    return {k: v for k, v in base.items() if v is not None}


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def heed_signals():
    """Where the tests run under nohup, or in the background of a script, their programs would rightly ignore these, too. And
    none outlives a test that is killed."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Lines(io.TextIOWrapper):
    """What a program prints. A test whose line does not come fails, and says what came on stderr, before Meson ends it."""

    LIMIT = 60

    def __init__(self, process):
        text = process.stdout
        super().__init__(text.buffer, encoding=text.encoding, errors=text.errors)
        text.detach()
        self.process = process

    def readline(self, *size):
        if threading.current_thread() is not threading.main_thread():
            return super().readline(*size)
        before = signal.signal(signal.SIGALRM, self.give_up)
        signal.setitimer(signal.ITIMER_REAL, self.LIMIT * (3 if is_sanitized() else 1))
        try:
            return super().readline(*size)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def give_up(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        errors, said = self.process.stderr.fileno(), b""
        os.set_blocking(errors, False)
        with contextlib.suppress(BlockingIOError):
            said = os.read(errors, 1 << 16)
        raise AssertionError(f"{self.process.args} has printed no line for {self.LIMIT} s\nstderr: {said}")


def start(*arguments, env=None, **options):
    """Starts a program of its own session with pipes for output, so that the test can end all of it."""
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("preexec_fn", heed_signals)
    process = subprocess.Popen(
        [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(**(env or {})), start_new_session=True, **options)
    process.stdout = Lines(process)
    return process


class Finished:
    """What became of a program; `limit` only ends one that hangs."""

    def __init__(self, process, limit):
        begin = time.monotonic()
        limit *= 3 if is_sanitized() else 1
        try:
            self.out, self.err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            raise AssertionError(f"{process.args} did not end within {limit} s\nstdout: {out}\nstderr: {err}") from None
        self.code = process.returncode
        self.seconds = time.monotonic() - begin
        self.lines = self.out.splitlines()

    def __repr__(self):
        return f"code {self.code} after {self.seconds:.2f} s\nstdout: {self.out[-2000:]}\nstderr: {self.err[-2000:]}"


def run(*arguments, limit=90, env=None, **options):
    return Finished(start(*arguments, env=env, **options), limit)


def tutti(*arguments, **options):
    return run(PROGRAM, *arguments, **options)


def script(text):
    return ["sh", "-c", text]


def state_of(pid):
    """'R', 'S', 'Z' ... or None when there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2]


def is_gone(pid):
    return state_of(pid) in (None, "Z", "X")  # the init of a container may reap late


def seconds_run(pid):
    """Of a core, that a process has used; 0 when there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, text[text.rindex(")") + 2 :].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def opened_by(pid):
    """What each descriptor of a process stands for, by number; it may close some meanwhile, or end."""
    found = {}
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    return found


def sockets_of(pid):
    """The inode of each socket that a process has opened."""
    return {target[8:-1] for target in opened_by(pid).values() if target.startswith("socket:[")}


def wait_until(condition, limit=30):
    """Waits for something that another process will make true."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def stop_process(pid):
    """Returns once every thread of `pid` has stopped: the signal takes effect when its first thread next runs."""
    os.kill(pid, signal.SIGSTOP)
    states = lambda: {pathlib.Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0]
                      for task in os.listdir(f"/proc/{pid}/task")}
    if not wait_until(lambda: states() == {"T"}):
        raise AssertionError(f"process {pid} does not stop")


def processes_with(mark):
    """Living processes that have `mark` in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes() and not is_gone(entry.name):
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return sorted(found)


class Case(unittest.TestCase):
    """Marks everything a test starts, and fails when some of it is still there, or left files, afterwards."""

    def setUp(self):
        self.mark = f"TEST_MARK={os.getpid()}-{self.id()}"
        os.environ["TEST_MARK"] = self.mark.split("=", 1)[1]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.shared_before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()

    def tearDown(self):
        left = processes_with(self.mark)
        gone = wait_until(lambda: not processes_with(self.mark), 3)
        for pid in processes_with(self.mark):
            os.kill(pid, 9)
        self.assertTrue(gone, f"left behind: processes {left}")
        if os.path.isdir("/dev/shm"):
            self.assertEqual({n for n in set(os.listdir("/dev/shm")) - self.shared_before if re.match(MADE_HERE, n)}, set())

    def assertSays(self, text, *words):
        for word in words:
            self.assertIsNotNone(re.search(word, text), f"no {word!r} in: {text}")


def main():
    """X_test.py [PATH OF TUTTI [PATH OF JOIN]] [unittest's words]"""
    global PROGRAM, JOIN
    paths = []
    while len(sys.argv) > 1 and "/" in sys.argv[1]:
        paths.append(os.path.abspath(sys.argv.pop(1)))
    PROGRAM, JOIN = (paths + [PROGRAM, JOIN][len(paths):])[:2]
    unittest.main(module="__main__", verbosity=2)
