#!/usr/bin/env python3
"""Collectives that run on the streams of GPUs, with a rank that is killed or stopped at some command of its streams, whose
driver fails, or that does something else: all others name it in time, no stream waits for ever, and whoever wants to go
on can. Runs on the fake driver.

    stream_faults_test.py [--hosts] RANK-PROGRAM FOLDER-OF-THE-FAKE [CASES-THAT-CONTAIN-THIS]

--hosts: two ranks are on each of two hosts (tools/hosts), so that half of the links are staged; 77 where that is not
possible.
"""

import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from failing_ranks import SAID, STUCK, goes_wrong

PLAYED = "FAULTS_ON_HOSTS"  # set where this program runs again, among the hosts
if sys.argv[1] == "--hosts" and PLAYED not in os.environ:
    hosts = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/hosts"
    command = [hosts, "2", "--rate", "10gbit", "--burst", "1m", "--once", sys.executable, *sys.argv]
    status = subprocess.run(command, env={**os.environ, PLAYED: "1"}).returncode
    sys.exit(77 if status == 3 else status)
ON_HOSTS = sys.argv[1] == "--hosts"
PROGRAM, FAKE, *ONLY = sys.argv[2 if ON_HOSTS else 1:]
RANKS, CULPRIT = 4, 1
LIMIT = 40  # seconds that a case may take; the processes that are left then are killed
PARTS = 16  # places of a run at which a rank is killed or stopped
SHORT, LONG = 3000, 2_000_000  # elements of a call, so that a message has 3 KB, or fills a slot several times
CROWDED = {"elements": 40_000, "slot_bytes": 4096, "queue": 64}  # more commands than the driver takes at once
LAST_CALL = PARTS // 2 if ON_HOSTS else PARTS * 2 // 3  # may have begun in this part, so that some ranks have all they need
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "pause": signal.SIGSTOP}
# Of the driver, in calls: the first ones in many of them.
FUNCTIONS = ("cuStreamBatchMemOp", "cuMemcpyAsync", "cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent", "cuLaunchHostFunc")
MISMATCH, TIMEOUT, PEER_LOST, ABORTED = 2, 3, 4, 5


@dataclasses.dataclass
class Case:
    name: str
    algorithm: str
    form: str
    what: str = ""
    shrinks: bool = False
    signal: str = ""  # a name of SIGNALS
    part: int = 0  # of PARTS
    fault: str = ""  # for FAKE_CUDA_FAIL
    function: str = ""  # of the driver, which fails with `result` in the culprit's call number `nth`, or after that share
    nth: float = 0
    result: int = 0
    culprit: int = CULPRIT
    timeout: int = 20
    elements: int = SHORT
    slot_bytes: int = 1 << 20
    queue: int = 1024  # commands that the driver takes before it keeps the caller
    codes: tuple = ()  # one of which each survivor's error has
    text: str = ""  # in the survivors' errors
    staged: bool = False  # no error, and all ranks agree in how calls run
    may_succeed: bool = False
    may_differ: bool = False  # some ranks fail, and others do not
    mode: str = "streams"  # for TUTTI_GPU_MODE


@dataclasses.dataclass
class Outcome:
    out: list  # by rank
    err: list
    status: list  # None: had to be killed
    hit: bool  # the signal found the process
    faults: str  # what became of those that were planned
    took: float


def start(case, rank, folder, schedule, signal_at, fault):
    env = dict(os.environ, LD_LIBRARY_PATH=FAKE, FAKE_CUDA_SCHEDULE=schedule, FAKE_CUDA_QUEUE=str(case.queue),
               TUTTI_GPU_SLOT_BYTES=str(case.slot_bytes), TUTTI_GPU_MODE=case.mode, TUTTI_LOST_AFTER="1",
               TUTTI_TIMEOUT=str(case.timeout), TUTTI_RANK=str(rank), TUTTI_SIZE=str(RANKS),
               TUTTI_RDZV=f"file://{folder}/meeting", TUTTI_SECRET="two hosts of one test", TUTTI_DEBUG="INFO", TUTTI_DEBUG_SUBSYS="SHM")
    if case.mode == "kernel":
        env["FAKE_CUDA_DEVICES"] = str(RANKS)
    if rank == case.culprit and signal_at:
        env["FAKE_CUDA_SIGNAL"] = f"{int(SIGNALS[case.signal])}@{signal_at}"
    if rank == case.culprit and fault:
        env.update(FAKE_CUDA_FAIL=fault, FAKE_CUDA_FAULTS=str(folder / "faults"))
    with open(folder / f"out{rank}", "w") as out, open(folder / f"err{rank}", "w") as err:
        place = ["nsenter", f"--net=/run/netns/host{rank // 2}"] if ON_HOSTS else []
        command = [*place, PROGRAM, case.what, case.algorithm, case.form, "shrink" if case.shrinks else "-", str(case.elements)]
        return subprocess.Popen(command, env=env, stdout=out, stderr=err)


