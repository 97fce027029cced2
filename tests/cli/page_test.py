"""The page that `tutti plan --html` writes, in a browser: what it shows is what the executor says, at both widths.

Needs Playwright and Chromium; skips without them. Playwright may lie in a virtual environment of its own:
TESTED_PLAYWRIGHT=/path/of/venv/bin/python. TESTED_CHROMIUM names another browser than the one in PATH.
"""

import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import sys

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    other = os.environ.pop("TESTED_PLAYWRIGHT", "")
    if os.access(other, os.X_OK):
        os.execv(other, [other, *sys.argv])
    sync_playwright = None

import harness
from harness import Case, tutti

CHROMIUM = os.environ.get("TESTED_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SCRIPTS = pathlib.Path(__file__).with_name("page_scripts.js").read_text()
WIDTHS = {1280: 900, 390: 844}
RANKS = [2, *harness.sampled(range(3, 17), 7)]
chromium = None
play = None


def why_not():
    if not sync_playwright:
        return "Playwright is not here: tools/test installs it, or TESTED_PLAYWRIGHT names a Python that has it"
    if not CHROMIUM:
        return "Chromium is not here"
    return "the page is the same" if harness.is_sanitized() else ""


def setUpModule():
    global chromium, play
    if why_not():
        return
    play = sync_playwright().start()
    chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])


def tearDownModule():
    if chromium:
        chromium.close()
        play.stop()


def catalogue():
    return [(e["collective"], e["name"]) for e in json.loads(tutti("plan", "--list", "--json").out)]


def facts_of(collective, name, ranks, *more):
    return json.loads(tutti("plan", collective, "--algo", name, "-n", ranks, "--json", *more).out)


def runs(ascending):
    """0-3, 7"""
    parts = []
    for number in ascending:
        if parts and parts[-1][1] + 1 == number:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def tables_of(facts):
    """Per step, rank and block what a cell has to say."""
    words = [runs(ranks) or "nothing" for ranks in facts["sets"]]
    tables = []
    for frame in facts["frames"]:
        table = [[words[number] for number in row] for row in frame["held"]]
        for cell in frame["apart"]:
            table[cell["rank"]][cell["block"]] += f"; together only {words[cell['largest']]}"
        tables.append(table)
    return tables


def sentences_of(facts):
    """Per step the messages that arrive, in any order."""
    def told(message):
        return f"{message['from']}→{message['to']}" + (f" [{runs(message['blocks'])}]" if message["blocks"] else "")

    return [sorted(told(facts["messages"][i]) for i in frame["messages"]) for frame in facts["frames"]]


def spread(header, table):
    """A row per rank, a cell per block, of a table in which blocks share columns."""
    widths = []
    for words in header:
        first, _, last = words.partition("-")
        widths.append(int(last or first) - int(first) + 1 if first.isdigit() else 1)
    return [[cell for cell, wide in zip(row, widths) for _ in range(wide)] for row in table]


def messages_in(sentence):
    return sorted(re.findall(r"\d+→\d+(?: \[[^]]*\])?", sentence))


def microseconds(text):
    number, unit = text.split()
    return float(number) * {"ns": 1e-3, "µs": 1, "ms": 1e3, "s": 1e6}[unit]


