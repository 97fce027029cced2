"""What is installed: the program, the header, types, and what is loaded when."""

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys

import pytutti
from pytutti import errors, names, ops, types
from pytutti._core import ffi, lib
from support import ROOT, Case, ranks, run

PACKAGE = pathlib.Path(pytutti.__file__).parent
EXAMPLES = ROOT / "examples" / "python"


class Package(Case):
    def test_it_is_the_wheel_and_nothing_else_builds_here(self):
        self.assertIn("site-packages", PACKAGE.parts)
        for tool in ("cc", "gcc", "g++", "clang", "meson", "ninja"):
            self.assertIsNone(shutil.which(tool), f"{tool} is in PATH: this is to be tried without")

    def test_the_program(self):
        self.assertEqual(pathlib.Path(pytutti.program()), PACKAGE / "bin" / "tutti")
        version = importlib.metadata.version("pytutti")
        self.assertEqual(pytutti.__version__, version)
        for words in ([sys.executable, "-m", "pytutti"], [pathlib.Path(sys.executable).parent / "tutti"]):
            self.assertIn(version, run(*words, "--version").out)
        done = run(sys.executable, "-m", "pytutti", "bench", "all_reduce", "-g", "2", "-b", "8", "-e", "64", "-n", "5")
        self.assertEqual(done.code, 0, done)
        done = run(sys.executable, "-m", "pytutti", "plan", "all_reduce", "--algorithm", "ring", "-n", "4")
        self.assertEqual(done.code, 0, done)
        done = run(sys.executable, "-m", "pytutti", "run", PYTUTTI_PROGRAM="/no/where")
        self.assertIn("cannot start /no/where", done.err)

    def test_it_contains_the_headers_of_c_and_says_that_it_is_typed(self):
        """All functions that its library exports can be called."""
        for header in (ROOT / "lib" / "include" / "tutti").glob("c*.h"):
            text = header.read_text()
            if "TUTTI_C_API" in text:
                self.assertEqual((PACKAGE / "include" / "tutti" / header.name).read_text(), text)
        self.assertTrue((PACKAGE / "py.typed").exists())

    def test_nothing_but_the_program_is_loaded_at_first(self):
        code = "import sys, pytutti; pytutti.program(); print('numpy' in sys.modules, 'cffi' in sys.modules)"
        self.assertEqual(run(sys.executable, "-c", code).out, "False False\n")
        code = "from pytutti import *; import pytutti as p; print(set(p.__all__) - set(globals()), 'connect' in dir(p))"
        self.assertEqual(run(sys.executable, "-c", code).out, "set() True\n")
        self.assert_fails(AttributeError, "no attribute 'conect'", getattr, pytutti, "conect")

    def test_a_source_tree_says_what_it_lacks(self):
        done = run(sys.executable, "-c", "import pytutti; pytutti.connect(0, 1)", PYTHONPATH=str(ROOT / "python"))
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, r"pytutti\._core is not built in .*python/pytutti: .*`tools/wheel dist`")

    def test_libraries_need_nothing_but_the_c_library(self):
        for part in ("lib/libtutti.so.0", "bin/tutti"):
            listed = subprocess.run(
                ["/lib64/ld-linux-x86-64.so.2", "--list", PACKAGE / part], capture_output=True, text=True
            )
            needed = re.findall(r"^\s*(\S+) =>", listed.stdout, re.M)
            self.assertIn("libc.so.6", needed, listed)
            for library in needed:
                self.assertRegex(library, r"^lib[cm]\.so\.6$")


class Numbers(Case):
    """What Python repeats of <tutti/c.h>."""

    def test_names_stand_at_their_numbers(self):
        for number, name in enumerate(types.NAMES):
            self.assertEqual(number, getattr(lib, "TUTTI_" + name.upper()))
        self.assertFalse(any(hasattr(lib, "TUTTI_" + name.upper()) for name in ("f8", "c256")))
        for number, name in enumerate(names.COLLECTIVES):
            self.assertEqual(number, getattr(lib, "TUTTI_" + name.upper()))
        for name, number in ops.KINDS.items():
            self.assertEqual(number, getattr(lib, "TUTTI_" + name.upper()))

    def test_every_result_of_c_is_a_kind_of_error(self):
        for number in range(1, 30):
            name = ffi.string(lib.tutti_result_name(number)).decode()
            words = {"rendezvous": "rendezvous_failed", "system": "system_refused", "unknown": "internal"}.get(
                name, name
            )
            kind = type(errors.made(number, {"message": "text", "rank": 1}))
            self.assertEqual(kind.__name__, "".join(word.capitalize() for word in words.split("_")))


def without_times(lines):
    return [re.sub(r" +[\d.e+]+ ms$", "", line) for line in lines]


class Examples(Case):
    def test_each_does_what_it_says(self):
        names = sorted(path.name for path in EXAMPLES.glob("*.py") if not path.name.startswith("torch_"))
        self.assertGreaterEqual(len(names), 3)
        for name in names:
            text = (EXAMPLES / name).read_text()
            command = re.search(r"^    \$ (.*)$", text, re.M).group(1)
            wanted = re.findall(r"^    (\[\d\] .*|> .*)$", text, re.M)
            words = [sys.executable if word == "python" else word for word in command.split()]
            words = [EXAMPLES / name if word == name else word for word in words]
            done = run(*words)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(
                without_times(done.lines), without_times(sorted(line.removeprefix("> ") for line in wanted)), name
            )


class Launching(Case):
    def test_a_rank_that_raises_is_named_by_the_others_and_by_the_program(self):
        done = ranks(2, "raises.py")
        self.assertNotEqual(done.code, 0)
        self.assertRegex(done.err + done.out, r"\[1\] .*Aborted: .*rank 0 .*LookupError: on purpose")
