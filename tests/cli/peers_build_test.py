"""README's way to a comparison, `tools/quickstart` and then `tools/peers/install`: the programs that measure link.

Only those that need no library of others and not all of tutti's, in a checkout in which PyTorch seems to be installed.
"""

import pathlib
import re
import shlex

import harness
from harness import Case, run
from rival_stage import script

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = [f"cli/bench/compare_libraries/rivals/{name}" for name in ("tutti-rival-limit", "libtutti-rival-python.so")]


class Build(Case):
    def test_what_measures_beside_other_libraries_links_as_the_quickstart_configures_it(self):
        stage = self.folder / "checkout"
        stage.mkdir()
        for entry in CHECKOUT.iterdir():
            if not entry.name.startswith(("build", ".git", "shared")):
                (stage / entry.name).symlink_to(entry)
        (stage / "build-peers/torch-gloo/bin").mkdir(parents=True)
        script(stage / "build-peers/torch-gloo/bin/python", "#!/bin/sh\n")
        told = run(stage / "tools/quickstart", "--dry-run", "--no-install")
        configure = shlex.split(re.search(r"(?m)^\+ (meson setup build .*)$", told.out).group(1))
        for words in ([*configure, "-Doptimization=0", "-Dexamples=disabled"], ["ninja", "-C", "build", *PROGRAMS]):
            done = run(*words, cwd=stage, limit=250)
            self.assertEqual(done.code, 0, done)
        for program in PROGRAMS:
            self.assertTrue((stage / "build" / program).is_file(), program)


if __name__ == "__main__":
    harness.main()
