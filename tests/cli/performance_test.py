"""docs/performance: pages and pictures are what tools/performance_pages makes of the rows that lie beside them. Texts
that people write tell the same figures."""

import pathlib
import re
import shutil

import harness
from harness import Case, run
from rival_stage import HEADER

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ROOT / "docs/performance"
SCRIPT = ROOT / "tools/performance_pages"


class Performance(Case):
    def test_pages_and_pictures_are_made_of_the_rows_beside_them(self):
        if harness.is_sanitized():
            self.skipTest("minutes, for nothing that shorter tests do not run, too")
        made = self.folder / "made"
        made.mkdir()
        shutil.copy(PAGES / "grid.csv", made)
        done = run(SCRIPT, made, harness.PROGRAM, limit=120)
        self.assertEqual(done.code, 0, done)
        names = sorted(path.name for path in PAGES.iterdir() if path.name != "notes.md")  # written by people
        self.assertEqual(sorted(path.name for path in made.iterdir()), names)
        for name in names:
            self.assertTrue((made / name).read_bytes() == (PAGES / name).read_bytes(),
                            f"{name} is not what tools/performance_pages makes: run it, and look at what changed")

    def test_it_says_how_it_is_used_and_what_is_missing(self):
        self.assertSays(run(SCRIPT, "--help").err, "FOLDER/grid.csv")
        done = run(SCRIPT, self.folder, harness.PROGRAM)
        self.assertNotEqual(done.code, 0)
        self.assertSays(done.err, "grid.csv")
        self.assertNotIn("Traceback", done.err)
        row = "shm,broadcast,2,64,64,tutti,free,1,2,0,0,0,0,0,0,0,0,0,killed"
        (self.folder / "grid.csv").write_text(f"{HEADER}\n{row}\n")
        self.assertSays(run(SCRIPT, self.folder, harness.PROGRAM).err, "grid.csv: tutti itself failed at a point")


class Figures(Case):
    """In README.md and docs/performance.md."""

    points = (PAGES / "README.md").read_text()

    def standing(self, transport, who):
        """Of a library: points, geometric mean, the least ratio, and how many are below 1."""
        number, ratio = r" +(\d+)", r" +(\d+\.\d\d)"
        found = re.search(f"^# {transport}, {who}.*?{number}{ratio}{ratio}{number}  ", self.points, re.MULTILINE)
        self.assertTrue(found, (transport, who))
        return found.groups()

    def test_the_front_page_tells_what_the_summary_tells(self):
        text = " ".join((ROOT / "README.md").read_text().split())
        (count, intel, _, _), (_, mpi, _, _), (_, best, _, lost) = (
            self.standing("shm", who) for who in ("impi", "openmpi5", "the best"))
        for part in (f"Intel MPI 2021.19 takes {intel} times", f"Open MPI 5.0.11 takes {mpi} times",
                     f"point {best} times", f"of {count} points", f"At {lost} points one"):
            self.assertTrue(part in text, part)
        (count, intel, _, _), (_, mpi, _, _), (_, best, _, lost) = (
            self.standing("tcp", who) for who in ("impi", "openmpi5", "the best"))
        part = f"Over TCP it is {intel}, {mpi} and {best} times, and they are faster at {lost} of {count} points"
        self.assertTrue(part in text, part)

    def test_tables_have_the_times_and_ratios_of_the_pages(self):
        known, transport, call = {}, None, None
        for line in self.points.splitlines():
            if line.startswith("## "):
                call = line[3:]
            transport = {"Over shared memory:": "shm", "Over TCP over loopback:": "tcp"}.get(line, transport)
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) == 11 and cells[2] in ("single", "loop"):
                known[transport, call, cells[0], cells[1]] = f"{cells[3]} ({cells[8]})"
        names = {"in place": "all_reduce_inplace", "all_to_all": "alltoall", "send and receive": "sendrecv"}
        told, sizes = 0, []
        text = (ROOT / "docs/performance.md").read_text()
        for transport, part in (("shm", "Shared memory"), ("tcp", "TCP")):
            for line in text.split(f"\n## {part}\n")[1].split("\n## ")[0].splitlines():
                cells = [cell.strip() for cell in line.split("|")[1:-1]]
                if cells[:2] == ["ranks", "call"]:
                    sizes = cells[2:]
                elif len(cells) > 2 and len(cells) == len(sizes) + 2 and cells[0].isdigit():
                    for size, cell in zip(sizes, cells[2:]):
                        is_barrier = cells[1] == "barrier"
                        point = (transport, names.get(cells[1], cells[1]), cells[0], "" if is_barrier else size)
                        if not is_barrier or size == sizes[0]:
                            self.assertEqual(cell, known.get(point), point)
                            told += 1
        self.assertEqual(told, len(known))
        for transport, part in (("shm", "Shared memory"), ("tcp", "TCP")):
            count, best, least, lost = self.standing(transport, "the best")
            intel, mpi = (self.standing(transport, who)[1] for who in ("impi", "openmpi5"))
            row = f"| all | {count} | {intel} | {mpi} | **{best}** | {lost} | {least} |"
            self.assertTrue(row in text.split(f"\n## {part}\n")[1], row)
        told = text.split("## Where tutti is slower")[1]
        for point, figure in known.items():
            ratio = figure[figure.index("(") + 1 : -1]
            self.assertTrue(float(ratio) > 0.95 or ratio in told, (point, ratio))

    def test_points_across_hosts_where_tutti_is_slower_are_told(self):
        text = (ROOT / "docs/performance.md").read_text()
        told = text.split("## Where tutti is slower")[1].splitlines()
        sizes, slower = [], []
        for line in text.split("\n## Across hosts\n")[1].split("\n## ")[0].splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if cells[:2] == ["hosts", "call"]:
                sizes = cells[2:]
            elif cells and cells[0].isdigit():
                for size, cell in zip(sizes, cells[2:]):
                    ratio = re.search(r"\((\d+\.\d\d)\)$", cell)
                    if ratio and float(ratio.group(1)) <= 0.95:
                        slower.append((f"{cells[0]} hosts", cells[1], size, ratio.group(1)))
        self.assertTrue(sizes)
        for point in slower:
            self.assertTrue(any(all(re.search(rf"\b{word}\b", row) for word in point) for row in told), point)


if __name__ == "__main__":
    harness.main()
