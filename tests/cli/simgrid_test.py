"""tutti simulate --simgrid: our times beside those of another simulator, and what is said where it is not there."""

import csv
import json
import os
import pathlib
import shutil

import harness
from harness import Case, run, tutti

PLAIN = """name hosts of four
host 4
leaf 16
start 3us
reduce 10GB/s
copy 20GB/s
link socket 1us 100ns 20GB/s
link host 1us 100ns 20GB/s
link leaf 5us 200ns 10GB/s
link leaf from 32K 7us 200ns 12GB/s
link far 5us 200ns 10GB/s
"""
SHARED = PLAIN + "shared host 12GB/s\n"
RANKS = "2,3,5,8,13,16"
SIZES = "8,64K,4M"
HUGE = ("all_to_all", "--algo", "direct", "-n", "20000", "--size", "160000")  # more steps than can be simulated


class Beside(Case):
    def setUp(self):
        super().setUp()
        if not (pathlib.Path(harness.PROGRAM).resolve().parent / "cli/simulate/simgrid/tutti-simgrid").exists():
            self.skipTest("built without SimGrid")

    def distances(self, collective, algorithms, network, ranks=RANKS, sizes=SIZES):
        """(algorithm, ranks, bytes) -> how much longer it takes by SimGrid."""
        net, file = self.folder / "it.net", self.folder / "it.csv"
        net.write_text(network)
        chosen = ("--algo", algorithms) if algorithms else ()
        done = tutti("simulate", collective, *chosen, "-n", ranks, "--size", sizes, "--net", str(net),
                     "--simgrid", "--csv", str(file), limit=120)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"(?m)^ +ranks +bytes +algorithm +ours +SimGrid +distance$",
                        r"SimGrid's times are [\d.]+ % shorter to [\d.]+ % longer than ours\.\n$")
        rows = list(csv.DictReader(file.read_text().splitlines()))
        self.assertEqual(len(rows) % (len(ranks.split(",")) * len(sizes.split(","))), 0, done)
        found = {(row["algorithm"], row["ranks"], row["bytes"]): float(row["distance"]) for row in rows}
        for row in rows:
            self.assertGreater(float(row["simgrid_seconds"]), 0)
            self.assertAlmostEqual(float(row["simgrid_seconds"]) / float(row["seconds"]) - 1,
                                   found[row["algorithm"], row["ranks"], row["bytes"]], places=4)
        return found

    def check(self, found, least, most):
        outside = {key: value for key, value in found.items() if not least <= value <= most}
        self.assertEqual(outside, {})

    def test_what_takes_no_bandwidth_is_the_same_for_every_algorithm(self):
        for network in (PLAIN, SHARED):
            for collective in ("all_reduce", "all_to_all"):
                # With 8 bytes two messages of rails among 3 ranks arrive at one moment, and either may be the first.
                self.check(self.distances(collective, "", network, sizes="16"), -0.005, 0.005)

    def test_where_no_messages_meet_both_agree_at_every_size(self):
        for collective, algorithms in (("all_reduce", "ring,chain"), ("broadcast", "tree:2,tree:4,chain,direct"),
                                       ("reduce", "chain"), ("all_gather", "ring"), ("scan", "chain"), ("scatter", "tree:2,direct")):
            with self.subTest(collective=collective):
                self.check(self.distances(collective, algorithms, PLAIN), -0.005, 0.005)
        self.check(self.distances("all_reduce", "doubling,tree:2", PLAIN, ranks="2,4,8,16"), -0.005, 0.005)
        self.check(self.distances("all_reduce", "ring,chain", SHARED), -0.005, 0.005)

    def test_where_they_meet_simgrid_lets_all_go_on_more_slowly(self):
        some = "double_binary_tree,tree_of_chains:4,circulant,doubling"
        self.check(self.distances("all_reduce", some, PLAIN), -0.12, 0.30)
        self.check(self.distances("all_reduce", some + ",direct", SHARED), -0.12, 0.35)

    def test_where_many_meet_it_holds_up_their_senders_too(self):
        found = self.distances("all_reduce", "all_pairs,direct_two_shot,direct", PLAIN)
        self.check(found, -0.12, 2.2)
        self.assertGreater(max(found.values()), 0.5)

    def test_what_is_too_large_is_refused(self):
        for ranks, algorithm in (("24576", "tree"), ("512", "ring")):
            done = tutti("simulate", "all_reduce", "--algo", algorithm, "-n", ranks, "--size", "8", "--simgrid")
            self.assertEqual(done.code, 5, done)
            self.assertSays(done.err, rf"{algorithm}.* over {ranks} ranks is too large for SimGrid, which is given 512 ranks")
        done = tutti("simulate", *HUGE, "--simgrid")
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, "direct over 20000 ranks is too large for SimGrid")


