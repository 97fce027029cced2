"""Pictures of plans: frames as text, JSON and SVG.

What a frame must hold is proved in tests/algorithms/replay_test.cc; here the three are held against each other and
against golden files. TEST_WRITE_GOLDEN=1 writes those anew: look at what changed before you commit it.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import xml.etree.ElementTree as xml

import harness
import schema
from harness import Case, tutti

GOLDEN = pathlib.Path(__file__).parent / "golden"
SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "cli/plan/plan.schema.json").read_text())
SVG = "{http://www.w3.org/2000/svg}"


def plan(*arguments):
    return tutti("plan", *arguments)


def catalogue():
    return [(e["collective"], e["name"]) for e in json.loads(plan("--list", "--json").out)]


def each(function, cases):
    """Runs it for all cases, a few at once: most of the time goes into starting the program."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda case: function(*case), cases))


class Golden(Case):
    maxDiff = None

    def same(self, name, text):
        file = GOLDEN / name
        if os.environ.get("TEST_WRITE_GOLDEN"):
            GOLDEN.mkdir(exist_ok=True)
            file.write_text(text)
        self.assertEqual(file.read_text(), text, f"{name} differs")

    def check_text(self, name, words):
        done = plan(*words.split())
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.same(name + ".txt", done.out)

    def check_picture(self, name, words):
        file = self.folder / name
        done = plan(*words.split(), "--svg", file)
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.same(name + ".svg", file.read_text())

    def test_frames_of_a_ring(self):
        self.check_text("ring", "all_reduce --algo ring -n 4")

    def test_the_documentation_quotes_it(self):
        text = (pathlib.Path(__file__).parents[2] / "docs/plans.md").read_text()
        quoted = re.search(r"```console\n\$ build/tutti (plan [^\n]*)\n(.*?)```", text, re.S)
        out = tutti(*quoted[1].split()).out
        parts = [part for part in re.split(r"^\.\.\.\n", quoted[2], flags=re.M) if part]
        self.assertEqual(len(parts), 2)
        for part in parts:
            self.assertIn(part, out)

    def test_one_rank_and_what_it_waits_for(self):
        self.check_text("ring-rank", "all_reduce --algo ring -n 4 --rank 1")

    def test_two_trees_with_slices(self):
        self.check_text("two-trees", "all_reduce --algo double_binary_tree*2 -n 6 --bytes 64K")

    def test_blocks_that_pass_through_other_ranks(self):
        self.check_text("bruck", "all_to_all --algo bruck -n 5 --latency 2 --bandwidth 12.5")

    def test_who_knows_of_whom_at_a_barrier(self):
        self.check_text("barrier", "barrier --algo dissemination -n 5")

    def test_sets_that_are_no_runs_are_explained(self):
        self.check_text("circulant", "all_reduce --algo circulant -n 13 --step 4")

    def test_many_blocks_in_bands(self):
        self.check_text("bands", "all_reduce --algo ring*3 -n 8 --step 7")

    def test_pictures(self):
        self.check_picture("ring", "all_reduce --algo ring -n 4")
        self.check_picture("two-trees", "all_reduce --algo double_binary_tree*2 -n 6 --bytes 64K")
        self.check_picture("chain", "broadcast --algo chain*4 -n 5 --root 2 --step 3")
        self.check_picture("direct", "all_reduce --algo direct -n 3")


