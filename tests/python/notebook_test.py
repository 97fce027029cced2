"""The notebook of examples/python: made of its cells, runs from beginning to end, and still prints what it shows.

Needs nbclient and ipykernel.
"""

import importlib.machinery
import importlib.util
import re
import unittest

import nbformat
from support import ROOT, Case

NOTEBOOK = ROOT / "examples/python/ring_all_reduce.ipynb"
SOURCE = ROOT / "examples/python/cells/ring_all_reduce.py"


def tool():
    """tools/notebook as a module."""
    loader = importlib.machinery.SourceFileLoader("notebook_tool", str(ROOT / "tools/notebook"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("notebook_tool", loader))
    loader.exec_module(module)
    return module


def shown(notebook):
    """What each cell printed or drew, but for times that were measured."""
    texts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            texts.append(output.get("text") or data.get("image/svg+xml") or data.get("text/plain"))
    return [re.sub(r" +[\d.]+ ms for", " - ms for", text) for text in texts]


class Notebook(Case):
    def setUp(self):
        self.committed = nbformat.read(NOTEBOOK, as_version=4)
        self.made = tool().notebook(SOURCE.read_text())

    def test_it_is_made_of_its_cells(self):
        nbformat.validate(self.committed)
        self.assertEqual(
            [(cell.cell_type, cell.source) for cell in self.committed.cells],
            [(cell.cell_type, cell.source) for cell in self.made.cells],
        )

    def test_it_runs_and_prints_what_it_shows(self):
        self.assertEqual(shown(tool().run(self.made)), shown(self.committed))

    def test_it_shows_what_it_is_about(self):
        texts = "\n".join(shown(self.committed))
        self.assertEqual(texts.count("<title>all_reduce by my_ring over 4 ranks</title>"), 1)
        self.assertEqual(texts.count("<title>all_reduce by ring over 4 ranks</title>"), 1)
        for words in (
            "lacking rank 0",
            "all four have numpy's sum: True",
            "the same steps: True",
            "my_ring - ms for 4 MB",
        ):
            self.assertIn(words, texts)

    def test_the_ring_takes_ten_lines(self):
        ring = re.search(r"^@pytutti.*?(?=\n\n)", SOURCE.read_text(), re.M | re.S)[0]
        self.assertEqual(len(ring.splitlines()), 11)  # with the decorator


if __name__ == "__main__":
    unittest.main(verbosity=2)
