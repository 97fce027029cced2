"""tutti bench: real runs of every collective, read as other people's scripts read nccl-tests, and how it ends."""

import json
import os
import re
import signal
import subprocess

import harness
from harness import Case, run, start, tutti

QUICK = ["-n", "2", "-T", "20"]


def rows(done):
    return [line.split() for line in done.lines if line[:1] == " "]


def shell(command, text):
    return subprocess.run(["sh", "-c", command], input=text, capture_output=True, text=True, check=True).stdout


class Footprint(Case):
    def test_startup_waiting_and_memory_are_told(self):
        for what, pattern in (("startup", r"startup, 2 ranks: \d+\.\d ms to the first finished barrier \(.*, 5 starts\)"),
                              ("waiting", r"waiting, 2 ranks: \d+\.\d\d % of a core; .* after the wait \d+\.\d\d us"),
                              ("memory", r"memory, 2 ranks: \d+\.\d MiB resident .*, \d+\.\d MiB of it private")):
            with self.subTest(what):
                done = tutti("bench", what, "-g", "2", "-b", "1M", limit=60)
                self.assertEqual((done.code, done.err), (0, ""), done)
                self.assertEqual(len(done.lines), 1, done)
                self.assertRegex(done.lines[0], f"^{pattern}$")

    def test_it_is_no_program_for_a_launcher(self):
        done = tutti("bench", "memory", "-g", "2", "-b", "1M", env={"WORLD_SIZE": "1"})
        self.assertEqual((done.code, done.out), (6, ""), done)
        self.assertSays(done.err, "WORLD_SIZE is set, but RANK is not")
        for what in ("startup", "waiting", "memory"):
            done = tutti("run", "-n", "2", "--no-label", harness.PROGRAM, "bench", what, "-g", "2", limit=60)
            self.assertEqual((done.code, done.out), (5, ""), done)
            self.assertSays(done.err, f"bench: {what} starts ranks itself; run it without a launcher ")

    def test_wrong_options_are_refused(self):
        for words in (["-x", "1"], ["-g"], ["-g", "0"], ["-g", "2,a"], ["-b", "many"], ["--repetitions", "-1"]):
            with self.subTest(words=words):
                self.assertEqual(tutti("bench", "startup", *words).code, 6)


