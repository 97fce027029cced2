#!/usr/bin/env python3
"""Traces of real runs: that the file is what Chrome's trace-event format says, that every message is there at both its
ends, that a killed rank takes nobody's trace with it."""

import collections
import json
import pathlib
import re

import harness
from harness import tutti
from made_up_traces import BOARD_SIZES, RANKS, made_up_board, made_up_ring, made_up_slices, time_on_board

NUMBER = (int, float)
# The fields, with their types, that an event of each phase must have, besides name, ph, pid and tid.
FIELDS = {
    "X": {"cat": str, "ts": NUMBER, "dur": NUMBER, "args": dict},
    "s": {"cat": str, "ts": NUMBER, "id": int, "args": dict},
    "f": {"cat": str, "ts": NUMBER, "id": int, "bp": str, "args": dict},
    "i": {"cat": str, "ts": NUMBER, "s": str, "args": dict},
    "M": {"args": dict},
}
METADATA = {"process_name": {"name": str}, "thread_name": {"name": str}, "process_sort_index": {"sort_index": int},
            "thread_sort_index": {"sort_index": int}}


def load(path):
    """The trace's events, each of which is what the format demands."""
    trace = json.loads(pathlib.Path(path).read_text())
    assert trace["displayTimeUnit"] in ("ms", "ns") and isinstance(trace["traceEvents"], list)
    for event in trace["traceEvents"]:
        assert event["ph"] in FIELDS, event
        wanted = {"name": str, "pid": int, "tid": int, **FIELDS[event["ph"]]}
        for field, kind in wanted.items():
            assert isinstance(event.get(field), kind) and not isinstance(event[field], bool), (field, event)
        assert set(event) <= set(wanted) | {"ph", "bp", "args"}, event
        assert event["pid"] >= 0 and event["tid"] >= 0 and event.get("dur", 0) >= 0, event
        assert 0 <= event.get("id", 0) < 2**53 and event.get("bp", "e") == "e", event
        for field, kind in METADATA.get(event["name"], {}).items():
            assert isinstance(event["args"][field], kind), event
    return trace["traceEvents"]


def of(events, phase, **fields):
    return [e for e in events if e["ph"] == phase and all(e.get(k) == v for k, v in fields.items())]


def nanoseconds(event):
    """Begin and end."""
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event.get("dur", 0) * 1000)


def trouble_with_threads(events):
    threads = collections.defaultdict(list)
    for event in of(events, "X"):
        threads[event["pid"], event["tid"]].append(nanoseconds(event))
    for thread, slices in threads.items():
        open_ones = []
        for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
            while open_ones and open_ones[-1] <= begin:
                open_ones.pop()
            if open_ones and end > open_ones[-1]:
                return f"slices overlap on {thread} at {begin}"
            open_ones.append(end)
    for event in of(events, "s") + of(events, "f"):
        if not any(b <= nanoseconds(event)[0] < e for b, e in threads[event["pid"], event["tid"]]):
            return f"an arrow hangs in the air: {event}"
    return ""


def trouble_with_arrows(events):
    ends = collections.defaultdict(lambda: {"s": [], "f": []})
    for event in of(events, "s") + of(events, "f"):
        ends[event["id"]][event["ph"]].append(event)
    for both in ends.values():
        if len(both["s"]) != 1 or len(both["f"]) != 1:
            return f"{len(both['s'])} sends and {len(both['f'])} receives: {both}"
        send, receive = both["s"][0], both["f"][0]
        ends = send["args"]["from"], send["args"]["to"]
        if (send["pid"], receive["pid"]) != ends or send["args"]["bytes"] != receive["args"]["received"]:
            return f"its ends differ: {both}"
        if receive["ts"] < send["ts"]:
            return f"it goes back in time: {both}"
    return ""


