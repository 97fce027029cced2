"""tutti tune: that it writes what programs choose by, never half of it, and says what is wrong."""

import csv
import os
import re
import signal
import tempfile

import harness
from harness import Case, tutti

QUICK = ("tune", "--transport", "shm", "-g", "2", "-e", "4K", "--time", "0.5")
LONGER = (*QUICK[:-1], "3")  # a point must have been measured, on a slow machine and under sanitizers, too


class Tuning(Case):
    def setUp(self):
        super().setUp()
        self.table = self.folder / "my.tuning"
        # Ranks meet there, and a rank that is killed cannot clean up.
        meeting = tempfile.TemporaryDirectory()
        self.addCleanup(meeting.cleanup)
        self.meeting = meeting.name
        os.environ["TMPDIR"] = meeting.name
        self.addCleanup(os.environ.pop, "TMPDIR")

    def files(self):
        return sorted(entry.name for entry in self.folder.iterdir())

    def test_writes_a_table_that_is_chosen_by(self):
        done = tutti(*LONGER, "all_reduce", "-o", self.table)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"of \d+ points", f"export TUTTI_TUNING_FILE={self.table}")
        lines = [line for line in self.table.read_text().splitlines() if line and not line.startswith("#")]
        self.assertTrue(lines, done)
        for line in lines:
            self.assertRegex(line, r"^all_reduce +shm +2 +0-\d+K? +\S+ +(core-per-rank|oversubscribed)$")
        self.assertRegex(lines[-1], r" 0-[124]K? ", "not beyond what was measured")
        for crowd, ranks in (("core-per-rank", 2), ("oversubscribed", 2)):
            if crowd in lines[0]:
                self.table.write_text(f"all_reduce shm {ranks} * tree:2*2\n")
                asked = tutti("plan", "all_reduce", "-n", ranks, "--transport", "shm", "--explain",
                              env={"TUTTI_TUNING_FILE": str(self.table)})
                self.assertSays(asked.out, "tree:2\\*2", "my.tuning:1")
        self.assertEqual(self.files(), ["my.tuning"])

    def test_tunes_over_tcp_with_more_ranks_than_cores(self):
        ranks = str(2 * os.cpu_count()) if os.cpu_count() <= 4 else "8"
        done = tutti("tune", "barrier", "broadcast", "-g", ranks, "--transport", "tcp", "-e", "1K", "--time", "6",
                     "-o", self.table)
        self.assertEqual(done.code, 0, done)
        self.assertSays(self.table.read_text(), r"barrier +tcp", r"broadcast +tcp")

    def test_an_existing_file_needs_force(self):
        self.table.write_text("mine\n")
        done = tutti(*QUICK, "barrier", "-o", self.table)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "my.tuning exists already", "--force")
        self.assertEqual(self.table.read_text(), "mine\n")
        done = tutti(*LONGER, "barrier", "-o", self.table, "--force")
        self.assertEqual(done.code, 0, done)
        self.assertSays(self.table.read_text(), "barrier +shm")
        self.assertEqual(self.files(), ["my.tuning"])

    def start_and_find_ranks(self):
        """A run that goes on for long, once its ranks are there."""
        process = harness.start(harness.PROGRAM, "tune", "-g", "3", "--transport", "shm", "--time", "60",
                                "-o", self.table)
        self.assertTrue(harness.wait_until(lambda: len(harness.processes_with(self.mark)) == 4))
        return process, [pid for pid in harness.processes_with(self.mark) if pid != process.pid]

    def test_stopped_it_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, _ = self.start_and_find_ranks()
            os.kill(process.pid, number)
            done = harness.Finished(process, 10)
            self.assertEqual(done.code, 128 + number, done)
            self.assertSays(done.err, "stopped; nothing was written")
            self.assertEqual(self.files(), [])
            self.assertEqual(os.listdir(self.meeting), [])

    def test_killed_it_leaves_no_ranks_and_no_file(self):
        process, _ = self.start_and_find_ranks()
        os.kill(process.pid, signal.SIGKILL)
        harness.Finished(process, 10)
        self.assertEqual(self.files(), [])

    def test_a_rank_that_dies_is_told(self):
        process, ranks = self.start_and_find_ranks()
        os.kill(ranks[0], signal.SIGKILL)
        done = harness.Finished(process, 20)
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, "tune: 3 ranks over shm: ")
        self.assertEqual(self.files(), [])
        self.assertEqual(os.listdir(self.meeting), [])

    def test_a_rank_that_dies_while_it_measures_is_told(self):
        for killed in (0, 1, 2, 0):  # wherever the others then wait
            process, ranks = self.start_and_find_ranks()
            for pid in ranks:  # until it is long past its start
                self.assertTrue(harness.wait_until(lambda pid=pid: harness.seconds_run(pid) > 0.2, 60), pid)
            os.kill(ranks[killed], signal.SIGKILL)
            done = harness.Finished(process, 20)
            self.assertNotEqual(done.code, 0, done)
            self.assertSays(done.err, "tune: 3 ranks over shm: ")
            self.assertEqual(os.listdir(self.meeting), [])

    def test_without_a_place_to_meet_it_says_so(self):
        done = tutti(*QUICK, "barrier", "-o", self.table, env={"TMPDIR": str(self.folder / "nowhere")})
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, "no folder for the ranks to meet in", "set TMPDIR")

    def test_judges_a_table(self):
        self.table.write_text("barrier shm 2 * dissemination\nbarrier shm 3 * direct\n")
        points = self.folder / "points.csv"
        done = tutti(*LONGER, "--check", "barrier", "--table", self.table, "--csv", points)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, "my.tuning has 2 lines, 1 of which decide calls here",
                        r"my.tuning:2 decides no call here: barrier shm 3 \* direct\n", "choices of .*my.tuning", r"barrier +shm +2 +0 +dissemination", "cliff")
        rows = list(csv.DictReader(points.read_text().splitlines()))
        self.assertEqual([(row["collective"], row["chosen"]) for row in rows], [("barrier", "dissemination")])
        self.assertGreater(float(rows[0]["chosen_us"]), 0)
        done = tutti(*QUICK, "--check", "barrier", env={"TUTTI_TUNING_FILE": str(self.table)})
        self.assertSays(done.out, "choices of .*my.tuning")

    def test_variables_that_would_choose_do_not_reach_the_ranks(self):
        done = tutti(*LONGER, "--check", "barrier", env={"TUTTI_ALGO": "dissemination", "TUTTI_TRANSPORT": "tcp"})
        self.assertSays(done.out, "choices of the built-in table", r"barrier +shm +2 +0 +direct")

    def test_a_table_that_is_wrong_is_told(self):
        self.table.write_text("barrier shm 2 * nothing\n")
        done = tutti(*QUICK, "--check", "barrier", "--table", self.table)
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, "my.tuning:1: .*no algorithm \"nothing\"")
        done = tutti(*QUICK, "--check", "barrier", "--table", self.folder / "none")
        self.assertSays(done.err, "^tutti: tune: cannot read .*none: no such file")

    def test_wrong_words_are_told(self):
        for words, reason in (
                (("--tiem", "3"), "no option \"--tiem\".*Did you mean \"--time\""),
                (("--time", "soon"), "--time takes seconds"),
                (("--time", "0"), "--time takes seconds"),
                (("-g", "1"), "-g takes numbers of ranks from 2"),
                (("-g", "2,x"), "-g takes numbers of ranks"),
                (("--transport", "shmm"), "no transport \"shmm\".*Did you mean \"shm\""),
                (("all_redcue",), "all_reduce"),
                (("sendrecv",), "no algorithms to choose from"),
                (("-b", "2M", "-e", "1M"), "no size is measured"),
                (("-e", "many"), "-e takes a size"),
                (("--table", "x"), "belong to --check"),
                (("--check", "--force"), "leave out --force"),
                (("--check",), "leave out -o"),
                (("--bind-to", "socket"), "--bind-to takes core or none")):
            with self.subTest(words=words):
                done = tutti("tune", *words, "-o", self.table)
                self.assertEqual(done.code, 6, done)
                self.assertSays(done.err, reason)
        self.assertEqual(self.files(), [])

    def test_nothing_measured_is_no_table_and_no_judgement(self):
        for words in (("-o", self.table), ("--check", "--csv", self.folder / "points.csv")):
            done = tutti("tune", "-g", "2", "--transport", "shm", "--time", "1e-09", *words)  # over at once
            self.assertEqual((done.code, done.out), (4, ""), done)
            self.assertSays(done.err, "1e-09 s are too short to measure anything, and nothing was written; give --time more")
            self.assertEqual(self.files(), [])

    def test_a_transport_that_is_named_twice_is_measured_once(self):
        done = tutti("tune", "--transport", "shm,tcp,shm,tcp", "-g", "2", "--time", "3", "barrier", "--check", limit=60)
        self.assertEqual(re.findall(r"(?m)^\W*barrier +(\w+) +2 ", done.out), ["shm", "tcp"], done)

    def test_it_is_no_program_for_a_launcher(self):
        done = tutti("run", "-n", "2", harness.PROGRAM, *QUICK, "-o", self.table)
        self.assertSays(done.err, "starts ranks itself; run it without a launcher")
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    harness.main()
