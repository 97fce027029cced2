"""tutti simulate: the published table, what it prints, draws and refuses."""

import csv
import errno
import os
import pathlib
import re
import select
import subprocess
import time
import xml.etree.ElementTree

import harness
from harness import Case, run, tutti

HOSTS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/hosts"
TRIED = ("ring", "tree:2", "double_binary_tree")
TRIAL = r"# all_reduce (\S+) +(\d)"
TIMES = r"measured +([\d.]+) us, simulated +([\d.]+) us"
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"


def simulate(*arguments, **options):
    return tutti("simulate", *arguments, **options)


class Summit(Case):
    def setUp(self):
        super().setUp()
        if harness.is_sanitized():
            self.skipTest("sanitizers make minutes of it, and the table is the same")

    def test_the_table_is_the_golden_one(self):
        done = simulate("--summit", "-n", "768")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out, (GOLDEN / "simulate_summit.txt").read_text())

    def test_latency_at_every_published_size_lies_within_6_percent_and_the_ratio_within_5(self):
        file = self.folder / "points.csv"
        for algorithm in ("ring", "tree_of_chains:6"):
            done = simulate("all_reduce", "--algo", algorithm, "-n", "96-24576", "--size", "8", "--csv", str(file))
            self.assertEqual(done.code, 0, done)
            found = {int(row["ranks"]): float(row["seconds"]) * 1e6 for row in csv.DictReader(file.read_text().splitlines())}
            published = {
                "ring": [178, 356, 655, 1313, 2700, 5475, 10540, 21900, 45200],
                "tree_of_chains:6": [128, 140, 156, 169, 180, 199, 208, 228, 249],
            }[algorithm]
            self.assertEqual(list(found), [96 << k for k in range(9)])
            for is_so, should in zip(found.values(), published):
                self.assertLess(abs(is_so / should - 1), 0.06, (algorithm, is_so, should))
            if algorithm == "ring":
                ring = found[24576]
                closed = 11.1 + 2 * 24575 * (4 * 0.47 + 0.80 + 2.582) / 6
                self.assertLess(abs(ring / closed - 1), 0.01)
        self.assertLess(abs(ring / found[24576] / 181 - 1), 0.05)