class Written(Case):
    """What needs no browser."""

    def write(self, *words):
        file = self.folder / "page.html"
        done = tutti("plan", *words, "--html", file)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return file

    def test_it_is_one_small_file_that_names_no_other(self):
        text = self.write("all_reduce", "--compare", "double_binary_tree*4,ring").read_text()
        self.assertLess(len(text.encode()), 400_000)
        self.assertEqual(set(re.findall(r"https?://[^\"' ]*", text)), {"http://www.w3.org/2000/svg"})
        self.assertEqual(re.findall(r"\b(?:src|@import|url)\b\s*[=(\"]", text), [])
        self.assertEqual(re.findall(r"\b(?:href)=\"(?!data:,)", text), [])

    def test_it_is_the_same_every_time(self):
        self.assertEqual(self.write("scatter").read_bytes(), self.write("scatter").read_bytes())

    def test_names_of_a_measurement_cannot_end_the_data(self):
        points = self.folder / "points.json"
        row = {"algorithm": "</script>ring", "size": 8, "in_place": None, "out_of_place": {"time": 3}}
        points.write_text(json.dumps({"config": {"devices": [{}, {}]}, "tutti": {"collective": "all_reduce"}, "results": [row]}))
        text = self.write("all_reduce", "--points", points).read_text()
        self.assertEqual(text.count("</script>"), 2)

    def test_what_cannot_be_shown_is_refused(self):
        def refused(words, *says):
            done = tutti("plan", *words.split(), "--html", self.folder / "page.html")
            self.assertEqual((done.code, done.out), (6, ""), done)
            self.assertSays(done.err, *says)

        bad = self.folder / "bad.json"
        bad.write_text('{"results": [{"size": 8}]}')
        refused("all_reduce -n 17", "--html takes -n 2 to 16, not 17")
        refused("all_reduce --algo ring -n 4 --step 99", "--step takes 0 to 6 here, not 99")
        refused("all_reduce --compare ring,tree,chain", "takes two algorithms, not 3")
        refused("all_reduce --compare ring,tre", 'Did you mean "tree"')
        refused("all_reduce --compare ring,tree --algo tree", "omit --algo")
        refused("all_reduce --algo ring*64", "choose a smaller pipeline")
        refused(f"all_reduce --points {self.folder}/none.json", "cannot read")
        refused(f"all_reduce --points {bad}", "was not written by tutti bench -J FILE")
        self.assertEqual(list(self.folder.iterdir()), [bad])
        done = tutti("plan", "all_reduce", "--compare", "ring,tree")
        self.assertSays(done.err, "belong to --html FILE")


class Opened(Case):
    """In a browser. Every page is closed by `watched`, which also says what went wrong on it."""

    def setUp(self):
        if why_not():
            self.skipTest(why_not())
        super().setUp()
        self.file = self.folder / "page.html"

    def write(self, *words):
        done = tutti("plan", *words, "--html", self.file)
        self.assertEqual((done.code, done.err), (0, ""), done)

    def open(self, width=1280, link="", **options):
        page = chromium.new_page(viewport={"width": width, "height": WIDTHS[width]}, **options)
        self.addCleanup(page.close)
        wrong = []
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url.startswith(self.file.as_uri()) or wrong.append(request.url))
        self.addCleanup(lambda: self.assertEqual(wrong, []))
        page.set_default_timeout(10_000)
        page.goto(self.file.as_uri() + link)
        page.evaluate(SCRIPTS)
        return page

    def shown(self, page):
        return page.evaluate("tested.panels()")

    def choose(self, page, **controls):
        page.evaluate("controls => tested.choose(controls)", list(controls.items()))


class Truth(Opened):
    def test_every_frame_of_every_algorithm_is_the_executors(self):
        self.write("all_reduce")
        cases = [(collective, name, ranks) for collective, name in catalogue() for ranks in RANKS]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            facts = dict(zip(cases, pool.map(lambda case: facts_of(*case), cases)))
        page = self.open()
        # Drawings are not looked at here, and take most of the time.
        page.evaluate("window.requestAnimationFrame = () => 0")
        page.add_style_tag(content=".topology, .times, .cost { display: none }")
        compared = set()
        for ranks in RANKS:
            for collective in dict.fromkeys(collective for collective, _ in catalogue()):
                names = [name for other, name in catalogue() if other == collective]
                for pair in zip(names[::2], names[1::2] + names[:1]):
                    link = f"#collective={collective}&algorithms={','.join(pair)}&ranks={ranks}&step=0"
                    shown = page.evaluate("link => tested.course(link)", link)
                    self.assertEqual(len(shown), 2, link)
                    for name, one in zip(pair, shown):
                        self.compare(facts[collective, name, ranks], one, f"{collective} {name} {ranks}")
                        compared.add((collective, name, ranks))
        self.assertEqual(compared, set(cases))

    def compare(self, facts, shown, where):
        self.assertEqual(shown["name"], facts["algorithm"], where)
        tables = tables_of(facts)
        tables += tables[-1:] * (len(shown["tables"]) - len(tables))  # of the shorter of two algorithms
        for step, (table, expected) in enumerate(zip(shown["tables"], tables)):
            self.assertEqual(spread(shown["header"], table), expected, f"{where}, step {step}")
        for step, (sentence, expected) in enumerate(zip(shown["sentences"], sentences_of(facts))):
            self.assertEqual(messages_in(sentence), expected, f"{where}, step {step}")
        steps, time = re.fullmatch(r"(\d+) steps?, .*?([\d.]+ [nµm]?s)(?:; .+ slices?)?", shown["facts"]).groups()
        self.assertEqual(int(steps), facts["cost"]["steps"], where)
        self.assertTrue(math.isclose(microseconds(time), facts["cost"]["microseconds"], rel_tol=0.006), where)

    def test_times_under_other_models_are_the_executors(self):
        for model in harness.sampled((("4K", 2, 12.5), ("64M", 50, 0.3), ("3000", 0.7, 100)), 3):
            words = [w for pair in zip(("--bytes", "--latency", "--bandwidth"), map(str, model)) for w in pair]
            self.write("all_reduce", *words, "-n", "8")
            page = self.open(link="#time=0")
            for collective, names in (("all_reduce", ("ring", "double_binary_tree", "circulant", "tree", "all_pairs", "direct")),
                                      ("broadcast", ("scatter_all_gather", "double_binary_tree")), ("barrier", ("tree", "direct"))):
                for pair in zip(names[::2], names[1::2]):
                    page.evaluate("link => tested.follow(link)", f"#collective={collective}&algorithms={','.join(pair)}&ranks=7&time=0")
                    panels = self.shown(page)
                    self.assertEqual(len(panels), 2)
                    for panel, name in zip(panels, pair):
                        self.compare_times(page, panel, facts_of(collective, name, 7, *words))

    def compare_times(self, page, panel, facts):
        """When each message arrives, as pointing at a rank tells."""
        for rank in (0, 6):
            told = page.evaluate("([side, rank]) => tested.point(side, rank)", [panel["side"], rank])
            expected = sorted((m["end"], m["from"], m["to"]) for m in facts["messages"] if rank in (m["from"], m["to"]))
            found = sorted((microseconds(t), int(a), int(b)) for t, a, b in re.findall(r"([\d.]+ [nµm]?s): (\d+)→(\d+)", told))
            self.assertEqual(len(found), len(expected), told)
            for (end, *_), (known, *_) in zip(found, expected):
                self.assertTrue(math.isclose(end, known, rel_tol=0.006), (facts["algorithm"], end, known))


