"""A real run on the page of `tutti plan --html --trace`: what it shows is what the trace says, whoever was slow is named."""

import json
import re

import harness
import page_test
from harness import tutti
from page_test import WIDTHS, Opened, setUpModule, tearDownModule  # noqa: F401 (unittest calls the last two)

RANKS = 4


def nanoseconds(event):
    """Begin and end."""
    begin = round(event["ts"] * 1000)
    return begin, begin + round(event["dur"] * 1000)


def events_of(file, collective, number):
    """The slices of a call, and of its messages."""
    found = [e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X" and e["args"].get("operation") == number]
    calls = [e for e in found if e["cat"] == "call" and e["args"]["collective"] == collective]
    return calls, [e for e in found if e["args"].get("call") == f"{collective} #{number}"]


def exact(nanoseconds_since):
    return f"{nanoseconds_since / 1000:.3f}"


def tenths(nanoseconds):
    """Of a microsecond; halves go up."""
    return f"{(nanoseconds + 50) // 100 / 10:.1f}"


def rows_by_links(file, collective, number):
    """(from, to, sent, received) of every message, as the page writes them."""
    calls, steps = events_of(file, collective, number)
    begin = min(nanoseconds(call)[0] for call in calls)
    messages = [e for e in steps if e["cat"] == "message"]
    received = {(e["args"]["from"], e["pid"], e["args"]["number"]): nanoseconds(e)[1] for e in messages if "from" in e["args"]}
    rows = []
    for send in (e for e in messages if "to" in e["args"]):
        ends = send["pid"], send["args"]["to"]
        given = nanoseconds(send)[0] + send["args"]["given_ns"]
        rows.append((*ends, exact(given - begin), exact(received[*ends, send["args"]["number"]] - begin)))
    return sorted(rows)


def rows_over_a_board(file, collective, number):
    """Of a call in which all read of all, in one round or several."""
    calls, steps = events_of(file, collective, number)
    begin = min(nanoseconds(call)[0] for call in calls)
    sent, received = {}, {}
    for event in sorted(steps, key=lambda e: e["args"]["step"], reverse=True):  # the first round comes last
        first, last = nanoseconds(event)
        if event["name"] in ("post", "post and wait"):
            sent[event["pid"]] = last if event["name"] == "post" else first
        if event["name"] in ("wait", "take", "post and wait"):
            received[event["pid"]] = max(received.get(event["pid"], 0), last)
    return sorted((a, b, exact(sent[a] - begin), exact(received[b] - begin)) for a in sent for b in received if a != b)


class Run(Opened):
    def trace(self, *command, transport="shm", words=()):
        self.traced = self.folder / "t.json"
        done = tutti("run", "-n", RANKS, "--trace", self.traced, *words, *command, env={"TUTTI_TRANSPORT": transport})
        self.assertEqual(done.code, 0, done)

    def bench(self, collective, algorithm, *words, transport="shm"):
        self.trace(harness.PROGRAM, "bench", collective, "-n", "2", "-w", "0", "--algo", algorithm, *words, transport=transport)

    def delayed(self, algorithm="ring"):
        """Rank 2 is slow in call 1."""
        self.trace(harness.JOIN, "--algorithm", algorithm, "--count", "3000", words=("--inject", "delay:rank=2,op=1,ms=200"))

    def write(self, *words):
        done = tutti("plan", *words, "--html", self.file, "--trace", self.traced)
        self.assertEqual((done.code, done.err), (0, ""), done)
        self.assertLess(self.file.stat().st_size, 400_000)
        return done.out

    def refused(self, *words):
        done = tutti("plan", "--html", self.folder / "refused.html", *words)
        self.assertEqual((done.code, done.out, len(done.err.splitlines())), (6, "", 1), done)
        self.assertFalse((self.folder / "refused.html").exists())
        return done.err

    def figures(self, page):
        """(from, to, sent, received) and the two that were predicted, of every message, as the page tells them."""
        page.evaluate("document.querySelector('.figures').open = true")
        page.wait_for_function("document.querySelectorAll('.figures tbody tr').length > 0")
        rows = page.evaluate("[...document.querySelectorAll('.figures tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        ends = [re.match(r"(\d+)→(\d+)", row[0]).groups() for row in rows]
        return sorted((int(a), int(b), *row[1:]) for (a, b), row in zip(ends, rows))

    def verdict(self, page):
        return page.evaluate("[...document.querySelectorAll('.verdict li')].map(item => item.textContent)")


class Truth(Run):
    def check_figures(self, rows_of, collective, *words):
        self.write(*words)
        page = self.open()
        numbers = page.evaluate("[...document.querySelectorAll('#call option')].map(option => option.value)")
        self.assertGreater(len(numbers), 0)
        for number in numbers:
            self.choose(page, call=number)
            figures = self.figures(page)
            self.assertEqual([row[:4] for row in figures], rows_of(self.traced, collective, int(number)), number)
            for *_, begin, end in figures:
                self.assertLessEqual(0, float(begin))
                self.assertLess(float(begin), float(end))
        return page

    def test_times_of_links_are_those_of_the_trace(self):
        cases = (("all_reduce", "ring", "shm"), ("all_reduce", "tree", "tcp"), ("all_to_all", "direct", "tcp"),
                 ("broadcast", "chain*4", "shm"))
        for collective, algorithm, transport in harness.sampled(cases, 2):
            with self.subTest(collective=collective, algorithm=algorithm, transport=transport):
                self.bench(collective, algorithm, "-b", "64K", "-e", "64K", transport=transport)
                self.check_figures(rows_by_links, collective, collective, "--algo", algorithm)

    def test_times_over_a_board_are_those_of_the_trace(self):
        for size in ("16", "4K", "1M"):  # told in one record, in one round, in several
            with self.subTest(size=size):
                self.bench("all_reduce", "direct", "-b", size, "-e", size)
                self.check_figures(rows_over_a_board, "all_reduce", "all_reduce", "--algo", "direct")

    def test_in_the_end_all_have_what_the_executor_says(self):
        cases = [("all_reduce", "double_binary_tree*2"), ("reduce", "tree:3"), ("broadcast", "direct"), ("all_gather", "bruck"),
                 ("reduce_scatter", "ring"), ("scatter", "direct"), ("gather", "tree"), ("all_to_all", "pairwise")]
        for collective, algorithm in harness.sampled(cases, 4):
            with self.subTest(collective=collective):
                self.bench(collective, algorithm, "-b", "4K", "-e", "4K")
                self.write(collective)
                page = self.open()
                facts = page_test.facts_of(collective, algorithm, RANKS)
                page.keyboard.press("End")
                tables = page.evaluate("tested.visible().map(panel => tested.table(panel))")
                header = page.evaluate("[...tested.visible()[0].querySelectorAll('thead th')].slice(1).map(c => c.textContent)")
                self.assertEqual(len(tables), 2)
                for table in tables:  # as it ran, and as predicted
                    self.assertEqual(page_test.spread(header, table), page_test.tables_of(facts)[-1])

    def test_the_prediction_is_that_of_tutti_trace(self):
        self.delayed()
        self.write()
        line = rf"(?m)^all_reduce +ring +{RANKS} +12000 +1 +([\d.]+) ([um])s"
        expected, unit = re.search(line, tutti("trace", self.traced).out).groups()
        page = self.open()
        self.assertSays(page.text_content(".which"), rf"predicted {expected} {unit.replace('u', 'µ')}s")
        longest = max(round(float(row[5]) * 1000) for row in self.figures(page))
        self.assertEqual(tenths(longest if unit == "u" else longest // 1000), expected)

    def test_times_are_rounded_as_in_the_terminal(self):
        self.delayed()
        self.write()
        written = self.file.read_text()
        for nanoseconds in (10250, 104249, 104250, 104350, 104750, 999949):  # 104.25 is exact as a double, 104.35 is less
            changed, times = re.subn(r'"predicted":\d+', f'"predicted":{nanoseconds}', written)
            self.assertEqual(times, 1)
            self.file.write_text(changed)
            self.assertSays(self.open().text_content(".which"), rf"predicted {tenths(nanoseconds)} µs")


class Verdict(Run):
    def test_the_slow_rank_is_named_in_words_in_the_table_and_on_the_drawing(self):
        for algorithm in ("ring", "direct"):
            self.delayed(algorithm)
            said = self.write()
            self.assertSays(said, rf"(?m)^It replays all_reduce #1 by {algorithm} over 4 ranks: \d+\.\d ms, predicted ",
                            r"(?m)^rank 2 was slow: others waited for it ")
            page = self.open()
            self.assertSays(self.verdict(page)[0], r"^rank 2 was slow: others waited for it .* most in all_reduce #1 \(\d+\.\d ms\)$")
            self.assertIn(self.verdict(page)[0], said)
            self.assertEqual(page.evaluate("[...document.querySelectorAll('.blame .named')].map(row => row.dataset.rank)"), ["2"])
            ringed = "[...document.querySelectorAll('.panel')].map(p => [...p.querySelectorAll('.node.named')].map(n => n.dataset.rank))"
            self.assertEqual(page.evaluate(ringed), [["2"], []])
            rows = page.evaluate("[...document.querySelectorAll('.blame tr')].map(row => [...row.cells].map(c => c.textContent))")
            slow = [float(re.sub(r"[^\d.]", "", row[3])) for row in rows]
            self.assertGreater(slow[2], 100_000)
            self.assertEqual(slow.index(max(slow)), 2)

    def test_the_call_and_its_number_are_chosen_and_said(self):
        self.bench("all_reduce", "ring", "-b", "4K", "-e", "64K", "-f", "16")
        said = self.write("--call", "3")
        self.assertSays(said, "It replays all_reduce #3 by ring", "; 12 of 16 such calls of .* are on it")
        page = self.open()
        self.assertEqual(page.text_content("#title"), "all_reduce #3 over 4 ranks, as it ran")
        one, other = [n for n in page.evaluate("[...document.querySelectorAll('#call option')].map(o => o.value)") if n != "3"][:2]
        self.choose(page, call=one)
        self.assertEqual(page.text_content("#title"), f"all_reduce #{one} over 4 ranks, as it ran")
        page.wait_for_function("link => location.hash.startsWith(link)", arg=f"#call={one}&")
        page.evaluate("link => tested.follow(link)", f"#call={other}&time=1.5")
        self.assertSays(page.text_content(".which"), f"^all_reduce #{other} of ")
        self.assertSays(page.text_content("#moment-now"), r"^1\.500 µs of ")
        page.evaluate("link => tested.follow(link)", "#call=99")
        self.assertSays(page.text_content("#note"), "asks for what is not here: call=99")

    def test_what_the_trace_does_not_have_is_refused_and_what_it_has_is_said(self):
        self.bench("all_gather", "ring", "-b", "4K", "-e", "4K")
        self.assertSays(self.refused("--trace", self.traced, "-n", "5"), "has no call over 5 ranks",
                        "it has all_gather by ring over 4 ranks")
        self.assertSays(self.refused("broadcast", "--trace", self.traced), "has no broadcast; it has all_gather by ring")
        self.assertSays(self.refused("all_gather", "--algo", "bruck", "--trace", self.traced), "has no all_gather by bruck; it has")
        self.assertSays(self.refused("--trace", self.traced, "--call", "999"), "has no call #999")
        self.assertSays(self.refused("--trace", self.traced, "--compare", "ring,tree"), "leave --compare away")
        self.assertSays(self.refused("--trace", self.traced, "--step", "3"), "--step counts steps of plans")
        self.assertSays(self.refused("--call", "3"), "--call names a call of --trace FILE")
        self.assertSays(self.refused("--trace", self.folder / "none.json"), "cannot read")
        self.trace("true")
        self.assertSays(self.refused("--trace", self.traced), "it has no call of 2 to 16 ranks")

    def test_a_call_of_which_messages_are_lost_is_not_shown(self):
        self.delayed()
        trace = json.loads(self.traced.read_text())
        receives = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["name"] == "receive and reduce"]
        trace["traceEvents"].remove(receives[0])
        self.traced.write_text(json.dumps(trace))
        self.assertSays(self.refused("all_reduce", "--trace", self.traced),
                        "has 1 call of all_reduce by ring over 4 ranks, but of none is every message")


class Use(Run):
    def test_no_labels_overlap_and_nothing_is_cut_off(self):
        for algorithm in ("ring", "direct"):
            self.delayed(algorithm)
            self.write()
            for width in WIDTHS:
                page = self.open(width)
                for link in ("#call=1&time=0", "#call=1&time=150000", "#call=1&time=1e12"):
                    page.evaluate("link => tested.follow(link)", link)
                    page.evaluate("document.querySelector('.figures').open = true")
                    self.assertEqual(page.evaluate("tested.overlaps()"), [], f"{width} {link}")
                    self.assertEqual(page.evaluate("tested.outside()"), [], f"{width} {link}")

    def test_text_stands_out_and_measured_differs_from_predicted_without_colour(self):
        self.delayed()
        self.write()
        for scheme in ("light", "dark"):
            page = self.open(color_scheme=scheme)
            self.assertEqual(page.evaluate("tested.faint()"), [], scheme)
        dashes = page.evaluate("""['.predicted line', '.message .line'].map(
            name => getComputedStyle(document.querySelector(name)).strokeDasharray)""")
        self.assertEqual(dashes[1], "none")
        self.assertNotEqual(dashes[0], "none")
        self.assertSays(page.get_attribute(".times svg", "aria-label"), "as measured, over what was predicted")

    def test_keys_step_from_one_measured_moment_to_the_next_and_play(self):
        self.delayed()
        self.write()
        page = self.open()
        moment = lambda: page.evaluate("Number(document.querySelector('.cursor').getAttribute('x1'))")
        times = [float(row[3]) for row in self.figures(page)]
        page.keyboard.press("ArrowRight")
        first = page.text_content("#moment-now")
        self.assertLessEqual(float(re.sub(r"\s", "", first.split(" µs")[0])), min(times) * 1.001 + 0.1)
        at = moment()
        page.keyboard.press("ArrowRight")
        self.assertGreater(moment(), at)
        page.keyboard.press("End")
        self.assertTrue(all(panel["sentence"].startswith("Done after ") for panel in self.shown(page)))
        page.keyboard.press("Home")
        page.keyboard.press("Space")
        page.wait_for_function("document.querySelector('.cursor').getAttribute('x1') > 100")
        page.keyboard.press("Space")
        self.assertEqual(page.text_content("#play"), "Play")

    def test_unwanted_motion_is_spared(self):
        self.delayed()
        self.write()
        page = self.open(reduced_motion="reduce")
        page.evaluate("tested.watch()")
        page.click("#play")
        page.wait_for_function("tested.seen.length > 1")
        page.click("#play")
        self.assertLessEqual(len(page.evaluate("tested.seen")), 3)
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('.dot')).display"), "none")

    def test_plans_are_a_choice_away_and_the_run_comes_back(self):
        self.delayed()
        self.write()
        page = self.open()
        self.choose(page, first="direct")
        self.assertEqual([panel["name"] for panel in self.shown(page)], ["direct"])
        self.assertTrue(page.is_hidden("#report"))
        self.assertTrue(page.is_visible(".cost"))
        page.check("#clock-run")
        self.assertEqual([panel["name"] for panel in self.shown(page)], ["ring, as it ran", "ring, as predicted"])
        self.assertTrue(page.is_visible("#report"))

    def test_ranks_of_a_subgroup_are_told_by_both_numbers(self):
        self.delayed()
        trace = json.loads(self.traced.read_text())
        for event in trace["traceEvents"]:
            event["pid"] += 3
            for end in ("from", "to"):
                if end in event["args"]:
                    event["args"][end] += 3
        self.traced.write_text(json.dumps(trace))
        self.write()
        page = self.open()
        self.assertSays(self.verdict(page)[0], "^rank 5 was slow")
        self.assertEqual(page.text_content(".blame .named th"), "▸ 2 (rank 5 of the job)")
        self.assertEqual(page.evaluate("document.querySelector('.node.named').dataset.rank"), "2")


if __name__ == "__main__":
    harness.main()
