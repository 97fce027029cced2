"""docs/learn: the Python of each lesson runs, and prints what the lesson says."""

import re
import sys
import unittest

from support import ROOT, Case, run

LESSONS = sorted((ROOT / "docs/learn").glob("*.md"))


class Lessons(Case):
    def test_each_prints_what_it_says(self):
        self.assertEqual(len(LESSONS), 10)
        for lesson in LESSONS:
            with self.subTest(lesson=lesson.name):
                ((program, printed),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", lesson.read_text(), re.S)
                done = run(sys.executable, "-c", program)
                self.assertEqual((done.code, done.out), (0, printed), done)

    def test_nothing_of_it_is_shown_only(self):
        for lesson in LESSONS:
            self.assertEqual(lesson.read_text().count("```python"), 1, lesson.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
