"""Every example runs, finds its own result right, and prints what its reader is told to expect.

    examples_test.py TUTTI FOLDER_OF_THE_EXAMPLES [unittest's words]
"""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
from harness import Case, tutti

PROGRAMS = pathlib.Path("build/examples")
SOURCES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
PATIENCE = int(os.environ.get("WATCHDOG_SECONDS", "60"))


def each_rank(line):
    return lambda n: [line(rank, n) for rank in range(n)]


def rank_zero(line):
    return lambda n: [line(n)]


def transposed(rank, n):
    return f"rank {rank}:" + "".join(f" {row}{rank}" for row in range(n))


def gathered(rank, n):
    letters = "".join("abcdefgh"[k] * (k + 1) for k in range(n))
    return f'rank {rank} has {2 * n} numbers and "{letters}"'


def reduced(n):
    total = n * (n - 1) // 2
    return f"rank 0 got sums {n} {total} {-total}, maxima 1 {n - 1} 0, length {n ** 0.5:.6g}"


def owned(rank, n):
    weight = n * (n + 1) // 2  # what the ranks multiply with, added up
    return f"rank {rank} owns " + " ".join(str((3 * rank + i) * weight) for i in range(3))


def grouped(rank, n):
    members = range(rank % 2, n, 2)
    side = ("even", "odd")[rank % 2]
    return (f"rank {rank} is rank {rank // 2} of {len(members)} in the {side} group: "
            f"sum {sum(members)} there, {sum(range(n))} overall")


def multiplied(rank, n):
    return f"rank {rank} multiplies columns {1536 * rank // n} to {1536 * (rank + 1) // n - 1}, 0 outputs are wrong"


# What n ranks print, in any order: the exact lines, or what they match.
EXPECTED = {
    "hello_ranks": each_rank(lambda r, n: f"hello from rank {r} of {n}"),
    "threads": each_rank(lambda r, n: "4 threads: 10"),
    "scatter_gather": each_rank(lambda r, n: f"rank {r} squared {2 * r} and {2 * r + 1}"),
    "reduce": rank_zero(reduced),
    "broadcast": each_rank(lambda r, n: f"rank {r}: learning rate 0.001, momentum 0.9, batch 64"),
    "all_gather": each_rank(gathered),
    "all_reduce": each_rank(lambda r, n: f"rank {r} of {n}: {(n - 1) / 2:g}"),
    "persistent": each_rank(
        lambda r, n: f"rank {r} of {n}: own {499500 + 1000 * r}, all {499500 * n + 500 * n * (n - 1)}"),
    "allocated": each_rank(
        lambda r, n: f"rank {r} of {n}: average {9 + (n - 1) / 2:.1f} in {'shared' if n > 1 else 'ordinary'} memory"),
    "all_to_all": each_rank(transposed),
    "reduce_scatter": each_rank(owned),
    "point_to_point": each_rank(lambda r, n: f"rank {r} got 262144 numbers from rank {(r - 1) % n}"),
    "c_row_parallel": each_rank(multiplied),
    "chain_of_three": lambda n: ["rank 0 -> rank 1 -> rank 2"],
    "two_groups": each_rank(grouped),
    "soft_max_and_norm": rank_zero(
        lambda n: re.compile(r"norm 31\d{3}\.\d+, probabilities add up to (1|0\.9{9}\d*|1\.0{9}\d*)")),
    "own_ring": rank_zero(lambda n: re.compile(r"1000003 floats: by hand \d+\.\d\d ms, built in \d+\.\d\d ms")),
    "sgd": lambda n: [re.compile(rf"epoch {epoch:3}  loss 0\.\d{{6}}") for epoch in range(20, 201, 20)],
}
SIZES = {"chain_of_three": (3, 4)}


class Examples(Case):
    def lines_of(self, name, ranks):
        done = tutti("run", "-n", ranks, "--label", "never", PROGRAMS / name, limit=PATIENCE)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return done.lines

    def assertPrints(self, name, ranks):
        lines = sorted(self.lines_of(name, ranks))
        expected = EXPECTED[name](ranks)
        if all(isinstance(line, str) for line in expected):
            self.assertEqual(lines, sorted(expected))
            return
        self.assertEqual(len(lines), len(expected), lines)
        for line, pattern in zip(lines, expected):
            self.assertRegex(line, f"^{pattern.pattern}$")

    def test_every_example_is_tested_and_is_short(self):
        sources = [*SOURCES.glob("*.cc"), *SOURCES.glob("*.c")]
        self.assertEqual({path.stem for path in sources}, set(EXPECTED))
        for path in sources:
            with self.subTest(path.name):
                self.assertLessEqual(len(path.read_text().splitlines()), 80)

    def test_training_follows_the_same_curve_whatever_the_number_of_ranks(self):
        curve = self.lines_of("sgd", 1)
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.lines_of("sgd", ranks), curve)
        losses = [float(line.split()[-1]) for line in curve]
        self.assertEqual(losses, sorted(losses, reverse=True), "the loss never rises")
        self.assertLess(losses[-1], 0.05)

    def test_a_chain_of_three_says_what_it_lacks(self):
        self.assertEqual(sorted(self.lines_of("chain_of_three", 2)),
                         [f"rank {rank}: a chain of three needs three ranks" for rank in range(2)])

    def test_an_example_needs_no_launcher(self):
        done = harness.run(PROGRAMS / "all_reduce", limit=PATIENCE)
        self.assertEqual((done.code, done.out), (0, "rank 0 of 1: 0\n"), done)


def add_one_test_per_example():
    for name in EXPECTED:
        def test(self, name=name):
            for ranks in SIZES.get(name, (1, 2, 3, 4)):
                with self.subTest(ranks=ranks):
                    self.assertPrints(name, ranks)
        setattr(Examples, f"test_{name}", test)


if __name__ == "__main__":
    add_one_test_per_example()
    if len(sys.argv) > 2 and "/" in sys.argv[2]:
        PROGRAMS = pathlib.Path(sys.argv.pop(2)).resolve()
    harness.main()
