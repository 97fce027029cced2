"""docs/learn: the Python of each lesson runs, and prints what the lesson says."""

import os
import re
import sys
import unittest

from support import ROOT, Case, run

LESSONS = sorted((ROOT / "docs/learn").glob("[0-9]*.md"))


def kinds(printed):
    """The algorithms that were measured, in order; times are others here."""
    return re.findall(r"(?m)^(\S+) +[\d.e+]+ ms$", printed)


class Lessons(Case):
    def test_each_prints_what_it_says(self):
        self.assertEqual(len(LESSONS), 11)
        for lesson in LESSONS:
            with self.subTest(lesson=lesson.name):
                ((program, printed),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", lesson.read_text(), re.S)
                done = run(sys.executable, "-c", program)
                self.assertEqual((done.code, done.out), (0, printed), done)

    def test_programs_that_measure_run(self):
        """On hosts that tools/hosts plays, where it may, with small arrays. A sample tries one: starting takes long."""
        block = re.compile(r"```text\n\$ (.*?[^\\])\n(.*?)```", re.S)
        known = [found for lesson in LESSONS for found in block.findall(lesson.read_text())]
        self.assertEqual(len(known), 4)
        number = os.environ.get("TEST_SAMPLE", "all")
        for command, printed in known if number == "all" else [known[int(number) % len(known)]]:
            command = command.replace("\\\n", " ").replace("build-python/bin/tutti", f"{sys.prefix}/bin/tutti")
            with self.subTest(command=command):
                words = f"cd {ROOT} && {command.replace(' 4M ', ' 64K ')}"
                done = run("sh", "-c", words, PATH=f"{os.defpath}:/usr/sbin:/sbin")
                if done.code == 3:
                    self.skipTest(done.err)
                self.assertEqual(done.code, 0, done)
                self.assertEqual(kinds(done.out), kinds(printed))

    def test_nothing_of_it_is_shown_only(self):
        for lesson in LESSONS:
            self.assertEqual(lesson.read_text().count("```python"), 1, lesson.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