class Looks(Opened):
    LINKS = ("#ranks=8&step=3", "#ranks=2&step=1", "#ranks=16&step=7", "#ranks=16&algorithms=circulant,direct&step=4",
             "#ranks=9&algorithms=tree&step=2", "#ranks=16&algorithms=double_binary_tree,all_pairs&time=800",
             "#collective=barrier&ranks=13&step=2", "#collective=all_to_all&algorithms=bruck,direct&ranks=16&step=3",
             "#collective=broadcast&algorithms=chain,tree&ranks=16&step=5&latency=100&bytes=8",
             "#ranks=11&time=300&bytes=64&latency=0.3&gigabytesPerSecond=40")

    def test_no_labels_overlap_and_nothing_is_cut_off(self):
        self.write("all_reduce", "--bytes", "64K")
        for width in WIDTHS:
            page = self.open(width)
            for link in self.LINKS:
                page.evaluate("link => tested.follow(link)", link)
                self.assertEqual(page.evaluate("tested.overlaps()"), [], f"{width} {link}")
                self.assertEqual(page.evaluate("tested.outside()"), [], f"{width} {link}")

    def test_sixteen_ranks_keep_their_lines_and_labels(self):
        self.write("all_reduce", "--compare", "ring,direct", "-n", "16")
        page = self.open()
        edges = lambda side: page.evaluate(f"document.querySelectorAll('[data-side=\"{side}\"] .edges line').length")
        self.assertEqual((edges(0), edges(1)), (16, 120))  # also before the first step
        page.evaluate("link => tested.follow(link)", "#ranks=16&step=3")
        labels = page.evaluate("[...document.querySelectorAll('[data-side=\"0\"] .carried')].map(text => text.textContent)")
        self.assertEqual(sorted(labels, key=int), [str(block) for block in range(16)])
        ticks = page.evaluate("""[...document.querySelectorAll('[data-side="0"] .times .axis text')].map(text =>
            [text.getAttribute('x'), text.previousSibling.getAttribute('x1')])""")
        self.assertGreater(len(ticks), 4)
        self.assertEqual([label for label, _ in ticks], [tick for _, tick in ticks])

    def test_text_stands_out_from_what_is_behind_it_in_light_and_dark(self):
        self.write("all_reduce")
        for scheme in ("light", "dark"):
            page = self.open(color_scheme=scheme, link="#ranks=8&step=3")
            self.assertEqual(page.evaluate("tested.faint()"), [], scheme)

    def test_without_colour_two_algorithms_differ_still(self):
        self.write("all_reduce", "-n", "8")
        page = self.open()
        dashes = page.evaluate("[...document.querySelectorAll('.curve')].map(c => getComputedStyle(c).strokeDasharray)")
        self.assertEqual(len(set(dashes)), 2)


