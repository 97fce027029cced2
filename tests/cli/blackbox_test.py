#!/usr/bin/env python3
"""tutti blackbox on real processes: while they hang, after they were killed, and what the launcher says of it."""

import contextlib
import json
import os
import pathlib
import re
import signal

import harness
from harness import tutti, wait_until


def hanging(*words, fault="stop:rank=1,op=7,step=last", **variables):
    """A job in which one rank stops in a call; ranks wait for it as long as the test takes."""
    exports = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    return harness.start(harness.PROGRAM, "run", "-n", "3", *words, "--inject", fault, *exports, harness.JOIN,
                         "--algorithm", "ring", "--repeat", env={"TUTTI_TIMEOUT": "60"})


def state_of_ranks(runner):
    return [harness.state_of(pid) for pid in ranks_of(runner)]


def ranks_of(runner):
    """The processes of the ranks, in no order."""
    children = pathlib.Path(f"/proc/{runner}/task/{runner}/children").read_text().split()
    return [int(pid) for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "join\n"]


class BlackBox(harness.Case):
    @contextlib.contextmanager
    def hanging(self, *words, **options):
        process = hanging(*words, **options)
        try:
            self.assertTrue(wait_until(lambda: "T" in state_of_ranks(process.pid)))
            yield process
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()

    def test_a_job_that_hangs_is_shown_with_the_rank_that_holds_it_up(self):
        with self.hanging() as process:
            # The others run on into a call that needs the stopped one.
            done = tutti("blackbox", "-n", "2", process.pid)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(len(re.findall(r"(?m)^rank [012] of 3 \(host .*, pid \d+\), tutti ", done.out)), 3, done)
            self.assertSays(done.out, r"(?m)^  \d\d:\d\d:\d\d\.\d{6} +\d+\.\d{6} s  world: all_reduce #\d+ \(1000 x f32, max\) "
                                      r"with \w+, \d+/\d+ (steps|rounds?), \d+ bytes, not done$",
                            r"(?m)^rank.*all_reduce #[78] \(1000 x f32, max\).*")
            self.assertTrue(wait_until(lambda: re.search(
                r"(?m)^rank 1 is in all_reduce #7 .*; ranks 0 and 2 have finished it$|; rank 1 got least far|"
                r"^rank 1 has not entered all_reduce #8 .*; ranks 0 and 2 wait for it since \d", tutti(
                    "blackbox", "-n", "1", process.pid).out)))

    def test_one_rank_alone_is_found_by_its_own_process(self):
        with self.hanging() as process:
            for pid in ranks_of(process.pid):
                done = tutti("blackbox", "-n", "1", pid)
                self.assertEqual(done.code, 0, done)
                self.assertEqual(len(done.lines), 2, done)
                self.assertSays(done.lines[0], rf"^rank [012] of 3 \(host .*, pid {pid}\)")

    def test_a_box_that_is_named_twice_is_one_box(self):
        with self.hanging() as process:
            done = tutti("blackbox", "-n", "1", process.pid, *ranks_of(process.pid), process.pid)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(sorted(re.findall(r"(?m)^rank (\d) of 3 ", done.out)), ["0", "1", "2"], done)

    def test_json_says_the_same(self):
        with self.hanging() as process:
            told = json.loads(tutti("blackbox", "--json", process.pid).out)
            self.assertEqual([rank["rank"] for rank in told["ranks"]], [0, 1, 2])
            stopped = told["ranks"][1]["operations"]
            self.assertEqual(stopped[0]["algorithm"], "ring")
            self.assertEqual([one["operation"] for one in stopped], [1, 2, 3, 4, 5, 6, 7])
            last = stopped[-1]
            self.assertEqual(last["state"], "started")
            self.assertEqual((last["collective"], last["op"], last["type"], last["count"], last["communicator_name"]),
                             ("all_reduce", "max", "f32", 1000, "world"))
            def progress(one):
                return [(one[f"{part}_done"], one[part]) for part in ("steps", "rounds") if part in one]
            self.assertEqual({part for one in stopped for part in ("steps", "rounds") if part in one}, {"steps", "rounds"})
            [(done, all_of_it)] = progress(last)
            self.assertLess(done, all_of_it)
            for one in stopped[:-1]:
                self.assertEqual(one["state"], "done")
                [(done, all_of_it)] = progress(one)
                self.assertEqual(done, all_of_it)
                self.assertGreaterEqual(one["ended"], one["started"])

    def test_files_tell_of_a_job_that_was_killed_as_a_whole(self):
        path = f"{self.folder}/box-%r"
        with self.hanging(TUTTI_BLACK_BOX=path) as process:
            ranks = ranks_of(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: all(harness.is_gone(pid) for pid in ranks)))
            done = tutti("blackbox", "-n", "1", *sorted(self.folder.glob("box-*")))
            self.assertEqual(done.code, 0, done)
            self.assertEqual(len(re.findall(r"(?m)^rank [012] of 3", done.out)), 3, done)
            self.assertSays(done.out, r"all_reduce #7 .* not done", r"(?m)^rank.* (was|were|had) ")
            told = json.loads(tutti("blackbox", "--json", *self.folder.glob("box-*")).out)
            last = [rank["operations"][-1] for rank in told["ranks"]]
            self.assertIn((None, "started"), [(one["seconds"], one["state"]) for one in last], last)

    def test_the_launcher_says_where_a_killed_rank_was(self):
        for op in (1, 40):
            done = tutti("run", "-n", "3", "--inject", f"kill:rank=1,op={op},step=3", harness.JOIN, "--repeat",
                         "--algorithm", "ring")
            self.assertEqual(done.code, 137, done)
            lines = [line for line in done.err.splitlines() if line.startswith("tutti: ")]
            self.assertSays(lines[0], r"rank 1 \(host .*, pid \d+\) was killed by SIGKILL")
            self.assertSays(lines[1], rf"^tutti: rank 1 was in all_reduce #{op} \(1000 x f32, (sum|max)\) with \w+, "
                                      r"([0-3] of \d+ steps done|in round 1 of 1, \d+ bytes moved); ")
            self.assertEqual(len(lines), 2, done)

    def test_the_launcher_says_who_was_waited_for_in_a_job_that_took_too_long(self):
        done = tutti("run", "-n", "3", "--timeout", "2.5", "--inject", "stop:rank=2,op=9", harness.JOIN, "--repeat",
                     env={"TUTTI_TIMEOUT": "60"})
        self.assertEqual(done.code, 124, done)
        self.assertSays(done.err, r"(?m)^tutti: (rank 2 (was in|had not entered) all_reduce #(9|10) |.*; rank 2 got least far)")

    def test_the_launcher_names_the_rank_that_the_others_blame(self):
        # An exception that nobody catches ends in SIGABRT, so its echoes are seen first as often as not.
        for _ in range(3):
            done = tutti("run", "-n", "3", "--inject", "throw:rank=2,op=5", harness.JOIN, "--repeat")
            self.assertEqual(done.code, 128 + signal.SIGABRT, done)
            self.assertSays(done.err, r"tutti: rank 2 \(host .*\) was killed by SIGABRT")

    def test_the_launcher_adds_nothing_where_boxes_say_nothing(self):
        for script in ("exit 3", f"[ $RANK = 1 ] && exit 3; exec {harness.JOIN}"):
            done = tutti("run", "-n", "2", "sh", "-c", script, env={"TUTTI_TIMEOUT": "5"})
            self.assertEqual(done.code, 3, done)
            self.assertEqual(len([line for line in done.err.splitlines() if line.startswith("tutti: ")]), 1, done)

    def test_what_has_no_box_is_told_apart(self):
        text = self.folder / "text"
        text.write_text("no box\n")
        for words, said in ((["999999999"], "blackbox: process 999999999: there is no such process"),
                            ([os.getpid()], rf"blackbox: process {os.getpid()} has no black box: it is not a rank"),
                            ([text], "text is no black box: it has 7 bytes"),
                            ([self.folder / "none"], "none: No such file or directory"),
                            ([], "PID-or-file is required"),
                            (["--jsn", "1"], "--jsn")):
            done = tutti("blackbox", *words)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, said)

    def test_a_rank_told_to_keep_none_keeps_none(self):
        done = tutti("run", "-n", "3", "-x", "TUTTI_BLACK_BOX=off", "--inject", "kill:rank=1,op=5", harness.JOIN, "--repeat")
        self.assertEqual(done.code, 137, done)
        self.assertNotIn("was in all_reduce", done.err)


if __name__ == "__main__":
    harness.main()
