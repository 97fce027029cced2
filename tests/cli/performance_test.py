"""docs/performance: pages and pictures are what tools/performance_pages makes of the rows that lie beside them."""

import pathlib
import shutil

import harness
from harness import Case, run

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


if __name__ == "__main__":
    harness.main()
