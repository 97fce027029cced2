"""Network namespaces that a test makes, and its end where it may not."""

import os
import shutil
import subprocess
import sys
import unittest

import harness


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def remove(names):
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)  # takes its cables along


def missing(make, names):
    if shutil.which("ip") is None:
        return "no program ip (apt-get install iproute2)"
    try:
        make()
    except RuntimeError as error:
        return f"cannot make network namespaces ({error})"
    finally:
        remove(names)
    return ""


def main(case, make, names):
    """X_test.py TUTTI JOIN: `case`, whose namespaces `make` makes. Exit code 77 and a reason if that is impossible."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    harness.PROGRAM, harness.JOIN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    reason = missing(make, names)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
