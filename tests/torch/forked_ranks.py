#!/usr/bin/env python3
"""Starts ranks as forks of itself, which has imported PyTorch, and says what became of them.

    forked_ranks.py BACKEND

Each line of its input is JSON with `scenario`, a function of `failing.py`, `ranks`, `folder` and `limit` in seconds.
Each line of its output is a list with an object per rank: `code` as subprocess has it, or null for a rank that had to
be killed at the limit, and `said`, all that it wrote.

Unlike a fork by multiprocessing, a rank ends as a script does: by the end of the interpreter, with everything that
PyTorch and the backend do then.
"""

import json
import os
import pathlib
import select
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import failing  # and PyTorch


def fork_ranks(job):
    """The ranks' processes; in such a process, its rank."""
    children = []
    for rank in range(job["ranks"]):
        child = os.fork()
        if child == 0:
            return rank
        children.append(child)
    return children


def ended(children, limit):
    """Waits for all, and kills those that exceed the limit; the codes with which they ended."""
    poll = select.poll()
    waiting = {os.pidfd_open(child): child for child in children}
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    codes = dict.fromkeys(children)
    end = time.monotonic() + limit
    while waiting and (due := poll.poll(max(0, 1000 * (end - time.monotonic())))):
        for descriptor, _ in due:
            child = waiting.pop(descriptor)
            codes[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            poll.unregister(descriptor)
            os.close(descriptor)
    for descriptor, child in waiting.items():
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(descriptor)
    return list(codes.values())


def serve():
    """Does all jobs. Returns nothing when the input ends; in a rank, the job and the rank."""
    for line in sys.stdin:
        job = json.loads(line)
        place = fork_ranks(job)
        if isinstance(place, int):
            return job, place
        codes = ended(place, job["limit"])
        said = [pathlib.Path(job["folder"], f"said-{rank}").read_text(errors="replace") for rank in range(job["ranks"])]
        print(json.dumps([{"code": code, "said": text} for code, text in zip(codes, said)]), flush=True)
    return None


def become(job, rank, backend):
    """From here on this process is a rank: its output goes to a file, and its environment says which rank it is."""
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(pathlib.Path(job["folder"], f"said-{rank}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, place in ((null, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, place)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(job["ranks"]), FOLDER=job["folder"], BACKEND=backend,
                      TORCHELASTIC_ERROR_FILE=f"{job['folder']}/error-{rank}.json")


work = serve()
if work:
    become(*work, sys.argv[1])
    getattr(failing, work[0]["scenario"])()
