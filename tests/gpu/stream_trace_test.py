#!/usr/bin/env python3
"""stream_trace_test.py PROGRAM FAKE_DRIVER_FOLDER: calls on streams of GPUs in a trace. Each step of a plan has a slice
in the lane of its rank's stream, and messages have both ends there. `tutti trace` names the rank that enqueues late."""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import harness
import trace_test

PROGRAM, DRIVER = sys.argv.pop(1), sys.argv.pop(1)
CALLS = 3
# A clock of a GPU may be wrong by as much as its rank says, and an event by 0.5 us; see lib/gpu/device_clock.cc.
RESOLUTION = 1500


def run(mode, ranks, algorithm, elements, calls=CALLS, late=(), traced=True, **more):
    """The trace of such calls, what `tutti trace` says of them, and per rank the commands in all calls but the first, and
    the timed events."""
    env = dict(TUTTI_GPU_MODE=mode, TUTTI_GPU_SLOT_BYTES="4096", LD_LIBRARY_PATH=DRIVER, FAKE_CUDA_SCHEDULE="lazy", **more)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "t.json")
        words = ["--trace", file] if traced else []
        done = subprocess.run(
            [harness.PROGRAM, "run", "-n", str(ranks), *words, PROGRAM, algorithm, str(elements), str(calls), *late],
            env=harness.clean_environment(**env), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        counts = re.findall(r"(\d+) commands, (\d+) timed events", done.stdout)
        assert len(counts) == ranks, done.stdout
        said, events, page = "", [], ""
        if traced:
            said = harness.tutti("trace", file).out
            events = trace_test.load(file)
            page = harness.tutti("plan", "--html", pathlib.Path(folder, "page.html"), "--trace", file, "all_reduce", "--algo",
                                 algorithm)
    return events, said, page, [(int(commands), int(made)) for commands, made in counts]


class Lane:
    """What the lane of one rank's stream has of one call."""

    def __init__(self, events, rank, number):
        threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == rank}
        mine = [e for e in trace_test.of(events, "X", pid=rank)
                if re.fullmatch(r"stream( \(\d+\))?", threads[e["tid"]]) and e["args"]["operation"] == number]
        whole = [e for e in mine if e["cat"] == "stream"]
        assert len(whole) == 1, whole
        self.begin, self.end = trace_test.nanoseconds(whole[0])
        self.doubt = whole[0]["args"]["uncertainty_ns"] + RESOLUTION
        self.left_out = sum(e["args"]["steps"] for e in mine if e["cat"] == "left out")
        self.steps = sorted((e for e in mine if e["cat"] not in ("stream", "wait", "left out")), key=lambda e: e["ts"])
        self.call = next(e for e in trace_test.of(events, "X", pid=rank, cat="call") if e["args"]["operation"] == number)

    def names(self):
        return [step["name"] for step in self.steps]

    def trouble(self):
        called, ended = trace_test.nanoseconds(self.call)
        if not (called - self.doubt <= self.begin and self.end <= ended + self.doubt):
            return f"from {self.begin} to {self.end}, and the call from {called} to {ended}"
        now = self.begin
        for step in self.steps:
            begin, end = trace_test.nanoseconds(step)
            if begin < now - 1 or end > self.end:
                return f"out of order: {step}"
            now = end
        return ""


def lanes(events, ranks, calls=CALLS):
    """By call, those of all ranks."""
    numbers = sorted({e["args"]["operation"] for e in trace_test.of(events, "X", cat="stream")})
    assert len(numbers) == calls + 1, numbers
    return [[Lane(events, rank, number) for rank in range(ranks)] for number in numbers]


def ends_of(call):
    """The sends and the receives of a call, by sender, receiver, number and whether it is a credit."""
    sends, receives = {}, {}
    for rank, lane in enumerate(call):
        for step in lane.steps:
            args = step["args"]
            if "number" not in args:
                continue
            sent = "to" in args
            key = (rank, args["to"]) if sent else (args["from"], rank)
            key += (args["number"], "credit" in args)
            ends = sends if sent else receives
            assert key not in ends, step
            begin, end = trace_test.nanoseconds(step)
            ends[key] = (begin, end, args["bytes"], lane.doubt)
    return sends, receives


