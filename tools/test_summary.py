#!/usr/bin/env python3
"""Counts what `meson test` ran: cases of doctest and of Python's unittest one by one, any other test as one.

    tools/test_summary.py LABEL BUILD_FOLDER FAILED

Prints a line per test program and the output of those that failed, whose end it also appends to the file FAILED; the last
line is `passed failed skipped`.
"""

import json
import pathlib
import re
import sys

CASES = re.compile(r"\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.M)
# Lines in which tests say how much they tried, such as "matrix: 221382 cells over tcp".
FIGURES = re.compile(r"^matrix: |mutants, |shapes proved|proved \d+ shapes|^\d+ cases, \d+ wrong|\d+ mismatches$")
SKIP_CODE = 77
OUTPUT_LINES = 80
LINES_AGAIN = 30


def count(test):
    """(passed, failed, skipped) of one entry of Meson's log."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", test.get("stdout", "") + "\n" + test.get("stderr", ""))
    if test["result"] == "SKIP" or test["returncode"] == SKIP_CODE:
        return 0, 0, 1
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    if cases := CASES.search(output):
        ran, passed, failed, skipped = map(int, cases.groups())
    elif cases := UNITTEST.search(output):
        noted = dict(re.findall(r"(\w+)=(\d+)", cases.group(2) or ""))
        failed, skipped = int(noted.get("failures", 0)) + int(noted.get("errors", 0)), int(noted.get("skipped", 0))
        passed = max(0, int(cases.group(1)) - failed - skipped)
        ran = passed + failed + skipped
    else:
        return (1, 0, 0) if good else (0, 1, 0)
    if failed == 0 and (not good or ran == 0):
        failed = 1  # outside its cases; or a filter matches none of them any more
    return passed, failed, skipped


def tell_of_failure(label, name, test, output, lines, file):
    print(f"---- {label}: {name}: {test['result'].lower()}, code {test['returncode']}; the end of its output:", file=file)
    print("\n".join(output[-lines:]), "----", sep="\n", file=file)


def main(label, build, failed_file):
    log = pathlib.Path(build) / "meson-logs" / "testlog.json"
    total = [0, 0, 0]
    for line in log.read_text(encoding="utf-8").splitlines():
        test = json.loads(line)
        passed, failed, skipped = count(test)
        total = [a + b for a, b in zip(total, (passed, failed, skipped))]
        name = test["name"].split(" / ")[-1]
        print(f"{label}: {name:<32} {passed:5d} passed {failed:3d} failed {skipped:3d} skipped {test['duration']:7.1f} s")
        output = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
        for said in filter(FIGURES.search, output):
            print(f"{label}: {said}")
        if failed:
            tell_of_failure(label, name, test, output, OUTPUT_LINES, sys.stdout)
            with open(failed_file, "a", encoding="utf-8") as again:
                tell_of_failure(label, name, test, output, LINES_AGAIN, again)
        elif skipped and not passed and output:
            print(f"{label}: {name} was skipped: {output[-1]}")
    print(*total)


if __name__ == "__main__":
    main(*sys.argv[1:])
