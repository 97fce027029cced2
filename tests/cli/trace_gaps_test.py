#!/usr/bin/env python3
"""What `tutti trace` says of traces that lack something: of calls that failed, of communicators without a name, of clocks
that drift."""

import json

import harness
from harness import tutti
from made_up_traces import RANKS, made_up_ring, made_up_slices


class TraceGaps(harness.Case):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "t.json"

    def report(self, trace):
        self.file.write_text(json.dumps(trace))
        done = tutti("trace", self.file)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return done.out

    def test_calls_of_communicators_that_are_not_told_apart_are_left_out(self):
        trace = made_up_ring(slow_link=None)
        others = made_up_ring(slow_link=None, late=(1,))["traceEvents"][RANKS:]
        for event in others:
            event["args"].update(group="0", ranks=0, place=0)
            event["ts"] += 50_000
        out = self.report({"traceEvents": trace["traceEvents"] + others})
        self.assertSays(out, r"(?m)^15 calls of single ranks are left out: they are of further communicators than the 256 ",
                        r"(?m)^all_reduce +ring +3 +4 +5 ", r"(?m)^no rank, host or link stands out$")

    def test_calls_that_failed_are_named_and_not_counted(self):
        trace = made_up_ring(slow_link=None)
        for event in trace["traceEvents"]:
            if event["name"] == "all_reduce #5":
                event["dur"] = 10_000_000
                event["args"]["unfinished" if event["pid"] == 1 else "failed"] = True
        out = self.report(trace)
        self.assertSays(out, r"^\S+: 3 ranks, 4 calls, \d+\.\d us in calls\n"
                        r"all_reduce #5 failed on rank 0, 2, and was never ended by rank 1\n",
                        r"(?m)^all_reduce +ring +3 +4 +4 .* [\d.]+ us$")

    def test_a_call_that_ended_after_the_failure_of_another_counts(self):
        trace = made_up_ring(slow_link=None)
        early = [{**event, "args": {**event["args"], "unfinished": True}} for event in trace["traceEvents"]
                 if event["name"] == "all_reduce #5" and event["pid"] == 1]
        out = self.report({"traceEvents": early + trace["traceEvents"]})
        self.assertSays(out, r"^\S+: 3 ranks, 5 calls, ")
        self.assertNotIn("never ended", out)

    def test_messages_that_arrive_before_they_were_sent_are_no_measure_of_a_link(self):
        trace = made_up_slices(1 << 20, 16, 100)
        for event in trace["traceEvents"]:
            if event["name"] == "receive":
                event["ts"] -= 150
        self.assertSays(self.report(trace), r"(?m)^broadcast +tree\S+ +2 +1M +1 +- ")

    def test_what_is_nested_deeply_is_read_or_refused(self):
        deep = "[" * 200_000 + "]" * 200_000
        whole = json.dumps(made_up_ring(slow_link=None))
        self.file.write_text(whole.replace('"args": {', f'"args": {{"more": {deep}, ', 4))
        self.assertEqual(tutti("trace", self.file).code, 0)
        for found, says in (('"host": "h"', 'cannot have a list as its "host"'), ('"lost": 0', 'cannot have a list as its "lost"')):
            self.file.write_text(whole.replace(found, found.split(":")[0] + ": " + deep, 1))
            done = tutti("trace", self.file)
            self.assertEqual((done.code, done.out), (6, ""), done)
            self.assertSays(done.err, f"^tutti: trace: cannot read {self.file}: event 1 of its 48 {says}")
        self.file.write_text('{"otherData": {"writer": ' + deep + '}, "traceEvents": []}')
        self.assertSays(tutti("trace", self.file).err, "it is the trace of something else")


if __name__ == "__main__":
    harness.main()
