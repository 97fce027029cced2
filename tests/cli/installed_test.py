#!/usr/bin/env python3
"""Manual pages render without warnings and have what the help has; completions offer what the program knows.

    tests/cli/installed_test.py SOURCES PAGES TUTTI

SOURCES is the folder with tutti.bash, PAGES the build folder with tutti.1 and the completions of other shells.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

LESSONS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/learn"

SUBCOMMANDS = ["run", "bench", "plan", "simulate", "learn", "tune", "blackbox", "trace", "store", "doctor"]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=harness.clean_environment(), **options)


class ManPages(unittest.TestCase):
    def pages(self):
        return {path.stem: path for path in sorted(PAGES.glob("*.1"))}

    def test_each_subcommand_has_one(self):
        self.assertEqual(set(self.pages()), {"tutti", *(f"tutti-{one}" for one in SUBCOMMANDS)})

    def test_they_have_each_option_of_the_help(self):
        for name, path in self.pages().items():
            page = path.read_text().replace("\\-", "-")
            printed = run([harness.PROGRAM, *name.split("-")[1:], "--help"]).stdout
            options = re.findall(r"^ {2,8}(-\S+)", printed, re.M)
            self.assertTrue(options or name == "tutti", name)
            for option in options:
                self.assertIn(f"\\fB{option.rstrip(',')}", page, name)

    @unittest.skipUnless(shutil.which("groff"), "groff is not here")
    def test_groff_has_nothing_to_say(self):
        for name, path in self.pages().items():
            done = run(["groff", "-man", "-ww", "-Tutf8", "-K", "utf8", str(path)])
            self.assertEqual(done.stderr, "", name)
            self.assertIn("SYNOPSIS", re.sub("\x1b\\[[0-9]*m|.\b", "", done.stdout))

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not here")
    def test_mandoc_has_nothing_to_say(self):
        for name, path in self.pages().items():
            self.assertEqual(run(["mandoc", "-T", "lint", "-W", "warning", str(path)]).stdout, "", name)


class Completion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tutti").symlink_to(pathlib.Path(harness.PROGRAM).resolve())

    def words(self, *words):
        """What bash offers for the last of these words, by the function that the script has registered."""
        script = ('source "$1"; shift; function=$(complete -p tutti | sed "s/.*-F \\([^ ]*\\).*/\\1/"); COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); "$function"; printf "%s\\n" "${COMPREPLY[@]}"')
        done = run(["bash", "--norc", "-c", script, "bash", str(SCRIPTS / "tutti.bash"), str(self.folder / "tutti"), *words],
                   cwd=self.folder)
        self.assertEqual(done.stderr, "", words)
        return done.stdout.split()

    def test_subcommands(self):
        self.assertEqual(self.words(""), [*SUBCOMMANDS, "--help", "--version"])
        self.assertEqual(self.words("bl"), ["blackbox"])

    def test_options_of_each_subcommand(self):
        for one in SUBCOMMANDS:
            printed = run([harness.PROGRAM, one, "--help"]).stdout
            named = {name for line in re.findall(r"^ {2,8}(-[^\s,]+(?:, *-[^\s,]+)*)", printed, re.M) for name in re.split(r", *", line)}
            self.assertTrue(named, one)
            self.assertEqual(set(self.words(one, "-")), named, one)
        self.assertEqual(self.words("run", "--lab"), ["--label"])
        self.assertIn("--rdzv", self.words("store", "get", "--"))
        self.assertEqual(self.words("bench", "kernels", "--form"), ["--form", "--format"])

    def test_values(self):
        self.assertEqual(self.words("run", "--label", ""), ["always", "never"])
        self.assertEqual(self.words("run", "--label", "=", "n"), ["never"])
        self.assertEqual(self.words("bench", "kernels", "--format", ""), ["table", "csv", "json"])
        self.assertEqual(self.words("plan", "--transport", "s"), ["shm"])

    def test_collectives_and_algorithms(self):
        self.assertEqual(self.words("plan", "all_"), ["all_reduce", "all_gather", "all_to_all"])
        self.assertEqual(self.words("bench", "alltoall"), ["alltoall", "alltoallv"])
        self.assertEqual(self.words("plan", "scatter", "--algo", ""), ["direct", "tree"])
        self.assertEqual(self.words("plan", "all_reduce", "--algorithm", "dou"), ["double_binary_tree", "doubling"])
        self.assertIn("ring,tree", self.words("plan", "all_reduce", "--compare", "ring,t"))

    def test_other_words(self):
        self.assertEqual(self.words("store", ""), ["get", "set", "add", "wait", "keys", "delete"])
        self.assertEqual(self.words("store", "get", ""), [])  # file names
        lessons = sorted(int(file.name[:2]) for file in LESSONS.glob("[0-9]*.md"))
        self.assertEqual(self.words("learn", ""), [str(lesson) for lesson in lessons])

    def test_a_program_under_run(self):
        nested = str(self.folder / "tutti")
        self.assertEqual(self.words("run", "-n", "2", "--label", "never", nested, "plan", "all_r"), ["all_reduce"])
        self.assertEqual(self.words("run", "-n", "2", "./prog", "--lab"), [])

    def installed(self, name):
        """The completion of another shell, which calls the script for bash where that will be installed."""
        text = (PAGES / name).read_text()
        script = re.search(r"bash (/\S+/bash-completion/completions/tutti) ", text)
        self.assertTrue(script, text)
        path = self.folder / name
        path.write_text(text.replace(script[1], str(SCRIPTS / "tutti.bash")))
        return path

    @unittest.skipUnless(shutil.which("fish"), "fish is not here")
    def test_fish(self):
        command = f"source {self.installed('tutti.fish')}; complete -C '{self.folder}/tutti {{}}'"
        for words, wanted in (("run --label ", ["always", "never"]), ("trace tutti.f", ["tutti.fish"])):
            done = run(["fish", "--no-config", "-c", command.format(words)], cwd=self.folder)
            self.assertEqual(done.stdout.split(), wanted, done.stderr)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not here")
    def test_zsh(self):
        self.installed("_tutti")
        # The function of the completion sees `words` and CURRENT, and calls compadd.
        script = ('_files() { print files }; compadd() { shift; print -l -- ${(P)1} }; words=("$2/tutti" run --label ""); '
                  'CURRENT=4; source "$1"; words=("$2/tutti" trace ""); CURRENT=3; source "$1"')
        done = run(["zsh", "-f", "-c", f"function complete_it() {{ {script} }}; complete_it \"$@\"", "zsh",
                    str(self.folder / "_tutti"), str(self.folder)], cwd=self.folder)
        self.assertEqual(done.stdout.split(), ["always", "never", "files"], done.stderr)


if __name__ == "__main__":
    SCRIPTS, PAGES = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
    harness.main()