class Catalogue(Case):
    """Every algorithm, from 2 to 16 ranks."""

    def cases(self, *ranks):
        return [(collective, name, n) for collective, name in catalogue() for n in ranks]

    def test_text_keeps_to_80_columns(self):
        def check(collective, name, n):
            for more in ([], ["--rank", "1"], ["--check", "--explain"]):
                done = plan(collective, "--algo", name, "-n", n, *more)
                self.assertEqual(done.code, 0, done)
                self.assertEqual([line for line in done.lines if len(line) > 80], [], f"{collective} {name} {n} {more}")

        each(check, self.cases(2, 9, 16))
        for words in (["--list"], ["all_reduce", "-n", "8"], ["all_reduce", "-n", "8", "--bytes", "16M", "--explain"]):
            self.assertEqual([line for line in plan(*words).lines if len(line) > 80], [])

    def test_json_keeps_to_its_schema(self):
        def check(collective, name, n):
            done = json.loads(plan(collective, "--algo", name, "-n", n, "--rank", "all", "--json").out)
            schema.validate(done, SCHEMA)
            self.assertEqual(len(done["frames"]), done["cost"]["steps"] + 1)
            self.assertEqual(len(done["messages"]), done["verdict"]["messages"])
            for what, least in done["bounds"].items():
                self.assertGreaterEqual(done["cost"][what], least - 1e-6, f"{what} of {collective} {name} {n}")

        each(check, self.cases(2, 7, 16))

    def test_text_and_json_show_the_same_sets(self):
        def check(collective, name, n):
            words = (collective, "--algo", name, "-n", n)
            done = json.loads(plan(*words, "--json").out)
            shown = frames_of_text(plan(*words).out)
            expected = [frame_of_json(done, frame) for frame in done["frames"]]
            self.assertEqual(shown, expected, f"{collective} {name} {n}")

        each(check, self.cases(2, 3, 4, 5, 6, 7, 8))

    def test_pictures_are_whole_and_nothing_overlaps(self):
        def check(collective, name, n):
            where = f"{collective} {name} {n}"
            file = self.folder / f"{collective}-{name}-{n}.svg"
            words = (collective, "--algo", name, "-n", n)
            done = plan(*words, "--svg", file)
            self.assertEqual(done.code, 0, done)
            facts = json.loads(plan(*words, "--json").out)
            text = file.read_text()
            self.assertIsNone(re.search(r"<script|href|@import|@font-face", text), where)
            picture = Picture(xml.fromstring(text))
            self.assertEqual(picture.overlaps(), [], where)
            self.assertEqual(picture.outside(), [], where)
            self.assertEqual(picture.titles(), ["Start"] + [f"Step {k + 1}" for k in range(facts["cost"]["steps"])])
            # Arrows of the steps that are shown, then one per message.
            arrows = sum(len(facts["frames"][step]["messages"]) for step in picture.steps_drawn())
            self.assertEqual(picture.count("message", "thin"), arrows + len(facts["messages"]), where)
            self.assertLess(len(text), 500_000, where)

        each(check, self.cases(2, 3, 5, 8, 12, 16))


def frames_of_text(text):
    """Per frame and rank the cells; of a run of blocks as often as it is long."""
    frames = []
    for part in re.split(r"\n(?=Start\n|Step \d+ of)", text)[1:]:
        lines = part.split("\n\n")[0].split("\n")
        rows = {int(line[2]): line[4:] for line in lines if re.match(r"  \d", line)}
        header = next((line for line in lines[1:] if re.match(r"    +\d", line) and line[4] == " "), None)
        widths = [1] if header is None else [length(word) for word in header.split()]
        frames.append([[cell for cell, wide in zip(re.split(r"[ >+]", row)[1:], widths) for _ in range(wide)]
                       for _, row in sorted(rows.items())])
    return [[[c for c in row if c] for row in frame] for frame in frames]


def length(run):
    first, _, last = run.partition("-")
    return int(last or first) - int(first) + 1


def frame_of_json(done, frame):
    def places(number):
        return "".join(str(r) if r in done["sets"][number] else "." for r in range(done["ranks"]))

    return [[places(number) for number in row] for row in frame["held"]]