class Use(Opened):
    def test_a_link_fixes_algorithms_ranks_and_step_and_the_page_writes_it(self):
        self.write("all_reduce")
        link = "#collective=all_gather&algorithms=bruck,ring&ranks=5&step=2"
        page = self.open(link=link)
        panels = self.shown(page)
        self.assertEqual([panel["name"] for panel in panels], ["bruck", "ring"])
        self.assertEqual([panel["frame"] for panel in panels], [2, 2])
        self.assertEqual(page.evaluate("location.hash"), link)
        self.choose(page, first="direct", moment=1)
        link = link.replace("bruck", "direct").replace("step=2", "step=1")
        page.wait_for_function("link => location.hash === link", arg=link)
        page.evaluate("link => tested.follow(link)", "#collective=nonsense&ranks=99&step=-4&algorithms=x")
        self.assertEqual([panel["name"] for panel in self.shown(page)], ["direct", "ring"])
        self.assertSays(page.text_content("#note"), "what is not here: collective=nonsense, ranks=99, algorithms=x, step=-4.$")
        page.evaluate("link => tested.follow(link)", "#step=99")
        self.assertSays(page.text_content("#note"), r"what is not here: step=99 \(the last one is 4\)\.$")
        self.choose(page, moment=1)
        self.assertTrue(page.is_hidden("#note"))

    def test_the_keyboard_plays_steps_and_walks_through_a_table(self):
        self.write("all_reduce", "-n", "8", "--step", "2")
        page = self.open()
        frames = lambda: [panel["frame"] for panel in self.shown(page)]
        self.assertEqual(frames(), [2, 2])
        page.keyboard.press("ArrowRight")
        self.assertEqual(frames(), [3, 3])
        page.keyboard.press("End")
        self.assertEqual(frames(), [14, 10])
        page.keyboard.press("Home")
        page.keyboard.press("ArrowLeft")
        self.assertEqual(frames(), [0, 0])
        page.keyboard.press("Space")
        page.wait_for_function("tested.panels()[0].frame >= 1")
        page.keyboard.press("Space")
        self.assertEqual(page.text_content("#play"), "Play")
        page.keyboard.press("End")
        page.focus("td[tabindex='0']")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        self.assertSays(self.shown(page)[0]["detail"], "^Block 1 at rank 1: start: 1 · step 7, from rank 0: 0-7$")
        self.assertEqual(frames(), [14, 10])

    def test_playing_reaches_the_end(self):
        self.write("broadcast", "--compare", "tree,direct", "-n", "2")
        page = self.open()
        page.click("#play")
        page.wait_for_function("tested.panels().every(panel => panel.sentence.startsWith('Done'))")
        self.assertEqual(page.text_content("#play"), "Play")

    def test_unwanted_motion_is_spared(self):
        self.write("broadcast", "--compare", "chain,direct", "-n", "4")
        page = self.open(reduced_motion="reduce")
        page.evaluate("tested.watch()")
        page.click("#play")
        page.wait_for_function("tested.panels()[0].frame >= 1")
        self.assertEqual(len(page.evaluate("tested.seen")), 2)  # the start and the first step, nothing between
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('.dot')).display"), "none")

    def test_pointing_at_a_rank_tells_its_messages(self):
        self.write("all_reduce", "--compare", "ring,tree", "-n", "4")
        page = self.open()
        page.hover(".matrix tbody tr:nth-child(3) th")
        self.assertSays(self.shown(page)[0]["detail"], r"^Rank 2: step 1: 1→2 \[0\] · step 1: 2→3 \[1\]")
        self.assertEqual(page.evaluate("document.querySelectorAll('[data-side=\"0\"] .message.pointed').length"), 12)
        page.hover(".matrix tbody tr:nth-child(1) td:nth-child(3)")
        self.assertSays(self.shown(page)[0]["detail"], "^Block 1 at rank 0: start: 0 · step 2, from rank 3: 0, 2-3")

    def test_one_algorithm_may_stand_alone(self):
        self.write("gather", "--algo", "tree:3", "-n", "9")
        page = self.open()
        self.assertEqual([panel["name"] for panel in self.shown(page)], ["tree:3"])
        self.assertEqual(page.text_content("#purpose"), "Every rank brings one part of a vector; in the end rank 0 has all parts.")


if __name__ == "__main__":
    harness.main()