class Made(Case):
    """Beside a program that says what a test wants it to say."""

    def beside(self, tutti_at, simgrid_at, script):
        """tutti simulate --simgrid, where these are."""
        program, made = self.folder / tutti_at / "tutti", self.folder / simgrid_at / "tutti-simgrid"
        for file in (program, made):
            file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(harness.PROGRAM, program)
        made.write_text("#!/bin/sh\n" + script)
        made.chmod(0o755)
        return run(program, "simulate", "all_reduce", "--algo", "ring", "-n", "4", "--size", "8", "--simgrid")

    def test_the_last_line_is_the_result_whatever_simgrid_says_besides(self):
        done = self.beside(".", "cli/simulate/simgrid", "echo 7 >&2; echo '[0.0] a warning' >&2; echo 8; echo 0.0125; echo 9 >&2")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r" ring +[\d.]+ us +12\.500 ms")
        self.assertSays(done.err, r"7\n\[0\.0\] a warning\n9")

    def test_what_is_wrong_is_told(self):
        for script, why in (("echo deadlock; exit 1", "deadlock"), ("echo 0.1; kill -9 $$", "tutti-simgrid failed"),
                            ("echo 0.1s", r"0\.1s"), ("exit 0", "tutti-simgrid failed")):
            done = self.beside(".", "cli/simulate/simgrid", script)
            self.assertEqual(done.code, 5, done)
            self.assertSays(done.err, why)

    def test_it_is_found_where_it_is_installed(self):
        build = pathlib.Path(harness.PROGRAM).resolve().parent
        options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
        folder = {option["name"]: pathlib.PurePosixPath(option["value"]) for option in options
                  if option["name"] in ("prefix", "bindir", "libexecdir")}
        bin_at, libexec_at = (os.path.relpath(folder["prefix"] / folder[name], folder["prefix"])
                              for name in ("bindir", "libexecdir"))
        done = self.beside(bin_at, f"{libexec_at}/tutti", "echo 0.0125")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"12\.500 ms")


class Without(Case):
    def test_it_says_what_to_install_where_it_is_not_there(self):
        alone = self.folder / "tutti"
        shutil.copy(harness.PROGRAM, alone)
        done = run(alone, "simulate", "all_reduce", "--algo", "ring", "-n", "4", "--simgrid")
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, r"--simgrid needs the program tutti-simgrid, .* libsimgrid-dev .*-Dsimgrid=enabled")
        # That is said before anything is simulated: this could not be.
        done = run(alone, "simulate", *HUGE, "--simgrid")
        self.assertSays(done.err, r"--simgrid needs the program tutti-simgrid")

    def test_what_does_not_go_together(self):
        for words, why in ((("--simgrid",), "--simgrid needs a collective"),
                           (("all_reduce", "--simgrid", "--regret"), "--simgrid has no effect with --regret"),
                           (("all_reduce", "--simgrid", "--svg", "x.svg"), "--svg has no effect with --simgrid")):
            done = tutti("simulate", *words)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, why)


if __name__ == "__main__":
    harness.main()
