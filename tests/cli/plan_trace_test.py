"""tutti plan --html --trace: what it takes of a trace, what it refuses, and what it says. No browser is needed for that."""

import json
import os
import re

import harness
from harness import tutti


class PlanTrace(harness.Case):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "t.json"
        self.page = self.folder / "page.html"

    def bench(self, ranks, *words, **env):
        done = tutti("run", "-n", ranks, "--trace", self.file, harness.PROGRAM, "bench", *words, "-n", "2", "-w", "0",
                     env={"TUTTI_TRANSPORT": "shm", **env}, limit=60)
        self.assertEqual(done.code, 0, done)

    def write(self, *words):
        done = tutti("plan", *words, "--html", self.page, "--trace", self.file)
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.assertLess(self.page.stat().st_size, 400_000)
        return done.out

    def refused(self, *words):
        done = tutti("plan", *words, "--html", self.page, "--trace", self.file)
        self.assertEqual((done.code, done.out, len(done.err.splitlines())), (6, "", 1), done)
        self.assertFalse(self.page.exists())
        return done.err

    def test_a_trace_that_is_not_there_is_told_by_who_wants_it(self):
        self.assertSays(self.refused(), rf"^tutti: plan: cannot read {self.file}: no such file")
        self.file.write_text("{}")
        self.assertSays(self.refused(), rf'^tutti: plan: cannot read {self.file}: it is JSON, but no trace')

    def test_a_size_is_refused_as_a_run_has_its_own(self):
        self.bench(2, "all_reduce", "--algo", "ring", "-b", "4K", "-e", "4K")
        self.assertSays(self.refused("--bytes", "8"), "--bytes is for plans, and a run has its own size")

    def test_the_root_is_one_of_the_runs_ranks_not_of_those_that_plans_have_unasked(self):
        self.bench(6, "broadcast", "--algo", "tree", "-r", "4", "-b", "4K", "-e", "4K")
        self.assertSays(self.write("--root", "4"), r"It replays broadcast #\d+ by tree\S* over 6 ranks")
        self.assertSays(self.write("--root", "4", "-n", "6"), r"It replays broadcast #\d+ by tree\S* over 6 ranks")
        self.page.unlink()
        for root in ("5", "99", "-1"):
            self.assertSays(self.refused("--root", root), f"has no call from root {root}; it has broadcast by tree.* from root 4")
        self.assertSays(self.refused("--root", "6", "-n", "6"), r"--root 6 is outside 0 to 5 \(-n 6\)")

    def test_a_call_with_more_messages_than_a_page_has_room_for_is_left_out(self):
        if harness.is_sanitized():
            self.skipTest("9,000 messages take sanitizers a minute, and no path of their own")
        large = r"by double_binary_tree\*160 over 8 ranks"
        for _ in range(5):  # The trees take longer, unless a rank of the ring loses its core.
            self.bench(8, "all_reduce", "--compare", "double_binary_tree*160,ring", "-b", "1M", "-e", "1M")
            said = self.write()
            if "has no room" in said:
                break
            self.page.unlink()
        self.assertSays(said, r"It replays all_reduce #\d+ by ring over 8 ranks", rf"(?m)^A page has no room for the messages of all_reduce {large}$")
        self.page.unlink()
        said = self.refused("--algo", "double_binary_tree*160")
        self.assertSays(said, rf"has all_reduce #\d+ {large}, but a page has 100 kB of room for calls, and its 4480 messages would "
                        r"take \d{3}; name a call by --call, or another plan by collective, --algo or -n")
        number = re.search(r"#(\d+)", said)[1]
        self.assertSays(self.refused("--algo", "double_binary_tree*160", "--call", number),
                        rf"all_reduce #{number} has 4480 messages, with which the page would take \d{{3}} kB, and it is to stay below 400; "
                        r"name another call by --call")

    def test_a_page_has_as_many_calls_as_there_is_room_for(self):
        self.bench(4, "all_reduce", "--algo", "ring*40", "-b", "64K", "-e", "64K")  # 960 messages each
        # Two or three, or one if the ranks had to wait for cores: longer times take more room.
        self.assertSays(self.write(), r"; [1-3] of 8 such calls of .* are on it")

    def test_a_path_in_another_encoding_is_shown_as_far_as_it_can_be(self):
        self.bench(2, "all_reduce", "--algo", "ring", "-b", "4K", "-e", "4K")
        self.file = self.file.rename(self.folder / os.fsdecode(b"t\xff.json"))
        said = tutti("plan", "--html", self.page, "--trace", self.file, errors="surrogateescape")
        self.assertEqual((said.code, said.err), (0, ""), said)
        self.assertIn("t\ufffd.json", self.page.read_text())

    def test_what_cannot_be_predicted_is_not_said_to_take_no_time(self):
        self.bench(2, "all_reduce", "--algo", "ring", "-b", "4K", "-e", "4K")
        self.assertSays(self.write(), r"It replays all_reduce #\d+ by ring over 2 ranks: [\d.]+ .s, predicted [\d.]+ .s; ")
        trace = json.loads(self.file.read_text())
        for event in trace["traceEvents"]:
            if "waited_ns" in event["args"]:  # as if messages took no time
                event["dur"] = event["args"]["waited_ns"] = 0
        self.file.write_text(json.dumps(trace))
        self.assertSays(self.write(), r"It replays all_reduce #\d+ by ring over 2 ranks: [\d.]+ .s; ")


if __name__ == "__main__":
    harness.main()
