"""docs/learn: the Python of each lesson runs, and prints what the lesson says.

Needs the package pytutti (with the program in it, or named by PYTUTTI_PROGRAM) and numpy.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LESSONS = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs/learn").glob("*.md"))
LIMIT = 120  # seconds, for what would otherwise hang


class Lessons(unittest.TestCase):
    def test_each_prints_what_it_says(self):
        self.assertEqual(len(LESSONS), 10)
        for lesson in LESSONS:
            with self.subTest(lesson=lesson.name), tempfile.TemporaryDirectory() as folder:
                (program, printed), = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", lesson.read_text(), re.S)
                done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
                self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)

    def test_nothing_of_it_is_shown_only(self):
        for lesson in LESSONS:
            self.assertEqual(lesson.read_text().count("```python"), 1, lesson.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
