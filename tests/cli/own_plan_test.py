"""--import of tutti plan, simulate and bench: files of plans, as --save and people write them."""

import csv
import json
import re
import xml.etree.ElementTree as xml

import harness
from harness import Case, tutti


def own_ring(ranks):
    """Lines of a file of plans: an all_reduce around a ring, in which the reader derives what waits for what."""
    lines = ["tutti-plans 1", f"all_reduce own_ring ranks {ranks} root 0 pipeline 1 derive-waits"]
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        lines.append(f"rank {rank}")
        for step in range(ranks - 1):
            passed, came = (rank - step - 1) % ranks, (rank - step - 2) % ranks
            lines += [f"send {after} {'o' if step else 'i'}{passed}", f"recv_reduce {before} o{came} i{came}"]
        for step in range(ranks - 1):
            lines += [f"send {after} o{(rank - step) % ranks}", f"recv {before} o{(rank - step - 1) % ranks}"]
    return lines


class Own(Case):
    def write(self, lines, name="own.plan"):
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def test_it_is_proved_shown_drawn_and_written(self):
        path = self.write(own_ring(4))
        done = tutti("plan", "--import", path, "--check")
        self.assertEqual(done.code, 0, done)
        self.assertSays(
            done.out,
            r"^all_reduce by own_ring over 4 ranks: a plan from\s",
            r"Proved for all 4\s+ranks",
            r"steps +6 +2\n",
            r"busiest rank sends +1\.50 S",
        )
        of_catalogue = json.loads(tutti("plan", "all_reduce", "--algo", "ring", "-n", "4", "--json").out)
        own = json.loads(tutti("plan", "--import", path, "--json").out)
        self.assertEqual(own["algorithm"], "own_ring")
        for key in ("collective", "ranks", "blocks", "verdict", "cost", "bounds", "messages", "frames", "sets"):
            self.assertEqual(own[key], of_catalogue[key], key)
        picture, again, goal = (self.folder / name for name in ("own.svg", "again.plan", "own.goal"))
        for option, file in (("--svg", picture), ("--save", again), ("--goal", goal)):
            self.assertEqual(tutti("plan", "--import", path, option, file).code, 0)
        self.assertEqual(xml.parse(picture).getroot().tag, "{http://www.w3.org/2000/svg}svg")
        self.assertSays(goal.read_text(), "num_ranks 4")
        self.assertSays(
            again.read_text(), r"^tutti-plans 1\nall_reduce own_ring ranks 4 root 0 pipeline 1\n", " after "
        )
        self.assertEqual(json.loads(tutti("plan", "--import", again, "--json").out), own)

    def test_every_algorithm_comes_back_as_it_was_saved(self):
        for one in json.loads(tutti("plan", "--list", "--json").out):
            path = self.folder / "saved.plan"
            asked = (one["collective"], "--algo", one["name"], "-n", "5")
            self.assertEqual(tutti("plan", *asked, "--save", path).code, 0)
            saved = json.loads(tutti("plan", *asked, "--json", "--rank", "all").out)
            back = json.loads(tutti("plan", "--import", path, "--json", "--rank", "all").out)
            for key in ("collective", "root", "pipeline", "plans", "cost", "verdict"):
                self.assertEqual(back[key], saved[key], (one, key))

    def refused(self, spoil, *words):
        lines = own_ring(4)
        spoil(lines)
        path = self.write(lines)
        for command in (["plan"], ["simulate"], ["bench", "all_reduce", "-g", "4"]):
            done = tutti(*command, "--import", path)
            self.assertEqual((done.code, done.out), (6, ""), done)
            self.assertSays(done.err, *words)
        return path

    def test_errors_name_line_and_step(self):
        def put(line, text):
            return lambda lines: lines.__setitem__(line - 1, text)

        self.refused(put(5, "recv_reduce 3 o2 i2 i2"), r'own.plan:5: "i2" stands where "after" must')
        self.refused(put(5, "recv_reduce 4 o2 i2"), r'own.plan:5: "4" is not a number from 0 to 3')
        self.refused(
            put(2, "all_reduce ring ranks 4 root 0 pipeline 1"), "own.plan:2: the catalogue has an algorithm ring"
        )
        self.refused(
            put(5, "recv 3 o2"),
            r"own.plan is wrong:\n  all_reduce: rank 0: ends with output\[2\] lacking rank 0: "
            r"left out in rank 0 step 1 in line 5 \(recv from 3\), though rank 0 has it",
        )
        self.refused(
            put(5, "copy o2 i2"), r"rank 3 step 10 in line 53 \(send to 0\): sends a message that rank 0 never receives"
        )
        self.refused(lambda lines: lines.__setitem__(slice(None), ["grid"]), r"own.plan:1: a file of plans begins with")
        self.refused(lambda lines: lines.clear(), r"cannot read .*own.plan: it is empty")

    def test_json_says_what_is_wrong(self):
        lines = own_ring(2)
        lines[4] = "recv 1 o1"
        done = tutti("plan", "--import", self.write(lines), "--json")
        self.assertEqual(done.code, 6, done)
        told = json.loads(done.out)
        self.assertFalse(told["verdict"]["ok"])
        self.assertSays(told["verdict"]["problems"][0], r"rank 0 step 1 in line 5")
        self.assertEqual(len(told["plans"][0]["steps"]), 4)
        self.assertNotIn("cost", told)

    def simulated(self, path, beside):
        """The rows of a plan and of the algorithms beside it."""
        points = self.folder / "points.csv"
        sizes = ("--size", "8,1000,1M", "--net", "100g")
        done = tutti("simulate", "--import", path, "--algo", beside, *sizes, "--csv", points)
        self.assertEqual(done.code, 0, done)
        return list(csv.DictReader(points.read_text().splitlines()))

    def test_it_is_simulated_as_the_same_algorithm_of_the_catalogue_is(self):
        rows = self.simulated(self.write(own_ring(6)), "ring,tree:3")
        self.assertEqual([row["algorithm"] for row in rows], ["own_ring", "ring", "tree:3"] * 3)
        for own, of_catalogue in zip(rows[0::3], rows[1::3]):
            self.assertEqual({**own, "algorithm": "ring"}, of_catalogue)
        alone = tutti("simulate", "--import", self.write(own_ring(6)), "--size", "8", "--net", "100g")
        self.assertEqual(len(re.findall(r"(?m)^ +6 +8 ", alone.out)), 1, alone)

    def test_slices_are_simulated_with_the_sizes_they_have(self):
        saved = self.folder / "saved.plan"
        for algorithm in ("chain*4", "double_binary_tree*8", "ring*2"):
            self.assertEqual(tutti("plan", "all_reduce", "--algo", algorithm, "-n", "5", "--save", saved).code, 0)
            rows = self.simulated(saved, algorithm)
            self.assertEqual([row["seconds"] for row in rows[0::2]], [row["seconds"] for row in rows[1::2]], algorithm)

    def test_what_simulate_cannot_combine(self):
        path = self.write(own_ring(4))
        for words in (["-n", "8"], ["--regret"], ["--simgrid"], ["--summit"], ["--root", "1"]):
            self.assertSays(tutti("simulate", "--import", path, *words).err, "excludes")
        self.assertSays(
            tutti("simulate", "broadcast", "--import", path).err, "own.plan is for all_reduce, not broadcast"
        )

    def test_it_runs_and_its_results_are_right(self):
        path = self.write(own_ring(4))
        for transport in ("shm", "tcp"):
            sizes, calls = "-b 4 -e 64K -f 128".split(), "-n 3 -w 1 -c 3 --format csv".split()
            words = ("bench", "all_reduce", "--import", path, "-g", "4", *sizes, *calls)
            done = tutti(*words, "--transport", transport, limit=120)
            self.assertEqual(done.code, 0, done)
            header, *lines = [line.split(",") for line in done.lines if not line.startswith("#")]
            rows = [dict(zip(header, line)) for line in lines]
            self.assertEqual(
                ({row["algorithm"] for row in rows}, {row["wrong"] for row in rows}), ({"own_ring"}, {"0"})
            )
        words = ("run", "-n", "4", "--no-label", harness.JOIN, "--algorithm", "own_ring")
        done = tutti(*words, limit=60, env={"TUTTI_PLAN_FILE": str(path)})
        self.assertEqual((done.code, done.lines), (0, ["sum 10"] * 4), done)


if __name__ == "__main__":
    harness.main()