def in_microseconds(text, unit):
    return float(text) * {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[unit]


def slowest_link(report):
    """What the report blames most on one link, us. A busy machine may stall a message for a tenth of a second, so that
    whoever injects a longer delay asks whether a link is blamed for that."""
    times = re.findall(r"(?m)^  \d -> \d +([\d.]+) (\S+)$", report)
    return max((in_microseconds(*time) for time in times), default=0)


class Trace(harness.Case):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "t.json"

    def traced(self, *command, transport="shm", code=0, words=(), **env):
        done = tutti("run", "-n", RANKS, "--trace", self.file, *words, *command,
                     env={"TUTTI_TRANSPORT": transport, **env})
        self.assertEqual(done.code, code, done)
        return load(self.file), done

    def test_every_collective_over_every_transport(self):
        for transport in ("shm", "tcp"):
            for collective in (name for name in harness.collectives() if name != "barrier"):
                with self.subTest(collective=collective, transport=transport):
                    events, done = self.traced(harness.PROGRAM, "bench", collective, "-b", "16", "-e", "256K", "-f", "128",
                                               "-n", "3", "-w", "1", transport=transport)
                    self.assertEqual(trouble_with_threads(events), "")
                    self.assertEqual(trouble_with_arrows(events), "")
                    calls = [e for e in of(events, "X", cat="call") if e["args"]["collective"] == collective]
                    self.assertGreaterEqual(len(calls), RANKS * 2 * 3 * 4)  # sizes, in place or not, calls
                    self.assertEqual({e["pid"] for e in calls}, set(range(RANKS)))
                    self.assertGreater(len(of(events, "s")), 2 * 3 * 4)
                    self.assertIn(f"{self.file} tells what {RANKS} ranks did", done.err)

    def test_steps_waits_messages_and_reductions_of_a_ring(self):
        events, _ = self.traced(harness.JOIN, "--algorithm", "ring", "--count", "300000")
        ring = [e for e in of(events, "X") if e["args"].get("call") == "all_reduce #1"]
        for rank in range(RANKS):
            mine = [e for e in ring if e["pid"] == rank]
            sends = [e for e in mine if e["cat"] == "message" and e["name"] == "send"]
            receives = [e for e in mine if e["cat"] == "message" and e["name"].startswith("receive")]
            self.assertEqual(sum(e["args"]["bytes"] for e in sends), 4 * 100_000 * 4)  # 2 (n - 1) parts of a third
            self.assertEqual(sum(e["args"]["bytes"] for e in receives), 4 * 100_000 * 4)
            self.assertEqual({e["args"]["to"] for e in sends}, {(rank + 1) % RANKS})
            self.assertEqual({e["args"]["from"] for e in receives}, {(rank - 1) % RANKS})
            reductions = [e for e in mine if e["cat"] == "reduction"]
            self.assertEqual(sum(e["args"]["bytes"] for e in reductions), 2 * 100_000 * 4)
            call = [e for e in of(events, "X", pid=rank, cat="call") if e["name"] == "all_reduce #1"]
            self.assertEqual((len(call), call[0]["args"]["algorithm"]), (1, "ring"))
            begin, end = nanoseconds(call[0])
            for event in mine:
                self.assertTrue(begin <= nanoseconds(event)[0] and nanoseconds(event)[1] <= end, (call, event))
        self.assertTrue(any(e["cat"] == "wait" and e["name"].startswith("wait for rank") for e in ring))

    def test_a_rank_copies_its_own_part_after_its_post(self):
        events, _ = self.traced(harness.PROGRAM, "bench", "all_gather", "-b", "12K", "-e", "12K", "-n", "3", "-w", "1")
        copies = of(events, "X", cat="copy")
        self.assertEqual({(e["pid"], e["args"]["bytes"]) for e in copies}, {(rank, 4096) for rank in range(RANKS)})
        for copy in copies:
            waits = [e for e in of(events, "X", cat="wait", name="wait", pid=copy["pid"])
                     if e["args"]["operation"] == copy["args"]["operation"]]
            (begin, end), (waits_from, waits_to) = nanoseconds(copy), nanoseconds(waits[0])
            self.assertTrue(waits_from <= begin and end <= waits_to, (copy, waits))  # after the post, before it takes

    def test_an_injected_delay_is_where_it_was(self):
        events, _ = self.traced(harness.JOIN, "--algorithm", "ring", "--count", "3000",
                                words=("--inject", "delay:rank=2,op=1,ms=200"))
        long_waits = {e["pid"]: e["dur"] for e in of(events, "X", cat="wait") if e["dur"] > 150_000
                      and e["name"] == "wait for rank 2"}
        self.assertEqual(set(long_waits), {0})  # its right neighbour

    def test_without_a_launcher_each_rank_adds_its_own(self):
        ranks = [harness.start(harness.JOIN, env={
            "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(RANKS), "TUTTI_RDZV": f"file://{self.folder}/meet",
            "TUTTI_TRACE_FILE": str(self.file), "TUTTI_SECRET": "0123456789abcdef"}) for rank in range(RANKS)]
        for rank in ranks:
            done = harness.Finished(rank, 30)
            self.assertEqual(done.code, 0, done)
        events = load(self.file)
        self.assertEqual({e["pid"] for e in of(events, "X", name="all_reduce #1")}, set(range(RANKS)))
        self.assertEqual(trouble_with_arrows(events) + trouble_with_threads(events), "")

    def test_a_killed_rank_takes_no_trace_with_it_not_even_its_own(self):
        events, _ = self.traced(harness.JOIN, "--algorithm", "ring", "--repeat", code=137,
                                words=("--inject", "kill:rank=1,op=5"))
        self.assertEqual(trouble_with_threads(events), "")
        for rank in range(RANKS):
            calls = {e["name"] for e in of(events, "X", cat="call", pid=rank)}
            last = 4 if rank == 1 else 3  # who is slow may still be in the one before, which lasts too short to be begun
            self.assertEqual({f"all_reduce #{n}" for n in range(1, last + 1)} - calls, set())
        killed = of(events, "X", pid=1, name="all_reduce #5")
        self.assertEqual([e["args"].get("unfinished") for e in killed], [True])
        closed = {e["pid"]: e["args"]["closed"] for e in of(events, "i", name="tutti_rank")}
        self.assertFalse(closed[1])

    def test_without_a_launcher_those_who_live_tell_of_a_rank_that_was_killed(self):
        ranks = [harness.start(harness.JOIN, "--algorithm", "ring", "--repeat", env={
            "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(RANKS), "TUTTI_RDZV": f"file://{self.folder}/meet",
            "TUTTI_TRACE_FILE": str(self.file), "TUTTI_SECRET": "0123456789abcdef",
            "TUTTI_INJECT": "kill:rank=1,op=5"}) for rank in range(RANKS)]
        codes = [harness.Finished(rank, 30).code for rank in ranks]
        self.assertEqual(codes, [1, -9, 1])
        events = load(self.file)
        self.assertEqual({e["pid"] for e in of(events, "X", name="all_reduce #4")}, {0, 2})
        for rank in (0, 2):
            failed = [e["name"] for e in of(events, "X", pid=rank, cat="call") if e["args"].get("failed")]
            self.assertEqual(len(failed), 1)
            self.assertIn(failed[0], ("all_reduce #4", "all_reduce #5"))  # who is slow may still be in the one before

    def test_the_report_names_the_rank_that_was_slow(self):
        for algorithm in ("ring", "tree", "direct"):
            self.traced(harness.JOIN, "--algorithm", algorithm, "--count", "3000",
                        words=("--inject", "delay:rank=2,op=1,ms=700"))
            done = tutti("trace", self.file)
            self.assertEqual(done.code, 0, done)
            self.assertSays(done.out, r"(?m)^rank 2 was slow: others waited for it .* most in all_reduce #1 \(\d+\.\d ms\)$",
                            rf"(?m)^all_reduce +{algorithm}\S* +3 +12000 +1 +\d+\.\d .?s +\d+\.\d ms")
            self.assertLess(slowest_link(done.out), 350_000, done.out)

    def test_the_report_and_the_page_name_a_rank_of_a_row_or_of_calls_in_windows(self):
        for collective, algorithm, step, buffers in (("reduce", "chain", 1, ()), ("all_reduce", "chain", 1, ()),
                                                     ("all_reduce", "direct_two_shot", 0, ("-R", "1"))):
            with self.subTest(collective=collective, algorithm=algorithm):
                self.traced(harness.PROGRAM, "bench", collective, "--algo", algorithm, *buffers, "-b", "1M", "-e", "1M", "-n", "3",
                            "-w", "1", words=("--inject", f"delay:rank=1,op=6,step={step},ms=700"))
                named = rf"(?m)^rank 1 was slow: others waited for it .* most in {collective} #6 \(\d+\.\d+ m?s\)$"
                self.assertSays(tutti("trace", self.file).out, named)
                done = tutti("plan", collective, "--html", self.folder / "page.html", "--trace", self.file, "--call", "6")
                self.assertEqual(done.code, 0, done)
                self.assertSays(done.out, rf"It replays {collective} #6 by {algorithm}", named)

    def test_the_page_takes_calls_of_which_some_messages_are_empty(self):
        for collective, algorithm, size, kind in (("all_reduce", "ring", "8", "float"), ("all_reduce", "ring", "8", "double"),
                                                  ("broadcast", "scatter_all_gather", "4", "float")):
            with self.subTest(collective=collective, kind=kind):
                self.traced(harness.PROGRAM, "bench", collective, "--algo", algorithm, "-b", size, "-e", size, "-d", kind,
                            "-n", "2", "-w", "1", transport="tcp")
                done = tutti("plan", collective, "--html", self.folder / "page.html", "--trace", self.file)
                self.assertEqual((done.code, done.err), (0, ""), done)
        trace = json.loads(self.file.read_text())
        messages = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "message" and e["name"] == "send"
                    and e["args"].get("call", "").startswith("broadcast")]
        self.assertNotIn(0, {e["args"]["bytes"] for e in messages})  # those are not sent
        trace["traceEvents"] = [e for e in trace["traceEvents"] if e not in messages]
        self.file.write_text(json.dumps(trace))
        done = tutti("plan", "broadcast", "--html", self.folder / "page.html", "--trace", self.file)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "of none is every message of that plan there")

    def test_calls_in_windows_have_no_prediction(self):
        self.traced(harness.PROGRAM, "bench", "all_gather", "--algo", "direct", "-R", "1", "-b", "96K", "-e", "96K", "-n", "3")
        self.assertSays(tutti("trace", self.file).out, r"(?m)^all_gather +direct +3 +96K +\d+ +- ")

    def test_a_rank_held_up_with_half_of_a_message_in_its_hands_is_slow_and_not_its_link(self):
        for step in (0, 3, 5):
            self.traced(harness.JOIN, "--algorithm", "ring", "--count", "300000", transport="tcp",
                        words=("--inject", f"delay:rank=2,op=1,step={step},ms=1500"))
            done = tutti("trace", self.file)
            self.assertSays(done.out, r"(?m)^rank 2 was slow: others waited for it .* most in all_reduce #1 \(\d+\.\d+ m?s\)$")
            self.assertLess(slowest_link(done.out), 750_000, done.out)

    def test_the_report_names_the_host_whose_ranks_were_slow(self):
        self.file.write_text(json.dumps(made_up_ring(slow_link=None, late=(0, 2), hosts="xyxyy")))
        self.assertSays(tutti("trace", self.file).out,
                        r"(?m)^host x came late: others waited for its ranks 0, 2, longest for rank 2, 25.0 ms of .* most in all_reduce #1")
        self.file.write_text(json.dumps(made_up_ring(slow_link=None, late=(0, 2), hosts="xyyxx")))
        self.assertSays(tutti("trace", self.file).out, r"(?m)^no rank, host or link stands out$")

    def test_the_report_names_the_link_that_was_slow_or_the_rank_that_came_late(self):
        self.file.write_text(json.dumps(made_up_ring(slow_link=(1, 2))))
        self.assertAlmostEqual(slowest_link(tutti("trace", self.file).out), 25_000, delta=50)
        self.assertSays(tutti("trace", self.file).out,
                        r"(?m)^the link from rank 1 to rank 2 was slow: .* 25.0 ms of .* most in all_reduce #1 \(5.0 ms\)$")
        self.file.write_text(json.dumps(made_up_ring(slow_link=None, late=(0,))))
        self.assertSays(tutti("trace", self.file).out, r"(?m)^rank 0 came late: others waited for it 25.0 ms")
        self.file.write_text(json.dumps(made_up_ring(slow_link=None)))
        self.assertSays(tutti("trace", self.file).out, r"(?m)^no rank, host or link stands out$")

    def test_calls_over_a_board_are_predicted_by_their_size(self):
        self.file.write_text(json.dumps(made_up_board()))
        rows = re.findall(r"(?m)^all_reduce +direct +2 +\S+ +10 +([\d.]+) (\S+) +([\d.]+) (\S+)", tutti("trace", self.file).out)
        self.assertEqual(len(rows), len(BOARD_SIZES))
        for size, (predicted, unit, median, unit_of_median) in zip(BOARD_SIZES, rows):
            self.assertAlmostEqual(in_microseconds(median, unit_of_median), time_on_board(size), delta=0.1)
            self.assertLess(in_microseconds(predicted, unit), 2 * time_on_board(size), size)
            self.assertGreater(in_microseconds(predicted, unit), time_on_board(size) / 2, size)

    def test_a_call_is_read_without_the_records_that_ranks_have_lost(self):
        self.traced(harness.PROGRAM, "bench", "reduce", "-r", "2", "-b", "1K", "-e", "1K", "-n", "2", "-w", "0")
        trace = json.loads(self.file.read_text())
        for lost in range(RANKS):
            kept = [e for e in trace["traceEvents"] if e["pid"] != lost or e["name"] == "tutti_rank"]
            self.file.write_text(json.dumps({**trace, "traceEvents": kept}))
            done = tutti("trace", self.file)
            self.assertEqual((done.code, done.err), (0, ""), done)
            self.assertSays(done.out, r"(?m)^reduce +\S+ +3 +1K +\d+ +- +[\d.]+ \S+ ")
            done = tutti("plan", "--html", self.folder / "page.html", "--trace", self.file)
            self.assertEqual(done.code, 6, done)

    def test_records_that_a_rank_has_lost_before_each_time_it_wrote_are_summed(self):
        trace = made_up_ring(slow_link=None)
        for mark in (marks := [e for e in trace["traceEvents"] if e["name"] == "tutti_rank"]):
            mark["args"]["lost"] = 3 * mark["pid"]
        self.file.write_text(json.dumps({**trace, "traceEvents": trace["traceEvents"] + marks}))
        lost = re.findall(r"(?m)^rank (\d): (\d+) of its records are lost", tutti("trace", self.file).out)
        self.assertEqual(lost, [("1", "6"), ("2", "12")])

    def test_slices_of_one_size_do_not_pass_at_the_same_time_in_a_prediction(self):
        for size, slices, time, predicted in ((1 << 20, 16, 100, 1600), (8, 1, 5, 5)):
            self.file.write_text(json.dumps(made_up_slices(size, slices, time)))
            row = re.search(r"(?m)^broadcast +tree\S+ +2 +\S+ +1 +([\d.]+) (\S+)", tutti("trace", self.file).out)
            self.assertAlmostEqual(in_microseconds(*row.groups()), predicted, delta=predicted / 50)

    def test_calls_of_groups_of_other_sizes_have_rows_of_their_own_and_sizes_are_those_of_all_parts(self):
        events = []
        for group, ranks in (("a", 4), ("b", 2)):
            trace = made_up_ring(slow_link=None, hosts="h" * ranks)
            for event in trace["traceEvents"]:
                args = event["args"]
                args.update({key: value for key, value in (("group", group), ("collective", "all_gather")) if key in args})
                events.append(event)
        events = [e for e in events if e["name"] != "tutti_rank"] + [e for e in events[:4]]
        self.file.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
        out = tutti("trace", self.file).out
        row = r"(?m)^all_gather +ring +{} +{} +5 +[\d.]+ [mu]?s +[\d.]+ us"
        self.assertSays(out, row.format(4, 16), row.format(2, 8))

    def test_the_report_refuses_what_is_no_trace(self):
        whole = json.dumps(made_up_ring(slow_link=None))
        changed = lambda **fields: json.dumps({"otherData": {"writer": "tutti"}, "traceEvents": [
            {"name": "all_reduce #1", "ph": "X", "pid": 0, "tid": 1, "ts": 1, "cat": "call", **fields}]})
        call = {"operation": 1, "group": "a", "algorithm": "ring", "bytes": 4, "root": 0, "ranks": 2, "place": 1,
                "variable": False}
        remedy = "; `tutti run --trace FILE` writes one$"
        cases = {
            "": "it is empty" + remedy,
            "hello": "it is not JSON" + remedy,
            "[]": 'it is JSON, but no trace: it has no "traceEvents"' + remedy,
            '{"a": 1}': 'it is JSON, but no trace: it has no "traceEvents"' + remedy,
            '{"traceEvents": 7}': 'it is JSON, but no trace: it has no "traceEvents"' + remedy,
            '{"traceEvents": [{"name": "x", "ph": "X"}, 7]}': "it is the trace of something else: no rank of tutti is in it" + remedy,
            whole[:1000]: "it is cut off or damaged at byte 1000 of 1000; if it was copied, copy it again$",
            whole.replace('"lost"', '"found"', 1): 'event 1 of its 48 has no "lost"; another version of tutti wrote it',
            changed(): 'event 1 of its 1 has no "args"',
            changed(args=call): 'event 1 of its 1 has no "collective"',
            changed(args={**call, "collective": "all_redoubt"}): 'event 1 of its 1 cannot have all_redoubt as its "collective"',
            '{"otherData": {"writer": "tutti", "format": 1}, "traceEvents": []}':
                "it is a trace in format 1, and this tutti reads format 4; let this tutti write one$",
            '{"traceEvents": [{"ts": 1e400}]}': "a number in it is too large for anything; another program changed it$",
            changed(ts=1e30, args={**call, "collective": "barrier"}): 'cannot have 1e.30 as its "ts": that is more than nine years',
            changed(dur=-1e30, args={**call, "collective": "barrier"}): 'cannot have -1e.30 as its "dur": that is more than nine',
            changed(dur=-50, args={**call, "collective": "barrier"}): 'cannot have -50 as its "dur": it is negative',
            changed(pid=1e30, args={**call, "collective": "barrier"}): 'cannot have 1e.30 as its "pid"',
            changed(pid=1 << 40, args={**call, "collective": "barrier"}): 'cannot have 1099511627776 as its "pid"',
            changed(cat="message", args={**call, "to": 1, "number": 0, "step": 0, "given_ns": 1 << 62}):
                'cannot have 4611686018427387904 as its "given_ns": that is more than nine years',
            changed(args={**call, "collective": "gather", "root": 2}): 'cannot have 2 as its "root" among 2 ranks',
            changed(args={**call, "collective": "gather", "root": -5}): 'cannot have -5 as its "root" among 2 ranks',
            changed(args={**call, "collective": "gather", "place": 7}): 'cannot have 7 as its "place" among 2 ranks',
            changed(args={**call, "bytes": -4}): 'cannot have -4 as its "bytes"',
            changed(args={**call, "bytes": "many"}): 'event 1 of its 1 cannot have "many" as its "bytes"',
        }
        for text, says in cases.items():
            with self.subTest(text=text[:60]):
                self.file.write_text(text)
                done = tutti("trace", self.file)
                self.assertEqual((done.code, done.out, len(done.err.splitlines())), (tutti("trace").code, "", 1), done)
                self.assertSays(done.err, f"^tutti: trace: cannot read {self.file}: ", f"(?m){says}")
        self.assertSays(tutti("trace", self.folder / "none").err,
                        "cannot read .*: no such file; `tutti run --trace FILE` writes one")
        self.assertSays(tutti("trace", self.folder).err, "cannot read .*: it is a folder")

    def test_memory_is_bounded_and_what_is_lost_is_said(self):
        events, done = self.traced(harness.PROGRAM, "bench", "all_reduce", "-b", "16", "-e", "16", "-n", "500",
                                   TUTTI_TRACE_RECORDS="100")
        ranks = of(events, "i", name="tutti_rank")
        for rank in ranks:
            self.assertEqual(rank["args"]["lost"], rank["args"]["records"] - 128)  # a power of two
        self.assertIn(f"{sum(rank['args']['lost'] for rank in ranks)} records are lost", done.err)
        self.assertEqual(trouble_with_threads(events), "")

    def test_variables_of_the_ranks_hold_for_the_launcher_that_keeps_their_records(self):
        done = tutti("run", "-n", "3", "-x", f"TUTTI_TRACE_FILE={self.file}", "-x", "TUTTI_TRACE_RECORDS=16",
                     "--inject", "kill:rank=1,op=20", harness.JOIN, "--repeat", env={"TUTTI_TRACE_RECORDS": "few"})
        self.assertEqual(done.code, 137, done)
        ranks = {rank["pid"]: rank["args"] for rank in of(load(self.file), "i", name="tutti_rank")}
        self.assertEqual(sorted(ranks), [0, 1, 2], "the launcher did not hold the records of the rank that was killed")
        for args in ranks.values():
            self.assertGreater(args["lost"], 0, args)
        self.assertSays(done.err, "records are lost, the oldest: TUTTI_TRACE_RECORDS keeps more")

    def test_a_program_without_tutti_leaves_an_empty_trace(self):
        events, done = self.traced("true")
        self.assertEqual(events, [])
        self.assertNotIn("tells", done.err)

    def test_a_file_that_cannot_be_made_stops_the_job_before_it_starts(self):
        done = tutti("run", "-n", "2", "--trace", "/no-such-folder/t.json", "sh", "-c", "echo started")
        self.assertNotEqual(done.code, 0)
        self.assertEqual(done.out, "")
        self.assertIn("Name a file in a folder that exists", done.err)

    def test_ranks_that_change_their_folder_write_to_the_same_file(self):
        done = tutti("run", "-n", "2", "sh", "-c", f"cd / && exec {harness.JOIN}", env={"TUTTI_TRACE_FILE": "t.json"},
                     cwd=self.folder)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(len(of(load(self.file), "X", name="all_reduce #1")), 2)


if __name__ == "__main__":
    harness.main()
