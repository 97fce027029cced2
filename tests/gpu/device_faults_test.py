"""Ranks that die, leave, abort, or whose driver fails in the middle of a call on device memory: the others name the
culprit in time, and no stream waits for ever. Runs on the fake driver.

    device_faults_test.py TUTTI RANK-PROGRAM FOLDER-OF-THE-FAKE
"""

import os
import random
import subprocess
import sys
import time

from failing_ranks import SAID, STUCK, goes_wrong

TUTTI, PROGRAM, FAKE = sys.argv[1:4]
RANKS = 3
LIMIT = 30


def run(what, algorithm, form, transport, inject=None, fail=None, mode="auto", elements=3000):
    env = dict(os.environ, LD_LIBRARY_PATH=FAKE, FAKE_CUDA_SCHEDULE=random.choice(["eager", "lazy", "reverse", "random:3"]),
               TUTTI_TRANSPORT=transport, TUTTI_GPU_MODE=mode, TUTTI_TIMEOUT="20")
    command = [TUTTI, "run", "-n", str(RANKS), "--no-label"]
    if inject:
        command += ["--max-lost", "1", "--inject", inject]
    rank = [PROGRAM, what, algorithm, form, "-", str(elements)]
    if fail:  # on rank 1 only
        rank = ["sh", "-c", f'[ "$TUTTI_RANK" != 1 ] || export FAKE_CUDA_FAIL="{fail}"; exec "$@"', "rank", *rank]
    begun = time.monotonic()
    done = subprocess.run([*command, *rank], env=env, capture_output=True, text=True, timeout=LIMIT * 2, check=False)
    return done.stdout, done.stderr, done.returncode, time.monotonic() - begun


def judge(name, survivors, out, err, status, took, culprit=1, text=None):
    found = {int(m[1]): m for m in map(SAID.match, out.splitlines()) if m}
    wrong = [f"rank {rank} says nothing" for rank in survivors if rank not in found]
    for rank, m in found.items():
        if int(m[2]) != culprit and f"rank {culprit}" not in m[6]:
            wrong.append(f"rank {rank} blames {m[2]}: {m[6]}")
        if float(m[5]) > STUCK:
            wrong.append(f"the stream of rank {rank} was stuck for {m[5]} s")
        if text and rank == culprit and text not in m[6]:
            wrong.append(f"rank {rank} does not say {text}: {m[6]}")
    if said := goes_wrong(out, err):
        wrong.append(f"a rank says: {said}")
    if status != 0:
        wrong.append(f"the job ended with {status}")
    if took > LIMIT:
        wrong.append(f"it took {took:.0f} s")
    if wrong:
        print(f"{name}: {'; '.join(wrong)}\n{out}\n{err}")
    return not wrong


def cases():
    for algorithm in ("ring", "tree", "direct"):
        for form in ("wait", "start"):
            for transport in ("shm", "tcp"):
                for step in (0, 1, "last"):
                    for kind in ("kill", "exit") if form == "wait" else ("kill",):  # who waits leaves by exit
                        yield (f"{kind} at step {step} of {algorithm}, {form}, {transport}", [0, 2],
                               ("", algorithm, form, transport, f"{kind}:rank=1,op=3,step={step}"), {})
                for what, survivors in (("leave", [0, 2]), ("abort", [0, 1, 2])):
                    yield f"{what} in {algorithm}, {form}, {transport}", survivors, (what, algorithm, form, transport), {}
                for function in ("cuMemcpy2DAsync@3=700", "cuMemcpy2DAsync@4=719"):
                    yield (f"{function} in {algorithm}, {form}, {transport}", [0, 1, 2],
                           ("", algorithm, form, transport, None, function), {"text": "cuMemcpy2DAsync"})
                yield (f"no pinned memory for {algorithm}, {form}, {transport}", [0, 1, 2],
                       ("", algorithm, form, transport, None, "cuMemHostAlloc@4=2", "staged", 30_000),
                       {"text": "cuMemHostAlloc"})


def main():
    seed = os.environ.get("TEST_SAMPLE", "0")
    chosen = list(cases())
    random.seed(seed)
    if seed != "all":
        chosen = random.sample(chosen, 14)
    bad = 0
    for name, survivors, arguments, judged in chosen:
        bad += not judge(name, survivors, *run(*arguments), **judged)
    print(f"{len(chosen)} of {len(list(cases()))} cases, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