class Measuring(Case):
    def test_every_collective_gives_right_data_for_awkward_sizes_and_every_root(self):
        for collective in (*harness.collectives(), "alltoallv", "sendrecv"):
            with self.subTest(collective):
                done = tutti("bench", collective, "-g", "3", "-b", "0", "-e", "70K", "-f", "41", "-r", "all", *QUICK)
                self.assertEqual(done.code, 0, done)
                self.assertTrue(rows(done), done)
                for row in rows(done):
                    self.assertEqual(len(row), 13, row)
                    self.assertEqual(row[8], "0", row)
                    self.assertIn(row[12], ("0", "N/A"), row)

    def test_all_types_and_operations(self):
        done = tutti("bench", "all_reduce", "-g", "2", "-b", "100", "-e", "9000", "-f", "90", "-o", "all", "-d", "all",
                     *QUICK, limit=60)
        self.assertEqual(done.code, 0, done)
        self.assertEqual({row[3] for row in rows(done)}, {"sum", "prod", "max", "min", "avg", "mulsum"})
        self.assertEqual(len({row[2] for row in rows(done)}), 10)
        self.assertEqual({row[8] for row in rows(done)} | {row[12] for row in rows(done)}, {"0"})

    def test_small_sizes_of_collectives_with_parts_are_zero(self):
        done = tutti("bench", "all_gather", "-g", "2", "-b", "16", "-e", "64", "-f", "2", *QUICK)
        self.assertEqual([row[0] for row in rows(done)], ["0", "32", "64"], done)
        self.assertEqual([row[1] for row in rows(done)], ["0", "4", "8"], done)

    def test_misaligned_buffers_and_aggregated_blocking_iterations(self):
        for more in (["-u", "3"], ["-m", "3", "-z", "1"], ["-z", "3", "-a", "3"], ["-C", "1"], ["-w", "0", "-c", "3"]):
            done = tutti("bench", "reduce_scatter", "-g", "3", "-b", "1000", "-e", "1000", *more, *QUICK)
            self.assertEqual((done.code, rows(done)[0][8]), (0, "0"), done)

    def test_the_algorithm_is_that_of_the_calls_also_in_allocated_memory_and_with_counts_that_differ(self):
        trace = self.folder / "t.json"
        for words in (["reduce", "-R", "1"], ["all_reduce", "-R", "1"], ["alltoallv"]):
            with self.subTest(words=words):
                done = tutti("run", "-n", "3", "--no-label", "--trace", trace, harness.PROGRAM, "bench", *words, "-b", "1M", "-e", "1M",
                             "--format", "csv", *QUICK)
                self.assertEqual(done.code, 0, done)
                calls = [e["args"] for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "call"]
                made = {call["algorithm"] for call in calls
                        if call["collective"].replace("_", "") == words[0].replace("_", "").rstrip("v") and (call["bytes"] > 300_000 or call["variable"])}
                told = {line.split(",")[6] for line in done.lines if line.startswith("10")}
                self.assertEqual(told, made, done)

    def test_a_named_algorithm_and_transport_and_deterministic_results(self):
        done = tutti("bench", "all_reduce", "-g", "2", "-b", "4K", "-e", "4K", "--algo", "ring", "--transport", "tcp",
                     "--format", "csv", *QUICK)
        self.assertEqual(done.lines[1].split(",")[6], "ring", done)
        self.assertIn("transport tcp", done.err)
        done = tutti("bench", "all_reduce", "-g", "2", "-b", "4K", "-e", "4K", "--deterministic", "1", *QUICK)
        self.assertEqual((done.code, rows(done)[0][8]), (0, "0"), done)

    def test_ranks_keep_to_their_share_of_the_cores_even_if_they_outnumber_them(self):
        cores = len(os.sched_getaffinity(0))
        if cores == 1:
            self.skipTest("a share of one core is that core")
        done = tutti("bench", "barrier", "-g", str(cores + 1), "-b", "0", "-e", "0", *QUICK)
        self.assertEqual(done.code, 0, done)
        self.assertRegex(done.out, rf"# cores {cores}, ranks per core .* \(oversubscribed\), pinned,")

    def test_groups_run_side_by_side(self):
        done = tutti("bench", "all_reduce", "-g", "4", "-b", "64", "-e", "64", *QUICK, env={"NCCL_TESTS_SPLIT": "MOD 2"})
        self.assertEqual((done.code, rows(done)[0][8]), (0, "0"), done)
        self.assertEqual(re.findall(r"Group +(\d)", done.out), ["0", "1", "0", "1"])

    def test_groups_of_different_sizes_have_the_roots_that_all_have(self):
        split = {"NCCL_TESTS_SPLIT": "DIV 3"}
        done = tutti("bench", "reduce", "-g", "5", "-b", "64", "-e", "64", "-r", "all", *QUICK, env=split)
        self.assertEqual(([row[4] for row in rows(done)], done.code), (["0", "1"], 0), done)
        done = tutti("bench", "reduce", "-g", "5", "-b", "64", "-e", "64", "-r", "2", *QUICK, env=split)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, r"bench: root 2 is not one of 2 ranks \(-r\)")

    def test_more_iterations_than_it_makes_are_refused(self):
        for words in (["-n", "2000000"], ["-n", "2000000", "-K", "1500000"]):
            done = tutti("bench", "barrier", "-g", "2", *words)
            self.assertEqual((done.code, done.out), (6, ""), done)

    def test_a_start_window_on_one_host(self):
        done = tutti("bench", "barrier", "-g", "2", "--sync", "window", "--format", "wide", *QUICK)
        self.assertEqual(done.code, 0, done)


class Starting(Case):
    def test_under_tutti_run_the_ranks_are_the_launchers(self):
        done = tutti("run", "-n", "3", harness.PROGRAM, "bench", "all_reduce", "-b", "64", "-e", "64", *QUICK)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(len(re.findall(r"Rank +\d+ Group", done.out)), 3)

    def test_alone_it_is_one_rank(self):
        done = tutti("bench", "all_reduce", "-b", "64", "-e", "64", *QUICK)
        self.assertEqual((done.code, rows(done)[0][7]), (0, "0.00"), done)

    def test_installed_under_another_name_the_name_is_the_collective(self):
        for name in ("alltoall_perf", "all_gather_perf_mpi"):
            link = self.folder / name
            link.symlink_to(harness.PROGRAM)
            done = run(link, "-g", "2", "-b", "1K", "-e", "1K", *QUICK)
            self.assertEqual(done.code, 0, done)
            self.assertIn("# Collective test starting: " + name.removesuffix("_mpi"), done.out)