def is_stopped(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


def wait(process, until):
    try:
        return process.wait(max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def run(case):
    signal_at, fault = 0, case.fault
    if case.signal:
        all_commands, _ = without_faults(case.algorithm, case.form, case.mode, case.elements, case.slot_bytes)
        signal_at = max(1, (2 * case.part + 1) * all_commands // (2 * PARTS))
    if case.function:
        _, calls = without_faults(case.algorithm, case.form, case.mode, case.elements, case.slot_bytes, case.culprit)
        nth = case.nth if case.nth >= 1 else int(case.nth * calls[case.function]) + 1
        fault = f"{case.function}@{nth}={case.result}"
    schedule = random.Random(case.name).choice(["eager", "lazy", "reverse", "random:3"])
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        started = [start(case, rank, folder, schedule, signal_at, fault) for rank in range(RANKS)]
        status = [None] * RANKS
        hit = not case.signal
        try:
            stops = SIGNALS.get(case.signal) == signal.SIGSTOP
            for rank, process in enumerate(started):
                if rank != case.culprit or not stops:
                    status[rank] = wait(process, begun + LIMIT)
            took = time.monotonic() - begun
            process = started[case.culprit]
            if stops:
                hit = process.poll() is None and is_stopped(process)
                process.send_signal(signal.SIGCONT if case.signal == "pause" else signal.SIGKILL)
                status[case.culprit] = wait(process, time.monotonic() + LIMIT)
            elif case.signal:
                hit = status[case.culprit] == -signal.SIGKILL
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                process.wait()
        read = [[(folder / f"{kind}{rank}").read_text() for rank in range(RANKS)] for kind in ("out", "err")]
        faults = (folder / "faults").read_text() if (folder / "faults").exists() else ""
    return Outcome(*read, status, hit, faults, took)


@functools.cache
def without_faults(algorithm, form, mode, elements, slot_bytes, culprit=CULPRIT):
    """How many commands the culprit's streams run where nothing fails, and its calls of each of FUNCTIONS."""
    never = ";".join(f"{function}@1000000=2" for function in FUNCTIONS)
    outcome = run(Case("dry", algorithm, form, mode=mode, elements=elements, slot_bytes=slot_bytes, culprit=culprit, fault=never))
    found = re.search(r"(\d+) commands", outcome.out[culprit])
    calls = dict(re.findall(r"^(\w+)@.* did not come in (\d+) calls$", outcome.faults, re.M))
    if not found or set(calls) != set(FUNCTIONS):
        raise RuntimeError(f"a run without faults failed: {outcome}")
    return int(found[1]), {function: int(number) for function, number in calls.items()}


def wrong_in_survivor(case, rank, outcome):
    out, err, status = outcome.out[rank], outcome.err[rank], outcome.status[rank]
    if status != 0:
        return "did not end" if status is None else f"ended with status {status}"
    if said := goes_wrong(out, err):
        return f"says: {said}"
    found = SAID.search(out)
    if not found:
        return None if "no error" in out and (case.staged or case.may_succeed) else "has no error"
    if case.staged:
        return "fails"
    blamed, code, after, drained, text = int(found[2]), int(found[3]), float(found[4]), float(found[5]), found[6]
    if rank == case.culprit and (case.fault or case.function):
        return None if "CUDA_ERROR" in text else f"does not name its driver's error: {text}"
    # Each of two ranks that differ may name the other.
    if case.codes == (MISMATCH,) and f"rank {case.culprit}" in text:
        blamed = case.culprit
    if blamed != case.culprit and not (blamed == -1 and f"rank {case.culprit}" in text):
        return f"blames rank {blamed}: {text}"
    if case.codes and code not in case.codes:
        return f"has an error of code {code}: {text}"
    if case.text not in text:
        return f"does not say {case.text!r}: {text}"
    if drained > STUCK:
        return f"has a stream that was stuck for {drained} s"
    if after > case.timeout + 2:
        return f"learns of it after {after} s"
    return "does not go on" if case.shrinks and "goes on" not in out else None


def judge(case, outcome):
    ends = not case.signal and case.what != "leave" and case.what != "destroy"
    ranks = [rank for rank in range(RANKS) if rank != case.culprit or ends]
    wrong = [f"rank {rank} {what}" for rank in ranks if (what := wrong_in_survivor(case, rank, outcome))]
    if not outcome.hit:
        wrong.append("the signal came too late")
    if case.fault or case.function:
        if "did not come" in outcome.faults or outcome.faults.count(" came\n") != case.fault.count(";") + 1:
            wrong.append(f"not all faults came: {outcome.faults or 'none'}")
    if not ends and outcome.status[case.culprit] not in (0, -signal.SIGKILL):
        wrong.append(f"the culprit ended with {outcome.status[case.culprit]}")
    if case.staged and len({"staged through the host" in err for err in outcome.err}) > 1:
        wrong.append("ranks do not agree in how calls run")
    said = {"no error" in outcome.out[rank] for rank in ranks}
    if (case.fault or case.function) and not case.may_differ and len(said) > 1:
        wrong.append("only some ranks fail")
    return wrong


def signals(algorithms=("ring", "tree", "direct")):
    for algorithm in algorithms:
        for form in ("wait", "pending"):
            for kind in ("kill", "stop"):
                for part in range(PARTS):
                    yield Case(f"{kind} at part {part} of {algorithm}, {form}", algorithm, form, signal=kind, part=part,
                               shrinks=part % 3 == 1, codes=(PEER_LOST,), may_succeed=part >= LAST_CALL)
        for part in range(2, PARTS, 4):
            yield Case(f"pause at part {part} of {algorithm}, start", algorithm, "start", signal="pause", part=part,
                       codes=(PEER_LOST,), may_succeed=part >= LAST_CALL)


def driver_errors():
    number = 0
    for function in FUNCTIONS:
        for code in (700, 719, 2):
            for nth in (1, 2, 3, 0.25, 0.5, 0.7) if function in FUNCTIONS[:2] else (1, 2, 3):
                for form in ("wait", "pending"):
                    algorithm = ("ring", "tree", "direct")[number % 3]
                    number += 1
                    if function == "cuStreamWaitEvent" and (form == "wait" or nth > 2):
                        continue  # one stream waits for no other, and two streams change places twice
                    # In the trial it leads to staging, and of the last calls the others may have all that they need. A
                    # rank in the middle of a tree may combine nothing.
                    yield Case(f"{function}@{nth}={code} in {algorithm}, {form}", algorithm, form, function=function, nth=nth,
                               result=code, may_succeed=True, may_differ=function in FUNCTIONS[3:] and nth == 3,
                               culprit=0 if function == "cuLaunchKernel" and algorithm == "tree" else CULPRIT)


def set_up():
    peers = 1 if ON_HOSTS else RANKS - 1  # whose slots it opens
    for function, most in (("cuMemCreate", 1), ("cuMemExportToShareableHandle", 1), ("cuMemImportFromShareableHandle", peers),
                           ("cuMemRetainAllocationHandle", 1), ("cuMemAddressReserve", peers + 1),
                           ("cuMemMap", peers + 1), ("cuMemSetAccess", peers + 1), ("cuMemHostRegister", 1)):
        for nth in range(1, most + 1):
            for code in (2, 999):
                for form in ("wait", "pending"):
                    yield Case(f"{function}@{nth}={code} in set-up, {form}", "ring", form, fault=f"{function}@{nth}={code}", staged=True)
    for function, most in (("cuIpcGetMemHandle", 1), ("cuIpcOpenMemHandle", peers), ("cuMemHostRegister", 1)):
        for nth in range(1, most + 1):
            fault = f"cuMemImportFromShareableHandle@*=999;{function}@{nth}=999"
            yield Case(f"{fault} in set-up", "tree", "wait", fault=fault, staged=True)


def others(algorithms=("ring", "tree", "direct")):
    for algorithm in algorithms:
        for form in ("wait", "start", "pending"):
            for what, judged in {"abort": {"codes": (ABORTED,), "shrinks": True, "text": "rank 1 does not like it"},
                                 "leave": {"codes": (PEER_LOST, ABORTED), "shrinks": True},
                                 "destroy": {"codes": (PEER_LOST, ABORTED), "may_succeed": True},
                                 "count": {"codes": (MISMATCH,), "shrinks": True, "text": "3001 x i32"},
                                 "host": {"codes": (MISMATCH,), "shrinks": True, "text": "host memory"},
                                 "stuck": {"codes": (TIMEOUT,), "timeout": 3, "text": "its stream has other work to do"},
                                 "none": {"codes": (TIMEOUT,), "timeout": 3, "text": "waits in recv"}}.items():
                yield Case(f"{what} in {algorithm}, {form}", algorithm, form, what=what, **judged)


def long_and_crowded():
    """Messages that are on their way when their sender fails, and callers whom the driver keeps when a rank fails."""
    for algorithm in ("ring", "tree", "direct"):
        for form in ("wait", "pending"):
            for part in range(0, PARTS, 2):
                kind = ("kill", "stop")[part // 2 % 2]
                yield Case(f"{kind} at part {part} of long {algorithm}, {form}", algorithm, form, signal=kind, part=part,
                           elements=LONG, codes=(PEER_LOST,), may_succeed=part >= LAST_CALL)
                yield Case(f"{kind} at part {part} of {algorithm}, {form}, few at once", algorithm, form, signal=kind,
                           part=part, **CROWDED, codes=(PEER_LOST,), may_succeed=part >= LAST_CALL)
            yield Case(f"abort in long {algorithm}, {form}", algorithm, form, what="abort", elements=LONG,
                       codes=(ABORTED,), shrinks=True, text="rank 1 does not like it")
            yield Case(f"none in {algorithm}, {form}, few at once", algorithm, form, what="none", **CROWDED,
                       codes=(TIMEOUT,), timeout=6, text="waits in recv")
            yield Case(f"leave in {algorithm}, {form}, few at once", algorithm, form, what="leave", **CROWDED,
                       codes=(PEER_LOST, ABORTED), shrinks=True)


def in_each_others_memory():
    """The same where kernels of one rank use the memory of others, in as few commands."""
    if ON_HOSTS:
        return
    for mode, algorithm in (("leader", "direct"), ("one-shot", "direct"), ("two-shot", "direct_two_shot"), ("kernel", "direct"),
                            ("kernel", "direct_two_shot")):
        for case in (*signals(("direct",)), *driver_errors(), *others(("direct",))):
            # A kernel that waits itself has no commands for that.
            if case.form != "start" and not (mode == "kernel" and case.function == "cuStreamBatchMemOp"):
                leads = mode == "leader" and case.function == "cuLaunchKernel"
                yield dataclasses.replace(case, name=f"{case.name}, {mode}", algorithm=algorithm, mode=mode,
                                          culprit=0 if leads else case.culprit)


def in_graphs():
    """Calls that were captured. A rank that does something else in the second turn does not launch the graph then."""
    if ON_HOSTS:
        return
    for mode, algorithm in (("streams", "ring"), ("streams", "tree"), ("leader", "direct"), ("two-shot", "direct_two_shot")):
        names = {"mode": mode, "algorithm": algorithm, "form": "graph"}
        for kind in ("kill", "stop"):
            for part in range(PARTS):
                yield Case(f"{kind} at part {part} of {algorithm} in a graph, {mode}", **names, signal=kind, part=part,
                           shrinks=part % 3 == 1, codes=(PEER_LOST,), may_succeed=part >= LAST_CALL)
        for what, judged in {"abort": {"codes": (ABORTED,), "shrinks": True, "text": "rank 1 does not like it"},
                             "leave": {"codes": (PEER_LOST, ABORTED), "shrinks": True},
                             "destroy": {"codes": (PEER_LOST, ABORTED), "may_succeed": True},
                             "none": {"codes": (TIMEOUT,), "timeout": 3, "text": "waits in recv"}}.items():
            yield Case(f"{what} in {algorithm} in a graph, {mode}", **names, what=what, **judged)
        for function in ("cuStreamBatchMemOp", "cuLaunchHostFunc"):
            for nth in (0.5, 0.7):
                yield Case(f"{function}@{nth}=2 in {algorithm} in a graph, {mode}", **names, function=function, nth=nth,
                           result=2, may_succeed=True)


def main():
    chosen = all_cases = [*signals(), *driver_errors(), *set_up(), *others(), *long_and_crowded(), *in_each_others_memory(),
                          *in_graphs()]
    seed = os.environ.get("TEST_SAMPLE", "0")
    if ONLY:
        chosen = [case for case in all_cases if re.search(ONLY[0], case.name)]
    elif seed != "all":
        chosen = random.Random(seed).sample(all_cases, 10 if ON_HOSTS else 14)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case, outcome in zip(chosen, pool.map(run, chosen)):
            if wrong := judge(case, outcome):
                bad += 1
                print(f"{case.name} ({outcome.took:.1f} s): {'; '.join(wrong)}")
                print("".join(outcome.out), "".join(outcome.err), sep="", flush=True)
    print(f"{len(chosen)} of {len(all_cases)} cases, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
