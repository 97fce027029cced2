"""tutti bench kernels: real runs in the caches, read back, and what it refuses."""

import json

import harness
from harness import Case, tutti


def rows(done):
    return [line.split() for line in done.lines if line[:1] == " "]


class Kernels(Case):
    QUICK = ["--repetitions", "1", "--min-time", "0.0001", "--sizes", "4K,64K"]

    def test_every_supported_pair_has_a_row_with_a_rate_and_a_ratio_per_size(self):
        done = tutti("bench", "kernels", *self.QUICK)
        self.assertEqual(done.code, 0, done)
        pairs = {(row[0], row[1]) for row in rows(done)}
        self.assertEqual(len(pairs), len(rows(done)), done)
        # 8 integers with 7 ops and the division, bool with 7, 4 floats with 6, 2 complex types with 4.
        self.assertEqual(len(pairs), 8 * 8 + 7 + 4 * 6 + 2 * 4, done)
        for row in rows(done):
            self.assertEqual(len(row), 2 + 2 * 2, row)
            self.assertTrue(all(float(figure) >= 0 for figure in row[2:]), row)
            # Without optimisation, on a busy machine, a rate may be less than the last digit printed.
            if not harness.is_sanitized():
                self.assertGreater(float(row[2]), 0, row)

    def test_every_form_as_csv_and_json(self):
        for form, sources in (("in-place", 2), ("apart", 2), ("fold", 5)):
            chosen = ["-d", "float,i8", "-o", "sum,max", "--form", form, "--sources", "5", *self.QUICK]
            lines = tutti("bench", "kernels", "--format", "csv", *chosen).lines
            self.assertEqual(lines[0], "isa,form,sources,type,redop,size,GB/s,copy GB/s,ratio")
            table = [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
            self.assertEqual([(row["type"], row["redop"], row["size"]) for row in table],
                             [(kind, op, size) for kind in ("float", "int8") for op in ("sum", "max")
                              for size in ("4096", "65536")])
            for row in table:
                self.assertEqual((row["form"], row["sources"]), (form, str(sources)))
                # One repetition: the median ratio is that of the two rates.
                ratio = float(row["ratio"])
                self.assertAlmostEqual(float(row["GB/s"]) / float(row["copy GB/s"]), ratio, delta=0.05 * ratio + 0.01)
            document = json.loads(tutti("bench", "kernels", "--format", "json", *chosen).out)
            self.assertEqual((document["form"], document["sources"]), (form, sources))
            self.assertEqual([(row["type"], row["redop"], str(row["size"])) for row in document["results"]],
                             [(row["type"], row["redop"], row["size"]) for row in table])

    def test_the_instruction_set_is_the_one_asked_for(self):
        for more, env in ((["--isa", "generic"], {}), ([], {"TUTTI_ISA": "generic"})):
            done = tutti("bench", "kernels", "-d", "float", "-o", "sum", "--format", "csv", *self.QUICK, *more, env=env)
            self.assertTrue(done.lines[1].startswith("generic,"), done)

    def test_what_it_cannot_do_is_said(self):
        for words, code, says in ((["-d", "flaot"], 6, 'no data type "flaot". Did you mean "float"?'),
                                  (["--sizes", "100"], 6, "multiples of 64"),
                                  (["--form", "sideways"], 6, "sideways"),
                                  (["--isa", "avx-2"], 6, 'Did you mean "avx2"?'),
                                  (["-d", "float", "-o", "band"], 5, "nothing of form in-place"),
                                  (["--isa", "generic", "--form", "streaming"], 5, "nothing of form streaming"),
                                  (["--sizes", "1024G"], 5, "do not fit into")):
            done = tutti("bench", "kernels", *words)
            self.assertEqual(done.code, code, done)
            self.assertIn(says, done.err)


if __name__ == "__main__":
    harness.main()
