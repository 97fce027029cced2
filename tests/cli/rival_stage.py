"""What tests of the comparison with other libraries share: sides that are made up, and real ones for a moment."""

import csv
import os
import pathlib
import shutil

import harness
from harness import Case, tutti

# The first line of a file of rows.
HEADER = ("transport,collective,ranks,size,bytes,side,setting,repetition,cores,time_us,min_us,p95_us,loop_us,skew_us,"
          "iterations,wrong,probe_before_ns,probe_after_ns,trouble")

# A side: it tells its version; rank 0 notes that it was started, and says what this test wants to hear. TIME may depend
# on $setting. BEFORE may use what it is told of $cores, too, and which of them it has $probed.
SIDE = """#!/bin/sh
[ "$1" != --version ] || { VERSION; exit; }
[ "${RANK:-0}" = 0 ] || exit 0
while [ $# -gt 0 ]; do
  case $1 in --sizes) sizes=$2 ;; --setting) setting=$2 ;; --cores) cores=$2 ;; --probe-cores) probed=$2 ;; esac
  shift 2
done
echo "NAME $setting $sizes" >>FOLDER/started
for size in $(echo "$sizes" | tr , ' '); do
  case $setting in SLOW) time=9.0 ;; *) time=TIME ;; esac
  BEFORE
  echo "row $size $size $time 0.5 9.5 $time 0.1 50 WRONG PROBES"
done
echo end
AFTER
"""

# What takes words of its own before the program.
LAUNCHER = """#!/bin/sh
while [ "${1##*/tutti-rival-}" = "$1" ]; do shift; done
exec "$@"
"""


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)


def lines_of_rows(path):
    return [line for line in path.read_text().splitlines() if not line.startswith("# ")]


def read_rows(path):
    return list(csv.DictReader(lines_of_rows(path)))


class Stage(Case):
    """Each side is a script."""

    def setUp(self):
        super().setUp()
        self.launchers = self.folder / "bin"
        self.launchers.mkdir()
        for name in ("mpirun.openmpi", "mpirun.mpich"):
            script(self.launchers / name, LAUNCHER)
        self.side("self", time="2.0")
        self.side("limit", time="1.0")
        self.side("openmpi", time="3.0", slow="copy")

    def side(self, name, time="1.0", slow="none", before="", after="", wrong="0", probes="100 110",
             version=None):
        text = SIDE
        version = version or f"echo {name} 1.0"
        for mark, value in (("VERSION", version), ("NAME", name), ("FOLDER", str(self.folder)), ("SLOW", slow), ("TIME", time),
                            ("BEFORE", before), ("AFTER", after), ("WRONG", wrong), ("PROBES", probes)):
            text = text.replace(mark, value)
        script(self.folder / f"tutti-rival-{name}", text)

    def bench(self, *words, rivals="openmpi", **options):
        path = f"{self.launchers}:{os.environ['PATH']}"
        return tutti("bench", *words, "--against", rivals, "--rivals-dir", self.folder, env={"PATH": path}, **options)

    def started(self):
        return (self.folder / "started").read_text().splitlines()

    def rows(self):
        return read_rows(self.folder / "rows.csv")


CALLS = {"all_reduce", "all_reduce_inplace", "broadcast", "all_gather", "reduce_scatter", "alltoall", "reduce", "gather",
         "scatter", "barrier", "sendrecv"}


def rivals_here(launchers):
    """Of those whose launchers, files or names in PATH, are given."""
    folder = pathlib.Path(harness.PROGRAM).resolve().parent / "cli/bench/compare_libraries/rivals"
    return [rival for rival, launcher in launchers.items() if (folder / f"tutti-rival-{rival}").exists()
            and (launcher == "" or shutil.which(launcher))]


class Measuring(Case):
    """Real libraries, for a moment: what they give is right, how fast they are is not the matter."""

    rivals = []

    def compare(self, *words, limit=60):
        done = tutti("bench", *words, "--against", ",".join(self.rivals), "--repetitions", "1", "--min-time",
                     "0.002", "--max-time", "0.02", "--csv", self.folder / "rows.csv", limit=limit)
        self.assertEqual(done.code, 0, done)
        rows = read_rows(self.folder / "rows.csv")
        for row in rows:
            self.assertEqual((row["wrong"], row["trouble"]), ("0", ""), row)
            self.assertGreater(float(row["time_us"]), 0, row)
            self.assertGreater(float(row["loop_us"]), 0, row)
        return rows
