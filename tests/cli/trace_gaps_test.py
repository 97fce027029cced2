#!/usr/bin/env python3
"""What `tutti trace` says of traces that lack something: of calls that failed, of communicators without a name, of clocks
that drift."""

import json

import harness
from harness import tutti
from made_up_traces import RANKS, made_up_ring


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


if __name__ == "__main__":
    harness.main()
