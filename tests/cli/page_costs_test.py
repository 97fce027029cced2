"""The costs on the page that `tutti plan --html` writes: curves, where they cross, and what was measured."""

import json
import math
import re

import harness
from harness import tutti
from page_test import Opened, facts_of, microseconds, setUpModule, tearDownModule  # noqa: F401 (unittest calls the last two)


class Costs(Opened):
    def test_sliders_move_curves_and_crossover(self):
        self.write("all_reduce", "-n", "8")
        page = self.open()
        said = lambda: page.text_content("#crossovers")
        curve = lambda: page.get_attribute(".curve", "d")
        self.assertSays(said(), r"^Faster: up to [\d.]+ KiB double_binary_tree; above that ring\.$")
        before, drawn = said(), curve()
        self.choose(page, latency=2)
        self.assertNotEqual(said(), before)
        self.assertNotEqual(curve(), drawn)
        low, high = (self.crossover(text) for text in (before, said()))
        self.assertTrue(math.isclose(high / low, 10, rel_tol=0.02), (low, high))  # scales with the latency
        line = page.get_attribute(".now line", "x1")
        self.choose(page, bytes=10)
        self.assertNotEqual(page.get_attribute(".now line", "x1"), line)
        self.assertEqual(page.text_content("#bytes-now"), "1 KiB")

    def test_curves_take_the_slices_that_are_best_at_each_size(self):
        self.write("broadcast", "--compare", "double_binary_tree,tree", "-n", "8")
        page = self.open()
        self.assertSays(page.text_content("#crossovers"), r"^Faster: up to \d+ KiB tree:2; above that double_binary_tree\.$")
        for power in (3, 13, 20, 28):
            self.choose(page, bytes=power)
            shown = re.findall(r"(\S+): ([\d.]+ \S+)", " ".join(page.locator("#costs li").all_text_contents()))
            for side, name in enumerate(("double_binary_tree", "tree:2")):
                times = {slices: facts_of("broadcast", f"{name}*{slices}", 8, "--bytes", 2 ** power)["cost"]["microseconds"]
                         for slices in (1, 2, 4, 8, 16, 32)}
                best = min(times, key=times.get)
                self.assertEqual(shown[side][0], name if best == 1 else f"{name}*{best}", (power, times))
                self.assertTrue(math.isclose(microseconds(shown[side][1]), times[best], rel_tol=0.006), (power, shown, times))
                drawn = page.get_attribute(f".curve.side-{side}", "d")[1:].split("L")[power - 3]
                now = page.get_attribute(f".now .side-{side}", "cy")
                self.assertTrue(math.isclose(float(drawn.split()[1]), float(now), abs_tol=0.11), (power, drawn, now))

    def test_two_depths_of_one_algorithm_stay_apart(self):
        self.write("all_reduce", "--compare", "double_binary_tree,double_binary_tree*8", "-n", "8")
        page = self.open()
        costs = page.locator("#costs li").all_text_contents()
        self.assertSays(costs[0], "^ double_binary_tree: ")
        self.assertSays(costs[1], r"^ double_binary_tree\*8: ")
        self.assertSays(page.text_content("#crossovers"), r"up to .* double_binary_tree; above that double_binary_tree\*8\.$")

    def crossover(self, text):
        number, unit = re.search(r"up to ([\d.]+) (\w+) ", text).groups()
        return float(number) * {"B": 1, "KiB": 1024, "MiB": 1024 ** 2}[unit]

    def test_measured_points_lie_where_they_were_measured(self):
        points = self.folder / "points.json"
        done = tutti("run", "-n", "2", "--no-label", harness.PROGRAM, "bench", "all_reduce", "-b", "8", "-e", "8K", "-f", "32",
                     "--compare", "ring,tree", "-J", points)
        self.assertEqual(done.code, 0, done)
        rows = json.loads(points.read_text())["results"]
        self.write("all_reduce", "--compare", "ring,tree", "-n", "2", "--points", points)
        page = self.open()
        titles = page.evaluate("[...document.querySelectorAll('.measured title')].map(title => title.textContent)")
        self.assertEqual(len(titles), len(rows))
        self.assertSays(page.text_content("#measured"), f"{len(rows)} of {len(rows)} points")
        heights = page.evaluate("[...document.querySelectorAll('.measured circle')].map(c => [+c.getAttribute('cx'), +c.getAttribute('cy')])")
        times = [(row["size"], row["out_of_place"]["time"]) for row in rows if row["algorithm"] == "ring"]
        self.assertEqual([x for x, _ in heights], sorted(x for x, _ in heights))
        self.assertEqual(sorted(range(len(times)), key=lambda i: times[i][1]), sorted(range(len(times)), key=lambda i: -heights[i][1]))
        page.evaluate("link => tested.follow(link)", "#collective=reduce&algorithms=tree:2&ranks=2")
        self.assertSays(page.text_content("#measured"), f"^Measured: 0 of {len(rows)} points; the others are of another collective")
        page.evaluate("link => tested.follow(link)", "#collective=all_reduce&algorithms=ring&ranks=2")
        self.choose(page, ranks=3)
        self.assertSays(page.text_content("#measured"), "^Measured: 0 of")


if __name__ == "__main__":
    harness.main()