class Picture:
    """Where the texts of an SVG are, in its own coordinates, as wide as the drawing takes them to be."""

    def __init__(self, root):
        self.root = root
        self.width = float(root.get("width"))
        self.height = float(root.get("height"))
        self.texts = []
        self.classes = collections.Counter()
        self.walk(root, 0, 0)

    def walk(self, element, x, y):
        move = re.match(r"translate\((\S+) (\S+)\)", element.get("transform") or "")
        if move:
            x, y = x + float(move[1]), y + float(move[2])
        self.classes[element.get("class")] += 1
        if element.tag == SVG + "text":
            self.texts.append(self.box(element, x + float(element.get("x")), y + float(element.get("y"))))
        for child in element:
            self.walk(child, x, y)

    def box(self, element, x, y):
        size = {"title": 16, "head": 14, "small": 10}.get(element.get("class"), 12)
        width = 0.58 * size * len(element.text)
        left = x - {"middle": width / 2, "end": width}.get(element.get("text-anchor"), 0)
        return (left, y - 0.72 * size, left + width, y + 0.1 * size, element.text)

    def overlaps(self):
        found = []
        for i, a in enumerate(self.texts):
            found += [(a[4], b[4]) for b in self.texts[i + 1:]
                      if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]]
        return found

    def outside(self):
        return [t[4] for t in self.texts if t[0] < 0 or t[1] < 0 or t[2] > self.width or t[3] > self.height]

    def titles(self):
        return [t[4] for t in self.texts if re.fullmatch(r"Start|Step \d+", t[4])]

    def steps_drawn(self):
        return [int(t[4].split()[1]) for t in self.texts if re.fullmatch(r"Step \d+ of \d+", t[4])]

    def count(self, *classes):
        return sum(self.classes[name] for name in classes)


class Options(Case):
    def refused(self, words, *says):
        done = plan(*words.split())
        self.assertEqual((done.code, done.out), (6, ""), done)
        self.assertSays(done.err, *says)

    def test_a_picture_is_the_same_every_time_and_shows_the_step_asked_for(self):
        files = [self.folder / name for name in ("one", "two", "three")]
        for file, step in zip(files, ("2", "2", "3")):
            plan("all_gather", "--algo", "ring", "-n", "5", "--step", step, "--svg", file)
        one, two, three = (file.read_text() for file in files)
        self.assertEqual(one, two)
        self.assertNotEqual(one, three)
        self.assertIn(">Step 3 of 4<", three)

    def test_times_follow_size_latency_and_bandwidth(self):
        def time(*words):
            done = plan("all_reduce", "--algo", "ring", "-n", "4", "--json", *words)
            return json.loads(done.out)["cost"]["microseconds"]

        self.assertAlmostEqual(time("--bytes", "4K", "--latency", "3", "--bandwidth", "2"), 6 * (3 + 1.024 / 2), 3)
        self.assertAlmostEqual(time("--bytes", "8K", "--latency", "0", "--bandwidth", "2"), 6 * 2.048 / 2, 3)

    def test_what_is_out_of_range_is_refused(self):
        self.refused("all_reduce --algo ring --step 7", "--step takes 0 to 6 here, not 7")
        self.refused("all_reduce --algo ring --step -1", "--step counts from 0")
        self.refused("all_reduce --algo tree -n 40 --step 1", "text has room for 36 ranks")
        self.refused("all_reduce --latency -1", "--latency takes 0 to")
        self.refused("all_reduce --bandwidth 0", "--bandwidth takes 0.001 to")
        done = plan("all_reduce", "--algo", "ring", "--svg", "/nowhere/ring.svg")
        self.assertEqual(done.code, 74)
        self.assertSays(done.err, "cannot write /nowhere/ring.svg: No such file or directory; make its folder first$")
        self.refused(f"all_reduce --algo ring -n 100 --svg {self.folder}/x", "room for 64 ranks; take fewer")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_one_rank_has_nothing_to_send(self):
        done = plan("all_reduce", "--algo", "ring", "-n", "1")
        self.assertSays(done.out, r"\nStart\n", r"\n +steps +0 +0\n")
        file = self.folder / "alone.svg"
        self.assertEqual(plan("all_reduce", "--algo", "ring", "-n", "1", "--svg", file).code, 0)
        self.assertEqual(Picture(xml.fromstring(file.read_text())).count("message", "thin"), 0)


if __name__ == "__main__":
    harness.main()