class TraceOfStreams(unittest.TestCase):
    def check_lanes(self, events, ranks, calls=CALLS):
        self.assertEqual(trace_test.trouble_with_threads(events), "")
        all_lanes = lanes(events, ranks, calls)
        for call in all_lanes:
            for rank, lane in enumerate(call):
                self.assertEqual(lane.trouble(), "", f"rank {rank}")
            sends, receives = ends_of(call)
            self.assertEqual(sends.keys(), receives.keys())
            for key, (begin, _, size, doubt) in sends.items():
                _, received, size_there, doubt_there = receives[key]
                self.assertEqual(size, size_there)
                self.assertLess(begin, received + doubt + doubt_there, f"{key} is received before it is sent")
        return all_lanes

    def test_a_ring(self):
        """In two rounds: 5000 bytes of each rank's part, and slots of 4096."""
        ranks, elements, rounds = 4, 5000, 2
        events, said, page, traced = run("streams", ranks, "ring", elements)
        for call in self.check_lanes(events, ranks):
            for lane in call:
                self.assertEqual(lane.left_out, 0)
                times = collections.Counter((s["args"]["step"], s["name"]) for s in lane.steps)
                kinds = collections.Counter(name for _, name in times)
                self.assertEqual(kinds, {"send": 6, "receive": 3, "receive and reduce": 3})
                self.assertEqual(set(times.values()), {rounds})
            for ends in ends_of(call):
                self.assertEqual(sum(size for _, _, size, _ in ends.values()), 2 * (ranks - 1) * elements * 4)
        arrows = [collections.Counter(e["id"] for e in trace_test.of(events, phase)) for phase in "sf"]
        self.assertEqual(arrows[0], arrows[1])
        self.assertRegex(said, r"all_reduce +ring on streams +4 +20000 +4 +[\d.]+ ")
        self.assertRegex(page.out, r"It replays all_reduce #\d+ by ring over 4 ranks: .* 4 of 4 such calls")
        # Without a trace the streams have nothing more to do. With it there is an event before each step, one where it
        # need not wait any more, and one at the end.
        _, _, _, plain = run("streams", ranks, "ring", elements, traced=False)
        for (commands, events_made), (commands_traced, _) in zip(plain, traced):
            self.assertEqual(events_made, 0)
            self.assertEqual(commands_traced - commands, CALLS * (12 * rounds * 2 + 1))

    def test_a_leader(self):
        """It does one task for all, whose memory it uses, and tells them."""
        ranks, elements = 3, 1000
        events, _, _, _ = run("leader", ranks, "direct", elements)
        for call in self.check_lanes(events, ranks):
            self.assertEqual(call[0].names(), ["receive", "receive", "reduce", "send credit", "send credit"])
            for lane in call[1:]:
                self.assertEqual(lane.names(), ["copy", "send", "receive credit", "copy"])
            for lane in call:
                sizes = {s["args"]["bytes"] for s in lane.steps if s["name"] in ("copy", "reduce")}
                self.assertEqual(sizes, {4 * elements})

    def test_a_staged_call(self):
        """Its stream copies, and the engine does the call in between, on host memory."""
        ranks, elements = 2, 1000
        events, _, _, traced = run("staged", ranks, "ring", elements)
        for call in lanes(events, ranks):
            for lane in call:
                self.assertEqual(lane.names(), ["to the host", "to the device"])
                self.assertEqual({step["args"]["bytes"] for step in lane.steps}, {4 * elements})
                down, up = map(trace_test.nanoseconds, lane.steps)
                sends = [e for e in trace_test.of(events, "X", cat="message", name="send", pid=lane.call["pid"])
                         if e["args"]["operation"] == lane.call["args"]["operation"]]
                self.assertEqual(len(sends), 2)
                for begin, end in map(trace_test.nanoseconds, sends):
                    self.assertLess(down[1] - lane.doubt, end)
                    self.assertLess(begin, up[0] + lane.doubt)
        _, _, _, plain = run("staged", ranks, "ring", elements, traced=False)
        for (commands, events_made), (commands_traced, _) in zip(plain, traced):
            self.assertEqual(events_made, 0)
            self.assertEqual(commands_traced - commands, CALLS * 4)

    def test_who_enqueues_late_is_named(self):
        for mode, algorithm in (("streams", "ring"), ("leader", "direct")):
            events, _, _, _ = run(mode, 3, algorithm, 1000, late=["2"])
            # Without the calls before it, in some of which a rank of a busy machine is late, too.
            last = max(e["args"]["operation"] for e in trace_test.of(events, "X", cat="stream"))
            names = [e for e in events if e["ph"] == "M"]
            kept = [e for e in events if e["ph"] in "Xi" and e["args"].get("operation", last) == last]
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump({"traceEvents": kept}, file)
                file.flush()
                said = harness.tutti("trace", file.name).out
            late = re.search(rf"(?m)^rank 2 came late: .* most in all_reduce #{last} \((\d+\.\d+) (m?s)\)", said)
            self.assertTrue(late, said)
            unit = 1 if late[2] == "ms" else 1000
            milliseconds = float(late[1]) * unit
            # It sleeps for 200, and longer on a busy machine, on which the others may begin late, too. That its stream
            # begins after its call is not lateness.
            all_lanes = [Lane(kept + names, rank, last) for rank in range(3)]
            awaited = min(step["ts"] for lane in all_lanes for step in lane.steps if step["args"].get("from") == 2)
            self.assertAlmostEqual(milliseconds, (all_lanes[2].call["ts"] - awaited) / 1000, delta=0.1 * unit, msg=said)
            self.assertGreaterEqual(milliseconds, 10)

    def test_a_long_call_says_what_it_leaves_out(self):
        ranks, elements = 2, 300_000
        events, _, page, _ = run("streams", ranks, "ring", elements, calls=1)
        rounds = -(-elements * 4 // ranks // 4096)
        for lane in lanes(events, ranks, 1)[1]:
            self.assertEqual(len(lane.steps) + lane.left_out, 2 * (ranks - 1) * 2 * rounds)
            self.assertEqual(len(lane.steps), 512)
            self.assertEqual(lane.trouble(), "")
        self.assertRegex(page.err, "steps of it were left out")


if __name__ == "__main__":
    unittest.main()