class Show(Case):
    def test_a_table_a_csv_file_and_a_drawing_agree(self):
        drawing, file = self.folder / "curves.svg", self.folder / "points.csv"
        done = simulate("all_reduce", "--algo", "ring,double_binary_tree", "-n", "16,64", "--size", "8,1M", "--net", "100g",
                        "--csv", str(file), "--svg", str(drawing))
        self.assertEqual(done.code, 0, done)
        rows = list(csv.DictReader(file.read_text().splitlines()))
        self.assertEqual([(r["algorithm"], r["ranks"], r["bytes"]) for r in rows],
                         [(a, n, b) for n in ("16", "64") for b in ("8", "1048576") for a in ("ring", "double_binary_tree")])
        self.assertEqual(len(re.findall(r"(?m)^ +\d+ +\w+  (?:ring|double_binary_tree) ", done.out)), 8)
        self.assertSays(done.out, rf"ring +{float(rows[0]['seconds']) * 1e6:.2f} us .* 60 sweep\n")
        root = xml.etree.ElementTree.fromstring(drawing.read_text())
        texts = [element.text for element in root.iter() if element.tag.endswith("text")]
        for name in ("ring, 8 bytes", "ring, 1M bytes", "double_binary_tree, 8 bytes", "16", "64"):
            self.assertIn(name, texts)
        self.assertEqual(sum(element.tag.endswith("circle") for element in root.iter()), 8)

    def test_a_drawing_says_all_that_it_is_of(self):
        drawing = self.folder / "curves.svg"
        done = simulate("all_reduce", "--algo", "chain,ring,tree", "-n", "64", "--size", "8-64M", "--net", "100g", "--svg", str(drawing))
        self.assertEqual(done.code, 0, done)
        root = xml.etree.ElementTree.fromstring(drawing.read_text())
        texts = [element.text for element in root.iter() if element.tag.endswith("text")]
        self.assertSays(texts[0], "^all_reduce on .*, 64 ranks$")
        self.assertIn("64M", texts)  # where the curves end
        self.assertIn("time", texts)
        ends = {}
        for line in done.out.splitlines():
            if found := re.match(r" +64 +64M  (\w+)\S* +.*?([\d.]+) (us|ms|s) ", line):
                ends[found[1]] = float(found[2]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[found[3]]
        legend = [text.partition(":")[0] for text in texts if text.partition(":")[0] in ends]
        self.assertEqual(legend, sorted(ends, key=ends.get, reverse=True))
        self.assertEqual(len(legend), 3)

    def test_a_network_that_was_printed_can_be_read_and_changed(self):
        text = simulate("--print-net", "100g").out
        file = self.folder / "mine.net"
        file.write_text(text)
        arguments = ("all_reduce", "--algo", "tree", "-n", "256", "--size", "8", "--net")
        same = simulate(*arguments, str(file)).out
        table = lambda out: re.search(r"(?m)^ +256 .*", out).group(0)
        self.assertEqual(table(same), table(simulate(*arguments, "100g").out))
        file.write_text(text.replace("15us", "45us"))
        self.assertNotEqual(table(same), table(simulate(*arguments, str(file)).out))

    def test_regret_of_a_bad_table_is_found(self):
        bad = self.folder / "table"
        bad.write_text("all_reduce * * * ring\n")
        done = simulate("all_reduce", "-n", "64", "--size", "8", "--net", "100g", "--regret", "--table", str(bad))
        self.assertEqual(done.code, 0, done)
        loss = float(re.search(r"(?m)^ +64 +8  ring .* ([\d.]+)x$", done.out).group(1))
        self.assertGreater(loss, 2, done)
        self.assertSays(done.out, rf"{loss:.2f} at worst")


class Progress(Case):
    """How far it is, for those who look on."""

    def seen(self, *arguments):
        """What a terminal at standard error gets."""
        reader, terminal = os.openpty()
        process = subprocess.Popen([harness.PROGRAM, "simulate", *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=terminal)
        os.close(terminal)
        out = process.stdout.fileno()
        shown = {reader: b"", out: b""}  # read while it runs: neither holds more than some kilobytes
        reading = set(shown)
        deadline = time.monotonic() + 60
        try:
            while reading:
                ready, _, _ = select.select(reading, [], [], max(0, deadline - time.monotonic()))
                self.assertTrue(ready, f"still running after a minute: {shown}")
                for file in ready:
                    part = self.read(file)
                    shown[file] += part
                    if not part:
                        reading.remove(file)
            self.assertEqual(process.wait(timeout=60), 0)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            os.close(reader)
        return shown[out].decode(), shown[reader].decode()

    @staticmethod
    def read(file):
        try:
            return os.read(file, 4096)
        except OSError as error:  # what a terminal says once nobody has its other end any more
            if error.errno != errno.EIO:
                raise
            return b""

    def test_a_terminal_sees_it_and_nothing_else_does(self):
        for more in ((), ("--regret",)):
            arguments = ("all_reduce", "-n", "8,16", "--size", "8,1M", "--net", "100g", *more)
            out, shown = self.seen(*arguments)
            lines = re.findall(r"\r\x1b\[K(\d+) of (\d+): (\S+) over (?:8|16) ranks, (?:8|1M) bytes", shown)
            calls = 4 if more else len(re.findall(r"(?m)^ +\d+ +\w+  \S+ ", out))
            self.assertEqual([line[:2] for line in lines], [(str(i + 1), str(calls)) for i in range(calls)], shown)
            done = simulate(*arguments)
            self.assertEqual((done.code, done.err), (0, ""), done)
            same = lambda text: re.sub(r"Simulated in .*", "", text)
            self.assertEqual(same(done.out), same(out))


class Calibrate(Case):
    def setUp(self):
        super().setUp()
        if harness.is_sanitized():
            self.skipTest("what sanitizers add is not this machine's")

    def test_this_machine_becomes_a_network_that_can_be_used(self):
        for transport in ("tcp", "shm"):
            done = simulate("--calibrate", "--transport", transport)
            self.assertEqual(done.code, 0, done)
            trials = re.findall(rf"{TRIAL} ranks +\w+: {TIMES}", done.out)
            self.assertEqual([trial[:2] for trial in trials], [(name, "2") for name in TRIED for _ in range(4)], done)
            self.assertTrue(all(float(time) > 0 for trial in trials for time in trial[2:]), done)
            self.assertSays(done.out, r"# Median error of these 12: \d+ %\.\n$")
            file = self.folder / "here.net"
            file.write_text(done.out)
            used = simulate("all_reduce", "--algo", "ring", "-n", "2", "--size", "1M", "--net", str(file))
            self.assertSays(used.out, rf"^all_reduce on: this machine, {transport}\n")
        for words, why in (
            (("--transport", "udp"), r'takes tcp or shm, not "udp"'),
            (("-n", "3"), "takes 2 to 2 here, not 3"),
            (("--namespaces", "a,b", "-n", "2,3"), "takes 2 to 2 here, not 3"),
            (("--namespaces", "a,b", "--transport", "shm"), "only tcp connects"),
            (("--namespaces", "a"), '^tutti: simulate: --namespaces takes two or more, not "a" alone'),
        ):
            done = simulate("--calibrate", *words)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, why)
        done = simulate("--calibrate", "--namespaces", "tutti-none-a,tutti-none-b")
        self.assertNotEqual(done.code, 0, done)
        # Either rank may be the first to say it.
        self.assertSays(done.err, "^tutti: simulate: cannot enter the network namespace tutti-none-[ab]: No such file")
        self.assertNotIn("tune", done.err)

    def test_calls_between_hosts_are_measured_beside_what_is_foretold(self):
        if run(HOSTS, "1", "--once", "true").code == 3:
            self.skipTest("this process may not make network namespaces")
        done = run(HOSTS, "3", "--rate", "1gbit", "--once", harness.PROGRAM, "simulate", "--calibrate", "--namespaces",
                   "host0,host1,host2", "-n", "2,3", "--size", "1K,4M", limit=60)
        self.assertEqual(done.code, 0, done)
        trials = re.findall(rf"{TRIAL} ranks +(\w+): {TIMES}", done.out)
        self.assertEqual([trial[:3] for trial in trials],
                         [(name, n, size) for n in "23" for name in TRIED for size in ("1K", "4M")], done)
        self.assertSays(done.out, "each in a network namespace of its own", r"# Median error of these 12: \d+ %\.\n$")
        # Ranks of one network would be faster than these links, at each end of which 128 KiB may pass at once.
        self.assertGreater(float(trials[1][3]), (4 - 0.25) * 1024 * 1024 * 8 / 1e9 * 1e6, done)


class Parts(Case):
    def test_sizes_are_those_of_equal_parts(self):
        file = self.folder / "points.csv"
        for words in (["all_gather", "-n", "64", "--size", "200"], ["all_gather", "-n", "3", "--size", "1000"],
                      ["all_gather", "-n", "64", "--size", "63"], ["all_reduce", "-n", "64", "--size", "203"]):
            done = simulate(*words, "--algo", "ring", "--net", "100g", "--csv", file)
            self.assertEqual(done.code, 0, done)
            row, = csv.DictReader(file.read_text().splitlines())
            moved = {"200": 192, "1000": 996, "63": 0, "203": 203}[words[-1]]
            self.assertEqual(int(row["bytes"]), moved, row)
            self.assertEqual(float(row["bus_bytes_per_second"]) > 0, moved > 0, row)
            file.unlink()


class Refusal(Case):
    def test_what_is_wrong_is_said(self):
        broken = self.folder / "broken.net"
        broken.write_text("name x\nlink far 1 0ns 1GB/s\n")
        unknown = self.folder / "unknown.net"
        unknown.write_text("name x\nbandwidth 3GB/s\n")
        for arguments, words in (
            (("all_reduce", "--algo", "rign"), r'no algorithm "rign" .*mean "ring"'),
            (("all_reduce", "--net", "sumit"), r'cannot read the network file "sumit".*summit'),
            (("all_reduce", "--net", str(broken)), r"broken.net:2: the latency must be like"),
            (("all_reduce", "--net", str(unknown)), r'unknown.net:2: there is no keyword "bandwidth". There are: name, .*for\.\n$'),
            (("all_reduce", "-n", "0"), r"-n takes 1 to"),
            (("all_reduce", "-n", "2.7"), r'-n takes numbers .* not "2.7"'),
            (("all_reduce", "-n", "9-3"), r'"9-3" is not a range'),
            (("all_reduce", "--size", "much"), r"--size takes numbers"),
            (("all_reduce", "--size", "-4"), r'--size takes numbers such as 8, 64K or 8-1M, not "-4"'),
            (("all_reduce", "-n", "-4"), r'-n takes numbers .* not "-4"'),
            (("broadcast", "--root", "64", "-n", "64"), r"--root 64 is outside 0 to 63"),
            (("all_reduce", "--sice", "8"), r'no option "--sice".*--size'),
            (("--algo", "ring"), r"which collective"),
            (("--net", "100g"), r"--net needs a collective"),
            (("all_reduce", "--table", str(broken)), r"^tutti: simulate: --table belongs to --regret \("),
            (("all_reduce", "--namespaces", "a,b"), r"^tutti: simulate: --namespaces belongs to --calibrate \("),
            (("all_reduce", "--transport", "shm"), r"^tutti: simulate: --transport belongs to --calibrate \("),
            (("--print-net", "summitt"), r'mean "summit"'),
            (("--summit", "-n", "8"), r"begin with 96"),
            (("--summit", "--net", "100g"), r"^tutti: simulate: --net has no effect with --summit; leave one of them out \("),
            (("all_reduce", "--regret", "--csv", "x"), r"--csv has no effect with --regret"),
            (("all_reduce", "--regret", "--algo", "ring"), r"--algo has no effect with --regret"),
            (("--calibrate", "--net", "100g"), r"--net has no effect with --calibrate"),
            (("--print-net", "100g", "--svg", "x"), r"--svg has no effect with --print-net"),
            (("all_reduce", "--root", "1"), r"--root has no effect: all_reduce has no root"),
        ):
            done = simulate(*arguments)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, words)
        done = simulate("all_to_all", "--algo", "direct", "-n", "20000", "--size", "160000")
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, r"direct over 20000 ranks .* fewer ranks")


if __name__ == "__main__":
    harness.main()
