"""tutti bench --summary: its arithmetic, on rows that nobody measured."""

import math
import os
import re
import xml.etree.ElementTree

import harness
from harness import Case, tutti
from rival_stage import HEADER


class Summary(Case):
    def summary(self, *rows):
        lines = [HEADER]
        for transport, call, ranks, size, side, time, loop, *rest in rows:
            setting, probe = (list(rest) + ["s", 100][len(rest):])
            lines.append(f"{transport},{call},{ranks},{size},{size},{side},{setting},1,2,{time},1,1,{loop},0,9,0,{probe},"
                         f"{probe},")
        (self.folder / "rows.csv").write_text("\n".join(lines) + "\n")
        done = tutti("bench", "--summary", "--csv", self.folder / "rows.csv")
        self.assertEqual(done.code, 0, done)
        return done.out

    def test_a_file_without_rows_is_no_summary_and_is_not_made(self):
        rows = self.folder / "rows.csv"
        done = tutti("bench", "--summary", "--csv", rows)
        self.assertEqual((done.code, done.out, os.listdir(self.folder)), (6, "", []), done)
        self.assertSays(done.err, f"^tutti: bench: cannot read {rows}: no such file\n$")
        rows.touch()
        done = tutti("bench", "--summary", "--csv", rows)
        self.assertEqual((done.code, done.out, rows.read_text()), (6, "", ""), done)
        self.assertSays(done.err, f"^tutti: bench: cannot read {rows}: it is empty\n$")

    def test_means_worst_points_and_bars(self):
        out = self.summary(
            ("shm", "all_reduce", 2, 4, "tutti", 1, 50), ("shm", "all_reduce", 2, 4, "openmpi", 4, 50),
            ("shm", "all_reduce", 2, 4, "mpich", 2, 50), ("shm", "all_reduce", 2, 4, "limit", 0.5, 0.5),
            ("shm", "all_reduce", 2, 1024, "tutti", 2, 50), ("shm", "all_reduce", 2, 1024, "openmpi", 1, 50),
            ("shm", "broadcast", 2, 4, "tutti", 1, 50), ("shm", "broadcast", 2, 4, "openmpi", 8, 50),
            ("shm", "broadcast", 2, 64, "tutti", 9, 50))  # no peer: no ratio
        mean = math.prod((2, 0.5, 8)) ** (1 / 3)
        self.assertSays(out, rf"shm, 2 ranks, geometric mean +>= 1.50 +{mean:.2f} +3  met",
                        r"shm, worst point +>= 0.95 +0.50 +3  MISSED; worst: all_reduce, 2 ranks, 1 KiB, shm",
                        r"shm, 4 ranks, geometric mean +>= 1.70 +- +0  not measured", "3 points compared")
        self.assertNotIn("tcp", out)

    def test_rows_of_hosts_and_of_gpus_are_shown_unasked_and_have_no_bars(self):
        out = self.summary(*[(transport, "all_reduce", 2, 4, side, time, 50) for side, time in (("tutti", 1), ("gloo", 4))
                             for transport in ("hosts:2", "gpu")])
        self.assertSays(out, r"(?m)^ all_reduce +gpu +2 +4 B ", r"(?m)^ all_reduce +hosts:2 +2 +4 B ", "2 points compared",
                        "hosts:2, gloo", "gpu, gloo")
        self.assertNotRegex(out, "worst point|not measured")

    def test_a_picture_shows_sides_in_their_colours_and_names_as_they_are(self):
        sides = ("tutti", "nccl", "torch-symm", "limit", "<script>&")
        self.summary(*[("gpu", "all_reduce", 2, size, side, 1 + i, 50) for i, side in enumerate(sides) for size in (4, 64)])
        done = tutti("bench", "--summary", "--csv", self.folder / "rows.csv", "--svg", self.folder / "a.svg")
        self.assertEqual(done.code, 0, done)
        picture = xml.etree.ElementTree.parse(self.folder / "a.svg").getroot()
        named = {group.find("{*}text").text: group.get("fill") for group in picture.findall(".//{*}g") if group.get("fill")}
        self.assertEqual(set(named), set(sides))
        self.assertEqual(len({colour for side, colour in named.items() if side != "<script>&"}), 4, named)

    def test_options_select_rows_and_those_that_are_for_measuring_are_refused(self):
        rows = [("shm", call, ranks, size, side, time, 50) for side, time in (("tutti", 1), ("openmpi", 4))
                for call, ranks, size in (("all_reduce", 2, 4), ("all_reduce_inplace", 2, 5), ("broadcast", 4, 4096),
                                          ("reduce", 2, 2), ("reduce", 2, 256 << 20))]
        self.summary(*rows)
        for words, count in (([], 5), (["broadcast"], 1), (["all_reduce"], 2), (["-g", "4"], 1), (["-e", "1K"], 3),
                             (["-b", "5"], 3), (["-b", "1", "-e", "4K", "-f", "4"], 2), (["--transport", "shm"], 5),
                             (["-b", "128M"], 1), (["-e", "4"], 2), (["-e", "2"], 1), (["-b", "5", "-e", "5"], 1)):
            done = tutti("bench", "--summary", "--csv", self.folder / "rows.csv", *words)
            self.assertEqual(len([line for line in done.lines if re.match(r" \w+ +shm ", line)]), count, (words, done))
        for words, says in ((["--transport", "tcp"], "has no row of that kind"), (["gather"], "has no row of that kind"),
                            (["--against", "gloo"], "--against has no effect with --summary"),
                            (["--min-time", "1"], "--min-time has no effect with --summary")):
            done = tutti("bench", "--summary", "--csv", self.folder / "rows.csv", *words)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, says)

    def test_only_near_rows_count_and_medians_of_them(self):
        row = ("shm", "all_reduce", 2, 4)
        out = self.summary((*row, "openmpi", 3, 9), *[(*row, "tutti", t, 9) for t in (1, 2, 7)],
                           *[(*row, "tutti", 0.1, 9, "s", 500) for _ in range(3)],
                           (*row, "tutti", 0.2, 9, "s", 250))
        self.assertSays(out, r"shm, worst point +>= 0.95 +1.50 +1  met", "1 of them with fewer than 5 near rows")

    def test_torch_over_gloo_counts_beside_torch_over_tutti_where_tutti_alone_has_no_rows(self):
        row = ("shm", "all_reduce", 2, 4)
        out = self.summary((*row, "torch-gloo", 8, 9), (*row, "torch-tutti", 4, 9))
        self.assertSays(out, r"shm, 2 ranks, geometric mean +>= 1.50 +2.00 +1  met",
                        r"shm, to 1 MiB, geometric mean in torch +>= 5.00 +2.00 +1  MISSED",
                        r"shm, from 2 MiB, geometric mean in torch +>= 3.00 +- +0  not measured", "1 points compared, 1 of them with fewer than 5 near rows")

    def test_loops_count_where_ranks_outnumber_cores(self):
        row = ("tcp", "all_reduce", 4)
        out = self.summary((*row, 4, "tutti", 1, 10), (*row, 4, "openmpi", 99, 20), (*row, 4, "gloo", 99, 80),
                           (*row, 65536, "tutti", 10, 1), (*row, 65536, "gloo", 20, 1))
        self.assertSays(out, r"tcp, 4 ranks, geometric mean +>= 1.35 +2.00 +2  met",
                        r"tcp, worst point +>= 0.95 +2.00 +2  met")

    def test_calls_and_sizes_have_bars_of_their_own(self):
        out = self.summary(
            *[("shm", call, ranks, size, side, time, time) for side, time in (("tutti", 2), ("impi", 3), ("mpich", 4))
              for call, ranks, size in (("all_gather", 2, 16384), ("sendrecv", 2, 262144), ("gather", 4, 1 << 24))],
            ("shm", "sendrecv", 2, 1 << 14, "tutti", 2, 2), ("shm", "sendrecv", 2, 1 << 14, "impi", 2.1, 2))
        mean = math.prod((1.5, 1.5, 1.05)) ** (1 / 3)
        self.assertSays(out, rf"shm, 2 ranks, geometric mean +>= 1.50 +{mean:.2f} +3  MISSED",
                        r"shm, 4 ranks, geometric mean +>= 1.70 +1.50 +1  MISSED",
                        r"shm, worst point +>= 0.95 +1.05 +4  met; worst: sendrecv, 2 ranks, 16 KiB, shm",
                        r"shm, sendrecv, 2 ranks, 16 KiB to 256 KiB, worst point +>= 1.10 +1.05 +2  MISSED; worst: ",
                        r"shm, all_gather, 2 ranks, 16 KiB to 256 KiB, worst point +>= 1.10 +1.50 +1  met",
                        r"shm, alltoall, 2 ranks, 16 KiB to 256 KiB, worst point +>= 1.10 +- +0  not measured",
                        r"shm, gather, 16 MiB to 64 MiB, worst point +>= 1.00 +1.50 +1  met",
                        r"shm, 8 to 32 ranks, 4 B to 1 KiB, worst point +>= 0.83 +- +0  not measured")

    def test_distances_to_the_limit_have_bars(self):
        row = ("shm", "all_reduce", 2)
        out = self.summary(*[(*row, size, side, time, 9, setting) for size, tutti_takes in ((1 << 16, 4), (1 << 24, 5))
                             for side, setting, time in (("tutti", "free", tutti_takes), ("tutti", "allocated", 3),
                                                         ("openmpi", "as-shipped", 8), ("limit", "model", 2))])
        self.assertSays(out, r"shm, all_reduce, 2 ranks, from 64 KiB, most over the limit +<= 2.00 +2.50 +2  MISSED; "
                             r"worst: all_reduce, 2 ranks, 16 MiB, shm",
                        r"shm, all_reduce, 2 ranks, from 64 KiB, most over the limit, allocated +<= 2.00 +1.50 +2  met",
                        r"shm, 2 ranks, geometric mean +>= 1.50 +1.79 +2  met")


if __name__ == "__main__":
    harness.main()