class Readers(Case):
    """What scripts written for nccl-tests do with the output."""

    @classmethod
    def setUpClass(cls):
        cls.done = tutti("bench", "all_reduce", "-g", "2", "-b", "8", "-e", "8K", "-f", "8", *QUICK)

    def test_the_bandwidth_is_the_last_word_of_its_line(self):
        word = shell("grep '# Avg bus bandwidth' | awk '{print $NF}'", self.done.out)
        self.assertGreater(float(word), 0)

    def test_rows_begin_with_a_digit_and_have_exactly_thirteen_fields(self):
        found = shell("awk '$1 ~ /^[0-9]/ && NF == 13'", self.done.out)
        self.assertEqual(len(found.splitlines()), 4)
        self.assertEqual(len(shell("awk '$1 ~ /^[0-9]/'", self.done.out).splitlines()), 4)

    def test_rows_lie_between_the_column_names_and_the_footer(self):
        names = max(i for i, line in enumerate(self.done.lines) if "out-of-place" in line)
        end = next(i for i, line in enumerate(self.done.lines) if "Out of bounds values" in line)
        window = self.done.lines[names + 3:end]
        self.assertEqual(len(window), 4)
        for line in window:
            self.assertGreater(len(line.split()), 10)
            float(line.split()[-6])

    def test_nothing_sounds_like_a_failed_test(self):
        for words in ("Test failure", "Test NCCL failure"):
            self.assertNotIn(words, self.done.out + self.done.err)
        self.assertIn("# Out of bounds values : 0 OK", self.done.lines)


class Files(Case):
    def measure(self, *more, **options):
        return tutti("bench", "all_reduce", "-g", "2", "-b", "64", "-e", "1K", "-f", "16", "-n", "3", *more,
                     cwd=self.folder, **options)

    def test_json_has_the_keys_of_nccl_tests_and_no_secret(self):
        done = self.measure("-J", "x.json", "-I", "1", env={"NCCL_DEBUG": "WARN", "MY_SECRET": "s3cret"})
        self.assertEqual(done.code, 0, done)
        text = (self.folder / "x.json").read_text()
        self.assertNotIn("s3cret", text)
        data = json.loads(text)
        self.assertEqual(data["version"], 3)
        for key in ("start_time", "args", "env", "nccl_version", "config", "results", "out_of_bounds",
                    "average_bus_bandwidth", "errors", "end_time"):
            self.assertIn(key, data)
        self.assertIn("NCCL_DEBUG=WARN", data["env"])
        self.assertEqual([d["rank"] for d in data["config"]["devices"]], [0, 1])
        self.assertEqual([r["size"] for r in data["results"]], [64, 1024])
        for result in data["results"]:
            self.assertEqual(result["root"].strip(), "-1")
            self.assertEqual(result["out_of_place"]["nwrong"], 0)
            single = result["out_of_place_per_iter"]
            self.assertEqual(len(single["times_us"]), 3)
            self.assertEqual([max(column) for column in zip(*single["per_process_max_times_us"])], single["times_us"])

    def test_json_takes_text_in_any_encoding(self):
        done = self.measure("--format", "json", "-J", "x.json", env={"NCCL_DEBUG": os.fsdecode(b"caf\xe9")})
        self.assertEqual(done.code, 0, done)
        for text in (done.out, (self.folder / "x.json").read_text()):
            self.assertIn("NCCL_DEBUG=caf\ufffd", json.loads(text)["env"])

    def test_an_existing_file_is_never_written_over(self):
        (self.folder / "x.json").write_text("mine")
        for _ in range(2):
            self.assertEqual(self.measure("-J", "x.json").code, 0)
        self.assertEqual((self.folder / "x.json").read_text(), "mine")
        self.assertEqual(sorted(os.listdir(self.folder)), ["x.json", "x.json.0", "x.json.1"])

    def test_a_file_that_cannot_be_is_said_and_nothing_is_measured(self):
        (self.folder / "folder").mkdir()
        done = self.measure("-J", "folder")
        self.assertEqual((done.code, done.out), (74, ""), done)
        self.assertSays(done.err, "folder.* [Ii]s a directory")
        self.assertEqual(os.listdir(self.folder), ["folder"])
        done = self.measure("-J", "no/such/folder.json")
        self.assertEqual((done.code, done.out), (74, ""), done)
        self.assertSays(done.err, "bench: cannot write no/such/folder.json: No such file or directory; make its folder first")

    def test_csv_and_json_leave_nothing_else_on_standard_output(self):
        csv = self.measure("--format", "csv")
        width = {len(line.split(",")) for line in csv.lines}
        self.assertEqual((len(csv.lines), len(width)), (5, 1), csv)
        self.assertEqual(len(json.loads(self.measure("--format", "json").out)["results"]), 2)

    def test_times_per_single_call_fill_four_more_columns_per_placement(self):
        self.assertEqual({len(row) for row in rows(self.measure("-I", "1"))}, {21})
        self.assertEqual({len(row) for row in rows(self.measure("--format", "wide"))}, {21})
        stamped = rows(self.measure("-S", "1"))
        self.assertEqual({len(row) for row in stamped}, {15})


