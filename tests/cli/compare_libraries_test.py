"""tutti bench --against: with sides that are made up, what comes of what they say; with real ones, that they run."""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import unittest
import xml.etree.ElementTree

import harness
from harness import Case, run, tutti
from rival_stage import CALLS, HEADER, Measuring, Stage, lines_of_rows, rivals_here


class Invented(Stage):
    """Libraries of the system."""

    def test_the_best_setting_counts_and_is_named_and_what_is_far_behind_is_not_repeated(self):
        done = self.bench("broadcast", "-b", "64", "-e", "1K", "-f", "16", "--repetitions", "4", "--csv",
                          self.folder / "rows.csv")
        self.assertEqual(done.code, 0, done)
        lines = [line for line in done.lines if line.startswith(" broadcast")]
        self.assertEqual(len(lines), 2, done)
        for line in lines:
            self.assertSays(line, r" shm +2 +(64 B|1 KiB) +single +2.00 +3.00 +1.00 +1.50 +2.00 +near +4 +tutti:(bound|"
                            r"free) openmpi:as-shipped$")
        counts = {}
        for row in self.rows():
            key = (row["size"], row["side"], row["setting"])
            counts[key] = counts.get(key, 0) + 1
            self.assertEqual(int(row["repetition"]), counts[key])
        self.assertEqual(counts[("64", "openmpi", "as-shipped")], 4)
        self.assertEqual(counts[("64", "tutti", "bound")], 4)
        self.assertEqual(counts[("64", "limit", "model")], 4)
        self.assertEqual(counts[("64", "openmpi", "copy")], 2)  # three times as slow
        order = [line.split()[0] for line in self.started()]
        self.assertEqual(order[:10], ["self", "self", "openmpi", "openmpi", "limit", "limit", "openmpi", "openmpi",
                                      "self", "self"])

    def test_sides_are_waited_for_whatever_signals_are_inherited(self):
        def ignoring():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGCHLD, signal.SIGTERM])

        self.side("openmpi", before="exit 9")
        done = self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "1", "-T", "5", preexec_fn=ignoring)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, "openmpi: exit code 9")

    def test_where_ranks_outnumber_cores_small_sizes_count_by_the_loop(self):
        ranks = 2 * len(os.sched_getaffinity(0))
        done = self.bench("broadcast", "-g", ranks, "-b", "1K", "-e", "2K", "-f", "2", "--repetitions", "1")
        self.assertSays(done.out, r"1 KiB +loop ", r"2 KiB +single ")

    def test_rows_of_different_states_are_never_compared(self):
        self.side("self", time="2.0", probes="500 550")
        done = self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "1", "--csv", self.folder / "rows.csv")
        self.assertSays(done.out, r" 64 B +single +- +3.00 +1.00 +- +- +near ")
        self.side("openmpi", time="3.0", probes="500 110")  # changed meanwhile
        self.side("limit", time="1.0", probes="600 600")
        done = self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "2")
        self.assertSays(done.out, r" 64 B +single +2.00 +- +1.00 +- +2.00 +far ")
        self.assertEqual(sum(line.startswith("openmpi as-shipped") for line in self.started()), 1 + 4)  # twice as many

    def test_all_sides_probe_the_same_two_cores_wherever_they_are_bound(self):
        for side in ("self", "openmpi", "limit"):
            self.side(side, before=f'echo "$probed of $cores" >>{self.folder}/told')
        allowed = sorted(os.sched_getaffinity(0))
        for cores in (allowed, allowed[-2:], allowed[-1:]):
            done = self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "1",
                              preexec_fn=lambda cores=cores: os.sched_setaffinity(0, cores))
            self.assertEqual(done.code, 0, done)
            told = (self.folder / "told").read_text().splitlines()
            self.assertGreater(len(told), 3)
            self.assertEqual(set(told), {told[0]})
            self.assertRegex(told[0], f"^{','.join(map(str, cores[:2]))} of [0-9]+$")
            self.assertLessEqual(int(told[0].split()[-1]), len(cores))  # a cgroup may grant fewer
            (self.folder / "told").unlink()

    def test_a_run_goes_on_from_its_file(self):
        words = ["broadcast", "-b", "64", "-e", "4K", "-f", "8", "--repetitions", "2", "--csv", self.folder / "rows.csv"]
        first = self.bench(*words)
        before = len(self.started())
        whole = self.rows()
        again = self.bench(*words)
        self.assertEqual(again.out, first.out)
        self.assertEqual((len(self.started()), self.rows()), (before, whole))
        lines = (self.folder / "rows.csv").read_text().splitlines()
        kept = [line for line in lines if not ("tutti,free,2" in line and ",512," in line)]
        self.assertEqual(len(lines) - len(kept), 1)
        (self.folder / "rows.csv").write_text("\n".join(kept) + "\n")
        self.assertEqual(self.bench(*words).code, 0)
        self.assertEqual(self.started()[before:], ["self free 512"])
        self.assertEqual(len(self.rows()), len(whole))

    def test_a_run_goes_on_from_a_file_whose_last_line_was_cut_off(self):
        rows = self.folder / "rows.csv"
        words = ["broadcast", "-b", "64", "-e", "64", "--repetitions", "1", "--csv", rows]
        whole = self.bench(*words).out
        text = rows.read_text()
        for cut in (text[:-30], text[:-1], text[:20], ""):
            rows.write_text(cut)
            self.assertEqual(tutti("bench", "--summary", "--csv", rows).code, 0 if len(cut) > len(HEADER) else 6)
            self.assertEqual(rows.read_text(), cut)  # which only reads
            self.assertEqual(self.bench(*words).out, whole)
            self.assertEqual(rows.read_text(), text)

    def test_rows_of_a_grid_of_fewer_sizes_are_kept_and_those_that_lack_are_added(self):
        words = ["--grid", "broadcast", "-g", "2", "-b", "1K", "-e", "1M", "--transport", "shm", "--repetitions", "1",
                 "--csv", self.folder / "rows.csv"]
        whole = self.bench(*words)
        size = 3  # a column
        lines = (self.folder / "rows.csv").read_text().splitlines()
        fewer = [line for line in lines if line.startswith("#") or line.split(",")[size] not in ("16384", "262144")]
        self.assertLess(len(fewer), len(lines))
        (self.folder / "rows.csv").write_text("\n".join(fewer) + "\n")
        summary = ["bench", "--summary", "--csv", self.folder / "rows.csv"]
        self.assertSays(tutti(*summary).out, r"shm, 2 ranks, geometric mean +>= 1.50 +1.50 +3  met")
        before = len(self.started())
        self.assertEqual(self.bench(*words).out, whole.out)
        self.assertIn("self free 16384,262144", self.started()[before:])
        self.assertEqual((self.folder / "rows.csv").read_text().splitlines()[: len(fewer)], fewer)
        self.assertSays(tutti(*summary).out, r"shm, 2 ranks, geometric mean +>= 1.50 +1.50 +5  met")

    def test_the_grid_takes_its_sizes_and_ends_with_the_summary(self):
        for words, points in ((["-e", "1K"], ["4 B", "1 KiB"]), (["-b", "20M"], ["64 MiB"]),
                              (["-b", "2K", "-e", "512K"], ["16 KiB", "64 KiB", "256 KiB"])):
            done = self.bench("--grid", "all_reduce", "-g", "2", "--transport", "shm", "--repetitions", "1", *words)
            self.assertEqual(done.code, 0, done)
            found = [" ".join(line.split()[i] for i in (0, 3, 4)) for line in done.lines if line.startswith(" all")]
            self.assertEqual(found, [f"{call} {size}" for call in ("all_reduce", "all_reduce_inplace") for size in points])
            self.assertSays(done.out, rf"shm, 2 ranks, geometric mean +>= 1.50 +1.50 +{2 * len(points)}  met")
        self.assertEqual(self.bench("--grid", "barrier", "-g", "2", "--transport", "shm", "--repetitions", "1").code, 0)
        self.assertEqual(self.bench("broadcast", "-b", "5K", "-e", "6K").code, 6)

    def test_rows_of_another_tutti_or_another_machine_are_refused(self):
        rows = self.folder / "rows.csv"
        words = ["broadcast", "-b", "64", "-e", "64", "--repetitions", "1", "--csv", rows]
        self.side("self", time="2.0", version="echo tutti 0.1")
        self.assertEqual(self.bench(*words).code, 0)
        text = rows.read_text()
        self.assertSays(text, r"(?m)^# tutti is tutti 0.1$", r"(?m)^# the processor is \S.*$")
        self.side("self", time="20.0", version="echo tutti 0.2")
        done = self.bench(*words)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, r"has rows of tutti that is tutti 0.1, but the one here is tutti 0.2; give --csv another file")
        self.side("self", time="2.0", version="echo tutti 0.1")
        rows.write_text(re.sub(r"(?m)^# the processor is .*$", "# the processor is another", text))
        done = self.bench(*words)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, r"has rows of the processor that is another, but the one here is ")
        rows.write_text(re.sub(r"(?m)^# the processor is .*\n", "", text))
        self.assertSays(self.bench(*words).err, "rows.csv has rows that do not say what the processor is; give --csv another")
        self.side("mpich")
        rows.write_text(other := text.replace("# tutti is tutti 0.1", "# tutti is tutti 0.0"))
        self.assertEqual((self.bench(*words, rivals="mpich").code, rows.read_text()), (6, other))  # without mpich's version

    def test_a_file_of_someone_else_is_refused_and_left_alone(self):
        row = "shm,broadcast,2,64,64,openmpi,s,1,2,{},1,1,{},0,9,0,100,100,"
        wrong = (("inf", "1"), ("nan", "1"), ("2x", "1"), ("1", "-inf"), ("", "1"))
        for text, line in (("a,b\n1,2\n", 1), ("a", 1), (HEADER + "\nshm,broadcast,2\n", 2),
                           *((f"{HEADER}\n{row.format(1, 1)}\n{row.format(*times)}\n", 3) for times in wrong)):
            (self.folder / "rows.csv").write_text(text)
            done = self.bench("broadcast", "--csv", self.folder / "rows.csv")
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, f"line {line} of .*rows.csv")
            self.assertEqual((self.folder / "rows.csv").read_text(), text)

    def test_who_hangs_or_crashes_is_ended_and_its_cell_says_so(self):
        patience = 10 if harness.is_sanitized() else 2
        self.side("gloo", before='[ "$size" != 512 ] || sleep 600')
        self.side("mpich", before='[ "$size" != 512 ] || { echo "no more of it, sorry" >&2; exit 9; }')
        done = self.bench("broadcast", "--transport", "tcp", "-b", "64", "-e", "4K", "-f", "8", "--repetitions", "1",
                          "-T", patience, "--csv", self.folder / "rows.csv", rivals="mpich,gloo")
        self.assertEqual(done.code, 0, done)
        self.assertLess(done.seconds, 10 * patience)
        self.assertSays(done.out, r"512 B +single +2.00 +x +x .*; mpich: exit code 9: no more of it, sorry; "
                        f"gloo: killed after {patience} s")
        self.assertSays(done.out, r"64 B +single +2.00 +1.00 +1.00 ", r"4 KiB +single +2.00 +1.00 +1.00 ")
        self.assertEqual(len({len(line.split(",")) for line in lines_of_rows(self.folder / "rows.csv")}), 1)

    def test_who_does_not_end_after_its_figures_has_them_all_the_same(self):
        self.side("openmpi", time="3.0", after="sleep 600")
        done = self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "1")
        self.assertSays(done.out, r"64 B +single +2.00 +3.00 +1.00 +1.50")
        self.assertNotIn("killed", done.out)

    def test_tuttis_own_failure_and_anyones_wrong_data_end_the_run_badly(self):
        self.side("openmpi", time="0.1", wrong="3")
        done = self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "1")
        self.assertEqual(done.code, 7, done)
        self.assertSays(done.out, r"64 B +single +2.00 +x +1.00 +- .*openmpi: WRONG DATA")
        self.side("openmpi")
        self.side("self", before="exit 1")
        self.assertEqual(self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "1").code, 3)
        self.side("self", time="2.0", before='[ "$setting" != free ] || exit 9')
        done = self.bench("broadcast", "-b", "64", "-e", "64", "--repetitions", "1")
        self.assertEqual(done.code, 3, done)
        self.assertSays(done.out, r"64 B +single +2.00 +1.00 +1.00 .*tutti:bound .*; tutti: free: exit code 9")

    def test_json_csv_and_a_picture_say_the_same(self):
        words = ["broadcast", "-b", "64", "-e", "4K", "-f", "8", "--repetitions", "1"]
        done = self.bench(*words, "--format", "json", "--svg", self.folder / "a.svg", "-J", self.folder / "a.json")
        data = json.loads(done.out)
        self.assertEqual(json.loads((self.folder / "a.json").read_text())["points"], data["points"])
        self.assertEqual([p["size"] for p in data["points"]], [64, 512, 4096])
        point = data["points"][0]
        self.assertEqual((point["ratio"], point["to_limit"], point["state"]), (1.5, 2, "near"))
        self.assertEqual((point["sides"]["openmpi"]["us"], point["sides"]["openmpi"]["setting"]), (3, "as-shipped"))
        self.assertTrue(any("network namespace" in note for note in data["tutti"]["notes"]), data["tutti"])
        picture = xml.etree.ElementTree.parse(self.folder / "a.svg").getroot()
        self.assertEqual(len(picture.findall(".//{*}circle")), 3 * 3)
        self.assertEqual({t.text for t in picture.findall(".//{*}g/{*}text")} & {"tutti", "openmpi", "limit"},
                         {"tutti", "openmpi", "limit"})
        rows = list(csv.DictReader(io.StringIO(self.bench(*words, "--format", "csv").out)))
        self.assertEqual([r["side"] for r in rows[:3]], ["tutti", "openmpi", "limit"])
        self.assertEqual({(r["ratio"], r["to_limit"]) for r in rows}, {("1.500000", "2.000000")})

    def test_wrong_wishes_are_told_before_anything_starts(self):
        for code, words, rivals, says in (
                (6, [], "opnempi", "no library .opnempi.. Did you mean .openmpi.*torch-gloo, nccl and torch-symm"),
                (5, [], "openmpi,gloo", "gloo is not installed.*libgloo-dev"),
                (6, ["--transport", "shmm"], "openmpi", "shm, tcp or hosts:2 to hosts:64"),
                (6, ["--transport", "hosts:1"], "openmpi", "shm, tcp or hosts:2 to hosts:64"),
                (6, ["--transport", "hosts:2", "-g", "3"], "openmpi", "3 ranks are not as many on each of 2 hosts"),
                (6, ["--transport", "hosts:2"], "openmpi", "openmpi is not started on several hosts.*openmpi5 and gloo are"),
                (6, ["-g", "1"], "openmpi", "1 ranks"),
                (5, ["-o", "max"], "openmpi", "--op has no effect")):
            done = self.bench("all_reduce", *words, rivals=rivals)
            self.assertEqual(done.code, code, (words, done))
            self.assertSays(done.err, says)
        self.assertEqual(self.bench("alltoallv").code, 5)
        self.side("gloo")
        done = self.bench("all_reduce", rivals="gloo")
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "gloo has no shared memory.*Give another --transport")
        done = self.bench("all_reduce", "--transport", "hosts:2", rivals="gloo")
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "no /run/netns/host0, the network of host 0. In the checkout run: tools/hosts 2 --once")
        (self.launchers / "mpirun.openmpi").unlink()
        if not shutil.which("mpirun.openmpi"):
            done = self.bench("all_reduce")
            self.assertSays(done.err, "no mpirun.openmpi in PATH.*openmpi-bin")
        self.assertFalse((self.folder / "started").exists())
        self.assertEqual(tutti("bench", "all_reduce", "--csv", self.folder / "x.csv").code, 6)
        self.assertEqual(tutti("bench", "--summary").code, 6)
        for words in (["--compute", "100"], ["--against", "all", "--compute", "100", "--csv", self.folder / "x.csv"],
                      ["--against", "all", "--compute", "100", "--grid"], ["--against", "all", "--compute", "0"]):
            done = tutti("bench", "all_reduce", *words)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, "--?compute")


