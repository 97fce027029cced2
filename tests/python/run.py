#!/usr/bin/env python3
"""tests/python/run.py [NAME ...]: runs the tests of pytutti, all *_test.py here or those named, by the Python that has
it.

The last line has three numbers: passed, failed, skipped.
"""

import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def stopTest(self, test):
        if time.monotonic() - self.begin > 5:
            self.stream.writeln(f"  {test.id()} took {time.monotonic() - self.begin:.1f} s")
        super().stopTest(test)


def main(names):
    sys.path.insert(0, str(HERE))
    modules = [pathlib.Path(name).stem for name in names] or sorted(path.stem for path in HERE.glob("*_test.py"))
    tests = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(name) for name in modules)
    count = tests.countTestCases()
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result, stream=sys.stdout).run(tests)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(max(count - failed - skipped, 0), failed, skipped)
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