class Comparing(Case):
    def test_algorithms_stand_side_by_side_with_a_sentence_from_the_data(self):
        done = tutti("bench", "all_reduce", "-g", "2", "-b", "64", "-e", "16K", "-f", "16", "--compare",
                     "ring,double_binary_tree,auto", "-n", "8", "-T", "20", "-J", self.folder / "c.json")
        self.assertEqual(done.code, 0, done)
        for row in rows(done):
            self.assertEqual((len(row), row[-1]), (5 + 3 * 3 + 1, "0"), row)
            self.assertEqual([row[i] for i in (7, 10, 13)].count("best"), 1, row)
        self.assertSays(done.out, "# .*(fastest|no difference shown|nothing is shown).* on this machine")
        data = json.loads((self.folder / "c.json").read_text())
        self.assertEqual([r["experiment_name"] for r in data["results"]], ["ring", "double_binary_tree", "auto"] * 3)
        self.assertEqual(len(data["tutti"]["conclusions"]), 2)
        self.assertSays(data["tutti"]["conclusions"][1], "where no algorithm is named, tutti takes direct")

    def test_leading_iterations_are_left_out_of_a_comparison_too(self):
        for words in (["--compare", "ring,direct"], ["--format", "short"]):
            done = tutti("bench", "all_reduce", "-g", "2", "-b", "64", "-e", "64", "-n", "20", "-K", "19", *words, "-J",
                         self.folder / "k.json")
            self.assertEqual(done.code, 0, done)
            for result in json.loads((self.folder / "k.json").read_text())["results"]:
                rest = result["out_of_place_per_iter"]["times_us"][19:]
                self.assertEqual(result["out_of_place"]["time"], sorted(rest)[len(rest) // 2], result)
            (self.folder / "k.json").unlink()

    def test_a_comparison_keeps_to_its_time_and_tells_how_many_calls_that_were(self):
        done = tutti("bench", "all_reduce", "-g", "2", "-b", "4", "-e", "4", "-n", "1000000", "--max-time", "0.05",
                     "--sync", "window", "--compare", "ring,direct", "-J", self.folder / "t.json")
        self.assertEqual(done.code, 0, done)
        for result in json.loads((self.folder / "t.json").read_text())["results"]:
            calls = len(result["out_of_place_per_iter"]["times_us"])
            self.assertEqual(result["actual_iterations"], calls)
            self.assertLess(calls, 300)  # a window opens after 0.2 ms: at most 250 in 0.05 s, and then a round ends

    def test_a_wrong_name_is_told_before_any_rank_starts(self):
        done = tutti("bench", "all_reduce", "-g", "2", "--compare", "ring,rnig")
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "rnig", "ring")
        self.assertEqual(done.err.count("tutti:"), 1, done)


class Ending(Case):
    def test_wrong_usage_is_6_and_unsupported_wishes_are_5(self):
        for code, words in ((6, ["-n", "x"]), (6, ["--nope", "1"]), (6, ["-o", "summ"]), (6, ["-r", "2", "-g", "1"]),
                            (5, ["-d", "f8e5m2"]), (5, ["-G", "1"]), (5, ["-o", "mulsum", "-d", "int32"])):
            what = "broadcast" if "-r" in words else "all_reduce"
            done = tutti("bench", what, "-b", "8", "-e", "8", *words)
            self.assertEqual(done.code, code, (words, done))
            self.assertSays(done.err, "^tutti: ")
        for words in (["reduce", "-r", "5"], ["all_reduce", "--transport", "shmm"]):  # before, or by every rank
            done = tutti("bench", *words, "-g", "2", "-b", "8", "-e", "8")
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, "(?m)^tutti: .*" + words[-1])
        done = tutti("bench", "all_reduce", "-g", "2", "-b", "8", "-e", "8", env={
            "TUTTI_SOCKET_IFNAME": "nosuch", "TUTTI_TRANSPORT": "tcp"})
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "TUTTI_SOCKET_IFNAME=nosuch")
        self.assertEqual(tutti("bench").code, 6)
        self.assertEqual(tutti("bench", "--help").code, 0)
        self.assertEqual(tutti("run", "-n", "2", harness.PROGRAM, "bench", "barrier", "-g", "4").code, 5)

    def test_a_bandwidth_below_the_wanted_one_is_7(self):
        for name in ("NCCL_TESTS_MIN_BW", "TUTTI_TESTS_MIN_BW"):
            arguments = ["bench", "all_reduce", "-g", "2", "-b", "64", "-e", "64", *QUICK]
            done = tutti(*arguments, env={name: "100000"})
            self.assertEqual(done.code, 7, done)
            self.assertSays(done.out, "# Avg bus bandwidth .* FAILED")
            self.assertEqual(tutti(*arguments, env={name: "0"}).code, 0)
            done = tutti(*arguments, env={name: "abc"})
            self.assertEqual((done.code, done.out), (6, ""), done)
            self.assertSays(done.err, f"{name}=abc is not a bandwidth")

    def test_a_time_limit_below_a_millisecond_is_a_limit(self):
        done = tutti("bench", "all_reduce", "-g", "3", "-b", "64M", "-e", "64M", "-T", "1e-6")
        self.assertIn(done.code, (3, 4), done)  # one rank is late, the others miss it

    def test_uneven_parts_take_no_more_memory_than_equal_ones(self):
        if harness.is_sanitized():
            self.skipTest("sanitizers take memory of their own")
        peaks = {}
        for collective in ("alltoall", "alltoallv"):
            done = tutti("bench", collective, "-g", "2", "-b", "32M", "-e", "32M", "-n", "1", "-w", "0", "-M", "1", limit=60)
            peaks[collective] = int(re.search(r"Peak memory, rank 0 +: (\d+) MiB", done.out)[1])
        self.assertLess(peaks["alltoallv"], peaks["alltoall"] + 16, peaks)

    def test_a_first_size_beyond_the_memory_is_refused(self):
        done = tutti("bench", "all_reduce", "-g", "2", "-b", "16384G", "-e", "16384G", *QUICK)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "less than the first size, 17592186044416")

    def test_a_rank_that_hangs_ends_the_run_with_4(self):
        path = self.folder / "hung.json"
        process = start(harness.PROGRAM, "bench", "all_reduce", "-g", "2", "-b", "64", "-e", "64", "-N", "0", "-T", "1",
                        "-J", path)
        pids = {}
        for line in process.stdout:
            found = re.match(r"#  Rank +(\d+) Group +\d+ Pid +(\d+)", line)
            if found:
                pids[found[1]] = int(found[2])
            if line.startswith(" "):
                break
        os.kill(pids["1"], signal.SIGSTOP)
        done = harness.Finished(process, 30)
        self.assertEqual(done.code, 4, done)
        self.assertSays(done.err, "rank 1")
        self.assertSays(json.loads(path.read_text())["errors"][0], "rank 1")

    def test_a_rank_that_dies_ends_the_run_with_its_signal(self):
        process = start(harness.PROGRAM, "bench", "all_reduce", "-g", "3", "-b", "64", "-e", "64", "-N", "0")
        for line in process.stdout:
            found = re.match(r"#  Rank +2 Group +\d+ Pid +(\d+)", line)
            if found:
                os.kill(int(found[1]), signal.SIGKILL)
                break
        done = harness.Finished(process, 30)
        self.assertEqual(done.code, 128 + signal.SIGKILL, done)


if __name__ == "__main__":
    harness.main()