class Own(Case):
    def test_another_build_of_tutti_is_another_version(self):
        build = pathlib.Path(harness.PROGRAM).resolve().parent
        program = build / "cli/bench/compare_libraries/rivals/tutti-rival-self"
        if not program.exists():
            self.skipTest("nothing is measured beside other libraries where a sanitizer watches")
        other = self.folder / "self"
        shutil.copy(program, other)
        with other.open("ab") as file:
            file.write(b"changed")
        versions = {run(built, "--version").out for built in (program, program, other)}
        self.assertEqual(len(versions), 2, versions)
        options = {option["name"]: option["value"]
                   for option in json.loads((build / "meson-info/intro-buildoptions.json").read_text())}
        asserts = options["b_ndebug"] == "false" or (options["b_ndebug"] == "if-release" and
                                                     options["buildtype"] not in ("release", "plain"))
        for version in versions:
            self.assertRegex(version, r"^tutti \d+\.\d+\.\d+, build [0-9a-f]+" +
                             (" with assertions, .*" if asserts else "") + r"\n$")


OF_DEBIAN = {"openmpi": "mpirun.openmpi", "mpich": "mpirun.mpich", "gloo": ""}


class Real(Measuring):
    """Those of the system."""

    def setUp(self):
        super().setUp()
        self.rivals = rivals_here(OF_DEBIAN)
        if not self.rivals:
            self.skipTest("no other library is here (libopenmpi-dev, libmpich-dev, libgloo-dev)")

    def test_all_sides_give_right_results(self):
        rows = self.compare("all_reduce", "-g", "2", "-b", "4", "-e", "20K", "-f", "64", "--transport", "tcp")
        for side in ["tutti", "limit", *self.rivals]:
            self.assertEqual({row["size"] for row in rows if row["side"] == side}, {"4", "256", "16384"}, side)
        if set(self.rivals) - {"gloo"}:
            rows = self.compare("alltoall", "-g", "3", "-b", "1000", "-e", "1000")
            self.assertEqual({row["bytes"] for row in rows if row["collective"] == "alltoall"}, {"1008"})

    def test_every_side_computes_before_its_calls(self):
        transport = "tcp" if self.rivals == ["gloo"] else "shm"  # gloo has no shared memory
        done = tutti("bench", "all_reduce", "-g", "4", "-b", "4", "-e", "4", "--against", "all", "--compute", "3000",
                     "--transport", transport, "--repetitions", "1", "--min-time", "0.02", "--max-time", "0.05", "--format",
                     "csv", limit=60)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.err, "each rank computes 3000 us before each call")
        rows = list(csv.DictReader(io.StringIO(done.out)))
        self.assertIn("limit", {row["side"] for row in rows})
        for row in rows:
            if row["us"] or transport == "tcp":
                self.assertGreater(float(row["us"]), 3000, row)

    @unittest.skipUnless(os.environ.get("TEST_RIVALS") == "all", "takes a minute: TEST_RIVALS=all")
    def test_every_call_of_every_library(self):
        rows = self.compare("--grid", "-g", "4", "-b", "4", "-e", "64K", limit=280)
        for side in ["tutti", "limit", *self.rivals]:
            self.assertEqual({row["collective"] for row in rows if row["side"] == side}, CALLS, side)


if __name__ == "__main__":
    harness.main()
