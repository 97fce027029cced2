#!/usr/bin/env python3
"""Runs the pipeline of mutants.cc over the fake driver: the right one must pass, each faulty one must be found.

    mutants_test.py PROGRAM
"""

import os
import subprocess
import sys

SCHEDULES = ["eager", "lazy", "reverse", "random:1", "random:2"]
SEARCHED = ["lazy", "random:1", "reverse", "eager", *(f"random:{seed}" for seed in range(2, 10))]
FAULTS = ["wait missing", "signal first", "wrong slot", "credit not awaited", "credit not returned", "fork missing",
          "join missing", "buffer reused", "host reads early", "host touches device memory",
          "unsigned poison", "freed while a stream waits", "freed while open elsewhere", "too long"]


def run(program, fault, schedule):
    environment = dict(os.environ, FAKE_CUDA_SCHEDULE=schedule, FAKE_CUDA_PENDING="abort")
    return subprocess.run([program, fault], env=environment, capture_output=True, text=True, timeout=60, check=False)


def main():
    program = sys.argv[1]
    failures = 0
    for schedule in SCHEDULES:
        result = run(program, "right", schedule)
        if result.returncode != 0:
            failures += 1
            print(f"the right pipeline fails under {schedule}: {result.returncode}\n{result.stdout}{result.stderr}")
    for fault in FAULTS:
        # A stream may be delayed, not stopped: each schedule finds "fork missing" in one of three runs.
        tries = (schedule for _ in range(5) for schedule in SEARCHED)
        found = next((schedule for schedule in tries if run(program, fault, schedule).returncode != 0), None)
        print(f"{fault}: found under {found or 'no schedule'}")
        failures += found is None
    print(f"{len(FAULTS)} faults, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
