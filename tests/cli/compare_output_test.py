"""tutti bench --against: what its documents say where something is missing, foreign, or there twice."""

import csv
import io
import json

import harness
from harness import tutti
from rival_stage import Stage

ONE_POINT = ["broadcast", "-b", "64", "-e", "64"]


class Output(Stage):
    def test_a_side_without_a_figure_has_empty_cells_in_csv(self):
        self.side("openmpi", before="exit 9")
        done = self.bench(*ONE_POINT, "--repetitions", "1", "--format", "csv")
        rows = {row["side"]: row for row in csv.DictReader(io.StringIO(done.out))}
        names = ("setting", "us", "least_us", "most_us", "rows")
        self.assertEqual([rows["openmpi"][name] for name in names], [""] * 5, done)
        self.assertEqual([rows["tutti"][name] for name in names[1:]], ["2.0000", "2.0000", "2.0000", "1"], done)

    def test_json_takes_text_in_any_encoding(self):
        self.side("openmpi", before=r"printf 'caf\351' >&2; exit 9")
        done = self.bench(*ONE_POINT, "--repetitions", "1", "--format", "json")
        point = json.loads(done.out)["points"][0]
        self.assertEqual(point["sides"]["openmpi"]["trouble"], "exit code 9: caf\ufffd", done)

    def test_a_point_with_rows_of_one_core_beside_others_counts_once(self):
        rows = self.folder / "rows.csv"
        self.bench(*ONE_POINT, "--repetitions", "1", "--csv", rows)
        for name, time in (("self", "2.0"), ("limit", "1.0"), ("openmpi", "9.0")):
            self.side(name, time, probes="0 0")
        self.bench(*ONE_POINT, "--repetitions", "2", "--csv", rows)
        self.assertEqual({row["probe_before_ns"] for row in self.rows()}, {"0.0", "100.0"})
        done = tutti("bench", "--summary", "--csv", rows)
        self.assertSays(done.out, "shm, 2 ranks, geometric mean +>= 1.50 +1.50 +1  met", "# 1 points compared")


if __name__ == "__main__":
    harness.main()
